"""Disks of tests: full ones, locked files, and folders that may not be written.

Run as a program it plays a robot on a disk that becomes full, and prints what it saw as JSON:

    disks.py fill MODE FOLDER                 fill a memory until nothing goes in any more, make space, look again
    disks.py kill MODE FOLDER LEFT CHARS      have another process talk, kill it while its turns wait, make space and look
    disks.py talk MODE FOLDER LEFT CHARS      that other process
"""

import json
import logging
import os
import resource
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import edgemem
from edgemem.errors import StoreError
from edgemem.loop.loop import AgentLoop
from edgemem.records import Reply

SQLITE = "import sqlite3,sys; c=sqlite3.connect(sys.argv[1]); c.execute('begin immediate')"
LOCK = "import fcntl,sys; f=open(sys.argv[1],'a'); fcntl.flock(f, fcntl.LOCK_EX)"
UNSHARE = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
_MOUNT = "mount -t tmpfs -o size=3m none {0} && exec "
TURNS = 30


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Give up the rights of root, before which no folder is read-only."""
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(was)


@contextmanager
def held(program: str, path: Path) -> Iterator[None]:
    """Have another process hold a file, until the block ends."""
    code = f"{program}; print('held', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == b"held\n"
        try:
            yield
            assert other.poll() is None  # it held the file all the time
        finally:
            other.stdin.close()
            other.wait()


@contextmanager
def no_file_larger_than(count: int) -> Iterator[None]:
    """Make the operating system refuse to write on, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def can_mount(mount: str) -> bool:
    """Tell whether this system lets us mount so."""
    try:
        done = subprocess.run([*UNSHARE, "sh", "-c", mount.format("/mnt") + "true"], capture_output=True)
    except OSError:
        return False
    return done.returncode == 0


MODES = ["limit", *(["tmpfs"] if can_mount(_MOUNT) else [])]


def fill_command(mode: str, folder: Path) -> list[str]:
    return _command("fill", mode, folder)


def kill_command(mode: str, folder: Path, left: int, chars: int) -> list[str]:
    """Return the command that kills a robot in a folder, with so many bytes left, on utterances of so many characters."""
    return _command("kill", mode, folder, left, chars)


def _command(part: str, mode: str, folder: Path, *numbers: int) -> list[str]:
    command = [sys.executable, str(Path(__file__).resolve()), part, mode, str(folder), *map(str, numbers)]
    if mode == "limit":
        return command
    return [*UNSHARE, "sh", "-c", _MOUNT.format(shlex.quote(str(folder))) + shlex.join(command)]


