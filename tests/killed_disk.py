"""A robot on a disk that is full, killed while its turns wait: a small tmpfs where one can be mounted, a limit on files elsewhere.

Run as a program it starts the robot, kills it, makes space, opens the home again, and prints what it saw as JSON. The robot
itself is the same program with `talk` as its mode.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import full_disk

TURNS = 30


def command_on(mode: str, folder: Path, left: int, chars: int) -> list[str]:
    """Return the command that runs this program in a folder, with so many bytes left, on utterances of so many characters."""
    return full_disk.command_on(mode, folder, left, chars, program=__file__)


def _fill(mode: str, home: Path, left: int) -> None:
    """Leave so many bytes: for the log alone where the size of files is what is limited."""
    if mode == "limit":
        log = home / "db" / "memory.db-wal"
        resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size + left, resource.RLIM_INFINITY))
        return
    fd = os.open(home.parent / "filler", os.O_CREAT | os.O_WRONLY)
    try:
        while os.write(fd, b"x" * 4096):
            pass
    except OSError:
        os.ftruncate(fd, os.fstat(fd).st_size - left)
    os.close(fd)


def talk(mode: str, folder: Path, left: int, chars: int) -> None:
    """Talk on a disk that becomes full, say what `check` says, and wait to be killed."""
    import edgemem
    from edgemem.loop.loop import AgentLoop

    home = folder / "home"
    with edgemem.open(home, worker=False) as memory:
        loop = AgentLoop(
            full_disk.Model(), hooks=memory.hooks(session_id="talk", speaker="ann"), speaker="ann"
        )
        loop.run("before " + "x" * 100_000)  # the log is larger than what is kept free for turns
        _fill(mode, home, left)
        for n in range(TURNS):
            loop.run(f"number {n} " + "x" * chars)
        (check,) = [each for each in memory.check() if each.name == "turns"]
        print(json.dumps([check.state, check.detail, check.advice]), flush=True)  # noqa: T201 - its work
        sys.stdin.readline()


def main(mode: str, folder: Path, left: int, chars: int) -> dict[str, Any]:
    """Have a robot talk, kill it, make space and look."""
    import edgemem

    home = folder / "home"
    home.mkdir()
    (home / "edgemem.toml").write_text('[llama]\nembedder = ""\n[store]\nbusy_timeout_s = 0.2\n')
    command = [
        sys.executable,
        str(Path(__file__).resolve()),
        f"talk-{mode}",
        str(folder),
        str(left),
        str(chars),
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as robot:
        assert robot.stdout is not None
        told = json.loads(robot.stdout.readline())
        other = subprocess.run(
            [sys.executable, "-m", "edgemem", "check", "--json", "--home", str(home)],
            capture_output=True,
            text=True,
        )
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
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    logging.disable(logging.CRITICAL)
    mode, folder, *numbers = sys.argv[1:]
    settings = Path(folder), *map(int, numbers)
    if mode.startswith("talk-"):
        talk(mode.removeprefix("talk-"), *settings)
    else:
        print(json.dumps(main(mode, *settings)))  # noqa: T201 - its work
