"""Postings in memory: what FTS5 finds, with the same scores, whatever happens to the file."""

from __future__ import annotations

from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemem.recall import postings
from edgemem.recall.docs import add_docs, remove_doc, replace_doc
from edgemem.recall.lexical import Statistics, count_docs, match
from edgemem.recall.postings import ResidentPostings
from edgemem.recall.removals import note_removals, read_removals, trim_removals
from edgemem.recall.sources import EPISODE, TURN, Doc
from edgemem.recall.state import State
from edgemem.store.database import Database
from edgemem.store.migrations import INDEX

WORDS = ("cup", "kettle", "peanut", "doctor", "friday", "garden")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Let memory serve a few docs, too."""
    monkeypatch.setattr(postings, "LEAST", 1)


def opened(folder):
    """Return the file of an index."""
    return Database(folder / "index.db", migrations=INDEX, durable=False)


def state_of(database):
    """Return how far the index has come."""
    known = dict(database.query("select key, value from meta"))
    return State(**{key: value for key, value in known.items() if key in State.__struct_fields__})


def doc(ref, text, kind=TURN):
    """Return a doc that anybody may read."""
    return Doc(kind, ref, text, 0, None, None)


def compare(database, memory):
    """Assert that memory and FTS5 count and score alike."""
    state = state_of(database)
    counts = memory.counts(state, WORDS)
    assert counts is not None
    there = count_docs(database, WORDS)
    for word in WORDS:
        statistics = Statistics(docs=state.docs, terms=state.terms, counts=there)
        rows = match(database, [word], columns="d.id", where="1", values={}, limit=99, at_most=999)
        # FTS5 weighs a term by another formula, and not below a millionth.
        n = there[word]
        factor = statistics.weight(word) / max(1e-6, log((state.docs - n + 0.5) / (n + 0.5)))
        expected = {number: pytest.approx(score * factor, rel=1e-4, abs=1e-4) for score, number in rows}
        assert dict(memory.best([word], statistics, 999)) == expected
        assert counts[word] >= there[word]


texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=9).map(" ".join)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from((TURN, EPISODE)), texts),
        st.tuples(st.just("remove"), st.integers(0, 20), st.just("")),
        st.tuples(st.just("replace"), st.integers(0, 20), texts),
        st.tuples(st.just("look"), st.just(0), st.just("")),
    ),
    max_size=25,
)


@settings(max_examples=40, deadline=None)
@given(steps)
def test_memory_finds_what_the_file_does(tmp_path_factory, taken):
    """However docs come, go and change, in another process as well, memory and FTS5 give the same scores."""
    folder = tmp_path_factory.mktemp("postings")
    with opened(folder) as database, opened(folder) as other:
        memory = ResidentPostings(database)
        known: list[Doc] = []
        for what, which, text in [*taken, ("add", TURN, "cup cup kettle"), ("look", 0, "")]:
            if what == "add":
                known.append(doc(len(known) + 1, text, kind=which))
                other.write(lambda tx: add_docs(tx, [known[-1]]))
            elif what == "look":
                if state_of(database).docs:
                    compare(database, memory)
            elif known:
                old = known[which % len(known)]
                if what == "remove":
                    other.write(lambda tx, old=old: remove_doc(tx, old.kind, old.ref))
                else:
                    new = doc(old.ref, text, kind=old.kind)
                    other.write(lambda tx, new=new: replace_doc(tx, new))


def test_much_that_is_new_is_left_to_idle_time(tmp_path, monkeypatch):
    """A question reads in a few docs; before more are read in, the file has to be asked."""
    monkeypatch.setattr(postings, "AT_ONCE", 5)
    with opened(tmp_path) as database:
        memory = ResidentPostings(database)
        database.write(lambda tx: add_docs(tx, [doc(n, f"cup {n}") for n in range(1, 20)]))
        state = state_of(database)
        assert memory.counts(state, ["cup"]) is None
        assert memory.warm(state)
        assert memory.counts(state, ["cup"]) == {"cup": 19}
        assert not memory.warm(state)


def test_warming_yields(tmp_path):
    """Whoever speaks stops it, and it goes on where it was."""
    with opened(tmp_path) as database:
        memory = ResidentPostings(database)
        database.write(lambda tx: add_docs(tx, [doc(n, f"cup {n}") for n in range(1, 20)]))
        assert not memory.warm(state_of(database), lambda: True)
        assert memory.warm(state_of(database), lambda: False)


def test_who_missed_removals_reads_everything_again(tmp_path, monkeypatch):
    """A log that was cut, or that says more than is followed at once, cannot be followed; memory begins anew and is right."""
    monkeypatch.setattr(postings, "AT_ONCE", 5)
    with opened(tmp_path) as database:
        memory = ResidentPostings(database)
        database.write(lambda tx: add_docs(tx, [doc(n, f"cup {n}") for n in range(1, 9)]))
        memory.warm(state_of(database))
        compare(database, memory)
        database.write(lambda tx: remove_doc(tx, TURN, 3))
        database.write(lambda tx: note_removals(tx, range(100, 110)))
        assert memory.counts(state_of(database), ["cup"]) is None
        memory.warm(state_of(database))
        compare(database, memory)


def test_the_log_of_removals_stays_short(tmp_path):
    """Old entries go, and a reader who would have needed them is told so."""
    with opened(tmp_path) as database:
        database.write(lambda tx: note_removals(tx, range(1, 6001)))
        first = database.query("select min(seq) from removals")[0][0]
        assert len(read_removals(database, first - 1, 9999) or ()) == 6000
        database.write(trim_removals)
        assert database.query("select count(*) from removals") == [(5000,)]
        assert read_removals(database, first, 9999) is None
