"""Masks: what somebody may find is the same whether it was looked up before or not."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.index.sources import FACT, TURN
from edgemem.recall.search.table import _MOST, Columns, Masks, Row, make_filter
from edgemem.records import Reader

rows = st.builds(
    lambda number, kind, level, owner, past: Row(
        number, kind, number, level, owner, "ann", 1, number, 0.0, past, None, None, 0, None, None, 3
    ),
    st.integers(1, 9),
    st.sampled_from([FACT, TURN]),
    st.integers(0, 2),
    st.sampled_from([None, "ann", "bob", "zoe"]),
    st.integers(0, 1),
)
FILTERS = [
    make_filter(None, past=True),
    make_filter(Reader()),
    make_filter(Reader("carl")),
    make_filter(Reader("ann"), past=True),
    make_filter(Reader("ann")),
    make_filter(Reader("ann"), kinds={"turn"}),
    make_filter(Reader("ann"), kinds={"fact", "note"}, session_id=1, turns={1, 2, 3}),
    make_filter(Reader("bob")),
]
"""As many as are kept, so that each is asked for again."""
steps = st.lists(
    st.one_of(
        rows,
        st.integers(1, 9).map(lambda number: ("drop", number)),
        st.just(("passing", 0)),
        st.just(("ask", 0)),
    ),
    max_size=40,
)


def after(taken, *, asking):
    """Return columns after some steps."""
    columns = Columns()
    for n, step in enumerate(taken):
        if isinstance(step, Row):
            columns.append(step, passing=n % 3 == 0)
        elif step[0] == "drop":
            columns.drop(step[1])
        elif step[0] == "passing":
            columns.drop_passing()
        elif asking:
            for only in FILTERS:
                columns.readable(only)
    return columns


@given(steps)
def test_questions_in_between_change_no_answer(taken):
    """Rows come, go, move and are looked at by anybody: who asks then finds what one finds who is the first to ask."""
    asked = after(taken, asking=True)
    for only in FILTERS:
        assert asked.readable(only).tolist() == after(taken, asking=False).readable(only).tolist()


def test_what_was_looked_at_stays_so_while_a_memory_grows():
    """Room is made for more slots without a second look at those before."""
    columns, only = Columns(), make_filter(Reader("ann"))
    for number in range(1, 2001):
        level, owner = (2, "bob") if number % 7 == 0 else (0, None)
        columns.append(
            Row(number, TURN, number, level, owner, "ann", 1, number, 0.0, 0, None, None, 0, None, None, 3)
        )
        if number % 100 == 0:
            columns.drop(number - 50)
            columns.readable(only)
    gone = {number - 50 for number in range(100, 2001, 100)}
    wanted = [number % 7 != 0 and number not in gone for number in range(1, 2001)]
    assert columns.readable(only).tolist() == [*wanted, False]


def test_what_is_returned_by_columns_may_be_written_to():
    """A view narrows what it sees down; the next one sees all again."""
    columns = Columns()
    columns.append(Row(1, TURN, 1, 0, None, "ann", 1, 1, 0.0, 0, None, None, 0, None, None, 3))
    only = make_filter(None)
    columns.readable(only)[:] = False
    assert columns.readable(only).tolist() == [True, False]


def test_few_masks_are_kept():
    """A robot that meets many people does not keep a mask for each."""
    masks = Masks()
    there = {name: np.ones(4, np.int64) for name in ("id", "kind", "level", "owner")}
    there["past"] = np.zeros(4, bool)
    for owner in range(3 * _MOST):
        masks.of(make_filter(Reader("ann")), there, 4, owner)
    assert len(masks._known) == _MOST
