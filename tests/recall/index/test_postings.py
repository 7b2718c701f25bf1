"""Postings and packed vectors in memory: what FTS5, and comparing all, would find, whatever happens to the file."""

import sqlite3
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemem import preload
from edgemem.errors import CorruptError
from edgemem.recall.index import table
from edgemem.recall.index.docs import add_rows, read_row, remove_doc, replace_doc
from edgemem.recall.index.file import KEPT, SCHEMA, Removals, State, note_removals, trim_removals
from edgemem.recall.index.packed import PackedVectors, bits_of_bytes, count_ones, pack
from edgemem.recall.index.sources import EPISODE, TURN, Doc
from edgemem.recall.index.table import ResidentPostings
from edgemem.recall.index.view import Filter, QueryView
from edgemem.recall.people.phonetics import TermWeight
from edgemem.recall.search.words import Statistics, score_bm25
from edgemem.store.db.database import Database

WORDS = ("cup", "kettle", "peanut", "doctor", "friday", "garden")
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


def opened(folder):
    return Database(folder / "index.db", schema=SCHEMA, durable=False)


def doc(ref, text, kind=TURN, **more):
    return Doc(kind, ref, text, 0, None, None, **more)


def found_in(memory, word, statistics):
    table = memory.table
    view = QueryView(table, Filter(None, past=True))
    asked = {word: TermWeight(1.0, statistics.counts[word])}
    score_bm25(view, table.find([word]), asked, statistics)
    return {int(table.rows["id"][slot]): float(view.words[slot]) for slot in np.flatnonzero(view.words)}


def count_in(memory, word):
    return sum(int((memory.table.rows["id"][slots] != 0).sum()) for _, slots, _ in memory.table.find([word]))


def compare(database, memory):
    assert memory.follow(State.read(database))
    docs = database.query("select id, terms from docs")
    oracle = sqlite3.connect(":memory:")
    oracle.execute("create virtual table words using fts5 (terms)")
    oracle.executemany("insert into words (rowid, terms) values (?, ?)", docs)
    there = {word: sum(word in text.split() for _, text in docs) for word in WORDS}
    length = sum(len(text.split()) for _, text in docs)
    for word in WORDS:
        statistics = Statistics(docs=len(docs), terms=length, counts=there)
        rows = oracle.execute("select -bm25(words), rowid from words where words match ?", (f'"{word}"',))
        # FTS5 weighs a term by another formula, and not below a millionth.
        n = there[word]
        factor = statistics.idf(n) / max(1e-6, log((len(docs) - n + 0.5) / (n + 0.5)))
        expected = {number: pytest.approx(score * factor, rel=1e-4, abs=1e-4) for score, number in rows}
        assert found_in(memory, word, statistics) == expected
        assert count_in(memory, word) == there[word]
        # What stands in the file is near to itself, spelled otherwise.
        near = dict(memory.table.similar.similar_to(f"{word}e", wide=False))
        assert word in near if there[word] else True
    oracle.close()


@settings(max_examples=25, deadline=None)
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
                other.write(lambda tx: add_rows(tx, [read_row(0, known[-1])]))
            elif what == "look":
                if known:
                    compare(database, memory)
            elif known:
                old = known[which % len(known)]
                if what == "remove":
                    other.write(lambda tx, old=old: remove_doc(tx, old.kind, old.ref))
                else:
                    new = doc(old.ref, text, kind=old.kind)
                    other.write(lambda tx, new=new: replace_doc(tx, new))


def test_a_question_in_a_hurry_reads_the_newest_first(tmp_path, monkeypatch):
    """It says that it could not read all; the next ones go on, until nothing is missing."""
    monkeypatch.setattr(table, "AT_ONCE", 5)
    monkeypatch.setattr(table, "NEWEST", 10)
    with opened(tmp_path) as database:
        memory = ResidentPostings(database)
        database.write(lambda tx: add_rows(tx, [read_row(0, doc(n, f"cup {n}")) for n in range(1, 20)]))
        state, read = State.read(database), []
        while not memory.follow(state, lambda: True):
            read.append(sorted(memory.table.rows["id"][: memory.table.n].tolist()))
        assert read == [list(range(10, 15)), list(range(10, 20)), list(range(5, 20))]
        assert count_in(memory, "cup") == 19
        assert not memory.warm(state)
        compare(database, memory)


def test_who_missed_removals_reads_everything_again(tmp_path):
    """A log that was cut before somebody read it cannot be followed; memory begins anew and is right."""
    with opened(tmp_path) as database:
        memory = ResidentPostings(database)
        database.write(lambda tx: add_rows(tx, [read_row(0, doc(n, f"cup {n}")) for n in range(1, 9)]))
        memory.warm(State.read(database))
        compare(database, memory)
        database.write(lambda tx: remove_doc(tx, TURN, 3))
        database.write(lambda tx: note_removals(tx, range(100, 100 + KEPT)))
        database.write(trim_removals)
        memory.warm(State.read(database))
        compare(database, memory)
        assert memory.follow(State.read(database))
        assert count_in(memory, "cup") == 7


