"""What of edgemem stands in a real EdgeVox agent by itself, the attachment for it, and its turns that go another way."""

import random
import sys
import threading
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import edgemem
from edgemem.errors import InvalidInputError
from edgemem.hooks import ToolOutputTruncatorHook, load
from edgemem.memory import Memory
from support.homes import opened, told, turns_of
from support.loops import calls, calls_in_words, grows, hands_over, make_agent, new_context, tool, words
from support.selection import cases
from support.tokenizers import WordTokenizer

pytestmark = pytest.mark.usefixtures("patient", "edgevox")


class Talk:
    """An agent of EdgeVox, and the context that all its turns have."""

    def __init__(self, *said: Any, **how: Any) -> None:
        self.agent, self.model = make_agent(*said, **how)
        self.ctx = new_context()
        self.hooks = self.agent.hooks
        self.tools = self.agent.tools

    def run(self, task: str) -> str:
        return str(self.agent.run(task, self.ctx).reply)

    @property
    def handed(self) -> list[list[dict[str, Any]]]:
        return self.model.handed


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
    memory.diagnostics.database.flush()
    (turn,) = memory.sessions.journal.read_turns("kitchen")
    assert turn.messages[-1].content == heard
    agent.run("why did you stop?")
    assert f"you were interrupted after: {heard}" in agent.handed[-1][-1]["content"]
    assert ears.failures() == []


HOOKS = """from edgemem.hooks import HookResult

class Guard:
    points, priority, fail_closed = frozenset({"before_llm", "on_speech_start"}), 30, True

    def __call__(self, point, ctx, payload):
        if point == "on_speech_start":
            heard.append(payload["speaker"])
        elif payload["messages"][-1]["content"].endswith("sing"):
            return HookResult.end("not now", reason="quiet hours")
        elif payload["messages"][-1]["content"].endswith("break"):
            raise OSError("the disk is gone")

heard = []
guard = Guard()

def hook(memory):
    return guard
"""


def test_hook_files_of_the_home_act_at_all_points(tmp_path: Path) -> None:
    """They end a turn of EdgeVox, fail closed and counted, and hear of what EdgeVox has no point for."""
    (tmp_path / "home" / "hooks").mkdir(parents=True)
    (tmp_path / "home" / "hooks" / "guard.py").write_text(HOOKS)
    with opened(tmp_path / "home", "[hooks]\nfiles = ['guard.py']\n") as memory:
        agent = Talk()
        ears = load("edgevox_loop").attach(agent.agent, memory, session_id="kitchen", speaker="alice")
        ears.speech_start()
        assert (agent.run("sing"), agent.handed) == ("not now", [])
        assert (agent.run("break"), agent.handed) == ("Sorry, I cannot do that right now.", [])
        assert (agent.run("go"), len(agent.handed)) == ("ok", 1)
        (failure,) = ears.failures()
        assert failure.count == 1
        assert sys.modules["edgemem_hook_guard"].heard == ["alice"]
        replies = [messages[-1] for _, _, messages in stored(memory)]
        assert replies[0] == ("assistant", "not now")


def test_an_agent_without_a_registry_is_refused(memory: Memory) -> None:
    """The error says what to pass."""
    with pytest.raises(InvalidInputError, match="object has no hook registry; pass an agent or registry"):
        load("edgevox_loop").attach(object(), memory)


def test_what_is_half_heard_is_recalled_for(memory: Memory) -> None:
    """`ears.partial` has recall ready at the end of the sentence."""
    memory.store.add_fact("boat.colour", "green")
    question = "What is the colour of the boat?"
    agent = Talk()
    ears = load("edgevox_loop").attach(agent.agent, memory, session_id="kitchen", speaker="alice")

    ears.speech_start()
    ears.partial(question)
    while not memory.diagnostics.prefetch.idle:
        threading.Event().wait(0.001)
    agent.run(question)
    assert "boat.colour: green" in agent.handed[-1][-1]["content"]
    assert memory.diagnostics.prefetch.counts.ready == 1
    assert ears.failures() == []


