"""Erasure: what is forgotten is recalled by nobody from the commit on, and its bytes leave every file, now or later."""

import sqlite3
import threading
import time
from contextlib import closing

import pytest

import edgemem
from edgemem.records import Heard
from edgemem.store.db.database import Database
from support.cli import run
from support.homes import files_with, home_of, snapshot
from support.loops import after_a_yes
from support.models import Caller, Listener

STEM = "quixot"  # what files hold of the forgotten word; the index has its stem


@pytest.fixture
def home(tmp_path):
    folder = home_of(tmp_path / "home", '[llama]\nembedder = ""\n[store]\nbusy_timeout_s = 0.2\n')
    with edgemem.open(folder, worker=False) as memory:
        memory.store.add_fact("gate.code", "quixotry four")
        memory.store.add_fact("bell", "brass")
        assert memory.idle(30)
    return folder


def erasing(memory) -> tuple[str, str]:
    (row,) = [row for row in memory.check() if row.name == "erasing"]
    return row.state, row.detail


@pytest.mark.parametrize("file", ["memory.db", "index.db"])
def test_where_somebody_reads_a_file_the_rest_is_erased_and_it_goes_on_by_itself(home, file):
    """Forgetting says which file still holds bytes, `check` too; idle time is not done before they are gone."""
    with edgemem.open(home, worker=False) as memory:
        with snapshot(home / "db" / file):
            forgotten = memory.forget("gate.code")
            assert forgotten
            assert forgotten.erased == {"facts": 1}
            assert set(forgotten.pending) == {file}
            assert memory.recall("gate code") == []
            assert not memory.idle(1)
            state, detail = erasing(memory)
            assert state == "warn"
            assert file in detail
            assert files_with(home, STEM)
        assert memory.idle(30)
        assert files_with(home, STEM) == []
        assert erasing(memory)[0] == "ok"
        assert memory.store.get_fact("bell") == "brass"


def test_a_folder_in_the_place_of_a_kept_state_keeps_nothing_from_being_gone(home):
    """It is no state of ours and stays; a place that fails is named without the number of its error."""
    (home / "db" / "state-1.bin").mkdir()
    with edgemem.open(home, worker=False) as memory:
        assert memory.forget("gate.code").pending == {}
        assert memory.idle(30)
    assert files_with(home, STEM) == []
    assert (home / "db" / "state-1.bin").is_dir()


def test_turns_are_written_while_a_forget_waits_for_a_reader(home):
    """What is said meanwhile is durable before the reader is gone: between two looks the file is free."""
    (home / "edgemem.toml").write_text('[llama]\nembedder = ""\n[store]\nbusy_timeout_s = 30\n')
    with edgemem.open(home, worker=False) as memory:
        with snapshot(home / "db" / "memory.db"):
            forgetting = threading.Thread(target=lambda: memory.forget("gate.code"))
            forgetting.start()
            while not memory.diagnostics.eraser.pending():
                time.sleep(0.01)
            with edgemem.open(home, worker=False) as other:
                other.store.add_fact("door", "green")
            memory.store.add_fact("window", "blue")
            assert forgetting.is_alive()
        forgetting.join()
        assert files_with(home, STEM) == []


def test_the_index_worker_that_is_quicker_leaves_nothing_in_the_log(home):
    """Idle work of another process has taken the change already: the forget still empties the log behind it."""
    with edgemem.open(home, worker=False) as memory, edgemem.open(home, worker=False) as other:
        write, taken = Database.write, []

        def written(database, work, **options):
            result = write(database, work, **options)
            if database is memory.diagnostics.database and not taken:
                # Between the commit and all that follows it.
                taken.append(other.diagnostics.index.catch_up())
            return result

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Database, "write", written)
            assert not memory.forget("gate.code").pending
        assert taken[0]
        assert files_with(home, STEM) == []


