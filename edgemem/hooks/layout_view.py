"""LayoutHook: hands the model what the present listener may read, and keeps what was shown where it was."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from itertools import takewhile
from typing import Any

import msgspec

from edgemem.hooks.conversation import Conversation, conversation_of
from edgemem.hooks.points import BEFORE_LLM, ON_RUN_START, HookResult
from edgemem.store.turn_steps import BeginEpoch, KeepHead


class LayoutHook:
    """Put the layout's view in place of the loop's message list.

    A hook of its own, because a failing hook is skipped: when recall fails, the turn goes on with what this one left,
    and not with the loop's raw list, in which other people's private turns stand. It guards that, so it fails closed.

    Other instructions or tools (the operator changed them, also while the robot was off; another agent took the
    conversation over) begin a new epoch: they stand before everything, so the model reads its whole prompt once, and a
    date in it may be today's.
    """

    points = frozenset({ON_RUN_START, BEFORE_LLM})
    # Before everything that adds to the prompt.
    priority = 85
    fail_closed = True

    def __init__(
        self,
        *,
        speaker: str | None = None,
        conversation: Conversation | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Make the hook.

        Args:
            speaker: who speaks where the loop does not say it.
            now: the wall time that a new epoch freezes, seconds since the epoch UTC.
        """
        self.speaker = speaker
        self._conversation = conversation
        self._now = now
        self._head: tuple[Any, str] = (None, "")
        """The instructions and tools of the newest prompt, and their hash."""

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Open the turn, and lay out its prompt."""
        conversation = conversation_of(ctx, self._conversation)
        if point == ON_RUN_START:
            conversation.begin(ctx, payload, speaker=self.speaker, by=self)
        elif conversation.layout.running is None:
            conversation.begin(ctx, payload, speaker=self.speaker)
        if point == ON_RUN_START:
            return None
        layout = conversation.layout
        layout.take(payload["messages"])
        if payload.get("hop", 0) == 0 and conversation is (self._conversation or conversation):
            self._look_at_head(conversation, payload)
        shown = {"messages": layout.view(), "now": layout.epoch.started_at or None}
        return HookResult.replace({**payload, **shown}, reason="layout")

    def _look_at_head(self, conversation: Conversation, payload: dict[str, Any]) -> None:
        messages = takewhile(lambda message: message.get("role") == "system", payload["messages"])
        head = (list(messages), payload.get("tools"))
        if head != self._head[0]:
            encoded = msgspec.json.encode(head, enc_hook=repr)
            self._head = (head, hashlib.sha256(encoded).hexdigest()[:32])
        layout, noted = conversation.layout, self._head[1]
        before = layout.epoch.head
        if before and before != noted and layout.turns:
            changed = {"reason": "instructions", "started_at": self._now(), "id": 0, "head": noted}
            as_of = conversation.newest_forgetting()
            epoch = conversation.scrubbed(layout.epoch, as_of)
            # What was carried may be out of date; what still holds is told anew.
            layout.switch(msgspec.structs.replace(epoch, carried=(), **changed))
            conversation.opening.append(BeginEpoch(layout.epoch, as_of))
        elif before != noted:
            layout.epoch = msgspec.structs.replace(layout.epoch, head=noted)
        conversation.also.append(KeepHead(layout.session, noted))
