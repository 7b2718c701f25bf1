"""Columns: what is known of each doc in memory is what the file says, and nothing of what is gone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.index.docs import add_docs
from edgemem.recall.index.file import SCHEMA
from edgemem.recall.index.sources import EPISODE, FACT, KINDS, NOTE, TURN, Doc
from edgemem.recall.index.state import FIRST_OTHER, State
from edgemem.recall.search.postings import ResidentPostings
from edgemem.recall.search.table import BESIDE, NOBODY, Columns, Row, make_filter, sound_row
from edgemem.records import Reader
from edgemem.store.db.database import Database

ALL = make_filter(None, past=True)

READERS = (
    None,
    Reader("ann"),
    Reader("bob", frozenset({"bob"})),
    Reader("ann", frozenset({"ann", "bob"})),
    Reader("ann", frozenset({""})),
    Reader("zoe"),
    Reader(None),
    Reader(""),
)


def row(number, **more):
    """Return the columns of a message that anybody may read."""
    kind = TURN if number < FIRST_OTHER else FACT
    plain = Row(number, kind, number, 0, None, "ann", 1, 1, 0.0, 0, None, None, 0, None, None, 3)
    return plain._replace(**more)


def said(*times):
    """Return times as the file has them."""
    return "[" + ",".join(f"[{begin},{end},{sure}]" for begin, end, sure in times) + "]"


def filled(*rows):
    """Return columns with some rows."""
    columns = Columns()
    for each in rows:
        columns.append(each)
    return columns


names = st.sampled_from([None, "ann", "bob", "eva"])
rows = st.builds(
    row,
    st.integers(1, 9),
    level=st.integers(0, 2),
    owner=names,
    who=names,
    session_id=st.integers(1, 4),
    turn=st.integers(1, 3),
    at=st.floats(0, 2e9),
    past=st.integers(0, 1),
    marks=st.integers(0, 31),
    called=st.sampled_from([None, "ann", "ann bob"]),
    times=st.sampled_from([None, said((1, 2, 0.5)), said((3, 4, 1), (5, 6, 0.7))]),
    subject=st.sampled_from([None, "door"]),
    length=st.integers(0, 40),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), rows, st.booleans()),
        st.tuples(st.just("drop"), st.integers(1, 9), st.just(False)),
        st.tuples(st.just("drop passing"), st.just(0), st.just(False)),
    ),
    max_size=40,
)


@given(steps)
def test_columns_hold_what_is_there_and_nothing_else(taken):
    """However rows come, are replaced and go, each slot says what the newest row of its number said, and sums agree."""
    columns = Columns()
    there: dict[int, Row] = {}
    passing: set[int] = set()
    for what, which, in_passing in taken:
        if what == "append":
            columns.append(which, passing=in_passing)
            there[which.id] = which
            passing = passing | {which.id} if in_passing else passing - {which.id}
        elif what == "drop":
            columns.drop(which)
            there.pop(which, None)
            passing.discard(which)
        else:
            columns.drop_passing()
            there = {number: each for number, each in there.items() if number not in passing}
            passing = set()
    slots = columns.slots(range(12))
    assert slots.keys() == there.keys()
    assert len(columns) == len(there)
    sessions: dict[int, int] = {}
    for number, slot in slots.items():
        own, found = there[number], {name: column[slot] for name, column in columns.rows.items()}
        for name in ("id", "ref", "level", "at", "past", "marks", "length", "kind"):
            assert found[name] == getattr(own, name)
        assert columns.facts.get(slot, (None, None)) == (own.subject, own.relation)
        assert [columns.names[found[name]] for name in ("owner", "who")] == [own.owner, own.who]
        assert columns.callings[found["called"]] == frozenset((own.called or "").split())
        for step in BESIDE:
            beside = there.get(number + step)
            near = beside is not None and beside.session_id == own.session_id and beside.kind == TURN
            assert columns.beside(np.array([slot]), step).tolist() == [slots[number + step] if near else -1]
        code = int(columns.rows["session"][slot])
        assert code not in sessions or sessions[code] == own.session_id
        sessions[code] = own.session_id
        words = sum(each.length for each in there.values() if each.session_id == own.session_id)
        assert columns.words_in(ALL)[code] == words
        of = columns.spans()[columns.spans()[:, 0] == slot]
        assert [tuple(span[1:]) for span in of] == own.spans
        assert found["dated"] == bool(own.spans)
    assert len(set(sessions.values())) == len(sessions)
    assert columns.words_in(ALL).sum() == sum(each.length for each in there.values())
    gone = columns.spans()[:, 0] < 0
    assert (~gone).sum() == sum(len(each.spans) for each in there.values())
    assert not columns.spans()[gone, 1:].any(), "nothing is left of when a text that is gone speaks of"
    empty = np.setdiff1d(np.arange(columns.n), list(slots.values()))
    assert not any(column[empty].any() for column in columns.rows.values()), "an empty slot says nothing"
    assert all((columns.beside(empty, step) == -1).all() for step in BESIDE)
    assert not set(empty.tolist()) & columns.facts.keys()


@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(KINDS)), rows, st.one_of(st.none(), st.integers(1, 3))),
        max_size=12,
    ),
    st.sampled_from(READERS),
    st.one_of(st.none(), st.frozensets(st.sampled_from(sorted(KINDS.values())))),
    st.integers(1, 3),
    st.frozensets(st.integers(1, 3)),
    st.booleans(),
    st.none() | st.integers(0, 12),
    st.none() | st.frozensets(st.integers(0, 12)).map(sorted),
)
def test_who_may_read_what_is_what_sql_says(
    tmp_path_factory, taken, reader, kinds, session, turns, past, known_at, held
):
    """For whomever, whatever and whenever it is asked, memory allows the docs that the condition in SQL does."""
    docs = [
        Doc(
            *(kind, n, "cup", own.level, own.owner, own.who, in_session, own.turn),
            at=(len(taken) - n) / 1e6,
            past=bool(own.past),
        )
        for n, (kind, own, in_session) in enumerate(taken)
    ]
    only = make_filter(
        reader, kinds=kinds, session_id=session, turns=turns, past=past, known_at=known_at, held=held
    )
    with Database(
        tmp_path_factory.mktemp("columns") / "index.db", migrations=SCHEMA, durable=False
    ) as database:
        database.write(lambda tx: add_docs(tx, docs))
        known = dict(database.query("select key, value from meta"))
        memory = ResidentPostings(database)
        memory.warm(State(last_message=known["last_message"], last_other=known["last_other"]))
        columns = memory.columns
        asked = database.query(f"select d.id from docs d where {only.where}", only.values)
        slots = np.arange(columns.n)
        may = columns.readable(only)[:-1]
        assert len(may) == columns.n
        assert not columns.readable(only)[-1], "no slot is none that may be read"
        assert sorted(columns.rows["id"][slots[may]].tolist()) == sorted(number for (number,) in asked)
        assert may.tolist() == [only.allows(docs[int(ref)]) for ref in columns.rows["ref"][: columns.n]]


@given(steps, st.sampled_from(READERS))
def test_how_much_may_be_read_is_counted(taken, reader):
    """The number of texts, and of their words, is that of what this reader may read, whatever came and went."""
    columns = Columns()
    for what, which, passing in taken:
        if what == "append":
            columns.append(which, passing=passing)
        elif what == "drop":
            columns.drop(which)
        else:
            columns.drop_passing()
    every = np.arange(columns.n)
    may = columns.readable(make_filter(reader, past=True))[:-1]
    assert columns.read_by(every, make_filter(reader, kinds={"note"})).tolist() == may.tolist()
    only = make_filter(reader, kinds={"note"}, session_id=1, turns={2})
    assert columns.size(only) == (may.sum(), columns.rows["length"][: columns.n][may].sum())


def test_an_empty_slot_may_never_be_found():
    """Not even by the operator, who reads everything."""
    columns = filled(row(1), row(2))
    columns.drop(1)
    assert columns.readable(make_filter(None, past=True))[:2].tolist() == [False, True]


def test_nobody_is_not_who_owns_nothing():
    """Private text without an owner is nobody's, also not of a voice without a name."""
    columns = filled(row(1, level=2, owner=None), row(2, level=2, owner="ann"))
    for reader in (Reader(None), Reader(""), Reader("zoe")):
        assert not columns.readable(make_filter(reader)).any()


