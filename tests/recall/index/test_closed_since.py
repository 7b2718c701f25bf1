"""What was closed since it was indexed: the truth has the last word on who may read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import edgemem
from edgemem.config import NotesSettings
from edgemem.loop.loop import AgentLoop
from edgemem.memory import Memory
from support.models import Listener

pytestmark = pytest.mark.usefixtures("patient")
KINDS = ("fact", "preference", "episode", "turn", "note")


@pytest.fixture
def memory(tmp_path: Path) -> Any:
    """Return a memory that knows where the bicycle is from every kind of record, all of it indexed."""
    with edgemem.open(tmp_path / "home", worker=False) as opened:
        opened.store.add_fact("bicycle key", "bicycle key hangs behind the oven", scope="household")
        opened.store.set_preference("bicycle", "bicycle lamp always on", scope="household")
        opened.store.add_episode("bicycle", {"text": "bicycle was repaired"}, "ok", level="household")
        loop = AgentLoop(Listener(), hooks=opened.hooks(session_id="hall"))
        loop.run("The bicycle stands in the shed.", speaker="Ann")
        loop.run("Good night.", speaker="Ann")
        opened.store.flush()
        opened.notes.append("- oil the bicycle")
        opened.idle(seconds=20)
        yield opened


def found(memory: Memory, kind: Any, speaker: str | None) -> set[str]:
    """Return what of one kind somebody recalls of the bicycle."""
    return {
        item.kind
        for item in memory.recall("bicycle", speaker=speaker, k=20, kinds={kind})
        if "icycle" in item.text
    }


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_closed_since_it_was_indexed_is_not_recalled(memory: Memory, kind: str) -> None:
    """A row that became private behind the index's back is found there, and told to nobody but its owner."""
    assert found(memory, kind, "Ben") == {kind}
    assert found(memory, kind, None) == set()

    def close(tx: Any) -> None:
        # As an operator's own SQL does it, which tells the index nothing.
        tx.execute("drop trigger facts_only_closed")
        for table in ("facts", "preferences", "episodes", "turns"):
            tx.execute(f"update {table} set level = 2, owner = 'Ann'")

    memory.diagnostics.database.write(close)
    level: Any = "shared" if kind != "note" else "private"
    memory.diagnostics.settings.now = msgspec.structs.replace(
        memory.profile, notes=NotesSettings(level=level)
    )
    assert found(memory, kind, "Ben") == set()
    assert found(memory, kind, "Ann") == ({kind} if kind != "note" else set())
