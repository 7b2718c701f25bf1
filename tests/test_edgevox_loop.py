"""The attachment for EdgeVox, behind the real agent with a scripted model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from edgevox_agent import calls, calls_in_words, grows, make_agent, new_context, tool, words

import edgemem
from edgemem.errors import InvalidInputError
from edgemem.hooks import Hook, HookResult, load
from edgemem.memory import Memory

pytestmark = pytest.mark.usefixtures("patient", "edgevox")


class Talk:
    """An agent of EdgeVox, and the context that all its turns have."""

    def __init__(self, *said: Any, **how: Any) -> None:
        self.agent, self.model = make_agent(*said, **how)
        self.ctx = new_context()
        self.hooks = self.agent.hooks
        self.tools = self.agent.tools

    def run(self, task: str) -> str:
        """Say something, and return the reply."""
        return str(self.agent.run(task, self.ctx).reply)

    @property
    def handed(self) -> list[list[dict[str, Any]]]:
        """Return the prompts."""
        return self.model.handed


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """Return a memory without an embedder and without a thread for upkeep."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "edgemem.toml").write_text('[llama]\nembedder = ""\n')
    with edgemem.open(home, worker=False) as opened:
        yield opened


def test_an_agent_remembers_and_its_session_holds_only_what_was_said(memory: Memory) -> None:
    """Memory reaches the newest message, the prompt only grows, and the store keeps the words alone."""
    memory.store.add_fact("allergy", "hazelnuts", scope="household")
    agent = Talk()
    ears = load("edgevox_loop").attach(agent.agent, memory, session_id="kitchen", speaker="alice")
    for task in ("which allergy do we have?", "and what else?", "thank you"):
        assert agent.run(task) == "ok"
    assert ears.failures() == []
    assert "hazelnuts" in agent.handed[0][-1]["content"]
    assert agent.handed[0][-1]["content"].endswith("which allergy do we have?")
    assert grows(agent.handed)
    turns = memory.sessions.journal.read_turns("kitchen")
    assert [m.content for turn in turns for m in turn.messages] == [
        "which allergy do we have?",
        "ok",
        "and what else?",
        "ok",
        "thank you",
        "ok",
    ]
    assert [turn.heard.speaker for turn in turns if turn.heard] == ["alice"] * 3


def test_a_session_is_taken_up_and_its_first_words_are_not_lost(memory: Memory) -> None:
    """EdgeVox writes its instructions over the first message, which must not be what somebody said."""
    for n in range(2):
        agent = Talk()
        ears = load("edgevox_loop").attach(agent.agent, memory, session_id="kitchen", speaker="alice")
        agent.run(f"this is number {n}")
        assert ears.failures() == []
    assert agent.handed[-1][0]["content"].startswith("You help in the kitchen.")
    said = [words(message) for message in agent.handed[-1][1:]]
    assert said == ["this is number 0", "ok", "this is number 1"]
    assert [turn.n for turn in memory.sessions.journal.read_turns("kitchen")] == [0, 1]


def test_private_text_is_in_nobody_elses_prompt(memory: Memory) -> None:
    """The owner of the loop says who speaks; EdgeVox's hooks could not know."""
    memory.store.add_fact("alarm.code", "the moon is green", scope="user:alice")
    agent = Talk()
    ears = load("edgevox_loop").attach(agent.agent, memory)
    for speaker in ("alice", "bob", None, "alice"):
        ears.speaker = speaker
        agent.run("what is the alarm code?")
    assert ["moon is green" in str(handed) for handed in agent.handed] == [True, False, False, True]
    assert ears.failures() == []


def test_a_stranger_is_not_taken_for_whoever_was_named_first(memory: Memory) -> None:
    """Attached for Alice, a voice that nobody recognises afterwards reads and changes only what is shared."""
    memory.store.add_fact("alarm.code", "the moon is green", scope="user:alice")
    agent = Talk()
    ears = load("edgevox_loop").attach(agent.agent, memory, speaker="alice")
    agent.run("what is the alarm code?")
    ears.speaker = None
    agent.run("what is the alarm code?")
    assert ["moon is green" in str(handed) for handed in agent.handed] == [True, False]
    assert "moon" not in str(agent.tools.dispatch("recall_fact", {"key": "alarm.code"}, ctx=agent.ctx).result)


