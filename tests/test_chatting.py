"""From streamed text to speech and tool calls."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edgemem.chatting import parse, spoken
from edgemem.loop import ToolCall

CALL = '<tool_call>\n{"name": "timer", "arguments": {"minutes": 6}}\n</tool_call>'


def test_a_tool_call_is_read_and_not_spoken() -> None:
    """The loop gets the call, the voice only the text around it."""
    text = f"One moment. {CALL}"
    assert parse(text) == ("One moment.", (ToolCall("timer", {"minutes": 6}),))
    assert "".join(spoken([text])) == "One moment. "


def test_several_calls_are_read_in_order() -> None:
    """Parallel calls come out as they were written."""
    said, calls = parse(CALL + CALL.replace("timer", "oven"))
    assert (said, [call.name for call in calls]) == ("", ["timer", "oven"])


def test_a_malformed_call_is_speech() -> None:
    """What cannot be read as a call is not lost."""
    text = "<tool_call>{broken</tool_call> and <tool_call>never closed"
    assert parse(text) == (text, ())


BARE = '{"name": "timer", "parameters": {"minutes": 6}}'


def test_a_reply_that_is_nothing_but_a_call_is_read_and_not_spoken() -> None:
    """Llama 3 writes no tags; an offered tool that a whole reply names is called."""
    names = frozenset({"timer"})
    for text in (BARE, f"\n {BARE} \n"):
        assert parse(text, names) == ("", (ToolCall("timer", {"minutes": 6}),))
        assert "".join(spoken(list(text), names)) == ""


def test_braces_that_call_nothing_are_speech() -> None:
    """A tool that nobody offered, half an object, or text behind it: all of it is said."""
    for text in (BARE, BARE[:-3], f"{BARE} Done.", "{no json}", " {}"):
        for names in (frozenset({"oven"}), frozenset[str]()):
            assert parse(text, names) == (text, ())
            assert "".join(spoken(list(text), names)) == text


@given(st.lists(st.integers(1, 5), max_size=40))
def test_pieces_may_be_cut_anywhere(sizes: list[int]) -> None:
    """However the stream is cut, what is spoken is the same."""
    text = f"a < b {CALL} done <tool"
    pieces, at = [], 0
    for size in sizes:
        pieces.append(text[at : at + size])
        at += size
    pieces.append(text[at:])
    assert "".join(spoken(pieces)) == "a < b  done <tool"
