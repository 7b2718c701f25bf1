"""The drawing of one fact in two times: narrow enough, complete, and never telling anything else than the store."""

from __future__ import annotations

import math
import re
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import HandClock
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from edgemem.cli.timeline import UNICODE, WIDTH, Belief, beliefs_of, draw, laid_out, legend, versions
from edgemem.store.memory_store import SQLiteMemoryStore

DAY = 86400.0
START = 1_770_000_000.0

TIMES = st.one_of(st.none(), st.integers(-400, 400).map(lambda days: START + days * DAY))
VALUES = st.one_of(
    st.none(), st.text(min_size=1, max_size=30), st.sampled_from(["日本語の値段", "ok", "e\u0301"])
)
SAID = st.lists(st.tuples(VALUES, TIMES, TIMES), min_size=1, max_size=12)


def tell(
    store: SQLiteMemoryStore, hand: HandClock, spoken: list[tuple[str | None, float | None, float | None]]
) -> None:
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
def test_the_drawing_is_narrow_complete_and_true(
    spoken: list[tuple[str | None, float | None, float | None]], ascii_only: bool
) -> None:
    """No line is wider than 80 cells, each version has one line, and every cell says what `facts_as_of` says."""
    hand = HandClock(START)
    with (
        tempfile.TemporaryDirectory() as folder,
        SQLiteMemoryStore(Path(folder) / "m.db", clock=hand.clock) as store,
    ):
        tell(store, hand, spoken)
        beliefs = beliefs_of(store.database, "k", "global")
        now = hand.clock.now()
        lines = draw(beliefs, now=now, ascii_only=ascii_only)
        assert all(cell_len(line) <= WIDTH for line in lines)
        edges, rows = laid_out(beliefs, now=now)
        assert [row.number for row in rows] == list(range(1, len(versions(beliefs)) + 1))
        assert sum(row.belief.value is not None for row in rows) == len(store.fact_history("k"))
        assert sum(line.startswith(f"{row.number:>4}  ") for row in rows for line in lines) == len(rows)
        values = [None, *(belief.value for belief in versions(beliefs))]
        for row in rows:
            assert any(new for _, new in row.cells)
            for (number, _), stretch in zip(row.cells, pairwise(edges), strict=True):
                for at in sampled(*stretch):
                    beside = store.facts_as_of(at, known_at=row.belief.learnt)
                    assert [fact.value for fact in beside] == [values[number]] * bool(number)


def sampled(begin: float, end: float) -> list[float]:
    """Return moments of a stretch: its beginning, which belongs to it, and one between."""
    if not math.isfinite(begin):
        return [end - 1.0]
    return [begin, (begin + end) / 2 if math.isfinite(end) else begin + 1e6]


def test_two_changes_on_one_day_are_labelled_apart() -> None:
    """A day that stands twice over the axis would say nothing; there the time of day stands."""
    beliefs = [
        Belief(1, "tulip", START, math.inf, START, START + 3600),
        Belief(1, "tulip", START, START + 3600, START + 3600, math.inf),
        Belief(2, "rose", START + 3600, math.inf, START + 3600, math.inf),
    ]
    labels = draw(beliefs, now=START + 5 * DAY)[0].removeprefix("true in the world:").split("  ")
    times = [label.strip() for label in labels if label.strip()]
    assert len(set(times)) == len(times) == 3
    assert all(":" in label for label in times[:2])


@pytest.mark.parametrize(("n", "drawn"), [(1, 1), (2, 2), (30, 30), (200, 30)])
def test_of_many_versions_the_newest_are_drawn(n: int, drawn: int) -> None:
    """A sensor's fact has thousands of versions; the newest keep their numbers, and older ones are one shade."""
    lines = draw(chain(n), now=START + n * DAY)
    numbered = [line for line in lines if line[:4].strip().isdigit()]
    assert [int(line[:4]) for line in numbered] == list(range(n - drawn + 1, n + 1))
    assert all(UNICODE.new in line for line in numbered)
    assert all(cell_len(line) <= WIDTH for line in lines)
    assert ("several older ones" in legend(lines)) == (UNICODE.several in "".join(lines)) == (n > drawn)


def test_each_version_has_a_colour_of_its_own() -> None:
    """What is drawn of one version gets its number, on its own line and on later ones; colours move nothing."""
    beliefs = chain(3)
    painted = draw(beliefs, now=START + 4 * DAY, paint=lambda drawn, number: f"<{number}>{drawn}</>")
    third = next(line for line in painted if line.startswith("   3"))
    assert third.index("<1>") < third.index("<2>") < third.index("<3>")
    plain_lines = draw(beliefs, now=START + 4 * DAY)
    assert [re.sub(r"</?\d?>", "", line) for line in painted] == plain_lines


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
    assert UNICODE.still in second
    assert UNICODE.ended in second
    assert UNICODE.new not in second
