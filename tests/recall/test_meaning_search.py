"""Meaning search: which messages a question's vector brings among the candidates."""

from __future__ import annotations

import numpy as np
import pytest

from edgemem.recall.index.file import SCHEMA
from edgemem.recall.index.sources import TURN
from edgemem.recall.index.vectors import ExactVectors
from edgemem.recall.query import ParsedQuery
from edgemem.recall.search.search import find_near
from edgemem.recall.search.table import DocTable, Row
from edgemem.recall.search.view import Filter, View
from edgemem.recall.traits import SAYS_I
from edgemem.records import Reader
from edgemem.store.db.database import Database

ASKED = np.array([1, 0], np.float32)


@pytest.fixture
def database(tmp_path):
    """Return the file of an index."""
    with Database(tmp_path / "index.db", migrations=SCHEMA, durable=False) as opened:
        yield opened


def chosen(database, cosines, *, wanted, people=(), rows=None, reader=None, new=None):
    """Return the numbers of the candidates among messages that are so near, and how near each is taken to be."""
    vectors = ExactVectors(database, 2)
    made = [(n, np.array([cos, (1 - cos * cos) ** 0.5], np.float32)) for n, cos in enumerate(cosines, 1)]
    database.write(lambda tx: vectors.add(tx, made))
    columns = DocTable()
    for n in range(1, len(cosines) + 1):
        row = Row(n, TURN, n, 0, None, "ann", 1, n, 0.0, 0, None, None, 0, None, None, 3)
        columns.append(row._replace(**(rows or {}).get(n, {})))
    view = View(columns, Filter(reader))
    question = ParsedQuery(terms=("cup",), meaning="the cup", people=frozenset(people))
    find_near(view, vectors, ASKED, question, new=new or {}, most=wanted)
    docs = columns.rows["id"]
    return sorted(docs[np.flatnonzero(view.chosen)].tolist()), dict(
        zip(
            docs[np.flatnonzero(view.near)].tolist(),
            view.cosines[np.flatnonzero(view.near)].tolist(),
            strict=True,
        )
    )


def near_at(places, most=60):
    """Return cosines that are high at some places, counted from 1, the first one highest."""
    found = [0.1] * most
    for rank, place in enumerate(places):
        found[place - 1] = 0.9 - rank / 100
    return found


def test_what_stands_around_the_nearest_is_looked_at_too(database):
    """Who says what it will be about says the rest next, or after another one's word."""
    numbers, near = chosen(database, near_at(range(10, 18)), wanted=8)
    assert numbers == list(range(9, 20))
    assert near[10] == pytest.approx(0.9, abs=0.01)
    assert near[19] == pytest.approx(0.1, abs=0.01)


def test_what_stands_around_is_of_the_same_session(database):
    """What was said in another session has nothing to do with it."""
    rows = {n: {"session_id": 2} for n in range(18, 30)}
    numbers, _ = chosen(database, near_at(range(10, 18)), wanted=8, rows=rows)
    assert numbers == list(range(9, 18))


def test_only_the_very_nearest_have_their_neighbours_looked_at(database):
    """Eight of them: more would crowd out what a question costs."""
    numbers, _ = chosen(database, near_at([*range(10, 18), 30, 40]), wanted=10)
    assert numbers == [*range(9, 20), 30, 40]


def test_the_nearest_about_somebody(database):
    """Of what is about whom the question names there are twice as many, with their neighbours."""
    rows = {n: {"who": "bob", "marks": SAYS_I, "session_id": 2} for n in range(31, 61)}
    cosines = near_at([*range(1, 9), *range(40, 56)])
    numbers, near = chosen(database, cosines, wanted=8, people={"bob"}, rows=rows)
    assert numbers == [*range(1, 11), *range(39, 56)]
    assert near[55] == pytest.approx(0.9 - 23 / 100, abs=0.01)


def test_what_may_not_be_read_is_no_candidate(database):
    """A private text is none, though it is nearest of all or stands beside it."""
    rows = {n: {"level": 2, "owner": "bob"} for n in (10, 18)}
    numbers, near = chosen(database, near_at(range(10, 18)), wanted=9, rows=rows, reader=Reader("ann"))
    assert {10, 18}.isdisjoint(numbers)
    assert {11, 16, 17, 19} <= set(numbers)
    assert 10 not in near


def test_what_the_index_does_not_know_yet_is_as_near_as_its_vector_says(database):
    """What was said a moment ago is a candidate, with its neighbours, among all that the index knows."""
    numbers, near = chosen(database, [0.9, *near_at(range(10, 18))], wanted=8, new={30: 0.95, 40: 0.2})
    assert {29, 30, 31, 32} <= set(numbers)
    assert 40 not in numbers
    assert near[30] == pytest.approx(0.95, abs=0.01)
