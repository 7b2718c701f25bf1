"""The size of a prompt in tokens, counted exactly only when that can matter.

Counting renders the whole prompt, which costs some milliseconds. A prompt that extends one that was counted has at most as
many tokens more as its new texts have bytes, beside the template's markers, which are measured; so nothing is tokenised while
that is far below the limit. From there on the new texts are tokenised, once each (`TokenCache`), and near the limit the whole
prompt is counted when a turn is over.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.context.messages import split_instructions
from edgemem.errors import TemplateError
from edgemem.fence import CLOSE, is_fenced
from edgemem.records import Message, text_of

if TYPE_CHECKING:
    from edgemem.llama.protocols import Tokenizer

    Tools = Sequence[dict[str, Any]] | None


MOST_TEXTS = 2048


class TokenCache:
    """Tokens of the newest texts, as one tokenizer counts them; no words are kept."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        # Python keeps the hash of a text with it, and it says as little of the words as any other.
        self._known: OrderedDict[tuple[int, int], int] = OrderedDict()

    def counted(self, text: str) -> int | None:
        """Return what a text takes, if it was counted."""
        return self._known.get((hash(text), len(text)))

    def tokens(self, text: str) -> int:
        """Return what a text takes."""
        size = self.counted(text)
        if size is None:
            size = len(self.tokenizer.encode(text))
            self.note(text, size)
        return size

    def count(self, text: str) -> int:
        """Return what a text takes; a block before it that is known is not counted anew, and may share a token with it."""
        if self.counted(text) is None and is_fenced(text):
            end = text.index(CLOSE) + len(CLOSE)
            block = self.counted(text[:end])
            if block is not None:
                self.note(text, block + self.tokens(text[end:]))
        return self.tokens(text)

    def upper_bound(self, text: str) -> int:
        """Return an upper bound of a text's tokens, and tokenise nothing: bytes bound a text that was never counted."""
        size = self.counted(text)
        return len(text.encode(errors="replace")) if size is None else size

    def note(self, text: str, tokens: int) -> None:
        """Keep what a text takes, as the parts that it is made of were counted."""
        self._known[hash(text), len(text)] = tokens
        if len(self._known) > MOST_TEXTS:
            self._known.popitem(last=False)

    def forget(self) -> None:
        """Keep nothing."""
        self._known.clear()


SPELT = 2
"""A template is given special tokens spelt as words, with one space each: of the 19 vocabularies at hand, none takes more
tokens more for one."""
MARGIN = 4
"""Tokens a message more than measured: where text and markers meet, tokens may fall otherwise than in the probes."""

_SMALL = 0.8
"""Share of the limit up to which the bytes of new texts stand for their tokens: looking at them costs nothing."""
_FAR = 0.9
"""Share of the limit up to which a turn's end counts nothing: one turn does not take the rest."""
_UNCOUNTED = 0.5
"""Share of the limit that may be added without a count: of texts that are tokenised the bound is some percent too high."""

