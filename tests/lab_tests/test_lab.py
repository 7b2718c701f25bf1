"""The lab: benches of recall and of what a person would say of it, peers, learning and experiments, all at a tiny size."""

import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edgemem.errors import InvalidInputError
from lab import compare, edgevox, import_, judged, older, peers, recall
from lab.answers import is_right
from lab.bootstrap import interval
from lab.judged import household, run
from lab.languages import LANGUAGES
from lab.peers import Peer
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
    assert (scores["session_recall@5"], scores["mrr"]) == (0.5, 0.5)


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
    assert (everything["recall@1"], everything["recall@5"], everything["mrr"]) == (0.75, 1.0, 1.0)
    assert 0 < everything["block_tokens"] <= 80
    assert set(figures["bars"]) == {"recall@5", "recall@10"}
    assert [everything[f"block_answer{each}"] for each in ("", "_words", "_found")] == [1.0, 1.0, 1.0]
    # who has both is a speaker's name, and no word of theirs
    assert figures["intervals"]["block_answer"]["n"] == 1
    assert "small_talk" not in figures
    assert "nothing_found" not in figures, "who asked of another person was told of something"
    again = recall.run(data=data, embedder=False, against=saved, home=tmp_path)["against"]
    assert again["recall@5"]["difference"] == 0.0
    kept = json.loads(saved.read_text())
    for scores in kept.values():
        scores["recall@5"] = 0.0
    written(saved, kept)
    gain = recall.run(data=data, embedder=False, against=saved, home=tmp_path)["against"]["recall@5"]
    assert (gain["difference"], gain["better"], gain["worse"]) == (1.0, 2, 0)


def test_an_older_tree_is_asked_the_same(tmp_path: Path) -> None:
    """Beside itself, this tree finds the same again."""
    data = written(tmp_path / "talk.json", [LOCOMO])
    figures = older.run(data=str(data), rounds=2, home=tmp_path)
    assert figures["side_by_side"]["recall@5"] == {"older": 1.0, "here": 1.0}
    assert figures["side_by_side"]["cpu_ms"]["here"] > 0
    assert figures["here_above"]["recall@1"]["difference"] == 0


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


def test_peers_are_compared_question_by_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that finds only the first row is below ours by what it misses, and its slowness is held against the bar."""
    stub = tmp_path / "stub.py"
    stub.write_text(
        "import json, sys\n"
        "job = json.load(open(sys.argv[2] + '/job.json'))\n"
        "assert all(': ' in text for text in job['texts']), 'names were asked for'\n"
        "n = len(job['questions'])\n"
        "print(json.dumps({'ranked': [[0]] * n, 'ms': [1e6] * n}))\n"
    )
    peer = Peer("engrava", ())
    monkeypatch.setattr(peers, "SCRIPT", stub)
    monkeypatch.setattr(peers, "PEERS", {"engrava": peer})
    monkeypatch.setattr(peers, "python_of", lambda _peer, _folder: Path(sys.executable))
    monkeypatch.setattr(peers, "version_of", lambda _peer, _python: "0")
    data = written(tmp_path / "talk.json", [CORPORA["compared"]])
    figures = compare.run(data=data, rows=0, peers="engrava", home=tmp_path)
    assert figures["side_by_side"]["recall@5"] == {"edgemem": 1.0, "engrava": 0.5}
    above = figures["ours_above"]["engrava"]["recall@10"]
    assert (above["difference"], above["better"], above["worse"], above["n"]) == (0.5, 1, 0, 2)
    monkeypatch.setattr(peers, "SCRIPT", stub)
    stub.write_text(stub.read_text().replace("assert all", "assert not all"))
    slow = compare.run(rows=40, asked=2, quality=False, peers="engrava", home=tmp_path)
    assert slow["bars"]["engrava_times_ours"]["ok"]


def test_interval_is_as_wide_as_theory_says() -> None:
    """Of 400 questions half of them answered: .5 with 1.96 times .025 to either side."""
    found = interval([0.0, 1.0] * 200)
    assert (found.mean, found.low) == (0.5, pytest.approx(0.451, abs=0.006))
    assert found.high == pytest.approx(0.549, abs=0.006)
    assert interval([]).n == 0


LEAST = {"en": (150, 45), "de": (60, 25)}  # questions of each kind, and replaced values


@pytest.mark.parametrize("language", LANGUAGES)
def test_sets_are_whole(language: str) -> None:
    """Every answer stands in its evidence, every value in its message and in no question, and nobody unknown asks."""
    spoken = household(language)
    asked, replaced = LEAST.get(language, (40, 0))
    assert min(map(len, (spoken.answerable, spoken.unanswerable, spoken.small_talk))) >= asked
    assert len(spoken.replaced) >= replaced
    texts = {key: text for key, _, _, text in spoken.told}
    texts |= {key: " ".join(parts) for key, *parts, _ in spoken.facts}
    people = {who for _, who, _, _ in spoken.told}
    assert len(people) == 3
    assert len(texts) == len(spoken.told) + len(spoken.facts)
    for one in spoken.answerable:
        assert any(one.answer.lower() in texts[key].lower() for key in one.evidence.split()), one
        assert one.answer == "" or one.answer.lower() not in one.text.lower(), one
    for pair in spoken.replaced:
        assert pair.old_days > pair.new_days
        assert pair.old.lower() in pair.old_text.lower()
        assert pair.new.lower() in pair.new_text.lower()
        assert not any(value in f"{pair.question} {pair.past}" for value in (pair.old, pair.new)), pair
    askers = {one.asker for one in (*spoken.answerable, *spoken.replaced)}
    assert askers | {who for who, _ in (*spoken.unanswerable, *spoken.small_talk)} <= people


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few sentences of the English set be all, and the old home be small."""
    whole = household("en")
    evidence = ("hamstername", "bridge", "f_sesame", "f_warfarin")
    cut = msgspec.structs.replace(
        whole, told=whole.told[:12], answerable=tuple(one for one in whole.answerable if one.evidence in evidence),
        unanswerable=whole.unanswerable[:4], small_talk=whole.small_talk[:4], replaced=whole.replaced[:3],
    )  # fmt: skip
    monkeypatch.setattr(judged, "household", lambda _: cut)
    for name, number in (("OLD_TURNS", 60), ("GROUPS", 1), ("A_GROUP", 2)):
        monkeypatch.setattr(judged, name, number)


