"""Phonetics: the ways in which a name may be spoken, and the distance of two names or words by their sound.

A reading is a string of sounds, one letter each: capitals are consonants (X as in shoe, C as in church, J as in jam), small
letters vowels. A spelling is a list of rules from letters to sounds, tried in order at each place: one for each language known
here, and a generic one for the rest of Europe. A recogniser that expects English writes "Keeva" for Caoimhe: read as English,
that is compared with all readings of the name.

A name is looked up by the skeletons of its readings, the classes of their consonants ("KF" of Keeva); the distance of the
readings says which, if any, is meant. An index holds the skeletons, so a change of a rule changes `analyse.WORDS_VERSION`.

A word that is a common name means another only where both sound the same in a narrow sense: by the classes of their consonants
(H. J. Postel, "Die Kölner Phonetik", 1969; L. Philips, "Hanging on the Metaphone", 1990) and the kinds of the first vowel and of
an open last one, as an English, a German or a Spanish speaker reads them (after A. Beider and S. P. Morse, "Beider-Morse Phonetic
Matching", 2008). Carl is not Carla, nor Tim Tom.

Any other unknown word is looked for by terms that sound like it ("paper" for "pepper"), at a lower weight; it is higher where a
mistake is likely: a word that is not English was surely misheard. A German word may be a part of a longer one, as Tonne of
Papiertonne.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, islice
from typing import TYPE_CHECKING, NamedTuple

from edgemem.languages.words import all_words
from edgemem.preload import np, preloaded
from edgemem.recall.text.analyse import plain_words, stem
from edgemem.recall.text.lexicon import common_names, is_english

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LETTERS = str.maketrans({"đ": "d", "ø": "o", "æ": "e", "œ": "e", "ß": "ss", "ı": "i", "ð": "d", "þ": "t"})
_MOST_CHARS = 120  # no called name is longer, and each of its words would be kept with all of it
_MOST_NAMES = 256
_MOST_LETTERS = 24  # of a called name; reading takes time by the letter

# pattern = sounds; ^ begins and $ ends a name; _PLAIN reads the rest.
_PLAIN = """
b=B d=D f=F g=K h=H j=J k=K l=L m=M n=N p=P q=K r=R s=S t=T v=V w=W x=KS z=Z c=K ł=L y=i a=a e=e i=i o=o u=u
"""
_SPELLINGS = {
    "english": """
^isl=aiL ^kn=N ^gn=N ^pn=N ^ps=S ^wr=R ^x=Z ^wh=W ^ts=S ^mc=MaK tsch=C tch=C sch=SK sh=X ch=C ph=F th=T ck=K cq=K kh=K
dg(?=[eiy])=J igh=ai eigh=e augh=o ough=o gh(?=[aeiou])=K gh= qu=KW c(?=[eiy])=S cc(?=[eiy])=KS x=KS zh=J dj=J
mb$=M mn$=M ^ng=N ng$=N ng=NK gue$=K que$=K g(?=[eiy])=J ti(?=on)=X si(?=on)=J
eau=o eigh=e ee=i ea=i ei=e ey$=i ey=e ay=e ai=e ie$=i ie=i oo=u ou=u ow=o oa=o oe=o oy=oi oi=oi au=o aw=o ew=iu ue$=u eu=iu
ah$=a oh$=o uh$=a er$=eR e$= y(?=[aeiou])=Y wy=Wai y$=i y=i
""",
    "english e": "sch=X ^x=Z g(?=[eiy])=K ch=K e$=i ei=ai ie=ai i(?=[^aeiou]e$)=ai y=ai ow=au ou=au c(?=[eiy])=S ph=F th=T sh=X ee=i oo=u ck=K",
    "german": """
tsch=C sch=X ^st=XT ^sp=XP chs=KS ch=K ph=F th=T dt=T qu=KV tz=S z=S ck=K v=F w=V j=Y y=i s(?=[aeiou])=Z ss=S
ei=ai ai=ai ey=ai ay=ai ie=i eu=oi au=au oe=e ue=i ae=e ee=e oo=o h(?![aeiou])= d$=T g$=K b$=P c(?=[eiy])=S
""",
    "spanish": """
