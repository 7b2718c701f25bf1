"""The door of a turn: what a loop tells there, and what it gets back."""

import contextvars
import copy
import dataclasses
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

import edgemem
from edgemem import Heard, HookResult, Tool, ToolTurn
from edgemem.errors import ClosedError, InvalidInputError, ModelError, TurnEndedError
from edgemem.memory import Memory
from edgemem.records import Reader, Session, ToolCall, text_of
from edgemem.store.turn_steps import BeginEpoch
from support.data import DATA
from support.homes import files_with, opened, told, turns_of
from support.loops import ASK, CALL, OwnLoop, look_late, side_by_side, speak, tool_named
from support.models import Listener
from support.refusals import refusal
from support.tokenizers import WordTokenizer

pytestmark = pytest.mark.usefixtures("patient")

CAKE = {"role": "tool", "tool_call_id": "c1", "content": "a cake"}
OPEN = {"role": "assistant", "content": "Open."}
LOOK = Tool("look", "Looks.", {"type": "object", "properties": {}}, lambda: "a cake")


def texts(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return roles and texts, without blocks."""
    return [(m["role"], text_of(m).rpartition("</memory>\n")[2]) for m in messages]


def test_a_turn_is_told_and_becomes_history(memory: Memory) -> None:
    """The model reads instructions, history, memory and the utterance; each hop appends only what is new."""
    memory.store.add_fact("alice.allergy", "hazelnuts", scope="household")
    memory.idle(5)
    kitchen = memory.session("kitchen", instructions="You help.", tools=[LOOK])
    with kitchen.turn("Can alice eat hazelnuts?", speaker="alice", audience=("ben",)) as turn:
        first = turn.messages
        assert texts(first) == [("system", "You help."), ("user", "Can alice eat hazelnuts?")]
        assert "hazelnuts</memory>" in first[-1]["content"]
        turn.add(ASK)
        assert turn.call(CALL).result == "a cake"
        second = turn.messages
        assert second[: len(first)] == first
        assert second[len(first) :] == [
            ASK,
            {"role": "tool", "tool_call_id": "c1", "name": "look", "content": "a cake"},
        ]
        assert [tool["function"]["name"] for tool in turn.tools] == ["look"]
        assert turn.now == kitchen.log.prompt_log.epoch.started_at
        assert turn.reply("Better not.") == "Better not."
    assert speak(kitchen, "Thanks.", "You are welcome.", speaker="alice")[: len(second)] == second
    assert kitchen.failures() == []
    assert [told(turn) for turn in turns_of(memory)] == [
        [
            ("user", "Can alice eat hazelnuts?"), ("assistant", None), ("tool", "a cake"),
            ("assistant", "Better not."),
        ],
        [("user", "Thanks."), ("assistant", "You are welcome.")],
    ]  # fmt: skip
    assert [turn.state for turn in turns_of(memory)] == ["complete", "complete"]


def test_a_session_is_taken_up_with_the_very_same_prompt(tmp_path: Path) -> None:
    """After a restart the model reads what it read before, byte for byte."""
    with opened(tmp_path / "home") as memory, memory.session("kitchen", tools=[LOOK]) as kitchen:
        with kitchen.turn("Look.", speaker="alice") as turn:
            turn.add(ASK)
            turn.add({"role": "system", "content": "The light is on."})
            turn.call(CALL)
            turn.reply("A cake.")
        before = kitchen.turn("And?", speaker="alice").messages
    with opened(tmp_path / "home") as memory:
        again = memory.session("kitchen", tools=[LOOK]).turn("And?", speaker="alice").messages
        assert again[: len(before) - 1] == before[:-1]
        assert ("system", "The light is on.") in texts(again)


def test_commit_and_abort_end_a_turn(memory: Memory) -> None:
    """A prepared turn is kept early or thrown away without a trace; then its methods raise, and leaving it does nothing."""
    kitchen = memory.session("kitchen", speaker="alice")
    with kitchen.turn("Prepared.") as turn:
        turn.reply("Ready.")
        turn.commit()
        late = (turn.commit, turn.abort, lambda: turn.reply("x"), lambda: turn.messages, lambda: turn.tools)
        for call in late:
            refusal(TurnEndedError, call, match="has ended")
    with kitchen.turn("Never mind.") as turn:
        assert turn.messages
        turn.reply("What?")
        turn.abort()
    assert [told(turn)[0][1] for turn in turns_of(memory)] == ["Prepared."]
    assert kitchen.ctx.session.messages[-1]["content"] == "Ready."
    assert texts(kitchen.turn("Next.").messages) == [
        ("user", "Prepared."),
        ("assistant", "Ready."),
        ("user", "Next."),
    ]


def test_an_exception_keeps_the_turn_as_its_speakers(memory: Memory) -> None:
    """The utterance is kept, unfinished, and the next turn goes on."""
    kitchen = memory.session("kitchen")

    def fail() -> None:
        with kitchen.turn("I live here.", speaker="alice") as turn:
            assert turn.messages
            raise OSError("the model is gone")

    with pytest.raises(OSError, match="model"):
        fail()
    (turn,) = turns_of(memory)
    assert (turn.state, turn.owner, told(turn)) == ("unfinished", "alice", [("user", "I live here.")])


@pytest.mark.parametrize("how", ["next turn", "idle", "close"])
def test_a_turn_that_is_left_open_is_ended(memory: Memory, how: str) -> None:
    """The next turn, quiet or closing ends it: complete with a reply, else unfinished."""
    kitchen = memory.session("kitchen", speaker="alice")
    for reply in ("Here.", None):
        turn = kitchen.turn("Where?")
        assert turn.messages
        if reply:
            turn.add({"role": "assistant", "content": reply})
        if how == "next turn":
            kitchen.turn("x").abort()
        elif how == "idle":
            kitchen.idle(0.0)
        else:
            kitchen.close()
            kitchen.close()
        assert not turn.is_open
    assert [turn.state for turn in turns_of(memory)] == ["complete", "unfinished"]


@pytest.mark.parametrize("how", ["next turn", "idle", "close"])
def test_a_reply_that_a_loop_has_told_before_it_is_spoken_is_kept(tmp_path: Path, how: str) -> None:
    """However its turn is ended while the robot speaks; its loop then says nothing new."""
    with opened(tmp_path / "home") as memory:
        loop = OwnLoop(memory.hooks(session_id="kitchen"))
        loop.fail("Tell me a story.", "alice")
        loop.hooks.fire("after_llm", loop.ctx, {"content": "Once.", "tool_calls": (), "hop": 0, "tokens": ()})
        if how == "next turn":
            memory.session("kitchen").turn("x").abort()
        elif how == "idle":
            memory.session("kitchen").idle(0.0)
        if how != "close":
            loop.end("Once.")
            assert loop.hooks.failures() == []
    with opened(tmp_path / "home") as memory:
        assert [told(t) for t in turns_of(memory)] == [[("user", "Tell me a story."), ("assistant", "Once.")]]
        assert [turn.state for turn in turns_of(memory)] == ["complete"]


def test_what_a_loop_changes_in_its_prompt_enters_no_history(memory: Memory) -> None:
    """Messages that are handed over, and those that are handed back, are the loop's own."""

    @edgemem.hook("before_llm")
    def camera(ctx: Any, payload: Any) -> None:
        payload["messages"][-1]["content"] += "[hook]"

    kitchen = memory.session("kitchen", instructions="You help.", speaker="alice")
    kitchen.hooks.register(camera)
    call = copy.deepcopy(ASK)
    with kitchen.turn([{"type": "text", "text": "Hello."}]) as turn:
        for message in (turn.messages[0], turn.messages[1]["content"][0], call, turn.add(call)):
            message.update(content="[loop]", text="[loop]", tool_calls=["[loop]"])
        assert "[loop]" not in str(turn.messages)
        turn.reply("Hi.")
    assert kitchen.instructions == "You help."
    assert "[loop]" not in (kept := str(turns_of(memory)))
    assert "[hook]" not in kept


def test_calls_without_ids_are_each_kept_with_their_result(memory: Memory) -> None:
    """Small models give none; calls of a message, calls that no message has, and results that a loop adds find each other."""
    kitchen = memory.session("kitchen", tools=[Tool("see", "", {}, lambda at: f"saw {at}")])
    calls = [{"function": {"name": "see", "arguments": {"at": at}}} for at in ("table", "door")]
    with kitchen.turn("Look.", speaker="alice") as turn:
        assert turn.messages
        turn.add({"role": "assistant", "content": None, "tool_calls": calls})
        for call in (*reversed(calls), {"name": "see", "arguments": {"at": "floor"}}):
            assert turn.call(call).error is None
        turn.add({"role": "assistant", "content": None, "tool_calls": calls[:1]})
        turn.add({"role": "tool", "name": "see", "content": "saw nothing"})
        turn.reply("Done.")
    prompt = kitchen.turn("And?", speaker="alice").messages
    results = {m["tool_call_id"]: m["content"] for m in prompt if m["role"] == "tool"}
    asked = [(c["id"], str(c["function"]["arguments"])) for m in prompt for c in m.get("tool_calls") or ()]
    assert [next(at for at in ("table", "door", "floor") if at in arguments) for _, arguments in asked] == [
        "table", "door", "floor", "table",
    ]  # fmt: skip
    assert [results[call_id] for call_id, _ in asked] == ["saw table", "saw door", "saw floor", "saw nothing"]


def test_one_id_is_one_log(memory: Memory) -> None:
    """Agents of one id share what was said, each with its instructions; a turn of one ends the turn of the other."""
    cook = memory.session("kitchen", instructions="You cook.", agent="cook")
    host = memory.session("kitchen", instructions="You welcome.", agent="host")
    assert speak(cook, "Soup?", "Tomato.", speaker="alice")[0]["content"] == "You cook."
    first = host.turn("And wine?", speaker="alice")
    assert texts(first.messages) == [
        ("system", "You welcome."), ("user", "Soup?"), ("assistant", "Tomato."), ("user", "And wine?"),
    ]  # fmt: skip
    first.reply("Red.")
    second = cook.turn("Bread?", speaker="alice")
    refusal(TurnEndedError, first.add, {"role": "assistant", "content": "more"})
    with first:
        pass
    second.abort()
    assert [turn.state for turn in turns_of(memory)] == ["complete", "complete"]


def test_only_the_omitted_speaker_is_the_conversations(memory: Memory) -> None:
    """None is a voice that nobody recognised, and reads what is shared."""
    kitchen = memory.session("kitchen", speaker="alice")
    kitchen.turn("Mine.").end()
    for nobody in (None, "", "  "):
        kitchen.turn("Whose?", speaker=nobody).end()
    edgemem.AgentLoop(Listener(), hooks=memory.hooks(session_id="kitchen", speaker="alice")).run(
        "Whose?", speaker=None
    )
    whose = [(turn.owner, turn.level) for turn in turns_of(memory)]
    assert whose == [("alice", "household"), *[(None, "shared")] * 4]


def test_the_speaker_of_a_turn_is_who_was_heard(memory: Memory) -> None:
    """A report without a name, or with another one, lends its trust to nobody; a name left out is the report's."""
    kitchen = memory.session("kitchen", speaker="alice")
    for said in ({"speaker": "bob", "heard": Heard(room="hall")}, {"speaker": None, "heard": Heard("alice")}):
        kitchen.turn("Hello.", **said).end()  # type: ignore[arg-type]
    kitchen.turn("Hello.", heard=Heard("bob")).end()
    who = [(turn.owner, turn.heard and turn.heard.speaker) for turn in turns_of(memory)]
    assert who == [("bob", "bob"), (None, None), ("bob", "bob")]


def test_tools_made_for_somebody_serve_no_stranger(memory: Memory) -> None:
    """The speaker of the turn decides; that of the tools counts outside of a turn."""
    memory.store.add_fact("safe code", "4711", scope="user:alice")
    tools = memory.tools(speaker="alice")
    kitchen = memory.session("kitchen", tools=tools)
    with kitchen.turn("What do you know?", speaker=None) as turn:
        assert "4711" not in turn.call(ToolCall("list_facts", {})).result
    assert "4711" in tool_named(tools, "list_facts").run(None)


def test_an_unreadable_session_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop's list is no history from elsewhere then, and the next turn goes on with what was said."""

    def fail(*_: Any, **__: Any) -> Any:
        raise edgemem.errors.StoreError("disk I/O error")

    with opened(tmp_path / "home") as memory:
        loop = OwnLoop(memory.hooks(session_id="kitchen"))
        loop.run("My safe code is 4711.", "alice", private=True)
    for at in ("own list", "door"):
        with opened(tmp_path / "home") as memory:
            own = OwnLoop(memory.hooks(session_id="kitchen"), Session(list(loop.said)))
            kitchen = memory.session("kitchen")
            with monkeypatch.context() as broken:
                broken.setattr(type(memory.sessions.journal), "read_turns", fail)
                if at == "own list":
                    assert "4711" not in str(own.run("Hello.", "bob"))
                else:
                    kitchen.turn("Hello.", speaker="bob").end()
            prompt = str(kitchen.turn("And now?", speaker="alice").messages)
            assert ("4711" in prompt, "Hello." in prompt) == (True, True)
            kitchen.turn("x").abort()
            assert [turn.owner for turn in turns_of(memory)][:2] == ["alice", "bob"]


def test_an_unfinished_turn_with_a_call_stays_closed_in_every_store(tmp_path: Path) -> None:
    """Also where a store knows messages only."""
    for _ in range(2):
        store = edgemem.PersistSessionHook(edgemem.JSONSessionStore(tmp_path), session_id="kitchen")
        kitchen = edgemem.AgentLoop(Listener(), hooks=[store]).conversation
        with suppress(OSError), kitchen.turn("Open my safe.", speaker="alice") as turn:
            assert turn.messages
            turn.add(ASK)
            turn.add({"role": "tool", "tool_call_id": "c1", "content": "The code is 4711."})
            raise OSError("the model is gone")
        assert "4711" not in str(kitchen.turn("Hello.", speaker="bob").messages)
        kitchen.open_turn.abort()  # type: ignore[union-attr]


def test_an_interruption_keeps_only_a_beginning_of_the_reply(memory: Memory) -> None:
    """While the reply is made, while it plays and after the turn; other words are stored nowhere."""
    kitchen = memory.session("kitchen", speaker="alice")
    with kitchen.turn("One?") as turn:
        turn.reply("There are hazelnuts in it.")
    assert kitchen.interrupt("There are haz") == "There are haz"
    with kitchen.turn("Two?") as turn:
        assert kitchen.interrupt("Two of", prepared=True) is None
        turn.reply("Two of them.")
    with kitchen.turn("Three?") as turn:
        turn.reply("Three of them are left.")
        assert turn.messages
        assert kitchen.interrupt("Three of", prepared=True) == "Three of"
        memory.sessions.journal.mark_unfinished("kitchen")
        assert told(turns_of(memory)[-1])[-1][1] == "Three of"  # also if the power goes before its end
        assert kitchen.interrupt("quite other words", prepared=True) == ""
    assert [told(turn)[-1][1] for turn in turns_of(memory)] == ["There are haz", "Two of", ""]
    assert {turn.state for turn in turns_of(memory)} == {"interrupted"}
    with kitchen.turn("Four?") as turn:
        turn.reply("Four.")
    kitchen.turn("Five?").abort()  # and its words are told
    for how in ({}, {"prepared": False}, {"words": [("quite", 0, 100)]}):
        told_words = {} if "words" in how else {"heard_text": "quite other words"}
        assert kitchen.interrupt(**told_words, **how) is None
    assert told(turns_of(memory).pop())[-1] == ("assistant", "Four.")
    assert [m["content"] for m in kitchen.ctx.session.messages[1::2]] == [
        "There are haz", "Two of", "", "Four.",
    ]  # fmt: skip


def test_hooks_of_the_users_own_act_at_their_points(memory: Memory) -> None:
    """They see each point in order, may change what the model reads, and may give the reply; no history holds their text."""
    seen: list[str] = []

    @edgemem.hook(*edgemem.hooks.POINTS)
    def watch(point: str, ctx: Any, payload: Any) -> HookResult | None:
        seen.append(point)
        if point == "before_llm":
            return HookResult.replace(
                {**payload, "messages": [*payload["messages"], {"role": "system", "content": "!"}]}
            )
        if point == "after_llm" and payload["content"] == "secret":
            return HookResult.end("I cannot say.")
        return None

    loop_hooks = edgemem.HookRegistry([*memory.hooks(session_id="kitchen", speaker="alice"), watch])
    loop = edgemem.AgentLoop(None, hooks=loop_hooks, tools=[LOOK])  # type: ignore[arg-type]
    kitchen = loop.conversation
    kitchen.speech_start()
    kitchen.partial("Wh")
    with kitchen.turn("What?") as turn:
        assert turn.messages[-1]["content"] == "!"
        turn.add(ASK)
        turn.call(CALL)
        assert turn.messages[-1]["content"] == "!"
        assert turn.reply("secret") == "I cannot say."
        assert turn.hook_reply == "I cannot say."
    kitchen.interrupt()
    kitchen.turn("x").abort()
    kitchen.idle(0)
    assert seen == [
        "on_speech_start", "on_partial", "on_run_start", "before_llm", "after_llm", "before_tool",
        "after_tool", "before_llm", "after_llm", "on_run_end", "on_interrupt", "on_run_start", "on_abort",
        "on_idle",
    ]  # fmt: skip
    assert told(turns_of(memory)[0])[-1] == ("assistant", "I cannot say.")
    assert "!" not in str(turns_of(memory))


@pytest.mark.parametrize(
    ("point", "wrong"),
    [
        *(("on_run_start", {"audience": wrong}) for wrong in (5, "ben")),
        ("on_run_start", {"speaker": ["x"]}),
        *(("on_run_start", {"task": wrong}) for wrong in (None, 5)),
        *(("before_llm", {"messages": wrong}) for wrong in (None, 5, ["x"])),
        *(("before_llm", {"tools": wrong}) for wrong in (5, [7])),
        *(("after_llm", wrong) for wrong in ({"tool_calls": 5}, {"tool_calls": [7]}, {"content": 5})),
        ("on_run_start", None),
    ],
)
def test_a_payload_of_no_kind_is_left_out(memory: Memory, point: str, wrong: dict[str, Any] | None) -> None:
    """Whether a hook hands it back or changes it in place; the turn goes on as it was told."""

    @edgemem.hook(point)
    def mine(ctx: Any, payload: Any) -> HookResult | None:
        return payload.clear() if wrong is None else HookResult.replace({**payload, **wrong})

    kitchen = memory.session("kitchen", speaker="alice")
    kitchen.hooks.register(mine)
    with kitchen.turn("Hello.") as turn:
        assert texts(turn.messages) == [("user", "Hello.")]
        assert turn.reply("Hi.") == "Hi."
    assert [told(turn) for turn in turns_of(memory)] == [[("user", "Hello."), ("assistant", "Hi.")]]
    assert [(failure.hook, failure.count) for failure in kitchen.failures()] == [("mine", 1)]


@dataclasses.dataclass
class ForeignCall:
    """The envelope of a call as EdgeVox has it."""

    name: str
    arguments: Any
    skip_dispatch: bool = False
    synthetic_result: Any = None


def _redact(payload: Any) -> None:
    payload.result = "[redacted]"


@pytest.mark.parametrize("way", ["call", "add"])
@pytest.mark.parametrize(
    ("point", "change", "told", "failures"),
    [
        ("before_tool", lambda p: HookResult.replace(ForeignCall(p.name, '{"x": "less"}')), "a less cake", 0),
        (
            "before_tool",
            lambda p: HookResult.replace(ForeignCall(p.name, {}, True, "declined")),
            "declined",
            0,
        ),
        ("after_tool", _redact, "[redacted]", 0),
        ("after_tool", lambda p: _redact(p) or HookResult.replace(p), "[redacted]", 0),
        *(
            (point, change, "a cake", 1)
            for point in ("before_tool", "after_tool")
            for change in (
                lambda p: HookResult.replace("x"),
                lambda p: HookResult.replace({"name": "x"}),
                lambda p: HookResult.replace(ForeignCall(5, {})),  # type: ignore[arg-type]
                lambda p: HookResult.end(None),  # type: ignore[arg-type]
                lambda p: setattr(p, "name", 5),
                lambda p: p.arguments.update(x="wrong") or 1 / 0,
            )
        ),
    ],
)
def test_a_hook_at_a_tool_is_heeded_or_counted(
    memory: Memory, way: str, point: str, change: Any, told: str, failures: int
) -> None:
    """It may change the call and the result, in place or by a record of its framework; else they stay as they are."""

    @edgemem.hook(point)
    def mine(ctx: Any, payload: Any) -> HookResult | None:
        return change(payload)  # type: ignore[no-any-return]

    look = Tool("look", "", {}, lambda x="": f"a {x} cake".replace("  ", " "))
    kitchen = memory.session("kitchen", tools=[look], speaker="alice")
    kitchen.hooks.register(mine)
    with kitchen.turn("Look.") as turn:
        turn.add(ASK)
        turn.call(CALL) if way == "call" else turn.add(CAKE)
        turn.reply("Good.")
    (kept,) = turns_of(memory)
    if way == "call" or point == "after_tool":
        assert kept.messages[2].content == told
        assert [failure.count for failure in kitchen.failures()] == [1] * failures


@pytest.mark.parametrize("way", ["call", "add"])
def test_a_hook_behind_a_tool_may_give_the_reply(memory: Memory, way: str) -> None:
    """Whoever ran the tool."""
    kitchen = memory.session("kitchen", tools=[LOOK], speaker="alice")
    kitchen.hooks.register(edgemem.hook("after_tool")(lambda ctx, payload: HookResult.end("I stop.")))
    with kitchen.turn("Look.") as turn:
        turn.add(ASK)
        turn.call(CALL) if way == "call" else turn.add(CAKE)
        assert turn.hook_reply == "I stop."
        assert turn.reply("Good.") == "I stop."


@pytest.mark.parametrize("way", ["call", "add"])
@pytest.mark.parametrize("point", ["on_run_start", "before_llm", "after_llm", "before_tool", "after_tool"])
def test_a_failing_safety_hook_gives_the_reply(memory: Memory, point: str, way: str) -> None:
    """One that fails closed ends the turn of any loop, at each point; no tool runs behind it, and no other word is kept."""
    ran: list[str] = []

    class Guard:
        points = frozenset({point})
        priority = 0
        fail_closed = True

        def __call__(self, point: str, ctx: Any, payload: Any) -> None:
            raise OSError("no sensor")

    kitchen = memory.session("kitchen", tools=[Tool("look", "", {}, lambda: ran.append("look") or "secret")])
    kitchen.hooks.register(Guard())
    with kitchen.turn("Open the door.", speaker="alice") as turn:
        while calls := (said := turn.add(ASK if turn.messages[-1]["role"] == "user" else OPEN)).get(
            "tool_calls"
        ):
            if way == "call":
                turn.call(calls[0])
            elif point == "before_tool":
                return  # such a loop asks nobody before its tools
            else:
                turn.add({"role": "tool", "tool_call_id": "c1", "content": "a secret"})
        assert said["content"] == turn.hook_reply is not None
    assert ran == (["look"] if point == "after_tool" and way == "call" else [])
    assert "secret" not in str(turns_of(memory))
    assert kitchen.failures()[0].hook == "Guard"
    assert told(turns_of(memory)[0])[-1] == ("assistant", said["content"])


def test_tools_that_run_side_by_side_are_all_kept(memory: Memory) -> None:
    """`call` may run in several threads: each result stands behind its call once."""
    gate = threading.Barrier(4)

    def slow(n: int) -> str:
        gate.wait(10)
        return f"result {n}"

    kitchen = memory.session("kitchen", tools=[Tool("slow", "", {}, slow)], speaker="alice")
    calls = [ToolCall("slow", {"n": n}, f"c{n}") for n in range(4)]
    with kitchen.turn("All.") as turn:
        assert turn.messages
        asked = [{"id": c.id, "function": {"name": c.name, "arguments": c.arguments}} for c in calls]
        turn.add({"role": "assistant", "content": None, "tool_calls": asked})
        side_by_side(*(partial(turn.call, call) for call in calls))
        assert sorted(m["content"] for m in turn.messages if m["role"] == "tool") == [
            f"result {n}" for n in range(4)
        ]
        turn.reply("Done.")
    assert kitchen.failures() == []


def test_an_agent_within_a_tool_is_as_closed_as_the_outer_answer(memory: Memory) -> None:
    """Its task is nobody's words, it reads with the rights of the speaker, and the outer answer takes its level."""
    memory.store.add_fact("alice.code", "4711", scope="user:alice")
    memory.idle(5)
    cook = memory.session("cook")

    def ask(turn: ToolTurn, question: str) -> str:
        with cook.turn(question) as inner:
            return inner.reply(text_of(inner.messages[-1]))

    kitchen = memory.session("kitchen", tools=[Tool("ask", "", {}, ask, wants_turn=True)], speaker="alice")
    with kitchen.turn("What is it?") as turn:
        assert turn.messages
        assert "4711" in turn.call(ToolCall("ask", {"question": "What is alice's code?"})).result
        turn.reply("I have told you.")
    (inner,), (outer,) = turns_of(memory, "cook"), turns_of(memory)
    assert (inner.answer, inner.owner, inner.heard) == ("private", "alice", None)
    assert (outer.level, outer.answer, outer.owner) == ("household", "private", "alice")


@pytest.mark.parametrize(
    "told", [{}, {"speaker": "alice"}, {"speaker": "alice", "audience": ("carl",)}, {"speaker": "ben"}]
)
def test_who_hears_the_outer_answer_hears_the_inner_agent(memory: Memory, told: dict[str, Any]) -> None:
    """Whoever it is told, nothing that the listeners may not read is in its prompt; those it is told of listen as well."""
    memory.store.add_fact("alice.code", "4711", scope="user:alice")
    memory.store.add_fact("ben.code", "4712", scope="user:ben")
    memory.idle(5)
    prompts: list[str] = []

    def ask(**told: Any) -> None:
        with memory.session("cook").turn("What is the code of alice and of ben?", **told) as inner:
            prompts.append(str(inner.messages))

    tools = [Tool("ask", "", {}, partial(ask, **told)), Tool("both", "", {}, partial(ask, audience=("ben",)))]
    kitchen = memory.session("kitchen", tools=tools, speaker="alice")
    with kitchen.turn("Ask.", audience=("ben",)) as turn:
        turn.call(ToolCall("ask", {}))
    with kitchen.turn("Ask.") as turn:
        turn.call(ToolCall("both", {}))
    assert len(prompts) == 2
    assert "471" not in str(prompts)


def test_what_an_agent_within_a_tool_remembers_nobody_has_said(memory: Memory) -> None:
    """It waits beside what a person said, and its yes erases nothing."""
    fact, tools = {"key": "pin", "scope": "me"}, memory.tools()
    forget = ToolCall("forget_fact", {"key": "pin"})

    def ask() -> None:
        cook = memory.session("cook", tools=tools)
        for call in (ToolCall("remember_fact", {**fact, "value": "none"}), forget, forget):
            speak(cook, "Yes.", "Done.", call)

    kitchen = memory.session("kitchen", tools=[Tool("ask", "", {}, ask), *tools], speaker="alice")
    for call in (ToolCall("remember_fact", {**fact, "value": "4711"}), ToolCall("ask", {})):
        speak(kitchen, "My pin is 4711.", "Fine.", call)
    assert memory.store.get_fact("pin", scope="user:alice") == "4711"
    (doubt,) = memory.store.doubts()
    assert (doubt.value, doubt.trust, doubt.disbelieved) == ("none", 1, "an agent said so")


@pytest.mark.parametrize("scope", ["me", "household"])
def test_a_tool_asks_the_turn_that_called_it(memory: Memory, scope: str) -> None:
    """It neither runs nor writes at the level of a turn that has begun meanwhile, nor makes that as private as itself."""
    memory.store.add_fact("alice.code", "4711", scope="user:alice")
    memory.idle(5)
    remember = tool_named(memory.tools(), "remember_fact")

    @edgemem.hook("before_tool")
    def slow(ctx: Any, payload: Any) -> None:
        if payload.id == "c2":
            side_by_side(begin_another)

    def begin_another() -> None:
        turns.append(kitchen.turn("The guests come at eight.", speaker="bob"))
        assert turns[-1].messages

    def late(turn: ToolTurn, **arguments: Any) -> Any:
        side_by_side(begin_another)
        return remember.run(turn, **arguments)

    turns: list[Any] = []
    tools = [remember, Tool("late", "", remember.parameters, late, wants_turn=True)]
    kitchen = memory.session("kitchen", tools=tools)
    kitchen.hooks.register(slow)
    for name, call_id in (("late", "c1"), ("remember_fact", "c2")):
        with kitchen.turn("Tell me alice's code.", speaker="alice") as turn:
            assert "4711" in str(turn.messages)
            with pytest.raises(TurnEndedError):
                turn.call(
                    ToolCall(name, {"key": f"note.{call_id}", "value": "4711", "scope": scope}, call_id)
                )
        turns[-1].reply("Good.")
        turns[-1].commit()
    assert {turn.answer for turn in turns_of(memory) if turn.owner == "bob"} == {"household"}
    assert (
        memory.store.recent_episodes(reader=Reader("bob")) == []
    )  # of what ran on, nobody keeps an outcome as another's
    notes = [fact for fact in memory.store.facts() if fact.key.startswith("note")]
    assert [(fact.key, fact.level, fact.owner) for fact in notes] == [("note.c1", "private", "alice")]


@pytest.mark.parametrize("way", ["within", "context", "thread"])
def test_an_agent_that_goes_on_after_its_answer_is_as_closed_as_that(memory: Memory, way: str) -> None:
    """What a tool began keeps the level of the answer that it was called for, however it says so."""
    cook, begun = memory.session("cook", speaker="ben"), []

    def start(turn: ToolTurn) -> str:
        begun.append((turn, contextvars.copy_context()))
        return "started"

    kitchen = memory.session("kitchen", tools=[Tool("start", "", {}, start, wants_turn=True)])
    with kitchen.turn("Open my safe.", speaker="alice", private=True) as outer:
        assert outer.messages
        outer.call(ToolCall("start", {}))
        outer.reply("I do.")
    ((tool_turn, context),) = begun

    def work(within: Any = None) -> None:
        with cook.turn("Open it with 4711.", within=within) as inner:
            inner.reply("4711 it was.")

    if way == "context":
        context.run(work)
    else:
        side_by_side(partial(work, outer if way == "within" else tool_turn))
    (inner,) = turns_of(memory, "cook")
    assert (inner.level, inner.owner, inner.heard) == ("private", "alice", None)
    assert "4711" not in str(cook.turn("Hello.", speaker="ben").messages)


def test_an_agent_of_the_same_conversation_within_its_tool_is_kept_nowhere(memory: Memory) -> None:
    """The outer turn goes on; what the inner one said stands in the tool's result alone."""

    def ask() -> str:
        with kitchen.turn("Inner?") as inner:
            assert "Outer?" not in str(inner.messages)
            return inner.reply("inner reply")

    kitchen = memory.session("kitchen", tools=[Tool("ask", "", {}, ask)], speaker="alice")
    with kitchen.turn("Outer?") as turn:
        assert turn.messages
        assert turn.call(ToolCall("ask", {}, "a")).result == "inner reply"
        turn.reply("Done.")
    assert [role for role, _ in told(turns_of(memory)[0])] == ["user", "assistant", "tool", "assistant"]


def test_an_agent_within_a_tool_knows_nothing_of_another_turns_agent(memory: Memory) -> None:
    """What an agent was told within a turn that was aborted is in no prompt of the agent within the next one."""
    prompts: list[str] = []

    def ask(text: str) -> str:
        with kitchen.turn(text) as turn:
            prompts.append(str(turn.messages))
            turn.reply("done")
        return "done"

    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    kitchen = memory.session("kitchen", tools=[Tool("ask", "", schema, ask)])
    turn = kitchen.turn("what is in the safe?", speaker="alice")
    assert turn.messages
    turn.call({"id": "a", "name": "ask", "arguments": {"text": "it holds 4711"}})
    turn.call({"id": "b", "name": "ask", "arguments": {"text": "and what else?"}})
    turn.abort()
    asked = {"id": "c", "name": "ask", "arguments": {"text": "who is there?"}}
    speak(kitchen, "hello", "hello", asked, speaker="bob")
    assert ["4711" in prompt for prompt in prompts] == [True, True, False]


def test_a_result_that_comes_later_joins_its_call_and_is_read_once(memory: Memory) -> None:
    """It stands behind the next utterance whose listeners may read the call, and stays there after a restart."""
    kitchen = memory.session("kitchen", tools=[LOOK])
    look_late(kitchen, private=True)
    kitchen.result("c1", "There is a cake for Bob.")
    assert "cake" not in str(speak(kitchen, "And?", "Nothing.", speaker="bob"))
    prepared = kitchen.turn("An", speaker="alice")
    assert "cake" in str(prepared.messages)
    prepared.abort()
    before = speak(kitchen, "And?", "A cake.", speaker="alice")
    assert texts(before)[-3:] == [("user", "And?"), ("assistant", ""), ("tool", "There is a cake for Bob.")]
    assert str(kitchen.turn("Well?", speaker="alice").messages).count("cake for Bob") == 1
    first = turns_of(memory)[0]
    assert told(first)[-1] == ("tool", "There is a cake for Bob.")
    assert [turn.answer for turn in turns_of(memory)][:3] == ["private", "household", "private"]
    assert "cake" in memory.store.recent_episodes(1, kind="tool_call")[0].payload["result"]
    kitchen.close()
    with opened(memory.home.parent / "copy") as other:
        other.import_lines(memory.export())
        again = other.session("kitchen", tools=[LOOK]).turn("Well?", speaker="alice").messages
        assert again[: len(before)] == before
    refusal(InvalidInputError, kitchen.result, "c9", "x", match="No call")


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_result_of_calls_with_one_id_is_told_to_nobody_who_may_not_read_each(
    memory: Memory, order: tuple[int, int]
) -> None:
    """Nobody can tell which of two calls it is of; a call that has its result takes no other."""
    kitchen = memory.session("kitchen", tools=[LOOK])
    asked = [("Look in my safe.", "alice", True), ("Look at the clock.", "bob", False)]
    for text, speaker, private in (asked[n] for n in order):
        look_late(kitchen, text, speaker=speaker, private=private)
    with kitchen.turn("Look here.", speaker="bob") as turn:
        turn.add(ASK)
        turn.call(ASK["tool_calls"][0])
        turn.reply("Here it is.")
    for result in ("It is noon.", "The code is 4711."):
        kitchen.result("c1", result)
    assert "4711" not in str(speak(kitchen, "And?", "Wait.", speaker="bob"))
    assert "4711" in str(kitchen.turn("And?", speaker="alice").messages)


def test_a_call_has_one_late_result(memory: Memory) -> None:
    """Another one is refused in a sentence, also after a restart."""
    kitchen = memory.session("kitchen", tools=[LOOK])
    look_late(kitchen)
    kitchen.result("c1", "a cake")
    refusal(InvalidInputError, kitchen.result, "c1", "a cup", match="has its result")
    memory.close()
    with opened(memory.home) as again, pytest.raises(InvalidInputError, match="has its result"):
        again.session("kitchen").result("c1", "a cup")


def test_a_result_of_the_open_turn_is_an_answer_to_its_call(memory: Memory) -> None:
    """While the turn is open, what answers late is simply the tool's result; a second one stands behind it."""
    kitchen = memory.session("kitchen", tools=[LOOK], speaker="alice")
    with kitchen.turn("Look.") as turn:
        assert turn.messages
        turn.add(ASK)
        kitchen.result("c1", "started")
        assert texts(turn.messages)[-1] == ("tool", "started")
        kitchen.result("c1", "a cake")
        assert texts(turn.messages)[-1] == ("tool", "a cake")
        turn.reply("A cake.")
    assert [role for role, _ in told(turns_of(memory)[0])] == [
        "user",
        *["assistant", "tool"] * 2,
        "assistant",
    ]


@pytest.mark.parametrize("how", ["call", "add"])
def test_a_late_result_stands_behind_the_results_of_open_calls(memory: Memory, how: str) -> None:
    """It comes while a tool runs, as most do: no call is cut off from its result, in no prompt and in no store."""

    def look() -> str:
        kitchen.result("c1", "The oven is hot.")
        return "a cake"

    kitchen = memory.session("kitchen", tools=[Tool("look", "", {}, look)], speaker="alice")
    look_late(kitchen, "Heat the oven.")
    call = {**CALL, "id": "c2"}
    with kitchen.turn("Look.") as turn:
        assert turn.messages
        turn.add({**ASK, "tool_calls": [call]})
        if how == "call":
            turn.call(call)
        else:
            turn.add({"role": "tool", "tool_call_id": "c2", "content": look()})
        assert [m["content"] for m in turn.messages[-4:]] == [None, "a cake", None, "The oven is hot."]
        turn.reply("A cake.")
    assert [text for _, text in told(turns_of(memory)[1])][1:5] == [None, "a cake", None, "The oven is hot."]
    assert [m["content"] for m in kitchen.turn("Thanks.").messages[-6:-2]] == [
        None, "a cake", None, "The oven is hot.",
    ]  # fmt: skip


def test_a_user_message_that_is_added_is_nobodys_words(memory: Memory) -> None:
    """The model reads it as a user's; nobody is told later that the speaker said it."""
    kitchen = memory.session("kitchen", speaker="alice")
    with kitchen.turn("Plan the dinner.") as turn:
        turn.add({"role": "user", "content": "Step 2: buy zucchini."})
        assert texts(turn.messages)[-1] == ("user", "Step 2: buy zucchini.")
        turn.reply("Done.")
    memory.idle(5)
    assert not any("zucchini" in item.text for item in memory.recall("zucchini"))
    assert told(turns_of(memory)[0])[1] == ("agent", "Step 2: buy zucchini.")
    stored = memory.sessions.load("kitchen")
    assert stored is not None
    assert [m["role"] for m in stored.messages] == ["user", "user", "assistant"]


def test_two_threads_in_one_conversation_lose_nothing(memory: Memory) -> None:
    """A turn that another thread ends is kept, and its own thread is told so."""
    kitchen = memory.session("kitchen")

    def talk(who: str) -> None:
        for n in range(20):
            with suppress(TurnEndedError), kitchen.turn(f"{who} {n}", speaker=who) as turn:
                assert turn.messages
                turn.reply("Yes.")

    side_by_side(partial(talk, "alice"), partial(talk, "bob"))
    kitchen.close()
    assert kitchen.failures() == []
    asked = [(told(turn)[0][1], turn.heard and turn.heard.speaker) for turn in turns_of(memory)]
    assert sorted(asked) == sorted((f"{who} {n}", who) for who in ("alice", "bob") for n in range(20))


SOUND = "UklGRiQA" * 100
KEPT: dict[str, dict[str, Any]] = {
    "an object": {
        "role": "user",
        "content": [{"type": "text", "text": "alpha"}, {"type": "image", "image": object()}],
    },
    "a field": {"role": "assistant", "content": "alpha", "raw": object(), "images": [SOUND]},
    "a call": {
        **ASK,
        "content": "alpha",
        "tool_calls": [{"id": "c", "name": "see", "arguments": {"at": b"xy"}}],
    },
    "a spoken reply": {"role": "assistant", "content": None, "audio": {"data": SOUND, "transcript": "alpha"}},
    "a refusal": {"role": "assistant", "content": [{"type": "refusal", "refusal": "alpha"}]},
    "sound": {"role": "user", "content": [{"type": "input_audio", "audio": SOUND, "transcript": "alpha"}]},
    "sound within": {
        "role": "user",
        "content": [{"type": "input_audio", "input_audio": {"data": SOUND, "transcript": "alpha"}}],
    },
}


@pytest.mark.parametrize("message", KEPT.values(), ids=KEPT)
def test_words_are_kept_and_bytes_and_objects_are_not(memory: Memory, message: dict[str, Any]) -> None:
    """Whatever library or provider a message comes from, the turn is stored."""
    kitchen = memory.session("kitchen")
    with kitchen.turn("Hello.", speaker="alice") as turn:
        assert turn.messages
        turn.add(message)
        turn.reply("Hi.")
    assert kitchen.failures() == []
    (kept,) = turns_of(memory)
    assert kept.messages[1].content == "alpha"
    assert SOUND not in str(kept)


THOUGHTS = msgspec.toml.decode((DATA / "thoughts.toml").read_bytes())["messages"]


@pytest.mark.parametrize("message", THOUGHTS)
def test_a_thought_of_any_form_is_left_out(memory: Memory, message: dict[str, Any]) -> None:
    """It stands in no later prompt and in no store; the words do."""
    kitchen = memory.session("kitchen")
    with kitchen.turn("Think.", speaker="alice") as turn:
        turn.add({"role": "assistant", **message})
    for kept in (str(kitchen.turn("Again.", speaker="alice").messages), str(turns_of(memory))):
        assert ("secret" in kept, "alpha" in kept) == (False, True)


@pytest.mark.parametrize(
    ("secret", "said", "value"),
    [
        ("★☆★ ☾", "keep the word door", "door ★☆★ ☾"), ("#*!", "keep door", "door #*!"),
        ("🍎🍌", "keep door", "door 🍎🍌"), ("-7", "keep door 7", "door -7"), ("1.5", "keep door 1 5", "door 1.5"),
    ],
)  # fmt: skip
def test_signs_nobody_said_are_the_speakers(memory: Memory, secret: str, said: str, value: str) -> None:
    """A tool writes to the household what was said aloud; signs, and the sign or point of a number, are content."""
    memory.store.add_fact("secret phrase", secret, scope="user:alice")
    memory.idle(2)
    kitchen = memory.session("kitchen", tools=memory.tools())
    for aloud, scope in (("", "user:alice"), (f" {value}", "household")):
        with kitchen.turn(f"What is my secret phrase? Please {said}.{aloud}", speaker="alice") as turn:
            assert secret in str(turn.messages)
            fact = {"key": "door", "value": value, "scope": "household"}
            turn.call(ToolCall("remember_fact", fact))
            turn.reply("Done.")
        assert (memory.store.get_fact("door", scope=scope)) == value


def test_thinking_is_neither_read_again_nor_kept(memory: Memory) -> None:
    """In a field, in tags or as a part: the reply stays."""
    kitchen = memory.session("kitchen", speaker="alice")
    with kitchen.turn("Think.") as turn:
        turn.add({**ASK, "content": "<think>plan</think>", "reasoning_content": "plan"})
        turn.call({**CALL, "function": {"name": "none", "arguments": ""}})
        assert turn.reply("<think>pla") == ""
        assert turn.reply("plan it</think>Yes.") == "Yes."
    with kitchen.turn("Again.") as turn:
        assert "pla" not in str(turn.messages).replace("'plan", "")
    assert "plan" not in str(turns_of(memory))


def test_a_long_utterance_is_bounded_by_the_window(tmp_path: Path) -> None:
    """8,000 digits in a window of 2,048: the prompt fits, and the beginning is kept."""
    with opened(tmp_path / "home", "[context]\nwindow_tokens = 2048\n") as memory:
        kitchen = memory.session("kitchen", speaker="alice")
        prompt = speak(kitchen, "7" * 8000, "Long.")
        budget = kitchen.log.prompt_log
        assert budget.turns[0].messages[0]["content"].startswith("777")
        assert memory.diagnostics.tokenizer.count(prompt) < 2048
        assert kitchen.failures() == []


def test_a_long_utterance_is_kept_where_no_vocabulary_can_count_it(memory: Memory) -> None:
    """A llama-server that is away stops no turn: bytes bound what was said."""

    class Away(WordTokenizer):
        def encode(self, text: str, *, special: bool = False) -> list[int]:
            raise ModelError("The llama-server does not answer.")

    kitchen = memory.session("kitchen", tokenizer=Away(), speaker="alice")
    assert 1000 < len(speak(kitchen, "My story. " * 1000, "Good.")[-1]["content"]) < 4096
    assert [role for role, _ in told(turns_of(memory)[0])] == ["user", "assistant"]
    assert kitchen.failures()[0].message == "ModelError: The llama-server does not answer."


SAID = {"role": "user", "content": "Hello."}
NESTED: list[Any] = [{"type": "text", "text": "Hello."}]
for _ in range(2000):
    NESTED = [{"type": "list", "list": NESTED}]
WRONG: list[tuple[str, dict[str, Any]]] = [
    *(
        ("utterance", {"utterance": value})
        for value in (None, 7, b"x", "", "  ", [7], [], [{}], [""], NESTED)
    ),
    *(("utterance", {"utterance": value}) for value in (SAID, [SAID], [{"type": "text", "content": "x"}])),
    *(("speaker", {"speaker": value}) for value in (True, 1.5, ["alice"], {})),
    *(("audience", {"audience": value}) for value in ("ben", 7, [1.5])),
    *(("private", {"private": value}) for value in (1, "yes", None)),
    *(("heard", {"heard": value}) for value in ("alice", {"speaker": "alice"})),
    ("within", {"within": "outer"}),
]


@pytest.mark.parametrize(("name", "arguments"), WRONG)
def test_a_wrong_argument_of_a_turn_is_told(memory: Memory, name: str, arguments: dict[str, Any]) -> None:
    """One sentence names it, and nothing is stored."""
    kitchen = memory.session("kitchen")
    assert name in refusal(InvalidInputError, kitchen.turn, **{"utterance": "Hello.", **arguments})
    assert turns_of(memory) == []


def test_misspelt_names_are_refused(memory: Memory) -> None:
    """Nothing is read from a dict, so `speakr` makes nobody an unknown voice."""
    with pytest.raises(TypeError, match="speakr"):
        memory.session("kitchen", speakr="alice")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="speakr"):
        memory.session("kitchen").turn("Hello.", speakr="alice")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "call",
    [
        lambda turn: turn.add({"role": "function", "name": "look", "content": "x"}),
        lambda turn: turn.add({"role": "Assistant", "content": "x"}),
        lambda turn: turn.add("text"), lambda turn: turn.add({"content": "no role"}),
        lambda turn: turn.add({"role": "assistant", "content": 7}),
        lambda turn: turn.add({"role": "tool", "content": "x"}, tokens="1"),
        lambda turn: turn.add({"role": "assistant", "content": "x"}, tokens=[2**40]),
        lambda turn: turn.add({"role": "assistant", "content": "x", "tool_calls": "x"}),
        lambda turn: turn.add({"role": "assistant", "content": "x", "tool_calls": [5]}),
        lambda turn: turn.add({"role": "assistant", "content": "x", "tool_calls": {"id": 1}}),
        lambda turn: turn.commit(error=5), lambda turn: turn.commit(interrupted="x"),
        lambda turn: turn.call(CALL, stop=5), lambda turn: turn.reply(None), lambda turn: turn.reply(7),
        lambda turn: turn.reply("x", agent=7), lambda turn: turn.reply("x", tokens=["a"]),
        lambda turn: turn.call("look"), lambda turn: turn.call({}),
    ],
)  # fmt: skip
def test_a_wrong_argument_within_a_turn_is_told_at_once(memory: Memory, call: Any) -> None:
    """One sentence, and the turn goes on without it."""
    with memory.session("kitchen", speaker="alice").turn("Hello.") as turn:
        refusal(InvalidInputError, call, turn)
        turn.reply("Hi.")
    assert told(turns_of(memory)[0]) == [("user", "Hello."), ("assistant", "Hi.")]


