"""What recall finds in five languages, and eight without words of their own, by words alone and with each embedder that is here."""

from __future__ import annotations

import random
import re
import unicodedata
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import msgspec

import edgemem
from edgemem.bench.ground import EMBEDDER, at_least, median, quiet, report, say, scratch
from edgemem.config import Profile
from edgemem.errors import InvalidInputError
from edgemem.llama.models.catalog import find_model, load_catalogue
from edgemem.records import Heard, Kind, StoredMessage, Turn
from edgemem.store.turns import commit_turn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.memory import Memory

LANGUAGES = {"en": "English", "de": "German", "es": "Spanish", "vi": "Vietnamese", "zh": "Chinese"}
OTHERS = {
    "ar": "Arabic", "el": "Greek", "he": "Hebrew", "hi": "Hindi", "ja": "Japanese", "ko": "Korean", "ru": "Russian", "th": "Thai"
}  # fmt: skip
"""Languages without a file in `edgemem/languages`: 30 things are said in each, and 30 asked."""
WORDS = "words"
K = (5, 10, 1)
_TURNS_A_SESSION = 12
_IDLE_S = 120.0
_LOOSE = re.compile("(?<!и)\u0306|[\u0300-\u0305\u0307-\u036f\u0591-\u05c7\u064b-\u0655\u0670]")
_TURNS: tuple[Kind, ...] = ("turn",)


class Household(msgspec.Struct, frozen=True):
    """What was said in one language, and what is asked after it."""

    said: tuple[tuple[str, str, str], ...]
    """Id, who said it, and the words, in the order in which they were said."""
    asked: tuple[tuple[str, str], ...]
    """The id of what answers, and the question, in words that were said, if in other forms."""
    asked_freely: tuple[tuple[str, str], ...]
    """The same, in words that were not said: only meaning finds what answers."""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    said: str
    asked: str
    asked_freely: str


def household(language: str, *, seed: int = 7) -> Household:
    """Return a household that speaks a language, in which 120 things are said in a seeded order, and 40 asked."""
    path = Path(__file__).with_name(f"languages_{language}.toml")
    if not path.is_file():
        raise InvalidInputError(
            f"There is no household that speaks {language!r}; name one of {', '.join([*LANGUAGES, *OTHERS])}."
        )
    file = msgspec.toml.decode(path.read_bytes(), type=_File)
    said = []
    for line in file.said.strip().splitlines():
        head, _, text = line.partition(": ")
        name, _, who = head.partition(" ")
        said.append((name, who, text))
    random.Random(seed).shuffle(said)
    # k02a was superseded by k02b: they stay where chance put the two, in the order of their letters.
    changed = sorted(at for at, (name, _, _) in enumerate(said) if not name[-1].isdigit())
    for at, line_ in zip(changed, sorted(said[at] for at in changed), strict=True):
        said[at] = line_
    return Household(tuple(said), _questions(file.asked), _questions(file.asked_freely))


def _questions(lines: str) -> tuple[tuple[str, str], ...]:
    parts = (line.partition(" ") for line in lines.strip().splitlines())
    return tuple((name, question) for name, _, question in parts)


def run(
    *, languages: str = ",".join(LANGUAGES), models: str = "", home: Path | None = None
) -> dict[str, Any]:
    """Ask 40 questions in each of five languages (30 in one of `OTHERS`), by words alone and with every embedder of the catalogue that is here.

    Recall@1, @5 and @10 of what answers, among 120 things that were said. `said`: only the 20 questions whose words were
    said; `free`: only the 20 in other words; `typed`: those of the first kind, without accents. No model may find less in
    any language than words alone do.
    """
    names = [name for name in languages.split(",") if name] or list(LANGUAGES)
    wanted = [name for name in models.split(",") if name] or _embedders()
    for name in wanted:
        if find_model(name) is None:
            raise InvalidInputError(f"There is no model called {name} here; type: edgemem models get {name}")
    ways = {WORDS: quiet(), **{name: _with_embedder(name) for name in wanted}}
    figures: dict[str, dict[str, float]] = {}
    for name in names:
        spoken = household(name)
        figures[name] = {}
        for way, profile in ways.items():
            say(f"{(LANGUAGES | OTHERS)[name]}, {way} …")
            with scratch(home) as folder:
                figures[name].update(_ask(folder, spoken, profile, way))
    columns = {
        name: {(LANGUAGES | OTHERS)[each]: figures[each][name] for each in names}
        for name in next(iter(figures.values()), {})
    }
    bars = {f"{WORDS} {name}": at_least(figures[name][f"{WORDS} @{K[0]} said"], 0.95) for name in names}
    for model in wanted:
        found = {
            name: (figures[name][f"{model} @{K[0]}"], figures[name][f"{WORDS} @{K[0]}"]) for name in names
        }
        bars |= {f"{model} {name}, as words": at_least(*both) for name, both in found.items()}
    spoken = household(names[0])
    counts = {"statements": len(spoken.said), "questions": len(spoken.asked + spoken.asked_freely)}
    return report("languages", {**counts, "models": wanted, "side_by_side": columns}, bars)


