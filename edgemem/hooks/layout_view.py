"""LayoutHook: hands the model what the present listener may read, and keeps what was shown where it was."""

from __future__ import annotations

from typing import Any

from edgemem.hooks.conversation import Conversation, conversation_of
from edgemem.hooks.points import BEFORE_LLM, ON_RUN_START, HookResult


class LayoutHook:
    """Put the layout's view in place of the loop's message list.

    A hook of its own, because a failing hook is skipped: when recall fails, the turn goes on with what this one left,
    and not with the loop's raw list, in which other people's private turns stand. It guards that, so it fails closed.
    """

    points = frozenset({ON_RUN_START, BEFORE_LLM})
    # Before everything that adds to the prompt.
    priority = 85
    fail_closed = True

    def __init__(self, *, speaker: str | None = None, conversation: Conversation | None = None) -> None:
        self.speaker = speaker
        self._conversation = conversation

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Open the turn, and lay out its prompt."""
        conversation = conversation_of(ctx, self._conversation)
        if point == ON_RUN_START or conversation.layout.running is None:
            conversation.begin(ctx, payload, speaker=self.speaker)
        if point == ON_RUN_START:
            return None
        layout = conversation.layout
        layout.take(payload["messages"])
        shown = {"messages": layout.view(), "now": layout.epoch.started_at or None}
        return HookResult.replace({**payload, **shown}, reason="layout")