ll=Y ch=C qu(?=[ei])=K gu(?=[ei])=K g(?=[ei])=H j=H ^x=H x=H z=S c(?=[ei])=S ^hu(?=[aeiou])=W h= v=B rr=R ii=i ia=iYa y(?=[aeiou])=Y y=i
""",
    "vietnamese": """
ngh=N ng=N nh=N ph=F th=T tr=C ch=C kh=K gh=K gi=Z qu=KW ^d=Z ^đ=D x=S uy=Wi uye=We uo=u oa=Wa c=K y=i ^hoa=Wa
""",
    "generic": """
^c(?=[aou])=K bhf=V bh=V mh=V adh=ai agh=ai idh=i igh=i ogh=o dh= gh= th=H fh= szcz=XC sz=X cz=C rz=J skj=X sj=X kj=X sh=X ch=K kh=K dz=Z zh=J ts=S tz=S
ci(?=[aou])=C si(?=[aou])=X zi(?=[aou])=J ni(?=[aou])=N dj=J lj=L nj=N gli=Li gn=N nh=N lh=L ph=F eaux=o eau=o ou=u oi=Wa aoi=i c=S w=V
j=Y ł=W ck=SK v$=F w$=F ia=Ya io=Yo iu=Yu ie=e y=i h= er$=e t$= d$= s$= x$= z$= p$=
""",
}  # fmt: skip

# Costs of taking one sound for another, beyond the plain ones below.
_NEAR = """
bp.15 dt.15 Kk.0 fv.0 FV.1 SZ.1 XC.2 XJ.2 CJ.15 SX.3 ZJ.25 ZX.35 SC.4 SJ.4 ZC.45 BP.15 DT.15 VW.15 FW.35 BV.25 PF.4 PV.45 MN.3 LR.45
YJ.3 KH.3 DZ.4 TC.35 DJ.4 KC.4 HF.5 HX.5 KX.5 YZ.4 YL.4 KJ.45 NL.5 TS.5 HJ.4 HY.4 RH.5 WR.4 WL.4 WK.6 TK.6 DK.6 DN.5 TN.6 YW.5 BM.5 KS.6
"""
_LIGHT = {"H": 0.25, "W": 0.35, "Y": 0.3, "R": 0.5, "N": 0.6, "T": 0.6, "D": 0.6}
_GLIDES, _GLIDE = {frozenset(both) for both in ("Yi", "Wu", "Wo", "Re")}, 0.25
_VOWEL, _VOWEL_LOST, _LOST, _OTHER = 0.22, 0.28, 0.8, 1.0
_FAR_VOWELS = {frozenset("iu"): 0.35, frozenset("io"): 0.32, frozenset("ia"): 0.3, frozenset("eu"): 0.32, frozenset("ei"): 0.12, frozenset("ou"): 0.12,
               frozenset("ao"): 0.15, frozenset("ae"): 0.2}  # fmt: skip
_PAIRS = {frozenset(pair[:2]): float(pair[2:]) for pair in _NEAR.split()} | _FAR_VOWELS
_HEARD_AS = ("english", "english e", "spanish")
_STRICTLY = ("english", "german", "spanish")
_CLASSES = str.maketrans("BPDTFVKSZXCJMNLR", "PPTTFFKSSSSSNNLR")
SOUND_CLASSES = "PTFKSNLR"  # the letters of a skeleton
_STRICT_CLASSES = str.maketrans("BDVWZiu", "PTFFSeo")
_LEAST_LETTERS, _LEAST_HEARD = 2, 3  # of a name, and of a word that may mean one
_SAME = 0.035  # the distance up to which two readings are the same
_ALIKE = 0.27  # up to which a name is meant
LONG_KEY, _WEAK = 3, "NRT"  # consonants from which on any may be misheard, and those that always may
_TWICE = re.compile(r"([A-Z])\1+")
LIMIT = 0.3
"""Distance up to which a reading may be taken for another."""
UNKNOWN, ENGLISH = 0.8, 0.3
"""Weights of a term with the same sound, for a word that is not English, and for an English one."""
_FALL = 1.5  # how fast that falls with the distance
_LEAST_WEIGHT, MOST = 0.04, 8
_LEAST_DOCS, _MOST_DOCS = 0.5, 1500  # of a word with those that sound like it; of one of these
_LEAST_HEAD, _LEAST_TAIL = 3, 4  # letters of the two parts of a compound: there is no Nat in Monat
LEAST_LETTERS, _LEAST_ASKED = 3, 2
"""Of a found term; of one that another may be taken for."""
_MOST_COMPARED = 300  # terms of one skeleton; no household has more

SimilarTerm = tuple[str, float]
"""A term and its distance."""


def _cost(first: str, second: str) -> float:
    if first == second:
        return 0.0
    both = frozenset((first, second))
    if first.islower() and second.islower():
        return _PAIRS.get(both, _VOWEL)
    if first.islower() or second.islower():
        return _GLIDE if both in _GLIDES else _OTHER + 0.1
    return _PAIRS.get(both, _OTHER)


_SOUNDS = "BCDFHJKLMNPRSTVWXYZaeiou"
LOSSES = {sound: _VOWEL_LOST if sound.islower() else _LIGHT.get(sound, _LOST) for sound in _SOUNDS}
COSTS = {sound: {other: _cost(sound, other) for other in _SOUNDS} for sound in _SOUNDS}


class _Spelling:
    """The rules of one spelling, by the letter at which each begins: most letters are read by two or three of them."""

    def __init__(self, rules: str) -> None:
        by_letter: dict[str, list[tuple[str, str]]] = {}
        for pattern, _, sounds in (rule.rpartition("=") for rule in f"{rules} {_PLAIN}".split()):
            by_letter.setdefault(pattern.lstrip("^")[0], []).append((pattern, sounds))
        self._rules = {
            letter: (
                re.compile("|".join(f"({pattern})" for pattern, _ in rules)),
                [sounds for _, sounds in rules],
            )
            for letter, rules in by_letter.items()
        }

    def read(self, word: str) -> str:
        reading, at = "", 0
        while at < len(word):
            pattern, sounds = self._rules.get(word[at], (None, ()))
            hit = pattern.match(word, at) if pattern else None
            reading += sounds[(hit.lastindex or 1) - 1] if hit else ""
            at = hit.end() if hit else at + 1
        return _TWICE.sub(r"\1", reading)


@preloaded
def _spellings() -> dict[str, _Spelling]:
    return {name: _Spelling(rules) for name, rules in _SPELLINGS.items()}


def _read(word: str, names: Iterable[str]) -> frozenset[str]:
    """Return the readings of a word by some spellings; none of a long one, or one with a letter that is not Latin."""
    word = word.translate(_LETTERS)
    if not 1 < len(word) <= _MOST_LETTERS or not (word.isalpha() and word.replace("ł", "l").isascii()):
        return frozenset()
    return frozenset(reading for name in names if (reading := _spellings()[name].read(word)))


@lru_cache(maxsize=2048)
def as_heard(word: str) -> frozenset[str]:
    """Return the readings of a word in small letters that a recogniser wrote by the rules of English."""
    return _read(word, _HEARD_AS)


@lru_cache(maxsize=8192)
def weight(reading: str) -> float:
    """Return the cost of missing a whole reading."""
    return sum(LOSSES[sound] for sound in reading)


def distance(first: str, second: str, at_most: float = 1.0) -> float:
    """Return the distance of two readings: 0: the same; 1: nothing in common, or farther than `at_most`, where comparing ends."""
    losses = [LOSSES[meant] for meant in second]
    row = [0.0, *accumulate(losses)]
    whole = (weight(first) + row[-1]) / 2
    for sound in first:
        lost, costs = LOSSES[sound], COSTS[sound]
        above = row[0]
        best = left = row[0] = above + lost
        for n, meant in enumerate(second):
            here = row[n + 1]
            cheapest = above + costs[meant]
            if here + lost < cheapest:
                cheapest = here + lost
            if left + losses[n] < cheapest:
                cheapest = left + losses[n]
            row[n + 1] = left = cheapest
            above = here
            if cheapest < best:
                best = cheapest
        if best > at_most * whole:
            return 1.0
    return min(1.0, row[-1] / whole) if whole else 0.0


def skeleton(reading: str) -> str:
    """Return the consonant classes of a reading, which most misheard words keep; "-": none."""
    kept = re.sub(r"[aeiouHWY]", "", reading).translate(_CLASSES)
    return re.sub(r"(.)\1+", r"\1", kept) or "-"


def sounds_of(word: str) -> frozenset[str]:
    """Return the skeletons of a name; none of one that is too short, or has no Latin letter."""
    letters = "".join(plain_words(word))
    return frozenset(key for key, _ in (_readings(letters) if len(letters) >= _LEAST_LETTERS else ()))


def sounds_heard(word: str) -> frozenset[str]:
    """Return the skeletons of a recogniser's word, which mostly find the name that it means."""
    return frozenset(map(skeleton, as_heard(word))) if len(word) >= _LEAST_HEARD else frozenset()


