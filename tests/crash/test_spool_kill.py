"""kill -9 while turns are written on a disk that is full or held at random, and several processes in one home."""

import itertools
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from edgemem.records import Turn
from edgemem.store import SQLiteMemoryStore
from edgemem.store.journal import TurnJournal
from edgemem.store.kinds import open_truth
from edgemem.store.spool import read_foreign_spool, spool_paths
from support.kills import kill_after, start
from support.oracles import has_one_value_at_each_moment
from support.selection import LONG, cases

ROOT = Path(__file__).parents[2]
LIVES = 12  # kills that one database survives before the next begins
TURNS = 10_000  # more than a robot comes to before it is killed


class Told(NamedTuple):
    session: str
    states: list[str]  # those that a kill may leave it in


def read_told(lines: list[str], told: dict[int, Told], order: list[int]) -> None:
    """Take in what a robot printed: after `ok`, only the newest state of each turn is possible."""
    pending: set[int] = set()
    for line in lines:
        if line == "ok":
            for n in pending:
                del told[n].states[:-1]
            pending.clear()
        elif line.startswith("do"):
            _, number, state, session = line.split()
            told.setdefault(int(number), Told(session, ["gone"])).states.append(state)
            pending.add(int(number))
            if state == "complete":
                order.append(int(number))


def number_of(turn: Turn) -> int:
    return int(str(turn.messages[0].content).split()[1])


def check(turns: list[Turn], told: dict[int, Told], order: list[int], session: str) -> None:
    """Check one session: nothing that was acknowledged is lost, nothing is there twice, out of order, or behind a gap."""
    numbers = [number_of(turn) for turn in turns]
    assert len(numbers) == len(set(numbers)), numbers
    states = {number_of(turn): turn.state.replace("unfinished", "open") for turn in turns}
    expected = {n: each.states for n, each in told.items() if each.session == session}
    wrong = {n: (states.get(n, "gone"), of) for n, of in expected.items() if states.get(n, "gone") not in of}
    assert not wrong, wrong
    assert set(numbers) <= set(expected)
    ended = [n for n in numbers if states[n] != "open"]
    assert ended == [n for n in order if n in set(ended)], "out of order"
    for turn in turns:
        reply = str(turn.messages[-1].content)
        if states[number_of(turn)] == "complete":
            assert reply.startswith(f"answer {number_of(turn)} ")
        elif states[number_of(turn)] == "interrupted":
            assert reply == "answer"
            assert str(turn.messages[-1].unheard).startswith(f" {number_of(turn)} ")


def hold(path: Path, chance: random.Random, done: threading.Event) -> None:
    """Hold the database at random moments, as another program does."""
    while not done.wait(chance.uniform(0.0, 0.1)):
        with closing(sqlite3.connect(path, isolation_level=None, timeout=0.0)) as other:
            try:
                other.execute("begin immediate")
            except sqlite3.OperationalError:
                continue
            done.wait(chance.uniform(0.0, 0.15))
            other.execute("rollback")


