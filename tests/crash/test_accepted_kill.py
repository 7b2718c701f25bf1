"""Accepted turns: a process that dies while the model generates, or while the disk is full, has lost nothing that was said to it."""

import json
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

import edgemem
from edgemem.loop.loop import AgentLoop
from edgemem.memory import Memory
from edgemem.records import Message, Reader, Reply, ToolCall
from edgemem.session.tools import Tool
from support.disks import MODES, TURNS, kill_command
from support.homes import home_of
from support.loops import python
from support.models import Unforgetting
from support.selection import LONG

TESTS = Path(__file__).resolve().parents[1]

PROGRAM = """
import sys
sys.path[:0] = [{tests!r}, {tests!r} + "/crash"]
import edgemem
from test_accepted_kill import Robot
from support.loops import OwnLoop

def stands():
    memory.diagnostics.database.flush()  # what was queued for the writer thread is done
    print("stands", flush=True)
    sys.stdin.readline()

with edgemem.open({home!r}, worker=False) as memory:
{body}
"""

SECRET = "Between us: the ring is in the piano."


class Robot(Unforgetting):
    """A loop of edgemem's own, whose model stands still at a sentence that asks for it."""

    def __init__(self, memory: Memory, stands: Any = lambda: None) -> None:
        self.stands = stands
        self.handed: list[Message] = []
        look = Tool("look", "Look.", {"type": "object", "properties": {}}, lambda: "a ring")
        self.loop = AgentLoop(self, hooks=memory.hooks(session_id="kitchen"), tools=[look])

    def complete(self, messages: Sequence[Message], **_: Any) -> Reply:
        self.handed = list(messages)
        newest = messages[-1]
        if newest["role"] == "user" and "look" in newest["content"]:
            return Reply("One moment.", (ToolCall("look", {}),))
        if any("stand" in str(message["content"]) for message in messages):
            self.stands()
        return Reply("Fine.")


def killed(home: Path, body: str) -> None:
    home_of(home, '[llama]\nembedder = ""\n[store]\ncommit_wait_s = 60\n')
    program = PROGRAM.format(tests=str(TESTS), home=str(home), body=indent(dedent(body), "    "))
    process = python(program)
    assert process.stdout.readline() == "stands\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()


def turns(memory: Memory, reader: Reader | None = None) -> list[tuple[Any, str, str, list[Any]]]:
    return [
        (turn.heard and turn.heard.speaker, turn.level, turn.state, [each.content for each in turn.messages])
        for turn in memory.sessions.journal.read_turns("kitchen", reader=reader)
    ]


HOOKS_ALONE = """
loop = OwnLoop(memory.hooks(session_id="kitchen"))
loop.run("Good morning.", "ben")
loop.fail({said!r}, "anna", private={private})
stands()
"""

AGENT_LOOP = """
robot = Robot(memory, stands)
robot.loop.run("Good morning.", speaker="ben")
robot.loop.run({said!r} + " stand", speaker="anna", private={private})
"""


@pytest.mark.parametrize(
    ("body", "private"), [(HOOKS_ALONE, True), (AGENT_LOOP, False)], ids=["hooks alone", "AgentLoop"]
)
def test_a_kill_while_the_model_generates(tmp_path: Path, body: str, private: bool) -> None:
    """The utterance comes back unfinished: its speaker's, as private as it was said, and in the prompts of its readers alone."""
    home = tmp_path / "home"
    killed(home, body.format(said=SECRET, private=private))
    level = "private" if private else "household"
    with edgemem.open(home, worker=False) as memory:
        robot = Robot(memory)
        robot.loop.run("Where is it?", speaker="ben")
        assert ("piano" in str(robot.handed)) == (not private)
        said = turns(memory)[1][3][0]
        assert turns(memory)[:2] == [
            ("ben", "household", "complete", ["Good morning.", "Fine."]),
            ("anna", level, "unfinished", [said]),
        ]
        assert said.startswith(SECRET)
        robot.loop.run("Where is it?", speaker="anna")
        assert [message["content"] for message in robot.handed if "piano" in str(message)] == [said]
        memory.idle(5)
        for speaker, knows in (("anna", True), ("ben", not private), (None, False)):
            found = [item.text for item in memory.recall("What is in the piano?", speaker=speaker)]
            assert any("piano" in text for text in found) == knows
        assert robot.loop.hooks.failures() == []


def test_a_kill_while_a_turn_is_prepared_again(tmp_path: Path) -> None:
    """The sentence went on: what was accepted of its beginning is replaced, and the whole of it comes back."""
    home = tmp_path / "home"
    killed(
        home,
        """
        robot = Robot(memory, stands)
        robot.loop.prepare("Set the", speaker="anna")
        robot.loop.prepare("Set the alarm", speaker="anna")
        robot.loop.prepare("Set the alarm for seven and stand", speaker="anna")
        """,
    )
    with edgemem.open(home, worker=False) as memory:
        Robot(memory).loop.run("Hello?", speaker="anna")
        assert turns(memory)[0] == ("anna", "household", "unfinished", ["Set the alarm for seven and stand"])
        assert len(turns(memory)) == 2