def test_hooks_at_points_of_edgevox_act_as_they_are(edgevox: ModuleType, ctx: Any) -> None:
    """Those that need nothing else are taken by EdgeVox straight."""
    counts = WordTokenizer()
    pages = tool("read", lambda: "page " * 10_000)
    hooks = [ToolOutputTruncatorHook(max_chars=2000), edgemem.TokenBudgetHook(1000, tokenizer=counts)]
    agent, model = make_agent(calls("read"), tools=[pages], hooks=hooks)
    for n in range(20):
        agent.run(f"{n}" + " word" * 80, ctx)
    assert len(model.handed[1][-1]["content"]) < 2100
    assert all(counts.count(prompt) <= 1000 for prompt in model.handed)


WAYS = ("agent", "context")


@pytest.fixture
def ctx(edgevox: ModuleType) -> Any:
    return new_context()


def attached(way: str, agent: Any, ctx: Any, memory: Memory, **how: Any) -> Any:
    """Attach the memory to an agent, or to the hooks of the context that it runs in."""
    return load("edgevox_loop").attach(
        agent if way == "agent" else ctx.hooks, memory, session_id="kitchen", **{"speaker": "alice", **how}
    )


def stored(memory: Memory, session: str = "kitchen") -> list[Any]:
    """Return the stored turns: who spoke, how it ended, and what was said."""
    memory.diagnostics.database.flush()
    turns = turns_of(memory, session)
    return [(turn.heard and turn.heard.speaker, turn.state, told(turn)) for turn in turns]


@pytest.mark.parametrize("way", WAYS)
def test_calls_in_words_are_kept_as_calls(memory: Memory, ctx: Any, way: str) -> None:
    """EdgeVox tells their results in the person's name, with an order behind; neither is the person's."""
    shelf = tool("look", lambda place: f"a red cup in the {place}", place="string")
    cellar = calls_in_words("look", "One moment. ", place="cellar")
    attic = calls_in_words("look", place="attic")
    agent, model = make_agent(cellar, "A red cup.", attic, attic, "Nothing more.", tools=[shelf])
    ears = attached(way, agent, ctx, memory)
    agent.run("What is in the cellar?", ctx)
    agent.run("And in the attic?", ctx)
    agent.run("Thank you.", ctx)
    assert ears.failures() == []
    assert grows(model.handed)
    assert "red cup in the cellar" in model.handed[1][-1]["content"]
    assert not [m for handed in model.handed for m in handed if "Now answer" in str(m["content"])]
    first, second, _ = memory.sessions.journal.read_turns("kitchen")
    assert [m.role for m in first.messages] == ["user", "assistant", "tool", "assistant"]
    assert first.messages[1].content == "One moment."
    (call,) = first.messages[1].extra["tool_calls"]
    assert call["function"] == {"name": "look", "arguments": '{"place": "cellar"}'}
    assert first.messages[2].extra["tool_call_id"] == call["id"]
    assert "red cup in the cellar" in str(first.messages[2].content)
    assert [m.role for m in second.messages] == ["user", *["assistant", "tool"] * 2, "assistant"]
    said = [m.content for turn in (first, second) for m in turn.messages if m.role == "user"]
    assert said == ["What is in the cellar?", "And in the attic?"]
    found = memory.recall("red cup cellar", speaker="alice")
    assert found
    assert not [item for item in found if item.source == "user" and "cup" in item.text]


