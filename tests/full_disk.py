"""A disk that becomes full: a small tmpfs where one can be mounted, and a limit on the size of files everywhere.

Run as a program it fills a memory until nothing goes in any more, makes space, and prints what it saw as JSON.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_UNSHARE = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
_MOUNT = "mount -t tmpfs -o size=3m none {0} && exec "


def _can_mount() -> bool:
    try:
        done = subprocess.run([*_UNSHARE, "sh", "-c", _MOUNT.format("/mnt") + "true"], capture_output=True)
    except OSError:
        return False
    return done.returncode == 0


MODES = ["limit", *(["tmpfs"] if _can_mount() else [])]


def command_on(mode: str, folder: Path, *numbers: int, program: str = __file__) -> list[str]:
    """Return the command that runs this program, or another, in a folder."""
    command = [sys.executable, str(Path(program).resolve()), mode, str(folder), *map(str, numbers)]
    if mode == "limit":
        return command
    return [*_UNSHARE, "sh", "-c", _MOUNT.format(shlex.quote(str(folder))) + shlex.join(command)]


class Limited:
    """No file may grow beyond its size of now and a little."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def fill(self) -> None:
        most = max(path.stat().st_size for path in self._home.rglob("*") if path.is_file())
        resource.setrlimit(resource.RLIMIT_FSIZE, (most + 65_536, resource.RLIM_INFINITY))

    def free(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


class Filled:
    """Another file takes nearly all the space."""

    def __init__(self, home: Path) -> None:
        self._filler = home.parent / "filler"

    def fill(self) -> None:
        fd = os.open(self._filler, os.O_CREAT | os.O_WRONLY)
        try:
            while os.write(fd, b"x" * 4096):
                pass
        except OSError:
            os.ftruncate(fd, os.fstat(fd).st_size - 32_768)
        os.close(fd)

    def free(self) -> None:
        self._filler.unlink()


class Model:
    """Answers the same to everything."""

    def complete(self, messages: Any, **_: Any) -> Any:
        from edgemem.records import Reply

        return Reply("Fine.")

    def cut(self, heard_text: str) -> None:
        pass


def main(mode: str, folder: Path) -> dict[str, Any]:
    """Fill, look, make space, look again."""
    import edgemem
    from edgemem.errors import StoreError
    from edgemem.loop.loop import AgentLoop

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
        loop = AgentLoop(Model(), hooks=memory.hooks(session_id="talk", speaker="ann"), speaker="ann")
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
        done = subprocess.run(
            [sys.executable, "-m", "edgemem", "facts", "--home", str(home)], capture_output=True, text=True
        )
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


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    logging.disable(logging.CRITICAL)
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]))))  # noqa: T201 - its work
