"""Names: the people whom a question or a text names, even where a recogniser wrote another word for a name.

The table of docs has the names that these tell by their sounds, so a question's misheard names are corrected before all else. One word
that is nobody else's names somebody: people say Ruth for Nana Ruth. A word in no text that sounds like a name is that name.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from typing import TYPE_CHECKING, NamedTuple, Protocol

from edgemem.languages.words import Names, all_words, bare, common_words, is_english
from edgemem.preload import Pattern, np, preloaded
from edgemem.recall.people.phonetics import nearest, sounds_heard, sounds_near, sounds_of
from edgemem.recall.text.analyse import (
    MAX_CHARS,
    SpokenWord,
    plain_words,
    spoken_words,
    stem,
    stop_words,
    terms,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_CHARS = 120  # no called name is longer, and each of its words would be kept with all of it
_MOST_UNKNOWN = 6  # words of a question; with more unknown, it is another language, or no speech
_MOST_NAMES = 256
_MAX_JOINED = 0.21  # up to this distance a name may be meant by two words that it fell into
_SURE = 0.12  # up to this distance no other name is looked for
_WHOLE = 0.15  # how much farther two words may be from a name than one of them from another: both say more
_LEAST_OWN_LETTERS = 3
_LEAST_LETTERS, _MOST_TEXT = 3, 4000
_NAME = Pattern(r"(?<![.!?…:;\n\"“”„«»([-])(?<=\w[ ,])\s*[A-ZÀ-ÖØ-ÞĀ-Ž][^\W\d_]+")


class Name(NamedTuple):
    """The words and stems of a name."""

    words: tuple[str, ...]
    """In small letters, without accents."""
    stems: tuple[str, ...]


People = dict[str, Name]


class NamedPeople(NamedTuple):
    """A question and the people in it."""

    text: str
    """With misheard names corrected."""
    whole: frozenset[str]
    """People whose whole names are in it."""
    partly: frozenset[str]
    """Others with a part of their names in it."""


class ReadableTexts(Protocol):
    """The texts of a memory that somebody may read."""

    def counts(self, terms: Iterable[str]) -> Mapping[str, int]:
        """Count the texts with each term."""

    def sounding_like(self, sounds: Iterable[str]) -> Sequence[str]:
        """Return names with a word of one of some skeletons."""


class _Lists(NamedTuple):
    """Word lists about names of all languages, in small letters and without accents."""

    titles: frozenset[str]
    common: frozenset[str]
    """Words that everybody uses at home."""
    empty: frozenset[str]
    """Without content: happen, topic, news."""
    english: Names


class _Piece(NamedTuple):
    """A word of a question, or two neighbours, from one character to another."""

    word: str
    begin: int
    end: int
    joined: bool = False

    def overlaps(self, other: _Piece) -> bool:
        return self.begin < other.end and other.begin < self.end


Hit = tuple[float, str, _Piece]
"""A distance, a name, and the piece that means it."""


@preloaded
def _lists() -> _Lists:
    languages = [words.names for words in all_words().values()]
    return _Lists(
        frozenset().union(*(names.titles.plain() | names.other_titles.plain() for names in languages)),
        common_words(),
        frozenset().union(*(map(bare, words.little.items) for words in all_words().values())),
        all_words()["en"].names,
    )


@lru_cache(maxsize=4096)
def parsed_name(name: str) -> Name:
    """Return a name's words and stems."""
    return Name(tuple(plain_words(name)), tuple(terms(name)))


def people_of(names: Iterable[str]) -> People:
    """Return the people with these names."""
    return {name: parsed_name(name) for name in names}


def find_people(
    text: str, people: People, texts: ReadableTexts, *, names: Iterable[str] = (), dates: Collection[str] = ()
) -> NamedPeople:
    """Return a question with its misheard names corrected, and the people whom it names.

    Of a very long text the end counts. `people` are the known speakers, `names` people whom no doc may tell of; `dates` are
    phrases whose words are no names.
    """
    text = text[-MAX_CHARS:]
    spoken = _undated(text, dates)
    unknown = {word.stem for word in spoken if _may_be_misheard(word)}
    common = texts.counts(unknown) if unknown else {}
    missing = {stem for stem in unknown if not common.get(stem)}
    corrected = correct_names(text, spoken, missing, names=names, texts=texts) if missing else text
    if corrected != text:
        text, spoken = corrected, _undated(corrected, dates)
    words = [part for word in spoken for part in word.parts]
    whole = named_in(words, people)
    return NamedPeople(text, whole, partly_named(words, people, whole))


