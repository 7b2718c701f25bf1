"""Names of people in questions and texts, even where a recogniser wrote another word for a name.

The index keeps how the names of people and subjects sound, so that misheard ones in a question are set right. Of a name of
several words one that is nobody else's is enough to speak of somebody: people say Ruth for Nana Ruth, and where a recogniser
writes Nana Roof the rest was a mistake. What sounds the same as a name is that name, if hardly any text has it.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from edgemem.languages.words import Names, all_words, common_names, common_words, is_english
from edgemem.preload import Pattern, preloaded
from edgemem.recall.people.phonetics import (
    SimilarTerm,
    as_heard,
    distance,
    nearest,
    skeleton,
    sounds_heard,
    sounds_near,
    sounds_of,
)
from edgemem.recall.text.analyse import MAX_CHARS, Analysis, plain_words, stem, stop_words, terms
from edgemem.store.db.binding import bound, placeholders

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from edgemem.store.db.database import Database


People = dict[str, list[str]]
"""People by their names, each with the words of the name."""

_MOST_CHARS = 120  # nobody calls a name longer than that, and each of its words would be kept with all of it
_MOST_STRANGE = 6  # words of a question; where more are strange, it is another language, or no speech
_MOST_SOUNDS, _MOST_NAMES = 900, 256
_JOINED = 0.21  # how far a name may be from two words that it fell into
_SURE = 0.12  # from where on nobody looks for another
_WHOLE = 0.15  # so much farther it may be than another from one of them: both words say more
_LEAST_LETTERS, _MOST_TEXT = 3, 4000
_WHOLE_NAME = 0.2  # how far a whole name may be
_LEAST_SINGLE, _LEAST_WHOLE, _MOST_WORDS = 4, 6, 4  # letters of a name of one word, and of more; its words
_NAME = Pattern(r"(?<![.!?…:;\n\"“”„«»([-])(?<=\w[ ,])\s*[A-ZÀ-ÖØ-ÞĀ-Ž][^\W\d_]+")
_WORD = Pattern(r"[^\W_]+(?:['’]s\b)?")


class _Lists(NamedTuple):
    """The word lists about names of all languages, in small letters and without accents."""

    men: frozenset[str]
    titles: frozenset[str]
    english: Names


@preloaded
def _lists() -> _Lists:
    languages = [words.names for words in all_words().values()]
    return _Lists(
        frozenset().union(*(names.men.plain() for names in languages)),
        frozenset().union(*(names.titles.plain() | names.other_titles.plain() for names in languages)),
        all_words()["en"].names,
    )


def people_of(names: Iterable[str]) -> People:
    """Return the people who have these names."""
    return {name: plain_words(name) for name in names}


def named_in(words: Iterable[str], people: People) -> frozenset[str]:
    """Return the people whose names have all their words among some plain words."""
    spoken = frozenset(words)
    return frozenset(name for name, parts in people.items() if parts and spoken.issuperset(parts))


def strange_words(text: str, unknown: Collection[str]) -> list[str]:
    """Return the words of a text that may be misheard names.

    Args:
        unknown: stems that stand nowhere in the memory; no other word is strange.
    """
    text = text[-MAX_CHARS:]
    # Where names are written with a capital, as the first letter tells, a small letter says that it is none.
    cased = text.lstrip()[:1].isupper()
    words = [word for word in _WORD.findall(text) if not (cased and word.islower())] if unknown else []
    return [word for word in _bare(words) if word not in common_words() and stem(word) in unknown]


def hear(text: str, names: Mapping[str, str]) -> str:
    """Return a text with words replaced by names.

    Args:
        names: by plain word, the name that was said.
    """
    return _WORD.sub(lambda match: names.get(_bare([match[0]])[0], match[0]), text[-MAX_CHARS:])


def _bare(words: Iterable[str], between: str = " ") -> list[str]:
    """Return words in plain letters, without an English genitive."""
    without_s = [re.sub(r"['’]s$", "", word) for word in words]
    return [between.join(plain_words(word)) for word in without_s]


def _spoken(query: str) -> list[tuple[re.Match[str], str]]:
    """Return the words of a question where they stand, each with its plain letters."""
    matches = list(_WORD.finditer(query))
    return list(zip(matches, _bare((match[0] for match in matches), ""), strict=True))


class _Piece(NamedTuple):
    """A word of a question, or two beside one another, from one character to another."""

    word: str
    begin: int
    end: int
    joined: bool


def sounds_with(names: Iterable[str]) -> frozenset[tuple[str, str]]:
    """Return how names sound, each by any of its words, with the name that sounds so."""
    return frozenset(
        (sound, name)
        for name in names
        if len(name) <= _MOST_CHARS
        for word in _called(name)
        for sound in sounds_of(word)
    )


def with_names(
    query: str, unknown: Collection[str], *, names: Iterable[str], database: Database | None
) -> str:
    """Replace words of a question that mean nothing by the names that they sound like.

    Args:
        unknown: stems of its words that stand nowhere in the memory; no other word is touched, but for one beside
            such, where a name fell in two.
        names: people and subjects that the index may not know yet.
        database: the index; None: do without it.
    """
    strange = set(strange_words(query, unknown)[:_MOST_STRANGE])
    if not strange:
        return query
    query = query[-MAX_CHARS:]
    left = _pieces(query, strange)
    here = _all_called(names)
    meant: list[tuple[float, str, _Piece]] = []
    for keys_of in (sounds_heard, sounds_near):  # nearly always, the first finds whom there is
        keys = {piece: keys_of(piece.word) for piece in left}
        known = names_sounding_like(database, set().union(*keys.values())) if database is not None else set()
        words = {**here, **_all_called(known)}
        for piece in left:
            hit = nearest(piece.word, words, keys[piece])
            if hit is not None and (not piece.joined or hit[0] <= _JOINED):
                meant.append((hit[0], words[hit[1]], piece))
        left = [
            piece
            for piece in left
            if not any(far <= _SURE and _overlap(piece, other) for far, _, other in meant)
        ]
    return _replaced(query, meant)


def with_people(asked: Analysis, people: People, rare: Collection[str] = ()) -> str:
    """Return a question with the names of people who speak here set right.

    Of a name of two words and more one must have been understood. That makes it likely enough that the other one, though it
    may be an English word, was the rest of the name: Nana Root is Nana Ruth. Who is called by another common name is
    somebody else, and so is a man from a woman.

    Args:
        rare: stems of words that are no English and stand nearly nowhere, which may be names of one word.
    """
    query, named = asked.text, named_in(asked.words, people)
    parts = _parts_of(tuple(sorted(set(people) - named)))
    if not parts:
        return query
    spoken = _spoken(query)
    # Who is called by a name that was understood is not somebody else, however alike the names are.
    understood = {word for name in named for word in people[name]}
    strange = {
        word
        for _, word in spoken
        if word not in common_names() and word not in understood and stem(word) in rare
    }
    meant: list[tuple[float, str, _Piece]] = []
    for at, (_, word) in enumerate(spoken):
        for name, place in dict.fromkeys(part for key in _keys_of(word) for part in parts.get(key, ())):
            name_words = tuple(people[name])
            for size in (len(name_words), len(name_words) + 1):
                window = tuple(word for _, word in spoken[max(0, at - place) : at - place + size])
                if at < place or len(window) < size or (len(name_words) == 1 and strange.isdisjoint(window)):
                    continue
                far = _apart(window, name_words)
                if far <= (_WHOLE_NAME if len(name_words) > 1 else _SURE):
                    first, last = spoken[at - place][0], spoken[at - place + size - 1][0]
                    meant.append((far, name, _Piece("", first.start(), last.end(), joined=False)))
    return _replaced(query, meant) if meant else query


@lru_cache(maxsize=8)
def _parts_of(people: tuple[str, ...]) -> dict[str, list[tuple[str, int]]]:
    """Return the names by the skeleton of each of their words, with the place of that word."""
    parts: dict[str, list[tuple[str, int]]] = {}
    for name in people:
        words = plain_words(name)
        long = len("".join(words))
        if (len(words) == 1 and long >= _LEAST_SINGLE) or (
            1 < len(words) <= _MOST_WORDS and long >= _LEAST_WHOLE
        ):
            for place, word in enumerate(words):
                for key in _keys_of(word):
                    parts.setdefault(key, []).append((name, place))
    return parts


@lru_cache(maxsize=2048)
def _keys_of(word: str) -> frozenset[str]:
    return frozenset(map(skeleton, as_heard(_lists().english.spoken.get(word, word))))


@lru_cache(maxsize=2048)
def _apart(heard: tuple[str, ...], name: tuple[str, ...]) -> float:
    """Return the distance of heard words from a whole name, 0 to 1; 1 where they are surely another person's name."""
    if len(heard) == len(name):
        for spoken, other in zip(heard, name):  # noqa: B905 - as long as one another
            if spoken != other and (
                spoken in common_names() or (spoken in _lists().men) != (other in _lists().men)
            ):
                return 1.0
    elif _lists().men.isdisjoint(heard) != _lists().men.isdisjoint(name):
        return 1.0
    return min(
        (
            distance(spoken, other, _WHOLE_NAME)
            for spoken in as_heard(_joined(heard))
            for other in as_heard(_joined(name))
        ),
        default=1.0,
    )


