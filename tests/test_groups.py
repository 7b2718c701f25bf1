"""Groups: enough of each, nothing read twice, and nothing that tells nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import edgemem
from edgemem.config import LlamaSettings
from edgemem.inspect.replay import Player
from edgemem.inspect.script import Line
from edgemem.memory import Memory
from edgemem.recall.rank.groups import Rows, first_of
from edgemem.recall.rank.rerank import name_of
from edgemem.records import Heard, Reader, Recalled

ANYBODY = Reader("alice")
REFS = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 6)), max_size=8)


def item(n: int) -> Recalled:
    return Recalled(kind="fact", id=str(n), text=f"fact {n}", score=0.5, why=())


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    profile = edgemem.Profile(llama=LlamaSettings(embedder=""))
    with edgemem.open(tmp_path / "home", profile=profile, worker=False) as opened:
        yield opened


@given(st.lists(REFS, max_size=5), st.sets(st.tuples(st.integers(1, 3), st.integers(1, 6))))
def test_each_row_is_read_once(asked: list[list[tuple[int, int]]], gone: set[tuple[int, int]]) -> None:
    """However often groups ask for a row, the truth is asked once; what is gone is asked for once too."""
    read: list[tuple[int, int]] = []

    def fetch(refs):
        read.extend(refs)
        return {ref: item(ref[1]) for ref in refs if ref not in gone}

    rows = Rows(fetch)
    for refs in asked:
        once = list(dict.fromkeys(refs))
        assert list(rows.of(once)) == [ref for ref in once if ref not in gone]
    assert sorted(read) == sorted({ref for refs in asked for ref in refs})


@given(st.lists(st.integers(1, 9), unique=True), st.integers(0, 6), st.sets(st.integers(1, 9)))
def test_what_is_known_takes_nobody_s_place(numbers: list[int], k: int, seen: set[int]) -> None:
    """The first k that are new come, and of the known ones those that stand before the last of them."""
    known = {name_of(item(n)) for n in seen}
    group = [item(n) for n in numbers]
    found = list(first_of(group, k, known))
    assert found == group[: len(found)]
    new = [one for one in found if name_of(one) not in known]
    assert len(new) == min(k, sum(name_of(one) not in known for one in group))
    if len(found) < len(group):
        assert not found or name_of(found[-1]) not in known


def test_kinds_apart_compete_only_among_themselves(memory: Memory) -> None:
    """Each group gets its own k, in the order of the groups, however good the others are."""
    player = Player(memory)
    for n in range(6):
        player.turn(Line(say=f"The tea is in tin {n}.", speaker="alice", session="kitchen"))
    memory.store.add_fact("tea.kind", "green")
    memory.store.add_fact("tea.price", "four euro")
    found = memory._parts.recall.recall(
        "Where is the tea?", reader=ANYBODY, k=2, apart=(("turn",), ("fact", "preference"))
    )
    assert [one.kind for one in found] == ["turn", "turn", "fact", "fact"]


def test_what_is_excluded_leaves_its_place_to_the_next(memory: Memory) -> None:
    """An excluded item is replaced by the next best one."""
    for n in range(3):
        memory.store.add_fact(f"tea.tin{n}", f"tea of sort {n}", heard=Heard("alice"))
    recall = memory._parts.recall.recall
    best, second = recall("Which tea is there?", reader=ANYBODY, k=2)
    assert recall("Which tea is there?", reader=ANYBODY, k=1, exclude=[name_of(best)])[0].id == second.id


def test_what_the_reader_knows_comes_besides_the_k(memory: Memory) -> None:
    """An item that is known is returned where it stands, and as many new ones as were asked for."""
    for n in range(4):
        memory.store.add_fact(f"tea.tin{n}", f"tea of sort {n}")
    recall = memory._parts.recall.recall
    best, *_ = recall("Which tea is there?", reader=ANYBODY, k=3)
    found = recall("Which tea is there?", reader=ANYBODY, k=2, known=[name_of(best)])
    assert found[0].id == best.id
    assert len(found) == 3


def test_what_is_too_poor_does_not_fill_up(memory: Memory) -> None:
    """Fewer than k come where no more reach the score."""
    memory.store.add_fact("tea.tin", "behind the flour")
    memory.store.add_fact("flour.tin", "nearly empty")
    recall = memory._parts.recall.recall
    good, poor = recall("Where is the tea tin?", reader=ANYBODY)
    least = (good.score + poor.score) / 2
    assert [one.id for one in recall("Where is the tea tin?", reader=ANYBODY, min_score=least)] == [good.id]
