"""Extraction: what an utterance states, as an extractor of the user's own finds it, and what is accepted of that."""

from __future__ import annotations

from typing import Literal, Protocol, get_args

import msgspec

from edgemem.errors import InvalidInputError

Kind = Literal[
    "name", "like", "dislike", "danger", "place", "code", "appointment", "recurring", "goal", "correction",
    "remember", "list_add", "list_remove",
]  # fmt: skip
LISTS = ("list_add", "list_remove")
MOST_CHARS = 600
"""Of an utterance; a longer story states little of what a family wants kept."""
_MOST_VALUE, _MOST_OF_ONE = 200, 12  # characters; statements of one utterance


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


class Extractor(Protocol):
    """Finds what utterances state; what it returns is checked."""

    def extract(self, text: str, language: str) -> list[Statement]:
        """Return what a text states, within two seconds."""
        ...


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
