"""Messages of any provider as they are kept: texts and transcripts, no bytes, no thoughts."""

from __future__ import annotations

from typing import Any

import pytest

from edgemem.store.messages import stored_message, without_thoughts

DATA = "QUJD" * 100_000
PNG = {"type": "base64", "media_type": "image/png", "data": DATA}


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


def test_what_people_say_is_kept_as_said() -> None:
    """Only a model thinks aloud."""
    message = {"role": "user", "content": "What does <think> mean? </think>"}
    assert without_thoughts(message) is message
    assert stored_message({"role": "assistant", "content": "Fine."}, [1]).tokens == (1,)
