"""Names: the people whom a question or a text names, even where a recogniser wrote another word for a name.

The table of docs has the names that these tell by their sounds, so a question's misheard names are corrected before all else. One word
that is nobody else's names somebody: people say Ruth for Nana Ruth. A word in no text that sounds like a name is that name.
Whom a statement is about is told by phrases of the language files and weights that
`make lab ARGS=statements` learns and writes to `statements.toml`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import msgspec

from edgemem.languages.words import (
    Exact,
    Names,
    Templates,
    Words,
    all_words,
    bare,
    endangers_speaker,
    function_words,
    is_safety_key,
    says_in_confidence,
    small,
    tells_of_safety,
)
from edgemem.preload import Pattern, preloaded
from edgemem.recall.people.phonetics import nearest, sounds_heard, sounds_near
from edgemem.recall.text.analyse import (
    MAX_CHARS,
    SpokenWord,
    language_in,
    plain_words,
    spoken_words,
    stem,
    stop_words,
    terms,
)
from edgemem.recall.text.lexicon import common_names, common_words, is_english
from edgemem.store.episodes import spell_out

_MOST_CHARS = 120  # no called name is longer, and each of its words would be kept with all of it
_MOST_UNKNOWN = 6  # words of a question; with more unknown, it is another language, or no speech
_MAX_JOINED = 0.21  # up to this distance a name may be meant by two words that it fell into
_SURE = 0.12  # up to this distance no other name is looked for
_WHOLE = 0.15  # how much farther two words may be from a name than one of them from another: both say more
_LEAST_OWN_LETTERS = 3
_LEAST_LETTERS, _MOST_TEXT = 3, 4000
_WORD, _SPACES = re.compile(r"[^\W\d_]+"), re.compile(r"\s+")
_SPEAKERS = frozenset(("user", "user's", "users", "speaker", "speaker's", "self", "own"))
"""Words for the speaker in keys that models write, beside those of the languages."""
_KEY_SIGNS = " _.-"
_KEY_HEAD = re.compile(rf"([^\W_]+(?:'s)?)[{_KEY_SIGNS}]+(?=\w)")
_PREFIX = 5  # letters that a word of a key and one of the statement share
_NAME = Pattern(r"(?<![.!?…:;\n\"“”„«»([-])(?<=\w[ ,])\s*[A-ZÀ-ÖØ-ÞĀ-Ž][^\W\d_]+")


class Name(NamedTuple):
    """The words and stems of a name."""

    words: tuple[str, ...]
    """In small letters, without accents."""
    stems: tuple[str, ...]


People = dict[str, Name]


About = Literal["speaker", "other"]
"""Whom a statement may be about: who says it, or somebody else; most are about things."""


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
    listed: frozenset[str]
    """Words that name nobody where a sentence begins."""
    no_verbs: frozenset[str]
    """Little words of languages whose nouns have capitals, but for verbs, and for those that join two names."""
    times: frozenset[str]
    """Weekdays and months."""
    firsts: frozenset[str]
    """First names of languages in which no other word looks like one with a capital."""
    chinese: Pattern
    """A Chinese name: behind a word that precedes names, or with a title."""


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
    languages = all_words().values()
    names = [words.names for words in languages]
    listed = {item.split()[0] for words in languages for item in words.dates.words["day"].split(",")}
    for words, safety in ((words, words.safety) for words in languages if words.safety):
        lists = (words.past.over, safety.tells, safety.things, safety.acts)
        listed |= {way.rstrip("*") for each in lists for item in each.items for way in item.split("/")}
    for words in languages:  # requests to keep something to oneself, or to say it
        asked = (*words.statements.confidence.items, *words.speech.items)
        listed |= {way for item in asked if item for way in item.split()[0].split("/")}
    no_verbs = set[str]()
    for words in (words for words in languages if words.compounds):
        verbs = {way for item in words.polar.items for way in item.split()[0].split("/")}
        no_verbs |= words.stop.words - words.joins.words - verbs
    times = (
        way
        for words in languages
        for kind in ("weekday", "month")
        for way in re.split("[,/]", words.dates.words[kind])
    )
    chinese = all_words()["zh"].names
    before, never = ("".join(part.words) for part in (chinese.before_names, chinese.never))
    title = f"(?:{'|'.join(chinese.titles.words)})"
    return _Lists(
        frozenset().union(*(some.titles.plain() | some.other_titles.plain() for some in names)),
        common_words(),
        frozenset().union(*(map(bare, words.little.items) for words in languages)),
        all_words()["en"].names,
        frozenset(map(bare, listed | function_words())),
        frozenset(no_verbs),
        frozenset(bare(small(time.strip())) + ending for time in times for ending in ("", "s")),
        frozenset().union(*(of.names.first.plain() for of in languages if not of.accented)),
        Pattern(rf"[{before}][^\W{never}]|[^\W{never}]{title}"),
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


def names_in(text: str) -> set[str]:
    """Return words with a capital inside a sentence, as names have."""
    return {
        word
        for match in _NAME.finditer(text[:_MOST_TEXT])
        if match[0].lstrip()[0].isupper()  # from Ā on the pattern takes small letters, too
        and len(word := "".join(plain_words(match[0]))) >= _LEAST_LETTERS
        and word not in _lists().common
    }


def people_in(text: str) -> set[str]:
    """Return words of no list with a capital; of a language whose nouns all have one, common first names, and a first word that may be one."""
    inside, known = names_in(text), all_words().get(language_in(text))
    first = names_in(f"x {text}") - inside - _lists().listed
    if not (known and known.compounds):
        return first | inside
    # A name goes before its verb; before a noun or a little word, it is a verb itself: "Setz Senf", "Setz noch Senf".
    behind = "".join(_WORD.findall(text[:_MOST_TEXT])[1:2])
    if behind[:1].isupper() or behind in _lists().no_verbs:
        first &= common_names()
    return first | (inside & common_names())


def people_told(text: str) -> tuple[list[str], list[str]]:
    """Return names in a statement, in small letters: first names and what follows kin or a title; and other words with a capital."""
    words, lists = all_words().get(language_in(text), all_words()["en"]), _lists()
    beside = " ".join(words.statements.beside.pattern.findall(small(text)))
    if not words.spaced:
        return [hit[0] for hit in lists.chinese.finditer(text) if hit[0] not in beside], []
    cased, own = people_in(text) - lists.times, common_names() | words.names.first.plain()
    nouns = (words.statements.traits, words.statements.things)
    verbs = (words.statements.states, words.statements.deeds)
    sure, rest, after, before = list[str](), list[str](), False, ""
    for word in _WORD.findall(text):
        name, capital = small(word), word[0].isupper()
        firsts = own | lists.firsts if capital else own
        if bare(name) not in firsts and bare(name[:-1]) in firsts and name[-1] == "s":
            name = name[:-1]  # Lenas Katze
        plain = bare(name)
        first = plain in firsts and plain not in lists.common | lists.times
        is_kin = plain in lists.titles or (
            any(cue.pattern.fullmatch(name) for cue in _kin(words))
            and not words.others.pattern.fullmatch(name)
        )
        if capital and (first or (after and not is_kin and not any(noun.stand_in(name) for noun in nouns))):
            sure.append(name)
        elif first and (
            not (plain in lists.listed or is_english(plain))
            if words.stemmer in ("english", "german")
            else (after or before in words.names.before_names.words)
            and not any(said.stand_in(f"{before} {name}") for said in verbs)
            and name not in words.stop.words
        ):
            sure.append(name)  # elsewhere such a word may be no name, unless a title stands before it
        elif plain in cased and not is_kin:
            rest.append(name)
        after, before = is_kin, name
    return [name for name in sure if name not in beside], [name for name in rest if name not in beside]


def _kin(words: Words) -> list[Exact]:
    return [words.statements.people, *([words.safety.others] if words.safety else [])]


class Subject(NamedTuple):
    """Whom a fact is about, and its key without them."""

    trait: str
    about: About | None = None
    name: str | None = None
    """In small letters; None: nobody can tell who it is, or it is about no person."""


def subject_of(text: str, key: str, value: str, speaker: str = "", *, least: float = 0.0) -> Subject:
    """Return whom a statement is about of which a model makes a fact.

    Args:
        speaker: the key of a name; empty: an unknown voice.
        least: log odds from which on it is about the speaker.
    """
    trait = without_speaker(key, speaker)
    if trait != without_speaker(key):
        return Subject(trait, "speaker", speaker)
    names = [name for some in people_told(text) for name in some if name not in speaker.split()]
    head = _KEY_HEAD.match(trait)
    for name in names:
        if head and small(head[1]) in (name, f"{name}s", f"{name}'s"):
            return Subject(trait[head.end() :], "other", name)
    if _introduces(text, trait, value):
        return Subject(trait, "speaker", speaker or None)
    odds, subject = whom_it_concerns(text, trait, value), bare(small(trait.partition(".")[0]))
    is_named = "." in trait and (subject in common_names() or subject in _lists().firsts)
    if is_named or ("." in trait and odds["other"] > odds["speaker"]):
        return Subject(trait)
    if odds["other"] > max(0, odds["speaker"] - least):
        told = [name for name in names if name not in small(value)] or names
        if told and told[0] == small(trait):
            return Subject(trait)  # the key is the name already
        return Subject(trait, "other", told[0] if told else None)
    if odds["speaker"] > least:
        return Subject(trait, "speaker", speaker or None)
    return Subject(trait)


def _introduces(text: str, trait: str, value: str) -> bool:
    """Tell whether speakers say their own name, whoever else is named: "I'm Marta, and this is my husband Jiri"."""
    people, told, name = people_told(text)[0], small(text), small(value).strip()
    words = all_words().get(language_in(text), all_words()["en"])
    is_thing = _key_words().things.stand_in(spelled(trait)) or words.statements.deeds.stand_in(told)
    if is_thing or not name or not set(people).issuperset(name.split()):
        return False
    before = told[: max(told.find(name), 0)]
    ends = [hit.end() for some in (words.i, words.me, words.my) for hit in some.pattern.finditer(before)]
    between = before[max(ends, default=0) :]
    others = any(cue.stand_in(between) for cue in _kin(words)) or any(person in between for person in people)
    return bool(ends) and not others


def spelled(key: str) -> str:
    """Return the words of a key in small letters: keys of one spelling are one key."""
    return small(spell_out(key))


def rank_of(key: str, asked: str, speaker: str) -> int | None:
    """Return how near a fact's key is to one that a speaker asks for: 0, it is about them; 1, the same; 2, about somebody else; None, another."""
    name = re.compile(rf"{re.escape(spelled(without_speaker(asked, speaker)))}( \d+)?")
    trait = without_speaker(key, speaker)
    if name.fullmatch(spelled(trait)):
        return int(trait == without_speaker(key))
    return 2 if name.fullmatch(spelled(key.partition(".")[2])) else None


