"""Facts that do not hold any more: who may know until when they did, and what was known at the very tick of a statement."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import HandClock

import edgemem
from edgemem import Memory

DAY = 86_400.0


@pytest.fixture
def memory(tmp_path: Path, hand: HandClock) -> Iterator[Memory]:
    (tmp_path / "edgemem.toml").write_text('[llama]\nembedder = ""\n')
    with edgemem.open(tmp_path, worker=False, watch=False, clock=hand.clock) as memory:
        yield memory


@pytest.mark.parametrize("since", [-5 * DAY, -20 * DAY], ids=["another came", "taken back"])
@pytest.mark.parametrize("how", ["then", "then, as known", "ever"])
def test_an_end_that_is_private_is_not_told(memory: Memory, hand: HandClock, since: float, how: str) -> None:
    """That a value was followed by one of Bob's own is told to nobody else, nor on which day."""
    start = hand.wall
    memory.store.add_fact("safe.code", "1111", valid_from=start - 20 * DAY)
    known_at = memory.store.facts()[0].recorded_at
    hand.advance(60)
    memory.store.add_fact("safe.code", "7777", valid_from=start + since, level="private", owner="bob")

    def recalled(speaker: str) -> list[edgemem.Recalled]:
        options = {
            "then": {"valid_at": start - 10 * DAY},
            "then, as known": {"valid_at": start - 10 * DAY, "known_at": known_at},
            "ever": {"include_past": True},
        }[how]
        hits = memory.recall("What is the safe code?", speaker=speaker, kinds={"fact"}, **options)
        return [item for item in hits if item.value == "1111"]

    for speaker in ("ann", ""):
        for item in recalled(speaker):
            assert (item.text, item.valid_to, item.past) == ("safe code: 1111", None, False)
    his = recalled("bob")
    assert all(item.valid_to is not None and "until" in item.text for item in his)
    if how == "ever":
        assert his
        assert recalled("ann") == []  # that it is over is as private


def test_recall_knows_at_that_tick_too(memory: Memory, hand: HandClock) -> None:
    """What was said at a tick is recalled as known at it, and not a tick before."""
    memory.store.add_fact("lamp", "green")
    hand.advance(1)
    memory.store.add_fact("lamp", "red")
    ticks = "select recorded, id from facts where id = origin and value is not null"
    (green, green_id), (red, red_id) = memory.diagnostics.database.query(ticks)

    def known(tick: int) -> list[str | None]:
        hits = memory.recall("What colour is the lamp?", known_at=tick / 1e6, kinds={"fact"})
        return [item.value for item in hits]

    assert known(green - 1) == []
    assert known(green_id) == ["green"]
    assert known(red - 1) == ["green"]
    assert known(red_id) == ["red"]
