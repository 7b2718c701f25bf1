"""Counting with the model of a loop, whatever its kind, and an estimate, which says that it is one, where nothing counts."""

from __future__ import annotations

import json
import logging
import re
import weakref
import zlib
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from functools import lru_cache
from typing import Any, cast

from edgemem.errors import InvalidInputError, TemplateError
from edgemem.llama.protocols import Prompt, Segment, Tokenizer
from edgemem.preload import Pattern
from edgemem.records import Message, has_methods, text_of

# Tokens a character, or (c, n): c tokens, and one more for every n characters beyond the first; the dearest of Qwen 2.5, Llama 3
# and Gemma 4, so that a budget errs on the side that fits.
_LETTERS = r"A-Za-z\u00c0-\u024f\u0300-\u036f\u1e00-\u1eff"
_SCRIPTS: tuple[tuple[str, str, float | tuple[int, int]], ...] = (
    ("latin", rf"[{_LETTERS}]+", 0.0),  # what a word takes depends on the language, see _WORDS
    ("digits", r" ?[0-9]+", 1.0),
    ("marks", r"[!-/:-@\[-`{-~]+", 0.55),
    ("lines", r"[ \t]*[\r\n]\s*", (1, 4)),
    ("spaces", r"[ \t]{2,}", (1, 4)),
    ("space", r"[ \t]", 0.0),  # belongs to the word that follows
    ("han", r"[\u2e80-\u2fff\u3000-\u303f\u3400-\u4dbf\u4e00-\u9fff\uff00-\uffef]+", 1.1),
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
_RUNS = Pattern("|".join(f"({pattern})" for _, pattern, _ in _SCRIPTS))
_ENGLISH_WORDS = (
    "the and to of you that it with this what my have your are he she they we i can will be on for is not"
)
# Vocabularies of English learn these languages along: words that those of the class "other" do not have.
_WESTERN_WORDS = (
    "el la que por una con para los las del les des et est une du dans pas che di il della uma não com os und das ist nicht"
    " ein ich auf für zu im von mit"
)
_ENGLISH, _WESTERN = frozenset(_ENGLISH_WORDS.split()), frozenset(_WESTERN_WORDS.split())
_VIETNAMESE = Pattern(r"[ăđơưĂĐƠƯ\u1ea0-\u1ef9]")
_END_OF_SENTENCE = re.compile(r"[.!?:]")
_SYNTAX = re.compile(r"[{}\[\]()<>=;_\"/|&$#*\\]")
# Of a word of Latin letters: least, from which letter on more, how much for each, and for each accented letter.
# Vocabularies hold most English words whole, but few names ("name": a capital within an English sentence); they cut
# the large languages of Western Europe into pieces of four letters, others of three. Set on the texts of
# tests/llama/tokens/test_estimate.py; `make lab ARGS=estimate` checks on others.
_WORDS = {
    "english": (1.0, 8, 0.25, 0.25), "name": (1.0, 4, 0.3, 0.4), "vietnamese": (1.17, 6, 0.3, 0.0),
    "code": (1.0, 5, 0.25, 0.5), "western": (1.0, 3, 0.28, 0.4), "other": (1.0, 3, 0.36, 0.25),
}  # fmt: skip
_SLAVIC_LETTERS = Pattern(r"[ąćęłńśźżčďěňřšťůž]", flags=re.IGNORECASE)
_SLAVIC = 0.4  # more for each of these: words are cut at them
_START, _END, _LINE = 1, 2, 3
_LONGEST, _SAMPLE, _SAMPLES = 1 << 18, 1 << 13, 16  # characters, characters, how many
_TOOLS_PREAMBLE = 150  # the text that templates put around schemas
_log = logging.getLogger(__name__)
# loading a vocabulary takes a second on a board
_known: MutableMapping[Any, Tokenizer] = weakref.WeakKeyDictionary()


class EstimateTokenizer(Tokenizer):
    """Counts roughly the tokens of a model.

    Against Qwen 2.5, Llama 3 and Gemma 4, for paragraphs (tested, and by `make lab ARGS=estimate` on texts that set no constant):
    85 to 115 % of the middle one for prose in Latin letters and Vietnamese; 100 to 145 % of the dearest, never less, for Chinese,
    Japanese, Korean, Thai, Arabic, Hebrew, Hindi, Russian, Greek and code. Smaller and older vocabularies take up to 1.5 times as
    much in Latin letters, 2.8 in Vietnamese and 3.3 in other scripts: outside of English load the model's own.
    """

    exact = False

    def __init__(self, count: Callable[[str], int] | None = None) -> None:
        """Take an exact count of text's tokens, if there is one; then only the template's markers are estimated."""
        self._count = count

    @property
    def fingerprint(self) -> str:
        """Return a string that changes whenever the same messages would get other tokens."""
        return "estimate-3" if self._count is None else "counted"

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Return as many made-up ids as a model might need, always the same for a text.

        Beyond 256 Ki characters it takes the dearest of sixteen samples for all.
        """
        if self._count is not None:
            return _made_up(text, self._count(text) if text else 0)
        if len(text) <= _LONGEST:
            return list(_estimated(text))
        # Each word costs a step of Python: a few megabytes, which fit no window, would take seconds.
        begins = range(0, len(text) - _SAMPLE, (len(text) - _SAMPLE) // (_SAMPLES - 1))
        dearest = max(len(_estimated(text[begin : begin + _SAMPLE])) for begin in begins)
        return _made_up(text, -(-dearest * len(text) // _SAMPLE))

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

    def _segment(self, message: Message) -> Segment:
        role = str(message.get("role", "user"))
        body = text_of(message)
        if message.get("tool_calls"):
            body += json.dumps(message["tool_calls"], ensure_ascii=False, default=str)
        text = f"<|im_start|>{role}\n{body}<|im_end|>\n"
        return Segment(text, (*self._opening(role), *self.encode(body), _END, _LINE))

    def _opening(self, role: str) -> tuple[int, ...]:
        return _START, zlib.crc32(role.encode()) >> 1, _LINE


@lru_cache(maxsize=512)  # a prompt is counted again and again
def _estimated(text: str) -> tuple[int, ...]:
    ids: list[int] = []
    language = _Language()
    # The fraction of a token that a word takes more or less goes over to the next.
    owed = 0.5
    begins = True
    for match in _RUNS.finditer(text):
        name, _, cost = _SCRIPTS[(match.lastindex or 1) - 1]
        run = match[0]
        if name == "latin":
            least, whole, more, accent = _WORDS[language.classify(run, begins=begins)]
            accents = 0 if run.isascii() else sum(not letter.isascii() for letter in run)
            owed += least + more * max(0, len(run) - whole) + accent * accents
            owed += _SLAVIC * (len(_SLAVIC_LETTERS.findall(run)) if accents else 0)
            n = int(owed)
            owed -= n
        elif isinstance(cost, tuple):
            n = cost[0] + (len(run) - 1) // cost[1]
        elif name == "han":
            owed += cost * len(run)  # rounding each run of one or two up would make Japanese dear
            n = int(owed)
            owed -= n
        else:
            n = -int(-cost * len(run) // 1)
        if name == "marks":
            language.syntax += len(_SYNTAX.findall(run))
        if name != "space":
            begins = name == "lines" or (name == "marks" and _END_OF_SENTENCE.search(run) is not None)
        language.chars += len(run)
        ids.extend(_made_up(run, n))
    return tuple(ids)


def _made_up(text: str, n: int) -> list[int]:
    first = zlib.crc32(text.encode("utf-8", "replace")) >> 1
    return list(range(first, first + n))


class _Language:
    """Tells how vocabularies cut a word, from it and those before: more text never takes fewer tokens."""

    def __init__(self) -> None:
        self.chars = self.syntax = 0
        self._words = self._english = self._western = self._vietnamese = 0

    def classify(self, word: str, *, begins: bool) -> str:
        """Return the kind of a word; where it begins a sentence its capital says nothing."""
        self._words += 1
        self._western += word.lower() in _WESTERN
        if word.isascii():
            self._english += word.lower() in _ENGLISH
        elif _VIETNAMESE.search(word):
            self._vietnamese += 1
        if 6 * self._vietnamese > self._words:
            return "vietnamese"
        if 12 * self.syntax > self.chars:
            return "code"
        if 8 * self._english > self._words:
            return "name" if word[0].isupper() and not begins else "english"
        return "western" if 12 * self._western + 8 > self._words else "other"


def tokenizer_of(llm: Any) -> Tokenizer:
    """Return what counts tokens as `llm` does, or an estimate.

    `llm` is a tokenizer; a model that has one; a `llama_cpp.Llama`, with its chat template or ChatML; or an object with
    `count_tokens(text)`, as EdgeVox's, whose template's markers are estimated.
    """
    # A Llama has a method of that name, which is none.
    for candidate in (llm, getattr(llm, "tokenizer", None)):
        if has_methods(candidate, "encode", "count", "render"):
            return cast("Tokenizer", candidate)
    # A Llama that was closed has no vocabulary any more.
    loaded = has_methods(llm, "tokenize") and bool(getattr(llm, "model", None))
    if not (loaded or has_methods(llm, "count_tokens")):
        return EstimateTokenizer()
    try:
        if llm not in _known:
            # Not the model itself: it would then never be freed.
            _known[llm] = _counting(llm, weakref.proxy(llm))
        return _known[llm]
    except TypeError:  # it cannot be hashed, or not be referred to weakly
        return _counting(llm, llm)


def _counting(llm: Any, held: Any) -> Tokenizer:
    if has_methods(llm, "count_tokens"):
        return EstimateTokenizer(lambda text: int(held.count_tokens(text)))
    from edgemem.llama.template.chat_template import CHATML
    from edgemem.llama.tokens.tokenizer import LlamaTokenizer

    own = (getattr(llm, "metadata", None) or {}).get("tokenizer.chat_template")
    return LlamaTokenizer.wrap(held, template=None if own else CHATML)


def estimate_tokens(messages: Iterable[Message], llm: Any = None) -> int:
    """Count the tokens of messages, tool calls and the template's markers included, with `tokenizer_of(llm)`; None estimates."""
    if isinstance(messages, (str, dict)):
        raise InvalidInputError(f"estimate_tokens takes a list of messages; write [{messages!r:.80}].")
    listed = list(messages)
    for message in listed:
        if not isinstance(message, dict):
            raise InvalidInputError(
                f"A message must be a dict, such as {{'role': 'user', 'content': '…'}}; got {message!r:.80}."
            )
    tokenizer = tokenizer_of(llm)
    try:
        return tokenizer.count(listed, add_generation_prompt=False)
    except TemplateError as error:
        # Templates refuse parts of a conversation, such as two user messages in a row; count all the same.
        _log.debug("counted without the chat template: %s", error)
        return EstimateTokenizer(lambda text: len(tokenizer.encode(text))).count(
            listed, add_generation_prompt=False
        )