class Limited:
    """No file may grow beyond its size of now and a little."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def fill(self) -> None:
        most = max(path.stat().st_size for path in self._home.rglob("*") if path.is_file())
        resource.setrlimit(resource.RLIMIT_FSIZE, (most + 65_536, resource.RLIM_INFINITY))

    def free(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def _take_space(filler: Path, *, left: int) -> None:
    """Have a file take all the space but so many bytes."""
    fd = os.open(filler, os.O_CREAT | os.O_WRONLY)
    try:
        while os.write(fd, b"x" * 4096):
            pass
    except OSError:
        os.ftruncate(fd, os.fstat(fd).st_size - left)
    os.close(fd)


class Filled:
    """Another file takes nearly all the space."""

    def __init__(self, home: Path) -> None:
        self._filler = home.parent / "filler"

    def fill(self) -> None:
        _take_space(self._filler, left=32_768)

    def free(self) -> None:
        self._filler.unlink()


class FineModel:
    def complete(self, messages: Any, **_: Any) -> Any:
        return Reply("Fine.")

    def cut(self, heard_text: str) -> None:
        pass


def fill(mode: str, folder: Path) -> dict[str, Any]:
    """Fill, look, make space, look again."""
    home = folder / "home"
    home.mkdir()
    (home / "edgemem.toml").write_text('[llama]\nembedder = ""\n')
    disk = Limited(home) if mode == "limit" else Filled(home)
    seen: dict[str, Any] = {"refused": [], "unexpected": [], "acknowledged": [], "replies": []}

    def tried(work: Callable[[], Any]) -> bool:
        try:
            work()
        except StoreError as error:
            seen["refused"].append(str(error))
            return False
        except Exception as error:  # noqa: BLE001 - reported to the test
            seen["unexpected"].append(f"{type(error).__name__}: {error}")
            return False
        return True

    with edgemem.open(home, worker=False) as memory:
        loop = AgentLoop(FineModel(), hooks=memory.hooks(session_id="talk", speaker="ann"), speaker="ann")
        memory.store.add_fact("before", "x")
        memory.notes.append("a note")
        seen["replies"].append(loop.run("while there was space").reply)
        disk.fill()
        misses = 0
        for n in range(2000):
            if tried(lambda n=n: memory.store.add_fact(f"fact.{n}", "v" * 3000)):
                seen["acknowledged"].append(f"fact.{n}")
            else:
                misses += 1
            if misses == 3:
                break
        seen["replies"].append(loop.run("x" * 40_000).reply)
        for _ in range(2):
            tried(lambda: memory.notes.append("y" * 20_000))
        memory.idle(1.0)
        tried(lambda: memory.recall("space"))
        tried(memory.check)
        command = [sys.executable, "-m", "edgemem", "facts", "--home", str(home)]
        done = subprocess.run(command, capture_output=True, text=True)
        seen["command_line"] = (done.returncode, done.stdout[:200], done.stderr)
        disk.free()
        seen["replies"].append(loop.run("with space again").reply)
        tried(lambda: memory.store.add_fact("after", "x"))
        seen["failures"] = sorted({failure.hook for failure in loop.hooks.failures()})
    with edgemem.open(home, worker=False) as memory:
        seen["facts"] = [fact.key for fact in memory.store.facts()]
        seen["said"] = [turn.messages[0].content for turn in memory.sessions.journal.read_turns("talk")]
        seen["notes"] = memory.notes.read()[:100]
        seen["damage"] = memory.diagnostics.database.quick_check()
    return seen


def _fill(mode: str, home: Path, left: int) -> None:
    """Leave so many bytes: for the log alone where the size of files is what is limited."""
    if mode == "limit":
        log = home / "db" / "memory.db-wal"
        resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size + left, resource.RLIM_INFINITY))
        return
    _take_space(home.parent / "filler", left=left)


def talk(mode: str, folder: Path, left: int, chars: int) -> None:
    """Talk on a disk that becomes full, say what `check` says, and wait to be killed."""
    home = folder / "home"
    with edgemem.open(home, worker=False) as memory:
        loop = AgentLoop(FineModel(), hooks=memory.hooks(session_id="talk", speaker="ann"), speaker="ann")
        loop.run("before " + "x" * 100_000)  # the log is larger than what is kept free for turns
        _fill(mode, home, left)
        for n in range(TURNS):
            loop.run(f"number {n} " + "x" * chars)
        (check,) = [each for each in memory.check() if each.name == "unwritten turns"]
        print(json.dumps([check.state, check.detail, check.advice]), flush=True)  # noqa: T201 - its work
        sys.stdin.readline()


def kill(mode: str, folder: Path, left: int, chars: int) -> dict[str, Any]:
    """Have a robot talk, kill it, make space and look."""
    home = folder / "home"
    home.mkdir()
    (home / "edgemem.toml").write_text('[llama]\nembedder = ""\n[store]\nbusy_timeout_s = 0.2\n')
    command = [sys.executable, __file__, "talk", mode, str(folder), str(left), str(chars)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as robot:
        assert robot.stdout is not None
        told = json.loads(robot.stdout.readline())
        command = [sys.executable, "-m", "edgemem", "check", "--json", "--home", str(home)]
        other = subprocess.run(command, capture_output=True, text=True)
        robot.send_signal(signal.SIGKILL)
    (folder / "filler").unlink(missing_ok=True)
    seen: dict[str, Any] = {"check": told, "check_of_another": other.stdout}
    for _ in range(2):
        with edgemem.open(home, worker=False) as memory:
            turns = memory.sessions.journal.read_turns("talk")
            seen["said"] = [str(turn.messages[0].content).split(" x")[0] for turn in turns]
            seen["states"] = [turn.state for turn in turns]
            seen["damage"] = memory.diagnostics.database.quick_check()
    return seen


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    part, mode, folder, *numbers = sys.argv[1:]
    done = {"fill": fill, "kill": kill, "talk": talk}[part](mode, Path(folder), *map(int, numbers))
    if done is not None:
        print(json.dumps(done))  # noqa: T201 - its work
