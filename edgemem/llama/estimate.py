"""An estimate of token counts for when no tokenizer is loaded; it says that it is one."""

from __future__ import annotations

import json
import re
import zlib
from typing import TYPE_CHECKING, Any

from edgemem.llama.prompt import Prompt, Segment
from edgemem.llama.template import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from edgemem.records import Message

# Tokens a character, or for a pair (c, n): c tokens, and one more for every n characters beyond the first. Set to
# the dearest of Qwen 2.5, Llama 3 and Gemma 4, so that a budget errs on the side that fits.
_LETTERS = r"A-Za-z\u00c0-\u024f\u0300-\u036f\u1e00-\u1eff"
_SCRIPTS: tuple[tuple[str, str, float | tuple[int, int]], ...] = (
    ("latin", rf"[{_LETTERS}]+", 0.0),  # what a word takes depends on the language, see _WORDS
    ("digits", r" ?[0-9]+", 1.0),
    ("marks", r"[!-/:-@\[-`{-~]+", 0.55),
    ("lines", r"[ \t]*[\r\n]\s*", (1, 4)),
    ("spaces", r"[ \t]{2,}", (1, 4)),
    ("space", r"[ \t]", 0.0),  # belongs to the word that follows
    ("han", r"[\u2e80-\u2fff\u3000-\u303f\u3400-\u4dbf\u4e00-\u9fff\uff00-\uffef]+", 1.0),
    ("kana", r"[\u3040-\u30ff]+", 0.75),
    ("hangul", r"[\u1100-\u11ff\u3130-\u318f\uac00-\ud7af]+", 1.05),
    ("cyrillic", r"[\u0400-\u052f]+", 0.5),
    ("arabic", r"[\u0600-\u0652]+", 0.5),
    ("persian and urdu", r"[\u0653-\u06ff\u0750-\u077f]+", 1.0),
    ("thai", r"[\u0e00-\u0e7f]+", 0.65),
    ("greek and hebrew", r"[\u0370-\u03ff\u0590-\u05ff]+", 1.2),
    ("devanagari", r"[\u0900-\u097f]+", 1.25),
    ("indic", r"[\u0980-\u0dff]+", 2.05),
    ("typography", r"[\u2000-\u200c\u200e-\u206f\u00a0-\u00bf]", 1.0),
    ("other", r"(?s:.)", 2.5),  # emoji, rare scripts
)
_RUNS = re.compile("|".join(f"({pattern})" for _, pattern, _ in _SCRIPTS))
_ENGLISH = frozenset(
    (
        "the",
        "and",
        "to",
        "of",
        "you",
        "that",
        "it",
        "with",
        "this",
        "what",
        "my",
        "have",
        "your",
        "are",
        "he",
        "she",
        "they",
        "we",
        "i",
        "can",
        "will",
        "be",
        "on",
        "for",
        "is",
        "not",
    )
)
_VIETNAMESE = re.compile(r"[ăđơưĂĐƠƯ\u1ea0-\u1ef9]")
_SYNTAX = re.compile(r"[{}\[\]()<>=;_\"/|&$#*\\]")

# What a word of Latin letters takes: at least, from which letter on more, how much for each, and for each letter
# with an accent. Vocabularies hold most English words whole and cut others into pieces of three or four letters.
_WORDS = {
    "english": (1.0, 8, 0.25, 0.25),
    "vietnamese": (1.09, 6, 0.3, 0.0),
    "code": (1.0, 5, 0.25, 0.5),
    "other": (1.0, 3, 0.28, 0.4),
}
_START, _END, _LINE = 1, 2, 3
_TOOLS_PREAMBLE = 150  # the text that templates put around schemas