def named_in(words: Iterable[str], people: People) -> frozenset[str]:
    """Return the people whose names have all their words among some plain words."""
    spoken = frozenset(words)
    return frozenset(name for name, parts in people.items() if parts.words and spoken.issuperset(parts.words))


def partly_named(words: Iterable[str], people: People, named: Collection[str]) -> frozenset[str]:
    """Return the people whom the words of a text may name, besides those `named` in whole."""
    spoken = set(words)
    spoken -= {word for name in named if name in people for word in people[name].words}
    owners = Counter(word for own in people.values() for word in set(own.words))
    return frozenset(
        name
        for name in people.keys() - set(named)
        if len(people[name].words) > 1
        and any(
            owners[word] == 1 and _is_distinctive(word, ())
            for word in spoken.intersection(people[name].words)
        )
    )


def replace_words(text: str, replacements: Mapping[str, str]) -> str:
    """Replace words in a text, given by their plain letters."""
    for word in reversed(spoken_words(text)):
        if word.word in replacements:
            text = f"{text[: word.begin]}{replacements[word.word]}{text[word.end :]}"
    return text


def correct_names(
    text: str,
    spoken: Sequence[SpokenWord],
    unknown: Collection[str],
    *,
    names: Iterable[str],
    texts: ReadableTexts | None = None,
) -> str:
    """Return a question with names in place of unknown words that sound like them.

    `unknown` are stems that no text has: no other words are replaced, but for one beside such, where a name fell in two. `names`
    and those that `texts` tell may be meant.
    """
    # A first letter that is a capital tells that names have capitals; then a small letter means no name.
    cased = text.lstrip()[:1].isupper()
    candidates = [
        word.word
        for word in spoken
        if word.stem in unknown
        and word.word not in _lists().common
        and not (cased and text[word.begin : word.end].islower())
    ]
    if not candidates:
        return text
    pieces = _pieces(text, spoken, set(candidates[:_MOST_UNKNOWN]))
    own = _called_by(names)
    hits: list[Hit] = []
    for keys_of in (sounds_heard, sounds_near):  # nearly always the first is enough
        keys = {piece: keys_of(piece.word) for piece in pieces}
        near = texts.sounding_like(set().union(*keys.values())) if texts is not None else ()
        words = {**own, **_called_by(near)}
        for piece in pieces:
            hit = nearest(piece.word, words, keys[piece])
            if hit is not None and (not piece.joined or hit[0] <= _MAX_JOINED):
                hits.append((hit[0], words[hit[1]], piece))
        pieces = [
            piece
            for piece in pieces
            if not any(far <= _SURE and piece.overlaps(other) for far, _, other in hits)
        ]
    return _replaced(text, hits)


class NamesBySound:
    """The names that docs tell, by the sounds of any of their words; the caller holds a lock."""

    def __init__(self) -> None:
        self._slots: dict[str, set[int]] = {}
        self._names: defaultdict[str, list[str]] = defaultdict(list)

    def add(self, slot: int, names: Iterable[str]) -> None:
        """Add the names of the doc in a slot."""
        for name in names:
            if name not in self._slots:
                self._slots[name] = set()
                for sound in _sounds_of(name):
                    self._names[sound].append(name)
            self._slots[name].add(slot)

    def drop(self, slot: int, names: Iterable[str]) -> None:
        """Remove the names of a doc; one that no other doc tells leaves no sound."""
        for name in names:
            self._slots[name].discard(slot)
            if not self._slots[name]:
                del self._slots[name]
                for sound in _sounds_of(name):
                    self._names[sound].remove(name)

    def sounding_like(self, sounds: Iterable[str], readable: NDArray[np.bool_]) -> list[str]:
        """Return names with a word of one of some skeletons, of docs that are `readable`, by slot: others tell nobody anything."""
        near = sorted(set().union(*(self._names.get(sound, ()) for sound in sounds)))
        told = (name for name in near if any(readable[slot] for slot in self._slots[name]))
        return list(islice(told, _MOST_NAMES))


