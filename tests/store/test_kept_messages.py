"""Messages of any provider as they are kept: texts and transcripts, no bytes, no thoughts."""

from __future__ import annotations

from typing import Any

import pytest

from edgemem.records import text_of
from edgemem.store.messages import stored_message, without_thoughts

DATA = "QUJD" * 100_000
PNG = {"type": "base64", "media_type": "image/png", "data": DATA}
TEXT = {"type": "text", "text": "It is green."}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("It is green.", "It is green."),
        (TEXT, "It is green."),
        ([{"type": "input_text", "text": "It is green."}], "It is green."),
        ([{"type": "output_text", "text": text} for text in ("It is", "green.")], "It is\ngreen."),
        ([{"type": "input_audio", "input_audio": {}, "transcript": "It is green."}], "It is green."),
        ([{"text": "It is green."}], "It is green."),
        (["It is green."], "It is green."),
        (None, ""),
    ],
)
def test_the_text_of_a_message_is_that_of_its_parts(content: Any, text: str) -> None:
    """Whichever provider's form it has; speech counts by its transcript."""
    assert text_of({"role": "user", "content": content}) == text
    assert (stored_message({"role": "user", "content": content}).content or "") == text


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (
            {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{DATA}"}},
            "(image/jpeg, 300 kB)",
        ),
        ({"type": "image", "source": PNG}, "(image/png, 300 kB)"),
        ({"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}}, "(wav, 300 kB)"),
        ({"inline_data": {"mime_type": "image/webp", "data": DATA}}, "(image/webp, 300 kB)"),
        ({"type": "image", "image": b"A" * 300_000}, "(image, 300 kB)"),
    ],
)
def test_bytes_are_kept_as_their_type_and_size(part: dict[str, Any], words: str) -> None:
    """An image stands in no database, and its words are not what somebody said."""
    stored = stored_message({"role": "user", "content": [part, {"type": "text", "text": "What is it?"}]})
    assert stored.content == "What is it?"
    assert stored.extra["content"] == [{"type": "text", "text": text} for text in (words, "What is it?")]


def test_an_address_is_kept() -> None:
    """A part without bytes is kept as it is."""
    part = {"type": "image_url", "image_url": {"url": "file:cup.png"}}
    assert stored_message({"role": "user", "content": [part]}).extra["content"] == [part]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"content": "<think>hidden</think>\n\nIt is green."}, "It is green."),
        ({"content": "hidden</think>It is green."}, "It is green."),
        ({"content": "It is green.<think>hidden"}, "It is green."),
        ({"content": "<seed:think>hidden</seed:think>It is green."}, "It is green."),
        ({"content": "It is green.", "reasoning_content": "hidden"}, "It is green."),
        ({"content": [{"type": "thinking", "thinking": "hidden"}, TEXT]}, "It is green."),
    ],
)
def test_thoughts_are_not_kept(message: dict[str, Any], said: str) -> None:
    """What a model thought was said to nobody; its ids would not give the text that was."""
    message = {"role": "assistant", **message}
    stored = stored_message(message, [1, 2, 3])
    assert (stored.content, stored.tokens) == (said, ())
    assert "hidden" not in str(stored)
    assert text_of(without_thoughts(message)) == said


def test_what_people_say_is_kept_as_said() -> None:
    """Only a model thinks aloud."""
    message = {"role": "user", "content": "What does <think> mean? </think>"}
    assert without_thoughts(message) is message
    assert stored_message({"role": "assistant", "content": "Fine."}, [1]).tokens == (1,)
