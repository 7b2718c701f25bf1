"""Barge-in where the model or the voice is ahead: a loop of one's own, and a turn prepared while a reply still plays."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from talking import Model, opened

import edgemem
from edgemem import AgentLoop, JSONSessionStore, Memory
from edgemem.context.bargein import tells_of_earlier
from edgemem.hooks import AgentResult, HookRegistry, PersistSessionHook, TurnContext
from edgemem.records import Message, Session

COUNT = "One two three four five."
TOLD: list[dict[str, Any]] = [
    {"heard_text": "One two"},
    {"heard_text": "one, two"},
    {"heard_ms": 750},
    {"words": [("one", 0, 100), ("two", 100, 300), ("three", 300, 700)], "heard_ms": 350},
]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """Return an open memory."""
    with opened(tmp_path / "home", "[context]\nspeech_chars_s = 10.0\n") as memory:
        yield memory


class OwnLoop:
    """A loop that fires the hook points itself, and never cuts its own list."""

    def __init__(self, memory: Memory, *, keeps_view: bool = False) -> None:
        self.hooks = HookRegistry(memory.hooks(session_id="k", speaker="alice"))
        self.ctx = TurnContext(Session())
        self.keeps_view = keeps_view
        self.answers: list[Any] = []

    def fire(self, point: str, payload: Any) -> Any:
        """Fire a point and return its payload."""
        return self.hooks.fire(point, self.ctx, payload).payload

    def ask(self, question: str) -> list[Message]:
        """Begin a turn and return the prompt."""
        self.fire("on_run_start", {"task": question})
        self.ctx.session.messages.append({"role": "user", "content": question})
        head = [{"role": "system", "content": "S"}]
        asked = {"messages": [*head, *self.ctx.session.messages], "hop": 0, "tools": []}
        prompt: list[Message] = self.fire("before_llm", asked)["messages"]
        if self.keeps_view:
            self.ctx.session.messages[:] = prompt[1:]
        return prompt

    def say(self, reply: str) -> None:
        """Append a reply as it was generated."""
        self.ctx.session.messages.append({"role": "assistant", "content": reply})

    def end(self, *, interrupted: bool = False) -> None:
        """End the turn."""
        self.fire("on_run_end", AgentResult("", 1, interrupted))

    def interrupt(self, **told: Any) -> Any:
        """Tell what was heard."""
        return self.fire("on_interrupt", told)

    def turn(self, question: str, reply: str) -> list[Message]:
        """Play a whole turn and return its prompt."""
        prompt = self.ask(question)
        self.say(reply)
        self.end()
        return prompt


def replies(memory: Memory) -> list[tuple[Any, ...]]:
    """Return what is stored of the replies of all turns, oldest first."""
    memory.database.flush()
    with closing(sqlite3.connect(f"file:{memory.home}/db/memory.db?mode=ro", uri=True)) as plain:
        return plain.execute(
            "select content, unheard from messages where role = 'assistant' order by id"
        ).fetchall()


def after(heard: str) -> str:
    """Return the block which tells what was heard last."""
    return f"<memory>you were interrupted{' after: ' + heard if heard else ''}</memory>\n"


# -- a loop of one's own ---------------------------------------------------------------------------------


@pytest.mark.parametrize("keeps_view", [False, True])
@pytest.mark.parametrize("during", [False, True])
@pytest.mark.parametrize("told", TOLD)
def test_the_next_prompt_has_what_was_heard(
    memory: Memory, told: dict[str, Any], during: bool, keeps_view: bool
) -> None:
    """Whether the reply stood in the loop's list already or not, and though that keeps the whole of it."""
    loop = OwnLoop(memory, keeps_view=keeps_view)
    loop.turn("hello", "Hi.")
    first = loop.ask("count")
    if during:
        assert "speeches" not in loop.interrupt(**told)
        loop.say(COUNT)
        loop.end(interrupted=True)
    else:
        loop.say(COUNT)
        loop.end()
        assert loop.interrupt(**told)["speeches"] == ["One two"]
    second = loop.turn("go on", "Ok.")
    assert second == [*first, {"role": "assistant", "content": "One two"}, second[-1]]
    assert second[-1]["content"] == after("One two") + "go on"
    third = loop.turn("well?", "Yes.")
    assert third[: len(second)] == second
    assert third[-1]["content"] == "well?"
    assert replies(memory) == [("Hi.", None), ("One two", " three four five."), ("Ok.", None), ("Yes.", None)]
    states = [turn.state for turn in memory.sessions.journal.read_turns("k")]
    assert states == ["complete", "interrupted", "complete", "complete"]
    assert loop.hooks.failures() == []


