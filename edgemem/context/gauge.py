"""The gauge: how large a prompt is, counted exactly only when that can matter.

Counting renders the whole prompt, which costs some milliseconds. A prompt that extends one that was counted has at
most as many tokens more as its new text has bytes, and in practice no more than twice the estimate for the dearest of
the large vocabularies; so while that is far below the limit nothing is counted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from edgemem.llama.estimate import EstimateTokenizer
from edgemem.llama.template import text_of

if TYPE_CHECKING:
    from edgemem.llama.protocols import Tokenizer
    from edgemem.records import Message

DEAREST = 2.2
"""Vocabularies of 32,000 tokens need up to twice the estimate outside of English (`llama.estimate`)."""
MARKERS = 40
"""More tokens than the templates at hand put around a message (up to 34, counted with qwen2's vocabulary)."""
CALL_MARKERS = 100
"""The same for a tool call (85) and a tool's result (69)."""


class Gauge:
    """Measures the prompts of one conversation."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._messages: list[Message] = []
        self._tools: Sequence[dict[str, Any]] | None = None
        self._tokens = 0
        self.exact = False
        """Whether the newest figure was counted."""

    def tokens(
        self, messages: Sequence[Message], *, tools: Sequence[dict[str, Any]] | None, limit: float
    ) -> int:
        """Return the prompt's tokens: exactly, or an upper bound that is not above `limit`."""
        known = len(self._messages)
        if known and tools == self._tools and list(messages[:known]) == self._messages:
            bound = self._tokens + sum(at_most(message) for message in messages[known:])
            if bound <= limit:
                self.exact = False
                return bound
        self.exact = True
        self._messages, self._tools = list(messages), tools
        self._tokens = self._tokenizer.count(messages, tools=tools)
        return self._tokens


_ESTIMATE = EstimateTokenizer()


def at_most(message: Message) -> int:
    """Return tokens that a message hardly exceeds: its bytes, or 2.2 times the estimate, which is no proof but held so far."""
    size = _text_at_most(text_of(message))
    around = CALL_MARKERS if message.get("role") == "tool" else MARKERS
    calls = message.get("tool_calls") or ()
    return size + sum(len(json.dumps(call, default=str)) + CALL_MARKERS for call in calls) + around


@lru_cache(maxsize=512)  # the messages since the last count are looked at again at every hop
def _text_at_most(text: str) -> int:
    return min(len(text.encode(errors="replace")), int(DEAREST * len(_ESTIMATE.encode(text))) + 1)
