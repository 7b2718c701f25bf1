"""What every ChatModel promises, loaded in this process or asked over a socket."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from edgemem.errors import ClosedError, ContextOverflowError, InvalidInputError
from edgemem.llama.chat import LlamaChat
from edgemem.llama.protocols import ChatModel
from edgemem.llama.server.chat import HttpLlama
from support.models import grown
from support.refusals import refusal
from support.servers import RunningServer

N_CTX = 2048
Open = Callable[[], Any]


@pytest.fixture(scope="module", params=["in process", "over a socket"])
def open_chat(request, phi3: Path, tmp_path_factory) -> Iterator[Open]:
    """Return what opens each implementation in turn, on the same model."""
    if request.param == "in process":
        yield lambda: LlamaChat(phi3, n_ctx=N_CTX, threads=1, batch=256)
        return
    program = request.getfixturevalue("llama_server")
    with RunningServer(program, phi3, tmp_path_factory.mktemp("server"), n_ctx=N_CTX) as server:
        yield lambda: HttpLlama(server.url)


@pytest.fixture
def chat(open_chat: Open) -> Iterator[Any]:
    with open_chat() as chat:
        yield chat


@pytest.fixture
def opening(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """Return the first messages of a conversation that no other test has had with the same server."""
    return [
        {"role": "system", "content": f"{request.node.nodeid} You are a kitchen robot. " * 5},
        {"role": "user", "content": "Where is my cup? " * 10},
    ]


def test_is_a_chat_model(chat: Any) -> None:
    """It has every name of the protocol, and knows its window."""
    assert isinstance(chat, ChatModel)
    assert chat.n_ctx == N_CTX


def test_a_turn_evaluates_only_what_is_new(chat: Any, opening: list[dict[str, Any]]) -> None:
    """From the second turn on, the tokens evaluated are those after the last reply, and its last token."""
    messages = opening
    reply = "".join(chat.stream(messages, max_tokens=12))
    prompt = chat.tokenizer.count(messages)
    assert prompt - 8 <= chat.last.evaluated_tokens <= chat.last.prompt_tokens == prompt
    for turn in range(4):
        seen = chat.last.prompt_tokens + len(chat.last.ids)
        messages = grown(messages, reply, f"And {turn}?")
        reply = "".join(chat.stream(messages, max_tokens=12))
        new = chat.last.prompt_tokens - seen
        assert 0 < new < 30
        assert new <= chat.last.evaluated_tokens <= new + 1


def test_ids_in_the_context_are_those_generated(chat: Any, opening: list[dict[str, Any]]) -> None:
    """The next prompt contains the reply's ids as generated, even where its text tokenises differently."""
    reply = "".join(chat.stream(opening, max_tokens=20))
    generated, start = list(chat.last.ids), chat.last.prompt_tokens
    assert generated != chat.tokenizer.encode(reply)
    "".join(chat.stream(grown(opening, reply, "Thanks."), max_tokens=1))
    assert chat.log.ids[start : start + 20] == generated


