"""The index under kill -9, under several processes with several models, and on a card that turns bits over."""

import random
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from edgemem.recall.index.index import Index
from edgemem.recall.index.sources import SOURCES, read_docs
from edgemem.recall.recall import Recall, Request
from edgemem.store.kinds import open_truth
from edgemem.store.memory_store import SQLiteMemoryStore
from support.embedders import HashEmbedder
from support.homes import check, count_docs, say, work
from support.kills import kill_after, start
from support.selection import LONG

TURNS = 60
DAMAGED = (TypeError, ValueError, LookupError, AttributeError)
"""What comes out of a search when a number or a name in the file is none any more."""

# A robot that keeps its index up until it is killed, with one model after the other.
WORKER = """
    import itertools, sys
    from support.embedders import HashEmbedder
    from edgemem.recall.index.index import Index
    from edgemem.store.kinds import open_truth

    folder, *names = sys.argv[1:]
    with open_truth(folder + "/memory.db") as truth:
        for name in itertools.cycle(names):
            embedder = HashEmbedder(64, name=name)
            with Index(folder + "/index.db", truth, embedder=embedder) as index:
                print("begun", flush=True)
                while index.catch_up(7) + index.embed_pending(5):
                    print("step", flush=True)
            if "once" in names:
                break
"""


def fill(folder: Path, first: int = 0, count: int = TURNS) -> None:
    with open_truth(folder / "memory.db") as truth, SQLiteMemoryStore(truth) as store:
        for n in range(first, first + count):
            say(truth, n, f"question {n} about boat {n % 7}", f"answer {n}")
        for n in range(first, first + count, 6):
            store.add_fact(f"person{n}.drawer", f"number {n}. " * (40 if n % 12 else 1))


def finish(folder: Path, name: str) -> None:
    embedder = HashEmbedder(64, name=name)
    with (
        open_truth(folder / "memory.db") as truth,
        Index(folder / "index.db", truth, embedder=embedder) as index,
    ):
        work(index)
        assert index.pending() == {"text": 0, "changes": 0, "vectors": 0}
        check(index)
        messages = truth.query("select count(*) from messages")[0][0]
        facts = truth.query("select count(*) from facts where id = origin and value is not null")[0][0]
        assert count_docs(index) == messages + facts
        vectors = index.vectors(index.state())
        for source in SOURCES:
            some = "select id, ref from docs where id % 10 = 0 and kind = ?"
            rows = index.database.query(some, (source.kind,))
            texts = read_docs(truth, source, [ref for _, ref in rows], truth.clock.now())
            for number, ref in rows:
                asked = embedder.embed_query(texts[ref].text)
                if texts[ref].relation:  # a fact lies between all of it and what it says of its subject
                    asked = asked + embedder.embed_query(texts[ref].relation)
                    asked /= np.linalg.norm(asked)
                assert vectors.cosines(asked, [number])[number] > 0.99


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4 if LONG else 1))
def test_killed_while_it_builds_embeds_or_changes_models_it_goes_on(tmp_path, seed):
    """At whatever moment it dies, the file is sound, and no vector is of another model."""
    fill(tmp_path)
    dice = random.Random(seed)
    for round_ in range(3):
        process = start(WORKER, tmp_path, "old", "new")
        kill_after(process, dice.randint(1, 80), pause_s=dice.random() * 0.02)
        fill(tmp_path, (round_ + 1) * TURNS, 6)
    finish(tmp_path, "old")
    finish(tmp_path, "new")
    finish(tmp_path, "old")


def test_processes_with_different_models_do_not_mix(tmp_path):
    """Two with one model and one with another work on one file at once: the newest model gets all its vectors, once."""
    fill(tmp_path)
    processes = [start(WORKER, tmp_path, name, "once") for name in ("old", "new", "old")]
    fill(tmp_path, TURNS, 10)
    for process in processes:
        assert process.wait(60) == 0
        process.stdout.close()
    with open_truth(tmp_path / "memory.db") as truth, Index(tmp_path / "index.db", truth) as index:
        check(index)
    for model in ("old", "new"):
        finish(tmp_path, model)
        with open_truth(tmp_path / "memory.db") as truth, Index(tmp_path / "index.db", truth) as index:
            check(index)
            assert index.database.query("select value from meta where key = 'model'") == [(f"64 {model}:64",)]
            assert index.database.query("select count(*) from vectors")[0][0] > TURNS * 2


@pytest.mark.long
def test_many_questions_from_eight_threads_while_two_processes_write(tmp_path):
    """Every question is answered with what is there, by words and meaning, while the index is built and embedded."""
    fill(tmp_path, count=20)
    finish(tmp_path, "old")
    writers = [start(TALKER, tmp_path, name) for name in ("x", "y")]
    failures: list[BaseException] = []
    answered: list[bool] = []
    embedder = HashEmbedder(64, name="old")
    with (
        open_truth(tmp_path / "memory.db") as truth,
        Index(tmp_path / "index.db", truth, embedder=embedder) as index,
    ):
        recall = Recall(truth, index, embedder=embedder)

        def ask(thread: int) -> None:
            try:
                for n in range(125 if LONG else 25):
                    found = recall.recall(f"answer {(thread + n) % 20}", Request(reader=None, k=3))
                    answered.append(any(item.text == f"answer {(thread + n) % 20}" for item in found))
            except BaseException as error:  # noqa: BLE001 - it is raised below, in the test's own thread
                failures.append(error)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            index.catch_up(50)
            index.embed_pending(8)
        for thread in threads:
            thread.join()
    for writer in writers:
        writer.terminate()
        writer.stdout.close()
        writer.wait(10)
    assert failures == []
    assert len(answered) == (1000 if LONG else 200)
    assert all(answered)
    finish(tmp_path, "old")


