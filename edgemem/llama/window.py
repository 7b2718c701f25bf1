"""The window: whether instructions and tools leave room for a conversation, told before the first word is said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.errors import ContextOverflowError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.llama.protocols import Tokenizer
    from edgemem.records import Message

UTTERANCE_TOKENS = 64
"""What one sentence of a person takes at least, and the answer to the one before it."""


def check_window(
    tokenizer: Tokenizer,
    *,
    instructions: str,
    tools: Sequence[dict[str, Any]] = (),
    window_tokens: int,
    reply_tokens: int,
    summary_tokens: int,
    block_tokens: int,
) -> int:
    """Return the smallest window that these instructions and tools can be used with, in tokens.

    Args:
        tools: schemas.
        window_tokens: the window there is; the others are what a turn needs of it.

    Raises:
        ContextOverflowError: the window is smaller than that.
    """
    asked: Message = {"role": "user", "content": "Hello."}
    head: list[Message] = [{"role": "system", "content": instructions}] if instructions else []
    fixed = tokenizer.count([*head, asked], tools=tools or None)
    turn = reply_tokens + summary_tokens + block_tokens + UTTERANCE_TOKENS
    least = fixed + turn
    if least <= window_tokens:
        return least
    what = "instructions and the tools" if tools else "instructions"
    raise ContextOverflowError(
        f"The {what} take {'' if tokenizer.exact else 'about '}{fixed:,} tokens and a turn needs {turn:,} (answer "
        f"{reply_tokens}, summary {summary_tokens}, memory {block_tokens}, what is said {UTTERANCE_TOKENS}), but the window "
        f"has {window_tokens:,}: give the model a window of at least {least:,} (`window_tokens` under [context]), shorten "
        f"the instructions{', or offer fewer tools' if tools else ''}."
    )