def test_after_a_barge_in_only_what_follows_is_evaluated(chat: Any, opening: list[dict[str, Any]]) -> None:
    """A reply that was cut where the voice stopped costs only the tokens behind the heard part."""
    reply = "".join(chat.stream(opening, max_tokens=24))
    prompt = chat.last.prompt_tokens
    heard = reply[: len(reply) // 2]
    chat.cut(heard)
    kept = len(chat.log.ids) - prompt
    assert 0 < kept < 24
    "".join(chat.stream(grown(opening, heard, "Stop. Go on."), max_tokens=1))
    assert chat.last.evaluated_tokens == chat.last.prompt_tokens - prompt - kept


def test_stop_within_one_token(chat: Any, opening: list[dict[str, Any]]) -> None:
    """When `stop` turns true, not one more token is part of the reply, and the next turn evaluates only what is new."""
    pieces: list[str] = []
    for text in chat.stream(opening, max_tokens=50, stop=lambda: len(pieces) >= 5):
        pieces.append(text)  # noqa: PERF402
    assert len(pieces) == 5
    assert chat.last.stopped == "interrupted"
    assert chat.last.text == "".join(pieces)
    assert 5 <= len(chat.last.ids) <= 7  # a token may print nothing
    seen = chat.last.prompt_tokens + len(chat.last.ids)
    "".join(chat.stream(grown(opening, "".join(pieces), "Go on."), max_tokens=3))
    new = chat.last.prompt_tokens - seen
    assert new <= chat.last.evaluated_tokens <= new + 1


def test_stop_before_anything(chat: Any, opening: list[dict[str, Any]]) -> None:
    """A reply that nobody wants any more evaluates nothing."""
    assert list(chat.stream(opening, max_tokens=5, stop=lambda: True)) == []
    assert chat.last.stopped == "interrupted"
    assert chat.last.ids == ()
    assert chat.last.evaluated_tokens == 0


def test_stop_while_the_prompt_is_evaluated(chat: Any, opening: list[dict[str, Any]]) -> None:
    """A long prompt is given up in the middle, and the next one is answered as if nothing had happened."""
    expected = list(chat.stream(opening, max_tokens=8))
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > 1  # the first question comes before the prompt is evaluated

    long = [{"role": "user", "content": opening[0]["content"] + "Where is my cup? " * 200}]
    assert len(list(chat.stream(long, max_tokens=5, stop=stop))) <= 1
    assert chat.last.stopped == "interrupted"
    assert list(chat.stream(opening, max_tokens=8)) == expected


def test_error_in_stop_reaches_the_caller(chat: Any, opening: list[dict[str, Any]]) -> None:
    """What goes wrong in `stop`, before or while the model works, is raised where the reply is read."""
    for fine in (0, 1):
        asked: list[None] = []

        def stop(fine: int = fine, asked: list[None] = asked) -> bool:
            asked.append(None)
            if len(asked) > fine:
                raise LookupError("no microphone")
            return False

        with pytest.raises(LookupError, match="no microphone"):
            list(chat.stream(opening, max_tokens=500, stop=stop))
        assert list(chat.stream(opening, max_tokens=2))


def test_same_text_with_the_same_seed(chat: Any, opening: list[dict[str, Any]]) -> None:
    """At any temperature a seed decides the reply, and no piece holds half a character."""
    "".join(chat.stream(opening, max_tokens=1))
    hot = ["".join(chat.stream(opening, max_tokens=30, temperature=2.0, seed=seed)) for seed in (1, 1, 2)]
    assert hot[0] == hot[1] != hot[2]
    for text in chat.stream(opening, max_tokens=60, temperature=3.0, seed=3):
        text.encode()


def test_context_window(chat: Any, opening: list[dict[str, Any]]) -> None:
    """A prompt that is too long is refused in one sentence; a reply ends where the window does."""
    with pytest.raises(ContextOverflowError, match=r"The prompt has \d+ tokens, the context window 2048"):
        chat.stream([{"role": "user", "content": "cup " * 3000}], max_tokens=5)
    nearly = [{"role": "user", "content": "cup " * 2000}]
    room = chat.n_ctx - chat.tokenizer.count(nearly)
    assert 0 < room < 60
    list(chat.stream(nearly, max_tokens=500))
    assert len(chat.last.ids) <= room
    assert chat.last.stopped in ("length", "eos")
    refusal(InvalidInputError, chat.stream, opening, max_tokens=0)


def test_abandoned_reply(chat: Any, opening: list[dict[str, Any]]) -> None:
    """The model is held by a reply until it is closed, and says so instead of hanging."""
    first = chat.stream(opening, max_tokens=20)
    next(first)
    refusal(InvalidInputError, next, chat.stream(opening, max_tokens=20), match="still being streamed")
    first.close()
    assert chat.last.stopped == "interrupted"
    assert list(chat.stream(opening, max_tokens=2))


def test_several_threads(chat: Any, opening: list[dict[str, Any]]) -> None:
    """Threads that ask at the same time are served one after the other."""
    expected = "".join(chat.stream(opening, max_tokens=8))
    with ThreadPoolExecutor(4) as pool:
        replies = pool.map(lambda _: "".join(chat.stream(opening, max_tokens=8)), range(12))
    assert list(replies) == [expected] * 12


def test_closed(open_chat: Open, opening: list[dict[str, Any]]) -> None:
    """After close() every use says so; closing twice, or in the middle of a reply, is fine."""
    chat = open_chat()
    reply = chat.stream(opening, max_tokens=50)
    next(reply)
    chat.close()
    chat.close()
    assert list(reply) == []
    ask = partial(chat.stream, opening, max_tokens=5)
    for use in (ask, lambda: chat.cut("x"), lambda: chat.tokenizer.encode("x")):
        refusal(ClosedError, use)


def test_closed_from_another_thread(open_chat: Open, opening: list[dict[str, Any]]) -> None:
    """close() ends a reply that another thread is reading, and waits for it."""
    chat = open_chat()
    begun = threading.Event()

    def read() -> None:
        for _ in chat.stream(opening, max_tokens=100_000):
            begun.set()

    reader = threading.Thread(target=read)
    reader.start()
    assert begun.wait(30)
    chat.close()
    reader.join()
    assert chat.last.stopped in ("interrupted", "eos", "length")
