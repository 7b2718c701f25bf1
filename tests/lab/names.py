"""How often a person is found whose name was misheard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

import edgemem
from edgemem.bench.ground import at_least, quiet, report, say, scratch
from edgemem.recall.text.analyse import plain_words
from edgemem.records import Heard, StoredMessage, Turn
from edgemem.store.turns import commit_turn

if TYPE_CHECKING:
    from edgemem.memory import Memory

Half = Literal["tuned", "held_out"]
Pair = tuple[str, str]  # a name, and what is heard of it
OTHERS = 60  # people that a memory knows besides the one who is asked for
K = 5
BAR = 0.9
_WAYS = ("fact", "own fact", "turn")
"""How a person is known: a fact about them, a fact that they told of themselves, words in which their name fell."""
_ASKED = {
    "fact": ("What is {}'s shoe size?", "which shoe size does {} have"),
    "own fact": ("What are {}'s allergies?", "which allergies does {} have"),
    "turn": ("When does {} come for the cello lesson?", "which day is {} here for the lesson"),
}


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tuned: str
    held_out: str


def pairs(half: Half) -> list[Pair]:
    table = msgspec.toml.decode(Path(__file__).with_name("names.toml").read_bytes(), type=_Table)
    found = []
    for line in " ".join(getattr(table, half).split()).split(", "):
        name, heard = line.split(" = ")
        found.append((name, heard))
    return found


def run(*, half: str = "held_out", home: Path | None = None) -> dict[str, Any]:
    """Ask for people by what a recogniser wrote of their names, each in a memory that knows sixty others."""
    asked = pairs("tuned" if half == "tuned" else "held_out")
    right, missed = Counter[str](), []
    with scratch(home) as folder:
        groups = grouped(asked)
        for n, group in enumerate(groups):
            say(f"asking for {len(group)} names, group {n + 1} of {len(groups)} …")
            with edgemem.open(folder / str(n), profile=quiet(), worker=False) as memory:
                people = fill(memory, [name for name, _ in group])
                memory.idle(60)
                for name, heard in group:
                    found, way = finds(memory, people, name, heard)
                    right[way] += found
                    right["all"] += found
                    if not found:
                        missed.append(f"{name} = {heard}")
    figures = {"half": half, "names": len(asked), "others": OTHERS, "missed": ", ".join(missed) if half == "tuned" else len(missed),
               **{f"found_{way.replace(' ', '_')}": right[way] for way in _WAYS}}  # fmt: skip
    return report("names", figures, {"found": at_least(right["all"] / len(asked), BAR)})


def grouped(asked: Sequence[Pair]) -> list[list[Pair]]:
    """Return the pairs in groups of as many as a memory knows people, no name twice in one; the last borrows some."""
    left, groups = list(asked), []
    while left:
        group: dict[str, Pair] = {}
        for pair in left:
            if len(group) <= OTHERS:
                group.setdefault(_plain(pair[0]), pair)
        left = [pair for pair in left if group.get(_plain(pair[0])) != pair]
        groups.append(list(group.values()))
    return groups


def fill(memory: Memory, names: Sequence[str]) -> dict[str, tuple[int, str]]:
    """Have a memory know people in turn in each way, filled up to one more than the others; return number and way by name."""
    known = dict.fromkeys(map(_plain, names))
    spare = [name for half in ("held_out", "tuned") for name, _ in pairs(half)]
    more = [name for name in dict.fromkeys(spare) if _plain(name) not in known]
    wanted = [*names, *more[: max(0, OTHERS + 1 - len(names))]]
    found = {}
    for n, name in enumerate(wanted):
        way = _WAYS[n % len(_WAYS)]
        if way == "fact":
            memory.store.add_fact(f"{'_'.join(plain_words(name))}.shoe_size", f"size {n}")
        elif way == "own fact":
            memory.store.add_fact("user.allergies", f"food {n}", scope=f"user:{name}", level="household")
        else:
            said = StoredMessage("user", f"I think {name} comes for the cello lesson on day {n}.")
            turn = Turn("all", n, (said,), heard=Heard(speaker="Zoltan"))
            memory.diagnostics.database.write(partial(commit_turn, turn=turn))
        found[name] = n, way
    return found


def finds(memory: Memory, people: dict[str, tuple[int, str]], name: str, heard: str) -> tuple[bool, str]:
    """Tell whether a person is among the first, asked for by what was heard, and how they are known."""
    number, way = people[name]
    frames = _ASKED[way]
    question = frames[0].format(heard.title()) if number // len(_WAYS) % 2 else frames[1].format(heard)
    found = memory.recall(question, k=K)
    return any(one.text.rstrip(".").endswith(f" {number}") for one in found), way


def _plain(name: str) -> str:
    return " ".join(plain_words(name))
