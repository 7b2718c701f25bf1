"""A chat model in this process: what `contracts/test_chat_model_contract.py` cannot see from outside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ggufs import write_llama_gguf

from edgemem.errors import ModelError, TemplateError
from edgemem.llama.chat import LlamaChat
from edgemem.llama.tokens.tokenizer import LlamaTokenizer

MODELS = {
    "qwen2": "Qwen-Qwen2.5-7B-Instruct",
    "llama-bpe": "meta-llama-Llama-3.2-3B-Instruct",
    "phi-3": "microsoft-Phi-3.5-mini-instruct",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, vocabularies: Path) -> dict[str, Path]:
    """Return real models of random weights, one for each vocabulary."""
    folder = tmp_path_factory.mktemp("models")
    return {
        name: write_llama_gguf(
            folder / f"{name}.gguf", vocabularies=vocabularies, vocabulary=name, template=template, width=32
        )
        for name, template in MODELS.items()
    }


@pytest.fixture
def chat(files: dict[str, Path]) -> Iterator[LlamaChat]:
    """Return an open chat model with the vocabulary that loads fastest."""
    with LlamaChat(files["phi-3"], n_ctx=2048, threads=1, batch=256) as chat:
        yield chat


def opening() -> list[dict[str, Any]]:
    """Return the first messages of a conversation."""
    return [
        {"role": "system", "content": "You are a kitchen robot. " * 10},
        {"role": "user", "content": "Where is my cup? " * 10},
    ]


def test_markers_are_not_spoken(chat: LlamaChat) -> None:
    """Control tokens end a reply or add nothing to its text."""
    vocabulary = chat.tokenizer.vocabulary
    for special in vocabulary.specials:
        if special.control:
            assert vocabulary.piece(special.id) == b""
    end = next(special for special in vocabulary.specials if special.text == "<|end|>")
    assert vocabulary.ends_reply(end.id)


def test_end_token_ends_the_reply(chat: LlamaChat, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the model generates its end token, the reply ends and the token is not part of it."""
    reply = list(chat.stream(opening(), max_tokens=4))
    third = chat.last.ids[2]
    monkeypatch.setattr(chat.tokenizer.vocabulary, "ends_reply", lambda token: token == third)
    again = list(chat.stream(opening(), max_tokens=4))
    assert chat.last.stopped == "eos"
    assert third not in chat.last.ids
    assert again == reply[: len(again)]


def test_shares_its_vocabulary(chat: LlamaChat, files: dict[str, Path]) -> None:
    """The chat model's tokenizer counts like one that was opened apart, without loading a second vocabulary."""
    with LlamaTokenizer(files["phi-3"]) as apart:
        assert chat.tokenizer.fingerprint == apart.fingerprint
        assert chat.tokenizer.render(opening()) == apart.render(opening())


def test_a_template_that_prints_nothing(files: dict[str, Path]) -> None:
    """A model whose template keeps from it what people say is refused when it is loaded."""
    with pytest.raises(TemplateError, match="does not print what the user says"):
        LlamaChat(files["phi-3"], n_ctx=512, threads=1, template="{# nothing #}")


def test_damaged_model(tmp_path: Path, files: dict[str, Path], vocabularies: Path) -> None:
    """A missing file, no GGUF, half of one and one without weights are refused in one sentence."""
    (tmp_path / "text.gguf").write_text("hello" * 100)
    (tmp_path / "half.gguf").write_bytes(files["phi-3"].read_bytes()[:2_000_000])
    for file in (
        tmp_path / "missing.gguf",
        tmp_path / "text.gguf",
        tmp_path / "half.gguf",
        vocabularies / "ggml-vocab-phi-3.gguf",
    ):
        with pytest.raises(ModelError) as caught:
            LlamaChat(file, threads=1)
        assert "\n" not in str(caught.value)
