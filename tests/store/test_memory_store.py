"""`SQLiteMemoryStore`: the names of the seed, and what they promise."""

from __future__ import annotations

import pytest

from edgemem.errors import ClosedError
from edgemem.store import Database, SQLiteMemoryStore


@pytest.fixture
def store(tmp_path, clock):
    """Return an open store."""
    with SQLiteMemoryStore(tmp_path / "memory.db", clock=clock) as opened:
        yield opened


@pytest.mark.parametrize("keep", [3, 20])
def test_only_the_newest_episodes_are_kept(tmp_path, keep):
    """The oldest go when there are too many, the index hears of it, and nobody sees more than were asked for."""
    with SQLiteMemoryStore(tmp_path / "memory.db", max_episodes=keep) as store:
        for n in range(3 * keep):
            store.add_episode("k", {"n": n}, "ok")
            seen = [e.payload["n"] for e in store.recent_episodes(10**6)]
            assert seen == list(range(max(0, n + 1 - keep), n + 1))
        stored, queued = store.database.query(
            "select (select count(*) from episodes), (select count(*) from index_queue where kind = 'episode')"
        )[0]
        assert stored <= keep + keep // 10
        assert stored + queued == 3 * keep


def test_an_open_database_is_used_and_not_closed(tmp_path):
    """Stores over one database share its file; who opened it closes it."""
    with Database(tmp_path / "memory.db") as database:
        with SQLiteMemoryStore(database) as store:
            store.add_fact("a", "red")
        assert database.query("select count(*) from fact_keys") == [(1,)]
    with pytest.raises(ClosedError):
        store.get_fact("a")
