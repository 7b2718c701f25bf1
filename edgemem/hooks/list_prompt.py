"""The prompts of a loop that keeps a list of its own, made of that list at each call of its model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from edgemem.context.messages import is_spoken
from edgemem.hooks.adapter import LoopAdapter
from edgemem.hooks.forms import Form, read_items, written
from edgemem.hooks.loop_list import key_of
from edgemem.records import Heard, Message, Session
from edgemem.session.conversation import Conversation, Speaker
from edgemem.session.points import BEFORE_LLM, TurnContext


class ListPrompt:
    """What a model reads in place of its loop's list, which stays the loop's own; a newest user message that is new opens a turn."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self._adapter = LoopAdapter(conversation.log, conversation=conversation)
        self._ctx = TurnContext(Session())

    def make(
        self,
        items: Sequence[Any],
        *,
        form: Form = "chat",
        speaker: Speaker = msgspec.UNSET,
        audience: Iterable[str] = (),
        private: bool = False,
        heard: Heard | None = None,
    ) -> list[Any]:
        """Return what the model reads, each message as an item of the form; those that memory leaves as they are, are the list's own.

        Args:
            items: the list, with its instructions; nothing of it is changed.
            speaker: whose the newest user message is, where it opens a turn; as in `Conversation.turn`, like the others.

        Raises:
            InvalidInputError: an item is of another form.
        """
        parts = read_items(items, form)
        # What no message follows, such as a handoff, is nothing that was said.
        said = [part for part in parts if part.message]
        messages = [part.message for part in said]
        ctx, self._adapter.speaker = self._ctx, speaker
        ctx.audience, ctx.private, ctx.heard = tuple(audience), private, heard
        ctx.session.messages[:] = messages
        hop = 0 if messages and is_spoken(messages[-1]) else 1
        made = self._adapter.act(BEFORE_LLM, ctx, {"messages": messages, "hop": hop})
        view = messages if made is None or made.is_end else made.payload["messages"]
        rest = [item for part in parts[len(said) :] for item in part.items]
        return [*written(view, said, form, _is_same), *rest]


def _is_same(older: Message, newer: Message) -> bool:
    return older is newer or older == newer or key_of(older) == key_of(newer)
