"""The benchmarks run at a tiny size and report what they promise; how fast they are is not tested here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgemem.bench import facts, footprint, prefill, session, tokens, turn
from edgemem.bench.corpus import askable, conversation, known, own_words
from edgemem.bench.evening import FACTS, evening
from edgemem.bench.ground import refuse_tmpfs
from edgemem.bench.report import at_least, at_most, report
from edgemem.errors import InvalidInputError


def bars_of(figures: dict[str, Any], name: str) -> set[str]:
    """Check what all reports have in common, and return the names of the bars."""
    assert figures["bench"] == name
    assert figures["machine"]["calibration_ms"] > 0
    bars = figures["bars"]
    assert all(set(bar) == {"figure", "bar", "ok"} for bar in bars.values())
    assert figures["ok"] == all(bar["ok"] for bar in bars.values())
    return set(bars)


def test_corpus_has_ten_thousand_different_facts() -> None:
    """Ten thousand facts have ten thousand keys, and the same seed gives the same ones."""
    facts_ = known(10_000)
    assert len({fact.key for fact in facts_}) == 10_000
    assert facts_ == known(10_000)
    assert facts_ != known(10_000, seed=9)


def test_questions_need_one_fact_and_do_not_name_its_key() -> None:
    """A value that is asked for stands in one fact, and no question spells out the key."""
    facts_ = known(2000)
    values = [fact.value for fact in facts_]
    for fact in askable(facts_, 100):
        assert values.count(fact.value) == 1
        assert fact.key.partition(".")[2].replace("_", " ") not in fact.question.lower().split()


def test_every_message_has_a_word_of_its_own() -> None:
    """The four words of a turn stand in its four messages and nowhere else."""
    lines = list(conversation(30))
    texts = [
        (line.say, str(line.tools[0].arguments), str(line.tools[0].result), line.reply) for line in lines
    ]
    everything = " ".join(text for four in texts for text in four)
    for n, four in enumerate(texts):
        for word, text in zip(own_words(n), four, strict=True):
            assert word in text
            assert everything.count(word) == 1


def test_evening_asks_for_each_fact_once() -> None:
    """Forty turns ask for each of the twenty facts once, each with a tool call."""
    turns = evening()
    assert [fact for _, fact in turns if fact is not None] == list(FACTS)
    assert len(turns) == 40
    assert all(len(line.tools) == 1 for line, _ in turns)


def test_bars_hold_figures_against_limits() -> None:
    """A report is fine only if every bar is kept."""
    assert report("x", {}, {"a": at_most(1, 1), "b": at_least(1, 1)})["ok"]
    assert not report("x", {}, {"a": at_most(1.1, 1), "b": at_least(1, 1)})["ok"]


def test_bytes_are_not_counted_in_memory() -> None:
    """A folder on tmpfs is refused, because nothing there is written to a disk."""
    memory = Path("/dev/shm")
    assert memory.is_dir(), "this machine has no tmpfs to try"
    with pytest.raises(InvalidInputError, match="in memory"):
        refuse_tmpfs(memory)


def test_session_reports_bytes_and_growth(request: pytest.FixtureRequest) -> None:
    """The session bench finds every message at once and tells where the bytes went."""
    # Temporary files are in memory on some systems (Debian 13); the checkout is on a disk.
    figures = session.run(turns=30, home=request.config.cache.mkdir("bench"))
    assert bars_of(figures, "session") == {"written_mb", "found_at_once", "commit_growth", "save_growth"}
    assert figures["found_at_once"] == 1.0
    assert figures["written_mb"] > figures["text_mb"] > 0
    assert set(figures["logs_mb"]) == {"memory.db-wal", "index.db-wal"}


def test_facts_reports_ratios_for_all_moments(tmp_path: Path) -> None:
    """The facts bench asks each moment with and without `known_at`."""
    figures = facts.run(superseded=400, times=3, home=tmp_path)
    assert "facts_as_of_known_at" in bars_of(figures, "facts")
    asked = [name for name in figures["times_primary_key"] if name.startswith("facts_as_of")]
    assert len(asked) == 3 * (1 + 3)


def test_prefill_evaluates_nothing_twice_between_compactions(tmp_path: Path) -> None:
    """Without a compaction only new text and blocks are evaluated, and the seed's way costs many times that."""
    figures = prefill.run(turns=6, facts=60, home=tmp_path)
    assert "many_needed_shown" in bars_of(figures, "prefill")
    for scenario in (figures["evening"], figures["many"]):
        assert scenario["compactions"] == 0
        assert scenario["evaluated"] <= 1.05 * scenario["new_text_and_blocks"]
    assert figures["evening"]["seed_tokens"] > 2 * figures["evening"]["evaluated"]


def test_tokens_are_made_of_new_segments_only(tmp_path: Path) -> None:
    """Rendering tokenises each segment once."""
    figures = tokens.run(turns=30, facts=40, home=tmp_path)
    assert bars_of(figures, "tokens") == {"rendered_ratio"}
    assert figures["rendered_ratio"] <= 1.0
    assert figures["new_segments_bytes_per_turn"] > 0


def test_turn_reports_time_by_point(tmp_path: Path) -> None:
    """The turn bench times every point of a turn with a tool call, with everything indexed."""
    figures = turn.run(facts=50, turns=40, asked=5, home=tmp_path)
    assert bars_of(figures, "turn") == {"hooks_ms"}
    assert not any(figures["not_indexed"].values())
    points = {"on_run_start", "before_llm", "after_llm", "before_tool", "after_tool", "on_run_end"}
    assert set(figures["by_point_ms"]) == points


def test_footprint_measures_fresh_processes(tmp_path: Path) -> None:
    """The footprint bench opens homes in processes of their own, with and without the embedder."""
    figures = footprint.run(records=80, processes=1, home=tmp_path)
    assert "with_the_embedder_mb" in bars_of(figures, "footprint")
    assert figures["embedder"]["asked_mb"] > figures["words"]["asked_mb"] > 1
    assert figures["words"]["found"] > 0