def all_must_know(text: str, told: str) -> bool:
    """Tell whether what somebody told, as `key: value`, may hurt people, and is not said in confidence."""
    return not says_in_confidence(text) and (is_safety_key(told.partition(":")[0]) or tells_of_safety(told))


def without_speaker(key: str, speaker: str = "") -> str:
    """Return a key without the speaker's name and words for them before it: `my_allergy`, `user.allergy`, `ines.allergy`."""
    while (head := _KEY_HEAD.match(key)) and small(head[1]) in _key_words().speaker:
        key = key[head.end() :]
    name, rest = key[: len(speaker)].casefold().replace("_", " "), key[len(speaker) :]
    return rest[1:] if speaker and name == speaker and rest[:1] in _KEY_SIGNS and rest[1:] else key


def whom_it_concerns(text: str, trait: str, value: str) -> dict[About, float]:
    """Return the log odds that a statement is about its speaker, and about somebody else, by `statement_features`."""
    features = statement_features(text, trait, value)
    return {
        about: sum(weight for name, weight in weights.items() if features[name])
        for about, weights in _statement_weights().items()
    }


def statement_features(text: str, trait: str, value: str) -> dict[str, bool]:
    """Return what tells whom a statement is about, by name; `trait` and `value` are the fact that is made of it."""
    text, known, keys = text[-_MOST_TEXT:], all_words(), _key_words()
    (people, others), words = people_told(text), known.get(language_in(text), known["en"])
    cues, kin, told, value = words.statements, _kin(words), small(text), small(value)
    for introduction in (words.hedges, cues.frames):
        told = _SPACES.sub(" ", introduction.pattern.sub(" ", told)).strip()
    # Of "my son's shoes", neither is about the speaker.
    own = [
        rest
        for hit in words.my.pattern.finditer(told)
        if not any(cue.stand_in(" ".join((rest := told[hit.end() :].lstrip()).split()[:2])) for cue in kin)
    ]
    trait = spelled(trait)
    begins = tuple(word[:_PREFIX] for word in plain_words(trait) if len(word) >= _LEAST_LETTERS)
    deed, state, us, me, thing = (
        any(phrases.stand_in(told) for phrases in lists)
        for lists in ((cues.deeds,), (cues.states,), (words.we, words.us), (words.me,), (cues.things, words.lists))
    )  # fmt: skip
    of_kin = any(some.stand_in(told.replace(value, " ")) for some in kin)
    with_others = deed or us or of_kin or bool(people)
    is_trait, is_thing = keys.traits.stand_in(trait) or is_safety_key(trait), keys.things.stand_in(trait)
    self = state or me or bool(own) or words.i.stand_in(told)
    whole = [name for name in people + others if name not in value]
    last = max((told.rfind(name) for name in whole), default=len(told))
    start = min((place for word in plain_words(value) if (place := told.find(word)) >= 0), default=0)
    near = max((told.rfind(name, 0, start) for name in people + others), default=-1)
    speaks = [hit.start() for some in (words.i, words.me, words.my) for hit in some.pattern.finditer(told)]
    return {
        "bias": True,
        "me": me,
        "self alone": self and not (with_others or thing or is_thing),
        "state": cues.states.stand_in(cues.deeds.pattern.sub(" ", told)),
        "state of food": state and not deed and keys.food.stand_in(trait),
        "deed": deed,
        "us": us,
        "my": bool(own),
        "my first": bool(own and words.my.pattern.match(told)),
        "my key": any(bare(word).startswith(begins) for rest in own for word in rest.split()[:3]),
        "key thing": is_thing,
        "key trait alone": is_trait and not is_thing,
        "key trait of kin": is_trait and of_kin,
        "thing": cues.things.stand_in(told),
        "word with a capital": bool(others),
        "name": bool(whole),
        "name before me": any(place > last for place in speaks),
        "name before value": near >= 0 and not any(near < place < start for place in speaks),
        "others": words.others.stand_in(told),
        "others named last": endangers_speaker(text, language_in(text)) is False,
    }


class _KeyWords(NamedTuple):
    speaker: frozenset[str]
    traits: Templates
    things: Templates
    food: Templates


@preloaded
def _key_words() -> _KeyWords:
    languages = all_words().values()
    mine = (words.my.items + words.me.items for words in languages)
    traits = (words.statements.traits.items for words in languages)
    things = (words.statements.things.items + words.lists.items for words in languages)
    every = chain.from_iterable
    food = (words.safety.things.items for words in languages if words.safety)
    return _KeyWords(
        _SPEAKERS.union(*mine), *(Templates(",".join(every(items))) for items in (traits, things, food))
    )


@preloaded
def _statement_weights() -> dict[About, dict[str, float]]:
    file = Path(__file__).with_name("statements.toml")
    return msgspec.toml.decode(file.read_text("utf-8"), type=dict[About, dict[str, float]])


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