@pytest.mark.parametrize(
    "body",
    [
        """
        loop = OwnLoop(memory.hooks(session_id="kitchen"))
        loop.fail("zebra", "anna")
        loop.hooks.fire("on_abort", loop.ctx, {})
        stands()
        """,
        """
        robot = Robot(memory)
        robot.loop.prepare("zebra", speaker="anna")
        robot.loop.abort()
        stands()
        """,
    ],
    ids=["hooks alone", "AgentLoop"],
)
def test_a_kill_behind_an_abort(tmp_path: Path, body: str) -> None:
    """What was thrown away leaves no trace."""
    home = tmp_path / "home"
    killed(home, body)
    with edgemem.open(home, worker=False) as memory:
        Robot(memory).loop.run("Hello?", speaker="anna")
        assert [said for *_, said in turns(memory)] == [["Hello?", "Fine."]]
        memory.diagnostics.database.checkpoint()
        assert b"zebra" not in b"".join(path.read_bytes() for path in (home / "db").iterdir())


BEHIND_A_TOOL = """
robot = Robot(memory, stands)
robot.loop.run("look, and stand", speaker={speaker!r})
"""

BEFORE_THE_END = """
loop = Robot(memory).loop
loop.{how}("look at my secret", speaker={speaker!r})
stands()
"""


@pytest.mark.parametrize(
    ("body", "speaker"),
    [(BEHIND_A_TOOL, "anna"), (BEFORE_THE_END.replace("{how}", "prepare"), None)],
    ids=["while it generates", "before its end, of a stranger"],
)
def test_a_kill_in_a_turn_with_tools(tmp_path: Path, body: str, speaker: str | None) -> None:
    """What the tools told is with it, and it is the speaker's alone until the turn ends; a stranger's is nobody's."""
    home = tmp_path / "home"
    killed(home, body.format(speaker=speaker))
    with edgemem.open(home, worker=False) as memory:
        Robot(memory).loop.run("Hello?", speaker="ben")
        (_, level, state, said), _ = turns(memory)
        assert (level, state) == ("private", "unfinished")
        assert "a ring" in said
        for reader in ("anna", "ben", None):
            mine = speaker is not None and reader == speaker
            assert ("a ring" in str(turns(memory, Reader(reader)))) == mine


def test_a_turn_with_tools_that_ended_is_as_open_as_what_was_said(tmp_path: Path) -> None:
    """The end of the turn says how private it is."""
    home = tmp_path / "home"
    killed(home, BEFORE_THE_END.format(how="run", speaker="anna"))
    with edgemem.open(home, worker=False) as memory:
        assert [(level, state) for _, level, state, _ in turns(memory)] == [("household", "complete")]


def talk_on(mode: str, folder: Path, left: int, chars: int = 20) -> dict[str, Any]:
    command = kill_command(mode, folder, left, chars)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    assert seen["damage"] == []
    return seen


@pytest.mark.long
@pytest.mark.parametrize("left", [0, 16_384] if LONG else [0])
@pytest.mark.parametrize("mode", MODES if LONG else MODES[-1:])
def test_a_kill_on_a_full_disk_loses_no_turn(tmp_path: Path, mode: str, left: int) -> None:
    """Thirty turns wait for space when the process dies; the next opening has each of them once, in order."""
    seen = talk_on(mode, tmp_path, left)
    assert seen["said"] == ["before", *(f"number {n}" for n in range(TURNS))]
    assert set(seen["states"]) == {"complete"}
    assert "in memory" not in json.dumps(seen["check"])


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES if LONG else MODES[:1])
def test_what_is_only_in_memory_is_told_and_leaves_no_gap(tmp_path: Path, mode: str) -> None:
    """Where more waits than the room beside the database takes, `check` counts the rest, also from another process."""
    seen = talk_on(mode, tmp_path, 0, chars=6000)
    kept = seen["states"].count("complete") - 1
    assert 0 < kept < TURNS
    # Of the first that did not fit, what was accepted may be there.
    assert seen["said"][: kept + 1] == ["before", *(f"number {n}" for n in range(kept))]
    assert seen["said"][kept + 1 :] in ([], [f"number {kept}"])
    state, detail, advice = seen["check"]
    assert state == "warn"
    assert f"{TURNS - kept} of them only in memory" in detail
    assert "nothing is lost" not in advice
    assert f"{TURNS - kept} of them only in memory" in seen["check_of_another"]