TALKER = """
    import sys
    from support.embedders import HashEmbedder
    from edgemem.recall.index.index import Index
    from edgemem.records import StoredMessage, Turn
    from edgemem.store import turns
    from edgemem.store.kinds import open_truth

    folder, name = sys.argv[1:]
    embedder = HashEmbedder(64, name="old")
    with open_truth(folder + "/memory.db") as truth, Index(folder + "/index.db", truth, embedder=embedder) as index:
        for n in range(10_000):
            said = StoredMessage("user", f"harbour {name} {n}"), StoredMessage("assistant", f"reply {name} {n}")
            truth.write(lambda tx: turns.commit_turn(tx, Turn(name, n, said)))
            if n % 5 == 0:
                index.catch_up(20)
                index.embed_pending(10)
"""


def test_an_index_that_another_process_made_again_is_opened_again(tmp_path):
    """Two processes find the same damage: one makes the file anew, the other takes that, and neither deletes the other's."""
    fill(tmp_path, count=10)
    finish(tmp_path, "old")
    with open_truth(tmp_path / "memory.db") as truth:
        embedder = HashEmbedder(64, name="old")
        first = Index(tmp_path / "index.db", truth, embedder=embedder)
        second = Index(tmp_path / "index.db", truth, embedder=embedder)
        first.damaged = second.damaged = True
        work(first)
        file = first.path.stat().st_ino
        recall = Recall(truth, second, embedder=embedder)
        assert recall.recall("answer 7", Request(reader=None, k=1))[0].text == "answer 7"
        second.damaged = False
        assert recall.recall("answer 7", Request(reader=None, k=1))[0].text == "answer 7"
        assert second.damaged
        work(second)
        assert first.path.stat().st_ino == file
        assert count_docs(first) == count_docs(second)
        assert first.catch_up() == second.catch_up() == 0
        first.path.unlink()
        work(second)
        assert count_docs(second) == 22
        check(second)
        first.close()
        second.close()
        check_again = Index(tmp_path / "index.db", truth, embedder=embedder)
        check(check_again)
        check_again.close()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["cut", "flipped"])
@pytest.mark.parametrize("live", [False, True], ids=["closed", "open"])
def test_a_damaged_index_costs_no_answer(tmp_path, kind, live):
    """Cut anywhere or with bits flipped, found when it is opened or while it is used: questions are answered, and it heals."""
    fill(tmp_path, count=20)
    finish(tmp_path, "old")
    path = tmp_path / "index.db"
    good = path.read_bytes()
    with open_truth(tmp_path / "memory.db") as truth:
        for seed in range(8 if LONG else 2):
            dice = random.Random(seed)
            for suffix in ("-wal", "-shm", ""):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            path.write_bytes(good if live else damaged(good, kind, dice))
            embedder = HashEmbedder(64, name="old")
            with Index(path, truth, embedder=embedder) as index:
                recall = Recall(truth, index, embedder=embedder)
                if live:
                    if seed % 2:
                        recall.recall("answer", Request(reader=None))
                    with path.open("r+b") as file:
                        file.write(broken := damaged(good, kind, dice))
                        file.truncate(len(broken))
                for _ in range(2):
                    ask_anyway(recall, index, "answer 7", "person6 drawer?", "boats", "")
                    index.pending()
                    index.catch_up()
                    index.embed_pending()
                    index.warm()
                found = recall.recall("answer 7", Request(reader=None, k=3))
                assert "answer 7" in [item.text for item in found]


def ask_anyway(recall: Recall, index: Index, *questions: str) -> None:
    """Ask as a turn does, which goes on without an answer rather than not at all."""
    for question in questions:
        with index_suspected(index):
            recall.recall(question, Request(reader=None))


@contextmanager
def index_suspected(index):
    try:
        yield
    except DAMAGED as error:
        index.suspect(error)


def damaged(good: bytes, kind: str, dice: random.Random) -> bytes:
    if kind == "cut":
        return good[: dice.randrange(len(good))]
    data = bytearray(good)
    for _ in range(dice.choice([1, 3, 30, 300])):
        at = dice.randrange(len(data)) if dice.random() < 0.7 else dice.randrange(4096)
        data[at] ^= 1 << dice.randrange(8)
    return bytes(data)


def test_a_file_that_was_suspected_wrongly_stays(tmp_path):
    """Something came out of it that cannot be; upkeep looks at the file, finds it sound, and leaves it as it is."""
    fill(tmp_path, count=10)
    finish(tmp_path, "old")
    with open_truth(tmp_path / "memory.db") as truth, Index(tmp_path / "index.db", truth) as index:
        file = index.path.stat().st_ino
        index.suspect(KeyError(7))
        index.catch_up()
        assert index.path.stat().st_ino == file
        check(index)
