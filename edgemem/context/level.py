"""Level: who may read a turn, judged by what its reply repeats of the prompt that it was made from.

A prompt may hold what only its reader may know: turns that were private, and what memory told in them. A reply that says
again a word, number or code of such a text, which stands neither in the utterance nor in anything more open of the same
prompt, is as closed as that text. Numbers count as digits, and signs that are said one by one as what they spell.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

from edgemem.context.block.render import RANK
from edgemem.context.messages import call_arguments, tool_calls
from edgemem.preload import Pattern
from edgemem.recall.text.analyse import Analysis, analyse, plain_words, stem, stop_words
from edgemem.recall.text.numbers import with_digits
from edgemem.records import BlockLine, Message, text_of
from edgemem.scopes import Level, name_key

Closing = tuple[Level, "str | None"]
"""A level, and whose it is where it is private."""

ROLES = "system user assistant tool"
"""What every template writes into a prompt."""

_NOBODY: Closing = ("private", None)
"""Closed to all but the operator."""

_SHORTEST = 3
"""Signs of a code or spelled word: fewer are found in any text."""
_LONG_NUMBER = 4
"""Digits from which on a number is also found within others: fewer are found there by chance."""
_APOSTROPHE = Pattern("['’]")


class Terms:
    """The words, numbers and codes of some texts that a reply could repeat; worked out when first asked for."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._given = texts

    def repeated_from(self, source: Terms) -> set[str]:
        """Return what these texts repeat of others."""
        repeated = {term for term in self._stems if term in source._stems}
        spelled = {*self._spelled, *(self._digits_in(text.language) for text in source._read)}
        repeated |= {code for code in source._codes if any(code in signs for signs in spelled)}
        repeated |= {number for number in self._long_numbers if number in source._digits}
        repeated |= self._spelled_out(source._words)
        return repeated | source._spelled_out(self._words)

    def say(self, term: str) -> bool:
        """Tell whether something that was repeated stands in these texts, too."""
        return not self._stems.isdisjoint((term, stem(term), *with_digits([term]))) or any(
            term in code for code in self._codes if len(term) >= _SHORTEST
        )

    def _spelled_out(self, words: Iterable[str]) -> set[str]:
        """Return which words are said letter by letter."""
        letters = self._letters
        return {word for word in words if word in letters} if len(letters) >= _SHORTEST else set()

    @cached_property
    def _texts(self) -> list[str]:
        return [_with_numerals(text) for text in self._given if text]

    @cached_property
    def _plain(self) -> list[list[str]]:
        return [plain_words(_APOSTROPHE.sub("", text)) for text in self._texts]

    @cached_property
    def _read(self) -> list[Analysis]:
        return list(map(analyse, self._texts))

    @cached_property
    def _tokens(self) -> list[list[str]]:
        """The words of each text, with digits for numbers."""
        return [
            with_digits(words, text.language) for words, text in zip(self._plain, self._read, strict=True)
        ]

    def _digits_in(self, language: str) -> str:
        """Return the digits of all numbers, read in one language: a bare number does not tell its own."""
        return "".join(_digits(with_digits(words, language)) for words in self._plain)

    @cached_property
    def _stems(self) -> frozenset[str]:
        stems = {term for text in self._read for term in text.terms()}
        pairs = "".join(term for term in stems if len(term) == 2 and not term.isascii())
        # One letter tells nothing, and one Chinese sign only where it stands alone.
        kept = {
            term
            for term in stems
            if len(term) > 1 or term.isdecimal() or not (term.isascii() or term in pairs)
        }
        return frozenset(kept | {stem(code) for code in self._codes if code.isalpha()})

    @cached_property
    def _words(self) -> frozenset[str]:
        words = {word for tokens in (*self._plain, *self._tokens) for word in tokens}
        return frozenset(word for word in words - stop_words("en") if len(word) >= _SHORTEST)

    @cached_property
    def _codes(self) -> frozenset[str]:
        """Words with digits, and what signs that stand side by side spell."""
        runs = (
            list(run) for tokens in self._tokens for is_sign, run in groupby(tokens, key=_is_sign) if is_sign
        )
        codes = [code for run in runs for code in ("".join(run), _digits(run))]
        codes += [word for tokens in self._tokens for word in tokens if _has_digit(word)]
        return frozenset(
            code for code in codes if len(code) >= (_LONG_NUMBER if code.isdecimal() else _SHORTEST)
        )

    @cached_property
    def _spelled(self) -> tuple[str, str, str]:
        """What all signs and short words of the texts spell, in order: all, those that tell something, the digits."""
        short = [
            word for tokens in self._tokens for word in tokens if len(word) <= _SHORTEST or _has_digit(word)
        ]
        return (
            "".join(word for word in short if len(word) == 1 or word not in stop_words("en")),
            "".join(word for word in short if word not in stop_words("en")),
            self._digits,
        )

    @cached_property
    def _letters(self) -> str:
        return "".join(word for tokens in self._tokens for word in tokens if len(word) == 1)

    @cached_property
    def _digits(self) -> str:
        return "".join(map(_digits, self._tokens))

    @cached_property
    def _long_numbers(self) -> frozenset[str]:
        return frozenset(
            word
            for tokens in self._tokens
            for word in tokens
            if word.isdecimal() and len(word) >= _LONG_NUMBER
        )


