"""Calls of tools that a model wrote as text, as some models do.

A framework may tell a model the results of such calls in the person's name, with an order behind them. Nobody said that, so
memory keeps calls and results (`inward`). The templates of such models may have no role for results: the model is told them
in the user's place all the same, word for word in every later prompt (`outward`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from edgemem.records import Message, text_of
from edgemem.session.points import as_text

IN_WORDS = "in-words-"
"""How the ids of such calls begin."""

_CALLER: Message = {"role": "assistant", "content": ""}


class ResultsInWords(dict[str, Any]):
    """A message that tells a model the results of its calls, and knows them."""

    def __init__(self, calls: list[Any], results: list[Message]) -> None:
        lines = [f"{result.get('name') or 'tool'} -> {text_of(result)}" for result in results]
        super().__init__(role="user", content="\n".join(["<tool_response>", *lines, "</tool_response>"]))
        self.calls, self.results = calls, results


def results_in_words(outcomes: Sequence[Any], hop: int) -> ResultsInWords:
    """Return the message for what the tools of a hop answered."""
    calls, results = [], []
    for n, outcome in enumerate(outcomes):
        name = f"{IN_WORDS}{hop}-{n}"
        calls.append(
            {
                "id": name,
                "type": "function",
                "function": {"name": outcome.name, "arguments": as_text(outcome.arguments)},
            }
        )
        answer = (
            {"ok": True, "result": outcome.result} if outcome.ok else {"ok": False, "error": outcome.error}
        )
        results.append(
            {"role": "tool", "tool_call_id": name, "name": outcome.name, "content": as_text(answer)}
        )
    return ResultsInWords(calls, results)


def inward(messages: Iterable[Message]) -> list[Message]:
    """Return messages of a loop as memory keeps them."""
    inner: list[Message] = []
    for message in messages:
        if isinstance(message, ResultsInWords):
            caller = inner.pop() if inner and inner[-1].get("role") == "assistant" else _CALLER
            inner += [{**caller, "tool_calls": message.calls}, *message.results]
        else:
            inner.append(message)
    return inner


def outward(messages: Iterable[Message]) -> list[Message]:
    """Return messages as such a model can read them."""
    outer: list[Message] = []
    calls: list[Any] = []
    results: list[Message] = []
    for message in messages:
        if calls and message.get("role") == "tool":
            results.append(message)
            continue
        if results:
            outer.append(ResultsInWords(calls, results))
        message_calls = message.get("tool_calls") or ()
        in_words = message_calls and all(str(call.get("id")).startswith(IN_WORDS) for call in message_calls)
        calls, results = list(message_calls) if in_words else [], []
        outer.append(
            {key: value for key, value in message.items() if key != "tool_calls"} if in_words else message
        )
    return [*outer, ResultsInWords(calls, results)] if results else outer