@pytest.mark.parametrize("first", WAYS)
@pytest.mark.parametrize("second", WAYS)
def test_attaching_twice_keeps_each_word_once(memory: Memory, ctx: Any, first: str, second: str) -> None:
    """The same session again, at the agent or at its context, is the same attachment, for whoever was named last."""
    agent, model = make_agent()
    memory.store.add_fact("tea", "black", scope="household")
    ears = attached(first, agent, ctx, memory, memory_tools=False)
    agent.run("Hello.", ctx)
    assert attached(second, agent, ctx, memory, memory_tools=False, speaker="bob") is ears
    agent.run("What tea do we have?", ctx)
    assert stored(memory) == [
        ("alice", "complete", [("user", "Hello."), ("assistant", "ok")]),
        ("bob", "complete", [("user", "What tea do we have?"), ("assistant", "ok")]),
    ]
    assert model.handed[-1][-1]["content"].count("tea: black") == 1
    assert grows(model.handed)
    assert ears.failures() == []


@pytest.mark.parametrize("way", WAYS)
def test_an_agent_within_a_tool_has_no_turn_of_its_own(memory: Memory, ctx: Any, way: str) -> None:
    """What it says to the other agent was said by nobody; its answer is the tool's result."""
    from edgevox.agents import agent_as_tool

    cook, _ = make_agent("Twenty minutes.", name="cook")
    asks = calls("cook", task="cook rice"), "Twenty.", calls_in_words("cook", task="again")
    agent, model = make_agent(*asks, tools=[agent_as_tool(cook)])
    ears = attached(way, agent, ctx, memory, memory_tools=False)
    agent.run("How long does rice take?", ctx)
    agent.run("Really?", ctx)
    first, second = memory.sessions.journal.read_turns("kitchen")
    for turn in (first, second):
        assert [m.role for m in turn.messages] == ["user", "assistant", "tool", "assistant"]
    assert first.messages[0].content == "How long does rice take?"
    assert "Twenty minutes." in str(first.messages[2].content)
    assert grows(model.handed)
    assert ears.failures() == []


@pytest.mark.parametrize("call", [calls, calls_in_words])
@pytest.mark.parametrize("way", WAYS)
def test_a_turn_is_its_speakers_while_a_tool_runs(memory: Memory, ctx: Any, way: str, call: Any) -> None:
    """What the tool will tell is not known yet, also where the model wrote its call as text; the end tells."""

    def levels() -> list[tuple[str, str | None]]:
        memory.sessions.journal.mark_unfinished("kitchen")
        return [(turn.level, turn.owner) for turn in memory.sessions.journal.read_turns("kitchen")]

    seen = []
    shelf = tool("look", lambda: seen.extend(levels()) or "a red cup")
    agent, _ = make_agent(call("look"), "A red cup.", tools=[shelf])
    attached(way, agent, ctx, memory)
    agent.run("What is on the shelf?", ctx)
    assert (seen, levels()) == ([("private", "alice")], [("household", "alice")])


def test_an_agent_leaves_one_session_for_another(memory: Memory, ctx: Any) -> None:
    """What is said behind belongs to the second one alone."""
    agent, _ = make_agent()
    loop = load("edgevox_loop")
    loop.attach(agent, memory, session_id="kitchen", speaker="alice")
    agent.run("Hello kitchen.", ctx)
    loop.attach(agent, memory, session_id="hall", speaker="alice")
    agent.run("Hello hall.", new_context())
    for name in ("kitchen", "hall"):
        said = [message["content"] for message in memory.sessions.load(name).messages]
        assert said == [f"Hello {name}.", "ok"]


KINDS = ("plain", "call", "call in words", "two calls in words", "handed over", "fails", "fails behind a call",
         "other fails", "cut off", "cut off while it thinks", "cut off in a tool")  # fmt: skip


