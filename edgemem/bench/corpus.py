"""A household made up from a seed and `corpus.toml`: what its robot knows, is told and is asked, in words unlike the facts."""

from __future__ import annotations

import random
import re
from itertools import product
from pathlib import Path

import msgspec

SPEAKER = "mara"


class Known(msgspec.Struct, frozen=True):
    """A fact, and how somebody asks for it."""

    key: str
    value: str
    question: str
    scope: str = "household"


class Family(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Subjects of one kind, and the facts about each: key, pattern of the value, question."""

    of: list[str] | str
    """Each goes before each `what`; empty: they are alone. Text is words with spaces between them."""
    what: list[str] | str
    aspects: list[tuple[str, str, str]]

    @property
    def subjects(self) -> list[str]:
        """Return every subject."""
        what = _split(self.what)
        return [f"{first} {second}" for first, second in product(_split(self.of), what)] or what


def _split(words: list[str] | str) -> list[str]:
    return words.split() if isinstance(words, str) else words


class Corpus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of `corpus.toml`."""

    sayings: list[str]
    slots: dict[str, list[str] | str]
    numbers: dict[str, tuple[int, int, int]]
    families: dict[str, Family]


_CORPUS = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=Corpus)
_SLOTS = {
    "person": _CORPUS.families["people"].subjects,
    "digits": [f"{a}{b}" for a in range(10, 99, 7) for b in range(100, 999, 37)],
    **{name: [str(n) for n in range(*bounds)] for name, bounds in _CORPUS.numbers.items()},
    **{name: _split(words) for name, words in _CORPUS.slots.items()},
}


def household_facts(n: int, *, seed: int = 1) -> list[Known]:
    """Return up to 10,000 different facts about people, things, dishes, rooms, plants and shops."""
    rng = random.Random(seed)
    facts = [
        Known(
            f"{subject.lower().replace(' ', '_')}.{key}",
            filled(value, rng),
            question.replace("{it}", subject),
        )
        for family in _CORPUS.families.values()
        for subject in family.subjects
        for key, value, question in family.aspects
    ]
    rng.shuffle(facts)
    return facts[:n]


def sentences(n: int, *, seed: int = 4) -> list[str]:
    """Return sentences as they are said in a kitchen; not all different."""
    rng = random.Random(seed)
    return [sentence(rng) for _ in range(n)]


def sentence(rng: random.Random) -> str:
    """Return a sentence as it is said in a kitchen."""
    return filled(rng.choice(_CORPUS.sayings), rng)


def filled(pattern: str, rng: random.Random) -> str:
    """Return a pattern with its slots filled."""
    return re.sub(r"\{(\w+)\}", lambda slot: rng.choice(_SLOTS[slot[1]]), pattern)
