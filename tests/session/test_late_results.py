"""Results of tools that answer after their turn: where the file, its numbers and its readers change meanwhile."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import edgemem
from support.homes import home_with, told, turns_of

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
