"""Mentions: by which words of a memory somebody is spoken of, also where a recogniser wrote the name as something else.

Of a name of several words one that is nobody else's is enough: people say Ruth for Nana Ruth, and where a recogniser
writes Nana Roof the rest was a mistake. What sounds the same as a name is that name, if hardly any text has it.

Chosen on the `learnt` weeks with the noise of `tests/lab/noise.py`: at one mistake in ten words, of the messages that
name somebody .98 are found and not .87, at two in ten .89 and not .73.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from edgemem.recall.common_words import COMMON_NAMES, COMMON_WORDS
from edgemem.recall.english_words import is_english
from edgemem.recall.languages import STOP_WORDS
from edgemem.recall.readings import as_heard, distance
from edgemem.recall.words import plain_words, terms

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from edgemem.recall.alike import Alike

_SAME = 0.035  # the distance up to which two names are spoken the same
_NEAR, _FAR = 0.12, 0.2
"""Up to which a part of a name may be meant; and one that is long, by what is no English word."""
LONG, _LEAST_LETTERS = 6, 3
_TITLES = frozenset(
    """
    mr mrs ms miss mister missus dr doctor sir madam st saint uncle aunt auntie herr frau onkel tante don dona senor senora
    tio tia
    """.split()  # noqa: SIM905 - words are read sooner than a list of strings
)


class Ways(NamedTuple):
    """The stems that tell of somebody."""

    parts: tuple[frozenset[str], ...]
    """For each word of the name what may stand for it; a text that has one of each speaks of them."""
    alone: frozenset[str]
    """What is nobody else's, and tells of them by itself."""

    @classmethod
    def of(cls, stems: Iterable[str]) -> Ways:
        """Return that a text must have each of some stems."""
        return cls(tuple(frozenset({stem}) for stem in stems), frozenset())

    def all(self) -> frozenset[str]:
        """Return every stem that is to be looked up."""
        return self.alone.union(*self.parts)


def ways_of(
    name: str,
    people: Iterable[str],
    near: Mapping[str, Collection[Alike]],
    is_rare: Callable[[str], bool],
) -> Ways:
    """Return the stems by which a memory speaks of somebody.

    Args:
        people: everybody whose name is known.
        near: terms of the memory that sound like each stem of the name, with their distances; of one that has `LONG`
            letters or more also those that `Alikes.near` finds if it looks widely.
        is_rare: tells whether a term stands nearly nowhere.
    """
    stems = terms(name)
    others = {stem for other in people if other != name for stem in terms(other)}
    parts, alone = [], set[str]()
    for stem in stems:
        heard = {
            other
            for other, far in near.get(stem, ())
            if other not in others and _may_be(stem, other, far, whole=len(stems) == 1, is_rare=is_rare)
        }
        parts.append(frozenset({stem, *heard}))
        if len(stems) > 1 and _is_own(stem, others):
            alone |= {
                stem,
                *(other for other in heard if _is_own(other, others) and other not in COMMON_NAMES),
            }
    return Ways(tuple(parts), frozenset(alone))


def people_heard(text: str, people: Collection[str], named: Collection[str]) -> frozenset[str]:
    """Return those people of whom a text may speak though their names do not stand there whole.

    Args:
        named: those whose names do.
    """
    said = set(plain_words(text))
    parts = {name: plain_words(name) for name in people}
    said -= {word for name in named for word in parts.get(name, ())}
    strangers = {word for word in said & COMMON_NAMES if not (is_english(word) or word in STOP_WORDS)}
    owners = Counter(word for words in parts.values() for word in set(words))
    found = set()
    for name in parts.keys() - set(named):
        words = parts[name]
        if len(words) > 1:
            if any(owners[word] == 1 and _is_own(word, ()) for word in said.intersection(words)):
                found.add(name)
        elif words and any(_same(word, words[0]) for word in strangers - {words[0]}):
            found.add(name)
    return frozenset(found)


def _may_be(stem: str, other: str, far: float, *, whole: bool, is_rare: Callable[[str], bool]) -> bool:
    """Tell whether one term may be what was written for a part of a name.

    Args:
        whole: it is all of the name.
    """
    if is_english(other):
        return not whole and far <= _NEAR
    if other in COMMON_NAMES:
        return far <= (_SAME if whole else _NEAR) and is_rare(other)
    return far <= _NEAR or (far <= _FAR and len(stem) >= LONG and is_rare(other))


def _is_own(word: str, others: Collection[str]) -> bool:
    """Tell whether a word of a name is nobody else's, and no word of the language."""
    known = word in _TITLES or word in STOP_WORDS or word in COMMON_WORDS or is_english(word)
    return len(word) >= _LEAST_LETTERS and word not in others and not known


def _same(one: str, other: str) -> bool:
    return any(distance(a, b, _SAME) <= _SAME for a in as_heard(one) for b in as_heard(other))
