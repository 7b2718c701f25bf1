"""A forget that is cut off: committed, it is finished by whoever opens the home next; not committed, nothing is gone."""

import random
import shutil
import subprocess
import sys
import threading
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner

import edgemem
from edgemem.cli import main
from edgemem.llama.state import StateHeader, write_state
from edgemem.memory import Memory
from edgemem.records import Heard, Reply, ToolCall
from support.homes import files_with, home_of, snapshot
from support.models import Caller, Unforgetting
from support.selection import cases

WORD = "quixotry"  # stands in what is forgotten, and nowhere else
STEM = "quixot"  # what the index holds of it


# Forgets, and is killed right behind the commit: nothing that follows it is begun.
FORGETTER = """
import os, signal, sys
import edgemem
from edgemem.store.db.database import Database

write = Database.write

def cut_off(self, work, **options):
    before = self.query("select value from meta where key = 'forgotten'") if self.path.name == "memory.db" else []
    result = write(self, work, **options)
    if self.path.name == "memory.db" and before != self.query("select value from meta where key = 'forgotten'"):
        os.kill(os.getpid(), signal.SIGKILL)
    return result

sys.path.append("crash")
from test_forget_kill import FORGET

memory = edgemem.open(sys.argv[1], worker=False)
Database.write = cut_off
FORGET[sys.argv[2]](memory)
"""


class Obedient(Unforgetting):
    """A model that calls one tool for each sentence, and then says that it did."""

    calls: ClassVar = {
        "Remember the gate code.": ToolCall("remember_fact", {"key": "gate.code", "value": f"{WORD} four"}),
        "Forget the gate code.": ToolCall("forget_fact", {"key": "gate.code"}),
        "Yes.": ToolCall("forget_fact", {"key": "gate.code"}),
        "What is the gate code?": ToolCall("search_memory", {"query": "gate code"}),
    }

    def complete(self, messages: Any, **_: Any) -> Reply:
        if messages[-1]["role"] != "user":
            return Reply("Done.")
        return Reply("", (self.calls[messages[-1]["content"].splitlines()[-1]],))


def told(memory: Memory, *utterances: str) -> None:
    """Let somebody say something to a robot that has the memory's tools."""
    hooks = memory.hooks(session_id="hall", speaker="Ann")
    loop = edgemem.AgentLoop(Obedient(), hooks=hooks, tools=memory.tools(speaker="Ann"))
    for utterance in utterances:
        loop.run(utterance)


def by_command(memory: Memory, *words: str) -> None:
    """Forget as an operator does, while the robot's own memory is closed."""
    home = memory.home
    memory.close()
    CliRunner().invoke(main, ["forget", *words, "--yes", "--home", str(home)])


FORGET = {
    "fact": lambda memory: memory.forget("gate.code", scope="household"),
    "tool": lambda memory: told(memory, "Forget the gate code.", "Yes."),
    "command": lambda memory: by_command(memory, "gate.code"),
    "session": lambda memory: memory.forget(session="hall"),
    "person": lambda memory: memory.forget(person="Ann"),
    "preference": lambda memory: memory.store.forget_preference("gate.code"),
    "store": lambda memory: memory.store.forget_fact("gate.code", scope="household"),
    "episode": lambda memory: memory.forget(episode=memory.store.recent_episodes()[-1].id),
}


def is_there(memory: Memory, how: str) -> bool:
    """Tell whether the truth still has what was to be forgotten."""
    if how == "session":
        return "hall" in memory.sessions.list_ids()
    if how == "person":
        return any(fact.heard == Heard(speaker="Ann") for fact in memory.store.facts())
    if how == "episode":
        return any("won" in episode.payload for episode in memory.store.recent_episodes())
    if how == "preference":
        return any(item.key == "gate.code" for item in memory.store.preferences())
    return memory.store.get_fact("gate.code", scope="household") is not None


def recalled(memory: Memory) -> bool:
    return any(STEM in item.text for item in memory.recall(WORD))


