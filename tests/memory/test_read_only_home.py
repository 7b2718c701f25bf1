"""A home that cannot be written, as on a card that the kernel has remounted: it is read all the same, and says so."""

import hashlib
import json
import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import edgemem
from edgemem.store.memory_store import SQLiteMemoryStore
from support.cli import ROOT, one_sentence
from support.disks import UNSHARE, can_mount
from support.homes import home_with, warning_of
from support.loops import python, robot

_MOUNT = "mount --bind {0} {0} && mount -o remount,bind,ro {0} && exec "

_COMMANDS = """
import json, sys
from click.testing import CliRunner
from edgemem.cli import main
results = [CliRunner().invoke(main, args) for args in json.loads(sys.argv[1])]
print(json.dumps([(result.exit_code, result.stdout, result.stderr) for result in results]))
"""

MODES = ["rights", *(["mount"] if can_mount(_MOUNT) else [])]
"""Rights bind everybody everywhere; a disk that is really mounted so, only where that is allowed."""


class Locked:
    """A home that no process of ours may write."""

    def __init__(self, home: Path, mode: str) -> None:
        self.home = home
        # Root may write everywhere; without this power it is as bound by rights as everybody else.
        self._before = (
            ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
        )
        self._mode = mode

    def run(self, *commands: tuple[object, ...]) -> list[tuple[int, str, str]]:
        """Run commands on it, all in one process of their own."""
        args = [[*map(str, command), "--home", str(self.home)] for command in commands]
        return [tuple(result) for result in json.loads(self.program(_COMMANDS, json.dumps(args)))]

    def program(self, code: str, *args: str) -> str:
        """Run a program in a process of its own, and return what it printed."""
        command = [sys.executable, "-c", code, *args]
        if self._mode == "mount":
            home = shlex.quote(str(self.home))
            command = [*UNSHARE, "sh", "-c", _MOUNT.format(home) + shlex.join(command)]
        else:
            command = [*self._before, *command]
            self._allow(write=False)
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)
        finally:
            if self._mode == "rights":
                self._allow(write=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _allow(self, *, write: bool) -> None:
        for path in (self.home, *self.home.rglob("*")):
            mode = path.stat().st_mode
            path.chmod(mode | 0o200 if write else mode & ~0o222)


def digests(home: Path) -> dict[Path, str]:
    return {p: hashlib.sha256(p.read_bytes()).hexdigest() for p in home.rglob("*") if p.is_file()}


def closed(home: Path) -> None:
    """Leave it as a clean end does: without a log."""
    assert not (home / "db" / "memory.db-wal").exists()


def killed(home: Path) -> None:
    """Leave it as a kill does: with a log that holds most of it."""
    process = python(
        robot('memory.store.add_fact("oven", "is hot")\nprint("stored", flush=True)\nsys.stdin.readline()'),
        home,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "stored\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert (home / "db" / "memory.db-wal").stat().st_size


def carried(home: Path) -> None:
    """Leave the log of a kill without what SQLite's processes shared, as on a card that was put into another board."""
    killed(home)
    for path in (home / "db").glob("*-shm"):
        path.unlink()


def without_index(home: Path) -> None:
    for path in (home / "db").glob("index.db*"):
        path.unlink()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Return a closed home with a fact, a note and a conversation."""
    path = home_with(tmp_path / "home", wait=60)
    with edgemem.open(path, worker=False) as memory:
        memory.store.add_fact("kettle", "is blue")
        memory.notes.append("The canoe is at the lake.")
        memory.idle(10)
    yield path
    for left in (path, *path.rglob("*")):
        left.chmod(left.stat().st_mode | 0o700)


READERS = {
    ("facts",): "is blue", ("recall", "kettle", "--json"): "is blue", ("recall", "canoe"): "lake",
    ("export",): "is blue", ("inspect", "prompt", "What about the kettle?"): "is blue",
    ("stats",): "facts", ("notes",): "canoe", ("query", "select content from thoughts"): "is blue", ("why", "kettle"): "is blue",
}  # fmt: skip
"""Commands, and what each prints of the memory."""


@pytest.mark.parametrize(
    ("mode", "leave"),
    [*(("rights", leave) for leave in (closed, killed, without_index)), (MODES[-1], carried)],
)
def test_everything_that_reads_works_and_tells(home: Path, mode: str, leave: Callable[[Path], None]) -> None:
    """Whatever the last process left, the memory answers, nothing is changed, and nothing is left outside."""
    leave(home)
    before = digests(home)
    locked = Locked(home, mode)
    scratch = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else Path("/tmp")
    results = locked.run(*READERS, ("check", "--json"))
    for (args, words), (code, out, err) in zip(READERS.items(), results, strict=False):
        assert (code, "Traceback" in err) == (0, False), (args, out, err)
        assert words in out, args
        assert "is read-only; nothing can be stored" in err
    if leave in (killed, carried):
        assert "is hot" in results[0][1]
    code, out, _ = results[-1]
    rows = {row["name"]: row for row in json.loads(out)}
    assert (code, rows["disk"]["state"]) == (1, "fail")
    assert "read-only" in rows["disk"]["detail"]
    assert {name for name, row in rows.items() if row["state"] == "fail"} == {"disk"}
    assert digests(home) == before
    assert not list(scratch.glob(".edgemem-scratch-*"))


def test_whatever_would_write_is_refused_in_one_sentence(home: Path) -> None:
    """A fact, a note, a forget, an import and a restore; a copy can be made elsewhere."""
    before = digests(home)
    writers = (
        *(("facts", "add", "tea", "green"), ("notes", "add", "x")),
        *(("forget", "kettle", "--yes"), ("restore", "--yes")),
    )
    *refused, (code, _, err) = Locked(home, MODES[-1]).run(*writers, ("backup", home.parent / "saved.db"))
    for args, result in zip(writers, refused, strict=True):
        assert result[:2] == (1, ""), args
        assert one_sentence(*result)
    assert digests(home) == before
    assert code == 0, err
    with SQLiteMemoryStore(home.parent / "saved.db") as store:
        assert store.get_fact("kettle") == "is blue"


def test_a_robot_on_such_a_disk_remembers_and_is_told_that_it_stores_nothing(home: Path) -> None:
    """Recall works in the process too; a write raises ReadOnlyError, and idle work does no harm."""
    code = """
import sys, edgemem
from edgemem.errors import ReadOnlyError
with edgemem.open(sys.argv[1], worker=False) as memory:
    print(memory.recall("kettle")[0].value)
    try:
        memory.store.add_fact("tea", "green")
    except ReadOnlyError as error:
        print(error)
    memory.idle(5)
    print(memory.diagnostics.upkeep.failures())
    print(memory.recall("kettle")[0].value)
"""
    seen = Locked(home, MODES[-1]).program(code, str(home)).splitlines()
    assert (seen[0], seen[2], seen[3]) == ("is blue", "[]", "is blue")
    assert "to be read only" in seen[1]


def test_what_killed_readers_left_in_memory_is_cleared(home: Path) -> None:
    """A copy that nobody holds any more goes with the next one."""
    place = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else Path("/tmp")
    left = place / ".edgemem-scratch-999999999-left"
    left.mkdir()
    (left / "memory.db").write_text("a secret")
    assert Locked(home, "rights").run(("facts",))[0][0] == 0
    assert not left.exists()


def test_backups_that_are_a_file_are_no_reason_not_to_open(home: Path) -> None:
    """Facts are stored; `check` says what to do, and the file stays."""
    shutil.rmtree(home / "backups")
    (home / "backups").write_text("mine")
    with edgemem.open(home, worker=False) as memory:
        memory.store.add_fact("tea", "green")
        memory.idle(5)
        assert "is no folder" in warning_of(memory, "backups")
    assert (home / "backups").read_text() == "mine"


def _socket(path: Path) -> None:
    import socket

    with closing(socket.socket(socket.AF_UNIX)) as opened:
        here = Path.cwd()
        os.chdir(path.parent)  # its name may be longer than such an address
        try:
            opened.bind(path.name)
        finally:
            os.chdir(here)


def _foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("create table mine (x)")


@pytest.mark.parametrize("kind", [Path.mkdir, os.mkfifo, _socket, _foreign])
def test_an_index_of_a_wrong_kind_does_not_stop_opening(home: Path, kind: Callable[[Path], object]) -> None:
    """Recall works from memory, `check` says what to move away, and what stands there is left alone."""
    without_index(home)
    index = home / "db" / "index.db"
    kind(index)
    before = index.stat().st_ino, index.stat().st_mode
    for _ in range(2):
        with edgemem.open(home, worker=False) as memory:
            memory.store.add_fact("tea", "green")
            memory.idle(10)
            assert memory.recall("kettle")[0].value == "is blue"
            assert memory.forget("tea")
            assert "index.db cannot be used" in warning_of(memory, "index")
    assert (index.stat().st_ino, index.stat().st_mode) == before
    index.rmdir() if index.is_dir() else index.unlink()
    with edgemem.open(home, worker=False) as memory:
        memory.idle(10)
        assert [row.state for row in memory.check() if row.name == "index"] == ["ok"]