def sounds_near(word: str) -> frozenset[str]:
    """Return the skeletons that one consonant more, less or other makes of a word's."""
    return frozenset().union(*map(near_skeletons, sounds_heard(word)))


@lru_cache(maxsize=256)
def near_skeletons(key: str) -> frozenset[str]:
    """Return the skeletons that one consonant more, less or other makes of one; of a short one, a weak consonant."""
    key = key.strip("-")
    weak = len(key) < LONG_KEY
    keys: set[str] = set()
    for n in range(len(key) + 1):
        keys.update(f"{key[:n]}{other}{key[n:]}" for other in (_WEAK if weak else SOUND_CLASSES))
        if n < len(key) and (not weak or key[n] in _WEAK):
            keys.update(f"{key[:n]}{other}{key[n + 1 :]}" for other in ("", *("" if weak else SOUND_CLASSES)))
    return frozenset(key or "-" for key in keys)


def nearest(word: str, names: Iterable[str], keys: Collection[str] | None = None) -> tuple[float, str] | None:
    """Return distance and name of the one of `names` that sounds most like a heard word; None where none is near enough.

    All are in small letters without accents. Only readings with a skeleton of `keys` are looked at; None: all.
    """
    if len(word) < _LEAST_HEARD:
        return None
    common = word in common_names()
    limit = _SAME if common or is_english(word) else _ALIKE
    hits = []
    for name in names:
        read = [reading for key, reading in _readings(name) if keys is None or key in keys]
        far = min([distance(spoken, other) for spoken in as_heard(word) for other in read], default=1.0)
        if far <= limit or (common and not _strict_keys(word).isdisjoint(_strict_keys(name))):
            hits.append((far, name))
    return min(hits, default=None)


