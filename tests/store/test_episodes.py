"""Episodes: kept, replaced, found by what they have, and refused; calls of tools are counted with their latencies."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import edgemem
from edgemem import SQLiteMemoryStore
from edgemem.errors import InvalidInputError
from edgemem.records import Heard, Reader
from edgemem.store.episodes import TOOL_CALL, ToolStats, as_seed_fields, call_record, tool_stats

DEPLOYED: dict[str, Any] = {
    "name": "ep-001", "summary": "User asked to deploy the app to staging.",
    "decisions": ("chose blue-green deployment", "skipped canary"), "tools": ("sandbox", "web"),
    "tags": ("deployment", "staging"), "session": "sess-42", "latency_ms": 1.5,
}  # fmt: skip


def names(memory: edgemem.Memory, **filters: Any) -> list[str]:
    return [episode.name for episode in memory.store.episodes(**filters)]


@pytest.mark.parametrize("kind", [edgemem.SQLiteMemoryStore, edgemem.JSONMemoryStore])
def test_an_episode_is_read_as_it_was_stored(kind: Any, tmp_path: Path) -> None:
    """From the file, with a time that is still to come, and as the record of Cognitia."""
    with kind(tmp_path / "memory") as store:
        store.add_episode("task", {"room": 3}, "success", heard=Heard(event_time=4e9), **DEPLOYED)
    with kind(tmp_path / "memory") as store:
        (episode,) = store.episodes(tag="staging")
    assert {field: getattr(episode, field) for field in DEPLOYED} == DEPLOYED
    assert as_seed_fields(episode) == {
        "id": "ep-001", "summary": DEPLOYED["summary"], "key_decisions": DEPLOYED["decisions"],
        "tools_used": DEPLOYED["tools"], "outcome": "success", "session_id": "sess-42", "timestamp": 4e9,
        "tags": DEPLOYED["tags"], "metadata": {"room": 3},
    }  # fmt: skip


def test_a_tool_call_of_edgevox_is_an_episode_of_cognitia(memory: edgemem.Memory) -> None:
    """Its outcome has Cognitia's word, its text is the summary, and its id the row's."""
    memory.store.add_episode("tool_call", {"name": "grip", "error": "blocked"}, "failed")
    (episode,) = memory.store.episodes(outcome="failure")
    fields = as_seed_fields(episode)
    assert (fields["id"], fields["outcome"], fields["tools_used"]) == (episode.id, "failure", ("grip",))
    assert fields["summary"] == "grip failed: blocked"


def test_one_of_the_same_name_takes_its_place(memory: edgemem.Memory) -> None:
    """The older one is found by nothing any more, before and after it was indexed."""
    for indexed in (False, True):
        memory.store.add_episode("task", {}, "failure", **DEPLOYED)
        assert not indexed or memory.idle(30)
        memory.store.add_episode("task", {}, "success", name="ep-001", summary="The tulips are watered.")
        assert [episode.outcome for episode in memory.store.episodes()] == ["success"]
        assert memory.store.episodes(tag="staging") == []
        assert memory.recall("deploy staging", kinds={"episode"}) == []
        assert len(memory.recall("tulips", kinds={"episode"})) == 1


@pytest.mark.parametrize("query", ["deploy staging", "blue-green", "sandbox", "deployment"])
def test_it_is_found_by_summary_decisions_tools_and_tags(memory: edgemem.Memory, query: str) -> None:
    """At once, and after it was indexed."""
    memory.store.add_episode("task", {}, "success", **DEPLOYED)
    for _ in range(2):
        (item,) = memory.recall(query, kinds={"episode"})
        assert item.session == "sess-42"
        assert item.text.startswith("User asked to deploy the app to staging.")
        assert memory.idle(30)


def test_each_filter_lets_through_what_it_names(memory: edgemem.Memory) -> None:
    """By tag, outcome, person, session and time, and all together; the newest by when it happened comes first."""
    add = memory.store.add_episode
    add("task", {}, "success", name="a", tags=["x"], heard=Heard(speaker="Mara", event_time=100.0))
    add("task", {}, "ok", name="b", tags=["x", "y"], session="hall", heard=Heard(event_time=300.0))
    add("task", {}, "failure", name="c", tags=["xy"], heard=Heard(speaker="Ben", event_time=200.0))
    assert names(memory) == ["b", "c", "a"]
    assert names(memory, tag="x") == ["b", "a"]
    assert names(memory, outcome="success") == ["b", "a"]
    assert names(memory, person="MARA") == ["a"]
    assert names(memory, session="hall") == ["b"]
    assert names(memory, since=200.0, until=300.0) == ["c"]
    assert names(memory, tag="x", outcome="success", since=200.0) == ["b"]
    assert names(memory, n=1) == ["b"]
    assert names(memory, reader=Reader()) == ["b"]


def test_the_ring_drops_the_oldest_with_their_tags(tmp_path: Path) -> None:
    """At most a tenth beyond the bound waits to go with the next ones."""
    with edgemem.SQLiteMemoryStore(tmp_path / "m.db", max_episodes=10) as store:
        for n in range(25):
            store.add_episode("task", {}, "ok", name=f"e{n}", tags=["x"])
        names = [episode.name for episode in store.episodes(tag="x")]
        assert names[:10] == [f"e{n}" for n in range(24, 14, -1)]
        assert len(names) <= 11
        assert len(store.database.query("select * from episode_tags")) <= 11


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"tags": "deployment"}, "must be a list of texts"), ({"decisions": [1]}, "must be text, not int"),
        ({"summary": "x" * 20_000}, "summary of an episode"), ({"summary": None}, "summary of an episode"),
        ({"name": "two\nlines"}, "name of an episode"), ({"tags": ["x" * 70_000]}, "shorten"),
    ],
)  # fmt: skip
def test_what_is_no_episode_is_refused(memory: edgemem.Memory, more: dict[str, Any], sentence: str) -> None:
    """In one sentence, and nothing is kept."""
    with pytest.raises(InvalidInputError, match=sentence):
        memory.store.add_episode("task", {}, "ok", **more)
    assert memory.store.episodes() == []


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteMemoryStore]:
    with SQLiteMemoryStore(tmp_path / "memory.db", max_episodes=300) as opened:
        yield opened


def call(store: SQLiteMemoryStore, tool: str, *, ok: bool = True, **more: Any) -> None:
    store.add_episode(TOOL_CALL, {"name": tool}, "ok" if ok else "failed", **more)


def test_each_tool_has_its_calls_failures_and_percentiles(store: SQLiteMemoryStore) -> None:
    """The most called first; of one that nobody measured there are no latencies, and what is no call counts for none."""
    for n in range(100):
        call(store, "grip", ok=n % 4 > 0, latency_ms=float(n + 1))
    call(store, "sing")
    store.add_episode("walk", {"name": "grip"}, "ok")
    assert tool_stats(store.database) == [
        ToolStats("grip", 100, 25, 0.25, 50.0, 90.0, 99.0),
        ToolStats("sing", 1, 0, 0.0, None, None, None),
    ]


@pytest.mark.parametrize("latency_ms", [-1, float("nan"), float("inf"), "fast"])
def test_what_is_no_latency_is_refused(store: SQLiteMemoryStore, latency_ms: Any) -> None:
    """In one sentence, and nothing is kept."""
    with pytest.raises(InvalidInputError):
        call(store, "grip", latency_ms=latency_ms)
    assert tool_stats(store.database) == []


@pytest.mark.parametrize(
    ("output", "outcome"),
    [(None, "ok"), ({"files": []}, "ok"), ({"error": "offline"}, "failed"), ({"status": "error"}, "failed")],
)
def test_an_answer_tells_whether_it_is_an_error(output: Any, outcome: str) -> None:
    """As Cognitia's tools tell it."""
    assert call_record("web", None, output)[1] == outcome