def test_memory_keeps_no_word_of_what_was_erased(tmp_path):
    """Once idle time has followed, a word that stands nowhere any more is not in memory either."""
    with opened(tmp_path) as database:
        memory = ResidentPostings(database)
        database.write(
            lambda tx: add_rows(tx, [read_row(0, doc(1, "cup")), read_row(0, doc(2, "diagnosis kettle"))])
        )
        memory.follow(State.read(database))
        memory.table.similar.similar_to("diagnosis", wide=False)
        database.write(lambda tx: remove_doc(tx, TURN, 2))
        memory.warm(State.read(database))
        assert memory.follow(State.read(database))
        assert count_in(memory, "cup") == 1
        assert memory.table.find(["diagnosi", "kettl"]) == []
        assert memory.table.similar.similar_to("diagnosis", wide=False) == ()


@pytest.mark.parametrize(
    "damage",
    ["times = '[[1,2'", "times = '\"x\"'", "flags = 70000", "level = 900", "terms = x'ff'", "at = 'x'"],
)
def test_a_row_that_cannot_be_is_said_to_be_damage(tmp_path, damage):
    """A card turned a bit over: the file is to be made again, and whoever asks is told by the error that says so."""
    with opened(tmp_path) as database:
        database.write(lambda tx: add_rows(tx, [read_row(0, doc(1, "cup")), read_row(0, doc(2, "kettle"))]))
        database.write(lambda tx: tx.execute(f"update docs set {damage} where id = 1"))
        memory = ResidentPostings(database)
        with pytest.raises(CorruptError):
            memory.follow(State.read(database))


def test_the_log_of_removals_stays_short(tmp_path):
    """Old entries go, and a reader who would have needed them is told so."""
    with opened(tmp_path) as database:
        many, few = Removals(database), Removals(database)
        database.write(lambda tx: note_removals(tx, range(1, 6001)))
        assert len(many.read_newest(9999) or ()) == 6000
        assert many.read_newest(9999) == []
        database.write(trim_removals)
        assert database.query("select count(*) from removals") == [(KEPT,)]
        assert few.read_newest(9999) is None


DIMENSIONS = 64


def unit(*shape: int, seed: int = 1) -> np.ndarray:
    found = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return found / np.linalg.norm(found, axis=-1, keepdims=True)


def test_wiping_leaves_no_trace():
    """After a wipe neither the id, the tick nor a bit of the vector is in any array, nor in one that was outgrown."""
    packed = PackedVectors(DIMENSIONS)
    rows = unit(1500, DIMENSIONS, seed=3)
    packed.append(range(1, 1001), range(2001, 3001), rows[:1000])
    outgrown = dict(packed.columns)
    packed.append(range(1001, 1501), range(3001, 3501), rows[1000:])
    assert not any(column.any() for column in outgrown.values())
    assert packed.wipe([5, 700, 1500]) == 3
    signs, steps, _ = pack(rows)
    for id_ in (5, 700, 1500):
        assert id_ not in packed.columns["ids"]
        assert 2000 + id_ not in packed.columns["seqs"]
        assert signs[id_ - 1, 0] not in packed.columns["signs"]
        assert steps[id_ - 1, 0] not in packed.columns["steps"]
    assert not any(column[len(packed) :].any() for column in packed.columns.values())
    assert [packed.nearest(rows[n - 1], 1)[0][0] for n in (1, 6, 1499)] == [1, 6, 1499]
    assert packed.wipe(range(1, 1501)) == 1497
    assert (len(packed), packed.nbytes) == (0, 0)
    assert packed.nearest(rows[0], 5) == []
    assert not any(column.any() for column in packed.columns.values())


def test_bits_are_counted_alike_without_the_instruction(monkeypatch, request):
    """Where numpy counts no bits (before 2.0), adding them gives the same."""
    words = np.random.default_rng(5).integers(0, 2**63, (3, 500), np.uint64) * np.uint64(2)
    words[0, :3] = 0, 2**64 - 1, 1
    true = [[word.bit_count() for word in row] for row in words.tolist()]
    assert count_ones(words).tolist() == true
    monkeypatch.setattr(preload.np, "__version__", "1.26.4")
    request.addfinalizer(bits_of_bytes.cache_clear)
    bits_of_bytes.cache_clear()
    assert count_ones(words).dtype == np.uint8
    assert count_ones(words).tolist() == true
