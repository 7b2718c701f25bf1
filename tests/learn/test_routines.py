"""What people say at the same time of day becomes a routine, of those who may read it alone."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

import edgemem
from edgemem.config import LearnSettings, LlamaSettings, Profile, TimeSettings
from edgemem.records import Heard, Reader
from support.homes import ALICE, BOB, STRANGER, tell
from support.selection import LONG

ZONE = ZoneInfo("Europe/Berlin")
PROFILE = Profile(
    llama=LlamaSettings(embedder=""),
    time=TimeSettings(zone="Europe/Berlin"),
    learn=LearnSettings(learners=("routines",)),
)
LIGHTS = ("lights off please", "turn the lights off", "no more light", "Night, lights out!", "lights off")
MONDAY = datetime(2026, 6, 1, tzinfo=ZONE)
WEEK = ("2026-06-01 22:24", "2026-06-02 22:37", "2026-06-03 22:30", "2026-06-04 22:31", "2026-06-05 22:28")


def open_home(home: Path) -> edgemem.Memory:
    return edgemem.open(home, profile=PROFILE, worker=False, watch=False)


@pytest.fixture
def memory(tmp_path):
    with open_home(tmp_path / "home") as memory:
        yield memory


def say(memory, text, at, *, speaker="alice", private=False, call="", session="kitchen", **heard) -> None:
    """Say something at a moment where the household lives, as one turn, in which the robot may call a tool."""
    moment = datetime.fromisoformat(at).replace(tzinfo=ZONE).timestamp()
    how = Heard(speaker=speaker, event_time=moment, **heard)
    with memory.session(session).turn(text, heard=how, private=private) as turn:
        assert turn.messages
        if call:
            name, _, thing = call.partition(" ")
            calls = [{"id": "1", "function": {"name": name, "arguments": f'{{"thing": "{thing}"}}'}}]
            turn.add({"role": "assistant", "content": None, "tool_calls": calls})
            turn.add({"role": "tool", "content": "done", "tool_call_id": "1"})
        turn.reply("Yes.")


def learnt(memory, reader: Reader | None = None) -> list[str]:
    memory.idle(5)
    return sorted(thought.content for thought in memory.learning.log(reader=reader))


def test_the_same_at_the_same_time_is_a_routine(memory) -> None:
    """Whatever the words around one are, with the number of times and the last one, and an edge to each."""
    for text, at in zip(LIGHTS, WEEK, strict=True):
        say(memory, text, at)
    assert learnt(memory) == [
        'alice says "lights off" or the like at 22:30 on weekdays (5 times, last on 5 June)'
    ]
    (routine,) = memory.learning.log()
    edges = memory.thoughts.get_edges(routine.thought_id)
    assert len(edges) == 5
    assert {edge.to_thought_id for edge in edges} == set(routine.consolidated_from)
    assert any(
        "22:30" in item.text for item in memory.recall("When do I want the lights off?", speaker="alice")
    )


@pytest.mark.parametrize(("text", "days", "when"), [
    ("Play the news.", "1 2 3 4 6 7 8", "every day"), ("mach das Licht aus", "1 2 3 8 9", "on weekdays"),
    ("what's the weather like", "6 7 13", "at weekends"), ("aspira el pasillo", "6 13 20", "on Saturdays"),
])  # fmt: skip
def test_it_says_on_which_days(memory, text: str, days: str, when: str) -> None:
    """Every day, on weekdays, at weekends, or on one weekday."""
    for day in days.split():
        say(memory, text, f"2026-06-{day:0>2} 07:00")
    (routine,) = learnt(memory)
    assert f" at 07:00 {when} ({len(days.split())} times" in routine


def often(text: str, n: int = 5, **more: object) -> list[tuple[str, str, dict[str, object]]]:
    return [(text, at, more) for at in WEEK[:n]]


NONE = {
    "scattered": [("lights off", f"2026-06-0{n} {hour}:00", {}) for n, hour in enumerate(("07", "11", "15", "19", "22"), 1)],
    "two days": often("lights off", 2),
    "one day": [("lights off", f"2026-06-01 22:{minute}", {}) for minute in (20, 25, 30)],
    "two readerships": [("lights off", at, {"private": n % 2 > 0}) for n, at in enumerate(WEEK[:4])],
    "nobody known": often("lights off", speaker=None),
    "badly heard": often("lights off", asr_confidence=0.1),
    "in long talk": often("I took my pills before we all went out to see the lights of the town"),
    "as often at other times": [("lights off", at, {}) for at in ("2026-06-01 07:00", "2026-06-02 11:00", "2026-06-03 15:00", *WEEK[:3])],
    "three years": [("open the pool", f"202{n}-06-01 12:00", {}) for n in (4, 5, 6)],
}  # fmt: skip


@pytest.mark.parametrize("told", NONE.values(), ids=NONE)
def test_no_routine(memory, told) -> None:
    """Too few for the same readers, too long, or no more than at other times."""
    for text, at, more in told:
        say(memory, text, at, **more)
    assert learnt(memory) == []


def test_the_same_tool_is_the_same(memory) -> None:
    """With the same arguments, however somebody asks for it; but for the memory's."""
    for text, at in zip(("good morning", "I'm cold", "warm feet please"), WEEK, strict=False):
        say(memory, text, at, call="heat feet")
    for n, at in enumerate(WEEK[:3]):
        say(memory, ("tea is out", "bread too", "add milk")[n], at, call="remember_fact shopping")
    (routine,) = learnt(memory)
    assert "22:30 on weekdays (3 times" in routine


