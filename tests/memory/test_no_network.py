"""No network: whatever the memory does, no internet socket is made and no name is looked up."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from support.servers import WATCHED, RunningServer

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "support" / "servers.py"


def watched(what: str, folder: Path) -> tuple[list[str], list[str]]:
    """Run a part of the program under the watcher; return what it saw of the network, and the hosts reached."""
    command = [sys.executable, str(PROGRAM), what, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    seen, reached = json.loads(done.stdout.splitlines()[-1])
    return seen, reached


def test_the_watcher_sees_whoever_uses_the_network(tmp_path: Path) -> None:
    """A socket on the loopback, a datagram and a name are all caught, or the test below would prove nothing."""
    seen, reached = watched("control", tmp_path)
    named = {f"socket.{name}" for name in ("__new__", "bind", "connect", "sendto", "getaddrinfo")}
    assert named <= set(seen)
    assert set(seen) <= set(WATCHED)
    assert reached == ["127.0.0.1"]


def test_opening_talking_recalling_and_the_demo_use_no_network(tmp_path: Path, minilm: Path) -> None:
    """Facts, ten turns through every hook, recall with the real embedder, upkeep, `check` and `demo` stay on the machine."""
    assert watched("memory", tmp_path) == ([], [])


def test_a_model_server_is_reached_on_this_machine_only(
    tmp_path: Path, llama_server: Path, chat_model: Callable[[str], Path]
) -> None:
    """A reply from a server on the loopback connects there, looks up no name, and no other host is tried."""
    with RunningServer(llama_server, chat_model("phi-3"), tmp_path) as server:
        (tmp_path / "url").write_text(f"http://localhost:{server.port}")
        seen, reached = watched("server", tmp_path)
    assert set(seen) == {"socket.__new__", "socket.connect"}
    assert set(reached) == {"127.0.0.1"}
