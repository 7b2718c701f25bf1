"""A loop with a message list of its own, as every tutorial has one: what is stored, what is read again, and what is told it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgemem.hooks import BEFORE_LLM, ON_RUN_END, ON_RUN_START, AgentResult, HookRegistry, TurnContext
from edgemem.memory import Memory
from edgemem.records import Message, Session
from support.homes import opened

pytestmark = pytest.mark.usefixtures("patient")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """Return a memory that finds by words."""
    with opened(tmp_path / "home") as memory:
        yield memory


class OwnList:
    """A loop whose list no hook ever sees but when it asks its model."""

    def __init__(self, memory: Memory, session: str = "kitchen") -> None:
        self.memory, self.session = memory, session
        self.hooks = HookRegistry(memory.hooks(session_id=session))
        self.ctx = TurnContext(Session())
        self.messages: list[Message] = []
        self.handed: list[Message] = []

    def turn(self, text: Any, reply: Any = "Fine.", *, ends: Any = AgentResult, **told: Any) -> None:
        """Live one turn."""
        if told:
            self.hooks.fire(ON_RUN_START, self.ctx, {"task": text, **told})
        self.messages.append({"role": "user", "content": text})
        self.ask()
        self.messages.append({"role": "assistant", "content": reply})
        if ends is not None:
            self.hooks.fire(ON_RUN_END, self.ctx, ends(reply))

    def ask(self, hop: int = 0) -> None:
        """Have the prompt made."""
        payload = {"messages": self.messages, "hop": hop, "tools": []}
        self.handed = self.hooks.fire(BEFORE_LLM, self.ctx, payload).payload["messages"]

    def stored(self) -> list[tuple[str | None, list[tuple[str, Any]]]]:
        """Return who spoke in each stored turn, and what was said."""
        self.memory.diagnostics.database.flush()
        return [
            (turn.heard.speaker if turn.heard else None, [(m.role, m.content) for m in turn.messages])
            for turn in self.memory.sessions.journal.read_turns(self.session)
        ]


@pytest.mark.parametrize("ends", [AgentResult, str, lambda reply: {"reply": reply}])
def test_each_message_is_stored_once(memory: Memory, ends: Any) -> None:
    """Twelve messages are twelve, whatever the loop says at its end."""
    loop = OwnList(memory)
    for n in range(6):
        loop.turn(f"Question number {n}?", f"Answer number {n}.", ends=ends, speaker="alice")
        assert len(loop.handed) == 2 * n + 1
    said = [
        ("alice", [("user", f"Question number {n}?"), ("assistant", f"Answer number {n}.")]) for n in range(6)
    ]
    assert loop.stored() == said
    assert loop.hooks.failures() == []


def test_a_loop_that_tells_nothing_but_its_list_is_kept_too(memory: Memory) -> None:
    """Without a start and an end, utterances and replies are an unknown voice's, each once."""
    loop = OwnList(memory)
    for n in range(3):
        loop.turn(f"Question number {n}?", f"Answer number {n}.", ends=None)
    loop.turn("And now?", "Nothing.")
    assert [messages for _, messages in loop.stored()] == [
        *([("user", f"Question number {n}?"), ("assistant", f"Answer number {n}.")] for n in range(3)),
        [("user", "And now?"), ("assistant", "Nothing.")],
    ]
    assert {speaker for speaker, _ in loop.stored()} == {None}


def test_a_misspelt_argument_is_named(memory: Memory) -> None:
    """A known person never becomes an unknown voice without a word."""
    loop = OwnList(memory)
    loop.turn("Where is the salt?", speakr="alice")
    (failure,) = loop.hooks.failures()
    assert "'speakr'" in failure.message
    assert "'speaker'" in failure.message


@pytest.mark.parametrize(
    "thought",
    [
        {"content": "<think>hidden</think>Fine."},
        {"content": "Fine.", "reasoning_content": "hidden"},
        {"content": [{"type": "thinking", "thinking": "hidden"}, {"type": "text", "text": "Fine."}]},
    ],
)
def test_thoughts_are_neither_kept_nor_read_again(memory: Memory, thought: dict[str, Any]) -> None:
    """Whatever form a provider gives them, only what was said aloud is history."""
    loop = OwnList(memory)
    loop.turn("Hello.", speaker="alice")
    loop.messages[-1] = {"role": "assistant", **thought}
    loop.turn("And now?", speaker="alice")
    assert "hidden" not in str(loop.stored())
    assert "hidden" not in str(loop.handed)
    assert "hidden" not in str([item.text for item in memory.recall("hidden")])


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"type": "text", "text": "The boat is green."}, "The boat is green."),
        ([{"type": "input_audio", "transcript": "The boat is green."}], "The boat is green."),
        ([{"type": "input_text", "text": "The boat is green."}], "The boat is green."),
    ],
)
def test_parts_of_every_provider_have_their_text(memory: Memory, content: Any, text: str) -> None:
    """What was said as a part, or spoken, is found again."""
    loop = OwnList(memory)
    loop.turn(content, speaker="alice")
    memory.diagnostics.database.flush()
    assert text in str(memory.recall("Which colour has the boat?", speaker="alice"))


def test_an_image_is_not_kept_in_the_truth(memory: Memory) -> None:
    """A placeholder with its type and size stands for it."""
    loop = OwnList(memory)
    url = "data:image/png;base64," + "A" * 200_000
    image = {"type": "image_url", "image_url": {"url": url}}
    loop.turn([image, {"type": "text", "text": "What is this?"}], speaker="alice")
    memory.diagnostics.database.flush()
    (turn,) = memory.sessions.journal.read_turns("kitchen")
    assert turn.messages[0].content == "What is this?"
    assert len(str(turn)) < 2000
    assert "image/png" in str(turn.messages[0].extra)


@pytest.mark.parametrize("role", ["system", "developer"])
def test_instructions_in_the_middle_keep_their_place(memory: Memory, role: str) -> None:
    """They are no failure, and stand where they stood in every later prompt."""
    loop = OwnList(memory)
    loop.turn("Hello.", speaker="alice")
    loop.messages.append({"role": role, "content": "From now on in French."})
    for n in range(2):
        loop.turn(f"Number {n}?", speaker="alice")
        assert [m["content"] for m in loop.handed if m["role"] == role] == ["From now on in French."]
        assert loop.handed[2]["role"] == role
    assert loop.hooks.failures() == []


@pytest.mark.parametrize("text", ["word " * 2000, "7" * 8000])
def test_an_utterance_is_bounded_by_tokens_of_the_window(memory: Memory, text: str) -> None:
    """What is longer keeps its beginning and its end."""
    loop = OwnList(memory)
    loop.turn(text, speaker="alice")
    window = memory.profile.context.window_tokens
    assert memory.diagnostics.tokenizer.count(loop.handed) < window