def make_template(home: Path, how: str) -> None:
    """Make a home that holds the word in the truth, the index, a backup, a kept state, tool calls and blocks."""
    spoken = how in ("session", "person")
    home_of(home, '[llama]\nembedder = ""\n[store]\nbusy_timeout_s = 0.1\n')
    with edgemem.open(home, worker=False) as memory:
        memory.store.add_fact("bell", "brass", scope="household", heard=Heard(speaker="Ben"))
        memory.store.add_fact("bell", "iron", scope="household", heard=Heard(speaker="Ben"))
        if how == "episode":
            memory.store.add_episode("game", {"won": f"by {WORD}"}, "ok", heard=Heard(speaker="Ben"))
        elif how == "preference":
            memory.store.set_preference("gate.code", f"{WORD} five")
        elif how == "store":
            memory.store.add_fact("gate.code", f"{WORD} four", scope="household")
        elif spoken:
            hooks = memory.hooks(session_id="hall", speaker="Ann")
            edgemem.AgentLoop(Caller(), hooks=hooks).run(f"{WORD}, I say")
            if how == "person":
                memory.store.add_fact("hobby", WORD, scope="household", heard=Heard(speaker="Ann"))
        else:
            told(memory, "Remember the gate code.")
            assert memory.idle(30)
            told(memory, "What is the gate code?")
        assert memory.idle(30)
        memory.diagnostics.backups.make()
        header = StateHeader("whole", {}, [1], b"", 0, memory.diagnostics.clock.now(), len(WORD))
        write_state(home / "db" / "state-robot.bin", header, WORD.encode(), still_wanted=lambda: True)
        assert is_there(memory, how)
    held = {"memory.db", "index.db", "state-robot.bin"}
    assert held < set(files_with(home, STEM))  # and a backup


@pytest.mark.parametrize("how", FORGET)
def test_a_forget_that_is_killed_behind_its_commit_is_finished_later(tmp_path: Path, how: str) -> None:
    """Opened again and left idle, no file of the home holds a byte of it, while it is open; what is not forgotten stays."""
    home = tmp_path / "home"
    make_template(home, how)
    command = [sys.executable, "-c", FORGETTER, str(home), how]
    killed = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, check=False)
    assert killed.returncode == -9, killed.stderr.decode()
    assert files_with(home, STEM)
    with edgemem.open(home, worker=False) as memory:
        assert any(row.name == "erasing" and row.state == "warn" for row in memory.check())
        assert memory.idle(30)
        assert files_with(home, STEM) == []
        assert memory.store.get_fact("bell", scope="household") == "iron"
        assert all(row.state == "ok" for row in memory.check() if row.name == "erasing")


def forget(home: str, how: str, line: Connection) -> None:
    """Forget in a process of its own, which is killed at some moment of it."""
    memory = edgemem.open(home, worker=False)
    line.send("begun")
    FORGET[how](memory)
    line.send("done")
    time.sleep(60)


def read_for(file: Path, seconds: float) -> None:
    """Read a database for a while."""
    with snapshot(file):
        time.sleep(seconds)


@pytest.mark.long
def test_kills_inside_forgets_leave_all_or_nothing(tmp_path: Path) -> None:
    """Killed at any moment of a forget, by whichever door, with somebody reading: forgotten without a byte, or all there."""
    dice = random.Random(14)
    context = get_context("forkserver")
    context.set_forkserver_preload(["edgemem.memory", "edgemem.loop.loop", "edgemem.cli.facts", __name__])
    length: dict[str, float] = {}
    committed = acknowledged = cut = 0
    for how in FORGET:
        make_template(tmp_path / how, how)
    for case in range(len(FORGET) + cases(300)):
        how = list(FORGET)[case % len(FORGET)]
        home = tmp_path / "home"
        shutil.copytree(tmp_path / how, home)
        here, there = context.Pipe()
        process = context.Process(target=forget, args=(str(home), how, there), daemon=True)
        process.start()
        assert here.recv() == "begun"
        begin = time.monotonic()
        reader = None
        if how in length:  # the first of each kind is let go, to know how long it takes
            if dice.random() < 0.4:
                file = home / "db" / dice.choice(["memory.db", "index.db"])
                reader = threading.Thread(target=read_for, args=(file, dice.uniform(0, 2 * length[how])))
                reader.start()
            # Half of them early, where the commit is; behind it the files are cleaned.
            time.sleep(dice.uniform(0, length[how] * dice.choice([0.15, 1.1])))
        else:
            assert here.poll(60)
            length[how] = time.monotonic() - begin
        process.kill()
        process.join()
        done = here.poll() and here.recv() == "done"
        if reader is not None:
            reader.join()
        with edgemem.open(home, worker=False) as memory:
            assert memory.idle(60), (case, how, memory.diagnostics.eraser.pending())
            gone = not is_there(memory, how)
            assert gone or not done, (case, how)
            if gone:
                assert files_with(home, STEM) == [], (case, how)
                assert not recalled(memory)
            else:
                assert "memory.db" in files_with(home, STEM), (case, how)
                assert recalled(memory), (case, how)
            assert memory.store.get_fact("bell", scope="household") == "iron"
            assert not memory.diagnostics.database.quick_check()
            committed, acknowledged, cut = committed + gone, acknowledged + done, cut + (gone and not done)
        shutil.rmtree(home)
    counts = f"{committed} forgotten, {acknowledged} of them acknowledged, {cut} cut off, of {case + 1} kills"
    sys.stdout.write(f"{counts}\n")
    assert 0 < cut < committed < case
