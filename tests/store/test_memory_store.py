"""`SQLiteMemoryStore`: the names of the seed, and what they promise."""

from __future__ import annotations

import pytest

from edgemem.config import Profile, Settings, StoreSettings
from edgemem.errors import ClosedError
from edgemem.store import Database, SQLiteMemoryStore
from edgemem.store.db.transaction import Transaction
from edgemem.store.episodes import append_episode


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


def stored_episodes(store):
    """Return how many episodes stand in the file."""
    return store.database.query("select count(*) from episodes")[0][0]


def counts(store, monkeypatch):
    """Return a list that grows by one each time all episodes are counted."""
    found, execute = [], Transaction.execute

    def spy(self, sql, parameters=()):
        if "count(*) from episodes" in sql:
            found.append(sql)
        return execute(self, sql, parameters)

    monkeypatch.setattr(Transaction, "execute", spy)
    return found


def test_episodes_are_counted_once_for_many(tmp_path, monkeypatch):
    """What is kept is not counted with each episode: only each tenth of it, and once more after a trim."""
    with SQLiteMemoryStore(tmp_path / "memory.db", max_episodes=100) as store:
        counted = counts(store, monkeypatch)
        for n in range(121):
            store.add_episode("k", {"n": n}, "ok")
        assert stored_episodes(store) == 110
        # Each eleventh, which leaves ten more; the one too many, which leaves 100, and the next.
        assert len(counted) == 12


def test_two_stores_of_one_file_keep_a_tenth_more_at_most_each(tmp_path):
    """Stores that write in turns, as processes do, count what the other wrote before they let it grow further."""
    path = tmp_path / "memory.db"
    with SQLiteMemoryStore(path, max_episodes=50) as one, SQLiteMemoryStore(path, max_episodes=50) as other:
        for n in range(400):
            (one if n % 3 else other).add_episode("k", {"n": n}, "ok")
            assert stored_episodes(one) <= 50 + 2 * 5
            newest = [e.payload["n"] for e in one.recent_episodes(10**6)]
            assert newest == list(range(max(0, n + 1 - 50), n + 1))
        queued = one.database.query("select count(*) from index_queue where kind = 'episode'")[0][0]
        assert stored_episodes(one) + queued == 400


def test_a_store_that_is_opened_again_counts_first(tmp_path):
    """Programs that write one episode each and end keep no more than one that goes on."""
    for n in range(30):
        with SQLiteMemoryStore(tmp_path / "memory.db", max_episodes=10) as store:
            store.add_episode("k", {"n": n}, "ok")
            assert stored_episodes(store) <= 11


def test_a_trim_that_was_rolled_back_is_made_up_for(tmp_path):
    """What a transaction remembers of a trim that never happened keeps nobody from trimming."""
    with SQLiteMemoryStore(tmp_path / "memory.db", max_episodes=50) as store:
        for n in range(55):
            store.add_episode("k", {"n": n}, "ok")

        def fails(tx):
            for _ in range(3):
                append_episode(tx, "k", {}, "ok", keep=50)
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            store.database.write(fails)
        assert stored_episodes(store) == 55
        for n in range(7):
            store.add_episode("k", {"n": n}, "ok")
            assert stored_episodes(store) <= 58
        assert stored_episodes(store) <= 55


def test_forgetting_lets_more_come_and_another_bound_counts_anew(tmp_path):
    """Episodes that were erased make room; a store with a smaller bound does not trust what one with a larger counted."""
    settings = Settings(Profile(store=StoreSettings(max_episodes=100)))
    with SQLiteMemoryStore(tmp_path / "memory.db", settings=settings) as store:
        for n in range(60):
            store.add_episode("k", {"n": n}, "ok")
        settings.now = Profile(store=StoreSettings(max_episodes=20))
        store.add_episode("k", {"n": 60}, "ok")
        assert stored_episodes(store) == 20
        store.database.write(lambda tx: tx.execute("delete from episodes"))
        for n in range(25):
            store.add_episode("k", {"n": n}, "ok")
            assert stored_episodes(store) <= 22


def test_an_open_database_is_used_and_not_closed(tmp_path):
    """Stores over one database share its file; who opened it closes it."""
    with Database(tmp_path / "memory.db") as database:
        with SQLiteMemoryStore(database) as store:
            store.add_fact("a", "red")
        assert database.query("select count(*) from fact_keys") == [(1,)]
    with pytest.raises(ClosedError):
        store.get_fact("a")
