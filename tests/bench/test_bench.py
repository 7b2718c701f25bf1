"""The benchmarks run at a tiny size and report what they promise; how fast they are is not tested here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgemem.bench import footprint, session, turn
from edgemem.bench.ground import real_tokenizer, refuse_tmpfs
from edgemem.bench.prefill import FACTS, TOOLS, Reference, evening, play
from edgemem.bench.session import conversation, own_words
from edgemem.errors import InvalidInputError


def bars_of(figures: dict[str, Any], name: str) -> set[str]:
    """Check what all reports have in common, and return the names of the bars."""
    assert figures["bench"] == name
    assert figures["machine"]["calibration_ms"] > 0
    bars = figures["bars"]
    assert all(set(bar) == {"figure", "bar", "ok"} for bar in bars.values())
    assert figures["ok"] == all(bar["ok"] for bar in bars.values())
    return set(bars)


def test_every_message_has_a_word_of_its_own() -> None:
    """The four words of a turn stand in its four messages and nowhere else."""
    lines = list(conversation(30))
    texts = [
        (each.say, str(each.tools[0].arguments), str(each.tools[0].result), each.reply) for each in lines
    ]
    everything = " ".join(text for four in texts for text in four)
    for n, four in enumerate(texts):
        for word, text in zip(own_words(n), four, strict=True):
            assert word in text
            assert everything.count(word) == 1


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
