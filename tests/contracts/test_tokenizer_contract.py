"""What every Tokenizer promises, exact or not."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgemem.llama.chat import LlamaChat
from edgemem.llama.protocols import ChatModel, Tokenizer
from edgemem.llama.server.chat import HttpLlama
from edgemem.llama.template.chat_template import CHATML
from edgemem.llama.tokens.estimate import EstimateTokenizer
from edgemem.llama.tokens.tokenizer import LlamaTokenizer
from support.models import write_llama_gguf
from support.servers import RunningServer

TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where is my cup?"},
    {"role": "assistant", "content": "On the table. 好的"}, {"role": "user", "content": "Thanks!"},
]  # fmt: skip


@pytest.fixture(scope="module", params=["llama", "chat", "server", "estimate"])
def tokenizer(
    request: pytest.FixtureRequest, vocabularies: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tokenizer]:
    if request.param == "estimate":
        yield EstimateTokenizer()
    elif request.param == "llama":
        with LlamaTokenizer(vocabularies / "ggml-vocab-qwen2.gguf", template=CHATML) as found:
            yield found
    else:
        file = tmp_path_factory.mktemp("model") / "tiny.gguf"
        write_llama_gguf(file, vocabularies=vocabularies, vocabulary="phi-3", layers=1, width=32)
        if request.param == "chat":
            with LlamaChat(file, n_ctx=256, threads=1) as chat:
                assert isinstance(chat, ChatModel)
                yield chat.tokenizer
            return
        program = request.getfixturevalue("llama_server")
        with RunningServer(program, file, file.parent) as server, HttpLlama(server.url) as there:
            yield there.tokenizer


def test_is_a_tokenizer(tokenizer: Tokenizer) -> None:
    """It has every name of the protocol, and says whether it is exact."""
    assert isinstance(tokenizer, Tokenizer)
    assert tokenizer.exact is (not isinstance(tokenizer, EstimateTokenizer))
    assert tokenizer.fingerprint == tokenizer.fingerprint != ""


def test_count_is_the_rendered_length(tokenizer: Tokenizer) -> None:
    """Counting and rendering agree, with every option, and segments make up the whole."""
    tools = [{"type": "function", "function": {"name": "lamp", "description": "x", "parameters": {}}}]
    for n in range(1, len(TALK) + 1):
        for options in ({}, {"tools": tools}, {"add_generation_prompt": False}):
            prompt = tokenizer.render(TALK[:n], **options)
            assert prompt.n == len(prompt.ids) == tokenizer.count(TALK[:n], **options) > 0
            assert "".join(segment.text for segment in prompt.segments) == prompt.text


def test_same_messages_same_ids(tokenizer: Tokenizer) -> None:
    """Rendering twice gives the same; the caller's messages stay as they are."""
    before = repr(TALK)
    assert tokenizer.render(TALK) == tokenizer.render(TALK)
    assert repr(TALK) == before


def test_longer_talk_begins_with_the_shorter(tokenizer: Tokenizer) -> None:
    """With a template that appends, ids of a longer conversation begin with those of the shorter one."""
    shorter = tokenizer.render(TALK[:2], add_generation_prompt=False)
    longer = tokenizer.render(TALK, add_generation_prompt=False)
    assert longer.ids[: shorter.n] == shorter.ids
    assert longer.n > shorter.n


@pytest.mark.parametrize("text", ["", " ", "\x00", "\ud800", "\u202e", "a" * 100_000])
def test_any_text(tokenizer: Tokenizer, text: str) -> None:
    """No text fails; more text never takes fewer tokens; nothing takes none."""
    assert len(tokenizer.encode(text)) <= len(tokenizer.encode(text + " and more"))
    assert tokenizer.encode("") == []
    with_text, without = (tokenizer.count([{"role": "user", "content": it}]) for it in (text, ""))
    assert with_text >= without
