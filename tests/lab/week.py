"""What learning by itself serves in a family's week, beside a model that calls the memory tools perfectly, and beside neither.

`tests/data/week.toml` was written before any learner. Each turn is played through a session's door, a session each conversation; what counts
is the memory that stands before the words of a turn that asks.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

import edgemem
from edgemem.bench.ground import EMBEDDER, at_least, at_most, real_tokenizer, report, say, scratch
from lab.judge import SetClock
from lab.planted_homes import learning_profile, seconds
from lab.several import Item, Question, outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from edgemem.memory import Memory

FILE = Path(__file__).parents[1] / "data" / "week.toml"
_REPLY = {"en": "Okay.", "de": "Ist gut."}
_PAUSE = timedelta(minutes=30)
"""A longer one ends a conversation."""
_IDLE_S, _EVENING = 60.0, "T23:00"
_NOT_TAKEN = ("Refused", "Not believed", "Heard, but")


class Said(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A turn of a week: with `calls` it tells something, with `required` it asks."""

    at: str
    who: str
    text: str
    calls: tuple[dict[str, Any], ...] = ()
    """The arguments of `remember_fact` with which a perfect model keeps it."""
    required: tuple[Item, ...] = ()
    stale: tuple[Item, ...] = ()


class Family(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    language: str
    said: tuple[Said, ...]


class Way(NamedTuple):
    """How a week is played."""

    learns: bool
    calls: bool


WAYS = {"learning": Way(True, False), "tools": Way(False, True), "neither": Way(False, False)}


class Asked(NamedTuple):
    """What a turn that asks had before it."""

    said: Said
    served: bool
    """Whether all that is required stands there, and nothing stale as if it held."""
    lines: list[str]


class Week(NamedTuple):
    """What became of a family's week."""

    asked: list[Asked]
    refused: list[str]
    """The answers of the calls of which nothing came."""


def read_families(path: Path = FILE) -> list[Family]:
    return msgspec.toml.decode(path.read_bytes(), type=dict[str, list[Family]])["home"]


def run(*, words: bool = False, pauses: bool = False, show: bool = False) -> dict[str, Any]:
    """Play families' weeks with learning alone, with perfect calls of the memory tools alone, and with neither.

    Args:
        words: find by words alone.
        pauses: have idle time after each conversation, too.
        show: tell each question that one of the three does not serve, with its blocks, and what the calls of which nothing came answered.
    """
    families, embedder = read_families(), "" if words else EMBEDDER
    weeks = {
        name: [play(family, way, embedder=embedder, pauses=pauses) for family in families]
        for name, way in WAYS.items()
    }
    served = {name: sum(map(_served, played)) for name, played in weeks.items()}
    by_family = {
        family.name: {name: _served(played[n]) for name, played in weeks.items()}
        for n, family in enumerate(families)
    }
    refused = [answer for week in weeks["tools"] for answer in week.refused]
    asked = sum(len(week.asked) for week in weeks["neither"])
    figures: dict[str, Any] = {
        "embedder": embedder,
        "pauses": pauses,
        "asked": asked,
        "served": served,
        "served_by_family": by_family,
    }
    if show:
        figures |= {"calls_refused": refused, "shown": list(_differences(weeks))}
    bars = {
        "turns served by learning, as many as by perfect calls": at_least(
            served["learning"], served["tools"]
        ),
        "perfect calls of which nothing came": at_most(len(refused), 0),
    }
    return report("week", figures, bars)


def play(family: Family, way: Way, *, embedder: str, pauses: bool = False) -> Week:
    """Have the turns of a week at their times, with idle time each evening."""
    say(f"{family.name}: {'learning' if way.learns else 'calls' if way.calls else 'neither'} …")
    clock, week = SetClock(), Week([], [])
    profile = learning_profile(on=way.learns, embedder=embedder)
    with (
        scratch(None) as folder,
        edgemem.open(
            folder / "home", profile=profile, tokenizer=real_tokenizer(), clock=clock, worker=False
        ) as memory,
    ):
        for day, said in groupby(family.said, key=lambda each: each.at[:10]):
            for conversation in conversations(said):
                _have(memory, clock, conversation, week, _REPLY[family.language], calls=way.calls)
                if pauses:
                    memory.idle(_IDLE_S)
            clock.at = seconds(day + _EVENING)
            memory.idle(_IDLE_S)
    return week


def conversations(said: Iterable[Said]) -> Iterator[list[Said]]:
    """Part turns where nobody speaks for long."""
    turns = list(said)
    starts = [n for n, (one, two) in enumerate(pairwise(turns), 1) if _time(two) - _time(one) > _PAUSE]
    for start, end in pairwise([0, *starts, len(turns)]):
        yield turns[start:end]


def _have(
    memory: Memory, clock: SetClock, conversation: Sequence[Said], week: Week, reply: str, *, calls: bool
) -> None:
    session, words = memory.session(conversation[0].at, tools=memory.tools()), list[str]()
    for said in conversation:
        clock.at = seconds(said.at)
        words.append(said.text)
        with session.turn(said.text, speaker=said.who) as turn:
            block = _block(turn.messages, words)
            for arguments in said.calls if calls else ():
                done = turn.call({"function": {"name": "remember_fact", "arguments": arguments}})
                answer = done.error or str(done.result)
                if done.error or answer.startswith(_NOT_TAKEN):
                    week.refused.append(f"{arguments}: {answer}")
            turn.reply(reply)
        if said.required:
            week.asked.append(judged(said, block))


def judged(said: Said, block: str) -> Asked:
    """Judge the memory that stands before a question."""
    told = outcome(Question("set", said.who, said.text, said.required, said.stale), block, ())
    return Asked(said, told.required == 1.0 and not told.stale, told.lines)


def _block(messages: Sequence[dict[str, Any]], words: Sequence[str]) -> str:
    """Return all that stands beside what people said in a prompt."""
    contents = [str(message["content"]) for message in messages if message["role"] == "user"]
    return "\n".join(content.replace(text, "", 1) for content, text in zip(contents, words, strict=True))


def _served(week: Week) -> int:
    return sum(asked.served for asked in week.asked)


def _differences(weeks: dict[str, list[Week]]) -> Iterator[dict[str, Any]]:
    of_way = {name: [asked for week in played for asked in week.asked] for name, played in weeks.items()}
    for each in zip(*of_way.values(), strict=True):
        if not all(asked.served for asked in each):
            question = {"at": each[0].said.at, "question": each[0].said.text}
            yield question | {
                name: [asked.served, *asked.lines] for name, asked in zip(of_way, each, strict=True)
            }


def _time(said: Said) -> datetime:
    return datetime.fromisoformat(said.at)
