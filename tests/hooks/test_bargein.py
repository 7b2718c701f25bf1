"""What of a reply was heard, what memory makes of it, and barge-in where the model or the voice is ahead."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import edgemem
from edgemem import AgentLoop, Memory
from edgemem.context.bargein import heard_part, heard_speeches
from edgemem.errors import InvalidInputError
from edgemem.hooks import ON_INTERRUPT, ON_RUN_END, AgentResult
from edgemem.records import Message, Reply
from support.homes import BY_WORDS
from support.kills import select
from support.loops import OwnLoop
from support.models import Model
from support.refusals import refusal
from support.selection import cases

COUNT = "One two three four five."
TOLD: list[dict[str, Any]] = [
    {"heard_text": "One two"}, {"heard_text": "one, two"}, {"heard_ms": 750},
    {"words": [("one", 0, 100), ("two", 100, 300), ("three", 300, 700)], "heard_ms": 350},
]  # fmt: skip
RECIPE = "First we bake 21 cakes at 180 °C. Then, Dr. Lang, the zeppelin departs."


HOME_SETTINGS = "[context]\nspeech_chars_s = 10.0\n"


def robot(memory: Memory, *replies: Reply, **rest: Any) -> AgentLoop:
    return AgentLoop(Model(*replies), hooks=memory.hooks(session_id="kitchen"), speaker="alice", **rest)


def newest(memory: Memory) -> Any:
    memory.diagnostics.database.flush()
    return memory.sessions.journal.read_turns("kitchen")[-1]


def tells_of_cut(prompt: Sequence[Message], after: str) -> bool:
    """Tell whether a prompt says at its end behind which words, if any, the robot was interrupted."""
    said = str(prompt[-1]["content"])
    return f"you were interrupted after: {after}" in said if after else "you were interrupted" in said


@pytest.mark.parametrize(
    ("heard", "part"),
    [
        ("", ""), (RECIPE, RECIPE), ("First we ba", "First we ba"), ("first we bake", "First we bake"),
        ("  First,\nWE bake!", "First we bake"), ("first we ba ke", "First we bake"),
        ("first we bake twenty one cakes", "First we bake 21 cakes"),
        ("first we bake twenty", "First we bake 21"),
        ("first we bake twenty-one cakes at one hundred and eighty", "First we bake 21 cakes at 180"),
        ("first we bake twenty one cakes at one hundred eighty degrees celsius then doctor lang",
         "First we bake 21 cakes at 180 °C. Then, Dr. Lang,"),
        ("something else entirely", ""), ("first something else entirely", "First"),
    ],
)  # fmt: skip
def test_text_is_matched_by_its_words(heard: str, part: str) -> None:
    """Case, signs, blanks and numbers may differ; the reply's own text is kept, up to the end of a word."""
    assert heard_part(RECIPE, heard_text=heard) == part


def test_numbers_that_the_model_wrote_in_words() -> None:
    """A recogniser that listens to the voice may write digits where the reply has words."""
    reply = "It takes one hundred and five minutes in the oven."
    assert heard_part(reply, heard_text="it takes 105 minutes") == "It takes one hundred and five minutes"


def test_scripts_without_blanks_end_at_a_sign() -> None:
    """Chinese and Japanese are not one long word."""
    assert heard_part("杯子在架子上。好吗?", heard_text="杯子 在") == "杯子在"
    assert heard_part("杯子在架子上。好吗?", heard_ms=350, chars_per_s=10) == "杯子在"


def test_a_time_alone_is_an_estimate_that_ends_at_a_word() -> None:
    """Ten characters a second: after 1.3 seconds the third word is not over."""
    assert heard_part(RECIPE, heard_ms=1290, chars_per_s=10) == "First we"
    assert heard_part(RECIPE, heard_ms=1300, chars_per_s=10) == "First we bake"
    assert heard_part(RECIPE, heard_ms=0) == ""
    assert heard_part(RECIPE, heard_ms=float("inf")) == RECIPE
    assert heard_part(RECIPE) == RECIPE