def _joined(words: Iterable[str]) -> str:
    """Join words to one, with titles as they are spoken."""
    return "".join(_lists().english.spoken.get(word, word) for word in words)


def names_sounding_like(database: Database, sounds: Iterable[str]) -> set[str]:
    """Return the names that have a word with one of some skeletons."""
    keys = sorted(sounds)[:_MOST_SOUNDS]
    if not keys:
        return set()
    rows = database.query(
        f"select distinct name from sounds where sound in ({placeholders(keys)}) limit {_MOST_NAMES}",  # noqa: S608 - ours
        bound(keys),
    )
    return {name for (name,) in rows}


def _called(name: str) -> dict[str, str]:
    """Return the words of a name, each as it is written; of two, both as one word, too, since a recogniser may hear one."""
    words = plain_words(name)
    called = {word: word for word in words}
    return {**called, "".join(words): " ".join(words)} if len(words) == 2 else called


def _all_called(names: Iterable[str]) -> dict[str, str]:
    return {word: written for name in names for word, written in _called(name).items()}


def names_in(text: str) -> set[str]:
    """Return the words of a text that have a capital inside a sentence, as names have."""
    return {
        word
        for match in _NAME.finditer(text[:_MOST_TEXT])
        if len(word := "".join(plain_words(match[0]))) >= _LEAST_LETTERS and word not in common_words()
    }


