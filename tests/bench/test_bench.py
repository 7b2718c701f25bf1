"""The benchmarks run at a tiny size and report what they promise; how fast they are is not tested here."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgemem.bench import board, footprint, session, turn
from edgemem.bench.ground import real_tokenizer, refuse_tmpfs
from edgemem.bench.prefill import FACTS, TOOLS, Reference, evening, play
from edgemem.errors import InvalidInputError, ModelError


def bars_of(figures: dict[str, Any], name: str) -> set[str]:
    """Check what all reports have in common, and return the names of the bars."""
    assert figures["bench"] == name
    assert figures["machine"]["calibration_ms"] > 0
    bars = figures["bars"]
    assert all(set(bar) == {"figure", "bar", "ok"} for bar in bars.values())
    assert figures["ok"] == all(bar["ok"] for bar in bars.values())
    return set(bars)


def test_bytes_are_not_counted_in_memory() -> None:
    """A folder on tmpfs is refused, because nothing there is written to a disk."""
    memory = Path("/dev/shm")
    assert memory.is_dir(), "this machine has no tmpfs to try"
    with pytest.raises(InvalidInputError, match="in memory"):
        refuse_tmpfs(memory)


@pytest.mark.usefixtures("patient")
def test_session_reports_bytes_and_growth(request: pytest.FixtureRequest) -> None:
    """The session bench has each turn accepted and tells where the bytes went."""
    # Temporary files are in memory on some systems (Debian 13); the checkout is on a disk.
    figures = session.run(turns=6, home=request.config.cache.mkdir("bench"))
    assert bars_of(figures, "session") == {"written_mb", "index_kb_a_message", "accepted", "commit_growth"}
    assert figures["accepted"] == 1.0
    assert figures["written_mb"] > figures["text_mb"] > 0
    assert {"memory.db", "index.db"} <= set(figures["files_mb"])


def test_prefill_counts_what_is_read_again(tmp_path: Path) -> None:
    """Compactions count, and so does what a loop of the same window reads again once it must leave turns out."""
    costs = play(tmp_path, FACTS, evening(26), TOOLS)
    read = {name: sum(turn.read[name] for turn in costs) for name in costs[0].read}
    assert any(turn.compacted for turn in costs)
    tokenizer = real_tokenizer()
    endless = Reference(tokenizer, TOOLS, [])
    each = [sum(read.new for read in endless.play(moment.line)) for moment in evening(40)]
    tokenizer.close()
    assert sum(each) <= 4000, "a script that makes any loop read more would make any ratio look good"
    new = sum(each[: len(costs)])
    assert new < read["without_memory"] < read["without_memory_one_turn_at_a_time"]
    assert read["with_memory"] > new + sum(turn.block for turn in costs)


def test_footprint_measures_fresh_processes(tmp_path: Path) -> None:
    """The footprint bench opens homes in processes of their own, with and without the embedder."""
    figures = footprint.run(records=20, processes=1, home=tmp_path)
    assert {"words_asked_mb", "embedder_asked_mb"} < bars_of(figures, "footprint")
    sides = figures["side_by_side"]
    assert sides["embedder.asked_mb"]["default"] > sides["words.asked_mb"]["default"] > 1
    assert sides["words.found"]["default"] > 0


def test_turn_reports_its_times(tmp_path: Path) -> None:
    """The turn bench times a turn with a tool call, with everything indexed."""
    figures = turn.run(facts=20, turns=12, asked=3, home=tmp_path)
    assert bars_of(figures, "turn") == {"hooks_ms", "hooks_p95_ms"}
    assert 20 + 24 < figures["rows"] < 60
    assert not any(figures["not_indexed"].values())
    sides = figures["side_by_side"]
    assert sides["hooks_ms"]["ms"] > sides["before_the_model_ms"]["ms"] > 0 < sides["commit_ms"]["ms"]
    assert sides["hooks_ms"]["bar"] == 10


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
