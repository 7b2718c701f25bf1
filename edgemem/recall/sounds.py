"""Sounds in the index: whom the names of people and subjects may be misheard for, looked up by how they sound."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from edgemem.patterns import Pattern
from edgemem.recall.common_words import COMMON_NAMES, COMMON_WORDS
from edgemem.recall.english_words import is_english
from edgemem.recall.index.sources import bound, marks
from edgemem.recall.phonetic import nearest, sounds_heard, sounds_near, sounds_of
from edgemem.recall.question import MAX_CHARS, people_in, strange_words
from edgemem.recall.readings import as_heard, distance, skeleton
from edgemem.recall.stemmer import stem
from edgemem.recall.words import plain_words, terms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from edgemem.store.database import Database, Transaction


_MOST_CHARS = 120  # nobody calls a name longer than that, and each of its words would be kept with all of it
_MOST_STRANGE = 6  # words of a question; where more are strange, it is another language, or no speech
_MOST_SOUNDS, _MOST_NAMES = 900, 256
_JOINED = 0.21  # how far a name may be from two words that it fell into
_SURE = 0.12  # from where on nobody looks for another
_WHOLE = 0.15  # so much farther it may be than another from one of them: both words say more
_LEAST_LETTERS, _MOST_TEXT = 3, 4000
_WHOLE_NAME = 0.2  # how far a whole name may be
_LEAST_ONE, _LEAST_WHOLE, _MOST_WORDS = 4, 6, 4  # letters of a name of one word, and of more; its words
_TITLES = {"mrs": "missis", "mr": "mister", "ms": "miss", "dr": "doctor", "st": "saint"}
_MEN = frozenset({"mr", "mister", "herr", "senor", "uncle", "onkel", "tio"})
_NAME = Pattern(r"(?<![.!?…:;\n\"“”„«»([-])(?<=\w[ ,])\s*[A-ZÀ-ÖØ-ÞĀ-Ž][^\W\d_]+")
_WORD = Pattern(r"[^\W_]+(?:['’]s\b)?")
_FIRM = """
a about an and are at can did do does for from had has have how i if in is it its me my of on or our s that the their
there this to was we were what when where which who whose why will with you your
"""
"""Words that no name begins or ends with: they are the commonest, and recognisers know them best."""
_THINGS = "a an any every how many more most much my no our some the these this those which your"
"""Words before a thing, which tell that what comes next is nobody's name."""
_NAMES = """
about and aunt by cousin did do does doctor dr for from grandma grandpa has is miss mister mr mrs ms or sister to uncle
was will with
"""
"""Words after which a name mostly stands, and seldom a thing without an article."""
_FIRM_WORDS, _BEFORE_THINGS, _BEFORE_NAMES = (frozenset(words.split()) for words in (_FIRM, _THINGS, _NAMES))


class _Piece(NamedTuple):
    """A word of a question, or two beside one another, from one character to another."""

    word: str
    begin: int
    end: int
    joined: bool


def note_sounds(tx: Transaction, sounds: Iterable[tuple[str, str]]) -> None:
    """Have names be found by how they sound, given as by `sounds_with`."""
    tx.executemany("insert or ignore into sounds (sound, name) values (?, ?)", sounds)


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
    """Return a question in which words that mean nothing are replaced by the names that they sound like.

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
            found = nearest(piece.word, words, keys[piece])
            if found is not None and (not piece.joined or found[0] <= _JOINED):
                meant.append((found[0], words[found[1]], piece))
        left = [
            piece
            for piece in left
            if not any(far <= _SURE and _overlap(piece, other) for far, _, other in meant)
        ]
    return _replaced(query, meant)


def with_people(query: str, people: Collection[str], rare: Collection[str] = ()) -> str:
    """Return a question in which names of people who speak here are set right.

    Of a name of two words and more one must have been understood. That makes it likely enough that the other one, though it
    may be an English word, was the rest of the name: Nana Root is Nana Ruth. Who is called by another common name is
    somebody else, and so is a man from a woman.

    Args:
        rare: stems of words that are no English and stand nearly nowhere, which may be names of one word.
    """
    query = query[-MAX_CHARS:]
    named = people_in(query, people)
    parts = _parts_of(tuple(sorted(set(people) - named)))
    if not parts:
        return query
    said = [(found, "".join(plain_words(re.sub(r"['’]s$", "", found[0])))) for found in _WORD.finditer(query)]
    # Who is called by a name that was understood is not somebody else, however alike the names are.
    understood = {word for name in named for word in plain_words(name)}
    strange = {
        word for _, word in said if word not in COMMON_NAMES and word not in understood and stem(word) in rare
    }
    meant: list[tuple[float, str, _Piece]] = []
    for at, (_, word) in enumerate(said):
        for name, place in dict.fromkeys(part for key in _keys_of(word) for part in parts.get(key, ())):
            wanted = tuple(plain_words(name))
            for size in (len(wanted), len(wanted) + 1):
                window = tuple(word for _, word in said[max(0, at - place) : at - place + size])
                if at < place or len(window) < size or (len(wanted) == 1 and strange.isdisjoint(window)):
                    continue
                far = _apart(window, wanted)
                if far <= (_WHOLE_NAME if len(wanted) > 1 else _SURE):
                    first, last = said[at - place][0], said[at - place + size - 1][0]
                    meant.append((far, name, _Piece("", first.start(), last.end(), joined=False)))
    return _replaced(query, meant) if meant else query


@lru_cache(maxsize=8)
def _parts_of(people: tuple[str, ...]) -> dict[str, list[tuple[str, int]]]:
    """Return names by the skeletons of each of their words, with its place."""
    found: dict[str, list[tuple[str, int]]] = {}
    for name in people:
        words = plain_words(name)
        long = len("".join(words))
        if (len(words) == 1 and long >= _LEAST_ONE) or (
            1 < len(words) <= _MOST_WORDS and long >= _LEAST_WHOLE
        ):
            for place, word in enumerate(words):
                for key in _keys_of(word):
                    found.setdefault(key, []).append((name, place))
    return found


@lru_cache(maxsize=2048)
def _keys_of(word: str) -> frozenset[str]:
    return frozenset(map(skeleton, as_heard(_TITLES.get(word, word))))


@lru_cache(maxsize=2048)
def _apart(heard: tuple[str, ...], name: tuple[str, ...]) -> float:
    """Return how far words that were heard are from a whole name; 1 where they are surely somebody else's."""
    if len(heard) == len(name):
        for one, other in zip(heard, name):  # noqa: B905 - as long as one another
            if one != other and (one in COMMON_NAMES or (one in _MEN) != (other in _MEN)):
                return 1.0
    elif _MEN.isdisjoint(heard) != _MEN.isdisjoint(name):
        return 1.0
    return min(
        (
            distance(one, other, _WHOLE_NAME)
            for one in as_heard(_in_one(heard))
            for other in as_heard(_in_one(name))
        ),
        default=1.0,
    )


