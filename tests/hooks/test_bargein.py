"""What of a reply was heard: text that a voice spelled its own way, times, and what memory makes of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from talking import Model, opened

from edgemem import AgentLoop, Memory
from edgemem.context.bargein import heard_part, heard_speeches
from edgemem.errors import InvalidInputError
from edgemem.loop.toolbox import Tool
from edgemem.records import Message, Reply, ToolCall

RECIPE = "First we bake 21 cakes at 180 °C. Then, Dr. Lang, the zeppelin departs."


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """Return an open memory."""
    with opened(tmp_path / "home", "[context]\nspeech_chars_s = 10.0\n") as memory:
        yield memory


def robot(memory: Memory, *replies: Reply, **rest: Any) -> AgentLoop:
    return AgentLoop(Model(*replies), hooks=memory.hooks(session_id="kitchen"), speaker="alice", **rest)


def newest(memory: Memory) -> Any:
    memory.database.flush()
    return memory.sessions.journal.read_turns("kitchen")[-1]


def tells_of_cut(prompt: Sequence[Message], after: str) -> bool:
    """Tell whether a prompt says at its end behind which words, if any, the robot was interrupted."""
    said = str(prompt[-1]["content"])
    return f"you were interrupted after: {after}" in said if after else "you were interrupted" in said


# -- text as the voice spelled it ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("heard", "part"),
    [
        ("", ""),
        (RECIPE, RECIPE),
        ("First we ba", "First we ba"),
        ("first we bake", "First we bake"),
        ("  First,\nWE bake!", "First we bake"),
        ("first we bake twenty one cakes", "First we bake 21 cakes"),
        ("first we bake twenty", "First we bake 21"),
        ("first we bake twenty-one cakes at one hundred and eighty", "First we bake 21 cakes at 180"),
        (
            "first we bake twenty one cakes at one hundred eighty degrees celsius then doctor lang",
            "First we bake 21 cakes at 180 °C. Then, Dr. Lang,",
        ),
        ("first we ba ke", "First we bake"),
        ("something else entirely", ""),
        ("first something else entirely", "First"),
    ],
)
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


# -- times -----------------------------------------------------------------------------------------------


def test_words_with_times_are_exact() -> None:
    """A word counts when it is over, a number when its last word is."""
    said = ["first", "we", "bake", "twenty", "one", "cakes", "at", "one", "hundred", "eighty", "degrees"]
    said += ["celsius", "then", "doctor", "lang", "the", "zeppelin", "departs"]
    words = [(word, 100.0 * n, 100.0 * n + 90) for n, word in enumerate(said)]
    parts = [heard_part(RECIPE, heard_ms=100 * n, words=words) for n in range(len(said) + 1)]
    assert parts[:7] == [
        "",
        "First",
        "First we",
        "First we bake",
        "First we bake",
        "First we bake 21",
        "First we bake 21 cakes",
    ]
    assert parts[15].endswith("Dr. Lang,")
    assert parts[18] == heard_part(RECIPE, words=words) == RECIPE


def test_a_time_alone_is_an_estimate_that_ends_at_a_word() -> None:
    """Ten characters a second: after 1.3 seconds the third word is not over."""
    assert heard_part(RECIPE, heard_ms=1290, chars_per_s=10) == "First we"
    assert heard_part(RECIPE, heard_ms=1300, chars_per_s=10) == "First we bake"
    assert heard_part(RECIPE, heard_ms=-5) == ""
    assert heard_part(RECIPE, heard_ms=float("inf")) == RECIPE
    assert heard_part(RECIPE) == RECIPE


texts = st.text(st.sampled_from("ab 1.,-'é\n杯子"), max_size=40)


@settings(max_examples=250, deadline=None)
@given(
    reply=texts, heard=texts, times=st.lists(st.floats(0, 5000), min_size=2, max_size=6), own=st.booleans()
)
def test_what_was_heard_is_a_beginning_and_grows(
    reply: str, heard: str, times: list[float], own: bool
) -> None:
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


# -- before and behind a tool ----------------------------------------------------------------------------

LOOK, SHELF = "Let me look.", "It is on the shelf."


@pytest.mark.parametrize(
    ("told", "heard"),
    [
        ({}, [LOOK, SHELF]),
        ({"heard_text": ""}, ["", ""]),
        ({"heard_text": "let me"}, ["Let me", ""]),
        ({"heard_text": "Let me look."}, [LOOK, ""]),
        ({"heard_text": "let me look it is"}, [LOOK, "It is"]),
        ({"heard_text": "Let me look.It is on"}, [LOOK, "It is on"]),
        ({"heard_text": "it is on"}, [LOOK, "It is on"]),
        ({"heard_text": "It is o"}, [LOOK, "It is o"]),
        ({"heard_text": SHELF}, [LOOK, SHELF]),
        ({"heard_text": "purple zebras"}, ["", ""]),
        ({"heard_ms": 600}, ["Let me", ""]),
        ({"heard_ms": 1800}, [LOOK, "It is"]),
        ({"heard_ms": 9000}, [LOOK, SHELF]),
        ({"heard_ms": 350, "words": [("let", 0, 100), ("me", 200, 300), ("look", 350, 400)]}, ["Let me", ""]),
        ({"heard_ms": 150, "words": [("it", 0, 100), ("is", 200, 300), ("on", 350, 400)]}, [LOOK, "It"]),
    ],
)
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


@settings(max_examples=150, deadline=None)
@given(speeches=st.lists(texts, max_size=4), heard=texts, ms=st.floats(0, 9000))
def test_of_several_speeches_a_beginning_was_heard(speeches: list[str], heard: str, ms: float) -> None:
    """Each is cut at most once, and behind the first one that is cut nothing was heard."""
    for told in ({"heard_text": heard}, {"heard_ms": ms}, {"heard_ms": ms, "words": [(heard, 0, 500)]}):
        parts = heard_speeches(speeches, **told)  # type: ignore[arg-type]
        assert all(whole.startswith(part) for whole, part in zip(speeches, parts, strict=True))
        cut = next((n for n, whole in enumerate(speeches) if parts[n] != whole), len(parts))
        assert not any(part.strip() for part in parts[cut + 1 :])


@pytest.mark.parametrize("during", [False, True])
@pytest.mark.parametrize(
    ("told", "heard"),
    [
        (("",), ["", ""]),
        (("let me",), ["Let me", ""]),
        (("let me", "let me look it"), [LOOK, "It"]),
        (("let me look it is", "let"), ["Let", ""]),
        (("it is on",), [LOOK, "It is on"]),
        (("let me look it is on the shelf",), [LOOK, SHELF]),
    ],
)
def test_history_holds_what_was_heard_of_each_speech(
    memory: Memory, told: tuple[str, ...], heard: list[str], during: bool
) -> None:
    """In the loop, the next prompt and the store; what was not heard is kept apart and never recalled."""

    def words(messages: Sequence[Message]) -> list[Any]:
        return [message["content"] for message in messages if message["role"] == "assistant"]

    look = Tool("peek", "Peek.", {"type": "object", "properties": {}}, lambda: "a cup")
    replies = [Reply("hi"), Reply(LOOK, (ToolCall("peek", {}, "c1"),)), Reply(SHELF)]
    loop = robot(memory, *replies, tools=[look])
    loop.run("hello")
    model: Any = loop.model
    if during:
        loop.prepare("where is the cup?")
        for text in told:
            loop.interrupt(text)
        loop.commit()
    else:
        loop.run("where is the cup?")
        for text in told:
            loop.interrupt(text)
    assert words(loop.session.messages)[-2:] == heard
    turn = newest(memory)
    kept = [(each.content or "", each.unheard or "") for each in turn.messages if each.role == "assistant"]
    assert kept == [(LOOK[: len(heard[0])], LOOK[len(heard[0]) :]), (heard[1], SHELF[len(heard[1]) :])]
    for wanted, text in (("shelf", heard[1]), ("look", heard[0])):
        assert memory.idle(5)
        found = memory.recall(f"did it say {wanted}?", speaker="alice", k=9)
        assert any(wanted in item.text for item in found) == (wanted in text)
    loop.run("and then?")
    after = " ".join(part for part in heard if part)
    assert words(model.handed[-1])[-2:] == [heard[0], heard[1] or "…"]
    assert tells_of_cut(model.handed[-1], after)
    assert loop.hooks.failures() == []


# -- what is refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "told",
    [
        {"heard_text": 5},
        {"heard_ms": "soon"},
        {"heard_ms": float("nan")},
        {"words": ["cup"]},
        {"words": [("cup", 0, None)], "heard_ms": 5},
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(memory: Memory, told: dict[str, Any]) -> None:
    """Nothing is cut, and the loop goes on."""
    loop = robot(memory, Reply(RECIPE))
    loop.run("how?")
    with pytest.raises(InvalidInputError) as caught:
        loop.interrupt(**told)
    assert "\n" not in str(caught.value)
    assert (newest(memory).state, loop.session.messages[-1]["content"]) == ("complete", RECIPE)


# -- in a memory -----------------------------------------------------------------------------------------


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
def test_what_was_heard_is_history_and_the_rest_is_kept_apart(
    memory: Memory, told: dict[str, Any], heard: str, during: bool
) -> None:
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
    told_once = [
        tells_of_cut(prompt, heard)
        for prompt in loop.model.handed[1:]  # type: ignore[attr-defined]
    ]
    assert told_once == [True, True, False, False]
    assert any("zeppelin" in line and "unheard" in line for line in memory.export())
    memory.sessions.delete("kitchen")
    with sqlite3.connect(f"file:{memory.home}/db/memory.db?mode=ro", uri=True) as plain:
        assert "zeppelin" not in "".join(plain.iterdump())
    plain.close()
    assert loop.hooks.failures() == []


def test_a_model_that_failed_leaves_the_turn_before_alone(memory: Memory) -> None:
    """There is no reply to cut, so none is cut."""

    class Failing(Model):
        def complete(self, messages: Sequence[Message], **rest: Any) -> Reply:
            if self.handed:
                loop.interrupt("one")
                raise LookupError("no model")
            return super().complete(messages, **rest)

    loop = AgentLoop(Failing(Reply("one two")), hooks=memory.hooks(session_id="kitchen"), speaker="alice")
    loop.run("count")
    with pytest.raises(LookupError):
        loop.run("count on")
    assert [message["content"] for message in loop.session.messages] == ["count", "one two", "count on"]


# -- a real model ----------------------------------------------------------------------------------------
