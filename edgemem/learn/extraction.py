"""Extraction: what an utterance states, by the words that a tagger marks in it, or by an extractor of the user's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, get_args

import msgspec

from edgemem.errors import InvalidInputError
from edgemem.learn.tagger import tagger_of
from edgemem.recall.text.analyse import language_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.learn.tagger import Span

Kind = Literal[
    "name", "like", "dislike", "danger", "place", "code", "appointment", "recurring", "goal", "correction",
    "remember", "list_add", "list_remove",
]  # fmt: skip
LISTS = ("list_add", "list_remove")
MOST_CHARS = 600
"""Of an utterance; a longer story states little of what a family wants kept."""
_MOST_VALUE, _MOST_OF_ONE = 200, 12  # characters; statements of one utterance
_QUOTES = '"“”„«»'
_NEVER = 2.0  # no probability is as high
_TIMED = ("appointment", "recurring", "correction")  # their value may be a time


class Statement(msgspec.Struct, frozen=True):
    """What somebody states; each text is a part of the utterance."""

    kind: Kind
    value: str
    thing: str = ""
    """What it is about; empty: the kind says it, or the line before."""
    owner: str = ""
    """Whose it is, as said: Marta, my husband; empty: the speaker's, or the household's."""
    time: str = ""
    begin: int = 0
    end: int = 0
    """The place of the value in the text."""
    sure: float = 1.0
    """The probability of the value."""


class Extractor(Protocol):
    """Finds what utterances state; what it returns is checked."""

    def extract(self, text: str, language: str) -> list[Statement]:
        """Return what a text states, within two seconds."""
        ...


def extract(text: str, before: str = "") -> list[Statement]:
    """Return what an utterance surely states.

    Args:
        before: the words just before; empty: nothing.
    """
    tagger = tagger_of(language_in(text))
    if tagger is None:
        return []
    found = composed(text, tagger.spans(text, before))
    return [one for one in found if one.sure >= tagger.least.get(one.kind, _NEVER)]


def checked_statements(given: object, text: str) -> list[Statement]:
    """Return what an extractor found; raise InvalidInputError for what is no statement of a text."""
    if not isinstance(given, (list, tuple)) or len(given) > _MOST_OF_ONE:
        raise InvalidInputError(f"it returned no list of at most {_MOST_OF_ONE} statements")
    checked = []
    for one in given:
        if not isinstance(one, Statement) or one.kind not in get_args(Kind):
            raise InvalidInputError(f"{one!r:.60} is no edgemem.learn.extraction.Statement")
        parts = (one.value, one.thing, one.owner, one.time)
        if not all(isinstance(part, str) and part in text and len(part) <= _MOST_VALUE for part in parts):
            raise InvalidInputError(f"{one.value!r:.60} is no part of the utterance")
        if not one.value.strip():
            raise InvalidInputError("a value is empty")
        begin = text.index(one.value)
        checked.append(msgspec.structs.replace(one, begin=begin, end=begin + len(one.value)))
    return checked


def composed(text: str, spans: Sequence[Span]) -> Iterator[Statement]:
    """Yield a statement for each value, with the thing, the owner and the time of its kind that stand nearest."""
    for span in spans:
        if not _is_value(span, spans) or _is_quoted(text, span.begin):
            continue
        near = {
            role: _nearest(span, [other for other in spans if (other.kind, other.role) == (span.kind, role)])
            for role in ("thing", "owner", "time")
        }
        words = {role: text[one.begin : one.end] for role, one in near.items() if one and one is not span}
        value = text[span.begin : span.end]
        if span.role == "time":
            words["time"] = value
        elif span.kind == "goal" and "time" in words:
            value = f"{value} {words['time']}"
        yield Statement(span.kind, value, begin=span.begin, end=span.end, sure=span.sure, **words)  # type: ignore[arg-type]


def _is_value(span: Span, spans: Iterable[Span]) -> bool:
    """Tell whether a statement is made of a span: of a value, and of a time where none is said."""
    alone = not any(other.kind == span.kind and other.role == "value" for other in spans)
    return span.role == "value" or (span.role == "time" and span.kind in _TIMED and alone)


def _is_quoted(text: str, at: int) -> bool:
    """Tell whether a place in a text is within quotation marks: somebody else says that."""
    return sum(sign in _QUOTES for sign in text[:at]) % 2 == 1


def _nearest(span: Span, others: Sequence[Span]) -> Span | None:
    """Return the nearest span; of two as near, the one before."""
    return min(
        others,
        key=lambda other: (max(other.begin - span.end, span.begin - other.end), other.begin),
        default=None,
    )
