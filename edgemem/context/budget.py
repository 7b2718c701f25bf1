"""The budget: which messages fit what a plan leaves for the prompt, counted in exact tokens."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from edgemem.context.grouping import repair_orphans, split_turns, tool_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from edgemem.llama.protocols import Tokenizer
    from edgemem.records import Message


class Fit(msgspec.Struct, frozen=True):
    """What of a message list goes to the model."""

    messages: list[Message]
    dropped_turns: int
    """How many of the oldest turns are left out; hand it to the next `fit` of the same conversation."""
    tokens: int
    """The whole prompt as rendered, tools and generation prompt included."""
    fits: bool
    note: str = ""
    """One sentence for the operator when something was left out or does not fit."""


def fit(
    messages: Sequence[Message],
    *,
    tokenizer: Tokenizer,
    budget_tokens: int,
    target_tokens: int | None = None,
    tools: Sequence[dict[str, Any]] | None = None,
    dropped_turns: int = 0,
) -> Fit:
    """Leave out the oldest whole turns until the prompt is within the budget.

    The instructions and the newest user message always stay, and with it what tools were asked and answered since; only
    where these alone are too large, the oldest calls of the turn go with their results, all but the newest. When that is
    not enough either, `fits` is false. The result starts with a user message and has no tool result without its
    call. Counts once when nothing must go, else about 2 log2(turns that stay) times.

    Args:
        messages: the conversation; neither it nor its messages are changed.
        budget_tokens: what the whole prompt may take.
        target_tokens: what to go down to when it is over budget (default: the budget). Every cut changes the
            start of the prompt and costs the model its cache, so few large cuts are cheaper than many small ones.
        dropped_turns: turns that an earlier call left out of this conversation; they stay out.
    """
    head, turns = split_turns(repair_orphans(messages))
    # A greeting in front of the first user message is legal only where nothing stands behind it.
    greeting = int(len(turns) > 1 and turns[0][0].get("role") != "user")
    newest = max(0, len(turns) - 1)

    def size(first: int) -> int:
        return tokenizer.count(_joined(head, turns[first:]), tools=tools)

    first = min(max(dropped_turns, greeting), newest)
    tokens = size(first)
    if tokens > budget_tokens and first < newest:
        first, tokens = _cut(
            size, first, newest, [min(target_tokens or budget_tokens, budget_tokens), budget_tokens]
        )
    stays = turns[first:]
    asked, steps = _steps(stays[-1]) if stays else ([], [])
    shorter = 0
    if tokens > budget_tokens and len(steps) > 1:

        def size_from(step: int) -> int:
            return tokenizer.count(_joined(head, [asked, *steps[step:]]), tools=tools)

        shorter, tokens = _cut(size_from, 0, len(steps) - 1, [budget_tokens])
        stays = [asked, *steps[shorter:]]
    note = ""
    if tokens > budget_tokens:
        note = _too_large(_joined([], stays), tokens, budget_tokens, exact=tokenizer.exact)
    elif shorter:
        note = f"Left out {shorter} of {len(steps)} calls of tools in the newest turn to stay within {budget_tokens:,} tokens."
    elif first > greeting:
        note = f"Left out the {first} oldest of {len(turns)} turns to stay within {budget_tokens:,} tokens."
    return Fit(_joined(head, stays), first, tokens, tokens <= budget_tokens, note)


def _steps(turn: Sequence[Message]) -> tuple[list[Message], list[list[Message]]]:
    """Return what a turn begins with, and its calls of tools, each with what follows it."""
    starts = [n for n, message in enumerate(turn) if tool_calls(message)]
    steps = [list(turn[start:end]) for start, end in pairwise([*starts, len(turn)])]
    return list(turn[: starts[0] if starts else len(turn)]), steps


def _cut(size: Callable[[int], int], too_early: int, newest: int, limits: Sequence[int]) -> tuple[int, int]:
    """Return the first turn to keep and the size then: the earliest within the first limit that can be met."""
    first, tokens = newest, size(newest)
    limit = next((limit for limit in limits if tokens <= limit), None)
    if limit is None:
        return first, tokens
    # A template may make a shorter list longer; so only a cut that was counted itself is ever returned. Growing
    # steps back from the newest turn count lists no longer than twice what stays, however long the history is.
    step, galloping = 1, True
    while first - too_early > 1:
        middle = max(first - step, too_early + 1) if galloping else (too_early + first) // 2
        counted = size(middle)
        if counted <= limit:
            first, tokens, step = middle, counted, 2 * step
        else:
            too_early, galloping = middle, False
    return first, tokens


def _joined(head: list[Message], turns: Sequence[list[Message]]) -> list[Message]:
    return [*head, *(message for turn in turns for message in turn)]


def _too_large(newest: Sequence[Message], tokens: int, budget: int, *, exact: bool) -> str:
    since = " and what the tools returned since" if len(newest) > 1 else ""
    return (
        f"The instructions and the newest user message{since} need {'' if exact else 'about '}{tokens:,} tokens, "
        f"{tokens - budget:,} more than the budget of {budget:,}: shorten them, offer fewer tools, or give the "
        "model a larger window."
    )