def test_memory_tools_act_for_whoever_speaks(memory: Memory) -> None:
    """The agent's model gets the memory's tools; the speaker of the running turn decides what they may do."""
    agent = Talk()
    ears = load("edgevox_loop").attach(agent.agent, memory, speaker="alice")
    told = []

    for speaker, task, asks in (
        ("alice", "remember my code is moon", calls("remember_fact", key="code", value="moon", scope="me")),
        ("alice", "don't forget my code", calls("forget_fact", key="code", scope="me")),
        ("bob", "what is the code?", calls("recall_fact", key="code")),
        (None, "keep it", calls("remember_fact", key="code", value="sun", scope="me")),
        ("alice", "what is my code?", calls("recall_fact", key="code")),
        ("alice", "forget my code", calls("forget_fact", key="code")),
        ("alice", "yes", calls("forget_fact", key="code")),
    ):
        ears.speaker, agent.model.said = speaker, [asks]
        agent.run(task)
        told.append(agent.ctx.session.messages[-2]["content"])
    assert told[0] == '{"ok": true, "result": "Remembered: code: moon."}'
    assert "moon" not in told[2]
    assert "who is speaking" in told[3]
    assert "moon" in told[4], "she asked not to forget it"
    assert "Not erased yet" in told[5]
    assert "Forgotten" in told[6]
    assert memory.store.get_fact("code", scope="user:alice") is None
    assert ears.failures() == []


def test_a_turn_is_accepted_before_its_first_tool(memory: Memory) -> None:
    """The open turn is kept with what was said, although the agent's session does not know it yet."""
    agent = Talk(calls("list_facts"))
    ears = load("edgevox_loop").attach(agent.agent, memory, session_id="kitchen", speaker="alice")
    open_turns = []

    class Looking:
        points = frozenset({"after_tool"})

        def __call__(self, point: str, ctx: Any, payload: Any) -> None:
            memory.database.write(lambda _: None)  # behind what waits for the writer
            open_turns.extend(memory.sessions.journal.read_turns("kitchen"))

    agent.hooks.register(Looking())
    agent.run("what do you know?")
    assert [(turn.state, turn.messages[0].content) for turn in open_turns] == [("open", "what do you know?")]
    (turn,) = memory.sessions.journal.read_turns("kitchen")
    assert (turn.state, [m.role for m in turn.messages]) == (
        "complete",
        ["user", "assistant", "tool", "assistant"],
    )
    assert ears.failures() == []


def test_memory_tools_can_be_left_out(memory: Memory) -> None:
    """`memory_tools=False` registers none, and a bare registry of hooks has no place for any."""
    agent = Talk()
    load("edgevox_loop").attach(agent.agent, memory, memory_tools=False)
    assert agent.tools.tools == {}
    load("edgevox_loop").attach(agent.ctx.hooks, memory)
    load("edgevox_loop").attach(agent.agent, memory)
    assert "remember_fact" in agent.tools.tools


def test_a_barge_in_cuts_the_turn(memory: Memory) -> None:
    """What nobody heard is history neither in the store nor in the agent's session."""
    agent = Talk("one two three four")
    ears = load("edgevox_loop").attach(agent.agent, memory, session_id="kitchen", speaker="alice")
    ears.speech_start()
    ears.partial("count")
    agent.run("count")
    ears.interrupt("one two")
    ears.idle(0)
    agent.run("why did you stop?")
    assert agent.handed[-1][2]["content"] == "one two"
    assert "you were interrupted after: one two" in agent.handed[-1][-1]["content"]
    (turn, _) = memory.sessions.journal.read_turns("kitchen")
    assert (turn.state, turn.messages[-1].content) == ("interrupted", "one two")
    assert ears.failures() == []


@pytest.mark.parametrize(
    ("told", "heard"),
    [
        (("one two",), "one two"),
        ({"heard_ms": 700}, "one two"),
        ({"heard_ms": 250, "words": [("one", 0, 100), ("two", 100, 200), ("three", 200, 300)]}, "one two"),
        ((), "one two three four"),
    ],
)
def test_a_barge_in_is_told_as_text_or_times(memory: Memory, told: Any, heard: str) -> None:
    """As in edgemem's own loop; what makes no sense is refused, and changes nothing."""
    agent = Talk("one two three four")
    ears = load("edgevox_loop").attach(agent.agent, memory, session_id="kitchen", speaker="alice")
    agent.run("count")
    for nonsense in ({"heard_ms": "soon"}, {"words": ["one"]}, {"heard_text": 5}):
        with pytest.raises(InvalidInputError):
            ears.interrupt(**nonsense)
    assert agent.ctx.session.messages[-1]["content"] == "one two three four"
    ears.interrupt(**told) if isinstance(told, dict) else ears.interrupt(*told)
    assert agent.ctx.session.messages[-1]["content"] == heard
    memory.database.flush()
    (turn,) = memory.sessions.journal.read_turns("kitchen")
    assert turn.messages[-1].content == heard
    agent.run("why did you stop?")
    assert f"you were interrupted after: {heard}" in agent.handed[-1][-1]["content"]
    assert ears.failures() == []