def _heard_name(name: str) -> str:
    """Return how an English speaker writes a name that no rule leads to; empty: of others."""
    return all_words()["en"].names.heard.get(name, "")


@lru_cache(maxsize=512)
def _readings(name: str) -> tuple[tuple[str, str], ...]:
    """Return the readings of a name and its usual misspelling, each after its skeleton."""
    spoken = _read(name, _SPELLINGS) | as_heard(_heard_name(name))
    return tuple((skeleton(reading), reading) for reading in sorted(spoken))


@lru_cache(maxsize=8192)
def _strict_keys(word: str) -> frozenset[str]:
    # A fact's subject is known by its stem: James by that of his name without the s.
    read = _read(word, _STRICTLY) | _read(stem(word), _STRICTLY) | as_heard(_heard_name(word))
    return frozenset(key for reading in read if len(key := _strict_key(reading)) > 1)


def _strict_key(reading: str) -> str:
    """Return the consonants by class, with the kinds of the first and of an open last vowel in their places."""
    reading = reading[:1] + reading[1:].replace("H", "")
    reading = reading.replace("ai", "e")
    vowel = re.search(r"[aeiou]", reading)
    rest = len(reading) if vowel is None else vowel.end()
    kept = reading[:rest] + re.sub(r"[eiu]|[ao](?!$)", "", reading[rest:])
    return re.sub(r"(.)\1+", r"\1", kept.translate(_STRICT_CLASSES))


class TermWeight(NamedTuple):
    """The weight of a term that is looked for."""

    weight: float
    """1 for the term that was said, less for one that it may have been."""
    docs: float
    """Texts that may mean the term that was said, however it is written there."""