@pytest.mark.parametrize(
    "kept",
    ["One two three four five.", "One two", "One", "One two three"],
    ids=["whole", "same", "less", "more"],
)
def test_a_loop_may_keep_as_much_of_the_reply_as_it_likes(memory: Memory, kept: str) -> None:
    """A report that is corrected counts, and the loop's own cut is no edit of the past."""
    loop = OwnLoop(memory)
    loop.turn("count", COUNT)
    for heard in ("One two three", "One", "One two"):
        loop.interrupt(heard_text=heard)
    loop.ctx.session.messages[-1] = {"role": "assistant", "content": kept}
    prompt = loop.turn("go on", "Ok.")
    assert [message["content"] for message in prompt[1:]] == ["count", "One two", after("One two") + "go on"]
    assert replies(memory)[0] == ("One two", " three four five.")


def test_an_edit_of_a_reply_that_was_cut_off_is_one(memory: Memory) -> None:
    """What is not the reply's own beginning was written by the operator."""
    loop = OwnLoop(memory)
    loop.turn("count", COUNT)
    loop.interrupt(heard_text="One two")
    loop.ctx.session.messages[-1] = {"role": "assistant", "content": "Uno"}
    assert [message["content"] for message in loop.turn("go on", "Ok.")[1:]] == ["count", "Uno", "go on"]


def test_a_reply_that_still_grows_is_cut_when_the_turn_ends(memory: Memory) -> None:
    """A loop that keeps what has come so far tells what was heard of it, and its list grows on."""
    loop = OwnLoop(memory)
    loop.ask("count")
    loop.say("One two th")
    assert loop.interrupt(heard_text="One")["heard_text"] == "One"
    loop.ctx.session.messages[-1] = {"role": "assistant", "content": COUNT}
    loop.end()
    assert replies(memory) == [("One", " two three four five.")]
    assert loop.turn("go on", "Ok.")[2]["content"] == "One"


def test_a_session_kept_as_json_holds_what_was_heard(tmp_path: Path) -> None:
    """Also where the reply is still to come."""
    store = JSONSessionStore(tmp_path / "sessions")
    hooks = HookRegistry([PersistSessionHook(store, session_id="k")])
    ctx = TurnContext(Session())
    hooks.fire("on_run_start", ctx, {"task": "count"})
    ctx.session.messages.append({"role": "user", "content": "count"})
    hooks.fire("on_interrupt", ctx, {"heard_text": "One two"})
    ctx.session.messages.append({"role": "assistant", "content": COUNT})
    hooks.fire("on_run_end", ctx, AgentResult(COUNT, 1, True))
    kept = store.load("k")
    assert kept is not None
    assert kept.messages[-1]["content"] == "One two"
    assert hooks.failures() == []


def test_a_loop_that_takes_over_again_is_told_what_was_said_without_it(memory: Memory) -> None:
    """Its own list still has the whole reply, and is followed by what another loop heard and said."""
    loop = OwnLoop(memory)
    loop.turn("count", COUNT)
    loop.interrupt(heard_text="One two")
    own, loop.ctx = loop.ctx, TurnContext(Session())
    loop.turn("go on", "Ok.")
    loop.ctx = own
    prompt = loop.turn("well?", "Yes.")
    assert [message["content"] for message in prompt[1:]][1::2] == ["One two", "Ok."]


# -- a turn prepared while the reply before it plays -----------------------------------------------------


BAKE = "First we bake rolls, then the cake."
STOP = "Sure, I stop."
WORDS = [("first", 0, 100), ("we", 100, 200), ("bake", 200, 300), ("rolls", 300, 400)]


def said(messages: Sequence[Message]) -> list[Any]:
    """Return the contents of messages."""
    return [message["content"] for message in messages]