def test_neighbours_are_of_the_same_session():
    """The message after another in its session is beside it; that of another session, an empty slot and a fact are not."""
    columns = filled(
        row(1, session_id=5),
        row(2, session_id=5),
        row(3, session_id=6),
        row(4, session_id=6),
        row(FIRST_OTHER, session_id=None),
        row(FIRST_OTHER + 1, session_id=None),
        row(FIRST_OTHER - 1, session_id=None),
    )
    asked = np.arange(7)
    assert columns.beside(asked, 1).tolist() == [1, -1, 3, -1, -1, -1, -1]
    assert columns.beside(asked, -1).tolist() == [-1, 0, -1, 2, -1, -1, -1]
    assert columns.beside(asked, -2).tolist() == [-1] * 7
    columns.drop(2)
    assert columns.beside(np.array([0, 1, 2]), 1).tolist() == [-1, -1, 3]
    assert columns.beside(np.array([], np.int64), 1).tolist() == []


def test_a_replaced_neighbour_is_still_beside():
    """A message that moved to another slot is found there."""
    columns = filled(row(1), row(2), row(3))
    columns.append(row(2, length=9))
    assert columns.beside(np.array([0, 2]), 1).tolist() == [3, -1]
    assert columns.beside(np.array([0, 2]), -1).tolist() == [-1, 3]


