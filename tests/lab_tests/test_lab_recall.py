"""The recall bench reads three forms, fills homes through the public API, and counts as each benchmark defines it."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edgemem.config import Profile
from lab import recall
from lab.recall_asking import answer_words, share_told, turn_scores
from lab.recall_cases import Said, longmemeval_cases, read_cases, strict_sessions
from lab.recall_home import filled
from lab.weeks import weeks
from lab.weeks_world import FormSet
from support.embedders import HashEmbedder

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


def test_locomo_is_read_with_captions_times_and_crooked_references(tmp_path: Path) -> None:
    """Evidence that is spelled badly is understood, what does not exist is dropped, pictures are told by their captions."""
    form, [case] = read_cases(written(tmp_path / "talk.json", [LOCOMO]))
    assert form == "locomo"
    assert [one.session for one in case.said] == ["D1", "D1", "D2", "D2"]
    assert case.said[1].text == "Look here! [shares a red kayak on a lake]"
    assert case.said[1].speaker == "Bo"
    first = datetime(2023, 5, 8, 13, 56, tzinfo=timezone.utc).timestamp()
    assert case.said[0].at == first < case.said[1].at < first + 120
    assert case.said[2].at == datetime(2023, 9, 13, 0, 9, tzinfo=timezone.utc).timestamp()
    assert [one.evidence for one in case.asked] == [("D1:1",), ("D1:2", "D2:1"), (), ("D1:1",)]
    assert case.asked[1].sessions == ("D1", "D2")
    assert [one.category for one in case.asked] == ["single_hop", "multi_hop", "open_domain", "adversarial"]
    assert case.asked[0].at > case.said[-1].at


def test_longmemeval_is_read_as_its_retrieval_reads_it() -> None:
    """Only what the user said is memory; a session is right by its id, strictly by the user's own words."""
    [case] = longmemeval_cases([LONGMEMEVAL])
    told = ["My train was late.", "The bassoon that I play is from Prague.", "Tell me something."]
    assert [one.text for one in case.said] == told
    [asked] = case.asked
    assert asked.sessions == ("1", "2")
    assert strict_sessions(asked) == ("1",)
    assert asked.strict
    assert datetime.fromtimestamp(asked.at, timezone.utc).isoformat() == "2023-05-30T23:40:00+00:00"


def test_home_holds_who_said_what_when(tmp_path: Path) -> None:
    """Each message is found with its speaker and its own time, years before this software, and known by its id."""
    _, [case] = read_cases(written(tmp_path / "talk.json", [LOCOMO]))
    with filled(case, tmp_path, embedder=HashEmbedder(), profile=Profile()) as here:
        assert set(here.ids.values()) == {one.id for one in case.said}
        assert not any(here.left.values())
        found = here.memory.recall("wisdom tooth", k=1, kinds={"turn"})[0]
        assert here.ids[found.id] == "D2:1"
        assert (found.speaker, found.session) == ("Bo", "D2")
        assert found.event_time == case.said[2].at
        assert abs(found.recorded_at - case.said[2].at) < 1
        here.clock.at = case.asked[0].at
        assert here.memory.diagnostics.clock.now() == case.asked[0].at


def test_an_answer_needs_all_its_words_beside_name_and_day() -> None:
    """What counts are the words that the evidence has and the question has not, in lines that name who said it and when."""
    at = datetime(2023, 5, 8, tzinfo=timezone.utc).timestamp()
    said = [Said("1", "a", at, "Ana Li", "The red kayak crossed lake Bled at half past seven.")]
    words = answer_words("The red kayak, seven times", said, "Which kayak was it?")
    assert words == {"red", *answer_words("seven", said, "")}
    assert answer_words("a rowing boat", said, "Which kayak was it?") == set()
    assert share_told(["- 8 May Ana Li said: red … at seven"], words, said) == 1.0
    assert share_told(["- 8 May Ana Li said: red", "- Ana Li, 8 May: seven"], words, said) == 1.0
    assert share_told(["- 8 May Ana Li said: red kayak lake Bled"], words, said) == 0.5
    assert share_told(["- 8 May Ana said: red, seven", "- Ana Li said: red, seven"], words, said) == 0.0
    nobody = [msgspec.structs.replace(said[0], speaker=None)]
    assert share_told(["- 8 May somebody said: red, seven"], words, nobody) == 1.0


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
