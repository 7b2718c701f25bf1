"""The size of a prompt in tokens, counted exactly only when that can matter.

Counting renders the whole prompt, which costs some milliseconds. A prompt that extends one that was counted has at
most as many tokens more as its new text has bytes, beside the template's markers, which are measured; so while that is
far below the limit nothing is tokenised. Else the new texts alone are, each once, and near the limit the whole is counted
when a turn is over. What idle time has measured of them (`TokenCache`) is known by then.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.errors import TemplateError
from edgemem.fence import CLOSE, is_fenced
from edgemem.llama.template.chat_template import text_of

if TYPE_CHECKING:
    from edgemem.llama.protocols import Tokenizer
    from edgemem.records import Message


MOST_TEXTS = 2048


class TokenCache:
    """Tokens of the newest texts, as one tokenizer counts them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._known: OrderedDict[tuple[int, int], int] = OrderedDict()

    def known(self, text: str) -> int | None:
        """Return what a text takes, if it was counted."""
        return self._known.get(_key(text))

    def of(self, text: str) -> int:
        """Return what a text takes."""
        key = _key(text)
        size = self._known.get(key)
        if size is None:
            size = len(self.tokenizer.encode(text))
            self._keep(key, size)
        return size

    def count(self, text: str) -> int:
        """Return what a text takes; a block before it that is known is not counted anew, and may share a token with it."""
        tokens = self.lookup(text)
        if tokens is not None:
            return tokens
        block, rest = self._apart(text)
        if block is None:
            return self.of(text)
        size = block + self.of(rest)
        self._keep(_key(text), size)
        return size

    def lookup(self, text: str) -> int | None:
        """Return what `count` does where nothing is left to tokenise for it, else None."""
        known = self.known(text)
        if known is None:
            block, rest = self._apart(text)
            behind = self.known(rest) if block is not None else None
            if block is not None and behind is not None:
                known = block + behind
                self._keep(_key(text), known)
        return known

    def upper_bound(self, text: str) -> int:
        """Return what a text does not exceed, and tokenise nothing: bytes stand for what was never counted."""
        known = self.lookup(text)
        if known is not None:
            return known
        block, rest = self._apart(text)
        return (block or 0) + len(rest.encode(errors="replace"))

    def note(self, text: str, tokens: int) -> None:
        """Keep what a text takes, as the parts that it is made of were counted."""
        self._keep(_key(text), tokens)

    def forget(self) -> None:
        """Keep nothing."""
        self._known.clear()

    def _apart(self, text: str) -> tuple[int | None, str]:
        """Return what the block before a text takes, if that is known, and what stands behind it."""
        if not is_fenced(text):
            return None, text
        end = text.index(CLOSE) + len(CLOSE)
        block = self.known(text[:end])
        return block, text if block is None else text[end:]

    def _keep(self, key: tuple[int, int], size: int) -> None:
        self._known[key] = size
        if len(self._known) > MOST_TEXTS:
            self._known.popitem(last=False)


def _key(text: str) -> tuple[int, int]:
    # Python keeps the hash of a text with it, and it says as little of the words as any other.
    return hash(text), len(text)


SPELT = 2
"""A template is given special tokens spelt as words, with one space each: of the 19 vocabularies at hand, none takes more
tokens more for one."""
MARGIN = 4
"""Tokens a message more than measured: where text and markers meet, tokens may fall otherwise than in the probes."""

_SMALL = 0.8
"""Share of the limit up to which the bytes of new texts stand for their tokens: looking at them costs nothing. From there
on the end of a turn prepares for a prompt that does not fit."""
_FAR = 0.9
"""Share of the limit up to which a turn's end counts nothing: one turn does not take the rest."""
_UNCOUNTED = 0.5
"""Share of the limit that may be added without a count: of texts that are tokenised the bound is some percent too high."""

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


