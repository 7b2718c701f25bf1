"""What the index writes to the card: a batch of rows and vectors in a few commits, and nothing turn by turn."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import HandClock

import edgemem
from edgemem.loop.loop import AgentLoop
from edgemem.memory import Memory
from edgemem.store.db.database import Database
from support.embedders import HashEmbedder
from support.models import Model


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Return how many transactions were written, by the name of the file."""
    counted: Counter[str] = Counter()
    submit = Database.submit

    def counting(database: Database, *args: Any, **kwargs: Any) -> Any:
        counted[database.path.name] += 1
        return submit(database, *args, **kwargs)

    monkeypatch.setattr(Database, "submit", counting)
    return counted


def talk(memory: Memory, turns: int, hand: HandClock) -> None:
    """Have Ben say two sentences a turn, with enough silence behind each for all that the worker does."""
    model = Model(*(f"Noted as number {n}. Shelf {n} is free now." for n in range(turns)))
    loop = AgentLoop(model, hooks=memory.hooks(session_id="hall", speaker="ben"), speaker="ben")
    for n in range(turns):
        loop.run(f"Lamp {n} stands in room {n}. Its colour is number {n} of the chart.")
        hand.advance(1)
        memory.idle(60, thorough=False)
    assert loop.hooks.failures() == memory.diagnostics.upkeep.failures() == []


def test_vectors_are_written_with_the_rows_that_they_belong_to(
    tmp_path: Path, hand: HandClock, commits: Counter[str]
) -> None:
    """A hundred turns are in the index after some commits, and each doc that is there has its vector."""
    embedder = HashEmbedder()
    with edgemem.open(tmp_path, embedder=embedder, clock=hand.clock, worker=False) as memory:
        commits.clear()
        talk(memory, 100, hand)
        assert memory.diagnostics.search.pending()["text"] < 120
        assert memory.diagnostics.search.pending()["vectors"] == 0
        assert commits["index.db"] <= 12
        said = [text for text in embedder.embedded if text.startswith("Lamp") and text.endswith("chart.")]
        assert len(said) == len(set(said)) == 100


def test_what_was_embedded_is_not_embedded_again_after_a_restart(tmp_path: Path, hand: HandClock) -> None:
    """Closing has the index file take what had its vectors in memory."""
    embedder = HashEmbedder()
    with edgemem.open(tmp_path, embedder=embedder, clock=hand.clock, worker=False) as memory:
        talk(memory, 3, hand)
        assert memory.diagnostics.search.pending()["text"]
    embedder.embedded.clear()
    with edgemem.open(tmp_path, embedder=embedder, clock=hand.clock, worker=False) as memory:
        assert not any(memory.diagnostics.search.pending().values())
        memory.idle(60)
        assert embedder.embedded == []


def test_closing_embeds_nothing(tmp_path: Path, hand: HandClock) -> None:
    """What has no vector when a memory is closed waits for the next silence, and keeps no other vector from the file."""
    embedder = HashEmbedder()
    with edgemem.open(tmp_path, embedder=embedder, clock=hand.clock, worker=False) as memory:
        talk(memory, 2, hand)
        memory.store.add_episode("task", {"text": "The attic was swept."}, "done", agent="robot")
        embedder.embedded.clear()
    assert embedder.embedded == []
    with edgemem.open(tmp_path, embedder=embedder, clock=hand.clock, worker=False) as memory:
        assert memory.diagnostics.search.pending()["vectors"] == 1
        memory.idle(60)
        assert memory.recall("attic", speaker="ben")
        assert any("attic" in text for text in embedder.embedded)


def test_nothing_forgotten_stays_embedded(tmp_path: Path, hand: HandClock) -> None:
    """What is forgotten before the index knows it is embedded anew when it is said once more: its vector is gone."""
    embedder = HashEmbedder()
    with edgemem.open(tmp_path, embedder=embedder, clock=hand.clock, worker=False) as memory:
        for _ in range(2):
            talk(memory, 1, hand)
            assert memory.diagnostics.search.pending()["text"]
            memory.forget(session="hall")
            memory.idle(60, thorough=False)
    assert len(embedder.embedded) == 2 * len(set(embedder.embedded))
