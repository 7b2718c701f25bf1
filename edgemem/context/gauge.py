"""The gauge: how large a prompt is, counted exactly only when that can matter.

Counting renders the whole prompt, which costs some milliseconds. A prompt that extends one that was counted has at
most as many tokens more as its new text has bytes, and in practice no more than twice the estimate for the dearest of
the large vocabularies, beside the template's markers, which are measured; so while that is far below the limit nothing
is counted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.errors import TemplateError
from edgemem.llama.estimate import EstimateTokenizer
from edgemem.llama.template import text_of

if TYPE_CHECKING:
    from edgemem.llama.protocols import Tokenizer
    from edgemem.records import Message

DEAREST = 2.2
"""Vocabularies of 32,000 tokens need up to twice the estimate outside of English (`llama.estimate`)."""
MARGIN = 4
"""Tokens a message more than measured: where text and markers meet, tokens may fall otherwise than in the probes."""

_USER: Message = {"role": "user", "content": "cup"}
_REPLY: Message = {"role": "assistant", "content": "cup"}
_CALL: dict[str, Any] = {
    "id": "a1b2c3d4e",
    "type": "function",
    "function": {"name": "cup", "arguments": {"cup": "cup"}},
}
_CALLED: list[Message] = [
    {"role": "assistant", "content": "", "tool_calls": [_CALL]},
    {"role": "tool", "name": "cup", "tool_call_id": "a1b2c3d4e", "content": "cup"},
]


class Markers(NamedTuple):
    """How many tokens a template puts around things; these figures are above all templates at hand."""

    message: int = 40
    """Up to 34, counted with qwen2's vocabulary."""
    call: int = 160
    """Around a call and its result together: up to 85 and 69."""


def measure_markers(tokenizer: Tokenizer) -> Markers:
    """Count what the template puts around a message and a call, by rendering a few; takes a millisecond."""

    def count(messages: list[Message]) -> int:
        return tokenizer.count(messages)

    try:
        # The second pair, because templates put a system message of their own before the first.
        grown = [count([_USER, _REPLY] * n + [_USER]) for n in (1, 2)]
        message = (grown[1] - grown[0] + 1) // 2
        asked = count([_USER, _REPLY, _USER])
        call = count([_USER, _REPLY, _USER, *_CALLED]) - asked
    except TemplateError:
        return Markers()
    return Markers(message + MARGIN, call + MARGIN)


class Gauge:
    """Measures the prompts of one conversation."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._messages: list[Message] = []
        self._tools: Sequence[dict[str, Any]] | None = None
        self._tokens = 0
        self._markers: Markers | None = None
        self.exact = False
        """Whether the newest figure was counted."""

    def tokens(
        self, messages: Sequence[Message], *, tools: Sequence[dict[str, Any]] | None, limit: float
    ) -> int:
        """Return the prompt's tokens: exactly, or an upper bound that is not above `limit`."""
        known = len(self._messages)
        if known and tools == self._tools and list(messages[:known]) == self._messages:
            if self._markers is None:
                self._markers = measure_markers(self._tokenizer)
            bound = self._tokens + sum(at_most(message, self._markers) for message in messages[known:])
            if bound <= limit:
                self.exact = False
                return bound
        self.exact = True
        self._messages, self._tools = list(messages), tools
        self._tokens = self._tokenizer.count(messages, tools=tools)
        return self._tokens


def about(text: str) -> int:
    """Return about how many tokens a text takes, in less than a microsecond; for figures that decide nothing.

    A token takes 3 to 5 bytes of UTF-8 in all scripts that vocabularies of today were made for.
    """
    return (len(text.encode(errors="replace")) + 3) // 4


_ESTIMATE = EstimateTokenizer()


def at_most(message: Message, markers: Markers) -> int:
    """Return tokens that a message hardly exceeds: its bytes, or 2.2 times the estimate, which is no proof but held so far."""
    calls = [call.get("function") or {} for call in message.get("tool_calls") or ()]
    texts = [text_of(message), *(f"{call.get('name')} {_as_text(call.get('arguments'))}" for call in calls)]
    return sum(map(_text_at_most, texts)) + len(calls) * markers.call + markers.message


def _as_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, default=str)


@lru_cache(maxsize=512)  # the messages since the last count are looked at again at every hop
def _text_at_most(text: str) -> int:
    return min(len(text.encode(errors="replace")), int(DEAREST * len(_ESTIMATE.encode(text))) + 1)
