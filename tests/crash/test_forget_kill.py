"""A forget that is cut off: committed, it is finished by whoever opens the home next; not committed, nothing is gone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from test_turn_durability import Caller

import edgemem

WORD = "quixotry"
"""Stands in what is forgotten, and nowhere else."""

STEM = b"quixot"
"""What the index holds of it."""

PROFILE = """
[llama]
embedder = ""
[hooks]
audit_log = "audit.jsonl"
audit_text = "private"
"""

# Forgets, and is killed right behind the commit: nothing that follows it is begun.
FORGETTER = """
import os, signal, sys
import edgemem
from edgemem.store.database import Database

write = Database.write

def cut_off(self, work, **options):
    before = self.query("select value from meta where key = 'forgotten'") if self.path.name == "memory.db" else []
    result = write(self, work, **options)
    if self.path.name == "memory.db" and before != self.query("select value from meta where key = 'forgotten'"):
        os.kill(os.getpid(), signal.SIGKILL)
    return result

memory = edgemem.open(sys.argv[1], worker=False)
Database.write = cut_off
exec(sys.argv[2])
"""

HOW = {
    "fact": 'memory.forget("gate.code")',
    "session": 'memory.forget_session("hall")',
    "person": 'memory.forget_person("Ann")',
    "preference": 'memory.store.forget_preference("gate.code")',
    "store": 'memory.store.forget_fact("gate.code")',
    "tool": 'memory.tools(include=["forget_fact"])[0].run(key="gate.code")',
    "command": (
        "from click.testing import CliRunner; from edgemem.cli import main; memory.close();"
        ' CliRunner().invoke(main, ["forget", "gate.code", "--yes", "--home", sys.argv[1]])'
    ),
}


def holders(home: Path) -> list[str]:
    """Return the files of a home in which the word stands."""
    found = [path for path in home.rglob("*") if path.is_file() and STEM in path.read_bytes()]
    return sorted(path.name for path in found)


def fill(home: Path, how: str) -> None:
    """Make a home that holds the word wherever it is copied to."""
    home.mkdir()
    (home / "edgemem.toml").write_text(PROFILE)
    with edgemem.open(home, worker=False) as memory:
        memory.store.add_fact("bell", "brass")
        if how == "session":
            loop = edgemem.AgentLoop(Caller(), hooks=memory.hooks(session_id="hall", speaker="Ben"))
            loop.run(f"{WORD} is the word")
        elif how == "person":
            memory.store.add_fact("gate.code", f"{WORD} four", scope="user:Ann")
        elif how == "preference":
            memory.store.set_preference("gate.code", f"{WORD} five")
        else:
            memory.store.add_fact("gate.code", f"{WORD} four")
        assert memory.idle(30)
        memory.backups.work()
        assert memory.backups.newest()


@pytest.mark.parametrize("how", HOW)
def test_a_forget_that_is_killed_behind_its_commit_is_finished_by_the_next_opening(
    tmp_path: Path, how: str
) -> None:
    """Opened again and left idle, no file of the home holds a byte of it, while it is open; what is not forgotten stays."""
    home = tmp_path / "home"
    fill(home, how)
    assert {"memory.db", "index.db"} <= set(holders(home))
    killed = subprocess.run(
        [sys.executable, "-c", FORGETTER, str(home), HOW[how]], capture_output=True, check=False
    )
    assert killed.returncode == -9, killed.stderr.decode()
    assert holders(home)
    with edgemem.open(home, worker=False) as memory:
        assert any(row.name == "erasing" and row.state == "warn" for row in memory.check())
        assert memory.idle(30)
        assert holders(home) == []
        assert memory.store.get_fact("bell") == "brass"
        assert all(row.state == "ok" for row in memory.check() if row.name == "erasing")
