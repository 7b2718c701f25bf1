"""What is still to come: who sees it, when the robot says it by itself, and when it is over."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

import edgemem
from edgemem.config import LlamaSettings, Profile, TimeSettings
from edgemem.memory.users import GoalState
from edgemem.records import Heard, Reader
from lab.judge import SetClock

ZONE = ZoneInfo("Europe/Berlin")


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZONE).timestamp()


@pytest.fixture
def clock():
    clock = SetClock()
    clock.at = at("2026-05-12T10:00")
    return clock


@pytest.fixture
def memory(tmp_path, clock):
    profile = Profile(llama=LlamaSettings(embedder=""), time=TimeSettings(zone="Europe/Berlin"))
    with edgemem.open(tmp_path / "home", profile=profile, clock=clock, worker=False) as memory:
        yield memory


def plan(memory, key: str, value: str, **more) -> None:
    heard = Heard(speaker="ines", event_time=memory.diagnostics.clock.now())
    memory.store.add_fact(key, value, heard=heard, **{"scope": "household", **more})


def days(memory, **asked) -> list[tuple[str, str]]:
    upcoming = memory.upcoming(**asked)
    return [(f"{datetime.fromtimestamp(one.begin, ZONE):%d %H:%M}", one.text) for one in upcoming]


def block(memory, text: str = "Good morning.", speaker: str | None = "ines", session: str = "s") -> str:
    with memory.session(session).turn(text, speaker=speaker) as turn:
        shown = turn.messages[-1]["content"]
        turn.reply("Yes.")
    return shown


def test_the_day_in_its_words_is_as_of_when_it_was_said(memory, clock) -> None:
    """Friday, said on a Tuesday, is the next one, and over with its day; a habit is no plan."""
    plan(memory, "ines.dentist", "Friday at nine")
    plan(memory, "bins", "every Tuesday")
    memory.goals.save_goal("ines", GoalState("run", "marathon on 30 May"))
    memory.idle(5)
    assert [day for day, _ in days(memory)] == ["15 00:00", "30 00:00"]
    assert [day for day, _ in days(memory, until=at("2026-05-20T00:00"))] == ["15 00:00"]
    clock.at = at("2026-05-16T08:00")
    assert [day for day, _ in days(memory)] == ["30 00:00"]


def test_metadata_tells_the_time_of_day(memory) -> None:
    """Learning and programs write it; a correction takes the old one's place, and a retraction closes it."""
    plan(memory, "ines.viva", "tomorrow at two", metadata={"at": "2026-05-13T14:00"})
    assert days(memory) == [("13 14:00", "ines viva: tomorrow at two")]
    plan(memory, "ines.viva", "half three", metadata={"at": "2026-05-13T15:30"})
    assert days(memory) == [("13 15:30", "ines viva: half three")]
    memory.store.retract_fact("ines.viva", scope="household")
    assert days(memory) == []


def test_only_who_may_know_it_sees_it(memory) -> None:
    """A private appointment is its owner's, a household's is no stranger's."""
    plan(memory, "ines.doctor", "Friday at nine", scope="user:ines")
    plan(memory, "party", "Saturday")
    assert len(days(memory, reader=Reader("ines"))) == 2
    assert [text for _, text in days(memory, reader=Reader("bob"))] == ["party: Saturday"]
    assert days(memory, reader=Reader(None)) == []


def test_the_first_turn_of_the_day_tells_it_once(memory, clock) -> None:
    """To those who may know it; not on the day on which it was told."""
    plan(memory, "ines.dentist", "on Friday at nine")
    plan(memory, "ines.secret", "a present on Friday", scope="user:ines")
    assert "today:" not in block(memory)
    clock.at = at("2026-05-15T07:30")
    assert "today:" not in block(memory, speaker=None, session="door")
    assert block(memory, speaker="bob", session="b").count("today:") == 1
    shown = block(memory)
    assert shown.count("today:") == 2
    assert "dentist" in shown
    assert "today:" not in block(memory, "And now?")


def test_what_is_due_is_told_once(memory, clock, tmp_path) -> None:
    """At its time, or at eight on its day; over a restart too, and nothing of yesterday."""
    told: list[str] = []
    plan(memory, "ines.viva", "tomorrow at two", metadata={"at": "2026-05-13T14:00"})
    plan(memory, "party", "tomorrow")
    memory.on_due(lambda upcoming: told.append(upcoming.text))
    for hour, count in (("07:59", 0), ("08:01", 1), ("13:59", 1), ("14:00", 2), ("14:10", 2)):
        clock.at = at(f"2026-05-13T{hour}")
        memory.idle(5)
        assert len(told) == count, hour
    memory.close()
    profile = Profile(llama=LlamaSettings(embedder=""), time=TimeSettings(zone="Europe/Berlin"))
    with edgemem.open(tmp_path / "home", profile=profile, clock=clock, worker=False) as again:
        again.on_due(lambda upcoming: told.append(upcoming.text))
        again.idle(5)
        clock.at = at("2026-05-14T09:00")
        again.idle(5)
    assert told == ["party: tomorrow", "ines viva: tomorrow at two"]


def test_a_callback_that_fails_loses_nothing_else(memory, clock) -> None:
    """All that is due is told to every callback, and upkeep looks again when more is due; the failure is counted."""
    told: list[str] = []

    def fail(upcoming) -> None:
        raise ValueError(upcoming.text)

    for key, hour in (("viva", "14:00"), ("tea", "14:00"), ("bus", "14:03")):
        plan(memory, key, "soon", metadata={"at": f"2026-05-13T{hour}"})
    memory.on_due(fail)
    memory.on_due(lambda upcoming: told.append(upcoming.text))
    clock.at = at("2026-05-13T14:00")
    memory.idle(5)
    assert told == ["viva: soon", "tea: soon"]
    upkeep = memory.diagnostics.upkeep
    assert upkeep.again_s <= 180.0
    assert [(failure.step, failure.message) for failure in upkeep.failures()] == [
        ("due", "ValueError: viva: soon")
    ]


def test_what_is_never_said_aloud_is_marked(memory) -> None:
    """A robot that tells what is due looks at it, as at the level."""
    plan(memory, "code", "4711 from tomorrow", aloud=False)
    plan(memory, "party", "tomorrow")
    assert {coming.text.partition(":")[0]: coming.aloud for coming in memory.upcoming()} == {
        "code": False,
        "party": True,
    }
