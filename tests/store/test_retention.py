"""Retention: what ages goes in order and for a reason; what is pinned stays; a clock in doubt erases nothing."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from edgemem.clock import Clock
from edgemem.errors import BusyError
from edgemem.memory import Memory
from edgemem.records import Epoch, Heard
from edgemem.store.turns import append_epoch
from support.cli import json_of, run
from support.homes import files_with, opened, tell, turns_of
from support.thoughts import an_edge, thought

DAY = 86400.0
Open = Callable[..., Memory]


@pytest.fixture
def home(tmp_path: Path, clock: Clock) -> Iterator[Open]:
    """Open one home with lines for its profile, again and again."""
    open_now: list[Memory] = []

    def again(more: str = "") -> Memory:
        for memory in open_now:
            memory.close()
        open_now[:] = [opened(tmp_path / "home", more, clock=clock)]
        return open_now[0]

    yield again
    for memory in open_now:
        memory.close()


def pass_days(hand: Any, memory: Memory, days: int) -> None:
    """Let days go by in a robot that is on."""
    for _ in range(days):
        hand.advance(DAY)
        memory.retention.doubt()


def plan(memory: Memory) -> list[tuple[str, str, str]]:
    return [(of.id.partition(":")[0], of.action, of.reason) for of in memory.retention.plan()]


def live(memory: Memory) -> None:
    """Have one record of each kind that ages, each with a word of its own."""
    tell(memory, "quixotry turn")
    memory.store.add_episode("game", {"won": "quixotry"}, "ok", heard=Heard(speaker="bob"))
    epoch = Epoch("s", 0, "quixotry summed up")
    memory.diagnostics.database.write(lambda tx: append_epoch(tx, epoch))
    memory.store.set_preference("tea", "quixotry green")
    memory.store.add_fact("bell", "quixotry brass", scope="household")


def test_a_plan_tells_the_order_and_the_reason_and_changes_nothing(home: Open, hand: Any) -> None:
    """Nothing ages unless the profile says so; with a cap, talk goes first and facts last; what is new stays."""
    memory = home()
    live(memory)
    pass_days(hand, memory, 12)
    memory.store.add_fact("lamp", "tall", scope="household")
    assert plan(memory) == []
    memory = home("[retention]\nmax_days = 10\n")
    old = "untouched for 10 days"
    assert plan(memory) == [
        (kind, "erase", old) for kind in ("turn", "episode", "summary", "preference", "fact")
    ]
    assert memory.store.get_fact("bell", scope="household") == "quixotry brass"


def test_what_ages_leaves_no_byte(home: Open, hand: Any, tmp_path: Path) -> None:
    """Erased by the profile in idle time, it is in no file, backups among them; names that nobody bears are gone too."""
    memory = home("[retention]\nmax_days = 10\n")
    live(memory)
    memory.idle(60)
    memory.diagnostics.backups.make()
    assert len(files_with(tmp_path, "quixotry")) >= 3
    pass_days(hand, memory, 12)
    tell(memory, "what is new", n=1)
    with memory.session("hall").turn("What is the bell made of?", speaker="ann") as turn:
        assert "quixotry brass" in str(turn.messages)
        turn.reply("Of brass.")
    assert memory.idle(60)
    assert files_with(tmp_path, "quixotry") == [] == files_with(tmp_path, "bob")
    assert [turn.n for turn in turns_of(memory, "s")] == [1]
    assert memory.diagnostics.database.quick_check() == []


def test_what_is_pinned_or_first_stays_and_so_does_its_turn(home: Open, hand: Any) -> None:
    """A mark or a thought that says so keeps a record for ever, in caps and in the ring of episodes."""
    memory = home("[retention]\nmax_days = 10\nexpired = true\n")
    live(memory)
    with memory.session("hall").turn("Where is it?", speaker="ann") as turn:
        turn.reply("On the shelf.")
    fact, episode = memory.store.facts()[0], memory.store.recent_episodes()[0]
    (reply,) = [row for row in memory.recall("shelf", kinds={"turn"}) if row.text == "On the shelf."]
    for name, mark in ((f"fact:{fact.id}", {"priority": "P1"}), (f"episode:{episode.id}", {"pinned": True})):
        memory.thoughts.update_thought(name, **mark)
    memory.thoughts.update_thought(f"turn:{reply.id}", pinned=True, expires_at=hand.wall + DAY)
    memory.thoughts.create_thought(thought("p", pinned=True, expires_at=hand.wall + DAY))
    memory.thoughts.create_thought(thought("first", priority="P1", expires_at=hand.wall + DAY))
    for n in range(560):
        memory.store.add_episode("step", {"n": n}, "ok")
    assert memory.store.get_episode(episode.id) is not None
    pass_days(hand, memory, 12)
    assert memory.idle(60)
    assert [len(turn.messages) for turn in turns_of(memory, "hall")] == [2]
    assert [turn.n for turn in turns_of(memory, "s")] == []
    assert memory.store.get_episode(episode.id) is not None
    assert [fact.key for fact in memory.store.facts()] == ["bell"]
    assert {one.thought_id: one.lifecycle_status for one in memory.thoughts.list_thoughts(include_expired=True)} == {
        "p": "ACTIVE", "first": "ACTIVE",
    }  # fmt: skip


def test_an_expired_thought_is_archived_and_collected_later(home: Open, hand: Any) -> None:
    """Until the window is over it can be restored; then it goes with its edges, and what it hung together with stays."""
    memory = home("[retention]\nexpired = true\ncollect_days = 5\n")
    memory.thoughts.bulk_store([thought("mug"), thought("old", expires_at=hand.wall + 60)])
    memory.thoughts.create_edge(an_edge("e", "mug", "old"))
    pass_days(hand, memory, 1)
    assert plan(memory) == [("old", "archive", "expired")]
    memory.idle(60)
    assert memory.thoughts.restore_thought("old").lifecycle_status == "ACTIVE"
    memory.thoughts.update_thought("old", lifecycle_status="ARCHIVED")
    pass_days(hand, memory, 6)
    assert plan(memory) == [("old", "erase", "archived for 5 days")]
    memory.idle(60)
    assert [one.thought_id for one in memory.thoughts.list_thoughts()] == ["mug"]
    assert memory.thoughts.get_edges("mug") == []


def test_what_expires_by_its_mark_goes_when_asked(home: Open, hand: Any, tmp_path: Path) -> None:
    """A fact that said when it ends is forgotten with what tools repeated of it; a value said since keeps its key."""
    memory = home()
    for key in ("guest.code", "door.code"):
        memory.store.add_fact(key, f"quixotry {key}", scope="household")
        memory.thoughts.update_thought(f"fact:{memory.store.facts()[-1].id}", expires_at=hand.wall + DAY)
    keys = {fact.key for fact in memory.store.facts()}
    assert keys == {"guest.code", "door.code"}
    hand.advance(3600)
    memory.store.add_fact("door.code", "4711", scope="household")
    pass_days(hand, memory, 2)
    assert memory.idle(60)
    assert memory.store.get_fact("guest.code", scope="household") is not None
    (record,) = memory.retention.plan()
    assert memory.retention.erase([record]).erased == {"facts": 1}
    assert [fact.value for fact in memory.store.facts()] == ["4711"]
    assert files_with(tmp_path, "guest.code") == []


def test_a_cap_on_size_frees_a_tenth_from_the_oldest_on(home: Open, hand: Any) -> None:
    """What is older goes first, nothing of the last day, and the rest stays."""
    memory = home("[retention]\nmax_mb = 1\n")
    for n in range(300):
        tell(memory, f"{n} {'x' * 4000}", n=n)
        hand.advance(600)
    hand.advance(DAY / 2)
    assert memory.idle(60)
    left = [turn.n for turn in turns_of(memory, "s")]
    assert left == list(range(300 - len(left), 300))
    assert 100 <= len(left) < 250
    assert memory.retention.plan() == []


@pytest.mark.parametrize("wall", [0.0, 1_770_000_000.0 + 64 * 365 * DAY, 1_770_000_000.0 + 400 * DAY])
def test_a_clock_in_doubt_erases_nothing(home: Open, hand: Any, wall: float) -> None:
    """Booted in 1970, in 2090, or a year ahead, nothing goes; a clock set right goes on as before, and one that stays is believed."""
    memory = home("[retention]\nmax_days = 10\nexpired = true\n[bank]\nlimits = { retention_days = 10 }\n")
    live(memory)
    memory.bank.household.write_file("list.md", "milk")
    right = hand.wall
    hand.wall = wall
    memory = home("[retention]\nmax_days = 10\nexpired = true\n[bank]\nlimits = { retention_days = 10 }\n")
    for _ in range(3):
        assert memory.retention.doubt()
        with pytest.raises(BusyError, match="clock"):
            memory.retention.erase(memory.retention.plan())
        memory.idle(60)
        hand.advance(DAY)
    assert memory.store.get_fact("bell", scope="household") == "quixotry brass"
    assert memory.bank.household.list_files() == ["list.md"]
    if wall == right + 400 * DAY:
        tell(memory, "I am back", n=5)
        pass_days(hand, memory, 5)
        assert memory.idle(60)
        assert memory.store.get_fact("bell", scope="household") is None
        assert memory.bank.household.list_files() == []


def test_gc_shows_first_and_erases_when_told(tmp_path: Path) -> None:
    """The command prints a reason for each and changes nothing; with --yes the same goes."""
    with opened(tmp_path / "mine") as memory:
        memory.thoughts.create_thought(thought("old", expires_at="2026-01-02"))
        memory.store.add_fact("guest.code", "quixotry", scope="household")
        memory.thoughts.update_thought(f"fact:{memory.store.facts()[0].id}", expires_at="2026-01-02")

    home = tmp_path / "mine"
    assert "expired" in run("gc", "--home", home).output
    shown = json_of("gc", "--home", home)
    assert [(of["action"], of["reason"]) for of in shown] == [("archive", "expired"), ("erase", "expired")]
    assert run("gc", "--yes", "--home", home).output == "Archived 1 thought, erased 1 fact.\n"
    assert run("gc", "--home", home).output == "There are no aged records to show.\n"
    assert files_with(tmp_path, "quixotry") == []
    with closing(sqlite3.connect(tmp_path / "mine" / "db" / "memory.db")) as truth:
        assert truth.execute("select lifecycle from stored_thoughts").fetchall() == [("ARCHIVED",)]