def called_in(text: str, subject: str) -> str:
    """Return the whole words of a fact that make up its subject; a stem may lack the end of a name that is heard."""
    stems = set(subject.split())
    words = [word for word in plain_words(text)[: 4 * len(stems)] if stem(word) in stems]
    return " ".join(dict.fromkeys(words))


def _pieces(query: str, strange: set[str]) -> list[_Piece]:
    """Return the strange words of a question, alone and joined with the word before or after."""
    words = [_Piece(word, match.start(), match.end(), joined=False) for match, word in _spoken(query)]
    alone = [
        word
        for before, word in pairwise([_Piece("", 0, 0, joined=False), *words])
        if word.word in strange and _may_be_name(before.word, query[word.begin : word.end], word.word)
    ]
    both = [
        _Piece(first.word + second.word, first.begin, second.end, joined=True)
        for first, second in pairwise(words)
        if {first.word, second.word} & strange
        and not {first.word, second.word} & _lists().english.never.words
    ]
    return alone + both


def _may_be_name(before: str, written: str, word: str) -> bool:
    """Tell whether a name may stand here; an English word is one only where names mostly stand."""
    if is_english(word):
        return before in _lists().english.before_names.words or word != written.lower()
    return before not in _lists().english.before_things.words


def _overlap(first: _Piece, second: _Piece) -> bool:
    return first.begin < second.end and second.begin < first.end


