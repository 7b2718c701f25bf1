"""Search by meaning as a tool, where there is only a store."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import edgemem
from edgemem.bench.ground import Robot
from edgemem.config import LearnSettings, Profile
from edgemem.errors import InvalidInputError
from edgemem.inspect.replay import Line
from edgemem.loop.memory_tools import memory_tools
from edgemem.memory import Memory
from edgemem.recall.recall import Request
from edgemem.recall.vector_store import VectorMemoryStore
from edgemem.records import CutOff, Fact, Reader
from edgemem.session.tools import ToolTurn
from edgemem.store.json.memory import JSONMemoryStore
from support.embedders import HashEmbedder
from support.loops import Robot as LoopRobot

MEANS = {"nut": "peanut", "avoid": "allergi"}  # of stems


@pytest.fixture
def store(tmp_path: Path) -> Iterator[VectorMemoryStore]:
    embedder = HashEmbedder(means=MEANS)
    with VectorMemoryStore(
        tmp_path / "v.db", embed_fn=lambda text: embedder.embed_texts([text])[0]
    ) as opened:
        yield opened


def _asked(store: Any, query: str, speaker: str | None) -> str:
    (tool,) = memory_tools(store, include=("search_memory",))
    told: str = tool.run(ToolTurn(query, Reader(speaker)), query=query)
    return told


def test_search_memory_takes_the_search_of_the_store(store: VectorMemoryStore) -> None:
    """`include=("recall_fact", "search_memory")` works with a vector store as it is, and the nearest comes first."""
    store.add_fact("allergies", "peanuts")
    for n in range(20):
        store.add_fact(f"shelf.{n}", f"box {n} holds screws")
    names = ["recall_fact", "search_memory"]
    assert [tool.name for tool in memory_tools(store, include=names)] == names
    told = _asked(store, "avoid nuts", "alice")
    assert told.splitlines()[0] == "- allergies: peanuts"
    assert len(told.splitlines()) <= 5


def test_search_memory_tells_nobody_what_is_not_theirs(store: VectorMemoryStore) -> None:
    """Whose fact it is decides in a store's own search too."""
    store.add_fact("allergies", "peanuts", scope="user:alice")
    assert "peanuts" in _asked(store, "allergies", "alice")
    assert "peanuts" not in _asked(store, "allergies", "bob")
    assert "peanuts" not in _asked(store, "allergies", None)


def test_a_users_own_search_is_filtered(tmp_path: Path) -> None:
    """A store of the seed's kind knows no readers: what it finds is looked through before it is told."""

    class Own:
        def __init__(self, store: JSONMemoryStore) -> None:
            self._store = store

        def __getattr__(self, name: str) -> Any:
            return getattr(self._store, name)

        def search_facts(self, query: str, *, k: int = 5) -> list[tuple[Fact, float]]:
            return [(fact, 0.3) for fact in self._store.facts()][:k]

    with JSONMemoryStore(tmp_path / "m.json") as store:
        store.add_fact("allergies", "peanuts", scope="user:alice")
        store.add_fact("tea", "green")
        assert "green" in _asked(Own(store), "tea", "bob")
        assert "peanuts" not in _asked(Own(store), "tea", "bob")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """Return a home that was told two things, and in which a tool did one."""
    # No facts are learnt of it: these tests are about what was said.
    profile = Profile(learn=LearnSettings(learners=()))
    with edgemem.open(tmp_path / "home", profile=profile, worker=False) as opened:
        talk = Robot(opened.hooks(session_id="old", speaker="ann"))
        for said in ("The spare key hangs behind the shed.", "Mom's flight lands on Friday at seven."):
            talk.turn(Line(said, speaker="ann", reply="All right."))
        opened.store.add_episode("tool_call", {"name": "set_timer", "minutes": 12}, "rang")
        assert opened.idle(60)
        yield opened


@pytest.mark.parametrize(
    ("query", "found"),
    [("key", "behind the shed"), ("flight", "flight lands on Friday"), ("timer", "rang"), ("passport", None)],
)
def test_who_searches_wants_something_in_any_words(memory: Memory, query: str, found: str | None) -> None:
    """A model searches by a word or two, which nobody would take for a question; what is not there is not found."""
    (tool,) = memory.tools(include=("search_memory",))
    told = tool.run(ToolTurn(query, Reader("ann")), query=query)
    assert found in told if found else told == "Nothing is remembered about that."


def test_what_the_block_of_the_turn_tells_is_not_found_again(memory: Memory) -> None:
    """The tool says that it stands there; in a later turn without that block it is told."""
    robot = LoopRobot(memory)
    asked = "Where does the spare key hang?"
    assert (
        robot.answer(asked, "search_memory", query="spare key", speaker="ann")
        == "More about that stands above."
    )
    assert "shed" in robot.answer("What a day.", "search_memory", query="spare key", speaker="bob")


def test_a_search_that_was_cut_off_says_so(memory: Memory) -> None:
    """Nobody is told that nothing is remembered where there was no time to look."""
    cut = memory.diagnostics.search.recall("spare key", Request(reader=None, deadline_s=0.0))
    assert isinstance(cut, CutOff)
    for found, first in ((cut, "- "), (CutOff(), "There was no time")):
        (tool,) = memory_tools(memory.store, include=("search_memory",), recall=lambda *_, found=found: found)
        told = tool.run(ToolTurn("the key", Reader("ann")), query="spare key")
        assert told.startswith(first)
        assert told.endswith("There was no time to look for all of it; search again.")


def test_a_store_that_cannot_search_says_so(tmp_path: Path) -> None:
    """The sentence names what has a search."""
    plain = JSONMemoryStore(tmp_path / "m.json")
    with plain, pytest.raises(InvalidInputError, match="VectorMemoryStore"):
        memory_tools(plain, include=("search_memory",))