@pytest.mark.parametrize("ending", ["commit", "abort"])
@pytest.mark.parametrize("while_answering", [False, True])
@pytest.mark.parametrize(
    "told",
    [
        {"heard_text": "First we bake"},
        {"heard_text": "first, we bake"},
        {"words": WORDS, "heard_ms": 300},
        {"heard_ms": 1400, "prepared": False},
    ],
)
def test_the_reply_that_plays_is_cut_and_the_prepared_turn_goes_on(
    memory: Memory, told: dict[str, Any], while_answering: bool, ending: str
) -> None:
    """The prompt behind it has what was heard, and tells so once; the prepared reply is whole."""
    loop = AgentLoop(model := Model(BAKE, STOP), hooks=memory.hooks(session_id="k"), speaker="alice")
    loop.run("plan?")
    if while_answering:
        model.meanwhile = lambda: loop.interrupt(**told)
    loop.prepare("stop")
    model.meanwhile = lambda: None
    if not while_answering:
        loop.interrupt(**told)
    assert model.stopped == [False, False]
    assert model.handed[-1][1]["content"] == BAKE
    before = ["plan?", "First we bake"]
    if ending == "commit":
        assert not loop.commit().interrupted
        before += ["stop", STOP]
    else:
        loop.abort()
    assert said(loop.session.messages) == before
    loop.run("go on")
    assert said(model.handed[-1]) == [*before, after("First we bake") + "go on"]
    loop.run("well?")
    assert said(model.handed[-1])[-1] == "well?"
    kept = [("First we bake", " rolls, then the cake."), *([(STOP, None)] if ending == "commit" else [])]
    assert replies(memory)[: len(kept)] == kept
    assert loop.hooks.failures() == []


def test_words_told_while_the_turn_begins_are_in_its_prompt(memory: Memory) -> None:
    """Told before the model was asked, the cut stands in the prompt that is prepared."""
    loop = AgentLoop(model := Model(BAKE, STOP), hooks=memory.hooks(session_id="k"), speaker="alice")
    loop.run("plan?")

    class Early:
        points = frozenset({"on_run_start"})
        priority = 1

        def __call__(self, point: str, ctx: Any, payload: Any) -> None:
            loop.interrupt("First we bake")

    loop.hooks.register(Early())
    loop.prepare("stop")
    assert said(model.handed[-1]) == ["plan?", "First we bake", after("First we bake") + "stop"]


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ({"heard_text": "Sure"}, [BAKE, "Sure"]),
        ({"heard_text": ""}, [BAKE, ""]),
        ({"heard_text": "nobody ever said so"}, [BAKE, ""]),
        ({"heard_ms": 600}, [BAKE, "Sure,"]),
        ({"heard_text": "First we bake", "prepared": True}, [BAKE, ""]),
        ({}, [BAKE, STOP]),
    ],
)
def test_what_is_not_of_the_reply_before_is_of_the_prepared_one(
    memory: Memory, told: dict[str, Any], kept: list[str]
) -> None:
    """The reply before stays whole."""
    loop = AgentLoop(Model(BAKE, STOP), hooks=memory.hooks(session_id="k"), speaker="alice")
    loop.run("plan?")
    loop.prepare("stop")
    loop.interrupt(**told)
    assert loop.commit().interrupted
    assert [text or "" for text, _ in replies(memory)] == kept


def test_a_turn_that_is_spoken_at_once_is_the_one_that_is_cut(memory: Memory) -> None:
    """Its reply may begin as the one before it did, which is over."""
    loop = AgentLoop(model := Model(BAKE, BAKE), hooks=memory.hooks(session_id="k"), speaker="alice")
    loop.run("plan?")
    model.meanwhile = lambda: loop.interrupt("First we bake")
    assert loop.run("again?").interrupted
    assert [text for text, _ in replies(memory)] == [BAKE, "First we bake"]


@pytest.mark.parametrize(
    ("earlier", "prepared", "heard", "tells"),
    [
        ([BAKE], [STOP], "first we bake", True),
        ([BAKE], [], "first we bake", True),
        ([BAKE], [BAKE], "first we", True),
        ([BAKE], [], "first of all", False),
        ([BAKE], [STOP], "first of all", True),
        ([BAKE], [STOP], "sure i", False),
        ([BAKE], [STOP], "", False),
        (["Let me look.", BAKE], [STOP], "first we bake", True),
        (["It takes 21 minutes."], [], "it takes 21", True),
        (["It takes 21 minutes."], [], "it takes 25", False),
        (["It takes 21 minutes."], [], "it takes twenty one minutes", True),
        ([], [STOP], "sure", False),
    ],
)
def test_words_tell_which_turn_was_spoken(
    earlier: list[str], prepared: list[str], heard: str, tells: bool
) -> None:
    """All of them are of the earlier one, or at least more than are of the prepared one."""
    assert tells_of_earlier(earlier, prepared, heard_text=heard) == tells


