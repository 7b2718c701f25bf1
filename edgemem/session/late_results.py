"""Late results: of tools that answered after the turn of their call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from edgemem.context.messages import call_name, tool_calls
from edgemem.context.prompt import PromptTurn, turn_of
from edgemem.records import Message, Turn, text_of
from edgemem.store.erase.copies import Erased, without_copies
from edgemem.store.messages import stored_message
from edgemem.store.thoughts import UNSAID
from edgemem.store.turn_steps import KeepOutput


class LateResult(msgspec.Struct, frozen=True):
    """The result of a tool that answered after the turn of its call."""

    call: dict[str, Any]
    text: str
    turn: PromptTurn
    """All who may read this turn of the call may be told the result."""
    outputs: tuple[KeepOutput, ...] = ()
    """The whole text, where that is shortened."""

    @property
    def messages(self) -> list[Message]:
        """Return the call and its result, as a model reads them behind an utterance."""
        result = {"role": "tool", "tool_call_id": self.call.get("id"), "name": call_name(self.call)}
        return [
            {"role": "assistant", "content": None, "tool_calls": [self.call]},
            {**result, "content": self.text},
        ]

    def without(self, erased: Erased) -> LateResult:
        """Return it without a fact that was forgotten."""
        called, result = (
            stored.as_message() for stored in without_copies([*map(stored_message, self.messages)], [erased])
        )
        return LateResult(tool_calls(called)[0], text_of(result), self.turn)


def unread_results(turns: Sequence[Turn], placed: Sequence[PromptTurn]) -> list[LateResult]:
    """Return the results that came behind the reply of their turn and that no later turn tells; `placed` are in the prompt."""
    of_prompt = {turn.n: turn for turn in placed}
    unread: list[LateResult] = []
    for turn in turns:
        messages = [stored.as_prompted() for stored in turn.messages]
        for message in messages:
            call_id, text = message.get("tool_call_id"), text_of(message)
            same = (late for late in unread if late.call.get("id") == call_id)
            read = next((late for late in same if late.text == text or UNSAID in text), None)
            if read is not None:
                unread.remove(read)
        unread += results_behind(messages, of_prompt.get(turn.n) or turn_of(turn))
    return unread


def results_behind(messages: Sequence[Message], turn: PromptTurn) -> list[LateResult]:
    """Return the results of a turn that came behind its reply."""
    calls: dict[str, dict[str, Any]] = {}
    ended: dict[str, dict[str, Any]] = {}
    late: list[LateResult] = []
    for message in messages:
        call_id = str(message.get("tool_call_id") or "")
        if message.get("role") == "assistant":
            late = []  # this reply was made with them
        if called := tool_calls(message):
            calls.update((str(call.get("id")), call) for call in called)
        elif message.get("role") == "assistant":
            ended, calls = {**ended, **calls}, {}
        elif message.get("role") == "tool" and call_id in ended and call_id not in calls:
            late.append(LateResult(ended[call_id], text_of(message), turn))
    return late
