"""Arguments of `Memory` and of times: what makes no sense is refused in one sentence, and nothing is changed."""

import math
from pathlib import Path
from typing import Any

import pytest

import edgemem
from edgemem import AgentLoop, Heard, JSONMemoryStore, SQLiteMemoryStore
from edgemem.errors import InvalidInputError
from edgemem.memory import Memory
from support.homes import BY_WORDS
from support.models import Model
from support.refusals import refusal

NO_TIME = (1e300, -1e300, math.nan, math.inf, -math.inf, "2026", 253_402_300_800.0, -62_135_596_801.0)
"""The calendar ends with the year 9999 and begins with the year 1."""
A_TIME = (-62_135_596_800.0, -1.0, 0.0, 1_770_000_000, 253_402_300_799.0)


@pytest.fixture
def memory(memory: Memory) -> Memory:
    memory.store.add_fact("tea", "black")
    return memory


def refused(attempt: Any, named: str) -> None:
    assert len(refusal(InvalidInputError, attempt, match=named)) < 200


@pytest.mark.parametrize(
    ("name", "values", "named"),
    [
        ("query", (None, 5, b"tea", ["tea"]), "query"),
        ("k", (-1, -(10**9), 1.5, "five", math.nan), "k "),
        ("min_score", (math.nan, "0.5", True, None, [0.5]), "min_score"),
        # A kind that nobody knows finds nothing for ever; one text is a list of letters.
        ("kinds", ({"factz"}, "fact", ["fact", "Turn"], [None], 5), "kinds"),
    ],
)
def test_a_senseless_argument_is_refused(memory: Memory, name: str, values: Any, named: str) -> None:
    """Also where whole sessions are recalled."""
    for value in values:
        arguments = {"query": "tea", name: value}
        refused(lambda arguments=arguments: memory.recall(**arguments), named)
        if name != "kinds":
            refused(lambda arguments=arguments: memory.recall_sessions(**arguments), named)


@pytest.mark.parametrize("restore", ["oldest", "", True])
def test_an_argument_that_makes_no_sense_is_refused(tmp_path: Path, restore: Any) -> None:
    """A lost truth is restored from the newest backup or by nobody."""
    refused(lambda: edgemem.open(tmp_path, profile=BY_WORDS, restore=restore, worker=False), "newest")


def test_none_is_the_default_and_zero_is_nothing(memory: Memory) -> None:
    """At most no item is no item; only None leaves the number to the profile."""
    assert [item.key for item in memory.recall("tea", k=None)] == ["tea"]
    assert memory.recall("tea", k=0) == []
    assert memory.recall_sessions("tea", k=0) == []
    assert memory.recall("tea", kinds={"fact", "turn"})


@pytest.mark.parametrize("seconds", [math.nan, "1", None, [1]])
def test_idle_takes_seconds(memory: Memory, seconds: Any) -> None:
    """What is no number is refused; without end is as long as there is work, and less than nothing is nothing."""
    refused(lambda: memory.idle(seconds), "seconds")
    assert memory.idle(math.inf)
    assert not memory.idle(-1)


@pytest.mark.parametrize("kind", [SQLiteMemoryStore, JSONMemoryStore])
def test_a_fact_holds_at_times_of_the_calendar(tmp_path: Path, kind: Any) -> None:
    """What no calendar names is refused where a fact begins, ends or is taken back; from the year 1 to 9999 all is taken."""
    with kind(tmp_path / "m") as store:
        store.add_fact("cup", "blue", valid_from=0.0)
        for when in NO_TIME:
            refused(lambda when=when: store.add_fact("tea", "black", valid_from=when), "valid_from")
            refused(lambda when=when: store.add_fact("tea", "red", valid_from=0.0, valid_to=when), "valid_to")
            refused(lambda when=when: store.retract_fact("cup", valid_from=when), "valid_from")
        assert [fact.value for fact in store.facts()] == ["blue"]
        assert store.fact_history("tea") == []
        for n, when in enumerate(A_TIME):
            store.add_fact(f"tea {n}", "black", valid_from=when)
            assert when in [fact.valid_from for fact in store.facts_as_of(when)]


@pytest.mark.parametrize("when", [1e300, -1e300, math.inf, "noon"])
def test_a_voice_that_comes_at_no_time_is_kept_without_one(memory: Memory, when: Any) -> None:
    """A recogniser with a broken clock loses no turn: it counts as said when it was kept."""
    loop = AgentLoop(Model(), hooks=memory.hooks(session_id="s"))
    loop.run("hello", heard=Heard(speaker="ann", event_time=when))
    memory.diagnostics.database.flush()
    (turn,) = memory.sessions.journal.read_turns("s")
    assert turn.heard is not None
    assert turn.heard.event_time is None
    assert loop.hooks.failures() == []
