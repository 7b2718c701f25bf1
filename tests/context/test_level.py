"""Who may read a turn: what its reply repeats of a private text, and what its tools wrote, closes it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import edgemem
from edgemem import AgentLoop, Memory
from edgemem.context.prompt.log import PromptLog
from edgemem.records import Message, Reader, Reply, StoredMessage, ToolCall, Turn
from edgemem.session.tools import Tool
from edgemem.store.rights import readable
from edgemem.store.sessions import SQLiteSessionStore
from support.homes import opened
from support.models import Model

pytestmark = pytest.mark.usefixtures("patient")


PIN = "The PIN of my diary is 4711."


class Robot:
    """A robot with one memory, and one agent in it."""

    def __init__(self, home: Path, *, tools: Sequence[Tool] = ()) -> None:
        self.session = "kitchen"
        self.memory: Memory = opened(home)
        self.model = Model(otherwise="All right.")
        self.loop = AgentLoop(
            self.model,
            hooks=self.memory.hooks(session_id="kitchen"),
            tools=[*self.memory.tools(), *tools],
        )

    def __enter__(self) -> Robot:
        return self

    def __exit__(self, *exc: object) -> None:
        self.memory.close()

    def hear(
        self, text: str, *replies: str | ToolCall, speaker: str | None = "alice", **how: Any
    ) -> list[Message]:
        """Have somebody say something, and the model answer in turn; return its first prompt."""
        self.model.answers = [
            Reply("", (reply,)) if isinstance(reply, ToolCall) else Reply(reply) for reply in replies
        ]
        return self.loop.run(text, speaker=speaker, **how).handed[0]

    def levels(self) -> list[tuple[str, str | None]]:
        """Return who may read each turn."""
        turns = self.memory.sessions.journal.read_turns("kitchen")
        return [(turn.level, turn.owner) for turn in turns]

    def knows(self, word: str, *, speaker: str | None = "bob") -> bool:
        """Tell whether somebody is told a word by recall or in a prompt of their own."""
        recalled = self.memory.recall(f"{word} PIN diary piano ring", speaker=speaker or "", k=20)
        prompt = self.hear(f"What about the PIN of the diary, and {word[:0]} the piano?", speaker=speaker)
        return any(word in item.text for item in recalled) or word in str(prompt)


@pytest.fixture
def robot(tmp_path: Path) -> Iterator[Robot]:
    """Return a robot that finds by words."""
    with Robot(tmp_path / "home") as robot:
        yield robot


MINE = ("private", "alice")


# What a reply repeats


def test_a_reply_that_repeats_a_private_turn_is_as_private(robot: Robot) -> None:
    """What Alice said in private, and the robot says again to her, stands in nobody else's prompt or recall."""
    robot.hear(PIN, "I'll keep it.", private=True)
    prompt = robot.hear("What was it again?", "It is 4711.")
    assert "4711" in str(prompt)
    assert robot.levels()[1] == MINE
    assert not robot.knows("4711")
    assert not robot.knows("4711", speaker=None)
    assert robot.knows("4711", speaker="alice")
    exported = [
        line for line in robot.memory.export(speaker="bob") if re.search(r"\b4711\b", line)
    ]  # no time
    assert exported == []


@pytest.mark.parametrize(
    "reply",
    [
        "It is four seven one one.",
        "4 7 1 1",
        "4-7-1-1.",
        "Forty seven eleven!",
        "It's a 4, then a 7, a 1, and another 1.",
        "Es ist vier, sieben, eins, eins.",
        "Behind the K nine seven B.",  # the code below
        "K-9-7-B",
        "P-I-A-N-O",
        "p, i, a, n and then o",
        "Look into both pianos.",
    ],
)
def test_however_it_is_said(robot: Robot, reply: str) -> None:
    """Spelled, spaced out, in digits or words: it is the same value."""
    robot.hear(f"{PIN} Its box is K97B, in the piano.", "Good.", private=True)
    robot.hear("Das ist die Frage, und ich bin nicht sicher.", "Good.", private=True)
    robot.hear("What was it again?", reply)
    assert robot.levels()[2] == MINE


