"""Results of tools that answer after their turn: where the file, its numbers and its readers change meanwhile."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import edgemem
from support.homes import home_with, opened, told, turns_of

CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
ASK = {"role": "assistant", "content": None, "tool_calls": [CALL]}


def look_late(kitchen: Any, speaker: str = "alice", **more: Any) -> None:
    """Tell a turn whose tool has not answered."""
    with kitchen.turn("Look for it.", speaker=speaker, **more) as turn:
        assert turn.messages
        turn.add(ASK)
        turn.reply("I am looking.")


@pytest.mark.parametrize("locked", ["the call", "the result"])
def test_a_late_result_waits_as_turns_do_and_stays_with_its_call(tmp_path: Path, locked: str) -> None:
    """Where another program holds the database, and another loop has the number of its turn by then."""
    home = home_with(tmp_path / "home", wait=0.2)
    with edgemem.open(home, worker=False) as memory, edgemem.open(home, worker=False) as other:
        kitchen = memory.session("kitchen")
        with closing(sqlite3.connect(memory.sessions.database.path, isolation_level=None)) as program:
            if locked == "the result":
                look_late(kitchen, private=True)
            program.execute("begin immediate")
            if locked == "the call":
                look_late(kitchen, private=True)
            else:
                kitchen.result("c1", "under the sofa")
            program.execute("rollback")
        if locked == "the call":
            other.session("kitchen").turn("Hello!", speaker="bob").end()
            kitchen.result("c1", "under the sofa")
        memory.sessions.journal.settle()
        (turn,) = (turn for turn in turns_of(memory) if turn.owner == "alice")
        assert (told(turn)[-1], turn.answer) == (("tool", "under the sofa"), "private")
    with edgemem.open(home, worker=False) as memory:
        kitchen = memory.session("kitchen")
        assert "sofa" not in str(kitchen.turn("And?", speaker="bob").messages)
        assert "sofa" in str(kitchen.turn("And?", speaker="alice").messages)


@pytest.mark.parametrize("restart", [False, True])
def test_a_late_result_is_as_private_as_what_its_agent_has_read(tmp_path: Path, restart: bool) -> None:
    """Also where that was read after the turn of its call, in which nothing was private."""
    with opened(tmp_path / "home") as memory:
        memory.store.add_fact("doctor.number", "4711", scope="user:alice")
        memory.idle(1)
        kitchen = memory.session("kitchen")
        with kitchen.turn("Ask somebody.", speaker="alice") as outer:
            assert "4711" not in str(outer.messages)
            outer.add(ASK)
            outer.reply("I ask.")
        with memory.session("assistant").turn("What is the doctor number?", within=outer) as inner:
            assert "4711" in str(inner.messages)
            inner.reply("It is 4711.")
        kitchen.result("c1", "It is 4711.")
        if not restart:
            assert "4711" not in str(kitchen.turn("Hello!", speaker="bob").messages)
        assert kitchen.failures() == []
    with opened(tmp_path / "home") as memory:
        kitchen = memory.session("kitchen")
        assert "4711" not in str(kitchen.turn("Hello!", speaker="bob").messages)
        assert "It is 4711." in str(kitchen.turn("And?", speaker="alice").messages)
