"""What comes from other frameworks: hooks that were written for EdgeVox, and calls that their models wrote as text.

A framework may tell a model the results of such calls in the person's name, with an order behind them. Nobody said that, so
memory keeps calls and results (`inward`). The templates of such models may have no role for results: the model is told them
in the user's place all the same, word for word in every later prompt (`outward`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from edgemem.errors import InvalidInputError
from edgemem.hooks.points import POINTS, Hook, HookResult
from edgemem.llama.template.chat_template import text_of
from edgemem.records import Message


class ForeignHook:
    """A hook that has no priority, or that names points of its own framework."""

    def __init__(self, hook: Any) -> None:
        """Wrap a hook; points that only its own framework has never come up here.

        Raises:
            InvalidInputError: none of its points exist here.
        """
        known = frozenset(hook.points) & POINTS
        if not known:
            named = ", ".join(sorted(map(str, hook.points))) or "none"
            raise InvalidInputError(
                f"{type(hook).__name__} acts at points that do not exist here ({named}); there are: {', '.join(sorted(POINTS))}"
            )
        self.hook = hook
        self.points = known
        self.priority = int(getattr(hook, "priority", 0) or 0)
        self.fail_closed = bool(getattr(hook, "fail_closed", False))
        self.name = getattr(hook, "name", None) or getattr(hook, "__name__", None) or type(hook).__name__

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Call the hook; the registry reads its answer whatever its class."""
        answer: HookResult | None = self.hook(point, ctx, payload)
        return answer


def adapted(hook: Any) -> Hook:
    """Return the hook itself where it has all that a registry needs, or one that stands for it."""
    return hook if isinstance(hook, Hook) and frozenset(hook.points) <= POINTS else ForeignHook(hook)


IN_WORDS = "in-words-"
"""How the ids of such calls begin."""

_CALLER: Message = {"role": "assistant", "content": ""}


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
                "function": {"name": outcome.name, "arguments": _as_json(outcome.arguments)},
            }
        )
        answer = (
            {"ok": True, "result": outcome.result} if outcome.ok else {"ok": False, "error": outcome.error}
        )
        results.append(
            {"role": "tool", "tool_call_id": name, "name": outcome.name, "content": _as_json(answer)}
        )
    return ToldInWords(calls, results)


def inward(messages: Iterable[Message]) -> list[Message]:
    """Return messages of a loop as memory keeps them."""
    inner: list[Message] = []
    for message in messages:
        if isinstance(message, ToldInWords):
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
            outer.append(ToldInWords(calls, results))
        message_calls = message.get("tool_calls") or ()
        in_words = message_calls and all(str(call.get("id")).startswith(IN_WORDS) for call in message_calls)
        calls, results = list(message_calls) if in_words else [], []
        outer.append(
            {key: value for key, value in message.items() if key != "tool_calls"} if in_words else message
        )
    return [*outer, ToldInWords(calls, results)] if results else outer


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
