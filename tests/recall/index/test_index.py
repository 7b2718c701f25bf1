"""The index: made from the truth in idle time, deletable, never wrong for long."""

import pytest

from edgemem.recall.index.file import SCHEMA
from edgemem.recall.index.index import Index
from edgemem.recall.index.sources import NOTE
from edgemem.store import facts
from edgemem.store.db.connection import Migration
from edgemem.store.db.database import Database
from edgemem.store.kinds import open_truth
from edgemem.store.memory_store import SQLiteMemoryStore
from edgemem.store.notes import NotesFile
from support.embedders import HashEmbedder
from support.homes import bytes_of, check, count_docs, other_rules, say, words_of, work


@pytest.fixture
def index(tmp_path, truth):
    with Index(tmp_path / "index.db", truth, embedder=HashEmbedder()) as found:
        yield found


def words(index) -> set[str]:
    return words_of(index.database)


def test_upkeep_is_bounded_and_yields(truth, index):
    """No more than `limit` is done at once, and nothing once somebody speaks."""
    for n in range(10):
        say(truth, n, f"word{n}", f"answer{n}")
    assert index.catch_up(7) == 7
    assert index.catch_up(100, stop=lambda: True) == 0
    assert index.catch_up(100) == 13
    assert index.embed_pending(3) == 3
    assert index.embed_pending(100, stop=lambda: True) == 0
    assert index.embed_pending(100) == 17
    check(index)


def test_a_forgotten_fact_leaves_no_trace(truth, store, index):
    """After forgetting, nothing of a fact stands in the index file or its log, also not of its older versions."""
    store.add_fact("door.code", "xylophone")
    store.add_fact("door.code", "zeppelin")
    store.add_fact("other", "umbrella")
    index.catch_up()
    index.embed_pending()
    assert b"xylophon" in bytes_of(index)
    store.forget_fact("door.code")
    index.catch_up()
    assert words(index) == {"umbrella"}
    assert index.erase()
    assert b"xylophon" not in bytes_of(index)
    assert b"zeppelin" not in bytes_of(index)
    assert index.database.query("select count(*) from vectors") == [(1,)]
    check(index)


def test_dropped_episodes_leave(store, truth, index):
    """Episodes that the store trims are taken out."""
    small = SQLiteMemoryStore(truth, max_episodes=10)
    for n in range(12):
        small.add_episode("event", {"n": f"number{n}"}, "ok")
    index.catch_up()
    for n in range(12, 24):
        small.add_episode("event", {"n": f"number{n}"}, "ok")
    index.catch_up()
    kept = {row[0] for row in truth.query("select id from episodes")}
    assert {row[0] for row in index.database.query("select ref from docs")} == kept
    assert count_docs(index) == len(kept)


def test_notes_follow_their_file(tmp_path, truth):
    """Lines of the notes come and go with the file, also when it is edited by hand."""
    notes = NotesFile(tmp_path / "NOTES.md", clock=truth.clock)
    with Index(tmp_path / "index.db", truth, embedder=HashEmbedder(), notes=notes) as index:
        notes.append("- the ladder is in the garage\n- xylophone lessons on Monday", heading="House")
        assert index.catch_up() == 2
        assert index.catch_up() == 0
        assert "hous" in words(index)
        assert index.embed_pending() == 2
        notes.path.write_bytes(b"- the ladder is in the garage\n\xff\xfe broken\n")
        index.catch_up()
        assert words(index) == {"ladder", "garag", "broken"}
        assert b"xylophon" not in bytes_of(index)
        notes.path.unlink()
        index.catch_up()
        assert index.database.query("select 1 from docs where kind = ?", (NOTE,)) == []


@pytest.mark.parametrize("damage", ["no database", "flipped", "emptied", "deleted"])
def test_a_damaged_file_is_made_again(tmp_path, truth, damage):
    """Whatever happened to the file, opening and upkeep end with a sound index and no error."""

    def fill(tx):
        for n in range(300):
            facts.assert_fact(tx, f"key{n}", f"value{n} of something")

    truth.write(fill)
    with Index(tmp_path / "index.db", truth) as index:
        index.catch_up()
    data = index.path.read_bytes()
    index.path.unlink()
    if damage == "no database":
        index.path.write_bytes(b"this is not a database at all " * 100)
    elif damage == "flipped":
        index.path.write_bytes(data[:100] + bytes(byte ^ 0xFF for byte in data[100:]))
    elif damage == "emptied":
        index.path.touch()
    with Index(tmp_path / "index.db", truth) as index:
        for _ in range(3):
            index.catch_up()
        assert index.database.query("select count(*) from docs") == [(300,)]