@pytest.mark.parametrize(
    ("utterance", "reply"),
    [
        ("Is it 4711?", "Yes, it is 4711."),
        ("Is it four seven one one?", "Yes, 4 7 1 1."),
        ("What did Bob tell you?", "He paid 90 crowns for the lamp."),
        ("Good morning.", "Good morning, Alice."),
        ("What year is it?", "It is 2026."),
        ("How do you spell it?", "L-A-M-P"),
    ],
)
def test_what_was_said_openly_stays_open(robot: Robot, utterance: str, reply: str) -> None:
    """A word of the utterance, or of what the others may read in the same prompt, closes nothing."""
    robot.hear("My lamp costs 90 crowns, he paid for it.", "Noted.", speaker="bob")
    robot.hear(f"{PIN} The lamp costs 90 crowns, Alice paid.", "Good.", private=True)
    robot.hear(utterance, reply)
    assert robot.levels()[2] == ("household", "alice")


def test_what_a_tool_found_is_open(tmp_path: Path) -> None:
    """A number that a tool of this turn tells is its own, though a private turn has it too."""
    degrees = Tool("degrees", "Tells.", {"type": "object", "properties": {}}, lambda: "4711 degrees")
    with Robot(tmp_path / "home", tools=[degrees]) as robot:
        robot.hear(PIN, "I'll keep it.", private=True)
        robot.hear("How hot is the sun?", ToolCall("degrees", {}), "It has 4711 degrees.")
        assert robot.levels()[1] == ("household", "alice")


def test_what_the_model_hands_to_a_tool_counts(tmp_path: Path) -> None:
    """A private value in a call closes the turn and the episode of the call, though the tool says it again."""
    given = {"type": "object", "properties": {"text": {"type": "string"}}}
    note = Tool("note", "Writes.", given, lambda text: f"noted {text}")
    with Robot(tmp_path / "home", tools=[note]) as robot:
        robot.hear(PIN, "I'll keep it.", private=True)
        robot.hear("Write it down.", ToolCall("note", {"text": "PIN 4711"}), "It says 4711.")
        assert robot.levels()[1] == MINE
        assert robot.memory.diagnostics.database.query("select level, owner from episodes") == [(2, "alice")]


def test_a_fact_that_repeats_a_private_text_is_as_private(robot: Robot) -> None:
    """The model cannot publish with a tool what its speaker said in private."""
    robot.hear(PIN, "I'll keep it.", private=True)
    call = ToolCall("remember_fact", {"key": "diary", "value": "4711", "scope": "global"})
    robot.hear("Remember it.", call, "Done.")
    assert [fact.scope for fact in robot.memory.store.facts()] == ["user:alice"]
    assert not robot.knows("4711")


@pytest.mark.parametrize("told", [True, False], ids=["by memory", "by a tool"])
def test_a_fact_that_repeats_what_was_told_is_as_private(robot: Robot, told: bool) -> None:
    """Nor what memory or a tool tells it in the same turn."""
    robot.memory.store.add_fact("diary.pin", "4711", scope="user:alice")
    call = ToolCall("remember_fact", {"key": "note", "value": "4711", "scope": "household"})
    calls = [call] if told else [ToolCall("recall_fact", {"key": "diary.pin"}), call]
    prompt = robot.hear("What is the diary pin?" if told else "Go on.", *calls, "Done.")
    assert ("4711" in str(prompt)) is told
    assert {fact.scope for fact in robot.memory.store.facts()} == {"user:alice"}


def test_the_reply_is_as_private_before_it_is_spoken(robot: Robot) -> None:
    """A robot that is switched off while it says a private value has kept that turn for its owner."""
    robot.hear(PIN, "I'll keep it.", private=True)
    robot.model.answers = [Reply("It is 4711.")]
    robot.loop.prepare("What was it again?", speaker="alice")
    robot.memory.diagnostics.database.flush()
    assert robot.levels()[1] == MINE