def _embedders() -> list[str]:
    there = [
        each.name
        for each in load_catalogue()
        if each.kind == "embedder" and find_model(each.name) is not None
    ]
    return sorted(there, key=lambda name: name != EMBEDDER)


def _with_embedder(name: str) -> Profile:
    profile = Profile()
    llama = msgspec.structs.replace(profile.llama, embedder=name)
    # A slow machine must not turn the figures of a model into those of words.
    recall = msgspec.structs.replace(profile.recall, query_embed_ms=10_000.0)
    return msgspec.structs.replace(profile, llama=llama, recall=recall)


def _ask(folder: Path, spoken: Household, profile: Profile, way: str) -> dict[str, float]:
    """Return how much of what answers is among the first, by kinds of questions, and how long a question takes."""
    found: list[list[str]] = []
    spent: list[float] = []
    with edgemem.open(folder, profile=profile, worker=False) as memory:
        _tell(memory, spoken)
        if way != WORDS and memory.diagnostics.embedder is None:
            raise InvalidInputError(next(row.detail for row in memory.check() if row.name == "embedder"))
        if not memory.idle(_IDLE_S):
            raise InvalidInputError("This machine does not get the index done in two minutes.")
        asked = spoken.asked + spoken.asked_freely
        for _, question in asked:
            started = perf_counter()
            found.append(_found(memory, spoken, question))
            spent.append((perf_counter() - started) * 1e3)
        typed = [name in _found(memory, spoken, _typed(question))[: K[0]] for name, question in spoken.asked]
    hit_at = {k: [name in ids[:k] for (name, _), ids in zip(asked, found, strict=True)] for k in K}
    same = len(spoken.asked)
    return {
        **{f"{way} @{k}": _share(hit_at[k]) for k in K},
        f"{way} @{K[0]} said": _share(hit_at[K[0]][:same]),
        f"{way} @{K[0]} free": _share(hit_at[K[0]][same:]),
        f"{way} @{K[0]} typed": _share(typed),
        f"{way} ms": median(spent),
    }


def _found(memory: Memory, spoken: Household, question: str) -> list[str]:
    hits = memory.recall(question, k=max(K), kinds=_TURNS)
    return [spoken.said[_place(hit.session, hit.turn)][0] for hit in hits]


def _typed(question: str) -> str:
    """Return a question as somebody types it who has no keys for accents."""
    letters = unicodedata.normalize("NFD", question.replace("đ", "d").replace("Đ", "D"))
    return unicodedata.normalize("NFC", _LOOSE.sub("", letters))


def _share(hits: Sequence[bool]) -> float:
    return round(sum(hits) / len(hits), 3)


def _tell(memory: Memory, spoken: Household) -> None:
    def write(tx: Any, turns: Sequence[Turn]) -> None:
        for turn in turns:
            commit_turn(tx, turn)

    turns = []
    for at, (_, who, text) in enumerate(spoken.said):
        session, number = divmod(at, _TURNS_A_SESSION)
        turns.append(
            Turn(f"talk {session}", number, (StoredMessage("user", text),), heard=Heard(speaker=who))
        )
    memory.diagnostics.database.write(partial(write, turns=turns))


def _place(session: str | None, turn: int | None) -> int:
    return int((session or "talk 0").removeprefix("talk ")) * _TURNS_A_SESSION + (turn or 0)
