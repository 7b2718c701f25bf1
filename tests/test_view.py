"""View: a question sees what its reader may read of the slots that were there when it began, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from edgemem.recall.index.sources import TURN
from edgemem.recall.search.table import BESIDE, Columns, Row, make_filter
from edgemem.recall.search.view import View
from edgemem.records import Reader


def row(number, **more):
    """Return a message of ann that anybody may read."""
    plain = Row(number, TURN, number, 0, None, "ann", 1, number, 0.0, 0, None, None, 0, None, None, 3)
    return plain._replace(**more)


def filled(*rows):
    """Return columns with some rows."""
    columns = Columns()
    for each in rows:
        columns.append(each)
    return columns


def seen_by(reader, *rows, read=None):
    """Return what somebody sees of some rows."""
    return View(filled(*rows), make_filter(reader), read)


def test_what_may_not_be_read_stands_beside_nothing():
    """A private message of somebody else is no neighbour, and is not among what stands around."""
    rows = (row(1), row(2, level=2, owner="bob"), row(3))
    slots = np.arange(3)
    ann, bob = seen_by(Reader("ann"), *rows), seen_by(Reader("bob"), *rows)
    assert ann.beside(slots, 1).tolist() == [-1, 2, -1]
    assert bob.beside(slots, 1).tolist() == [1, 2, -1]
    assert ann.around(np.array([0]), (1,)).tolist() == [0]
    assert bob.around(np.array([0]), (1,)).tolist() == [0, 1]
    assert ann.seen(slots).tolist() == ann.seen(np.arange(9)).tolist() == [0, 2]
    assert ann.hidden.tolist() == [1]


def test_what_came_after_the_question_is_not_seen():
    """A message that another thread has read in since is neither found nor beside one."""
    view = seen_by(None, row(1), row(2))
    view.columns.append(row(3))
    assert view.beside(np.arange(2), 1).tolist() == [1, -1]
    assert view.take_up([2, 3]).tolist() == [1, -1]
    assert view.seen(np.arange(3)).tolist() == [0, 1]


def test_what_was_taken_out_is_not_seen_any_more():
    """Once a question follows, a message that was erased meanwhile may not be found."""
    view = seen_by(None, row(1), row(2))
    view.columns.drop(2)
    view.follow()
    assert view.seen(np.arange(2)).tolist() == [0]
    assert view.take_up([1, 2]).tolist() == [0, -1]


def test_docs_that_memory_does_not_hold_are_read_once():
    """They are read where rows can be read, and what was known of the others stays."""
    asked = []

    def read(numbers):
        asked.append(list(numbers))
        return [row(number, session_id=2) for number in numbers if number < 9]

    view = seen_by(None, row(1), read=read)
    view.words[0], view.chosen[0] = 0.5, True
    assert view.take_up([4, 1, 9]).tolist() == [1, 0, -1]
    assert view.take_up([4]).tolist() == [1]
    assert asked == [[4, 9]]
    assert view.words.tolist() == [0.5, 0, 0]
    assert view.chosen.tolist() == [True, False, False]
    assert len(view.session) == view.columns.sessions
    assert seen_by(None, row(1)).take_up([4]).tolist() == [-1]


@pytest.mark.parametrize("step", BESIDE)
def test_no_slot_is_beside_none(step):
    """Of no slots, there are no neighbours."""
    assert seen_by(None).beside(np.zeros(0, np.intp), step).tolist() == []
