"""Arguments of `Memory` and of times: what makes no sense is refused in one sentence, and nothing is changed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

import edgemem
from edgemem import AgentLoop, Heard, JSONMemoryStore, SQLiteMemoryStore
from edgemem.errors import InvalidInputError
from edgemem.records import Reply

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from edgemem.memory import Memory

pytestmark = pytest.mark.usefixtures("patient")

NO_NUMBER_OF_ITEMS = (-1, -(10**9), 1.5, "five", float("nan"))
NO_KINDS = ({"factz"}, "fact", ["fact", "Turn"], [None], 5)
NO_SCORE = (math.nan, "0.5", True, None, [0.5])
NO_TIME = (1e300, -1e300, math.nan, math.inf, -math.inf, "2026", 253_402_300_800.0, -62_135_596_801.0)
"""The calendar ends with the year 9999 and begins with the year 1."""
A_TIME = (-62_135_596_800.0, -1.0, 0.0, 1_770_000_000, 253_402_300_799.0)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """Return an open memory that finds by words, and knows of tea."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "edgemem.toml").write_text('[llama]\nembedder = ""\n')
    with edgemem.open(home, worker=False) as opened:
        opened.store.add_fact("tea", "black")
        yield opened


def refused(attempt: Any, *named: str) -> None:
    """Require one short sentence that names what is wrong."""
    with pytest.raises(InvalidInputError) as caught:
        attempt()
    sentence = str(caught.value)
    assert len(sentence) < 200
    assert "\n" not in sentence
    assert all(name in sentence for name in named), sentence


@pytest.mark.parametrize("query", [None, 5, b"tea", ["tea"]])
def test_a_query_is_text(memory: Memory, query: Any) -> None:
    """Recall of anything else is refused, also for whole sessions."""
    refused(lambda: memory.recall(query), "query")
    refused(lambda: memory.recall_sessions(query), "query")


@pytest.mark.parametrize("k", NO_NUMBER_OF_ITEMS)
def test_k_is_a_number_of_items(memory: Memory, k: Any) -> None:
    """A number below zero, a fraction or a word is refused."""
    refused(lambda: memory.recall("tea", k=k), "k ")
    refused(lambda: memory.recall_sessions("tea", k=k), "k ")


def test_none_is_the_default_and_zero_is_nothing(memory: Memory) -> None:
    """At most no item is no item; only None leaves the number to the profile."""
    assert [item.key for item in memory.recall("tea", k=None)] == ["tea"]
    assert memory.recall("tea", k=0) == []
    assert memory.recall_sessions("tea", k=0) == []


@pytest.mark.parametrize("kinds", NO_KINDS)
def test_kinds_are_those_that_there_are(memory: Memory, kinds: Any) -> None:
    """A kind that nobody knows finds nothing for ever, so it is refused; so is one text, which is a list of letters."""
    refused(lambda: memory.recall("tea", kinds=kinds), "kinds", "fact")
    assert memory.recall("tea", kinds={"fact", "turn"})


@pytest.mark.parametrize("score", NO_SCORE)
def test_a_least_score_is_a_number(memory: Memory, score: Any) -> None:
    """Anything else is a slip."""
    refused(lambda: memory.recall("tea", min_score=score), "min_score")
    refused(lambda: memory.recall_sessions("tea", min_score=score), "min_score")


@pytest.mark.parametrize("seconds", [math.nan, "1", None, [1]])
def test_idle_takes_seconds(memory: Memory, seconds: Any) -> None:
    """What is no number is refused; without end is as long as there is work, and less than nothing is nothing."""
    refused(lambda: memory.idle(seconds), "seconds")
    assert memory.idle(math.inf)
    assert not memory.idle(-1)


@pytest.mark.parametrize("when", NO_TIME)
@pytest.mark.parametrize("kind", [SQLiteMemoryStore, JSONMemoryStore])
def test_a_fact_holds_at_times_of_the_calendar(tmp_path: Path, kind: Any, when: Any) -> None:
    """What no calendar names is refused where a fact begins, ends or is taken back, and nothing is stored."""
    with kind(tmp_path / "m") as store:
        store.add_fact("cup", "blue", valid_from=0.0)
        refused(lambda: store.add_fact("tea", "black", valid_from=when), "valid_from")
        refused(lambda: store.add_fact("tea", "black", valid_from=0.0, valid_to=when), "valid_to")
        refused(lambda: store.retract_fact("cup", valid_from=when), "valid_from")
        assert [fact.value for fact in store.facts()] == ["blue"]
        assert store.fact_history("tea") == []


@pytest.mark.parametrize("when", A_TIME)
@pytest.mark.parametrize("kind", [SQLiteMemoryStore, JSONMemoryStore])
def test_every_time_of_the_calendar_is_taken(tmp_path: Path, kind: Any, when: float) -> None:
    """From the year 1 to the year 9999, to the second."""
    with kind(tmp_path / "m") as store:
        store.add_fact("tea", "black", valid_from=when)
        assert [fact.valid_from for fact in store.facts_as_of(when)] == [when]


class Parrot:
    """A model that always says the same."""

    def complete(self, messages: Any, **_: Any) -> Reply:
        return Reply("Fine.")

    def cut(self, heard_text: str) -> None:
        """Nothing to forget."""


@pytest.mark.parametrize("when", [1e300, -1e300, math.inf, "noon"])
def test_a_voice_that_comes_at_no_time_is_kept_without_one(memory: Memory, when: Any) -> None:
    """A recogniser with a broken clock loses no turn: it counts as said when it was kept."""
    loop = AgentLoop(Parrot(), hooks=memory.hooks(session_id="s"))
    loop.run("hello", heard=Heard(speaker="ann", event_time=when))
    memory.database.flush()
    (turn,) = memory.sessions.journal.read_turns("s")
    assert turn.heard is not None
    assert turn.heard.event_time is None
    assert loop.hooks.failures() == []
