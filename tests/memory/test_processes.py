"""Processes: whatever the memory does it uses no network, and a process may fork while one is open."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

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


FORKING = """
import os, sys, threading
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import edgemem
from edgemem.loop.loop import AgentLoop
from edgemem.records import Reply
from support.embedders import HashEmbedder

class Model:
    def complete(self, messages, **_):
        return Reply("Fine.")
    def cut(self, heard_text):
        pass

def files():
    return {path.name: path.read_bytes() for path in (home / "db").iterdir()}

home = Path(sys.argv[1])
memory = edgemem.open(home, embedder=HashEmbedder())
loop = AgentLoop(Model(), hooks=memory.hooks(session_id="kitchen", speaker="ann"))
loop.run("before")
memory.idle(5)
if sys.argv[3] == "waiting":
    loop.prepare("prepared")
    memory.diagnostics.database.flush()
memory.diagnostics.database.flush()
memory.close() if sys.argv[3] == "closed" else None
before = files()
child = os.fork()
if child == 0:
    memory.close()
    memory.close()
    sys.exit(0)
status = os.waitpid(child, 0)[1]
assert status == 0, status
assert {name: data for name, data in files().items() if name in before and not name.startswith("index")} == {
    name: data for name, data in before.items() if not name.startswith("index")}
if sys.argv[3] != "closed":
    if sys.argv[3] == "waiting":
        loop.commit()
    loop.run("after")
    assert memory.recall("after")
    said = [turn.messages[0].content for turn in memory.sessions.journal.read_turns("kitchen")]
    print(said, memory.diagnostics.database.quick_check(), loop.hooks.failures())
    memory.close()
"""


@pytest.mark.parametrize("state", ["waiting", "closed"])
def test_a_forked_child_closes_quietly(tmp_path: Path, state: str) -> None:
    """No exception, no warning and no traceback; the parent's files are as they were, and its memory works on."""
    command = [sys.executable, "-W", "always", "-W", "ignore::DeprecationWarning", "-c", FORKING]
    command += [str(tmp_path / "home"), str(Path(__file__).parent), state]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=Path(__file__).parents[1])
    assert (done.returncode, done.stderr) == (0, "")
    said = ["before", "prepared", "after"] if state == "waiting" else []
    assert done.stdout == (f"{said} [] []\n" if said else "")