@pytest.mark.parametrize("asked", [calls("look", "Let me look."), calls_in_words("look", "Let me look.")])
def test_a_barge_in_reaches_what_was_said_before_a_tool(memory: Memory, asked: Any) -> None:
    """The words that came with a call are cut too, in the agent's session as in the store."""
    agent = Talk("Hello.", asked, "On the shelf.", tools=[tool("look", lambda: "a cup")])
    ears = load("edgevox_loop").attach(
        agent.agent, memory, session_id="kitchen", speaker="alice", memory_tools=False
    )
    agent.run("hello")
    agent.run("where is the cup?")
    ears.interrupt("let me")
    said = [m["content"] for m in agent.ctx.session.messages if m["role"] == "assistant"]
    assert said[-2:] == ["Let me", ""]
    memory.database.flush()
    turn = memory.sessions.journal.read_turns("kitchen")[-1]
    kept = [(m.content, m.unheard) for m in turn.messages if m.role == "assistant"]
    assert kept == [("Let me", " look."), ("", "On the shelf.")]
    assert ears.failures() == []


class Doing:
    """A hook of edgemem that names a point of ours and does what a test says."""

    points = frozenset({"on_run_start", "before_llm", "on_idle"})
    priority = 30
    fail_closed = False

    def __init__(self, do: Callable[[Any], HookResult | None]) -> None:
        self.do = do

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        return self.do(payload) if point == "before_llm" else None


def attached(*hooks: Hook) -> tuple[Talk, Any]:
    """Return an agent with some hooks of ours."""
    agent = Talk()
    return agent, load("edgevox_loop").attach_hooks(agent, hooks)


def test_an_end_of_ours_ends_the_turn_there() -> None:
    """EdgeVox ignores a result of another class; ours comes as one of its own."""
    with pytest.raises(ValueError, match="on_idle"):
        new_context().hooks.register(Doing(lambda _: None))
    agent, _ = attached(Doing(lambda _: HookResult.end("not now", reason="quiet hours")))
    assert (agent.run("sing"), agent.handed) == ("not now", [])


def test_failures_are_counted_and_safety_fails_closed() -> None:
    """EdgeVox swallows an exception and goes on; our registry counts it, and a safety hook ends the turn."""

    def broken(payload: Any) -> HookResult | None:
        raise OSError("the disk is gone")

    agent, ears = attached(Doing(broken))
    assert agent.run("go") == "ok"
    (failure,) = ears.failures()
    assert (failure.hook, failure.count) == ("Doing", 1)
    guard = Doing(broken)
    guard.fail_closed = True
    agent, _ = attached(guard)
    assert (agent.run("go"), agent.handed) == ("Sorry, I cannot do that right now.", [])


def test_priorities_hold_between_their_hooks_and_ours(edgevox: ModuleType) -> None:
    """A hook of theirs at 40 acts before ours at 30, one at 20 behind it."""
    order: list[str] = []

    class Theirs:
        points = frozenset({"before_llm"})

        def __init__(self, name: str) -> None:
            self.name = name

        def __call__(self, point: str, ctx: Any, payload: Any) -> Any:
            order.append(self.name)
            return edgevox.HookResult.cont()

    agent, _ = attached(Doing(lambda _: order.append("ours")))  # type: ignore[func-returns-value]
    agent.hooks.register(Theirs("20"), priority=20)
    agent.hooks.register(Theirs("40"), priority=40)
    agent.run("go")
    assert order == ["40", "ours", "20"]


def test_an_agent_without_a_registry_is_refused(memory: Memory) -> None:
    """The error says what to pass."""
    with pytest.raises(InvalidInputError, match="object has no hook registry; pass an EdgeVox agent"):
        load("edgevox_loop").attach(object(), memory)


def test_what_is_half_heard_is_recalled_for(memory: Memory) -> None:
    """`ears.partial` has recall ready at the end of the sentence, also of one that is spoken while the agent answers."""
    memory.store.add_fact("boat.colour", "green")
    question = "What is the colour of the boat?"
    agent = Talk()
    ears = load("edgevox_loop").attach(agent.agent, memory, session_id="kitchen", speaker="alice")

    def hear(text: str) -> None:
        ears.partial(text)
        while not memory.ahead.idle:
            threading.Event().wait(0.001)

    ears.speech_start()
    hear(question)
    agent.run(question)
    assert "boat.colour: green" in agent.handed[-1][-1]["content"]

    def think(_: list[dict[str, Any]]) -> str:
        hear("And who painted it?")
        return "Somebody."

    agent.model.said = [think]
    agent.run("Who owns it?")
    hear("And who painted it?")
    agent.run("And who painted it?")
    assert (memory.ahead.counts.turns, memory.ahead.counts.ready) == (2, 2)
    assert ears.failures() == []