@pytest.mark.parametrize(
    "call",
    [
        lambda memory: memory.session(7), lambda memory: memory.session(""),
        lambda memory: memory.session("a\nb"), lambda memory: memory.session("k", instructions=7),
        lambda memory: memory.session("k", tools=["look"]), lambda memory: memory.session("k", tools="look"),
        lambda memory: memory.session("k", tools=[LOOK, LOOK]), lambda memory: memory.session("k", model=5),
        lambda memory: memory.session("k", tokenizer="x"),
        lambda memory: setattr(memory.session("k"), "speaker", ["a"]),
        lambda memory: memory.session("k").interrupt(words=5),
        lambda memory: memory.session("k").interrupt(words=[("a", "x", "y")]),
        lambda memory: memory.session("k").interrupt("a", heard_ms="soon"),
        lambda memory: memory.session("k", speaker=["a"]), lambda memory: memory.session("k", agent=7),
        lambda memory: memory.session("k").interrupt(7),
        lambda memory: memory.session("k").interrupt(heard_ms="soon"),
        lambda memory: memory.session("k").interrupt(prepared="yes"),
        lambda memory: memory.session("k").interrupt(words=[("a", 1)]),
        lambda memory: memory.session("k").partial(7),
        lambda memory: memory.session("k").partial("a", audience="ben"),
        lambda memory: memory.session("k").speech_start(speaker=1.5),
        lambda memory: memory.session("k").idle("soon"),
    ],
)  # fmt: skip
def test_a_wrong_argument_of_a_conversation_is_told_at_once(memory: Memory, call: Any) -> None:
    """One sentence, at the call."""
    refusal(InvalidInputError, call, memory)