def test_the_tool_answers_at_the_commit_and_nobody_recalls_it_from_then_on(home):
    """Before any idle work, neither recall, hints, prompts, another process nor another time tell it; the bytes go later."""
    with edgemem.open(home, worker=False) as memory, edgemem.open(home, worker=False) as other:
        memory.store.add_fact("gate.code", "quixotry five")
        assert memory.idle(30)
        assert memory.recall("gate code")
        began = memory.diagnostics.clock.now()
        (forget,) = memory.tools(include=["forget_fact"])
        with snapshot(home / "db" / "index.db"):
            answer = after_a_yes(forget, key="gate.code")
            assert answer.startswith("Forgotten; erased from this device within moments.")
            assert memory.diagnostics.eraser.pending()
            for each in (memory, other):
                assert each.recall("gate code quixotry") == []
                assert each.recall("gate code quixotry", include_past=True) == []
                assert each.recall("gate code quixotry", valid_at=began, known_at=began) == []
                assert each.recall_sessions("gate code quixotry") == []
                assert not any("quixot" in name for name in each.hints())
                assert each.store.fact_history("gate.code") == []
                assert "quixot" not in "".join(each.export())
            model = Listener()
            edgemem.AgentLoop(model, hooks=memory.hooks(speaker="Ann")).run("What is the gate code?")
            assert "gate code" in model.newest
            assert "quixot" not in model.prompt
        assert memory.idle(30)
        assert files_with(home, STEM) == []
        assert not memory.diagnostics.eraser.pending()


def test_the_worker_erases_what_a_tool_forgot(home):
    """A robot that runs takes the bytes out by itself, also those that somebody read for a while."""
    (home / "edgemem.toml").write_text('[llama]\nembedder = ""\n[idle]\nsettle_s = 0.01\n')
    with edgemem.open(home) as memory:
        (forget,) = memory.tools(include=["forget_fact"])
        with snapshot(home / "db" / "memory.db"):
            after_a_yes(forget, key="gate.code")
            time.sleep(0.2)
            assert files_with(home, STEM)
        end = time.monotonic() + 30
        while files_with(home, STEM) and time.monotonic() < end:
            time.sleep(0.05)
        assert files_with(home, STEM) == []


def test_a_person_who_stands_in_an_episode_alone_leaves_no_word_in_the_index(home):
    """An episode that somebody wanted gone is not only marked as deleted, as one whose ring is full is."""
    with edgemem.open(home, worker=False) as memory:
        memory.forget("gate.code")
        memory.store.add_episode("game", {"won by": "quixotry"}, "ok", heard=Heard(speaker="Ben"))
        assert memory.idle(30)
        assert "index.db-wal" in files_with(home, STEM)
        assert memory.forget(person="Ben").erased == {"episodes": 1}
        assert files_with(home, STEM) == []


@pytest.mark.parametrize(
    "how", [["gate.code"], ["--session", "hall"], ["--speaker", "Ann"], ["--episode", "ID"]]
)
def test_the_command_says_with_its_exit_code_that_bytes_are_left(home, how):
    """3 where a reader keeps them, with a sentence that names the file."""
    with edgemem.open(home, worker=False) as memory:
        hooks = memory.hooks(session_id="hall", speaker="Ann")
        edgemem.AgentLoop(Caller(), hooks=hooks).run("quixotry it is")
        memory.store.add_episode("game", {"won by": "quixotry"}, "ok", heard=Heard(speaker="Ben"))
        (episode,) = memory.store.recent_episodes()
        how = [episode.id if word == "ID" else word for word in how]
        assert memory.idle(30)
    with snapshot(home / "db" / "index.db"):
        kept = run("forget", *how, "--yes", "--home", home)
        assert kept.exit_code == 3, kept.output
        assert "Erased" in kept.output
        assert "Not yet gone from index.db" in kept.output


@pytest.mark.parametrize("kind", ["facts", "sessions"])
def test_a_store_that_stands_alone_finishes_when_it_is_opened(tmp_path, kind):
    """Without a home too, a forget whose log a reader kept is finished by the next opening."""
    path = tmp_path / "mind.db"
    store = edgemem.SQLiteMemoryStore(path)
    sessions = edgemem.SQLiteSessionStore(store.database)
    store.add_fact("gate.code", "quixotry")
    sessions.save("hall", edgemem.Session([{"role": "user", "content": "quixotry"}]))
    store.database.checkpoint()
    # The second keeps the log from being emptied by the store's closing.
    with snapshot(path), closing(sqlite3.connect(path)) as other:
        assert other.execute("select count(*) from facts").fetchone()
        assert store.database.write(lambda tx: edgemem.store.erase.delete_rows.erase_session(tx, "hall"))
        store.database.write(lambda tx: edgemem.store.erase.delete_rows.erase_fact(tx, "gate.code"))
        sessions.close()
        store.close()
        assert files_with(tmp_path, STEM)
    opened = edgemem.SQLiteMemoryStore(path) if kind == "facts" else edgemem.SQLiteSessionStore(path)
    with opened:
        assert files_with(tmp_path, STEM) == []
        assert opened.database.query("select count(*) from erasings") == [(0,)]
