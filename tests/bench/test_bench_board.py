"""The bench of a board: one JSON whatever the machine hides."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgemem.bench import board
from edgemem.errors import ModelError


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board, "SIZES", (80, 160))
    monkeypatch.setattr(board, "STARTS", 1)
    monkeypatch.setattr(board, "QUICK_TIMES", 3)


def test_a_board_is_measured(small: None, tmp_path: Path, chat_model: Callable[[str], Path]) -> None:
    """Every documented figure is there, with a chat model too; what cannot be read is null and has its reason."""
    found = board.run(quick=True, llm=str(chat_model("qwen2")), home=tmp_path)
    assert (found["bench"], found["format"]) == ("board", 1)
    figures = found["figures"]
    for name in ("fsync_ms", "commit_ms"):
        assert 0 < figures[name]["median"] <= figures[name]["p95"]
    assert all(ms > 0 for ms in figures["embed_ms"].values())
    assert set(figures["embed_ms"]) == {
        f"{n}_{on}" for n in ("short", "long") for on in ("1_thread", "every_core")
    }
    one = figures["with_80"]
    assert set(one) == {"fill_s", "recall_ms", "turn_ms"}
    assert set(figures["start_80"]) == set(board.STARTED)
    assert one["recall_ms"]["median"] > 0 < one["turn_ms"]["before_the_model"]
    assert figures["with_160"] is None
    assert found["missing"]["figures.with_160"] == "left out by --quick"
    assert figures["prefill_tokens_s"]["median"] > 0
    assert figures["prefill_tokens_s"]["prompt_tokens"] >= board.PROMPT_TOKENS
    named = {"board": found["board"], "heat.before": found["heat"]["before"], "figures": figures}
    nulls = {f"{part}.{name}" for part, row in named.items() for name, value in row.items() if value is None}
    assert nulls <= set(found["missing"])
    assert json.loads(json.dumps(found)) == found


def test_a_board_without_models_is_too(small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an embedder, vocabularies and the chat model named, the rest is measured; reasons say what to type."""

    def none() -> Any:
        raise ModelError("The embedder is missing; type: edgemem models get it")

    for name in ("NearlyReal", "real_embedder", "real_tokenizer"):
        monkeypatch.setattr(board.ground, name, none)
    found = board.run(quick=True, llm="no-such-model", home=tmp_path)
    assert found["figures"]["embed_ms"] is None
    assert "edgemem models get" in found["missing"]["figures.embed_ms"]
    assert "edgemem models get" in found["missing"]["board.embedder"]
    assert found["figures"]["with_80"]["turn_ms"]["median"] > 0
    assert "no model no-such-model" in found["missing"]["figures.prefill_tokens_s"]
