"""The recall bench reads three forms, fills homes through the public API, and counts as each benchmark defines it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lab import recall
from lab.recall_asking import turn_scores
from lab.weeks import weeks
from lab.weeks_world import FormSet

CORPORA: dict[str, Any] = json.loads((Path(__file__).parents[1] / "data" / "corpora.json").read_text("utf-8"))
LOCOMO, LONGMEMEVAL = CORPORA["locomo"], CORPORA["longmemeval"]


def written(path: Path, records: Any) -> Path:
    path.write_text(json.dumps(records), encoding="utf-8")
    return path


def test_recall_is_the_share_of_evidence_among_the_first() -> None:
    """One of two messages among the first five is a half, whatever stands behind."""
    found = ["x", "a", "y", "z", "w", "b"]
    scores = turn_scores(found, ["s3", "s1"], evidence=("a", "b"), right=("s1", "s2"))
    assert scores["recall@5"] == 0.5
    assert scores["recall@10"] == scores["recall@20"] == 1.0
    assert scores["session_recall@5"] == 0.5
    assert scores["mrr"] == 0.5


WEEKS = {
    "learnt": "c73b95b69cf131c5d8435afc53783d5abf6e53325a850324b7affe2b814304d2",
    "unseen": "ef69e8c98ba6a3027697e0c2c0691147bf7ff7b2d7fcdebd3f2d8d54762934ea",
}
"""Hashes of the weeks of seed 1. Whoever changes a word changes them, and every figure that was measured before."""


@pytest.mark.parametrize("forms", WEEKS)
def test_weeks_are_the_same_bytes_and_evidence_holds_the_answer(forms: FormSet) -> None:
    """Whatever Python makes them; and the words that answer stand in what was said before anybody asks."""
    household = weeks(1, forms)
    assert hashlib.sha256(msgspec.json.encode(household)).hexdigest() == WEEKS[forms]
    turns = {turn.id: turn for turn in household.turns}
    for question in household.questions:
        evidence = [turns[name] for name in question.evidence]
        assert all(turn.at < question.at for turn in evidence)
        assert not question.said or any(question.said.lower() in turn.text.lower() for turn in evidence)
        assert bool(evidence) == bool(question.answer) == (question.category != "off_topic")


def test_locomo_figures_are_those_of_a_small_case(tmp_path: Path) -> None:
    """Two questions count; a saved run compares with itself without a difference, and with a better one with gains."""
    data, saved = written(tmp_path / "talk.json", [LOCOMO]), tmp_path / "saved.json"
    figures = recall.run(data=data, embedder=False, block=80, save=saved, home=tmp_path)
    everything = figures["side_by_side"]["all"]
    assert everything["n"] == 2
    assert set(figures["side_by_side"]) == {"all", "single_hop", "multi_hop"}
    assert everything["recall@5"] == 1.0
    assert everything["mrr"] == 1.0
    assert 0 < everything["block_tokens"] <= 80
    assert set(figures["bars"]) == {"recall@5", "recall@10", "session_recall@5"}
    assert [everything[f"block_answer{each}"] for each in ("", "_words", "_found")] == [1.0, 1.0, 1.0]
    # who has both is a speaker's name, and no word of theirs
    assert figures["intervals"]["block_answer"]["n"] == 1
    assert "small_talk" not in figures
    assert "nothing_found" not in figures, "who asked of another person was told of something"
    again = recall.run(data=data, embedder=False, against=saved, home=tmp_path)["against"]
    assert again["recall@5"]["difference"] == 0.0
    kept = json.loads(saved.read_text())
    for scores in kept["scores"].values():
        scores["recall@5"] = 0.0
    written(saved, kept)
    gain = recall.run(data=data, embedder=False, against=saved, home=tmp_path)["against"]["recall@5"]
    assert (gain["difference"], gain["better"], gain["worse"]) == (1.0, 2, 0)


def test_longmemeval_counts_strictly_and_leaves_abstentions_out(tmp_path: Path) -> None:
    """A question that only the assistant answered has no strict figures, one without an answer has none at all."""
    right = {**LONGMEMEVAL, "haystack_session_ids": ["s1", "answer_s2", "s3"],
             "answer_session_ids": ["answer_s2"]}  # fmt: skip
    by_robot = {**LONGMEMEVAL, "question_id": "two", "haystack_session_ids": ["s1", "s2", "answer_s3"],
                "answer_session_ids": ["answer_s3"], "question_type": "single-session-assistant"}  # fmt: skip
    nobody = {**LONGMEMEVAL, "question_id": "three_abs", "haystack_session_ids": ["s1", "s2", "s3"],
              "answer_session_ids": []}  # fmt: skip
    data = written(tmp_path / "long.json", [right, by_robot, nobody])
    figures = recall.run(data=data, embedder=False, home=tmp_path)
    assert figures["side_by_side"]["all"]["n"] == 2
    assert figures["intervals"]["strict_recall_all@5"]["n"] == 1
    assert figures["nothing_found"]["off_topic_empty"]["n"] == 1
    user = figures["side_by_side"]["single-session-user"]
    assert user["recall_all@5"] == user["ndcg_any@5"] == user["strict_mrr"] == 1.0
    assert figures["bars"] == {}
