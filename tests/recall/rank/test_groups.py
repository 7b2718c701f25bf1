"""Groups: enough of each, nothing read twice, and nothing that tells nothing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import edgemem
from edgemem.config import LlamaSettings
from edgemem.inspect.replay import Line, Player
from edgemem.memory import Memory
from edgemem.recall.rank.selection import name_of
from edgemem.records import Heard, Reader, Recalled

ANYBODY = Reader("alice")


def item(n: int) -> Recalled:
    return Recalled(kind="fact", id=str(n), text=f"fact {n}", score=0.5, why=())


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    profile = edgemem.Profile(llama=LlamaSettings(embedder=""))
    with edgemem.open(tmp_path / "home", profile=profile, worker=False) as opened:
        yield opened


def test_kinds_apart_compete_only_among_themselves(memory: Memory) -> None:
    """Each group gets its own k, in the order of the groups, however good the others are."""
    player = Player(memory)
    for n in range(6):
        player.turn(Line(say=f"The tea is in tin {n}.", speaker="alice", session="kitchen"))
    memory.store.add_fact("tea.kind", "green")
    memory.store.add_fact("tea.price", "four euro")
    groups = (("turn",), ("fact", "preference"))
    items = memory.diagnostics.search.recall("Where is the tea?", reader=ANYBODY, k=2, apart=groups)
    assert [item.kind for item in items] == ["turn", "turn", "fact", "fact"]


def test_what_is_excluded_known_or_too_poor(memory: Memory) -> None:
    """The next best replaces what is excluded; what is known comes besides the k; what is too poor does not fill up."""
    for n in range(4):
        memory.store.add_fact(f"tea.tin{n}", f"tea of sort {n}", heard=Heard("alice"))
    memory.store.add_fact("flour.tin", "nearly empty")
    recall = partial(memory.diagnostics.search.recall, "Which tea is there?", reader=ANYBODY)
    best, second, *_ = recall(k=3)
    assert recall(k=1, exclude=[name_of(best)])[0].id == second.id
    items = recall(k=2, known=[name_of(best)])
    assert (items[0].id, len(items)) == (best.id, 3)
    assert best.id in [item.id for item in recall(min_score=best.score)]
    assert recall(min_score=best.score + 1e-6) == []