class PromptSize:
    """Measures the prompts of one conversation; of their texts it keeps sizes and no words."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.cache = TokenCache(tokenizer)
        """Tokens of single texts; other code that counts such texts may share it."""
        self._messages: list[Message] = []
        self._tools: Sequence[dict[str, Any]] | None = None
        self._tokens = 0
        self._head: tuple[list[Message], Sequence[dict[str, Any]] | None, int] | None = None
        self._markers: Markers | None = None
        self._behind: list[tuple[Message, int]] = []
        """Messages behind what was counted, from the first on, with what each takes at most."""
        self.exact = False
        """Whether the newest figure was counted."""

    def tokens(
        self, messages: Sequence[Message], *, tools: Sequence[dict[str, Any]] | None, limit: float
    ) -> int:
        """Return the prompt's tokens: exactly, or an upper bound that is not above `limit`."""
        bound = self.bound(messages, tools=tools, limit=limit)
        if bound is not None and bound <= limit:
            return bound
        self._count(messages, messages, tools)
        return self._tokens

    def bound(
        self, messages: Sequence[Message], *, tools: Sequence[dict[str, Any]] | None, limit: float
    ) -> int | None:
        """Return tokens that the prompt does not exceed, without rendering it; None where it must be counted.

        Above `limit` it is some tokens too high for each message since the newest count: their texts are tokenised.
        """
        self.exact = False
        known = self._known(messages, tools)
        if known is None:
            return None
        tokens, rest = self._with_cached(*self._with_measured(*known))
        bound = self._sum(tokens, rest, self._cached_or_bytes)
        # Bytes are about four times the tokens: fit to say that a prompt is small, and no more.
        if bound > _SMALL * limit:
            bound = self._measure(tokens, rest)
        # For many messages that were never counted together it is too high to decide anything.
        return bound if bound <= limit or self._known_prefix(messages, tools) else None

    def settle(
        self, messages: Sequence[Message], *, tools: Sequence[dict[str, Any]] | None, limit: float
    ) -> int | None:
        """Measure ahead what the next prompt begins with, when a turn is over; return its tokens if they were counted.

        Args:
            messages: the prompt up to the end of the newest reply; a stand-in for the next question is counted with it.
            limit: a prompt that is far below it is not counted.
        """
        system = _system(messages)
        if self._head is None or self._head[:2] != (system, tools):
            self._head = system, tools, self._tokenizer.count([*system, _USER], tools=tools)
        tokens, new = self._known(messages, tools) or (0, messages)
        # The size of each text is needed later, whatever stands before it then.
        bound = self._measure(*self._with_measured(tokens, new))
        near = bound > _FAR * limit or bound - tokens > _UNCOUNTED * limit
        if self._known_prefix(messages, tools) and not near:
            return None
        self._count([*messages, _USER], messages, tools)
        return self._tokens

    def forget(self) -> None:
        """Keep nothing of texts that were measured ahead."""
        self.cache.forget()
        self._behind = []

    def _count(
        self,
        counted: Sequence[Message],
        messages: Sequence[Message],
        tools: Sequence[dict[str, Any]] | None,
    ) -> None:
        tokens = self._tokenizer.count(counted, tools=tools)
        self.exact = True
        self._messages, self._tools, self._tokens = list(messages), tools, tokens
        self._behind = []

    def _known(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]] | None
    ) -> tuple[int, Sequence[Message]] | None:
        """Return what is known of how a prompt begins, and the messages behind that."""
        if self._known_prefix(messages, tools):
            return self._tokens, messages[len(self._messages) :]
        system = _system(messages)
        if self._head is not None and self._head[:2] == (system, tools):
            return self._head[2], messages[len(system) :]
        return None

    def _known_prefix(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]] | None) -> bool:
        known = len(self._messages)
        return bool(known) and tools == self._tools and list(messages[:known]) == self._messages

    def _with_measured(self, tokens: int, new: Sequence[Message]) -> tuple[int, Sequence[Message]]:
        """Return tokens with those of the messages that were measured before, and the messages behind them."""
        measured = 0
        for message, (same, size) in zip(new, self._behind):  # noqa: B905 - either may be longer
            if message is not same and message != same:
                break
            measured, tokens = measured + 1, tokens + size
        del self._behind[measured:]
        return tokens, new[measured:]

    def _with_cached(self, tokens: int, rest: Sequence[Message]) -> tuple[int, Sequence[Message]]:
        """Return tokens with those of the messages whose texts idle time has measured, and the messages behind them."""
        cache = self.cache
        cached = list(
            takewhile(lambda message: all(cache.lookup(text) is not None for text in texts_of(message)), rest)
        )
        return self._measure(tokens, cached), rest[len(cached) :]

    def _measure(self, tokens: int, rest: Sequence[Message]) -> int:
        """Return a bound with messages behind those that are measured, and measure them."""
        for message in rest:
            size = self._sum(0, [message], self._counted)
            self._behind.append((message, size))
            tokens += size
        return tokens

    def _sum(self, tokens: int, new: Sequence[Message], size: Callable[[str], int]) -> int:
        """Return a bound of what is known together with messages behind it."""
        if self._markers is None:
            self._markers = measure_markers(self._tokenizer)
        return tokens + sum(upper_bound(message, self._markers, size) for message in new)

    def _cached_or_bytes(self, text: str) -> int:
        """Return what is known of a text, or its bytes."""
        return self.cache.upper_bound(text) + _spelling(text)

    def _counted(self, text: str) -> int:
        """Tokenise a text, once: those behind the newest count are looked at at every hop."""
        return self.cache.count(text) + _spelling(text)


def _spelling(text: str) -> int:
    """Return how many tokens more a text may take where what looks like a special token is spelt."""
    return SPELT * sum(map(text.count, "<[>"))


def _system(messages: Sequence[Message]) -> list[Message]:
    return list(takewhile(lambda message: message.get("role") == "system", messages))


def estimate(text: str) -> int:
    """Return about how many tokens a text takes, in less than a microsecond; for figures that decide nothing.

    A token takes 3 to 5 bytes of UTF-8 in all scripts that vocabularies of today were made for.
    """
    return (len(text.encode(errors="replace")) + 3) // 4


def upper_bound(message: Message, markers: Markers, size: Callable[[str], int]) -> int:
    """Return tokens that a message hardly exceeds, given what measures a text."""
    texts = texts_of(message)
    return sum(map(size, texts)) + (len(texts) - 1) * markers.call + markers.message


def texts_of(message: Message) -> list[str]:
    """Return what a message says, and each of its calls, as the texts that are measured."""
    calls = message.get("tool_calls")
    if not calls:
        return [text_of(message)]
    functions = (call.get("function") or {} for call in calls)
    return [
        text_of(message),
        *(f"{function.get('name')} {_as_text(function.get('arguments'))}" for function in functions),
    ]


def _as_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, default=str)