class SimilarTerms:
    """A memory's terms by their sounds and ends; the caller holds a lock."""

    def __init__(self) -> None:
        self._by_skeleton: dict[str, list[str]] = {}
        """By skeleton, terms with such a reading, each before that reading."""
        self._by_end: dict[str, list[str]] = {}

    def add(self, term: str) -> None:
        """Add a new term; numbers, short terms and words of other scripts have no sound."""
        for key, entry in _entries(term):
            self._by_skeleton.setdefault(key, []).append(entry)
        if len(term) >= _LEAST_HEAD + _LEAST_TAIL and term.isalpha():
            self._by_end.setdefault(term[-_LEAST_TAIL:], []).append(term)

    def drop(self, term: str) -> None:
        """Remove a term."""
        for key, entry in _entries(term):
            _remove(self._by_skeleton, key, entry)
        _remove(self._by_end, term[-_LEAST_TAIL:], term)

    def similar_to(self, term: str, *, wide: bool = False) -> tuple[SimilarTerm, ...]:
        """Return other terms that sound like a term, nearest first, with distances.

        `wide`, for a sure mistake, also finds those with a consonant more, less or other; it takes longer.
        """
        distances: dict[str, float] = {}
        for reading in sorted(as_heard(term)) if len(term) >= _LEAST_ASKED else ():
            key = skeleton(reading)
            keys = {key, *near_skeletons(key)} if wide and len(key) >= LONG_KEY else {key}
            for entry in (near for key in keys for near in self._by_skeleton.get(key, ())[-_MOST_COMPARED:]):
                other, _, spoken = entry.partition(" ")
                far = distance(reading, spoken, LIMIT)
                if far <= LIMIT and far < distances.get(other, 1.0):
                    distances[other] = far
        distances.pop(term, None)
        return tuple(sorted(distances.items(), key=lambda hit: (hit[1], hit[0]))[: 2 * MOST])

    def ending_in(self, term: str) -> list[str]:
        """Return terms that may be compounds ending with a term."""
        candidates = self._by_end.get(term[-_LEAST_TAIL:], ())
        return [one for one in candidates if one.endswith(term) and len(one) >= len(term) + _LEAST_HEAD]


def _entries(term: str) -> list[tuple[str, str]]:
    readings = sorted(as_heard(term)) if len(term) >= LEAST_LETTERS else ()
    return [(skeleton(reading), f"{term} {reading}") for reading in readings]


def _remove(table: dict[str, list[str]], key: str, entry: str) -> None:
    kept = [other for other in table.pop(key, ()) if other != entry]
    if kept:
        table[key] = kept


def split_compound(term: str, compounds: Iterable[str], *, known: bool) -> list[SimilarTerm]:
    """Return compounds of a term and, unless it is `known` from a text, its parts; the longer the rest, the farther."""
    longer = [(other, LIMIT * (1 - len(term) / len(other))) for other in compounds]
    if known or not term.isalpha():
        return longer
    ends = range(_LEAST_HEAD, len(term) - _LEAST_TAIL + 1)
    return longer + [(term[at:], LIMIT * at / len(term)) for at in ends]


def spread(
    asked: Iterable[str],
    near: Mapping[str, Sequence[SimilarTerm]],
    counts: Mapping[str, int],
    unknown: Collection[str],
) -> dict[str, TermWeight]:
    """Return the terms of a question and those that they may stand for, with weights.

    `near` has similar terms with distances (`SimilarTerms.similar_to`), `counts` the number of readable texts with each,
    `unknown` the terms that are no English words.
    """
    asked_terms = dict.fromkeys(asked)
    weights: dict[str, TermWeight] = {}
    for term in asked_terms:
        base = UNKNOWN if term in unknown else ENGLISH
        others = []
        for other, far in near.get(term, ()):
            weight = base * max(0.0, 1 - _FALL * far)
            if (
                0 < counts.get(other, 0) <= _MOST_DOCS
                and other not in asked_terms
                and weight >= _LEAST_WEIGHT
            ):
                others.append((weight, other))
        kept = sorted(others, reverse=True)[:MOST]
        # Together they tell apart as much as the one word that was said.
        group = counts.get(term, 0) + sum(weight * counts[other] for weight, other in kept)
        weights[term] = TermWeight(1.0, max(group, _LEAST_DOCS) if kept else group)
        for weight, other in kept:
            if other not in weights or weights[other].weight < weight:
                weights[other] = TermWeight(weight, max(group, _LEAST_DOCS))
    return weights


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