def test_two_owners_are_nobody(clock: edgemem.clock.Clock) -> None:
    """A reply that repeats what two people keep to themselves is read by the operator alone."""
    prompt_log, said = PromptLog("kitchen"), []
    for speaker, utterance in (("alice", "my pin is 4711"), ("bob", "my pin is 8822")):
        prompt_log.begin(Reader(speaker), level="private")
        said += [{"role": "user", "content": utterance}, {"role": "assistant", "content": "Good."}]
        prompt_log.take(said)
        prompt_log.commit()
    prompt_log.begin(None)
    said += [{"role": "user", "content": "Both?"}, {"role": "assistant", "content": "4711 and 8822."}]
    prompt_log.take(said)
    turn = prompt_log.commit()
    assert turn is not None
    assert (turn.level, turn.owner) == ("private", None)
    assert not any(readable(Reader(name), turn.level, turn.owner) for name in ("alice", "bob"))
    assert readable(None, turn.level, turn.owner)


# What replaces private turns

BOTH: list[Message] = [
    {"role": "user", "content": "my pin is 4711"},
    {"role": "assistant", "content": "Good."},
    {"role": "user", "content": "my pin is 8822"},
    {"role": "assistant", "content": "Fine."},
]
SUMMED: Message = {"role": "assistant", "content": "Their pins are 4711 and 8822."}


def test_a_stored_summary_of_two_peoples_private_turns_is_nobodys(tmp_path: Path) -> None:
    """What a loop puts in place of two people's private turns is read by neither, nor with what follows in the same turn."""
    with SQLiteSessionStore(tmp_path / "sessions.db") as store:
        said = [StoredMessage(str(message["role"]), str(message["content"])) for message in BOTH]
        kept = (StoredMessage("user", "any milk?"), StoredMessage("assistant", "yes"))
        for turn in (
            Turn("a", 0, tuple(said[:2]), level="private", owner="alice"),
            Turn("a", 1, tuple(said[2:]), level="private", owner="bob"),
            Turn("a", 2, kept),
        ):
            store.journal.commit(turn, [], accepted=None).result()
        session = store.load("a")
        assert session is not None
        session.messages[:4] = [SUMMED]
        store.save("a", session)
        turns = store.journal.read_turns("a")
        assert [(turn.level, turn.owner) for turn in turns] == [("private", None)]


# What a tool wrote


def test_nothing_private_is_told_of_what_was_written(robot: Robot) -> None:
    """A value that was hard to hear leaves the old one standing, which is not told while somebody listens."""
    robot.memory.store.add_fact("diary", "4711", scope="user:alice")
    call = ToolCall("remember_fact", {"key": "diary", "value": "4712", "scope": "me"})
    robot.hear(
        "Remember 4712 for me.",
        call,
        "Done.",
        audience=("bob",),
        heard=edgemem.records.Heard("alice", asr_confidence=0.1),
    )
    assert "4711" not in str(robot.model.handed)
    robot.hear("And now?", call, "Done.", heard=edgemem.records.Heard("alice", asr_confidence=0.1))
    assert "4711" in str(robot.model.handed)


def test_what_was_told_for_a_tool_is_seen(robot: Robot) -> None:
    """A private fact that a tool told or erased keeps its turn private."""
    for n, (say, call) in enumerate(
        (
            ("Forget the diary.", ToolCall("recall_fact", {"key": "diary"})),
            ("Forget the diary.", ToolCall("list_facts", {})),
            ("Forget the diary.", ToolCall("search_memory", {"query": "diary"})),
            ("Forget the diary.", ToolCall("forget_fact", {"key": "diary"})),
            ("Yes.", ToolCall("forget_fact", {"key": "diary"})),
        )
    ):
        robot.memory.store.add_fact("diary", "4711", scope="user:alice")
        robot.hear(say, call, "Done.")
        assert robot.levels()[n] == MINE
    assert "4711" in str(robot.model.handed)
    assert not robot.knows("4711")
