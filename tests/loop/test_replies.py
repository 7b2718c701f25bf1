"""From streamed text to speech and tool calls."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.llama.replies import THOUGHTS, Call, read_reply
from edgemem.loop.replies import Voice, typed


def parse(text: str, names: frozenset[str] = frozenset()) -> tuple[str, tuple[Call, ...]]:
    """Return the speech and the calls of a reply."""
    meaning = read_reply(text, names)
    return meaning.text, meaning.calls


def spoken(pieces: Iterable[str], names: frozenset[str] = frozenset()) -> list[str]:
    """Return what a voice says of a reply."""
    voice = Voice(names)
    return [*map(voice.feed, pieces), voice.end()]


BARE = '{"name": "timer", "parameters": {"minutes": 6}}'


def test_a_reply_that_is_nothing_but_a_call_is_read_and_not_spoken() -> None:
    """Llama 3 writes no tags; an offered tool that a whole reply names is called."""
    names = frozenset({"timer"})
    for text in (BARE, f"\n {BARE} \n"):
        assert parse(text, names) == ("", (Call("timer", {"minutes": 6}),))
        assert "".join(spoken(list(text), names)) == ""


def test_braces_that_call_nothing_are_speech() -> None:
    """A tool that nobody offered, half an object, or text behind it: all of it is said."""
    for text in (BARE, BARE[:-3], f"{BARE} Done.", "{no json}", " {}"):
        for names in (frozenset({"oven"}), frozenset[str]()):
            assert parse(text, names) == (text, ())
            assert "".join(spoken(list(text), names)) == text


@pytest.mark.parametrize("opens", THOUGHTS)
def test_a_thought_is_not_spoken(opens: str) -> None:
    """Nothing of a thought is said, everything behind it is, however the stream is cut; and it is no speech to keep."""
    text = f"{opens}\nShe must not learn of it. <b>\n{THOUGHTS[opens]}\n\nNothing is planned."
    for size in (1, 2, 3, 7, 1000):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        assert "".join(spoken(pieces)) == "Nothing is planned."
    assert parse(text) == ("Nothing is planned.", ())


def test_speech_begins_while_the_reply_is_made() -> None:
    """A voice does not wait for the end: only what may be the beginning of a marker is held back."""
    voice = Voice(frozenset({"timer"}))
    said = [
        voice.feed(piece) for piece in ("<think>", "hm", "</thi", "nk>", "\n\nFirst", " we < bake", "<", "3")
    ]
    assert said == ["", "", "", "", "First", " we < bake", "", "<3"]


pieces = st.sampled_from([
    " ", "\n", "<think>", "</think>", "hm", "<", "First.", "[THINK]", "[/THINK]", "{", "<tool_call>", "</tool_call>",
])  # fmt: skip


@given(st.lists(pieces, max_size=12), st.lists(st.integers(1, 6), max_size=40))
def test_voice_and_history_agree(parts: list[str], sizes: list[int]) -> None:
    """Of a reply without calls, history holds what was spoken, and however the stream is cut, that is the same."""
    text = "".join(parts)
    cut, at = [], 0
    for size in sizes:
        cut.append(text[at : at + size])
        at += size
    cut.append(text[at:])
    said = "".join(spoken(cut))
    assert said == "".join(spoken([text]))
    if "<tool_call>" not in text:
        assert said.strip() == parse(text)[0].strip()


def test_arguments_are_what_the_schema_says() -> None:
    """Of arguments that came as text, numbers, lists and switches become such; words stay, and so does what is neither."""
    kinds = {"minutes": "integer", "on": "boolean", "rooms": "array", "code": "string", "odd": "number"}
    properties = {name: {"type": kind} for name, kind in kinds.items()}
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"properties": properties}}}]
    given_text = {"minutes": "6", "on": "true", "rooms": '["a"]', "code": "007", "odd": "x", "more": "1"}
    assert typed(given_text, "f", tools) == {
        "minutes": 6, "on": True, "rooms": ["a"], "code": "007", "odd": "x", "more": "1",
    }  # fmt: skip
    assert typed({"a": "1"}, "unknown", tools) == {"a": "1"}


def test_a_malformed_call_is_speech() -> None:
    """What cannot be read as a call is not lost."""
    text = "<tool_call>{broken</tool_call> and <tool_call>never closed"
    assert parse(text) == (text, ())


def test_a_thought_that_never_ends() -> None:
    """A reply that ended within its thought says nothing."""
    for text in ("<think>\nShe must not", "[THINK]hm", "<think>a</think><think>b", "<think>a <tool_call>{}"):
        assert "".join(spoken(list(text))).strip() == ""
        assert parse(text) == ("", ())
