"""Lists: facts whose value is several items, such as what to buy; who changes one says only what comes and what goes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from edgemem.errors import InvalidInputError
from edgemem.fence import storable
from edgemem.languages.words import all_words
from edgemem.preload import Pattern, preloaded
from edgemem.recall.text.analyse import analyse, plain_words, stem, stemmed
from edgemem.recall.text.lexicon import joining_words

_QUOTES = " \"'“”„«»[]"  # those of JSON, too
_Stems = list[frozenset[str]]


class ListChange:
    """A change of a list, as `facts.change_fact` takes it: called with a value, it returns the items that hold from then on.

    An item is the same in any case and inflection, and is not added twice. A value that is no list becomes its first items.
    """

    def __init__(self, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        self.add, self.remove = tuple(add), tuple(remove)
        self.items: list[str] = []
        """The items after the last call."""
        self.present: list[str] = []
        """Items to add that were there, as they were given."""
        self.missing: list[str] = []
        """Items to remove that were not there."""

    @property
    def text(self) -> str:
        """Return all items that it names."""
        return ", ".join((*self.add, *self.remove))

    @property
    def not_done(self) -> str:
        """Return which items were there, or not there, as the end of a sentence; empty: all were changed."""
        told = {"not on it": self.missing, "on it already": self.present}
        return "".join(f"; {where}: {', '.join(items)}" for where, items in told.items() if items)

    def __call__(self, value: Any) -> list[str]:
        """Return the items of a list whose value is this (None: there is none) after the change."""
        self.items, self.present, self.missing = read_items([] if value is None else value), [], []
        known = [_stems(item) for item in self.items]
        for item in self.remove:
            gone = _place(known, _stems(item))
            if gone is None:
                self.missing.append(item)
            else:
                del self.items[gone], known[gone]
        for item in self.add:
            stems = _stems(item)
            if any(_is_same(stems, other) for other in known):
                self.present.append(item)
            else:
                self.items.append(item)
                known.append(stems)
        return self.items


def read_items(given: Any) -> list[str]:
    """Return items that are given as a list, or in a text with commas and a word for and between them."""
    items = _between().split(str(given)) if isinstance(given, (str, int, float)) else given
    if not isinstance(items, (list, tuple)) or any(isinstance(item, (list, dict)) for item in items):
        raise InvalidInputError(f"Items must be text or a list of texts, not {type(given).__name__}.")
    return list(filter(None, (" ".join(storable(str(item)).split()).strip(_QUOTES) for item in items)))


@preloaded
def _between() -> Pattern:
    spaced = {word for words in all_words().values() if words.spaced for word in words.joins.words}
    signs = "".join(sorted(joining_words() - spaced))
    words = rf"(?<=\s)(?:{'|'.join(sorted(spaced))})(?=\s)"
    comma, bullet = r"(?<!\d),|,(?!\d)", r"(?:^|\n)\s*[-*•]\s"  # no comma of a number
    return Pattern(rf"{bullet}|{comma}|[;、，；\n{signs}]|{words}", flags=re.IGNORECASE)


def _place(known: Sequence[_Stems], stems: _Stems) -> int | None:
    """Return which of some items is meant: the same one, or else the only one that has all of its words."""
    same = [n for n, other in enumerate(known) if _is_same(stems, other)]
    all_words_of = (all(any(word & own for own in other) for word in stems) for other in known)
    longer = [n for n, has_all in enumerate(all_words_of) if has_all]
    return same[0] if same else longer[0] if len(longer) == 1 else None


def _is_same(first: _Stems, other: _Stems) -> bool:
    return len(first) == len(other) and all(map(frozenset.intersection, first, other))


def _stems(item: str) -> _Stems:
    """Return the stems of each word with content, in every language: an item is too short to tell its own."""
    words = [word for word, _ in analyse(item).tokens if word] or plain_words(item) or [item]
    languages = [code for code in all_words() if stemmed(code)]
    return [frozenset((word, *(stem(word, code) for code in languages))) for word in words]
