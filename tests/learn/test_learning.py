"""What learning keeps of several memories, and how that goes and is taken back; by a learner of the test's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import edgemem
from edgemem.config import LlamaSettings, Profile
from edgemem.errors import InvalidInputError, ThoughtNotFoundError
from edgemem.learn.learning import cursor_of, move_cursor
from edgemem.learn.reflections import Readership, Reflection, put_reflection
from edgemem.records import Reader
from support.homes import files_with, tell

_NEW = "select m.id, t.level, t.owner from messages m join turns t on t.first_message = m.id where m.id > ? order by m.id"
_ALL = "select m.id from messages m join turns t on t.first_message = m.id where t.level = ? and t.owner is ? order by m.id desc"


class Counter:
    """Counts what was said to each readership."""

    name = "counter"

    def __init__(self, memory: edgemem.Memory) -> None:
        self.database = memory.diagnostics.database

    def step(self, _stop: Callable[[], bool]) -> bool:
        before = cursor_of(self.database, self.name)
        new = self.database.query(_NEW, (before,))[:1]
        for number, *readers in new:

            def work(tx, number=number, of=Readership(*readers)) -> None:  # noqa: B008 - the loop's
                if move_cursor(tx, self.name, before=before, after=number):
                    sources = tuple(f"turn:{n}" for (n,) in tx.query(_ALL, of))
                    counted = Reflection("all", f"said: {len(sources)} times", sources, 0.0, {})
                    put_reflection(tx, self.name, of, counted)

            self.database.write(work)
        return bool(new)


class Broken:
    """Fails at each step."""

    name = "broken"

    def step(self, _stop: Callable[[], bool]) -> bool:
        raise ValueError("no idea")


@pytest.fixture
def memory(tmp_path):
    profile = Profile(llama=LlamaSettings(embedder=""))
    with edgemem.open(tmp_path / "home", profile=profile, worker=False) as memory:
        memory.learning.add(Counter(memory))
        yield memory


def test_a_learner_that_fails_keeps_no_other_from_learning(tmp_path) -> None:
    """It is counted among what failed in idle time."""
    profile = Profile(llama=LlamaSettings(embedder=""))
    with edgemem.open(tmp_path / "home", profile=profile, worker=False) as memory:
        for learner in (Broken(), Counter(memory)):
            memory.learning.add(learner)
        said(memory, "Of us all.")
        assert learnt(memory) == ["said: 1 times"]
        assert [failure.message for failure in memory.diagnostics.upkeep.failures()] == [
            "ValueError: no idea"
        ]


def said(memory, *texts: str, **more) -> None:
    for n, text in enumerate(texts):
        tell(memory, text, more.get("session", "s"), n, **{k: v for k, v in more.items() if k != "session"})
    memory.idle(5)


def learnt(memory, speaker: str | None = "alice") -> list[str]:
    return [thought.content for thought in memory.learning.log(reader=Reader(speaker))]


def test_a_reflection_changes_in_place_and_has_an_edge_to_each_source(memory) -> None:
    """One thought, whose sentence and edges follow what is said."""
    said(memory, "The ladder is here.", "The ladder is there.")
    (thought,) = memory.learning.log()
    assert thought.content == "said: 2 times"
    edges = memory.thoughts.get_edges(thought.thought_id)
    assert {edge.to_thought_id for edge in edges} == set(thought.consolidated_from)
    assert all(edge.edge_type == "CONSOLIDATED_FROM" for edge in edges)
    said(memory, "Once more.", session="t")
    (after,) = memory.learning.log()
    assert (after.thought_id, after.content) == (thought.thought_id, "said: 3 times")


def test_it_is_learnt_within_one_readership(memory) -> None:
    """Private words are counted for whoever said them alone, and a stranger reads nothing."""
    said(memory, "Of us all.")
    said(memory, "Mine.", "Mine too.", session="p", level="private", owner="alice")
    assert sorted(learnt(memory)) == ["said: 1 times", "said: 2 times"]
    assert learnt(memory, "bob") == ["said: 1 times"]
    assert learnt(memory, None) == []


@pytest.mark.parametrize("way", ["session", "person"])
def test_it_goes_with_a_source_that_is_forgotten(memory, way: str) -> None:
    """In the same transaction, bytes included."""
    said(memory, "The ladder is here.")
    said(memory, "The ladder is there.", session="t", speaker="bob")
    assert learnt(memory) == ["said: 2 times"]
    memory.forget(**({"session": "t"} if way == "session" else {"person": "bob"}))
    assert learnt(memory) == []
    assert memory.recall("said 2 times") == [] or all(
        "said: 2" not in item.text for item in memory.recall("said 2 times")
    )


def test_what_was_undone_is_not_learnt_again(memory) -> None:
    """It is shown no more, and not changed by what is said later."""
    said(memory, "The ladder is here.")
    (thought,) = memory.learning.log()
    memory.learning.undo(thought.thought_id)
    said(memory, "The ladder is there.", session="t")
    assert memory.learning.log() == []
    assert not any(item.kind == "thought" for item in memory.recall("what was said?"))
    with pytest.raises(ThoughtNotFoundError):
        memory.learning.undo("fact:1")


@pytest.mark.parametrize("sessions", ["t", "st"])
def test_an_undone_one_is_not_learnt_again_of_what_is_left(memory, sessions: str) -> None:
    """Whatever is forgotten of its sources takes its words along, and no more."""
    said(memory, "The ladder is here.")
    said(memory, "The ladder is there.", session="t", speaker="bob")
    (thought,) = memory.learning.log()
    memory.learning.undo(thought.thought_id)
    for session in sessions:
        memory.forget(session=session)
    said(memory, "The ladder is gone.", session="u")
    assert memory.learning.log() == []
    assert files_with(memory.home, "said: 2 times") == []


def test_a_move_of_people_unlearns_what_was_private(memory) -> None:
    """What alice's private words gave is nobody's once they are bob's."""
    said(memory, "Mine.", session="p", level="private", owner="alice")
    (number,) = memory.diagnostics.database.query("select id from messages")[0]
    memory.people.give(number, "bob")
    assert learnt(memory) == learnt(memory, "bob") == []


def test_two_processes_learn_once(memory, tmp_path) -> None:
    """Whoever moves the cursor first writes."""
    said(memory, "The ladder is here.")
    database = memory.diagnostics.database
    at = cursor_of(database, "counter")
    assert not database.write(lambda tx: move_cursor(tx, "counter", before=at - 1, after=at + 1))
    with pytest.raises(InvalidInputError, match="already"):
        memory.learning.add(Counter(memory))
