"""A chat model in this process: a second context answers like the first, and leaves the conversation alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edgemem.errors import ClosedError, ContextOverflowError
from edgemem.llama.chat import LlamaChat


@pytest.fixture(scope="module")
def file(chat_model: Callable[[str], Path]) -> Path:
    return chat_model("phi-3")


@pytest.fixture
def chat(file: Path) -> Iterator[LlamaChat]:
    with LlamaChat(file, n_ctx=2048, threads=1, batch=256) as chat:
        yield chat


def asked(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def test_it_answers_as_the_model_does(file: Path, chat: LlamaChat) -> None:
    """The ids are those of a conversation at temperature 0, also where a part of the prompt was in the cache."""
    cup = "Where is my cup? " * 30
    prompts = [asked(cup), asked(cup + "And hers?"), asked("Hello.")]
    with chat.side_chat(n_ctx=1024) as side:
        made = [side.answer(prompt, max_tokens=16) for prompt in prompts]
    assert made[0].evaluated_tokens == made[0].prompt_tokens
    assert made[1].evaluated_tokens < 20 < made[1].prompt_tokens
    for prompt, one in zip(prompts, made, strict=True):
        with LlamaChat(file, n_ctx=1024, threads=1) as fresh:
            assert "".join(fresh.stream(prompt, max_tokens=16)).strip() == one.text
            assert fresh.last.ids == one.ids
            assert fresh.last.stopped == one.stopped


def test_it_stops_in_the_middle_and_goes_on_as_if_nothing_had_happened(chat: LlamaChat) -> None:
    """Stopped while the prompt is evaluated, it says so; the next answer is the same as without."""
    side = chat.side_chat(n_ctx=1024)
    wanted = side.answer(asked("Where is my cup?"), max_tokens=8)
    side.rest()
    looks = iter([False] * 2)
    long = asked("Where is my cup? " * 180)
    made = side.answer(long, max_tokens=20, stop=lambda: next(looks, True))
    assert made.stopped == "interrupted"
    assert made.ids == ()
    assert side.answer(asked("Where is my cup?"), max_tokens=8).ids == wanted.ids
    assert side.answer(asked("Go."), max_tokens=8, stop=lambda: True).stopped == "interrupted"


def test_closing_the_model_stops_and_closes_it(file: Path) -> None:
    """A model that is closed while its second context writes waits for that, and neither can be asked again."""
    chat = LlamaChat(file, n_ctx=512, threads=1)
    side = chat.side_chat(n_ctx=2048)
    begun = threading.Event()
    ended: list[str] = []

    def write() -> None:
        long = asked("Where is my cup? " * 200)
        try:
            ended.append(side.answer(long, max_tokens=800, stop=lambda: bool(begun.set())).stopped)
        except ClosedError:
            ended.append("closed")

    thread = threading.Thread(target=write)
    thread.start()
    assert begun.wait(30)
    chat.close()
    thread.join()
    assert ended in (["interrupted"], ["closed"])
    with pytest.raises(ClosedError):
        side.answer(asked("Hello."), max_tokens=5)
    with pytest.raises(ClosedError):
        chat.side_chat()
    side.close()
    chat.close()


def test_what_does_not_fit_is_refused(chat: LlamaChat) -> None:
    """A prompt that leaves its answer no room is told in one sentence."""
    side = chat.side_chat(n_ctx=256)
    with pytest.raises(ContextOverflowError, match="summary_ctx"):
        side.answer(asked("Where is my cup? " * 60), max_tokens=10)
    with pytest.raises(ContextOverflowError):
        side.answer(asked("Hello."), max_tokens=255)


def test_end_token_ends_the_reply(chat: LlamaChat, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the model generates its end token, the reply ends and the token is not part of it."""
    reply = list(chat.stream(asked("Where is my cup? " * 10), max_tokens=4))
    third = chat.last.ids[2]
    monkeypatch.setattr(chat.tokenizer.vocabulary, "ends_reply", lambda token: token == third)
    again = list(chat.stream(asked("Where is my cup? " * 10), max_tokens=4))
    assert chat.last.stopped == "eos"
    assert third not in chat.last.ids
    assert again == reply[: len(again)]