def _in_one(words: Iterable[str]) -> str:
    """Return words as one, titles as they are spoken."""
    return "".join(_TITLES.get(word, word) for word in words)


def names_sounding_like(database: Database, sounds: Iterable[str]) -> set[str]:
    """Return the names of which a word has one of some skeletons."""
    wanted = sorted(sounds)[:_MOST_SOUNDS]
    if not wanted:
        return set()
    rows = database.query(
        f"select distinct name from sounds where sound in ({marks(wanted)}) limit {_MOST_NAMES}",  # noqa: S608 - ours
        bound(wanted),
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
    """Return the words of a text that were written as names are: with a capital, where no sentence begins."""
    return {
        word
        for found in _NAME.finditer(text[:_MOST_TEXT])
        if len(word := "".join(plain_words(found[0]))) >= _LEAST_LETTERS and word not in COMMON_WORDS
    }


def called_in(text: str, subject: str) -> str:
    """Return the words of a fact that its subject is made of: of a name, a stem may lack the end that is heard."""
    stems = set(subject.split())
    words = [word for word in plain_words(text)[: 4 * len(stems)] if stem(word) in stems]
    return " ".join(dict.fromkeys(words))


def drop_sounds(tx: Transaction) -> None:
    """Leave no trace of names that are not in the index any more."""
    rows = tx.execute(
        "select distinct name from sounds where name not in (select name from people)"
        " and name not in (select subject from docs where subject is not null)"
    )
    gone = [(name,) for (name,) in rows if not _stands(tx, terms(name))]
    tx.executemany("delete from sounds where name = ?", gone)


def _stands(tx: Transaction, stems: list[str]) -> bool:
    """Tell whether some text of the index has all of some stems."""
    asked = " AND ".join(
        f'"{stem}"' for stem in stems
    )  # letters and digits only: no FTS5 syntax within quotes
    return bool(asked) and bool(tx.execute("select 1 from words where words match ? limit 1", (asked,)))


def _pieces(query: str, strange: set[str]) -> list[_Piece]:
    """Return the strange words of a question, and each with the one before and after it."""
    words = [
        _Piece(
            "".join(plain_words(re.sub(r"['’]s$", "", found[0]))), found.start(), found.end(), joined=False
        )
        for found in _WORD.finditer(query)
    ]
    alone = [
        word
        for before, word in pairwise([_Piece("", 0, 0, joined=False), *words])
        if word.word in strange and _may_be_name(before.word, query[word.begin : word.end], word.word)
    ]
    both = [
        _Piece(one.word + other.word, one.begin, other.end, joined=True)
        for one, other in pairwise(words)
        if {one.word, other.word} & strange and not {one.word, other.word} & _FIRM_WORDS
    ]
    return alone + both


def _may_be_name(before: str, written: str, word: str) -> bool:
    """Tell whether a name may stand here; an English word is one only where names mostly stand."""
    if is_english(word):
        return before in _BEFORE_NAMES or word != written.lower()
    return before not in _BEFORE_THINGS


def _overlap(one: _Piece, other: _Piece) -> bool:
    return one.begin < other.end and other.begin < one.end


def _replaced(query: str, meant: list[tuple[float, str, _Piece]]) -> str:
    """Return a question with pieces of it replaced by names; of those that overlap, the one that is nearest."""
    kept: list[tuple[str, _Piece]] = []
    for _, name, piece in sorted(meant, key=lambda each: each[0] - _WHOLE * each[2].joined):
        if not any(_overlap(piece, other) for _, other in kept):
            kept.append((name, piece))
    for name, piece in sorted(kept, key=lambda each: -each[1].begin):
        query = f"{query[: piece.begin]}{name}{query[piece.end :]}"
    return query
