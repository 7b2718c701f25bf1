"""No network: whatever the memory does, no internet socket is made and no name is looked up."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from watched_sockets import WATCHED

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "tests" / "watched_sockets.py"


def watched(what: str, folder: Path) -> list[str]:
    """Run a part of the program under the watcher; return what it saw of the network."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), what, str(folder)],
        capture_output=True,
        text=True,
        timeout=110,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    seen: list[str] = json.loads(done.stdout.splitlines()[-1])
    return seen


def test_the_watcher_sees_whoever_uses_the_network(tmp_path: Path) -> None:
    """A socket on the loopback, a datagram and a name are all caught, or the test below would prove nothing."""
    seen = watched("control", tmp_path)
    assert {"socket.__new__", "socket.bind", "socket.connect", "socket.sendto", "socket.getaddrinfo"} <= set(
        seen
    )
    assert set(seen) <= set(WATCHED)


def test_opening_talking_recalling_and_the_demo_use_no_network(tmp_path: Path, minilm: Path) -> None:
    """Facts, ten turns through every hook, recall with the real embedder, upkeep, `check` and `demo` stay on the machine."""
    assert watched("memory", tmp_path) == []
