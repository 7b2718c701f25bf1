"""What a speech recogniser writes of what was said: small letters, no punctuation, numbers as words, and mistakes.

`Hearing` makes words of a table (`noise.toml`) or of rules on letters into others that sound alike, which know nothing of
those by which recall finds what was misheard. The same seed and text give the same mistakes on every Python.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from num2words import num2words

from lab.weeks import Weeks
from lab.weeks_world import Dice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.weeks import Question, Turn


_SIGNS = {
    "%": "percent", "€": "euros", "$": "dollars", "£": "pounds", "°": "degrees", "&": "and", "+": "plus", "@": "at",
}  # fmt: skip
_LONGEST = 9  # digits that anybody reads as one number
_CODE = 4  # digits from which on a number is no amount, but a code or a year
_PIECE = re.compile(
    r"(?P<clock>\d{1,2}:\d{2})(?!\d)|(?P<ordinal>\d+)(?:st|nd|rd|th)\b"
    r"|(?P<number>(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?)|(?P<sign>[%€$£°&+@])|(?P<word>(?:(?!\d)[^\W_])+(?:['’][^\W\d_]+)*)"
)


class Spoken(NamedTuple):
    word: str
    is_name: bool  # whether it was written as a name is: with a capital, and not because a sentence begins


def spoken(text: str) -> list[Spoken]:
    """Return the words of a text as they are said."""
    said: list[Spoken] = []
    for piece in _PIECE.finditer(text):
        kind, part = piece.lastgroup, piece[piece.lastgroup or 0]
        if kind == "word":
            word = part.replace("’", "'")
            is_name = word[0].isupper() and word != "I" and not _begins(text, piece.start())
            said.append(Spoken(word.casefold(), is_name))
        else:
            said += [Spoken(word, is_name=False) for word in _numbers(kind, part)]
    return said


def cardinal(number: int) -> list[str]:
    """Return a number from 0 on as it is read: three hundred and five."""
    return _words(num2words(number))


def ordinal(number: int) -> list[str]:
    """Return the word for a place in a row: twenty first."""
    return _words(num2words(number, to="ordinal"))


def _numbers(kind: str | None, part: str) -> list[str]:
    if kind == "sign":
        return [_SIGNS[part]]
    if kind == "clock":
        hour, minute = (int(each) for each in part.split(":"))
        exact = ["o'clock"] if 0 < hour <= 12 else ["hundred"]
        return [*cardinal(hour), *(exact if not minute else ["oh"] * (minute < 10) + cardinal(minute))]
    if kind == "ordinal" and len(part) <= _LONGEST:
        return ordinal(int(part))
    whole, _, fraction = part.replace(",", "").partition(".")
    is_code = "," not in part and not fraction and (len(whole) >= _CODE or whole.startswith("0"))
    read = _digits(whole) if is_code or len(whole) > _LONGEST else cardinal(int(whole))
    return [*read, *(["point", *_digits(fraction)] if fraction else [])]


def _digits(number: str) -> list[str]:
    return [word for digit in number for word in cardinal(int(digit))]


def _words(read: str) -> list[str]:
    return re.sub("[-,]", " ", read).split()


def _begins(text: str, start: int) -> bool:
    before = text[max(0, start - 4) : start].rstrip(" \t\"'“”«»([-")
    return not before or before[-1] in ".!?…:;\n"


_NAME_WORTH = 2.0  # a name is misheard so much more often than another word
_LOST, _BREATH, _PAIR = (
    0.3,
    0.08,
    0.5,
)  # of small words; of all places; of the places where two words make others
_TABLE, _ENDING = (
    0.7,
    0.35,
)  # how often the table serves where it can, and an ending is at fault where it does not
_CLEAR = (2 / 3, 1.0, 4 / 3)
_SHORT = 4  # letters of a word that may be lost
_LEAST = 3  # letters of half a compound
# What one mistakes for another, in either direction. Not the classes that recall has: those are wider.
_SWAPS = """
    b/p d/t g/k c/g f/v s/z m/n w/v j/ch ch/sh th/f th/d th/t l/r ck/g ks/x c/k ph/f sh/s
    a/e e/i o/u a/u a/o i/u ee/i ea/e ee/ea ai/ay ai/e ou/ow oo/u oa/o ie/y er/or er/ar er/a or/aw ew/oo ei/i igh/i