@pytest.mark.long
def test_no_kill_loses_repeats_or_reorders_a_turn(tmp_path: Path) -> None:
    """Whatever the disk does: what was acknowledged is there once and in order, and the kept ones leave no gap."""
    told: dict[int, Told] = {}
    order: list[int] = []
    waited = 0
    for kill in range(cases(240)):
        chance = random.Random(kill)
        if kill % LIVES == 0:
            path = tmp_path / f"{kill}" / "x.db"
            open_truth(path).close()
            told, order = {}, []
        robot = subprocess.Popen(
            [sys.executable, *map(str, (Path(__file__).parent / "spool_robot.py", path, kill, kill * TURNS))],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        lines = [robot.stdout.readline()]
        done = threading.Event()
        holder = threading.Thread(target=hold, args=(path, chance, done))
        if kill % 3:
            holder.start()
        time.sleep(chance.uniform(0.0, 0.5))
        robot.send_signal(signal.SIGKILL)
        lines += robot.stdout.read().splitlines(keepends=True)
        robot.stdout.close()
        assert robot.wait() == -signal.SIGKILL
        done.set()
        if kill % 3:
            holder.join()
        texts = (text for spool in spool_paths(path) for text in read_foreign_spool(spool)[0])
        waited += any(b'"commit"' in text for text in texts)
        # The kill may have cut the last line off.
        read_told([line.strip() for line in lines if line.endswith("\n")], told, order)
        for _ in range(2):
            with open_truth(path) as database:
                assert database.quick_check() == []
                journal = TurnJournal(database)
                kept = set()
                for session in ("kitchen", "hall"):
                    turns = journal.read_turns(session)
                    check(turns, told, order, session)
                    kept |= {number_of(turn) for turn in turns}
                newest = [n in kept for n in order if n > kill * TURNS]
                assert newest == sorted(newest, reverse=True), "a gap"
                assert not any(read_foreign_spool(spool)[0] for spool in spool_paths(path))
                journal.close()
    assert waited > cases(240) // 20, "turns hardly ever waited when the kill came"


def test_several_processes_writing_one_key_leave_one_value(tmp_path):
    """3 processes x 100 writes of one key: no moment has two values, none is lost, order is strict."""
    code = """
        import sys
        from edgemem.store import SQLiteMemoryStore
        from edgemem.store.kinds import open_truth
        # Longer than a slow disk needs for 300 commits: who waits for the lock is not served in turn.
        with open_truth(sys.argv[1], busy_timeout_s=200) as database, SQLiteMemoryStore(database) as store:
            store.database.write(lambda tx: tx.execute("pragma user_version"))
            for n in range(100):
                store.add_fact("key", f"{sys.argv[2]}-{n}")
    """
    path = tmp_path / "memory.db"
    for process in [start(code, path, name) for name in "abc"]:
        assert process.wait(240) == 0
        process.stdout.close()
    with SQLiteMemoryStore(path) as store:
        assert store.database.quick_check() == []
        history = store.fact_history("key")
        assert len(history) == 300
        for name in "abc":
            mine = [f.value for f in history if f.value.startswith(name)]
            assert mine == [f"{name}-{n}" for n in range(100)]
        assert all(a.recorded_at < b.recorded_at for a, b in itertools.pairwise(history))
        assert all(a.superseded_by == b.id and b.supersedes == a.id for a, b in itertools.pairwise(history))
        assert store.get_fact("key") == history[-1].value
        ((key_id,),) = store.database.query("select id from fact_keys")
        has_one_value_at_each_moment(store.database, key_id)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5 if LONG else 2))
def test_what_was_acknowledged_survives_a_kill(tmp_path, seed):
    """A process killed with -9 in the middle of writing loses nothing that add_fact had returned from."""
    code = """
        import sys
        from edgemem.store import SQLiteMemoryStore
        store = SQLiteMemoryStore(sys.argv[1])
        for n in range(100_000):
            store.add_fact(f"k{n % 7}", f"value {n} of it")
            print(n, flush=True)
    """
    path = tmp_path / "memory.db"
    acknowledged = len(kill_after(start(code, path), random.Random(seed).randint(2, 151))) - 1
    with SQLiteMemoryStore(path) as store:
        assert store.database.quick_check() == []
        found = {f.value for n in range(7) for f in store.fact_history(f"k{n}")}
        assert {f"value {n} of it" for n in range(acknowledged + 1)} <= found
        assert len(found) <= acknowledged + 2
        assert {f.value for f in store.facts()} <= found
        store.add_fact("after", "all")
        assert store.get_fact("after") == "all"


def test_episodes_stay_few_where_several_processes_are_killed(tmp_path):
    """Each process that writes episodes leaves a tenth more at most, also one that is killed; whatever went is queued."""
    code = """
        import sys
        from edgemem.store import SQLiteMemoryStore
        store = SQLiteMemoryStore(sys.argv[1], max_episodes=50)
        for n in range(100_000):
            store.add_episode("k", {"n": n}, "ok")
            print(n, flush=True)
    """
    path, most = tmp_path / "memory.db", 50 + 3 * 5
    written = 0
    for _ in range(2):
        running = [start(code, path) for _ in range(3)]
        written += sum(len(kill_after(process, 70)) for process in running)
        with SQLiteMemoryStore(path, max_episodes=50) as store:
            ((kept,),) = store.database.query("select count(*) from episodes")
            ((queued,),) = store.database.query("select count(*) from index_queue where kind = 'episodes'")
            assert kept <= most
            assert len(store.recent_episodes(10**6)) == 50
            # Of each process, one may have been written that nobody was told of.
            assert written <= kept + queued <= written + 6
            written = kept + queued
            assert store.database.quick_check() == []
