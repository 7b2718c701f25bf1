"""An index whose words were made by other rules: made anew in idle time, with the vectors that it has."""

from __future__ import annotations

from itertools import pairwise

import pytest

from edgemem.recall.index.index import Index
from edgemem.recall.recall import Recall, Request
from edgemem.records import Heard, StoredMessage, Turn
from edgemem.store import turns
from edgemem.store.db.database import Database
from edgemem.store.kinds import open_truth
from edgemem.store.memory_store import SQLiteMemoryStore
from edgemem.store.notes import NotesFile
from support.embedders import HashEmbedder
from support.homes import bytes_of, check, other_rules, say, words_of, work

DOCS = 700


@pytest.fixture
def truth(tmp_path, clock):
    """Return an open truth in which much was said."""
    with open_truth(tmp_path / "memory.db", clock=clock) as db:
        fill(db)
        yield db


def fill(truth: Database) -> None:
    """Have something of every kind."""
    store = SQLiteMemoryStore(truth)

    def talk(tx):
        for n in range(DOCS // 2):
            said = (
                StoredMessage("user", f"are the boats number {n} walking?"),
                StoredMessage("assistant", f"they were sailing past harbour {n}"),
            )
            turns.commit_turn(tx, Turn("s", n, said, heard=Heard(speaker="alice")))

    truth.write(talk)
    store.add_fact("sisters.favourite_walks", "the cliffs", scope="household")
    store.add_fact("sisters.favourite_walks", "the dunes", scope="household")
    store.set_preference("voices", "whispering", scope="household")
    store.add_episode("tool_call", {"name": "set_timers", "args": {"minutes": 5}}, "ok")


def made_by_others(tmp_path, truth, embedder, notes=None) -> None:
    """Make the index by other rules."""
    with other_rules(), Index(tmp_path / "index.db", truth, embedder=embedder, notes=notes) as index:
        work(index)
        assert "boats" in words_of(index.database)


def vectors_of(index: Index) -> list[tuple[object, ...]]:
    """Return all vectors with the ticks at which they were written."""
    return index.database.query("select seq, doc, past, codes from vectors order by seq")


def docs_of(index: Index) -> list[tuple[object, ...]]:
    """Return all docs, and how the names in them sound."""
    return [
        row
        for table in ("docs", "names", "sounds")
        for row in index.database.query(f"select * from {table} order by 1, 2")
    ]


def test_words_are_made_anew_and_no_text_is_embedded_twice(tmp_path, truth):
    """After other rules the docs are those of an index made anew, and the vectors those that were there."""
    notes = NotesFile(tmp_path / "NOTES.md", clock=truth.clock)
    notes.append("- the ladders are in the garages", heading="House")
    embedder = HashEmbedder()
    made_by_others(tmp_path, truth, embedder, notes)
    embedded = list(embedder.embedded)
    with Index(tmp_path / "index.db", truth, embedder=embedder, notes=notes) as index:
        before = vectors_of(index)
        assert index.pending() == {"text": DOCS + 5, "changes": 0, "vectors": 0}
        work(index)
        assert index.pending() == {"text": 0, "changes": 0, "vectors": 0}
        check(index)
        assert vectors_of(index) == before
        assert "boats" not in words_of(index.database)
        assert index.catch_up() == 0
        renewed = docs_of(index)
    assert embedder.embedded == embedded
    with Index(tmp_path / "new.db", truth, embedder=HashEmbedder(), notes=notes) as index:
        work(index)
        assert [row[1:] for row in renewed] == [row[1:] for row in docs_of(index)]


def test_questions_go_on_with_the_old_words_until_all_are_new(tmp_path, truth):
    """Memory holds the old words until nothing is missing; nothing is done once somebody speaks."""
    made_by_others(tmp_path, truth, None)
    with Index(tmp_path / "index.db", truth) as index:
        assert index.catch_up(500, stop=lambda: True) == 0
        left = [index.pending()["text"]]
        index.warm()
        while index.catch_up(100):
            left.append(index.pending()["text"])
            if left[-1]:
                assert index.postings.table.find(["boats"]) != []
        assert all(earlier > later for earlier, later in pairwise(left))
        assert left[-1] == 0
        recall = Recall(truth, index)
        (item,) = recall.recall("which boat walks past harbours 7", Request(reader=None, k=1))
        assert item.text == "they were sailing past harbour 7"
        assert index.postings.table.find(["boats"]) == []


def test_what_is_forgotten_meanwhile_leaves_no_trace(tmp_path, truth):
    """Erased before its words were made anew, or after: neither the old ones nor today's stay."""
    store = SQLiteMemoryStore(truth)
    for n in range(3):
        store.add_fact(f"secret.weddings{n}", f"xylophones played{n}", scope="household")
    made_by_others(tmp_path, truth, None)
    with Index(tmp_path / "index.db", truth) as index:
        index.warm()
        forget(store, index, 0)
        while index.pending()["text"] > 100:
            assert index.catch_up(100)
        forget(store, index, 1)
        work(index)
        check(index)
        forget(store, index, 2)
        index.warm()
        assert b"xylophon" not in bytes_of(index)
        assert index.postings.table.find(["xylophon"]) == []


def forget(store, index, n: int) -> None:
    """Forget a secret, and hold every file of the index against it."""
    store.forget_fact(f"secret.weddings{n}", scope="household")
    assert index.erase()
    for trace in (f"weddings{n}", f"played{n}"):
        assert trace.encode() not in bytes_of(index)


def test_two_processes_with_different_rules_agree(tmp_path, truth):
    """What the older edgemem takes in after the newer one has opened the file is made anew by the newer one."""
    embedder = HashEmbedder()
    with other_rules():
        older = Index(tmp_path / "index.db", truth, embedder=embedder)
        work(older)
    newer = Index(tmp_path / "index.db", truth, embedder=embedder)
    work(newer)
    say(truth, 9000, "the kettles are boiling")
    with other_rules():
        work(older)
        assert "kettles" in words_of(older.database)
        assert older.pending()["text"] > 0
        found = Recall(truth, older).recall("kettles", Request(reader=None, k=1))
        assert found[0].text == "the kettles are boiling"
    embedded = len(embedder.embedded)
    work(newer)
    assert newer.pending()["text"] == 0
    assert "kettles" not in words_of(newer.database)
    assert len(embedder.embedded) == embedded
    check(newer)
    older.close()
    newer.close()
