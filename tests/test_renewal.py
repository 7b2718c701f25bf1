"""An index whose words were cut by other rules: made again in place, with the vectors that it has."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hash_embedder import HashEmbedder
from other_rules import other_rules
from test_index import bytes_of, check, say

from edgemem.recall.index import Index
from edgemem.recall.recall import Recall
from edgemem.recall.rules import rules_number
from edgemem.records import Heard, StoredMessage, Turn
from edgemem.store import turns
from edgemem.store.database import Database
from edgemem.store.memory_store import SQLiteMemoryStore
from edgemem.store.migrations import INDEX
from edgemem.store.notes import NotesFile

DOCS = 700


@pytest.fixture
def truth(tmp_path, clock):
    """Return an open truth in which much was said."""
    with Database(tmp_path / "memory.db", clock=clock) as db:
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


def work(index: Index) -> None:
    """Do all upkeep."""
    while index.catch_up() + index.embed_pending():
        pass


def made_by_others(tmp_path, truth, embedder, notes=None) -> None:
    """Make the index by other rules."""
    with other_rules(), Index(tmp_path / "index.db", truth, embedder=embedder, notes=notes) as index:
        work(index)
        assert ("boats",) in index.database.query("select term from vocabulary")


def vectors_of(index: Index) -> list[tuple[object, ...]]:
    """Return all vectors with the ticks at which they were written."""
    return index.database.query("select seq, space, doc, vector from vectors order by seq")


def docs_of(index: Index) -> list[tuple[object, ...]]:
    """Return all docs, and which words the full text has of them."""
    words = index.database.query(
        "select doc, term, count(*) from occurrences group by doc, term order by 1, 2"
    )
    return [*index.database.query("select * from docs order by id"), *words]


def test_words_are_cut_again_in_place_and_no_text_is_embedded_twice(tmp_path, truth):
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
        assert ("boats",) not in index.database.query("select term from vocabulary")
        assert index.catch_up() == 0
        renewed = docs_of(index)
    assert embedder.embedded == embedded
    with Index(tmp_path / "new.db", truth, embedder=HashEmbedder(), notes=notes) as index:
        work(index)
        assert [row[1:] for row in renewed] == [row[1:] for row in docs_of(index)]
        assert index.database.query("select * from sizes") != []


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_question_meanwhile_finds_what_it_would_find_afterwards(tmp_path, truth, steps):
    """Not cut again, or half of it: a question that may take its time finds the same as in an index made anew."""
    made_by_others(tmp_path, truth, None)
    asked = (
        "which boat walks?",
        "sail past harbours 7",
        "my sister's favourite walk",
        "set a timer",
        "whispers",
    )

    def found(index: Index) -> list[list[tuple[str, float]]]:
        recall = Recall(truth, index)
        return [[(item.text, item.score) for item in recall.recall(each, reader=None)] for each in asked]

    with Index(tmp_path / "new.db", truth) as index:
        work(index)
        index.warm()
        expected = found(index)
    with Index(tmp_path / "index.db", truth) as index:
        for _ in range(steps):
            index.catch_up(150)
        for each, right in zip(found(index), expected, strict=True):
            assert [text for text, _ in each] == [text for text, _ in right]
            assert [score for _, score in each] == pytest.approx([score for _, score in right], abs=1e-4)
        assert index.pending()["text"] == DOCS + 4 - 150 * steps


def test_it_goes_from_the_newest_to_the_oldest_and_yields(tmp_path, truth):
    """Each slice notes how far it came, and nothing is done once somebody speaks."""
    made_by_others(tmp_path, truth, None)
    with Index(tmp_path / "index.db", truth) as index:
        assert index.catch_up(500, stop=lambda: True) == 0
        left = [index.pending()["text"]]
        while index.catch_up(100):
            left.append(index.pending()["text"])
            older = index.database.query("select max(id) from docs where rules <> ?", (rules_number(),))[0][0]
            newer = index.database.query("select min(id) from docs where rules = ?", (rules_number(),))[0][0]
            assert older is None or older < newer
        assert all(before > after for before, after in pairwise(left[:-1]))
        assert left[-1] == 0


def test_what_is_forgotten_meanwhile_leaves_no_trace(tmp_path, truth):
    """Erased before its words were cut again, and after: neither its words of then nor those of today stay."""
    made_by_others(tmp_path, truth, None)
    store = SQLiteMemoryStore(truth)
    store.add_fact("secret.weddings", "xylophones", scope="household")
    with other_rules(), Index(tmp_path / "index.db", truth) as index:
        work(index)
    with Index(tmp_path / "index.db", truth) as index:
        index.warm()
        store.forget_fact("secret.weddings", scope="household")
        work(index)
        assert index.erase()
        assert b"xylophon" not in bytes_of(index)
        assert index.postings.having("xylophon").tolist() == []


def test_a_text_that_is_told_in_other_words_gets_another_vector(tmp_path, truth, monkeypatch):
    """The digest of a text says whether its vector is still right: here keys are spelled out in another way."""
    embedder = HashEmbedder()
    with monkeypatch.context() as patch:
        patch.setattr("edgemem.recall.sources.fact_text", lambda key, value: f"{key} is {value}")
        made_by_others(tmp_path, truth, embedder)
    embedder.embedded.clear()
    with Index(tmp_path / "index.db", truth, embedder=embedder) as index:
        work(index)
        check(index)
    assert sorted(text for text in embedder.embedded if ":" in text) == [
        "sisters favourite walks: the cliffs",
        "sisters favourite walks: the dunes",
        "voices: whispering",
    ]
    assert embedder.embedded.count("favourite walks") == len(embedder.embedded) - 3 == 2


def test_two_processes_with_different_rules_agree(tmp_path, truth):
    """What the older edgemem takes in after the newer one has opened the file is cut again by the newer one."""
    embedder = HashEmbedder()
    with other_rules():
        older = Index(tmp_path / "index.db", truth, embedder=embedder)
        work(older)
    newer = Index(tmp_path / "index.db", truth, embedder=embedder)
    work(newer)
    say(truth, 9000, "the kettles are boiling")
    with other_rules():
        work(older)
        assert ("kettles",) in older.database.query("select term from vocabulary")
        assert older.pending()["text"] > 0
        found = Recall(truth, older).recall("kettles", reader=None, k=1)
        assert found[0].text == "the kettles are boiling"
    embedded = len(embedder.embedded)
    work(newer)
    assert newer.pending()["text"] == 0
    assert ("kettles",) not in newer.database.query("select term from vocabulary")
    assert len(embedder.embedded) == embedded
    check(newer)
    with other_rules():
        found = Recall(truth, older).recall("kettles", reader=None, k=1)
        assert found[0].text == "the kettles are boiling"
        older.close()
    newer.close()


def test_an_index_of_the_first_schema_is_migrated_with_its_vectors(tmp_path, truth):
    """A file from before docs had a digest: its tables get what is new, and no text is embedded twice."""
    embedder = HashEmbedder()
    with Index(tmp_path / "index.db", truth, embedder=embedder) as index:
        work(index)
        vectors = vectors_of(index)
        index.database.write(as_it_was)
    embedded = len(embedder.embedded)
    file = (tmp_path / "index.db").stat().st_ino
    with Index(tmp_path / "index.db", truth, embedder=embedder) as index:
        assert (tmp_path / "index.db").stat().st_ino == file
        sizes = index.database.query("select * from sizes order by 1, 2")
        work(index)
        check(index)
        assert vectors_of(index) == vectors
        assert index.database.query("select * from sizes order by 1, 2") == sizes
        assert index.database.query("select count(*) from docs where digest is null") == [(0,)]
    assert len(embedder.embedded) == embedded


def as_it_was(tx) -> None:
    """Take back what the second step of the schema did."""
    from zlib import crc32

    for sql in (
        "drop table occurrences",
        "drop index docs_by_level",
        "drop table sizes",
        "alter table docs drop column rules",
        "alter table docs drop column digest",
        "delete from migrations where name = 'm002_rules'",
        "delete from meta where key in ('rules', 'older_left')",
        "insert into meta (key, value) values ('words', '4/2.2')",
    ):
        tx.execute(sql)
    tx.execute("update meta set value = ? where key = 'schema'", (str(crc32(repr(INDEX[:1]).encode())),))
