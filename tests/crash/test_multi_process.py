"""Several processes on one file, and processes that are killed."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from edgemem.store import SQLiteMemoryStore
from support.kills import kill_after, start
from support.selection import LONG


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
        columns = "valid_from, coalesce(valid_to, 9e999), recorded, coalesce(known_to, 9e999)"
        rows = store.database.query(f"select {columns} from facts")
        believed = sorted((a, b) for a, b, _, d in rows if d == math.inf)
        assert all(left[1] == right[0] for left, right in itertools.pairwise(believed))
        for (a, b, c, d), (e, f, g, h) in itertools.combinations(rows, 2):
            assert not (a < f and e < b and c < h and g < d)


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
