"""The bench of a board: one JSON whatever the machine hides, and two of them side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from edgemem.bench import board
from edgemem.cli.bench import bench
from edgemem.errors import InvalidInputError, ModelError
from support.models import write_llama_gguf


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a memory be small."""
    monkeypatch.setattr(board, "SIZES", (80, 160))
    monkeypatch.setattr(board, "STARTS", 1)
    monkeypatch.setattr(board, "QUICK_TIMES", 3)


def told(**figures: Any) -> dict[str, Any]:
    """Return what a board's file holds, in short."""
    return {
        "bench": "board", "format": board.FORMAT, "board": {"model": "Pi 5", "cores": 4, "disk_rotates": False},
        "heat": {}, "figures": figures,
    }  # fmt: skip


def test_a_board_is_measured(small: None, tmp_path: Path, vocabularies: Path) -> None:
    """Every documented figure is there, with a chat model too; what cannot be read is null and has its reason."""
    llm = write_llama_gguf(tmp_path / "chat.gguf", vocabularies=vocabularies)
    found = board.run(quick=True, llm=str(llm), home=tmp_path)
    assert (found["bench"], found["format"]) == ("board", 1)
    figures = found["figures"]
    for name in ("fsync_ms", "commit_ms"):
        assert 0 < figures[name]["median"] <= figures[name]["p95"]
    assert all(ms > 0 for ms in figures["embed_ms"].values())
    assert {"short_1_thread", "long_1_thread", "short_every_core", "long_every_core"} == set(
        figures["embed_ms"]
    )
    one = figures["with_80"]
    assert set(one) == {"fill_s", "recall_ms", "turn_ms"}
    assert set(figures["start_80"]) == set(board.STARTED)
    assert one["recall_ms"]["median"] > 0 < one["turn_ms"]["before_the_model"]
    assert figures["with_160"] is None
    assert found["missing"]["figures.with_160"] == "left out by --quick"
    assert figures["prefill_tokens_s"]["median"] > 0
    assert figures["prefill_tokens_s"]["prompt_tokens"] >= board.PROMPT_TOKENS
    named = {"board": found["board"], "heat.before": found["heat"]["before"], "figures": figures}
    nulls = {
        f"{part}.{name}" for part, seen in named.items() for name, value in seen.items() if value is None
    }
    assert nulls <= set(found["missing"])
    assert json.loads(json.dumps(found)) == found


def test_a_board_without_models_is_measured(
    small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an embedder, vocabularies and the chat model named, the rest is measured; reasons say what to type."""

    def none() -> Any:
        raise ModelError("The embedder is missing; type: edgemem models get it")

    for name in ("NearlyReal", "real_embedder", "real_tokenizer"):
        monkeypatch.setattr(board, name, none)
    found = board.run(quick=True, llm="no-such-model", home=tmp_path)
    assert found["figures"]["embed_ms"] is None
    assert "edgemem models get" in found["missing"]["figures.embed_ms"]
    assert "edgemem models get" in found["missing"]["board.embedder"]
    assert found["figures"]["with_80"]["turn_ms"]["median"] > 0
    assert "no model no-such-model" in found["missing"]["figures.prefill_tokens_s"]


def test_two_boards_stand_side_by_side(tmp_path: Path) -> None:
    """Numbers have a ratio; words, truths, nulls and what only one of them has do not."""
    first, second = tmp_path / "pi4.json", tmp_path / "pi5.json"
    first.write_text(json.dumps(told(calibration_ms=40.0, fsync_ms={"median": 2.0}, gone=1, late=0)))
    second.write_text(json.dumps(told(calibration_ms=20.0, fsync_ms={"median": 3.0}, gone=None, late=2)))
    sides = board.run(compare=(first, second))["side_by_side"]
    assert sides["calibration_ms"] == {"pi4": 40.0, "pi5": 20.0, "ratio": 0.5}
    assert sides["fsync_ms.median"]["ratio"] == 1.5
    for name in ("model", "disk_rotates", "gone", "late"):
        assert sides[name]["ratio"] is None
    printed = CliRunner().invoke(bench, ["board", "--compare", str(first), str(second)])
    assert printed.exit_code == 0, printed.output
    assert ["calibration_ms", "40", "20", "0.5"] in [line.split() for line in printed.output.splitlines()]
    same = tmp_path / "other" / "pi4.json"
    same.parent.mkdir()
    same.write_bytes(second.read_bytes())
    assert str(same) in board.run(compare=(first, same))["side_by_side"]["model"]


@pytest.mark.parametrize(
    ("text", "words"),
    [(None, "cannot be read"), ("{", "not JSON"), ("[]", "no board"), ('{"bench": "turn"}', "no board"),
     ('{"bench": "board", "format": 99}', "format 1"), ("\0", "not JSON")],
)  # fmt: skip
def test_what_is_no_board_is_refused(tmp_path: Path, text: str | None, words: str) -> None:
    """A file that is missing, broken, of another bench or of another format gives one sentence."""
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(told()))
    if text is not None:
        bad.write_text(text)
    with pytest.raises(InvalidInputError, match=words):
        board.run(compare=(good, bad))
