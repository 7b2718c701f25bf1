"""Off the record: what is said there stands in this process's memory alone, and goes with the prompt that it is in."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import edgemem
import edgemem.aio
from edgemem import Tool
from edgemem.errors import InvalidInputError
from edgemem.hooks import AFTER_LLM, ON_RUN_START
from edgemem.languages.words import record_wish
from edgemem.memory import Memory
from support.homes import files_with, opened, turns_of
from support.loops import ASK, CALL, OwnLoop, on_loop, speak

pytestmark = pytest.mark.usefixtures("patient")

MARK = "zebra"
LOOK = Tool("look", "Looks.", {"type": "object", "properties": {}}, lambda **_: f"a {MARK}")


def call(name: str, **arguments: Any) -> Any:
    return {"id": f"c-{name}", "type": "function", "function": {"name": name, "arguments": arguments}}


def kitchen_of(memory: Memory, session: str = "kitchen") -> Any:
    names = ["remember_fact", "notes", "memory_write", "off_the_record"]
    return memory.session(session, tools=[LOOK, *memory.tools(include=names)], speaker="alice")


def said(memory: Memory, session: str = "kitchen") -> list[str | None]:
    return [turn.messages[0].content for turn in turns_of(memory, session)]


def clean(memory: Memory, home: Path) -> None:
    """Hold that no file has the word, also after all that idle time does."""
    memory.idle(5)
    assert files_with(home, MARK) == []


def plain(kitchen: Any) -> None:
    speak(kitchen, f"The {MARK}.", f"A {MARK}.", call("look", what=MARK), call("look", what=MARK))


def interrupted(kitchen: Any) -> None:
    speak(kitchen, "Tell me.", f"It is a {MARK}, of course.")
    kitchen.interrupt(f"It is a {MARK},")
    assert "interrupted after" not in str(speak(kitchen, "And?", "So."))


def aborted(kitchen: Any) -> None:
    for end in ("abort", "commit"):
        turn = kitchen.turn(f"The {MARK}.")
        assert turn.messages
        assert turn.is_off_the_record
        getattr(turn, end)()


def nested(kitchen: Any) -> None:
    def ask() -> str:
        for conversation in (kitchen, inner):
            with conversation.turn(f"Is it a {MARK}?") as turn:
                assert turn.messages
                assert turn.is_off_the_record
                turn.call(call("look"))
                turn.reply(f"A {MARK}.")
        return MARK

    inner = kitchen_of(kitchen.memory, "inner")
    kitchen.tools["look_there"] = Tool("look_there", "Looks.", {}, ask)
    speak(kitchen, "Ask.", "Done.", call("look_there"))
    inner.tools.clear()


def late(kitchen: Any) -> None:
    with kitchen.turn("Look later.") as turn:
        assert turn.messages
        turn.add({**ASK, "tool_calls": [{**CALL, "id": "late"}]})
        turn.reply("I am looking.")
    kitchen.result("late", f"A {MARK}.")
    speak(kitchen, "Well?", "Nothing yet.")


def failing(kitchen: Any) -> None:
    def fail(point: str, ctx: Any, payload: Any) -> None:
        if kitchen.log.is_quiet:
            raise ValueError(MARK)

    fail.points, fail.priority = frozenset({ON_RUN_START, AFTER_LLM}), 0  # type: ignore[attr-defined]
    kitchen.hooks.register(fail)
    speak(kitchen, "Hello.", MARK)
    assert {failure.message for failure in kitchen.failures()} == {"ValueError"}


def remembered(kitchen: Any) -> None:
    with kitchen.turn(f"The {MARK} is mine.") as turn:
        assert turn.messages
        kept = turn.call(call("remember_fact", key="pet", value=MARK))
        turn.call(call("notes", action="write", text=MARK))
        turn.call(call("memory_write", path="a.md", content=MARK))
        turn.reply("Fine.")
    assert kept.result == "Nothing was kept: this is off the record."


DOORS = [plain, interrupted, aborted, nested, late, failing, remembered]


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
@pytest.mark.parametrize("which", ["this", "on"])
def test_nothing_reaches_the_disk(tmp_path: Path, which: Any, door: Callable[[Any], None]) -> None:
    """Neither the turn, what its tools did and told, what failed in it, nor its reply; the turns around it are kept."""
    home = tmp_path / "home"
    with opened(home) as memory:
        kitchen = kitchen_of(memory)
        kitchen.memory = memory
        speak(kitchen, "Good morning.", "Hello.")
        kitchen.off_the_record(which)
        door(kitchen)
        kitchen.off_the_record("off")
        with kitchen.turn("Good night.") as turn:
            assert not turn.is_off_the_record
            assert turn.messages
            turn.reply("Sleep well.")
        assert {"Good morning.", "Good night."} <= set(said(memory))
        clean(memory, home)
    assert files_with(home, MARK) == []
    with opened(home) as memory:
        assert MARK not in str(kitchen_of(memory).turn("Hello?").messages)


def test_the_running_prompt_goes_on_with_it(memory: Memory) -> None:
    """The conversation knows what was said, with the very same prefix; the next prompt after a restart does not."""
    kitchen = kitchen_of(memory)
    kitchen.off_the_record("this")
    first = speak(kitchen, f"The {MARK}.", "I see.")
    second = speak(kitchen, "What was it?", "I know.")
    assert second[: len(first)] == first
    assert said(memory) == ["What was it?"]


@pytest.mark.parametrize("how", ["call", "phrase", "tool"])
@pytest.mark.parametrize("is_off", [True, False])
def test_the_turn_before_is_erased(tmp_path: Path, how: str, is_off: bool) -> None:
    """It goes from every file with the fact that its tool kept, and from the prompt; a second look erases the one before that."""
    home = tmp_path / "home"
    with opened(home) as memory:
        kitchen = kitchen_of(memory)
        speak(kitchen, "Good morning.", "Hello.")
        if is_off:
            kitchen.off_the_record("this")
        speak(kitchen, f"The {MARK} is mine.", "Yes.", call("remember_fact", key="pet", value=MARK))
        if how == "call":
            kitchen.off_the_record("last")
        else:
            calls = [call("off_the_record", which="last")] * (how == "tool")
            speak(kitchen, "Forget what I just said." if how == "phrase" else "Forget it.", "Done.", *calls)
        assert MARK not in str(speak(kitchen, "What was it?", "What?"))
        assert "Good morning." in said(memory)
        clean(memory, home)


def test_only_who_said_it_erases_the_turn_before(memory: Memory) -> None:
    """The phrase of another voice, and the tool in their turn, erase nothing."""
    kitchen = kitchen_of(memory)
    speak(kitchen, "a", "Yes.")
    with kitchen.turn("Forget it.", speaker="ben") as turn:
        assert "somebody else" in str(turn.call(call("off_the_record", which="last")).error)
        turn.abort()
    speak(kitchen, "Don't remember that.", "Well.", speaker="ben")
    assert said(memory) == ["a"]


@pytest.mark.parametrize("is_kept", [False, True], ids=["accepted", "with a fact"])
def test_the_tool_takes_the_open_turn_back(tmp_path: Path, is_kept: bool) -> None:
    """What was accepted of the turn is erased, and a fact that its tool has kept; the tool is no default one."""
    home = tmp_path / "home"
    with opened(home) as memory:
        assert "off_the_record" not in [tool.name for tool in memory.tools()]
        kitchen = kitchen_of(memory)
        with kitchen.turn(f"The {MARK} is mine, keep it to yourself.") as turn:
            assert turn.messages
            if is_kept:
                assert "Remembered" in turn.call(call("remember_fact", key="pet", value=MARK)).result
            memory.diagnostics.database.flush()
            assert turn.call(call("off_the_record", which="this")).result == "Nothing of this turn is kept."
            assert files_with(home, MARK) == []
            assert MARK in str(turn.messages)
            turn.reply(f"A {MARK}, then.")
        speak(kitchen, "Good night.", "Sleep well.")
        assert said(memory) == ["Good night."]
        clean(memory, home)


@pytest.mark.parametrize("wrong", ["", "next", None, 1])
def test_other_words_are_refused(memory: Memory, wrong: Any) -> None:
    """The call and the tool say which words there are."""
    kitchen = kitchen_of(memory)
    with pytest.raises(InvalidInputError, match="this, last, on, off"):
        kitchen.off_the_record(wrong)
    with kitchen.turn("Hello.") as turn:
        assert (
            "off_the_record" in str(turn.call(call("off_the_record", which=wrong)).error) or wrong is not None
        )
        assert not turn.is_off_the_record


PHRASES = {
    "Don't remember this.": "this", "please dont remember this": "this", "Off the record!": "this",
    "Das bleibt unter uns, nicht merken.": "this", "merk dir das bitte nicht": "this", "Bitte merk dir das nicht": "this",
    "don't remember that": "last", "Vergiss, was ich gerade gesagt habe.": "last",
    "Vergiss bitte, was ich gesagt habe.": "last", "Merk dir bitte ab jetzt nichts mehr.": "on",
    "From now on, don't remember anything.": "on", "ab jetzt nichts mehr merken": "on",
    "Back on the record, please.": "off", "Du darfst dir wieder alles merken": "off",
    "You don't remember this?": None, "Off the record, Ben is late.": None, "please": None, "Don't forget this.": None,
    "Das bleibt unter uns.": None, "": None, "off the record " * 50: None,
}  # fmt: skip


def test_phrases_say_it_alone() -> None:
    """Only a whole utterance is one, with polite words and without punctuation, in small letters or large."""
    assert {text: record_wish(text) for text in PHRASES} == PHRASES
    assert {record_wish(text.upper()) for text, which in PHRASES.items() if which is None} == {None}


@pytest.mark.parametrize(
    ("texts", "kept"),
    [
        (["Don't remember this.", MARK, "b"], ["b"]),
        (["Ab jetzt nichts merken.", MARK, MARK, "Wieder merken.", "b"], ["b"]),
        (["a", MARK, "Don't remember that.", "b"], ["a", "b"]),
    ],
)
def test_a_phrase_does_the_same(tmp_path: Path, texts: list[str], kept: list[str]) -> None:
    """Through a conversation and through a loop with a list of its own; the phrase itself is not kept either."""
    home = tmp_path / "home"
    with opened(home) as memory:
        kitchen, loop = kitchen_of(memory), OwnLoop(memory.hooks(session_id="hall"))
        for text in texts:
            speak(kitchen, text, "Fine.")
            loop.run(text, "alice")
        assert said(memory) == said(memory, "hall") == kept
        clean(memory, home)


def test_it_is_of_one_conversation_and_ends_with_a_restart(tmp_path: Path) -> None:
    """Another session is kept as ever, and after a restart so is this one."""
    with opened(tmp_path / "home") as memory:
        kitchen, hall = kitchen_of(memory), kitchen_of(memory, "hall")
        kitchen.off_the_record("on")
        kitchen.off_the_record("this")  # the one turn does not end it
        for conversation in (kitchen, hall, kitchen):
            speak(conversation, MARK, "Yes.")
        assert (said(memory), said(memory, "hall")) == ([], [MARK])
    with opened(tmp_path / "home") as memory:
        speak(kitchen_of(memory), "Hello.", "Hi.")
        assert said(memory) == ["Hello."]


def test_a_prepared_turn_leaves_the_next_one_off_the_record(memory: Memory) -> None:
    """The sentence goes on: what is thrown away does not use up the word, and a phrase that is thrown away does nothing."""
    kitchen = kitchen_of(memory)
    kitchen.turn("Don't remember this").abort()
    speak(kitchen, "a", "Yes.")
    kitchen.off_the_record("this")
    kitchen.turn(MARK[:2]).abort()
    speak(kitchen, MARK, "Yes.")
    speak(kitchen, "b", "Yes.")
    assert said(memory) == ["a", "b"]


class Interrupted:
    """Summarises, and somebody takes the newest turn back meanwhile."""

    def __init__(self, kitchen: Any, inner: Any) -> None:
        self.kitchen, self.inner, self.seen = kitchen, inner, ""

    def summarize(self, turns: Any, **how: Any) -> str:
        self.seen += str(turns)
        if f"Again the {MARK}." in str(self.kitchen.ctx.session.messages):
            self.kitchen.off_the_record("last")
        return str(self.inner.summarize(turns, **how))


@pytest.mark.parametrize("again", ["The door is shut.", f"Again the {MARK}."], ids=["on", "last"])
def test_a_summary_holds_none_of_it(tmp_path: Path, again: str) -> None:
    """Neither of turns that were never kept, nor of one that is taken back while it is made; the next prompt has neither."""
    home = tmp_path / "home"
    with opened(home, "[context]\nwindow_tokens = 2000\n") as memory:
        kitchen = memory.session("kitchen", speaker="alice")
        planner = kitchen.agent.steps.parts.compaction.planner
        planner.summarizer = Interrupted(kitchen, planner.summarizer)
        speak(kitchen, "The box is by the door.", "I see. " * 20)
        kitchen.off_the_record("on")
        speak(kitchen, f"The {MARK} eats hay.", f"The {MARK} eats.")
        kitchen.off_the_record("off")
        while planner.plan() is None:
            speak(kitchen, "The box is by the door.", "I see. " * 20)
        speak(kitchen, again, "Yes.")
        memory.idle(5)
        assert "by the door" in planner.summarizer.seen
        assert MARK not in planner.summarizer.seen
        for _ in range(2):
            assert (again if MARK in again else MARK) not in str(speak(kitchen, "And?", "Yes."))
        assert said(memory)[-1] == "And?"
        clean(memory, home)


def test_a_store_of_messages_has_none_of_it(tmp_path: Path) -> None:
    """Also where the session is kept as JSON: the turn before is written no more."""
    hook = edgemem.PersistSessionHook(edgemem.JSONSessionStore(tmp_path / "s.json"), session_id="kitchen")
    loop = OwnLoop([hook])
    for text in ("a", "Don't remember this.", MARK, f"{MARK} too", "Don't remember that.", "b"):
        loop.run(text, "alice")
    assert files_with(tmp_path, MARK) == []
    assert len(files_with(tmp_path, "Fine.")) == 1


@on_loop
async def test_it_is_awaited(tmp_path: Path) -> None:
    """The awaited form does the same."""
    async with await edgemem.aio.open(tmp_path / "home", profile=None, worker=False) as memory:
        kitchen = await memory.session("kitchen", speaker="alice")
        await kitchen.off_the_record("this")
        async with kitchen.turn(MARK) as turn:
            assert turn.is_off_the_record
            assert await turn.messages
            await turn.reply("Yes.")
    assert files_with(tmp_path, MARK) == []
