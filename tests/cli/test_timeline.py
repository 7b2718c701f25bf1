"""The drawing of one fact in two times: narrow enough, complete, and never telling anything else than the store."""

from __future__ import annotations

import math
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import HandClock
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from edgemem.cli.printing import WIDTH
from edgemem.cli.timeline import ASCII, UNICODE, Belief, axis_of, beliefs_of, believed, draw, newest, versions
from edgemem.store.memory_store import SQLiteMemoryStore

Spoken = list[tuple[str | None, float | None, float | None]]
DAY = 86400.0
START = 1_770_000_000.0

TIMES = st.one_of(st.none(), st.integers(-400, 400).map(lambda days: START + days * DAY))
VALUES = st.one_of(
    st.none(), st.text(min_size=1, max_size=30), st.sampled_from(["日本語の値段", "ok", "e\u0301"])
)
SAID = st.lists(st.tuples(VALUES, TIMES, TIMES), min_size=1, max_size=12)


def tell(store: SQLiteMemoryStore, hand: HandClock, spoken: Spoken) -> None:
    """Tell a store statements, half an hour apart; None retracts."""
    for value, begin, end in spoken:
        hand.advance(1800.0)
        if value is None:
            store.retract_fact("k", valid_from=begin)
        elif value.strip() and (end is None or end > (hand.wall if begin is None else begin)):
            store.add_fact("k", value, valid_from=begin, valid_to=end)


def chain(n: int, *, ends: bool = False) -> list[Belief]:
    """Return n values that follow one another day by day, each learnt when it began."""
    out = [Belief(0, None, -math.inf, START, START, math.inf)]
    for i in range(n):
        begin, end = START + i * DAY, START + (i + 1) * DAY
        last = i == n - 1
        out.append(Belief(i + 1, f"value {i}", begin, math.inf, begin, math.inf if last else end))
        if not last:
            out.append(Belief(i + 1, f"value {i}", begin, end, end, math.inf))
    return out


@settings(max_examples=25, deadline=None)
@given(spoken=SAID, ascii_only=st.booleans())
def test_the_drawing_is_narrow_complete_and_true(spoken: Spoken, ascii_only: bool) -> None:
    """No line is wider than 80 cells, each version has one line, and every cell says what `facts_as_of` says."""
    hand = HandClock(START)
    with (
        tempfile.TemporaryDirectory() as folder,
        SQLiteMemoryStore(Path(folder) / "m.db", clock=hand.clock) as store,
    ):
        tell(store, hand, spoken)
        beliefs = beliefs_of(store.database, "k", "global")
        now = hand.clock.now()
        lines = draw(beliefs, now=now, glyphs=ASCII if ascii_only else UNICODE)
        assert all(cell_len(line) <= WIDTH for line in lines)
        numbered = versions(beliefs)
        assert sum(belief.value is not None for belief in numbered.values()) == len(store.fact_history("k"))
        assert [line[:4].strip() for line in lines[2:]] == [str(number) for number in numbered]
        for new in numbered.values():
            for stretch in pairwise(axis_of(numbered.values(), now)):
                drawn = [value for _, value in believed(beliefs, new.learnt, *stretch) if value is not None]
                for at in sampled(*stretch):
                    assert [fact.value for fact in store.facts_as_of(at, known_at=new.learnt)] == drawn


def sampled(begin: float, end: float) -> list[float]:
    """Return moments of a stretch: its beginning, which belongs to it, and one between."""
    if not math.isfinite(begin):
        return [end - 1.0]
    return [begin, (begin + end) / 2 if math.isfinite(end) else begin + 1e6]


@pytest.mark.parametrize("n", [1, 2, 14, 200])
def test_of_many_versions_the_newest_are_drawn(n: int) -> None:
    """A sensor's fact has thousands of versions; the newest keep their numbers."""
    lines = draw(chain(n), now=START + n * DAY)
    numbered = [line for line in lines if line[:4].strip().isdigit()]
    assert [int(line[:4]) for line in numbered] == list(range(max(0, n - newest(WIDTH)) + 1, n + 1))
    assert all(UNICODE[0] in line for line in numbered)
    assert all(cell_len(line) <= WIDTH for line in lines)


def test_values_cannot_steer_the_terminal() -> None:
    """Control characters of a value stay out of the picture."""
    beliefs = [Belief(1, "\x1b[31mred\u202e\nnext", START, math.inf, START, math.inf)]
    lines = draw(beliefs, now=START + DAY)
    assert not any(c in line for line in lines for c in "\x1b\u202e\n")


def test_what_held_before_is_shaded_and_what_ended_is_crossed() -> None:
    """A correction that takes a value away shows the rest of it, and where there is none any more."""
    beliefs = [
        Belief(1, "tulip", START, math.inf, START, START + DAY),
        Belief(1, "tulip", START, START + DAY, START + DAY, math.inf),
        Belief(2, None, START + DAY, math.inf, START + DAY, math.inf),
    ]
    second = next(line for line in draw(beliefs, now=START + 2 * DAY) if line.startswith("   2"))
    assert "░" in second
    assert "×" in second
    assert "█" not in second