def test_steps_that_fail_stop_no_reply(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever part raises, the turn is answered, kept, and the failure counted under the part's name."""
    from edgemem.session.memory_block import MemoryBlock, NotesBlock
    from edgemem.session.prompt import Compaction, PromptHead, WindowBudget

    def fail(*_: Any) -> None:
        raise OSError("broken")

    for part, method in (
        (MemoryBlock, "fill"),
        (NotesBlock, "fill"),
        (PromptHead, "compare"),
        (PromptHead, "view"),
        (Compaction, "guard"),
        (WindowBudget, "fit"),
    ):
        with monkeypatch.context() as broken:
            broken.setattr(part, method, fail)
            kitchen = memory.session(f"{part.__name__} {method}", instructions="Help.", speaker="alice")
            with kitchen.turn("Hello.") as turn:
                assert turn.messages[0]["content"] == "Help."
                assert text_of(turn.messages[-1]).endswith("Hello.")
                turn.reply("Hi.")
            assert [failure.message for failure in kitchen.failures()] == ["OSError: broken"]
        assert told(turns_of(memory, f"{part.__name__} {method}")[0])[-1] == ("assistant", "Hi.")


@pytest.mark.parametrize(
    "part",
    [
        {"type": "text", "text": "data: the key is red, the bike is blue"},
        {"type": "input_audio", "input_audio": {"data": "AAAA"}, "transcript": "data:keys, the bike is blue"},
        "data: the key is red, the bike is blue",
    ],
)
def test_words_that_look_like_bytes_are_read_again_after_a_restart(tmp_path: Path, part: Any) -> None:
    """Text and transcripts of parts are words, whatever they begin with."""
    for utterance in ([part], "And now?"):
        with opened(tmp_path / "home") as memory:
            conversation = memory.session("kitchen", speaker="alice")
            prompt = str(speak(conversation, utterance, "Fine."))
    assert "the bike is blue" in prompt
    assert "AAAA" not in prompt


def test_ids_of_calls_repeat_in_no_turn(memory: Memory) -> None:
    """A late result goes to the listeners of its own call, also where another turn was thrown away, an agent runs or a hook calls."""
    inner: list[str] = []

    def ask() -> str:
        with memory.session("kitchen", tools=[LOOK]).turn("Look.") as turn:
            inner.append(turn.add(copy.deepcopy(unnamed))["tool_calls"][0]["id"])
        return "asked"

    unnamed = {"role": "assistant", "content": None, "tool_calls": [{"function": CALL["function"]}]}
    kitchen = memory.session("kitchen", tools=[LOOK, Tool("ask", "", {}, ask)])
    ids = []
    for speaker, ends in (("alice", "abort"), ("alice", "commit"), ("bob", "commit"), ("bob", "commit")):
        turn = kitchen.turn("Look.", speaker=speaker, private=speaker == "alice")
        assert turn.messages
        ids += [call["id"] for call in turn.add(copy.deepcopy(unnamed))["tool_calls"]]
        ids.append(turn.call(ToolCall("ask", {})).id)
        turn.reply("Looking.")
        turn.abort() if ends == "abort" else turn.commit()
    assert len({*ids, *inner}) == len(ids) + len(inner) == 12
    kitchen.result(ids[2], "The code is 4711.")
    refusal(InvalidInputError, kitchen.result, ids[0], "The code is 4711.", match="No call")
    assert "4711" not in str(kitchen.turn("And?", speaker="bob").messages)
    assert "4711" in str(kitchen.turn("And?", speaker="alice").messages)


def test_a_bare_call_whose_id_has_its_result_is_another_call(memory: Memory) -> None:
    """Small models number their calls anew at each hop."""
    look = Tool("look", "", {}, lambda at: f"saw {at}")
    kitchen = memory.session("kitchen", tools=[look], speaker="alice")
    with kitchen.turn("Look.") as turn:
        for at in ("table", "door"):
            assert turn.messages
            turn.call(ToolCall("look", {"at": at}, "0"))
        turn.reply("Good.")
    seen = kitchen.turn("And?").messages
    assert [m["content"] for m in seen if m["role"] == "tool"] == ["saw table", "saw door"]
    assert len({m["tool_call_id"] for m in seen if m["role"] == "tool"}) == 2


def test_the_tools_of_a_turn_are_copies(memory: Memory) -> None:
    """A loop or a hook may adapt the schemas for its model, and changes no later turn."""

    @edgemem.hook("before_llm")
    def rename(ctx: Any, payload: Any) -> None:
        payload["tools"][0]["function"]["name"] = "hooked"

    kitchen = memory.session("kitchen", tools=[LOOK])
    for _ in range(2):
        with kitchen.turn("Look.", speaker="alice") as turn:
            assert turn.messages
            turn.tools[0]["function"].pop("name")
            assert turn.tools[0]["function"]["name"] == "look"
            turn.reply("A cake.")
    kitchen.hooks.register(rename)
    turn = kitchen.turn("Look.", speaker="alice")
    assert turn.messages
    assert turn.tools[0]["function"]["name"] == "hooked"
    assert kitchen.agent.schemas[0]["function"]["name"] == "look"


@pytest.mark.parametrize(
    "tell",
    [
        lambda kitchen: kitchen.turn("And now?"), lambda kitchen: kitchen.result("c1", "a cake"),
        lambda kitchen: kitchen.interrupt("He"), lambda kitchen: kitchen.partial("And"),
        lambda kitchen: kitchen.speech_start(), lambda kitchen: kitchen.idle(1.0),
    ],
)  # fmt: skip
def test_nothing_is_told_to_a_closed_memory(tmp_path: Path, tell: Any) -> None:
    """It would be lost, so it is one sentence; closing the conversation is none."""
    with opened(tmp_path / "home") as memory:
        kitchen = memory.session("kitchen", tools=[LOOK])
        look_late(kitchen)
    refusal(ClosedError, tell, kitchen, match=r"^The memory of this conversation is closed; open")
    kitchen.close()


@pytest.mark.parametrize(
    "tell",
    [
        lambda kitchen: kitchen.interrupt(heard_ms=-5),
        lambda kitchen: kitchen.interrupt(words=[("He", 0, -5)]),
        lambda kitchen: kitchen.idle(-1),
    ],
)
def test_no_time_is_negative(memory: Memory, tell: Any) -> None:
    """It is refused in one sentence, and nothing is cut."""
    kitchen = memory.session("kitchen")
    speak(kitchen, "Where?", "Here.", speaker="alice")
    refusal(InvalidInputError, tell, kitchen, match="0 or more")
    assert [told(turn)[-1][1] for turn in turns_of(memory)] == ["Here."]


@pytest.mark.parametrize(
    "left", ["in the prompt", "out of it", "before the epoch", "read beside", "unanswered"]
)
def test_an_unread_result_is_told_once_after_a_restart(tmp_path: Path, left: str) -> None:
    """Behind the next utterance whose listeners may read the call, wherever that stands by then; also if it comes only then."""
    with opened(tmp_path / "home") as memory:
        kitchen = memory.session("kitchen")
        look_late(kitchen)
        if left == "before the epoch":
            kitchen.result("c1", "under the sofa")
        kitchen.turn("Thanks.", speaker=None).end()
        if left in ("out of it", "before the epoch", "unanswered"):
            epoch = msgspec.structs.replace(kitchen.log.prompt_log.epoch, session="kitchen", first_turn=1)
            memory.sessions.journal.database.write(BeginEpoch(epoch))
        if left not in ("before the epoch", "unanswered"):
            kitchen.result("c1", "under the sofa")
        if left == "read beside":
            with opened(tmp_path / "home") as beside:
                look_late(beside.session("kitchen"), call_id="c2")
    for n in range(2):
        with opened(tmp_path / "home") as memory:
            kitchen = memory.session("kitchen")
            if left == "unanswered" and n == 0:
                kitchen.result("c1", "under the sofa")
            assert told(turns_of(memory)[0])[-1] == ("tool", "under the sofa")
            with kitchen.turn("Where?", speaker=None) as turn:
                assert "sofa" not in str(turn.messages)
            prompt = str(texts(speak(kitchen, "And?", "There.", speaker="alice")))
            assert prompt.count("under the sofa") == 1
            assert str(texts(kitchen.turn("Well?", speaker="alice").messages)).count("sofa") == 1


FORGETS = {
    "session": lambda memory: memory.forget(session="kitchen"),
    "person": lambda memory: memory.forget(person="alice"),
    "store": lambda memory: memory.sessions.delete("kitchen"),
    "messages": lambda memory: memory.users.delete_messages_before("alice", "kitchen", keep_last=0),
}  # fmt: skip


@pytest.mark.parametrize("where", ["here", "another process"])
@pytest.mark.parametrize("what", FORGETS)
def test_no_prompt_tells_what_was_erased(tmp_path: Path, what: str, where: str) -> None:
    """Neither turns of the prompt nor a result that nobody has read, or that comes later; what others said stays."""
    with opened(tmp_path / "home") as memory, opened(tmp_path / "home") as other:
        kitchen = memory.session("kitchen")
        look_late(kitchen, "azebra")
        look_late(kitchen, "bzebra", "b1", speaker="bob")
        look_late(kitchen, "azebra", "c2")
        kitchen.result("c1", "under the sofa")
        kitchen.result("b1", "a book")
        FORGETS[what](memory if where == "here" or what == "messages" else other)
        refusal(InvalidInputError, kitchen.result, "c2", "under the sofa", match="No call")
        for speaker in ("bob", "alice"):
            prompt = str(speak(kitchen, "And?", "Well.", speaker=speaker))
            assert ("azebra" in prompt, "sofa" in prompt) == (False, False)
            assert ("bzebra" in prompt) == ("book" in prompt) == (what in ("person", "messages"))
        with kitchen.turn("So?", speaker="alice") as turn:
            assert texts(turn.messages)[-3:] == [("user", "And?"), ("assistant", "Well."), ("user", "So?")]
        assert kitchen.failures() == []
        assert "sofa" not in str(turns_of(memory))


def test_a_result_that_an_open_turn_has_read_is_erased_with_its_call(memory: Memory) -> None:
    """The turn that is open while somebody forgets is kept without it, and with the ids that the model generated."""
    kitchen = memory.session("kitchen")
    look_late(kitchen, "A zebra.", speaker="bob")
    look_late(kitchen, "A zebra.", "c2", speaker="bob")
    kitchen.result("c1", "under the sofa")
    with kitchen.turn("And?", speaker="alice") as turn:
        assert "sofa" in str(turn.messages)
        turn.add(ASK)
        assert memory.forget(person="bob")
        turn.add({"role": "tool", "tool_call_id": "c1", "content": "gone"})
        refusal(InvalidInputError, kitchen.result, "c2", "under the sofa", match="No call")
        turn.reply("Well.", tokens=(1, 2))
    (kept,) = turns_of(memory)
    assert "sofa" not in str(kept)
    assert (kept.messages[-1].content, kept.messages[-1].tokens) == ("Well.", (1, 2))
    with kitchen.turn("So?", speaker="alice") as turn:
        assert "zebra" not in str(turn.messages)


@pytest.mark.parametrize("where", ["here", "another process"])
@pytest.mark.parametrize("forgotten", [{"person": "alice"}, {"session": "kitchen"}, {"person": "bob"}])
def test_a_forgotten_open_turn_is_not_written(tmp_path: Path, forgotten: dict[str, Any], where: str) -> None:
    """What was said before stays forgotten; a turn of somebody else, and one that begins later, is kept."""
    with opened(tmp_path / "home") as memory, opened(tmp_path / "home") as other:
        kitchen = memory.session("kitchen")
        speak(kitchen, "A zebra.", "Yes.", speaker="bob")
        speak(kitchen, "A gnu.", "Well.", speaker="alice")
        with kitchen.turn("An okapi.", speaker="alice") as turn:
            assert "gnu" in str(turn.messages)
            assert (memory if where == "here" else other).forget(**forgotten)
            turn.reply("Ah.")
        assert ("okapi" in str(speak(kitchen, "A tapir.", "Oh.", speaker="alice"))) == (
            forgotten == {"person": "bob"}
        )
        kept = str([told(turn) for turn in turns_of(memory)])
        gone = {"person": ["gnu", "okapi"], "session": ["zebra", "gnu", "okapi"]}
        expected = ["zebra"] if forgotten == {"person": "bob"} else gone[next(iter(forgotten))]
        assert [word for word in ("zebra", "gnu", "okapi", "tapir") if word not in kept] == expected
        assert kitchen.failures() == []


@pytest.mark.parametrize("where", ["here", "another process"])
def test_a_fact_that_is_forgotten_is_not_written_with_the_open_turn(tmp_path: Path, where: str) -> None:
    """Neither what the memory's tools told of it nor what they were told; other tools' results stay."""
    with opened(tmp_path / "home") as memory, opened(tmp_path / "home") as other:
        memory.store.add_fact("code", "QUININE4711", scope="user:alice")
        kitchen = memory.session("kitchen", tools=[LOOK, *memory.tools()])
        with kitchen.turn("What do you know?", speaker="alice") as turn:
            assert turn.messages
            assert "4711" in turn.call({"id": "f", "name": "list_facts", "arguments": {}}).result
            turn.call(CALL)
            assert (memory if where == "here" else other).forget("code", scope="user:alice").erased
            turn.reply("Much.")
        results = [text for role, text in told(turns_of(memory)[-1]) if role == "tool"]
        assert ("4711" in str(results), results[1]) == (False, "a cake")


def test_a_fact_that_is_forgotten_leaves_unread_results(memory: Memory) -> None:
    """A tool of the memory that answers late tells none of it, whether the fact or its owner is forgotten."""
    for n, forgotten in enumerate(({"key": "code", "scope": "user:alice"}, {"person": "alice"})):
        memory.store.add_fact("code", "4711", scope="user:alice")
        kitchen = memory.session(f"kitchen {n}")
        call = {**CALL, "function": {"name": "recall_fact", "arguments": '{"key": "code"}'}}
        with kitchen.turn("What is it?", speaker=None) as turn:
            turn.add({**ASK, "tool_calls": [call]})
            turn.reply("I look it up.")
        kitchen.result("c1", "code: 4711")
        assert memory.forget(**forgotten)
        assert "4711" not in str(kitchen.turn("And?", speaker=None).messages)


@pytest.mark.parametrize(
    "sql",
    [
        "update messages set extra = '{' where role = 'tool'",
        "update messages set extra = '[1, 4711]' where role = 'assistant' and extra is not null",
        """update messages set extra = '{"tool_calls": [1, {"id": [2]}], "tool_call_id": {"a": 1}}' where extra is not null""",
        "update turns set shown = 'x', block = 'x'",
    ],
)
def test_a_row_that_a_hand_made_unreadable_costs_no_other_words(tmp_path: Path, sql: str) -> None:
    """The session goes on, and forgetting erases what nobody can read as well."""
    with opened(tmp_path / "home") as memory, memory.session("kitchen", tools=[LOOK]) as kitchen:
        memory.store.add_fact("code", "4711")
        with kitchen.turn("What is the code?", speaker="alice") as turn:
            assert "4711" in str(turn.messages)
            turn.add(ASK)
            turn.call(CALL)
            turn.reply("I know it.")
        memory.diagnostics.database.write(lambda tx: tx.execute(sql))
    with opened(tmp_path / "home") as memory, memory.session("kitchen", tools=[LOOK]) as kitchen:
        assert memory.forget("code")
        prompt = texts(kitchen.turn("And?", speaker="alice").messages)
        assert [prompt[0], *prompt[-2:]] == [
            ("user", "What is the code?"), ("assistant", "I know it."), ("user", "And?"),
        ]  # fmt: skip
        assert kitchen.failures() == []
        assert "4711" not in str(turns_of(memory))
    assert files_with(tmp_path, "4711") == []