def _sounds_of(name: str) -> set[str]:
    words = plain_words(name) if len(name) <= _MOST_CHARS else []
    return set().union(*map(sounds_of, (*words, "".join(words)) if len(words) == 2 else words))


def names_in(text: str) -> set[str]:
    """Return words with a capital inside a sentence, as names have."""
    return {
        word
        for match in _NAME.finditer(text[:_MOST_TEXT])
        if match[0].lstrip()[0].isupper()  # from Ā on the pattern takes small letters, too
        and len(word := "".join(plain_words(match[0]))) >= _LEAST_LETTERS
        and word not in _lists().common
    }


def called_in(text: str, subject: str) -> str:
    """Return the whole words of a fact's subject; a stem may lack the end of a name that is heard."""
    stems = set(subject.split())
    words = [word for word in plain_words(text)[: 4 * len(stems)] if stem(word) in stems]
    return " ".join(dict.fromkeys(words))


def distinctive_stems(name: Name, people: People) -> frozenset[str]:
    """Return the stems of a name of several words that are enough to mention its person, since none of `people` shares them."""
    if len(name.stems) < 2:
        return frozenset()
    others = {part for other in people.values() if other != name for part in other.stems}
    return frozenset([stem for stem in name.stems if _is_distinctive(stem, others)])


def _undated(text: str, dates: Collection[str]) -> list[SpokenWord]:
    places = [(text.find(phrase), len(phrase)) for phrase in dates]
    return [
        word
        for word in spoken_words(text)
        if not any(0 <= begin <= word.begin < begin + length for begin, length in places)
    ]


def _may_be_misheard(spoken: SpokenWord) -> bool:
    """Tell whether a word may be written for a name: any with content that is not everybody's."""
    word = spoken.word
    if not (spoken.content and word.isascii() and word.isalpha()):
        return False
    return word not in _lists().common and word not in _lists().empty


def _called(name: str) -> dict[str, str]:
    """Return a name's words, each as it is written; of two, also both as one, since a recogniser may hear one."""
    words = parsed_name(name).words
    called = {word: word for word in words}
    return {**called, "".join(words): " ".join(words)} if len(words) == 2 else called


def _called_by(names: Iterable[str]) -> dict[str, str]:
    return {word: written for name in names for word, written in _called(name).items()}


def _pieces(text: str, spoken: Sequence[SpokenWord], candidates: set[str]) -> list[_Piece]:
    """Return words that may be misheard, alone and joined with a neighbour."""
    words = [_Piece(word.word, word.begin, word.end) for word in spoken]
    alone = [
        word
        for before, word in pairwise([_Piece("", 0, 0), *words])
        if word.word in candidates and _may_be_name(before.word, text[word.begin : word.end], word.word)
    ]
    both = [
        _Piece(first.word + second.word, first.begin, second.end, joined=True)
        for first, second in pairwise(words)
        if {first.word, second.word} & candidates
        and not {first.word, second.word} & _lists().english.never.words
    ]
    return alone + both


def _may_be_name(before: str, written: str, word: str) -> bool:
    """Tell whether a name may follow a word; an English word is one only where names mostly do."""
    if is_english(word):
        return before in _lists().english.before_names.words or word != written.lower()
    return before not in _lists().english.before_things.words


def _replaced(text: str, hits: Iterable[Hit]) -> str:
    """Replace pieces by names; where they overlap, the one with the nearest name."""
    chosen: list[tuple[str, _Piece]] = []
    for _, name, piece in sorted(hits, key=lambda hit: hit[0] - _WHOLE * hit[2].joined):
        if not any(piece.overlaps(other) for _, other in chosen):
            chosen.append((name, piece))
    for name, piece in sorted(chosen, key=lambda entry: -entry[1].begin):
        text = f"{text[: piece.begin]}{name}{text[piece.end :]}"
    return text


def _is_distinctive(word: str, others: Collection[str]) -> bool:
    """Tell whether a word of a name is nobody else's, and no word of the language."""
    known = word in _lists().titles or word in stop_words("en") or word in _lists().common or is_english(word)
    return len(word) >= _LEAST_OWN_LETTERS and word not in others and not known
