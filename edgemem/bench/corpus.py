"""A household made up from a seed: what its robot knows, is told and is asked. Nothing here comes from outside.

Questions say a thing in other words than the fact does: nobody asks a robot for the value of a key. Words and
patterns stand in `corpus.toml`.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edgemem.inspect.replay import Line, ScriptedCall

if TYPE_CHECKING:
    from collections.abc import Sequence

SPEAKER = "mara"

Words = list[str] | str
"""A list, or words with spaces between them."""


class Known(msgspec.Struct, frozen=True):
    """A fact, and how somebody asks for it."""

    key: str
    value: str
    question: str
    scope: str = "household"


class Family(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Subjects of one kind, and what is known of each: key, pattern of the value, question."""

    of: Words
    """Goes before each `what`; empty: they stand alone."""
    what: Words
    aspects: list[tuple[str, str, str]]

    @property
    def subjects(self) -> list[str]:
        """Return every subject."""
        what = _split(self.what)
        return [f"{first} {second}" for first, second in product(_split(self.of), what)] or what


class Corpus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `corpus.toml` holds."""

    sayings: list[str]
    slots: dict[str, Words]
    families: dict[str, Family]


def known(n: int, *, seed: int = 1) -> list[Known]:
    """Return up to 10,000 different facts about people, things, dishes, rooms, plants and shops."""
    rng = random.Random(seed)
    facts = [
        Known(f"{_slug(subject)}.{key}", _filled(value, rng), question.replace("{it}", subject))
        for family in _corpus().families.values()
        for subject in family.subjects
        for key, value, question in family.aspects
    ]
    rng.shuffle(facts)
    return facts[:n]


def askable(facts: Sequence[Known], n: int) -> list[Known]:
    """Return facts of all kinds in turn whose value no other fact has: finding it means finding the fact."""
    values = Counter(fact.value for fact in facts)
    kinds: defaultdict[str, list[Known]] = defaultdict(list)
    for fact in facts:
        if values[fact.value] == 1:
            kinds[fact.key.partition(".")[2]].append(fact)
    rng = random.Random(2)
    for some in kinds.values():
        rng.shuffle(some)
    order = sorted(kinds)
    rng.shuffle(order)
    longest = max(map(len, kinds.values()), default=0)
    return [kinds[kind][i] for i in range(longest) for kind in order if i < len(kinds[kind])][:n]


def conversation(turns: int, *, seed: int = 3, size: int = 200) -> Iterator[Line]:
    """Yield turns with one tool call each: four messages of about `size` bytes, each with a word of its own."""
    rng = random.Random(seed)
    people = _slots()["person"]
    for i in range(turns):
        words = own_words(i)
        plan = {"text": _prose(rng, size - 90, words[1]), "who": rng.choice(people)}
        call = ScriptedCall("keep_plan", plan, _prose(rng, size, words[2]))
        utterance, answered = _prose(rng, size, words[0]), _prose(rng, size, words[3])
        yield Line(utterance, speaker=SPEAKER, reply=answered, tools=(call,))


def own_words(turn: int) -> tuple[str, str, str, str]:
    """Return four words, one for each message of a turn, that no other message has."""
    first, second, third, fourth = (_spelled(turn * 4 + i) for i in range(4))
    return first, second, third, fourth


def sentences(n: int, *, seed: int = 4) -> list[str]:
    """Return sentences as they are said in a kitchen; not all different."""
    rng = random.Random(seed)
    return [_filled(rng.choice(_corpus().sayings), rng) for _ in range(n)]


@lru_cache(maxsize=1)
def _corpus() -> Corpus:
    return msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=Corpus)


@lru_cache(maxsize=1)
def _slots() -> dict[str, list[str]]:
    """Return what fills each slot of a pattern."""
    streets = product(
        _split("Mill Church Garden Station Forest Bridge Lake Castle"), _split("Street Lane Square Road")
    )
    return {
        "person": _corpus().families["people"].subjects,
        "street": [f"{first} {second}" for first, second in streets],
        "day": [str(n) for n in range(1, 29)],
        "degrees": [str(n) for n in range(140, 235, 5)],
        "minutes": [str(n) for n in range(8, 75)],
        "percent": [str(n) for n in range(5, 100)],
        "digits": [f"{a}{b}" for a in range(10, 99, 7) for b in range(100, 999, 37)],
        **{name: _split(words) for name, words in _corpus().slots.items()},
    }


def _filled(pattern: str, rng: random.Random) -> str:
    return re.sub(r"\{(\w+)\}", lambda slot: rng.choice(_slots()[slot[1]]), pattern)


def _prose(rng: random.Random, size: int, own: str) -> str:
    parts = [f"The {own} is what {rng.choice(_slots()['person'])} meant."]
    while sum(map(len, parts)) + len(parts) < size - 20:
        parts.append(_filled(rng.choice(_corpus().sayings), rng))
    return " ".join(parts)[: size + 20].strip()


def _spelled(number: int) -> str:
    """Spell a number in syllables, so that the full text sees a new word of ordinary length."""
    syllables = [consonant + vowel for consonant, vowel in product("bdfglmnprt", "aeiou")]
    out = "z"
    for _ in range(4):
        number, digit = divmod(number, len(syllables))
        out += syllables[digit]
    return out


def _split(words: Words) -> list[str]:
    return words.split() if isinstance(words, str) else words


def _slug(text: str) -> str:
    return text.lower().replace(" ", "_")