def _replaced(query: str, meant: list[tuple[float, str, _Piece]]) -> str:
    """Replace pieces of a question by names; where pieces overlap, the one with the nearest name."""
    kept: list[tuple[str, _Piece]] = []
    for _, name, piece in sorted(meant, key=lambda entry: entry[0] - _WHOLE * entry[2].joined):
        if not any(_overlap(piece, other) for _, other in kept):
            kept.append((name, piece))
    for name, piece in sorted(kept, key=lambda entry: -entry[1].begin):
        query = f"{query[: piece.begin]}{name}{query[piece.end :]}"
    return query


_SAME = 0.035  # the distance up to which two names are spoken the same
_NEAR, _FAR = 0.12, 0.2
"""Up to which a part of a name may be meant; and one that is long, by what is no English word."""
LONG, _LEAST_OWN_LETTERS = 6, 3


class NameStems(NamedTuple):
    """The stems by which texts speak of a person."""

    parts: tuple[frozenset[str], ...]
    """For each word of the name what may stand for it; a text that has one of each speaks of them."""
    alone: frozenset[str]
    """Stems that no other person has: each is enough by itself."""

    @classmethod
    def of(cls, stems: Iterable[str]) -> NameStems:
        """Return the stems of a person whose texts must have all of some stems."""
        return cls(tuple(frozenset({stem}) for stem in stems), frozenset())

    def all(self) -> frozenset[str]:
        """Return every stem that is to be looked up."""
        return self.alone.union(*self.parts)


def name_stems(
    name: str,
    stems: Sequence[str],
    people: Iterable[str],
    near: Mapping[str, Collection[SimilarTerm]],
    is_rare: Callable[[str], bool],
) -> NameStems:
    """Return the stems by which a memory speaks of somebody.

    Args:
        stems: those of the name.
        people: everybody whose name is known.
        near: terms of the memory that sound like each stem of the name, with their distances; of one that has `LONG`
            letters or more also those that `SimilarTerms.near` finds if it looks widely.
        is_rare: tells whether a term stands nearly nowhere.
    """
    others = {part for other in people if other != name for part in terms(other)}
    parts, alone = [], set[str]()
    for part in stems:
        heard = {
            other
            for other, far in near.get(part, ())
            if other not in others and _may_be(part, other, far, whole=len(stems) == 1, is_rare=is_rare)
        }
        parts.append(frozenset({part, *heard}))
        if len(stems) > 1 and _is_own(part, others):
            alone |= {
                part,
                *(other for other in heard if _is_own(other, others) and other not in common_names()),
            }
    return NameStems(tuple(parts), frozenset(alone))


def people_heard(words: Iterable[str], people: People, named: Collection[str]) -> frozenset[str]:
    """Return the people of whom a text may speak, though their names do not stand there whole.

    Args:
        words: of the text.
        named: the people whose whole names do.
    """
    spoken = set(words)
    spoken -= {word for name in named for word in people.get(name, ())}
    strangers = {
        word for word in spoken & common_names() if not (is_english(word) or word in stop_words("en"))
    }
    owners = Counter(word for own in people.values() for word in set(own))
    heard = set()
    for name in people.keys() - set(named):
        own = people[name]
        if len(own) > 1:
            if any(owners[word] == 1 and _is_own(word, ()) for word in spoken.intersection(own)):
                heard.add(name)
        elif own and any(_same(word, own[0]) for word in strangers - {own[0]}):
            heard.add(name)
    return frozenset(heard)


def _may_be(stem: str, other: str, far: float, *, whole: bool, is_rare: Callable[[str], bool]) -> bool:
    """Tell whether one term may be what was written for a part of a name.

    Args:
        whole: it is all of the name.
    """
    if is_english(other):
        return not whole and far <= _NEAR
    if other in common_names():
        return far <= (_SAME if whole else _NEAR) and is_rare(other)
    return far <= _NEAR or (far <= _FAR and len(stem) >= LONG and is_rare(other))


def _is_own(word: str, others: Collection[str]) -> bool:
    """Tell whether a word of a name is nobody else's, and no word of the language."""
    known = word in _lists().titles or word in stop_words("en") or word in common_words() or is_english(word)
    return len(word) >= _LEAST_OWN_LETTERS and word not in others and not known


def _same(first: str, second: str) -> bool:
    return any(distance(a, b, _SAME) <= _SAME for a in as_heard(first) for b in as_heard(second))
