"""Files that are replaced, removed or overwritten under a running robot: noticed, never acknowledged and gone."""

import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import edgemem
from edgemem.config import BackupSettings, LlamaSettings, Profile
from edgemem.errors import ReplacedError
from edgemem.memory import Memory
from edgemem.store.backups import backup_paths
from edgemem.store.kinds import open_truth
from edgemem.store.memory_store import SQLiteMemoryStore
from support.homes import check_of
from support.loops import side_by_side
from support.refusals import refusal
from support.selection import cases

LONG = (
    "with recursive n (i) as (values (0) union all select i + 1 from n where i < 300000) select max(i) from n"
)
PROFILE = Profile(llama=LlamaSettings(embedder=""), backup=BackupSettings(every_h=1e-9))


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """Return an open memory with a backup, and with a fact in its log."""
    with edgemem.open(tmp_path / "home", profile=PROFILE, worker=False) as opened:
        opened.store.add_fact("tea", "green")
        opened.idle(10)
        opened.store.add_fact("tea", "black")
        yield opened


def truth(home: Path) -> Path:
    return home / "db" / "memory.db"


def replace(home: Path) -> None:
    copy = shutil.copy(backup_paths(home / "backups")[0], home / "db" / "copy")
    Path(copy).replace(truth(home))


def overwrite(home: Path) -> None:
    """Write a copy over the truth, as `cp` does: it is the same inode then."""
    shutil.copyfile(backup_paths(home / "backups")[0], truth(home))


HANDS: dict[str, Callable[[Path], object]] = {
    "deleted": lambda home: truth(home).unlink(),
    "moved": lambda home: truth(home).rename(home / "elsewhere"), "replaced": replace,
    "overwritten": overwrite, "emptied": lambda home: truth(home).write_bytes(b""),
    "log deleted": lambda home: truth(home).with_name("memory.db-wal").unlink(),
    "folder deleted": lambda home: shutil.rmtree(home / "db"), "home deleted": shutil.rmtree,
}  # fmt: skip


@pytest.mark.parametrize("hand", HANDS)
def test_a_write_to_files_that_are_gone_is_refused_and_check_says_so(memory: Memory, hand: str) -> None:
    """One sentence tells what to do, with each write, and in another thread too."""
    assert check_of(memory, "database").state == "ok"
    HANDS[hand](memory.home)
    for _ in range(2):
        with pytest.raises(ReplacedError, match="stop the robot and start it again"):
            memory.store.add_fact("tea", "white")
    row = check_of(memory, "database")
    assert (row.state, "nothing more is stored" in row.detail) == ("fail", True)
    memory.idle(1)


@pytest.mark.parametrize("hand", ["deleted", "replaced", "folder deleted"])
def test_nobody_reads_from_files_that_took_their_place(memory: Memory, hand: str) -> None:
    """Every thread still sees what it knew; who needs a further connection is told."""
    HANDS[hand](memory.home)
    seen: list[str | None] = []
    thread = threading.Thread(target=lambda: seen.append(memory.store.get_fact("tea")))
    thread.start()
    thread.join()
    assert [*seen, memory.store.get_fact("tea")] == ["black", "black"]
    database = memory.diagnostics.database
    refusal(ReplacedError, side_by_side, *[lambda: database.query(LONG)] * 4)


def test_a_store_that_is_opened_by_its_path_notices_too(tmp_path: Path) -> None:
    """It would make a missing file when it is opened, and not while it is."""
    with SQLiteMemoryStore(tmp_path / "x.db") as store:
        store.add_fact("tea", "green")
        (tmp_path / "x.db").unlink()
        refusal(ReplacedError, store.add_fact, "tea", "black")


def test_others_who_write_and_checkpoint_are_not_mistaken(tmp_path: Path) -> None:
    """Two databases on one file empty the log in turn, and write on; so do those that come and go."""
    path = tmp_path / "x.db"
    with open_truth(path) as one, open_truth(path) as other:
        for n in range(20):
            for database in (one, other):
                database.write(lambda tx, n=n: tx.execute("insert or replace into meta values ('n', ?)", [n]))
                database.checkpoint()
                os.utime(tmp_path / "x.db-shm")
            with open_truth(path) as third:
                third.write(lambda tx: tx.execute("insert or replace into meta values ('third', 1)"))
            one.check_files()
            other.check_files()
        assert one.query("select value from meta where key = 'n'") == [(19,)]


_WRITES_AND_EMPTIES = """
import sys
from edgemem.store.db.database import Database
from edgemem.store.kinds import open_truth

with open_truth(sys.argv[1]) as database:
    print("open", flush=True)
    for n in range(100_000):
        database.write(lambda tx: tx.execute("insert or replace into meta values ('child', ?)", (n,)))
        database.checkpoint()
"""


@pytest.mark.long
def test_a_process_that_dies_while_it_empties_the_log_stops_nobody_else(tmp_path: Path) -> None:
    """Whoever has the same file open writes on, wherever the other was killed."""
    path = tmp_path / "x.db"
    rng = random.Random(14)
    with open_truth(path) as database:
        for n in range(cases(200)):
            command = [sys.executable, "-c", _WRITES_AND_EMPTIES, str(path)]
            child = subprocess.Popen(command, stdout=subprocess.PIPE)
            with child:
                assert child.stdout is not None
                child.stdout.readline()
                time.sleep(rng.uniform(0, 0.05))
                child.kill()
            database.write(lambda tx, n=n: tx.execute("insert or replace into meta values ('n', ?)", (n,)))
            database.checkpoint()
