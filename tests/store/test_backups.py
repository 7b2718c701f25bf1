"""Backups: made in idle time, checked, bounded, named where the truth is damaged, and gone with what was forgotten."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import edgemem
from edgemem.clock import Clock
from edgemem.config import BackupSettings, LlamaSettings, Profile, Settings
from edgemem.errors import EdgememError, StoreError
from edgemem.memory import Memory
from edgemem.store.backups import Backups, backup_paths, newest_good
from edgemem.store.db.connection import Migration
from edgemem.store.db.database import Database
from edgemem.store.db.wal import stamp_of
from edgemem.store.kinds import TRUTH, open_truth, origin_of
from edgemem.store.memory_store import SQLiteMemoryStore
from support.homes import check_of, warning_of
from support.kills import kill_after, start
from support.refusals import refusal

DAY = 86_400.0


class Wall:
    def __init__(self) -> None:
        self.ahead = 0.0

    def clock(self) -> Clock:
        return Clock(wall=lambda: time.time() + self.ahead, monotonic=lambda: time.monotonic() + self.ahead)


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def memory(tmp_path: Path, wall: Wall) -> Iterator[Memory]:
    profile = Profile(llama=LlamaSettings(embedder=""), backup=BackupSettings(keep=2))
    with edgemem.open(tmp_path / "home", profile=profile, clock=wall.clock(), worker=False) as opened:
        yield opened


def backups_of(memory: Memory) -> list[Path]:
    return backup_paths(memory.home / "backups")


def value_in(path: Path, key: str, folder: Path) -> str | None:
    copy = folder / "opened.db"
    shutil.copy(path, copy)
    with SQLiteMemoryStore(copy) as store:
        return store.get_fact(key)


def test_idle_time_backs_up_what_changed_once_a_day(memory: Memory, wall: Wall, tmp_path: Path) -> None:
    """A copy a day is made and the newest ones are kept, for the owner alone; nothing new makes none."""
    memory.store.add_fact("tea", "green")
    assert memory.idle(10)
    (first,) = backups_of(memory)
    assert first.stat().st_mode & 0o777 == 0o600
    assert value_in(first, "tea", tmp_path) == "green"
    wall.ahead = 2 * DAY
    assert memory.idle(10)
    assert backups_of(memory) == [first]
    for n, tea in enumerate(("black", "white"), 3):
        memory.store.add_fact("tea", tea)
        wall.ahead = n * DAY
        assert memory.idle(10)
    newest, older = backups_of(memory)
    assert first not in (newest, older)
    assert value_in(newest, "tea", tmp_path) == "white"
    check = check_of(memory, "backups")
    assert (check.state, newest.name in check.detail) == ("ok", True)
    wall.ahead = 9 * DAY
    memory.store.add_fact("tea", "mint")
    assert check_of(memory, "backups").state == "warn"


def test_forgetting_removes_the_backups_that_hold_it(memory: Memory) -> None:
    """A fresh one without it takes their place, also where only the store forgot."""
    memory.store.add_fact("pin", "4711-zebra")
    memory.store.add_fact("tea", "green")
    memory.idle(10)
    (old,) = backups_of(memory)
    assert b"zebra" in old.read_bytes()
    begun = old.with_name(f".{old.name}.123.part")
    begun.write_bytes(old.read_bytes())
    memory.forget("pin")
    (new,) = old.parent.iterdir()
    assert new != old
    assert b"zebra" not in new.read_bytes()
    assert newest_good(old.parent) == new
    memory.idle(10)
    assert backups_of(memory) == [new]
    memory.store.forget_fact("tea")
    memory.idle(10)
    (newest,) = backups_of(memory)
    assert newest != new
    assert b"green" not in newest.read_bytes()


def test_what_was_forgotten_goes_where_no_fresh_backup_can_be_made(memory: Memory, wall: Wall) -> None:
    """Without room for a fresh one the older ones go, and `check` says that there is none."""
    memory.store.add_fact("pin", "4711-zebra")
    memory.idle(10)
    wall.ahead = 2 * DAY
    no_room = BackupSettings(max_mb=1e-6)
    memory.diagnostics.settings.now = msgspec.structs.replace(memory.profile, backup=no_room)
    memory.store.forget_fact("pin")
    memory.idle(10)
    assert list((memory.home / "backups").iterdir()) == []
    assert "there is none" in warning_of(memory, "backups")


def test_whoever_speaks_keeps_the_older_backups_until_there_is_a_fresh_one(memory: Memory) -> None:
    """A stop leaves all as it is; the next quiet replaces them."""
    memory.store.add_fact("pin", "4711-zebra")
    memory.idle(10)
    (old,) = backups_of(memory)
    memory.store.forget_fact("pin")
    assert not memory.diagnostics.backups.erase(lambda: True)
    assert backups_of(memory) == [old]
    assert memory.diagnostics.backups.erase()
    (new,) = backups_of(memory)
    assert b"zebra" not in new.read_bytes()


def test_a_truth_begun_anew_pushes_out_no_backup_before(memory: Memory, wall: Wall, tmp_path: Path) -> None:
    """Its backups are counted apart: after many days the newest of the other truth is still there."""
    with open_truth(tmp_path / "other.db", clock=wall.clock()) as other:
        SQLiteMemoryStore(other).add_fact("years", "of talk")
        years = Backups(memory.home / "backups", other).make()
    wall.ahead = -DAY
    for n in range(6):
        memory.store.add_fact("tea", f"{n}")
        wall.ahead = n * DAY
        assert memory.diagnostics.backups.work()
    assert years in backups_of(memory)
    assert len(backups_of(memory)) == 3
    assert memory.diagnostics.backups.newest() != years
    assert "1 of another memory" in check_of(memory, "backups").detail


def test_a_backup_is_made_before_the_schema_changes(memory: Memory, wall: Wall, tmp_path: Path) -> None:
    """A file of before is copied as it was; where that is impossible nothing is changed, in one sentence."""
    truth, folder = tmp_path / "x.db", memory.home / "backups"
    more = Migration("v999_more", ("delete from facts", "create table more (x)"))
    changed = TRUTH._replace(steps=(*TRUTH.steps, more))
    with open_truth(truth, clock=wall.clock()) as database:
        SQLiteMemoryStore(database).add_fact("tea", "green")
    nowhere = tmp_path / "file"
    nowhere.touch()
    with pytest.raises(EdgememError, match=r"brought up to date \(v999_more\)"):
        Database(truth, schema=changed, backups=nowhere)
    with SQLiteMemoryStore(truth) as store:
        assert store.get_fact("tea") == "green"
    for _ in range(2):
        Database(truth, schema=changed, backups=folder, clock=wall.clock()).close()
        (copy,) = backup_paths(folder)
        assert value_in(copy, "tea", tmp_path) == "green"


def test_whoever_speaks_stops_a_backup_without_a_trace(memory: Memory) -> None:
    """It is asked in small steps; what was begun is gone, and the next idle time begins anew."""
    for n in range(300):
        memory.store.add_fact(f"fact.{n}", "x" * 2000)
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > 3

    assert not memory.diagnostics.backups.work(stop)
    assert asked == 4
    assert list((memory.home / "backups").iterdir()) == []
    assert memory.diagnostics.backups.work()
    assert len(backups_of(memory)) == 1


def test_a_database_that_is_too_large_is_told_once_an_hour(tmp_path: Path, wall: Wall) -> None:
    """The cap is kept; not every turn tries again."""
    with open_truth(tmp_path / "x.db", clock=wall.clock()) as database:
        SQLiteMemoryStore(database).add_fact("tea", "green")
        database.checkpoint()
        backups = Backups(tmp_path, database, Settings(Profile(backup=BackupSettings(max_mb=0.001))))
        refusal(StoreError, backups.work, match="max_mb")
        assert not backups.work()
        wall.ahead = 3700
        refusal(StoreError, backups.work, match="max_mb")


def test_a_kill_during_a_backup_leaves_whole_ones_only(tmp_path: Path) -> None:
    """What stands under a backup's name is sound, however the process ended."""
    code = """
import sys, edgemem
from edgemem.config import BackupSettings, LlamaSettings, Profile
profile = Profile(llama=LlamaSettings(embedder=""), backup=BackupSettings(every_h=1e-9))
with edgemem.open(sys.argv[1], profile=profile, worker=False) as memory:
    for n in range(100_000):
        memory.store.add_fact(f"fact.{n}", "x" * 3000)
        memory.diagnostics.backups.work()
        print(n, flush=True)
"""
    kill_after(start(code, tmp_path / "home"), 5)
    paths = backup_paths(tmp_path / "home" / "backups")
    assert paths
    assert all(origin_of(path, thorough=True) for path in paths)
    assert all(stamp_of(path) for path in paths)
