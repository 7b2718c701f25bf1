"""Whose words they are: a message stays with the turn and the speaker it was said in, whatever the loop does next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgemem.hooks import (
    AFTER_LLM,
    ON_RUN_START,
    HookResult,
)
from edgemem.loop.loop import AgentLoop
from edgemem.memory import Memory
from edgemem.records import Reader, Reply, Session, ToolCall, Turn
from support.homes import opened
from support.loops import OwnLoop
from support.models import Model

pytestmark = pytest.mark.usefixtures("patient")

SECRET = "Between us: Ben's ring is in the piano."


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """Return an open memory."""
    with opened(tmp_path / "home") as memory:
        yield memory


def stored(memory: Memory, reader: Reader | None = None) -> list[Turn]:
    """Return the turns of the session."""
    memory.diagnostics.database.flush()
    return memory.sessions.journal.read_turns("kitchen", reader=reader)


def words(turn: Turn) -> list[str | None]:
    """Return what was said in a turn."""
    return [message.content for message in turn.messages]


def whose(turns: list[Turn]) -> list[tuple[str | None, str, str, list[str | None]]]:
    """Return who said what, how private it is, and how it ended."""
    return [(turn.heard and turn.heard.speaker, turn.level, turn.state, words(turn)) for turn in turns]


def test_history_that_nobody_knows_is_in_nobodys_name(memory: Memory) -> None:
    """Examples that a program begins with stand in the prompt, and are not stored as said by whoever speaks first."""
    example = [{"role": "user", "content": "Ping?"}, {"role": "assistant", "content": "Pong."}]
    loop = OwnLoop(memory.hooks(session_id="kitchen"), Session(list(example)))
    assert [message["content"] for message in loop.run("Hello.", "anna")] == ["Ping?", "Pong.", "Hello."]
    assert [turn.heard for turn in stored(memory)][:1] == [None]
    assert [(turn.owner, words(turn)) for turn in stored(memory)] == [
        (None, ["Ping?", "Pong."]),
        ("anna", ["Hello.", "Fine."]),
    ]


def test_a_turn_that_a_guard_ends_is_not_the_speakers_before(memory: Memory) -> None:
    """A hook that answers before memory's hooks know who speaks: the words are kept under the name that the loop knows."""

    class Guard:
        points = frozenset({ON_RUN_START})
        priority = 1000

        def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
            return HookResult.end("I may not say.") if "piano" in payload["task"] else None

    hooks = [Guard(), *memory.hooks(session_id="kitchen")]
    loop = AgentLoop(Model(otherwise="Fine."), hooks=hooks)
    loop.run("Hello.", speaker="ben")
    loop.run(SECRET, speaker="anna", private=True)
    assert whose(stored(memory)) == [
        ("ben", "household", "complete", ["Hello.", "Fine."]),
        ("anna", "private", "complete", [SECRET, "I may not say."]),
    ]
    own = OwnLoop(hooks, loop.session)
    own.hooks.fire(ON_RUN_START, own.ctx, {"task": "the piano?", "speaker": "anna", "private": True})
    own.said.append({"role": "user", "content": "the piano?"})
    own.end("I may not say.")
    assert whose(stored(memory))[2:] == [(None, "private", "complete", ["the piano?", "I may not say."])]


def test_an_answer_that_was_spoken_is_kept_though_its_loop_tells_no_end(memory: Memory) -> None:
    """The reply comes from `after_llm` where the loop's list never had it."""
    loop = OwnLoop(memory.hooks(session_id="kitchen"))
    loop.fail("Hello.", "anna")
    loop.hooks.fire(AFTER_LLM, loop.ctx, {"content": "Good day.", "tool_calls": [], "hop": 0})
    memory.diagnostics.database.flush()
    assert [(turn.state, words(turn)) for turn in stored(memory)] == [("open", ["Hello.", "Good day."])]


def test_a_question_of_an_aborted_turn_is_not_open(memory: Memory) -> None:
    """Nobody has heard it, so a yes to something else erases nothing; one that was asked in a turn that stays counts."""
    forget = Reply("", (ToolCall("forget_fact", {"key": "code"}),))
    memory.store.add_fact("code", "moon", scope="user:anna")
    loop = AgentLoop(
        Model(forget, "Shall I?", "Hello.", forget, "Shall I?", forget),
        hooks=memory.hooks(session_id="kitchen"),
        tools=memory.tools(),
        speaker="anna",
    )
    loop.prepare("Forget my code.")
    loop.abort()
    loop.run("Hello.")
    loop.run("Yes.")
    assert memory.store.get_fact("code", scope="user:anna") == "moon"
    loop.run("Yes.")
    assert memory.store.get_fact("code", scope="user:anna") is None
    assert loop.hooks.failures() == []


def test_a_question_that_failed_is_asked_again(memory: Memory) -> None:
    """A loop that takes the utterance back when the model fails says the same words once more, and they are heard."""
    loop = OwnLoop(memory.hooks(session_id="kitchen"))
    loop.run("Hello.", "anna")
    for _ in range(2):
        loop.fail("Where is my cup?", "anna")
        loop.said.pop()
    handed = loop.run("Where is my cup?", "anna")
    asked = [message["content"] for message in handed if message["role"] == "user"]
    assert asked == ["Hello."] + ["Where is my cup?"] * 3
    assert [(turn.state, words(turn)) for turn in stored(memory)] == [
        ("complete", ["Hello.", "Fine."]),
        *[("unfinished", ["Where is my cup?"])] * 2,
        ("complete", ["Where is my cup?", "Fine."]),
    ]
    assert [message["role"] for message in loop.run("Thanks.", "anna")] == ["user", "assistant"] * 4 + [
        "user"
    ]
