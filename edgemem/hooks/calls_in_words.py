"""Calls that a model wrote as text: as memory keeps them, and as the model is told what came of them.

A framework may tell their results in the person's name, with an order behind them. Nobody said that, so memory keeps calls
and results. The templates of such models may have no role for results: the model is told them in the user's place all the
same, word for word in every later prompt.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from edgemem.llama.template.chat_template import text_of
from edgemem.records import Message

IN_WORDS = "in-words-"
"""How the ids of such calls begin."""

_ASKING: Message = {"role": "assistant", "content": ""}


class ToldInWords(dict[str, Any]):
    """A message that tells a model the results of its calls, and knows them."""

    def __init__(self, calls: list[Any], results: list[Message]) -> None:
        lines = [f"{result.get('name') or 'tool'} -> {text_of(result)}" for result in results]
        super().__init__(role="user", content="\n".join(["<tool_response>", *lines, "</tool_response>"]))
        self.calls, self.results = calls, results


def told_in_words(outcomes: Sequence[Any], hop: int) -> ToldInWords:
    """Return the message for what the tools of a hop answered."""
    calls, results = [], []
    for n, outcome in enumerate(outcomes):
        name = f"{IN_WORDS}{hop}-{n}"
        calls.append(
            {
                "id": name,
                "type": "function",
                "function": {"name": outcome.name, "arguments": _json(outcome.arguments)},
            }
        )
        answer = (
            {"ok": True, "result": outcome.result} if outcome.ok else {"ok": False, "error": outcome.error}
        )
        results.append({"role": "tool", "tool_call_id": name, "name": outcome.name, "content": _json(answer)})
    return ToldInWords(calls, results)


def inward(messages: Iterable[Message]) -> list[Message]:
    """Return messages of a loop as memory keeps them."""
    inner: list[Message] = []
    for message in messages:
        if isinstance(message, ToldInWords):
            asking = inner.pop() if inner and inner[-1].get("role") == "assistant" else _ASKING
            inner += [{**asking, "tool_calls": message.calls}, *message.results]
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
            outer.append(ToldInWords(calls, results))
        asked = message.get("tool_calls") or ()
        in_words = asked and all(str(call.get("id")).startswith(IN_WORDS) for call in asked)
        calls, results = list(asked) if in_words else [], []
        outer.append(
            {key: value for key, value in message.items() if key != "tool_calls"} if in_words else message
        )
    return [*outer, ToldInWords(calls, results)] if results else outer


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