"""
_ENDINGS = ("s", "ed", "ing", "er", "ly", "y", "d", "t")
_VOWEL = re.compile("[aeiouy]")


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    alike: str
    small: str
    pairs: str
    compounds: str
    names: str
    known: str
    inserted: str


class _Sounds(NamedTuple):
    alike: dict[str, list[str]]
    small: dict[str, list[str]]
    pairs: dict[tuple[str, str], str]
    names: dict[str, list[str]]
    known: frozenset[str]
    inserted: list[str]


def heard(text: str, rate: float, seed: int | str = 1) -> str:
    """Return what a recogniser writes of a text, with so many mistakes for each word on average (0 to 1)."""
    return " ".join(Hearing(text, rate, seed).words())


def noisy(weeks: Weeks, rate: float, seed: int = 1, *, robot: bool = False) -> Weeks:
    """Return the weeks as a recogniser wrote what people, and perhaps the robot, said: the same ids and evidence, with mistakes."""
    roles = {"user", "assistant"} if robot else {"user"}

    def write(one: Turn | Question) -> str:
        # What is said twice is misheard in two ways.
        return heard(one.text, rate, f"{seed} {one.id}")

    turns = tuple(
        msgspec.structs.replace(turn, text=write(turn)) if turn.role in roles else turn
        for turn in weeks.turns
    )
    questions = tuple(msgspec.structs.replace(question, text=write(question)) for question in weeks.questions)
    return Weeks(turns, questions)


def word_errors(said: Sequence[str], written: Sequence[str]) -> int:
    """Return how many words must be changed, left out or put in to make what was said of what was written."""
    row = list(range(len(written) + 1))
    for n, word in enumerate(said, 1):
        above, row[0] = row[0], n
        for m, other in enumerate(written, 1):
            above, row[m] = row[m], min(row[m] + 1, row[m - 1] + 1, above + (word != other))
    return row[-1]


class Hearing:
    """One text on its way through a recogniser; seed and text decide which mistakes are made at that rate for each word."""

    def __init__(self, text: str, rate: float, seed: int | str) -> None:
        self.said = spoken(text)
        self._rate = rate
        self._dice = Dice(f"{seed} {rate} {text}")
        self._sounds = _sounds()
        self._written = [[each.word] for each in self.said]

    def words(self) -> list[str]:
        # Some utterances are clearer than others; the rest of a mistake is made as often as it weighs.
        clear = self._dice.pick(_CLEAR)
        mistakes = self._rate * clear * len(self.said)
        wanted = int(mistakes) + self._dice.chance(mistakes % 1)
        before = [each.word for each in self.said]
        for place in self._order() if wanted else ():
            left = wanted - word_errors(before, self._flat())
            if left <= 0:
                break
            if self._written[place] == [before[place]]:
                self._mishear(place, left)
        return self._flat()

    def _flat(self) -> list[str]:
        return [word for words in self._written for word in words]

    def _order(self) -> list[int]:
        """Return the places of the words, those first that are misheard first; names come early."""
        worth = [_NAME_WORTH if self._is_name(each) else 1.0 for each in self.said]
        keys = [self._dice.below(1 << 30) / each for each in worth]
        return sorted(range(len(keys)), key=keys.__getitem__)

    def _is_name(self, said: Spoken) -> bool:
        return said.is_name or _bare(said.word) in self._sounds.names

    def _mishear(self, place: int, left: int) -> None:
        """Write something else for the word at a place, for at most `left` mistakes."""
        said, dice, sounds = self.said[place], self._dice, self._sounds
        here = self._written[place]
        if dice.chance(_BREATH):
            self._written[place] = [dice.pick(sounds.inserted), *here]
        elif left > 1 and place + 1 < len(self.said) and self._mishear_pair(place):
            pass
        elif (
            said.word in sounds.small
            and len(said.word) <= _SHORT
            and dice.chance(_LOST)
            and len(self._flat()) > 1
        ):
            self._written[place] = []
        else:
            self._written[place] = self._other(said, left)

    def _mishear_pair(self, place: int) -> bool:
        """Write what the word at a place and the next one sound like together, if there is such; tell whether."""
        both = self.said[place].word, self.said[place + 1].word
        whole = "".join(both)
        other = self._sounds.pairs.get(both) or (
            whole if whole in self._sounds.known and len(whole) > _SHORT else None
        )
        if other is None or self._written[place + 1] != [both[1]] or not self._dice.chance(_PAIR):
            return False
        self._written[place : place + 2] = [other.split(), []]
        return True

    def _other(self, said: Spoken, left: int) -> list[str]:
        """Return what is written for one word, of at most so many words as there may be mistakes."""
        word, ending = _bare(said.word), said.word[len(_bare(said.word)) :]
        table = (
            self._sounds.names.get(word) or self._sounds.small.get(word) or self._sounds.alike.get(word) or []
        )
        fitting = [other for other in table if len(other.split()) <= left and f"{other}{ending}" != said.word]
        sure = self._is_name(said) or word in self._sounds.small
        if fitting and (sure or self._dice.chance(_TABLE)):
            return f"{self._dice.pick(fitting)}{ending}".split()
        halves = [(word[:n], word[n:]) for n in range(_LEAST, len(word) - _LEAST + 1)]
        real = [list(both) for both in halves if self._sounds.known.issuperset(both)]
        if real and left > 1 and self._dice.chance(_PAIR):
            first, second = self._dice.pick(real)
            return [first, f"{second}{ending}"]
        return [f"{self._by_rule(word)}{ending}"]

    def _by_rule(self, word: str) -> str:
        """Return a word that is spelled by other letters for like sounds, one that exists if there is one."""
        known = self._sounds.known
        endings = _other_endings(word)
        likely = sorted(each for each in endings if each in known) or sorted(endings)
        if likely and self._dice.chance(_ENDING):
            return self._dice.pick(likely)
        near = sorted(_respelled(word))
        real = [each for each in near if each in known]
        if not real:  # two letters may be misheard at once, where that leads to a word
            real = sorted({far for each in near for far in _respelled(each) if far in known and far != word})
        return self._dice.pick(real or near or likely or [f"{word}s"])


def _bare(word: str) -> str:
    return re.sub(r"'s$", "", word)


def _respelled(word: str) -> set[str]:
    """Return what one letter rule makes of a word, in one place."""
    found: set[str] = set()
    for swap in _SWAPS.split():
        one, other = swap.split("/")
        for old, new in ((one, other), (other, one)):
            found.update(word[: at.start()] + new + word[at.end() :] for at in re.finditer(old, word))
    found.update(word[:n] + word[n + 1 :] for n, (a, b) in enumerate(pairwise(word)) if a == b or b in "hwr")
    if len(word) > _LEAST:
        found.add(word[:-1] if word[-1] in "dtskgle" else f"{word}t")
        if word[0] in "hk":
            found.add(word[1:])
        elif word[0] in "aeiou":
            found.add(f"h{word}")
    return {each for each in found if each != word and len(each) > 1 and _VOWEL.search(each)}


def _other_endings(word: str) -> set[str]:
    """Return a word in other forms: singular for plural, present for past."""
    if len(word) < _SHORT:
        return {f"{word}s"} if len(word) > 1 else set()
    roots = {
        word,
        *(word[: -len(each)] for each in _ENDINGS if word.endswith(each) and len(word) - len(each) >= _LEAST),
    }
    forms = {f"{word}s"} if not word.endswith(("s", "x", "ch", "sh")) else set()
    return (forms | roots | {f"{root}{each}" for root in roots - {word} for each in ("s", "ed", "ing")}) - {
        word
    }


@lru_cache(maxsize=1)
def _sounds() -> _Sounds:
    # Late: an older tree cannot import it.
    from edgemem.recall.text.lexicon import common_words

    table = msgspec.toml.decode(Path(__file__).with_name("noise.toml").read_bytes(), type=_Table)
    alike, small = _groups(table.alike), _groups(table.small)
    pairs = {}
    for one, other in (pair.split(" = ") for pair in _listed(table.pairs, ",")):
        for said, written in ((one, other), (other, one)):
            if len(words := said.split()) == 2:
                pairs[words[0], words[1]] = written
    names = {}
    for name, written in (line.split(" = ") for line in _listed(table.names, ",")):
        names[name] = [other for other in _listed(written, "/") if other != name]
    for compound in table.compounds.split():
        alike.setdefault(compound, [])
    known = {
        *alike,
        *common_words(),
        *table.known.split(),
        *(w for words in alike.values() for w in words if " " not in w),
    }
    return _Sounds(alike, small, pairs, names, frozenset(known), table.inserted.split())


def _groups(text: str) -> dict[str, list[str]]:
    """Return for each word that begins a group the others, and for those the first, unless they begin one."""
    groups = [_listed(line, "/") for line in _listed(text, ",")]
    found: dict[str, list[str]] = {}
    for first, *others in groups:
        kept = found.setdefault(first, [])
        kept += [other for other in others if other != first and other not in kept]
    for first, *others in groups:
        for other in others:
            if " " not in other and first not in found.setdefault(other, []) and other != first:
                found[other].append(first)
    return found


def _listed(text: str, between: str) -> list[str]:
    return [" ".join(each.split()) for each in text.split(between) if each.strip()]
