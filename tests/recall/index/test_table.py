"""The table of docs and a question's view of it: what the newest row of each number says, and nothing of what is gone or hidden."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.index.docs import add_rows, read_row
from edgemem.recall.index.file import FIRST_OTHER, SCHEMA, State
from edgemem.recall.index.sources import FACT, KINDS, TURN, Doc
from edgemem.recall.index.table import NOBODY, DocTable, ResidentPostings, Row
from edgemem.recall.index.view import Filter, QueryView
from edgemem.records import Reader
from edgemem.store.db.database import Database
from edgemem.store.rights import LEVELS, readable

READERS = (
    None, Reader("ann"), Reader("bob", frozenset({"bob"})), Reader("ann", frozenset({"ann", "bob"})),
    Reader("ann", frozenset({""})), Reader("zoe"), Reader(None), Reader(""),
)  # fmt: skip
WORDS = ("cup", "kettle", "pot")
names = st.sampled_from([None, "ann", "bob", "eva"])
texts = st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join)


def row(number, **more):
    kind = TURN if number < FIRST_OTHER else FACT
    plain = Row(
        number, kind, number, 0, None, "ann", 1, number, 0.0, 0, None, None, 0, None, None, None, "a b c", 0
    )
    return plain._replace(**more)


def filled(*rows):
    table = DocTable()
    for each in rows:
        table.append(each)
    return table


def seen_by(reader, *rows):
    return QueryView(filled(*rows), Filter(reader))


def may(table, only):
    return QueryView(table, only).findable.tolist()


rows = st.builds(
    row, st.integers(1, 9) | st.just(FIRST_OTHER), level=st.integers(0, 2), owner=names, who=names,
    session_id=st.integers(1, 4), turn=st.integers(1, 3), at=st.floats(0, 2e9), past=st.integers(0, 1),
    flags=st.integers(0, 31), called=st.sampled_from([None, "ann", "ann bob"]),
    times=st.sampled_from([None, "[[1,2,0.5,0]]", "[[3,4,1,0],[5,6,0.7,604800]]"]),
    subject=st.sampled_from([None, "door"]),
)  # fmt: skip
steps = st.lists(
    st.tuples(rows, texts, st.booleans()) | st.integers(1, 9) | st.just("drop unindexed"), max_size=40
)


def after(taken):
    """Return a table after some steps, and the rows that are in it with their words."""
    table, there, unindexed = DocTable(), {}, set()
    for step in taken:
        if isinstance(step, tuple):
            new, text, in_unindexed = step
            table.append(new._replace(terms=text), unindexed=in_unindexed)
            there[new.id] = new, text
            unindexed = unindexed | {new.id} if in_unindexed else unindexed - {new.id}
        elif isinstance(step, int):
            table.drop(step)
            there.pop(step, None)
            unindexed.discard(step)
        else:
            table.drop_unindexed()
            there = {number: kept for number, kept in there.items() if number not in unindexed}
            unindexed = set()
    return table, there


@given(steps)
def test_a_slot_holds_what_is_there_and_nothing_else(taken):
    """However rows come, are replaced and go, each slot says what the newest row of its number said, and what it is beside."""
    table, there = after(taken)
    numbers = [*range(12), FIRST_OTHER]
    slots = {n: slot for n, slot in zip(numbers, table.slots_of(numbers).tolist(), strict=True) if slot >= 0}
    assert slots.keys() == there.keys()
    assert len(table) == len(there)
    for number, slot in slots.items():
        (own, text), cells = there[number], {name: column[slot] for name, column in table.rows.items()}
        for name in ("id", "ref", "level", "at", "past", "flags", "kind"):
            assert cells[name] == getattr(own, name)
        assert cells["length"] == len(text.split())
        assert table.facts.get(slot, (None, None)) == (own.subject, own.relation)
        assert [cells["owner"], cells["who"]] == [table.codes.get(own.owner), table.codes.get(own.who)]
        assert table.called.get(slot, frozenset()) == frozenset((own.called or "").split())
        assert cells["session"] == table.sessions.get(own.session_id)
        for step in (-2, -1, 1, 2):
            other = there.get(number + step, (None,))[0]
            here = other is not None and own.kind == TURN and other.session_id == own.session_id
            assert table.neighbours(np.array([slot]), (step,)).tolist() == [
                [slots[number + step] if here else -1]
            ]
        spans = table.spans()[table.spans()[:, 0] == slot]
        assert [tuple(span[1:]) for span in spans] == own.spans
    gone = table.spans()[:, 0] < 0
    assert not table.spans()[gone, 1:].any(), "nothing is left of when a text that is gone speaks of"
    empty = np.setdiff1d(np.arange(table.n), list(slots.values()))
    assert not any(column[empty].any() for column in table.rows.values()), "an empty slot says nothing"
    assert (table.neighbours(empty, (-2, -1, 1, 2)) == -1).all()
    assert not set(empty.tolist()) & table.facts.keys()


@given(steps)
def test_words_stand_where_they_were_said(taken):
    """Of what is there each word is found with how often it stands there, whether the index knows it yet or not."""
    table, there = after(taken)
    ids = table.rows["id"]
    stands = {
        (term, int(ids[slot]), int(often))
        for term, slots, times in table.find(WORDS)
        for slot, often in zip(slots.tolist(), times.tolist(), strict=True)
        if ids[slot]
    }
    assert stands == {
        (word, number, text.split().count(word))
        for number, (_, text) in there.items()
        for word in set(text.split())
    }


@given(
    st.lists(st.tuples(st.sampled_from(sorted(KINDS)), rows, st.none() | st.integers(1, 3)), max_size=12),
    st.sampled_from(READERS), st.none() | st.frozensets(st.sampled_from(sorted(KINDS.values()))), st.integers(1, 3),
    st.frozensets(st.integers(1, 3)), st.booleans(), st.none() | st.integers(0, 12),
    st.none() | st.frozensets(st.integers(0, 12)).map(sorted),
)  # fmt: skip
def test_who_may_find_what(tmp_path_factory, taken, reader, kinds, session, turns, past, known_at, held):
    """For whomever, whatever and whenever it is asked, those docs may be found that the rule of rights lets through."""
    docs = [
        Doc(
            *(kind, n, "cup", own.level, own.owner, own.who, in_session, own.turn),
            at=(len(taken) - n) / 1e6,
            past=bool(own.past),
        )
        for n, (kind, own, in_session) in enumerate(taken)
    ]
    facts = {} if held is None else {FACT: held}
    only = Filter(reader, kinds, session, turns, past or held is not None, known_at, facts)

    def is_wanted(doc):
        when = doc.at * 1e6 if KINDS[doc.kind] in ("preference", "note", "bank") else doc.ref
        return (
            readable(reader, LEVELS[doc.level], doc.owner)
            and (kinds is None or KINDS[doc.kind] in kinds)
            and not (doc.session_id == session and doc.turn in turns)
            and (past or held is not None or not doc.past)
            and (known_at is None or when <= known_at)
            and (held is None or doc.kind != FACT or doc.ref in held)
        )

    with Database(tmp_path_factory.mktemp("table") / "index.db", schema=SCHEMA, durable=False) as database:
        database.write(lambda tx: add_rows(tx, [read_row(0, doc) for doc in docs]))
        known = dict(database.query("select key, value from meta"))
        memory = ResidentPostings(database)
        memory.warm(State(last_message=known["last_message"], last_other=known["last_other"]))
        table = memory.table
        *allowed, none = may(table, only)
        assert not none, "no slot is none that may be read"
        refs = table.rows["ref"][: table.n][allowed].tolist()
        assert sorted(refs) == sorted(doc.ref for doc in docs if is_wanted(doc))


def test_nobody_is_not_who_owns_nothing():
    """Private text without an owner is nobody's, also not of a voice without a name."""
    table = filled(row(1, level=2, owner=None), row(2, level=2, owner="ann"))
    for reader in (Reader(None), Reader(""), Reader("zoe")):
        assert not any(may(table, Filter(reader)))
    assert table.codes.get("ann") not in (None, NOBODY)
    assert (table.codes.get("zoe"), table.codes.get(None)) == (None, NOBODY)


def test_what_may_not_be_read_stands_beside_nothing():
    """A private message of somebody else is no neighbour, and is not among what stands around."""
    rows = (row(1), row(2, level=2, owner="bob"), row(3))
    slots = np.arange(3)
    ann, bob = seen_by(Reader("ann"), *rows), seen_by(Reader("bob"), *rows)
    assert ann.neighbours(slots, (1,)).tolist() == [[-1, 2, -1]]
    assert bob.neighbours(slots, (1,)).tolist() == [[1, 2, -1]]
    assert ann.with_neighbours(np.array([0]), (1,)).tolist() == [0]
    assert bob.with_neighbours(np.array([0]), (1,)).tolist() == [0, 1]
    assert ann.visible(slots).tolist() == ann.visible(np.arange(9)).tolist() == [0, 2]