def test_what_the_index_takes_in_is_passing_no_more():
    """A row that comes again for good outlives those that were only passing."""
    columns = Columns()
    for number in (1, 2, 3):
        columns.append(row(number), passing=True)
    columns.append(row(2, length=9))
    columns.drop_passing()
    assert list(columns.slots([1, 2, 3])) == [2]
    columns.append(row(2), passing=True)
    columns.drop_passing()
    assert len(columns) == 0


def test_thousands_of_rows_stay_where_they_are():
    """Growing moves no row, and keeps what each said."""
    columns = filled(*(row(n, at=float(n), session_id=n // 10) for n in range(1, 2001)))
    assert columns.slots([1, 300, 2000]) == {1: 0, 300: 299, 2000: 1999}
    assert columns.rows["at"][:2000].tolist() == list(map(float, range(1, 2001)))
    assert columns.sessions == len(columns.words_in(ALL)) == 202
    assert columns.words_in(ALL)[1:].tolist() == [27, *[30] * 199, 3]


def test_turns_may_have_any_number():
    """Whoever numbers turns by milliseconds is understood."""
    columns = filled(row(1, turn=1_770_000_000_000))
    assert columns.rows["turn"][0] == 1_770_000_000_000
    only = make_filter(None, session_id=1, turns={1_770_000_000_000})
    assert not columns.readable(only).any()


def test_names_have_codes():
    """A name that nobody here has, has none, and nobody's is 0."""
    columns = filled(row(1, who="ann", owner="bob"))
    assert columns.code("ann") != columns.code("bob")
    assert columns.code("zoe") is None
    assert columns.code(None) == NOBODY
    assert columns.words_in(ALL).tolist() == [0, 3]


@pytest.mark.parametrize("kind", [FACT, EPISODE, NOTE])
def test_facts_know_what_they_are_about(kind):
    """Subject and relation stand beside the slot until it is emptied."""
    columns = filled(row(FIRST_OTHER, kind=kind, session_id=None, turn=None, subject="door", relation="code"))
    assert columns.facts == {0: ("door", "code")}
    assert columns.rows["kind"][0] == kind
    assert columns.rows["turn"][0] == -1
    columns.drop(FIRST_OTHER)
    assert columns.facts == {}


@pytest.mark.parametrize(
    "damage",
    [
        {"id": "x"}, {"kind": 77}, {"kind": None}, {"ref": b"1"}, {"level": 3}, {"level": -1}, {"owner": 1}, {"who": b"ann"},
        {"session_id": "s"}, {"at": None}, {"marks": "x"}, {"called": 3}, {"times": "[[1]]"}, {"times": "{"}, {"length": None},
    ],
)  # fmt: skip
def test_a_damaged_row_is_none(damage):
    """Whatever stands in a damaged file, it is told at once, and not by a fault later on."""
    assert sound_row(tuple(row(1))) == row(1)
    with pytest.raises(ValueError, match=r"."):
        sound_row(tuple(row(1)._replace(**damage)))
