"""Homes that talk for months, with planted chains and routines, and the reflections that a memory made of them, by its public doors."""

from __future__ import annotations

from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

import edgemem
from edgemem.bench.ground import say, scratch
from edgemem.config import LearnSettings, LlamaSettings, Profile, TimeSettings
from edgemem.session.tools import Tool
from edgemem.thoughts import EdgeType, LifecycleStatus, ThoughtType
from lab.judge import SetClock

if TYPE_CHECKING:
    from edgemem.memory import Memory
    from edgemem.thoughts import ThoughtRecord

DATA = Path(__file__).parents[1] / "data"
ZONE = "Europe/Berlin"
_IDLE_S, _MOST = 60.0, 1000
_REPLY = {"en": "Okay.", "de": "Ist gut."}

Kind = Literal["chains", "routines"]


class Said(NamedTuple):
    """What somebody said, or asked for; with a tool, the robot called that."""

    id: str
    at: str
    speaker: str  # empty: an unknown voice
    text: str
    tool: str = ""
    arguments: str = ""


class Planted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A chain or a routine that is to be found."""

    members: tuple[str, ...]
    newest: tuple[str, ...] = ()
    """Words one of which tells the newest value; of a chain."""
    old: tuple[str, ...] = ()
    time: str = ""
    """HH:MM, and the days: `daily`, `weekdays` or one day of the week; of a routine."""
    days: str = ""


class Home(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    language: str
    people: tuple[str, ...]
    private: frozenset[str]
    said: tuple[Said, ...]
    planted: tuple[Planted, ...]
    decoys: dict[str, tuple[str, ...]]


class Reflection(NamedTuple):
    """What a learner made; a member is what was said in the home, or empty where it is none of that."""

    essence: str
    members: tuple[str, ...]


def path_of(kind: Kind, *, sealed: bool) -> Path:
    return DATA / f"planted_{kind}{'_sealed' if sealed else ''}.toml"


def read_homes(path: Path) -> list[Home]:
    """Return the homes of a file, each in the order of time."""
    return msgspec.toml.decode(path.read_bytes(), type=dict[str, list[Home]])["home"]


def learning_profile(*, on: bool = True, embedder: str = "") -> Profile:
    """Return a profile that learns or does not; without an embedder it finds by words alone."""
    learn = LearnSettings() if on else LearnSettings(learners=())
    return Profile(llama=LlamaSettings(embedder=embedder), time=TimeSettings(zone=ZONE), learn=learn)


def reflections_in(home: Home, learner: Kind) -> list[Reflection]:
    """Return what a learner makes of a home."""
    say(f"{home.name} …")
    clock = SetClock()
    with (
        scratch(None) as folder,
        edgemem.open(folder / "home", profile=learning_profile(), clock=clock, worker=False) as memory,
    ):
        return read_reflections(memory, learner, tell(memory, clock, home))


def tell(memory: Memory, clock: SetClock, home: Home) -> dict[str, str]:
    """Have the turns of a home, with idle time after each day; return what was said in each message and episode."""
    tools = [
        Tool(name, f"Does what {name} does.", {"type": "object", "properties": {}}, _run)
        for name in sorted({said.tool for said in home.said if said.tool})
    ]
    told: dict[str, str] = {}
    for day, each in groupby(home.said, key=lambda said: said.at[:10]):
        session = memory.session(day, tools=tools)
        for said in each:
            clock.at = seconds(said.at)
            with session.turn(
                said.text, speaker=said.speaker or None, private=said.id in home.private
            ) as turn:
                if said.tool:
                    arguments = msgspec.json.decode(said.arguments)
                    turn.call({"function": {"name": said.tool, "arguments": arguments}})
                turn.reply(_REPLY[home.language])
            for id_ in _newest(memory):
                told.setdefault(id_, said.id)
        memory.idle(_IDLE_S)
    return told


def read_reflections(memory: Memory, learner: Kind, told: dict[str, str]) -> list[Reflection]:
    """Return the reflections that hold, each with what was said by its members, or by what they rest on."""
    made = [each for each in list_reflections(memory) if each.metadata.get("learner") == learner]
    return [Reflection(each.essence, tuple(_members(memory, each.thought_id, told))) for each in made]


def list_reflections(memory: Memory) -> list[ThoughtRecord]:
    """Return all reflections but those that were retired."""
    thoughts: list[ThoughtRecord] = []
    while page := memory.thoughts.list_thoughts(
        thought_type=ThoughtType.REFLECTION, limit=_MOST, offset=len(thoughts)
    ):
        thoughts += page
    return [thought for thought in thoughts if thought.lifecycle_status is not LifecycleStatus.ARCHIVED]


def seconds(at: str) -> float:
    return datetime.fromisoformat(at).replace(tzinfo=ZoneInfo(ZONE)).timestamp()


def _members(memory: Memory, id_: str, told: dict[str, str]) -> list[str]:
    edges = memory.thoughts.get_edges(id_, direction="OUT")
    ends = [edge.to_thought_id for edge in edges if edge.edge_type is EdgeType.CONSOLIDATED_FROM]
    return list(dict.fromkeys(_said(memory, end, told) for end in ends))


def _said(memory: Memory, id_: str, told: dict[str, str]) -> str:
    if id_ in told:
        return told[id_]
    why = memory.why(id_)  # a fact rests on the messages that told it
    return next((told[one.thought_id] for one in why.said if one.thought_id in told), "") if why else ""


def _newest(memory: Memory) -> list[str]:
    """Return the ids of the newest messages and episodes: more than a turn has."""
    rows = memory.diagnostics.database.query(
        "select * from (select 'turn:' || id from messages order by id desc limit 8)"
        " union all select * from (select 'episode:' || id from episodes order by id desc limit 8)"
    )
    return [id_ for (id_,) in rows]


def _run(**_: Any) -> str:
    return "done"