@pytest.mark.usefixtures("few")
def test_figures_tell_what_was_in_the_prompt(tmp_path: Path) -> None:
    """Each figure is a share, each failure is shown with its block, and what was just told is found before it is indexed."""
    saved = tmp_path / "saved.json"
    figures = run(language="en", embedder=False, home=tmp_path, show=30, save=saved)
    shares = {name: each["English"] for name, each in figures["side_by_side"].items()}
    assert set(shares) == {
        "small talk with memory", "answerable, denied", "unanswerable, left alone",
        "answer in the block", "answer in the block, said", "answer in the block, of a fact",
        "answer in the block, of safety", "said, found first", "newest above old", "old alone", "past: old above newest",
        "past: newest alone", "told apart from what is alike",
    }  # fmt: skip
    assert all(0 <= share <= 1 for share in shares.values())
    assert shares["answer in the block"] > 0
    assert shares["answerable, denied"] < 1
    failures = figures["failures"]["en"]
    for name in ("small talk with memory", "answerable, denied", "unanswerable, left alone"):
        assert all("<memory>\n- now: " in shown for shown in failures[name].values())
    alone = re.compile(r"<memory>\n- now: .*(\n- owen\.allergy: .*)?\n</memory>")
    assert all(alone.fullmatch(shown) for shown in failures["answerable, denied"].values())
    told = figures["found_at_once"]
    assert set(told) == {f"{of}{how}" for of in ("young", "old") for how in ("", ", worker", ", upgraded")}
    assert all(counts["before"] == counts["after"] > 0 for counts in told.values())
    again = run(language="en", embedder=False, home=tmp_path, at_once=False, against=saved)["against"]
    assert again["English: said, found first"]["n"] == 2
    assert {each["difference"] for each in again.values()} == {0.0}


@pytest.mark.parametrize(
    ("reply", "answer", "right"),
    [
        ("The code is 4711.", "4711", True),
        ("The code is 4712.", "4711", False),
        ("It's behind the boilers, next to the broom!", "next to the broom behind the boiler", True),
        ("It is behind something.", "next to the broom behind the boiler", False), ("", "blue", False),
        ("blue", "dark blue paint", False), ("blue paint", "dark blue paint", True),
    ],
)  # fmt: skip
def test_a_reply_is_right_if_it_holds_most_of_the_answer(reply: str, answer: str, right: bool) -> None:
    """In whatever form and order its words stand."""
    assert is_right(reply, answer) == right


SIZES = {"facts": 60, "episodes": 30, "sessions": 12}


def test_a_home_is_taken_over_exactly_and_twice_is_once(tmp_path: Path) -> None:
    """Every row of both forms is compared, none differs, and the second import changes nothing."""
    figures = import_.run(**SIZES, times=1, home=tmp_path)
    assert figures["bench"] == "import"
    for form in ("json", "sqlite"):
        assert (figures[form]["rows_different"], figures[form]["changed_by_the_second"]) == ([], [])
        compared = figures[form]["rows_compared"]
        assert compared["fact"] == figures["edgevox"]["fact_rows"] > SIZES["facts"]
        assert (compared["episode"], compared["session"]) == (30, 12)
        assert set(figures["bars"]) > {f"{form}_first_s", f"{form}_second_s"}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("edgevox")
def test_the_real_edgevox_reads_more(tmp_path: Path, edgevox_path: Path) -> None:
    """EdgeVox with its memory has its model read more than without, and more than ours."""
    with pytest.raises(InvalidInputError, match="no EdgeVox in"):
        edgevox.run(edgevox=tmp_path)
    figures = edgevox.run(turns=4, edgevox=edgevox_path, home=tmp_path)
    assert figures["times_without_memory"] > 2
    assert figures["read"]["edgevox"] > figures["read"]["with_memory"]