class EstimateTokenizer:
    """Counts roughly what a model would see.

    The bound, for paragraphs, against the vocabularies of Qwen 2.5, Llama 3 and Gemma 4 (tested):

    - prose in Latin letters and Vietnamese: 85 to 115 % of the one in the middle;
    - Chinese, Japanese, Korean, Thai, Arabic, Hebrew, Hindi, Russian, Greek, and code: 100 to 145 % of the
      dearest, never less.

    Smaller and older vocabularies take more. The worst of the 15 that come with llama.cpp, as a multiple of the
    estimate: English 1.1, other Latin 1.1 to 1.7, Vietnamese 3.3, Chinese 2.2, Japanese 2.0, Korean 2.4, Thai 3.4,
    Arabic 2.8, Russian 2.2, code 1.2 (measured). So outside of English load the model's own.
    """

    exact = False
    fingerprint = "estimate-2"

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Return as many made-up ids as a model might need; the same text always gives the same ones."""
        ids: list[int] = []
        language = _Language()
        # A word takes a fraction of a token more or less; what is owed goes over to the next word.
        owed = 0.5
        for match in _RUNS.finditer(text):
            name, _, cost = _SCRIPTS[(match.lastindex or 1) - 1]
            run = match[0]
            if name == "latin":
                least, whole, more, accent = _WORDS[language.of(run)]
                accents = 0 if run.isascii() else sum(not letter.isascii() for letter in run)
                owed += least + more * max(0, len(run) - whole) + accent * accents
                n = int(owed)
                owed -= n
            elif isinstance(cost, tuple):
                n = cost[0] + (len(run) - 1) // cost[1]
            else:
                n = -int(-cost * len(run) // 1)
            if name == "marks":
                language.syntax += len(_SYNTAX.findall(run))
            language.chars += len(run)
            first = zlib.crc32(run.encode("utf-8", "replace")) >> 1
            ids.extend(range(first, first + n))
        return ids

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        now: float | None = None,
    ) -> Prompt:
        """Render messages in the manner of ChatML."""
        segments = []
        if tools:
            schemas = json.dumps(list(tools), ensure_ascii=False, default=str)
            preamble = tuple(range(_LINE + 1, _LINE + 1 + _TOOLS_PREAMBLE))
            segments.append(Segment(schemas, (*preamble, *self.encode(schemas))))
        segments += [self._segment(message) for message in messages]
        if add_generation_prompt:
            segments.append(Segment("<|im_start|>assistant\n", self._opening("assistant")))
        return Prompt("".join(segment.text for segment in segments), tuple(segments))

    def count(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        now: float | None = None,
    ) -> int:
        """Estimate the tokens of the rendered messages."""
        return self.render(messages, tools=tools, add_generation_prompt=add_generation_prompt, now=now).n

    def _segment(self, message: Message) -> Segment:
        role = str(message.get("role", "user"))
        body = text_of(message)
        if message.get("tool_calls"):
            body += json.dumps(message["tool_calls"], ensure_ascii=False, default=str)
        text = f"<|im_start|>{role}\n{body}<|im_end|>\n"
        return Segment(text, (*self._opening(role), *self.encode(body), _END, _LINE))

    def _opening(self, role: str) -> tuple[int, ...]:
        return _START, zlib.crc32(role.encode()) >> 1, _LINE


class _Language:
    """Tells how vocabularies cut a word, from that word and those before it: more text never takes fewer tokens."""

    def __init__(self) -> None:
        self.chars = 0
        self.syntax = 0
        self._words = 0
        self._english = 0
        self._vietnamese = 0

    def of(self, word: str) -> str:
        self._words += 1
        if word.isascii():
            self._english += word.lower() in _ENGLISH
        elif _VIETNAMESE.search(word):
            self._vietnamese += 1
        if 6 * self._vietnamese > self._words:
            return "vietnamese"
        if 12 * self.syntax > self.chars:
            return "code"
        return "english" if 8 * self._english > self._words else "other"


def estimate_tokens(messages: Iterable[Message], llm: Any = None) -> int:
    """Count the tokens of messages, tool calls and the template's markers included.

    Args:
        messages: chat messages.
        llm: a tokenizer, a chat model that has one, or an object with `count_tokens(text)`; exact with the
            first two. Without it, an estimate.
    """
    listed = list(messages)
    tokenizer = getattr(llm, "tokenizer", llm)
    if hasattr(tokenizer, "render") and hasattr(tokenizer, "count"):
        return int(tokenizer.count(listed, add_generation_prompt=False))
    estimate = EstimateTokenizer()
    if not hasattr(llm, "count_tokens"):
        return estimate.count(listed, add_generation_prompt=False)
    empty = {"content": "", "tool_calls": None}
    around = sum(estimate.count([{**message, **empty}], add_generation_prompt=False) for message in listed)
    bodies = (
        text_of(message)
        + (json.dumps(message["tool_calls"], default=str) if message.get("tool_calls") else "")
        for message in listed
    )
    return around + sum(int(llm.count_tokens(body)) for body in bodies if body)