def test_the_index_of_another_truth_is_not_used(tmp_path, truth, store, clock):
    """An index file that was copied beside another truth is thrown away."""
    store.add_fact("milk", "empty")
    with Index(tmp_path / "index.db", truth) as index:
        index.catch_up()
    clock.tick()
    with (
        open_truth(tmp_path / "other.db", clock=clock) as other,
        Index(tmp_path / "index.db", other) as index,
    ):
        assert words(index) == set()


def test_an_index_with_another_schema_is_not_used(tmp_path, truth, store):
    """An index whose tables were made by steps that are no part of ours, or by a newer edgemem, is made again."""
    store.add_fact("milk", "empty")
    with Index(tmp_path / "index.db", truth) as index:
        index.catch_up()
        index.database.write(lambda tx: tx.execute("update meta set value = 0 where key = 'rules'"))
    with Index(tmp_path / "index.db", truth) as index:
        assert words(index) == set()
    newer = SCHEMA._replace(steps=(*SCHEMA.steps, Migration("m999_later", ("create table later (x)",))))
    Database(tmp_path / "index.db", schema=newer, durable=False).close()
    with Index(tmp_path / "index.db", truth) as index:
        assert index.catch_up() == 1


def test_two_indexes_on_one_file_do_not_disturb_each_other(tmp_path, truth, store, index):
    """Upkeep of a second process takes nothing twice."""
    with Index(tmp_path / "index.db", truth, embedder=HashEmbedder()) as second:
        for n in range(20):
            say(truth, n, f"word{n}", f"answer{n}")
            (index if n % 2 else second).catch_up(3)
            (second if n % 2 else index).embed_pending(3)
        while index.catch_up() + second.catch_up():
            pass
        while index.embed_pending() + second.embed_pending():
            pass
        check(index)
        assert count_docs(index) == 40


def test_old_changes_are_dropped_from_the_truth(truth, store, index, hand):
    """The queue does not grow for ever: what the index has seen goes after a week."""
    store.add_fact("milk", "empty")
    store.add_fact("milk", "full")
    index.catch_up()
    assert truth.query("select count(*) from index_queue") == [(1,)]
    hand.advance(8 * 86400)
    store.add_fact("milk", "gone")
    index.catch_up()
    truth.flush()
    assert truth.query("select count(*) from index_queue") == [(1,)]


def test_what_is_written_takes_along_what_waits(truth, store, index):
    """Few episodes wait for more; a fact does not, and brings them along in its commit."""
    store.add_episode("dance", {"with": "bob"}, "ok")
    assert index.catch_up(least=100, wait_s=3600.0) == 0
    assert index.pending()["text"] == 1
    store.add_fact("milk", "empty")
    assert index.catch_up(least=100, wait_s=3600.0) == 2
    assert index.pending()["text"] == 0
    store.add_episode("dance", {"with": "mai"}, "ok")
    assert index.catch_up(least=100, wait_s=-1.0) == 1


def test_who_speaks_waits_for_one_text(truth, store, index):
    """Texts are read until somebody speaks; those are in, and the next call goes on behind them, in whichever table."""
    for n in range(3):
        store.add_fact(f"cup.{n}", "drawer")
        say(truth, n, f"word{n}", f"answer{n}")
    asked = []

    def third() -> bool:
        asked.append(None)
        return len(asked) > 3

    taken = index.catch_up(stop=third)
    assert 0 < taken < 9
    assert index.catch_up() == 9 - taken
    assert {"cup", "word0", "word2", "answer2"} <= words(index)
    check(index)


def test_an_index_made_by_other_rules_is_made_anew(tmp_path, truth):
    """An edgemem that cuts words otherwise made it: nothing of that stays, and all words and vectors come back."""
    say(truth, 1, "are the boats walking?", "they were sailing")
    embedder = HashEmbedder()
    with other_rules(), Index(tmp_path / "index.db", truth, embedder=embedder) as index:
        work(index)
        assert "boats" in words(index)
    with Index(tmp_path / "index.db", truth, embedder=embedder) as index:
        work(index)
        assert b"boats" not in bytes_of(index)
        assert words(index) == {"boat", "walk", "sail"}
        assert index.database.query("select count(*) from vectors") == [(2,)]
        check(index)