texts = st.text(st.sampled_from("ab 1.,-'é\n杯子"), max_size=40)


@settings(max_examples=cases(2000), deadline=None)
@given(
    reply=texts, heard=texts, times=st.lists(st.floats(0, 5000), min_size=2, max_size=6), own=st.booleans()
)
def test_what_was_heard_is_a_growing_beginning(reply: str, heard: str, times: list[float], own: bool) -> None:
    """It begins the reply and ends at a word, whatever is told; more time never means that less was heard."""

    def at_a_word(part: str) -> bool:
        behind = reply[len(part) : len(part) + 1]
        signs = part.rstrip(" .,-'")[-1:] + behind
        return part in ("", reply) or behind.isspace() or any(sign in signs for sign in "杯子")

    part = heard_part(reply, heard_text=heard)
    assert reply.startswith(part)
    assert part == heard or at_a_word(part)
    words = [(word, 300.0 * n, 300.0 * n + 250) for n, word in enumerate((reply if own else heard).split())]
    for given_words in (None, words):
        parts = [heard_part(reply, heard_ms=ms, words=given_words) for ms in sorted(times)]
        assert all(reply.startswith(one) and at_a_word(one) for one in parts)
        assert [len(one) for one in parts] == sorted(len(one) for one in parts)
    if own and any(letter.isalnum() for letter in reply):
        assert heard_part(reply, words=words) == reply


LOOK, SHELF = "Let me look.", "It is on the shelf."


@pytest.mark.parametrize(
    ("told", "heard"),
    [
        ({}, [LOOK, SHELF]), ({"heard_text": ""}, ["", ""]), ({"heard_text": "let me"}, ["Let me", ""]),
        ({"heard_text": "Let me look."}, [LOOK, ""]), ({"heard_text": "let me look it is"}, [LOOK, "It is"]),
        ({"heard_text": "Let me look.It is on"}, [LOOK, "It is on"]),
        ({"heard_text": "it is on"}, [LOOK, "It is on"]), ({"heard_text": "It is o"}, [LOOK, "It is o"]),
        ({"heard_text": SHELF}, [LOOK, SHELF]), ({"heard_text": "purple zebras"}, ["", ""]),
        ({"heard_ms": 600}, ["Let me", ""]), ({"heard_ms": 1800}, [LOOK, "It is"]),
        ({"heard_ms": 9000}, [LOOK, SHELF]),
        ({"heard_ms": 350, "words": [("let", 0, 100), ("me", 200, 300), ("look", 350, 400)]}, ["Let me", ""]),
        ({"heard_ms": 150, "words": [("it", 0, 100), ("is", 200, 300), ("on", 350, 400)]}, [LOOK, "It"]),
    ],
)  # fmt: skip
def test_what_was_said_before_a_tool_counts(told: dict[str, Any], heard: list[str]) -> None:
    """The end lies in the first or the second speech; a voice tells of both, or of the one that it was cut off in."""
    assert heard_speeches([LOOK, SHELF], chars_per_s=10, **told) == heard


def test_the_speech_that_matches_most_is_the_one_that_is_told_of() -> None:
    """Two of them begin alike; a tool that was called without a word, or a blank, is no speech that can be missed."""
    two = ["Let me look.", "Let me see, it is here."]
    assert heard_speeches(two, heard_text="let me see it is") == ["Let me look.", "Let me see, it is"]
    assert heard_speeches(two, heard_text="let me") == ["Let me", ""]
    assert heard_speeches(["", "Look.\n", "Here it i"], heard_text="Look.") == ["", "Look.\n", ""]
    assert heard_speeches(["", "Here it is."], heard_text="Here it i") == ["", "Here it i"]
    assert heard_speeches([], heard_text="let") == []