@pytest.mark.parametrize(("at", "time"), [
    (("2026-06-01 23:55", "2026-06-03 00:05", "2026-06-04 00:01", "2026-06-04 23:58"), "00:00 on weekdays (4"),
    (("2026-10-23 22:30", "2026-10-24 22:31", "2026-10-25 22:29", "2026-10-26 22:30"), "22:30 every day (4"),
])  # fmt: skip
def test_clocks(memory, at: tuple[str, ...], time: str) -> None:
    """Midnight lies within a night, and the time is the household's, summer and winter."""
    for moment in at:
        say(memory, "lights off", moment)
    assert time in learnt(memory)[0]


def test_it_changes_with_its_evidence(memory) -> None:
    """It keeps its id while its time moves, goes to another time with what is said, and is gone after half a year without it."""
    for at in WEEK[:3]:
        say(memory, "lights off", at)
    assert "22:30 on weekdays (3 times" in learnt(memory)[0]
    (routine,) = memory.learning.log()
    for at in ("2026-06-04 22:45", "2026-06-05 22:45", "2026-06-08 22:45", "2026-06-09 22:45"):
        say(memory, "lights off", at)
    assert 'alice says "lights off" at 22:45 on weekdays (7 times' in learnt(memory)[0]
    for day in (10, 11, 12):
        say(memory, "lights off", f"2026-06-{day} 20:00")
    assert 'alice says "lights off" at 20:00 on weekdays (3 times, last on 12 June)' in learnt(memory)[0]
    assert [thought.thought_id for thought in memory.learning.log()] == [routine.thought_id]
    say(memory, "what is the time", "2027-01-05 12:00")
    assert learnt(memory) == []


def test_a_source_that_is_forgotten_counts_no_more(memory) -> None:
    """The rest counts while it is enough."""
    for n, at in enumerate(WEEK[:4]):
        say(memory, "lights off", at, session="hall" if n == 1 else "kitchen")
    assert "(4 times" in learnt(memory)[0]
    memory.forget(session="hall")
    assert "(3 times" in learnt(memory)[0]
    memory.forget(session="kitchen")
    assert learnt(memory) == []


def test_an_undone_one_is_not_learnt_again(tmp_path) -> None:
    """Not by what is said later, nor after a restart, nor of what is left when its sources are forgotten."""
    for part in (WEEK[:4], WEEK[4:], ("2026-06-08 22:30",)):
        with open_home(tmp_path / "home") as memory:
            for at in part:
                say(memory, "lights off", at)
            memory.idle(5)
            for thought in memory.learning.log():
                assert part == WEEK[:4]
                memory.learning.undo(thought.thought_id)
    with open_home(tmp_path / "home") as memory:
        assert learnt(memory) == []
        say(memory, "lights off", "2026-06-09 22:30", session="hall")
        memory.forget(session="kitchen")
        for at in ("2026-06-10 22:30", "2026-06-11 22:30"):
            say(memory, "lights off", at)
        assert learnt(memory) == []


def fill(memory, chance: random.Random, *, reader: Reader | None = None) -> None:
    """Store what three people and a stranger say in six weeks; with a reader, of that what they may read."""
    times = [
        (
            chance.randrange(3),
            chance.randrange(420, 1440),
            chance.choice((*LIGHTS, "play the news", "news please")),
        )
        for _ in range(6)
    ]
    for n in range(120):
        who, minute, text = chance.choice(times)
        speaker = chance.choice(("alice", "bob", "carol", None, ("alice", "bob", "carol")[who]))
        private, at = (
            chance.random() < 0.5,
            MONDAY + timedelta(days=n // 3, minutes=minute + chance.randrange(-15, 15)),
        )
        more = {"level": "private", "owner": speaker} if private and speaker else {}
        if reader is None or (reader.speaker and (not more or speaker == reader.speaker)):
            tell(memory, text, "s", n, speaker=speaker, at=at.timestamp(), **more)


def test_nobody_learns_of_what_they_may_not_read(tmp_path) -> None:
    """For each reader all is as if what they may not read had never been stored."""
    found = 0
    for seed in range(5000 if LONG else 20):
        with open_home(tmp_path / f"{seed}") as home:
            fill(home, random.Random(seed))
            for reader in (ALICE, BOB, STRANGER):
                with open_home(tmp_path / f"{seed} {reader.speaker}") as other:
                    fill(other, random.Random(seed), reader=reader)
                    assert learnt(home, reader) == learnt(other)
                found += len(learnt(home, reader))
    assert found > seed


def test_it_goes_on_after_a_kill_and_beside_another_process(tmp_path) -> None:
    """After any step, in one that begins anew, or in two that learn at once, it becomes the same."""
    with (
        open_home(tmp_path / "home") as memory,
        open_home(tmp_path / "one") as one,
        open_home(tmp_path / "home") as second,
    ):
        for home in (memory, one):
            fill(home, random.Random(7))
        while memory.learning.step(lambda: False) or second.learning.step(lambda: False):
            with open_home(tmp_path / "home") as third:
                third.learning.step(lambda: False)
        assert learnt(memory) == learnt(second) == learnt(one) != []
        say(memory, "lights off", "2026-07-14 03:00")
        memory.learning.now()
        second.learning.now()
        assert learnt(second) == learnt(one)
