"""Homes that talk, and what a memory learnt of it, read by its public doors."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, get_args
from zoneinfo import ZoneInfo

import msgspec

import edgemem
from edgemem.bench.ground import say, scratch
from edgemem.config import LearnerName, LearnSettings, LlamaSettings, Profile, TimeSettings
from edgemem.records import Heard
from lab.judge import SetClock
from lab.talk_verdicts import Label, Learnt

if TYPE_CHECKING:
    from edgemem.learn.extraction import Extractor
    from edgemem.memory import Memory

ALL_LEARN = LearnSettings(get_args(LearnerName))
FILE = Path(__file__).parents[1] / "data" / "talk.toml"
SEALED, NOTHING = FILE.with_name("talk_sealed.toml"), FILE.with_name("talk_nothing.txt")
ROBOT = "robot"
_ZONE, _IDLE_S, _DAY_LINES = "Europe/Berlin", 60.0, 50
_GREETING, _REPLY = {"en": "Hello.", "de": "Hallo."}, "Okay."
_ON_LIST = {"en": "Put {} on the {}.", "de": "Setz {} auf die {}."}


class Said(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An utterance, or a line of the robot; `before` is what was said just before it."""

    id: str
    speaker: str
    at: str
    text: str
    facts: tuple[Label, ...]
    before: str = ""
    heard: float | None = None


class Home(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    language: str
    said: tuple[Said, ...]


def read_homes(path: Path) -> list[Home]:
    """Return the homes of a file, each in the order of time."""
    return msgspec.toml.decode(path.read_bytes(), type=dict[str, list[Home]])["home"]


def read_nothing() -> list[Home]:
    """Return a home in which nothing may be learnt; the file's first line says so."""
    lines = NOTHING.read_text("utf-8").splitlines()[1:]
    said, first = [], datetime.fromisoformat("2026-03-01T08:00")
    for n, line in enumerate(lines):
        name, _, text = line.partition(": ") if line.startswith(f"{ROBOT}: ") else ("ines", "", line)
        days, nth = divmod(n, _DAY_LINES)
        at = first + timedelta(days=days, hours=nth // 5, minutes=nth % 5 * 10)
        said.append(Said(f"n{n + 1:03}", name, at.isoformat(timespec="minutes"), text, ()))
    return [Home("nothing", "en", tuple(said))]


def learnt_in(home: Home, extractor: Extractor) -> list[Learnt]:
    """Return what a memory with an extractor learns of a home; what it rests on is empty where nobody of the home said it."""
    say(f"{home.name} …")
    clock, profile = (
        SetClock(),
        Profile(llama=LlamaSettings(embedder=""), learn=ALL_LEARN, time=TimeSettings(zone=_ZONE)),
    )
    with (
        scratch(None) as folder,
        edgemem.open(folder / "home", profile=profile, clock=clock, worker=False) as memory,
    ):
        memory.learning.extractors.append(extractor)
        told = tell(memory, clock, home)
        return [fact for fact in read_learnt(memory, told) if "" not in fact.said[:1]]


def tell(memory: Memory, clock: SetClock, home: Home) -> dict[str, str]:
    """Have the turns of a home, and return the utterance that each message is; "" for what filled its lists before."""
    session, told = memory.session(home.name), {}

    def turn(text: str, speaker: str, reply: str, heard: float | None = None) -> list[str]:
        with session.turn(text, speaker=speaker or None, heard=Heard(asr_confidence=heard)) as turn:
            turn.reply(reply)
        rows = memory.diagnostics.database.query(
            "select 'turn:' || id from messages order by id desc limit 2"
        )
        return [id_ for (id_,) in reversed(rows)]

    clock.at = _seconds(home.said[0].at) - 3600.0
    # What comes off a list must have been on it.
    for said in home.said:
        for label in (label for label in said.facts if label.kind == "list_remove"):
            item, name = label.value[0], label.thing[0]
            name += "" if "list" in name else " list"
            told[turn(_ON_LIST[home.language].format(item, name), said.speaker, _REPLY)[0]] = ""
    for _, day in groupby(home.said, key=lambda said: said.at[:10]):
        for said in day:
            clock.at = max(clock.at, _seconds(said.at))
            greeting = _GREETING[home.language]
            if said.speaker == ROBOT:
                told[turn(said.before or greeting, "", said.text)[1]] = said.id
                continue
            if said.before:
                turn(greeting, "", said.before)
            told[turn(said.text, said.speaker, _REPLY, said.heard)[0]] = said.id
        memory.idle(_IDLE_S)
    return told


def read_learnt(memory: Memory, told: dict[str, str]) -> Iterator[Learnt]:
    """Return what is stored as learnt from talk, in all its versions; of a list, what each version added or took away."""
    for scope, key in memory.diagnostics.database.query("select scope, key from fact_keys order by id"):
        items: set[str] = set()
        for fact in memory.store.fact_history(key, scope=scope):
            before, value = items, msgspec.json.decode(fact.json) if fact.json else fact.value
            items = {str(item) for item in value} if isinstance(value, list) else set()
            why = memory.why(f"{'doubt' if fact.doubtful else 'fact'}:{fact.id}")
            if fact.source != "talk" or why is None:
                continue
            said = tuple(told[one.thought_id] for one in reversed(why.said) if one.thought_id in told)
            day = str(why.thought.metadata.get("at", ""))
            if isinstance(value, list):
                yield from (Learnt(key, item, day, "list_add", said[:1]) for item in sorted(items - before))
                yield from (
                    Learnt(key, item, day, "list_remove", said[:1]) for item in sorted(before - items)
                )
            else:
                yield Learnt(key, str(value), day, "", said)


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).replace(tzinfo=ZoneInfo(_ZONE)).timestamp()