class Passage(NamedTuple):
    """A part of a prompt, and who may read it."""

    closing: Closing
    terms: Terms


def is_closer(closing: Closing, than: Closing) -> bool:
    """Tell whether somebody who may read the one may not read the other."""
    if RANK[closing[0]] != RANK[than[0]]:
        return RANK[closing[0]] > RANK[than[0]]
    return closing[0] == "private" and not _is_same(closing[1], than[1])


def any_closer(closings: Iterable[Closing], than: Closing) -> bool:
    """Tell whether somebody who may read the one may not read one of the others."""
    return any(is_closer(closing, than) for closing in closings)


def joined(closings: Iterable[Closing]) -> Closing:
    """Return who may read all of some texts; what two people keep to themselves is nobody's."""
    closings = list(closings)
    closest = max(closings, key=lambda closing: RANK[closing[0]])
    owners = {owner for level, owner in closings if level == "private"}
    return closest if all(_is_same(owner, closest[1]) for owner in owners) else _NOBODY


def _is_same(owner: str | None, other: str | None) -> bool:
    """Tell whether two spellings are one person's name; None is nobody's."""
    if owner is None or other is None:
        return owner is other
    return owner == other or name_key(owner) == name_key(other)


def closing_of(
    messages: Sequence[Message], closing: Closing, prompt: Iterable[Passage], *, more: Iterable[str] = ()
) -> Closing:
    """Return who may read a turn.

    Args:
        messages: its messages; what the user said and what tools answered is open, until the model repeats it from elsewhere.
        closing: who may read it at least.
        prompt: what else the model read.
        more: what the model says that is no message yet.
    """
    more = list(more)
    if not more and not any(message.get("role") == "assistant" for message in messages):
        return closing  # the model has said nothing yet
    passages = list(prompt)
    closed = [passage for passage in passages if is_closer(passage.closing, closing)]
    if not closed:
        return closing
    heard = [Terms([ROLES, *(text_of(message) for message in messages if message.get("role") == "user")])]
    heard += [passage.terms for passage in passages if not is_closer(passage.closing, closing)]
    closings = [closing]
    for texts, answered in _steps(messages, more):
        spoken = Terms(texts)
        for passage in closed:
            repeated = spoken.repeated_from(passage.terms)
            if any(not any(terms.say(term) for terms in heard) for term in repeated):
                closings.append(passage.closing)
        heard.append(Terms(answered))
    return joined(closings)


def passages_of(
    messages: Sequence[Message], closing: Closing, block: str, shown: Sequence[BlockLine]
) -> list[Passage]:
    """Return the parts of a turn; in a private one, memory may have told what others know."""
    spoken = Passage(
        closing, Terms([text for message in messages for text in (text_of(message), *_given(message))])
    )
    lines: dict[Closing, list[str]] = {}
    for item in shown:
        lines.setdefault((item.level, item.owner if item.level == "private" else None), []).append(item.line)
    if not block or not lines:
        return [spoken, *([Passage(closing, Terms([block]))] if block else [])]
    if len(lines) == 1:
        return [spoken, Passage(next(iter(lines)), Terms([block]))]
    if not any(text for texts in lines.values() for text in texts):
        # A stored turn no longer knows which line is whose.
        return [spoken, Passage(joined(lines), Terms([block]))]
    return [spoken, *(Passage(whose, Terms(texts)) for whose, texts in lines.items())]


def _steps(messages: Sequence[Message], more: Iterable[str]) -> Iterable[tuple[list[str], list[str]]]:
    """Yield what the model said before tools answered it, and what they answered."""
    texts: list[str] = []
    answered: list[str] = []
    for message in messages:
        role = message.get("role")
        if role == "assistant":
            if answered:
                yield texts, answered
                texts, answered = [], []
            texts += [text_of(message), *_given(message)]
        elif role == "tool":
            answered.append(text_of(message))
    yield [*texts, *more], answered


def _given(message: Message) -> list[str]:
    """Return the values that a model gave to tools."""
    texts: list[str] = []
    for call in tool_calls(message):
        given = call_arguments(call)
        if isinstance(given, str):
            with suppress(ValueError, RecursionError):
                given = json.loads(given)
        texts += values_in(given)
    return texts


def values_in(given: object) -> list[str]:
    """Return the texts and numbers within what a model gave to a tool, without the names of its arguments."""
    if isinstance(given, dict):
        return [text for value in given.values() for text in values_in(value)]
    if isinstance(given, (list, tuple)):
        return [text for value in given for text in values_in(value)]
    return [] if given is None or isinstance(given, bool) else [str(given)]


def _with_numerals(text: str) -> str:
    """Return a text with digits for the numerals of other scripts that stand for one each."""
    if text.isascii():
        return text
    values = {sign: unicodedata.numeric(sign, -1.0) for sign in set(text) if sign.isalnum()}
    ones = {sign: str(int(value)) for sign, value in values.items() if value in range(10)}
    return text.translate({ord(sign): digit for sign, digit in ones.items()})


def _is_sign(word: str) -> bool:
    return len(word) == 1 or word.isdecimal()


def _has_digit(word: str) -> bool:
    return any(map(str.isdecimal, word))


def _digits(words: Iterable[str]) -> str:
    return "".join(word for word in words if word.isdecimal())
