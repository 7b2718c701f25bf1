"""Vocabularies that have no marker of their template: a prompt is one segment, and what that costs is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import edgemem
from edgemem.llama.template.chat_template import CHATML
from edgemem.llama.tokens.log import TokenLog
from edgemem.llama.tokens.tokenizer import LlamaTokenizer
from edgemem.memory.health import check

TURNS = 12


def spell(log: TokenLog, tokenizer: LlamaTokenizer, text: str) -> None:
    """Let the log see a reply, spelled in other tokens than its text has."""
    for begin in range(0, len(text), 3):
        for token in tokenizer.encode(text[begin : begin + 3]):
            log.append(token, tokenizer.vocabulary.piece(token))


@pytest.mark.parametrize("vocabulary", ["falcon", "gpt-2", "starcoder"])
def test_what_was_generated_is_kept_in_one_segment(vocabularies: Path, vocabulary: str) -> None:
    """Each turn reads its own tokens alone; a reply that was changed costs what stands behind the first reply."""
    with LlamaTokenizer(vocabularies / f"ggml-vocab-{vocabulary}.gguf", template=CHATML) as tokenizer:
        log = TokenLog(tokenizer.vocabulary.continue_text)
        said: list[dict[str, Any]] = [{"role": "system", "content": "You are a kitchen robot. " * 10}]
        first = 0
        for n in range(TURNS):
            said.append({"role": "user", "content": f"Where did I put the kettle number {n}?"})
            prompt = tokenizer.render(said)
            assert len(prompt.segments) == 1
            seen = log.ids
            taken = log.take(prompt)
            assert taken.ids[: len(seen)] == seen
            assert taken.common == len(seen)
            first = first or len(taken.ids)
            reply = f"It stands on the shelf behind the spoons, number {n}."
            spell(log, tokenizer, reply)
            said.append({"role": "assistant", "content": reply})
        said[-1] = {"role": "assistant", "content": "(something else)"}
        changed = log.take(tokenizer.render([*said, {"role": "user", "content": "Thank you."}]))
        assert first <= changed.common < first + 8
        assert changed.common < len(changed.ids) / 3


@pytest.mark.parametrize(("vocabulary", "whole"), [("falcon", True), ("qwen2", False)])
def test_check_tells_what_it_costs(vocabularies: Path, tmp_path: Path, vocabulary: str, whole: bool) -> None:
    """One sentence, where the markers of the template are no tokens of the vocabulary."""
    (tmp_path / "edgemem.toml").write_text('[llama]\nembedder = ""\n')
    with (
        LlamaTokenizer(vocabularies / f"ggml-vocab-{vocabulary}.gguf", template=CHATML) as tokenizer,
        edgemem.open(tmp_path, worker=False, tokenizer=tokenizer) as memory,
    ):
        told = next(each for each in check(memory) if each.name == "tokenizer")
    assert told.state == "ok"
    assert ("each prompt is tokenised whole" in told.detail) == whole
