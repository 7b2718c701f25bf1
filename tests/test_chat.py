"""A chat model in this process: what `contracts/test_chat_model_contract.py` cannot see from outside."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ggufs import write_llama_gguf

from edgemem.errors import ModelError, TemplateError
from edgemem.llama.chat import LlamaChat
from edgemem.llama.forward import Interrupt, watching
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


@pytest.mark.parametrize("name", MODELS)
def test_a_turn_evaluates_only_what_is_new(files: dict[str, Path], name: str) -> None:
    """From the second turn on, the tokens evaluated are those after the last reply, and its last token."""
    with LlamaChat(files[name], n_ctx=2048, threads=1) as chat:
        messages = opening()
        reply = "".join(chat.stream(messages, max_tokens=12))
        assert chat.last.evaluated_tokens == chat.last.prompt_tokens == chat.tokenizer.count(messages)
        for turn in range(4):
            seen = chat.last.prompt_tokens + len(chat.last.ids)
            messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": f"And {turn}?"}]
            reply = "".join(chat.stream(messages, max_tokens=12))
            new = chat.last.prompt_tokens - seen
            assert 0 < new < 30
            assert new <= chat.last.evaluated_tokens <= new + 1


def test_ids_in_the_context_are_those_generated(chat: LlamaChat) -> None:
    """The ids of the next prompt contain the reply as generated, even where its text tokenises differently."""
    messages = opening()
    reply = "".join(chat.stream(messages, max_tokens=20))
    generated = list(chat.last.ids)
    start = chat.last.prompt_tokens
    messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": "Thanks."}]
    "".join(chat.stream(messages, max_tokens=1))
    held = [int(token) for token in chat._llama._input_ids[start : start + 20]]
    assert held == generated


@pytest.mark.parametrize("name", MODELS)
def test_after_a_barge_in_only_what_follows_is_evaluated(files: dict[str, Path], name: str) -> None:
    """A reply that was cut where the voice stopped costs only the tokens behind the heard part."""
    with LlamaChat(files[name], n_ctx=2048, threads=1) as chat:
        messages = opening()
        reply = "".join(chat.stream(messages, max_tokens=24))
        prompt = chat.last.prompt_tokens
        heard = reply[: len(reply) // 2]
        chat.cut(heard)
        kept = len(chat.log.ids) - prompt
        assert 0 < kept < 24
        messages += [{"role": "assistant", "content": heard}, {"role": "user", "content": "Stop. Go on."}]
        "".join(chat.stream(messages, max_tokens=1))
        assert chat.last.evaluated_tokens == chat.last.prompt_tokens - prompt - kept


def test_stop_while_the_prompt_is_evaluated(files: dict[str, Path]) -> None:
    """A long prompt is given up in the middle, and the next one is answered as if nothing had happened."""
    words = [{"role": "user", "content": "Where is my cup? " * 700}]
    with LlamaChat(files["qwen2"], n_ctx=4096, threads=1, batch=4096) as chat:
        asked = 0

        def stop() -> bool:
            nonlocal asked
            asked += 1
            return asked > 1  # the first question comes before the prompt is evaluated

        assert list(chat.stream(words, max_tokens=5, stop=stop)) == []
        assert chat.last.stopped == "interrupted"
        after = list(chat.stream(opening(), max_tokens=8))
        ids = chat.last.ids
    with LlamaChat(files["qwen2"], n_ctx=4096, threads=1, batch=4096) as fresh:
        assert list(fresh.stream(opening(), max_tokens=8)) == after
        assert fresh.last.ids == ids


def test_error_in_stop_reaches_the_caller(chat: LlamaChat) -> None:
    """What goes wrong in `stop` is raised where the reply is read, and the model can be asked again."""

    def stop() -> bool:
        raise LookupError("no microphone")

    with pytest.raises(LookupError, match="no microphone"):
        list(chat.stream(opening(), max_tokens=5, stop=stop))
    assert list(chat.stream(opening(), max_tokens=2))


def test_error_in_the_watch_reaches_the_caller() -> None:
    """What goes wrong in `stop` while the model is busy is raised too."""
    stop = Interrupt()

    def failing() -> bool:
        raise LookupError("no microphone")

    def busy() -> None:
        with watching(failing, stop.ask):
            while not stop.asked:
                time.sleep(0.001)

    with pytest.raises(LookupError):
        busy()


def test_same_text_with_the_same_seed(chat: LlamaChat) -> None:
    """At any temperature a seed decides the reply, and no reply holds half a character."""
    hot = ["".join(chat.stream(opening(), max_tokens=30, temperature=2.0, seed=seed)) for seed in (1, 1, 2)]
    assert hot[0] == hot[1] != hot[2]
    for text in chat.stream(opening(), max_tokens=60, temperature=3.0, seed=3):
        text.encode()
    raw = b"".join(map(chat.tokenizer.vocabulary.piece, chat.last.ids))
    assert raw.decode("utf-8", "replace").lstrip().startswith(chat.last.text)


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
    assert chat.tokenizer.vocabulary._free is None


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
