"""Times asked: what speaks of a time, and what was said then."""

from __future__ import annotations

import numpy as np
import pytest

from edgemem.recall.columns import Columns, Row
from edgemem.recall.index.sources import EPISODE, TURN
from edgemem.recall.question import Question
from edgemem.recall.times_asked import on_dates, on_days, said_then, spoken_of

DAY = 86400.0


def asking(*times):
    """Return a question of some times."""
    return Question(terms=("cup",), meaning="the cup", people=frozenset(), times=times)


def filled(*rows):
    """Return columns with messages of one session, each given by what differs."""
    columns = Columns()
    for number, more in enumerate(rows, 1):
        plain = Row(number, TURN, number, 0, None, "ann", 1, 1, 0.0, 0, None, None, 0, None, None, 3)
        columns.append(plain._replace(**more))
    return columns


def spans(*times):
    """Return times as the file has them."""
    return {"times": "[" + ",".join(f"[{begin},{end},{sure}]" for begin, end, sure in times) + "]"}


def test_texts_on_the_dates_of_a_question_come_best_first():
    """Slots of texts that speak of its times; none where it speaks of none, or nothing does."""
    columns = filled(
        spans((5 * DAY, 6 * DAY, 0.5)), {}, spans((5 * DAY, 6 * DAY, 1)), spans((8 * DAY, 9 * DAY, 1))
    )
    asked = asking((5 * DAY, 6 * DAY, 1.0))
    assert on_dates(columns, asked).tolist() == [2, 0]
    assert spoken_of(columns, asked).tolist() == [0.5, 0, 1, 0, 0]
    columns.drop(3)
    assert on_dates(columns, asked).tolist() == [0]
    assert on_dates(columns, asking()).tolist() == []
    assert on_dates(Columns(), asked).tolist() == []
    assert spoken_of(columns, asking()).tolist() == [0] * 5
    assert spoken_of(Columns(), asked).tolist() == [0]


def test_what_happened_is_told_the_next_day_too():
    """What was said at a time of the question counts, and a little less what was said within a day after it."""
    at = np.array([9.99, 10, 11.5, 12, 30]) * DAY
    day = (10 * DAY, 11 * DAY, 0.9)
    assert said_then(at, asking(day)) == pytest.approx([0, 0.9, 0.81, 0, 0])
    assert said_then(at, asking(day, (9 * DAY, 40 * DAY, 0.3))) == pytest.approx([0.3, 0.9, 0.81, 0.3, 0.3])
    assert said_then(at, asking()).tolist() == [0] * 5


def test_messages_of_a_day_are_found_whatever_they_say():
    """What was said on a day that is likely meant; no other kinds, and not what was said in a whole month."""
    columns = filled({"at": 9 * DAY}, {"at": 10 * DAY}, {"at": 10.5 * DAY, "kind": EPISODE}, {"at": 11 * DAY})
    day = (10 * DAY, 11 * DAY)
    assert on_days(columns, asking((*day, 1.0))).tolist() == [1]
    assert on_days(columns, asking((*day, 0.3))).tolist() == []
    assert on_days(columns, asking((9 * DAY, 12 * DAY, 0.7))).tolist() == [0, 1, 3]
    assert on_days(columns, asking((0, 30 * DAY, 1.0))).tolist() == []
    assert on_days(columns, asking((0, 30 * DAY, 1.0), (*day, 0.7))).tolist() == [1]
    assert on_days(columns, asking()).tolist() == []
    assert on_days(Columns(), asking((*day, 1.0))).tolist() == []