_USER: Message = {"role": "user", "content": "cup"}
_REPLY: Message = {"role": "assistant", "content": "cup"}
_CUP = {"name": "cup", "arguments": {"cup": "cup"}}
_CALLED: list[Message] = [
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "a1b2c3d4e", "type": "function", "function": _CUP}],
    },
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
    asked = [_USER, _REPLY, _USER]
    try:
        # The second pair, because templates put a system message of their own before the first.
        asked_once, asked_twice, called = map(
            tokenizer.count, (asked, [*asked, _REPLY, _USER], [*asked, *_CALLED])
        )
    except TemplateError:
        return Markers()
    return Markers((asked_twice - asked_once + 1) // 2 + MARGIN, called - asked_once + MARGIN)


class PromptSize:
    """Measures the prompts of one conversation; of their texts it keeps sizes and no words."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.cache = TokenCache(tokenizer)
        """Tokens of single texts; other code that counts such texts may share it."""
        self._counted: tuple[list[Message], Tools, int] = ([], None, 0)
        """The messages of the prompt that was counted last, its tools and tokens."""
        self._head: tuple[list[Message], Tools, int] | None = None
        """The same of instructions with a stand-in for a question."""
        self._markers: Markers | None = None
        self._bounds: list[tuple[Message, int]] = []
        """Messages after the counted part of the newest prompt, each with the bound that its bytes give: a turn measures its own
        messages alone."""
        self.exact = False
        """Whether the newest figure was counted."""

    def tokens(self, messages: Sequence[Message], *, tools: Tools, limit: float) -> int:
        """Return the prompt's tokens: exactly, or an upper bound that is not above `limit`."""
        bound = self.bound(messages, tools=tools, limit=limit)
        return bound if bound is not None and bound <= limit else self._count(messages, messages, tools)

    def bound(self, messages: Sequence[Message], *, tools: Tools, limit: float) -> int | None:
        """Return tokens that the prompt does not exceed, without rendering it; None where it must be counted.

        Above `limit` it is some tokens too high for each message since the newest count: their texts are tokenised.
        """
        self.exact = False
        known = self._known(messages, tools)
        if known is None:
            return None
        bound = known[0] + self._bound_by_bytes(known[1])
        # Bytes are about four times the tokens: fit to say that a prompt is small, and no more.
        if bound > _SMALL * limit:
            bound = self._with(*known)
        # For many messages that were never counted together it is too high to decide anything.
        return bound if bound <= limit or self._extends(messages, tools) else None

    def settle(self, messages: Sequence[Message], *, tools: Tools, limit: float) -> int | None:
        """Measure ahead what the next prompt begins with, when a turn is over; return its tokens if they were counted.

        Args:
            messages: the prompt up to the end of the newest reply; a stand-in for the next question is counted with it.
            limit: a prompt that is far below it is not counted.
        """
        system = split_instructions(messages)[0]
        if self._head is None or self._head[:2] != (system, tools):
            self._head = system, tools, self._tokenizer.count([*system, _USER], tools=tools)
        tokens, new = self._known(messages, tools) or (0, messages)
        # The size of each text is needed later, whatever precedes it then.
        bound = self._with(tokens, new)
        self._bounds.clear()
        near = bound > _FAR * limit or bound - tokens > _UNCOUNTED * limit
        if self._extends(messages, tools) and not near:
            return None
        return self._count([*messages, _USER], messages, tools)

    def forget(self) -> None:
        """Keep nothing of texts that were measured ahead."""
        self.cache.forget()
        self._bounds.clear()

    def _count(self, counted: Sequence[Message], messages: Sequence[Message], tools: Tools) -> int:
        tokens = self._tokenizer.count(counted, tools=tools)
        self.exact = True
        self._bounds.clear()
        self._counted = list(messages), tools, tokens
        return tokens

    def _known(self, messages: Sequence[Message], tools: Tools) -> tuple[int, Sequence[Message]] | None:
        """Return the counted beginning of a prompt, and the messages after it."""
        if self._extends(messages, tools):
            return self._counted[2], messages[len(self._counted[0]) :]
        system, rest = split_instructions(messages)
        if self._head is not None and self._head[:2] == (system, tools):
            return self._head[2], rest
        return None

    def _extends(self, messages: Sequence[Message], tools: Tools) -> bool:
        """Tell whether a prompt begins with the one that was counted last."""
        counted, with_tools, _ = self._counted
        return bool(counted) and tools == with_tools and list(messages[: len(counted)]) == counted

    def _with(self, tokens: int, new: Sequence[Message]) -> int:
        """Return a bound of tokens together with messages behind them, whose texts are tokenised."""
        return tokens + sum(self._bound_of(message, self.cache.count) for message in new)

    def _bound_by_bytes(self, new: Sequence[Message]) -> int:
        """Return tokens that messages do not exceed together, as their bytes tell."""
        pairs = zip(self._bounds, new, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0][0] is pair[1], pairs))
        self._bounds[same:] = [
            (message, self._bound_of(message, self.cache.upper_bound)) for message in new[same:]
        ]
        return sum(bound for _, bound in self._bounds)

    def _bound_of(self, message: Message, size: Callable[[str], int]) -> int:
        if self._markers is None:
            self._markers = measure_markers(self._tokenizer)
        # What looks like a special token may take more where it is spelt.
        return upper_bound(
            message, self._markers, lambda text: size(text) + SPELT * sum(map(text.count, "<[>"))
        )


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
    texts = [text_of(message)]
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        arguments = function.get("arguments")
        written = arguments if isinstance(arguments, str) else json.dumps(arguments, default=str)
        texts.append(f"{function.get('name')} {written}")
    return texts
