"""A process that forks while a memory is open: the child can close what it has of it, and the parent goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
