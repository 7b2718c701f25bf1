"""A chat model in this process: what `contracts/test_chat_model_contract.py` cannot see from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edgemem.llama.chat import LlamaChat


@pytest.fixture
def chat(chat_model: Callable[[str], Path]) -> Iterator[LlamaChat]:
    """Return an open chat model with the vocabulary that loads fastest."""
    with LlamaChat(chat_model("phi-3"), n_ctx=2048, threads=1, batch=256) as chat:
        yield chat


def opening() -> list[dict[str, Any]]:
    """Return the first messages of a conversation."""
    return [
        {"role": "system", "content": "You are a kitchen robot. " * 10},
        {"role": "user", "content": "Where is my cup? " * 10},
    ]


def test_end_token_ends_the_reply(chat: LlamaChat, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the model generates its end token, the reply ends and the token is not part of it."""
    reply = list(chat.stream(opening(), max_tokens=4))
    third = chat.last.ids[2]
    monkeypatch.setattr(chat.tokenizer.vocabulary, "ends_reply", lambda token: token == third)
    again = list(chat.stream(opening(), max_tokens=4))
    assert chat.last.stopped == "eos"
    assert third not in chat.last.ids
    assert again == reply[: len(again)]
