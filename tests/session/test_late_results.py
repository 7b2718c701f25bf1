"""Results of tools that answer after their turn: where the file, its numbers and its readers change meanwhile."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import edgemem
from support.homes import home_with, opened, told, turns_of
from support.loops import ASK, look_late, speak


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
        assert "4711" in str(
            speak(memory.session("assistant"), "What is the doctor number?", "It is 4711.", within=outer)
        )
        kitchen.result("c1", "It is 4711.")
        if not restart:
            assert "4711" not in str(kitchen.turn("Hello!", speaker="bob").messages)
        assert kitchen.failures() == []
    with opened(tmp_path / "home") as memory:
        kitchen = memory.session("kitchen")
        assert "4711" not in str(kitchen.turn("Hello!", speaker="bob").messages)
        assert "It is 4711." in str(kitchen.turn("And?", speaker="alice").messages)


def test_a_result_behind_a_reply_of_its_turn_belongs_to_its_call(tmp_path: Path) -> None:
    """Of a robot that speaks before its tool answers, or of parallel agents: the prompt goes on as it was shown, nothing is told anew."""
    with opened(tmp_path / "home") as memory:
        kitchen = memory.session("kitchen")
        with kitchen.turn("Look for it.", speaker="alice") as turn:
            turn.add(ASK)
            turn.reply("One moment.")
            kitchen.result("c1", "under the sofa")
            shown = turn.messages
            turn.reply("There.")
        assert kitchen.turn("Thanks.", speaker="alice").messages[: len(shown)] == shown
    with opened(tmp_path / "home") as memory:
        prompt = memory.session("kitchen").turn("And?", speaker="alice").messages
        assert (prompt[: len(shown)], str(prompt).count("sofa")) == (shown, 1)


def test_a_result_that_nobody_read_in_its_turn_is_told_in_the_next(memory: edgemem.Memory) -> None:
    """It came behind the last reply, while the turn was open."""
    kitchen = memory.session("kitchen")
    with kitchen.turn("Look for it.", speaker="alice") as turn:
        turn.add(ASK)
        turn.reply("One moment.")
        kitchen.result("c1", "under the sofa")
    assert "under the sofa" in str(kitchen.turn("Thanks.", speaker="alice").messages)


def test_a_late_result_is_bounded_and_shown_to_hooks_as_others_are(memory: edgemem.Memory) -> None:
    """The whole of it is kept with the turn of its call."""

    @edgemem.hook("after_tool")
    def redact(ctx: Any, payload: Any) -> None:
        payload.result = payload.result.replace("4711", "****")

    kitchen = memory.session("kitchen")
    kitchen.hooks.register(redact)
    look_late(kitchen)
    kitchen.turn("Thanks.", speaker="bob").end()
    kitchen.result("c1", "code 4711 " * 20_000)
    with kitchen.turn("And?", speaker="alice") as turn:
        (result,) = (m["content"] for m in turn.messages if m["role"] == "tool" and "code" in m["content"])
        assert len(result) < 5_000
        assert "4711" not in result
    kept = memory.sessions.database.query("select turn, bytes from tool_outputs")
    assert (kept, kitchen.failures()) == ([(0, 200_000)], [])


def test_an_interruption_after_a_restart_is_of_the_newest_stored_reply(tmp_path: Path) -> None:
    """The voice may report it before the first turn."""
    for heard in (None, "Once"):
        with opened(tmp_path / "home") as memory:
            kitchen = memory.session("kitchen")
            if heard is None:
                kitchen.turn("A story.", speaker="alice").reply("Once upon a time.")
            else:
                assert kitchen.interrupt(heard) == heard
    with opened(tmp_path / "home") as memory:
        assert told(turns_of(memory)[-1])[-1] == ("assistant", "Once")


def test_a_store_of_messages_keeps_an_unread_result(tmp_path: Path) -> None:
    """Who may read its call is told it after a restart, once."""
    for n in range(3):
        hooks = [edgemem.PersistSessionHook(edgemem.JSONSessionStore(tmp_path), session_id="kitchen")]
        kitchen = edgemem.AgentLoop(None, hooks=hooks).conversation
        if n == 0:
            look_late(kitchen, private=True)
            kitchen.result("c1", "under the sofa")
            continue
        with kitchen.turn("Hello!", speaker="bob") as turn:
            assert "sofa" not in str(turn.messages)
        assert str(speak(kitchen, "And?", "Well.", speaker="alice")).count("sofa") == 1
        assert kitchen.failures() == []
