"""The window: what a prompt that does not fit a model is told to do, by what of it is too large."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any

from edgemem.errors import ContextOverflowError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.llama.protocols import Tokenizer
    from edgemem.records import Message


def overflow(
    tokenizer: Tokenizer,
    messages: Sequence[Message],
    *,
    tools: Sequence[dict[str, Any]] | None,
    tokens: int,
    window_tokens: int,
    larger: str,
) -> ContextOverflowError:
    """Return what to raise for a prompt that has no room left for an answer.

    Args:
        tokens: of the whole prompt.
        larger: how the model gets a larger window.
    """
    said = f"The prompt has {tokens} tokens, the context window {window_tokens}"
    system = list(takewhile(lambda message: message.get("role") == "system", messages))
    head = tokenizer.count([*system, {"role": "user", "content": "Hello."}], tools=tools)
    if head >= window_tokens:
        what = " and the tools" if tools else ""
        fewer = ", offer fewer tools" if tools else ""
        return ContextOverflowError(
            f"{said}; the instructions{what} alone take {head}: shorten them{fewer}, or {larger}"
        )
    newest = max((n for n, message in enumerate(messages) if message.get("role") == "user"), default=0)
    turn = messages[max(newest, len(system)) :]
    alone = tokenizer.count([*system, *turn], tools=tools)
    if alone < window_tokens:
        return ContextOverflowError(f"{said}; compact the conversation or {larger}")
    since = " and what tools returned since" if len(turn) > 1 else ""
    return ContextOverflowError(
        f"{said}; what was said last{since} takes {alone} with the instructions: say it shorter, or {larger}"
    )