class Account:
    """A talk, and the naive account of it."""

    def __init__(self, memory: Memory, chance: random.Random, session: str) -> None:
        from edgevox.agents import InterruptController

        self.chance, self.session, self.memory = chance, session, memory
        look = tool("look", lambda place: f"a cup in the {place}", place="string")
        self.cook, self.cooking = make_agent(name="cook")
        self.interrupt = InterruptController()
        walk = tool("walk", lambda: self.interrupt.trigger("user_barge_in"))
        self.agent, self.model = make_agent(handoffs=[self.cook], tools=[look, walk])
        self.ctx = new_context(interrupt=self.interrupt)
        self.at_agent = chance.random() < 0.5
        where = self.agent if self.at_agent else self.ctx.hooks
        self.ears = load("edgevox_loop").attach(where, memory, session_id=session, memory_tools=False)
        self.turns: list[tuple[str | None, str, list[str], list[str]]] = []
        self.prompts: dict[str, list[list[dict[str, Any]]]] = {}

    def say(self, n: int) -> None:
        chance, model = self.chance, self.model
        speaker = chance.choice(["alice", "bob", None])
        kind = chance.choice(KINDS)
        task, reply = f"utterance {n} of {speaker}", f"reply {n}"
        if chance.random() < 0.2:  # EdgeVox's own default: a context for each run
            self.ctx = new_context(interrupt=self.interrupt, hooks=self.ctx.hooks)
        self.ears.speaker = speaker
        model.said, self.cooking.said, model.handed, state = [reply], [reply], [], "complete"
        replies = [reply]
        if kind in ("call", "call in words", "two calls in words", "fails behind a call"):
            shape = calls if kind == "call" else calls_in_words
            times = 2 if kind == "two calls in words" else 1
            model.said = [*(shape("look", place=f"place {n}") for _ in range(times)), reply]
            replies = [""] * times + [reply]
        if kind == "handed over":
            model.said = [hands_over("cook")]
        elif kind == "other fails":
            model.said, self.cooking.said = [hands_over("cook")], [OSError("gone")]
        elif kind == "fails":
            model.said = [OSError("gone")]
        elif kind == "fails behind a call":
            model.said[-1] = OSError("gone")
        elif kind == "cut off while it thinks":
            model.said = [self._cut_off(reply)]
        elif kind == "cut off in a tool":
            model.said, replies, state = [calls_in_words("walk")], [], "interrupted"
        if "fails" in kind:
            replies, state = replies[:-1], "unfinished"
        if kind == "cut off while it thinks":
            state = "interrupted"
        try:
            self.agent.run(task, self.ctx)
        except OSError:
            assert "fails" in kind
        if kind == "cut off":
            state = "interrupted"
            if chance.random() < 0.5:
                self.ears.interrupt("reply")
                replies[-1] = "reply"
            self.interrupt.trigger("user_barge_in")
        self.turns.append((speaker, state, [task], replies))
        self.prompts.setdefault(str(speaker), []).extend(model.handed)

    def _cut_off(self, reply: str) -> Any:
        def think(_: Any) -> str:
            self.interrupt.trigger("user_barge_in")
            return reply

        return think

    def check(self) -> None:
        self.ears.speaker, self.model.said = "alice", []
        self.agent.run("the last", self.ctx)
        self.turns.append(("alice", "complete", ["the last"], ["ok"]))
        roles = ("user", "assistant")
        kept = [
            (speaker, state, *([text or "" for by, text in said if by == role] for role in roles))
            for speaker, state, said in stored(self.memory, self.session)
        ]
        assert kept == self.turns
        assert self.ears.failures() == []
        for prompts in self.prompts.values():
            # What a barge-in cuts is the one change that is allowed; all else only grows.
            for earlier, later in pairwise(prompts):
                for was, now in zip(earlier, later, strict=False):
                    assert was == now or words(was).startswith(words(now))
                assert len(earlier) <= len(later)
        everything = str(self.prompts)
        assert "Now answer" not in everything
        assert "__interrupt__" not in everything


@pytest.mark.long
def test_random_talks_are_kept_as_they_were(memory: Memory) -> None:
    """Of 2,000 talks each turn has its speaker, its words and its end, and prompts only grow."""
    for case in range(cases(2000)):
        account = Account(memory, random.Random(case), f"talk-{case}")
        for n in range(account.chance.randrange(1, 8)):
            account.say(n)
        account.check()