# -- who is told -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("restarted", [False, True])
def test_who_was_cut_off_alone_is_told_when_next_that_person_speaks(tmp_path: Path, restarted: bool) -> None:
    """Whoever may not read that turn is told nothing, and does not use the line up."""
    model = Model("One two three four.", "Hello Bob.")
    for n in range(2):
        with edgemem.open(tmp_path, worker=False) as memory:
            loop = AgentLoop(model, hooks=memory.hooks(session_id="k"))
            if n == 0:
                loop.run("secret", speaker="alice", private=True)
                loop.interrupt("One two")
                loop.run("who is it?", speaker="bob")
                assert said(model.handed[-1]) == ["who is it?"]
            if n == int(restarted):
                loop.run("me again", speaker="alice")
                assert said(model.handed[-1])[-1] == after("One two") + "me again"
                loop.run("and now?", speaker="alice")
                assert said(model.handed[-1])[-1] == "and now?"
                break


def test_what_one_was_told_is_told_to_nobody_else(memory: Memory) -> None:
    """A turn of the household that was cut off is told to whoever speaks next, and once."""
    loop = AgentLoop(model := Model("One two three four."), hooks=memory.hooks(session_id="k"))
    loop.run("count", speaker="alice")
    loop.interrupt("One two")
    loop.run("what?", speaker="bob")
    assert said(model.handed[-1])[-1] == after("One two") + "what?"
    loop.run("well?", speaker="alice")
    assert said(model.handed[-1])[-1] == "well?"


# -- what was heard --------------------------------------------------------------------------------------


def test_a_voice_that_was_cut_off_is_silent(memory: Memory) -> None:
    """The same words once more are of the prepared turn."""
    loop = AgentLoop(Model(BAKE, BAKE), hooks=memory.hooks(session_id="k"), speaker="alice")
    loop.run("plan?")
    loop.interrupt("First we bake")
    loop.prepare("again?")
    loop.interrupt("First we")
    loop.commit()
    assert [text for text, _ in replies(memory)] == ["First we bake", "First we"]


def test_a_loop_of_ones_own_prepares_too(memory: Memory) -> None:
    """Its hooks find the reply that was playing by what was heard of it."""
    loop = OwnLoop(memory)
    loop.turn("plan?", BAKE)
    loop.ask("stop")
    assert loop.interrupt(heard_text="First we bake")["heard_text"] == "First we bake"
    loop.say(STOP)
    loop.end()
    assert said(loop.turn("go on", "Ok.")[1:]) == [
        "plan?",
        "First we bake",
        "stop",
        STOP,
        after("First we bake") + "go on",
    ]
    assert replies(memory) == [("First we bake", " rolls, then the cake."), (STOP, None), ("Ok.", None)]


@pytest.mark.parametrize("indexed", [False, True])
def test_a_reply_of_which_nothing_was_heard_is_not_recalled(memory: Memory, indexed: bool) -> None:
    """Neither by words nor as a neighbour, before and after that is indexed."""
    loop = AgentLoop(Model("A zebra departs."), hooks=memory.hooks(session_id="k"), speaker="alice")
    loop.run("when does the zeppelin depart?")
    memory.database.flush()
    assert not indexed or memory.idle(5)
    loop.interrupt("")
    memory.database.flush()
    for _ in range(2):
        found = [item.text for item in memory.recall("when does the zeppelin depart?", speaker="alice", k=9)]
        assert "when does the zeppelin depart?" in found
        assert all(text.strip() and "zebra" not in text for text in found)
        assert memory.idle(5)
    with closing(sqlite3.connect(f"file:{memory.home}/db/index.db?mode=ro", uri=True)) as index:
        assert index.execute("select count(*) from docs").fetchone() == (1,)