@settings(max_examples=cases(1000), deadline=None)
@given(speeches=st.lists(texts, max_size=4), heard=texts, ms=st.floats(0, 9000))
def test_of_several_speeches_a_beginning_was_heard(speeches: list[str], heard: str, ms: float) -> None:
    """Each is cut at most once, and behind the first one that is cut nothing was heard."""
    for told in ({"heard_text": heard}, {"heard_ms": ms}, {"heard_ms": ms, "words": [(heard, 0, 500)]}):
        parts = heard_speeches(speeches, **told)  # type: ignore[arg-type]
        assert all(whole.startswith(part) for whole, part in zip(speeches, parts, strict=True))
        cut = next((n for n, whole in enumerate(speeches) if parts[n] != whole), len(parts))
        assert not any(part.strip() for part in parts[cut + 1 :])


@pytest.mark.parametrize(
    "told",
    [
        {"heard_text": 5}, {"heard_ms": "soon"}, {"heard_ms": float("nan")}, {"words": ["cup"]},
        {"words": [("cup", 0, None)], "heard_ms": 5},
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_in_one_sentence(memory: Memory, told: dict[str, Any]) -> None:
    """Nothing is cut, and the loop goes on."""
    loop = robot(memory, Reply(RECIPE))
    loop.run("how?")
    refusal(InvalidInputError, loop.interrupt, **told)
    assert (newest(memory).state, loop.session.messages[-1]["content"]) == ("complete", RECIPE)


@pytest.mark.parametrize("during", [False, True])
@pytest.mark.parametrize(
    ("told", "heard"),
    [
        ({"heard_text": "first we bake twenty one"}, "First we bake 21"),
        ({"heard_ms": 1300}, "First we bake"),
        ({"heard_ms": 450, "words": [("first", 0, 200), ("we", 200, 400), ("bake", 400, 600)]}, "First we"),
        ({"heard_text": ""}, ""),
    ],
)
def test_what_was_heard_is_history(memory: Memory, told: dict[str, Any], heard: str, during: bool) -> None:
    """In the loop, the store, the export and the next prompt; recall does not find what nobody heard."""
    loop = robot(memory, Reply(RECIPE))
    if during:
        loop.prepare("how do we begin?")
        loop.interrupt(**told)
        assert loop.commit().interrupted
    else:
        loop.run("how do we begin?")
        loop.interrupt(**told)
    assert loop.session.messages[-1]["content"] == heard
    assert loop.model.cuts == [heard]  # type: ignore[attr-defined]
    turn = newest(memory)
    reply = turn.messages[-1]
    assert (turn.state, reply.content or "", reply.unheard) == ("interrupted", heard, RECIPE[len(heard) :])
    for _ in range(2):
        found = memory.recall("when does the zeppelin depart?", speaker="alice")
        assert not [item for item in found if "zeppelin" in item.text]
        assert memory.idle(5)
    for question in ("and then?", "what else?"):
        loop.prepare(question)
        loop.abort()
        loop.run(question)
    handed = loop.model.handed[1:]  # type: ignore[attr-defined]
    assert [tells_of_cut(prompt, heard) for prompt in handed] == [True, True, False, False]
    assert any("zeppelin" in line and "unheard" in line for line in memory.export())
    memory.sessions.delete("kitchen")
    with sqlite3.connect(f"file:{memory.home}/db/memory.db?mode=ro", uri=True) as plain:
        assert "zeppelin" not in "".join(plain.iterdump())
    plain.close()
    assert loop.hooks.failures() == []


class CutLoop(OwnLoop):
    """A loop that tells what was heard, and never cuts its own list."""

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory.hooks(session_id="k", speaker="alice"))

    def interrupt(self, **told: Any) -> Any:
        return self.hooks.fire(ON_INTERRUPT, self.ctx, told).payload

    def turn(self, question: str, reply: str) -> list[Message]:
        prompt = self.fail(question, "alice")
        self.end(reply)
        return prompt


@pytest.fixture
def loop(memory: Memory) -> CutLoop:
    return CutLoop(memory)


def replies(memory: Memory) -> list[tuple[Any, ...]]:
    memory.diagnostics.database.flush()
    return select(memory.home, "select content, unheard from messages where role = 'assistant' order by id")


def after(heard: str) -> str:
    return f"<memory>you were interrupted{' after: ' + heard if heard else ''}</memory>\n"


@pytest.mark.parametrize("during", [False, True])
@pytest.mark.parametrize("told", TOLD)
def test_the_prompt_has_what_was_heard(memory: Memory, loop: CutLoop, told: dict[str, Any], during) -> None:
    """Whether the reply stood in the loop's list already or not, and though that keeps the whole of it."""
    loop.turn("hello", "Hi.")
    first = loop.fail("count", "alice")
    if during:
        assert "speeches" not in loop.interrupt(**told)
        loop.said.append({"role": "assistant", "content": COUNT})
        loop.hooks.fire(ON_RUN_END, loop.ctx, AgentResult("", 1, interrupted=True))
    else:
        loop.end(COUNT)
        assert loop.interrupt(**told)["heard_text"] == "One two"
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


@pytest.mark.parametrize("kept", [COUNT, "One two", "One", "One two three"])
def test_a_loop_may_keep_as_much_of_the_reply_as_it_likes(memory: Memory, loop: CutLoop, kept: str) -> None:
    """A report that is corrected counts, and the loop's own cut is no edit of the past."""
    loop.turn("count", COUNT)
    for heard in ("One two three", "One", "One two"):
        loop.interrupt(heard_text=heard)
    loop.said[-1] = {"role": "assistant", "content": kept}
    prompt = loop.turn("go on", "Ok.")
    assert [message["content"] for message in prompt] == ["count", "One two", after("One two") + "go on"]
    assert replies(memory)[0] == ("One two", " three four five.")


def test_an_edit_of_a_reply_that_was_cut_off_is_one(loop: CutLoop) -> None:
    """What is not the reply's own beginning was said by nobody: an epoch begins behind the turn."""
    loop.turn("count", COUNT)
    loop.interrupt(heard_text="One two")
    loop.said[-1] = {"role": "assistant", "content": "Uno"}
    (newest,) = loop.turn("go on", "Ok.")
    assert newest["content"].endswith("go on")
    assert "Uno" not in str(newest)


def test_a_reply_that_still_grows_is_cut_when_the_turn_ends(memory: Memory, loop: CutLoop) -> None:
    """A loop that keeps what has come so far tells what was heard of it, and its list grows on."""
    loop.fail("count", "alice")
    loop.said.append({"role": "assistant", "content": "One two th"})
    assert loop.interrupt(heard_text="One")["heard_text"] == "One"
    loop.said.pop()
    loop.end(COUNT)
    assert replies(memory) == [("One", " two three four five.")]
    assert loop.turn("go on", "Ok.")[1]["content"] == "One"


BAKE = "First we bake rolls, then the cake."
STOP = "Sure, I stop."
WORDS = [("first", 0, 100), ("we", 100, 200), ("bake", 200, 300), ("rolls", 300, 400)]


def said(messages: Sequence[Message]) -> list[Any]:
    return [message["content"] for message in messages]


@pytest.mark.parametrize("ending", ["commit", "abort"])
@pytest.mark.parametrize("while_answering", [False, True])
@pytest.mark.parametrize(
    "told",
    [
        {"heard_text": "First we bake"}, {"heard_text": "first, we bake"}, {"words": WORDS, "heard_ms": 300},
        {"heard_ms": 1400, "prepared": False},
    ],
)  # fmt: skip
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

    @edgemem.hook("on_run_start", priority=1)
    def early(ctx: Any, payload: Any) -> None:
        loop.interrupt("First we bake")

    loop.hooks.register(early)
    loop.prepare("stop")
    assert said(model.handed[-1]) == ["plan?", "First we bake", after("First we bake") + "stop"]


@pytest.mark.parametrize("restarted", [False, True])
def test_who_was_cut_off_alone_is_told_when_next_that_person_speaks(tmp_path: Path, restarted: bool) -> None:
    """Whoever may not read that turn is told nothing, and does not use the line up."""
    model = Model("One two three four.", "Hello Bob.")
    for n in range(2):
        with edgemem.open(tmp_path, profile=BY_WORDS, worker=False) as memory:
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
