"""The bench of what a person would say of recall: its sets, its measure, and figures that follow the real prompt."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from lab import judged
from lab.judged import household, run
from lab.languages import LANGUAGES

LEAST = {"en": (150, 45), "de": (60, 25)}
"""Questions of each kind, and replaced values."""


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
        whole,
        told=whole.told[:12],
        answerable=tuple(one for one in whole.answerable if one.evidence in evidence),
        unanswerable=whole.unanswerable[:4],
        small_talk=whole.small_talk[:4],
        replaced=whole.replaced[:3],
    )
    monkeypatch.setattr(judged, "household", lambda _: cut)
    for name, number in (("OLD_TURNS", 60), ("GROUPS", 1), ("A_GROUP", 2)):
        monkeypatch.setattr(judged, name, number)


@pytest.mark.usefixtures("few")
def test_figures_tell_what_was_in_the_prompt(tmp_path: Path) -> None:
    """Each figure is a share, each failure is shown with its block, and what was just told is found before it is indexed."""
    figures = run(language="en", embedder=False, home=tmp_path, show=30)
    shares = {name: each["English"] for name, each in figures["side_by_side"].items()}
    assert set(shares) == {
        "small talk with memory", "answerable, denied", "unanswerable, left alone",
        "answer in the block", "answer in the block, said", "answer in the block, of a fact",
        "answer in the block, of safety", "newest above old", "old alone", "past: old above newest",
        "past: newest alone", "told apart from what is alike",
    }  # fmt: skip
    assert all(0 <= share <= 1 for share in shares.values())
    assert shares["answer in the block"] > 0
    assert shares["answerable, denied"] < 1
    failures = figures["failures"]["en"]
    assert all(shown == "" for shown in failures["answerable, denied"].values())
    for name in ("small talk with memory", "unanswerable, left alone"):
        assert all("<memory>" in shown for shown in failures[name].values())
    told = figures["found_at_once"]
    assert set(told) == {
        f"{home}{how}" for home in ("young", "old") for how in ("", ", worker", ", upgraded")
    }
    assert all(counts["before"] == counts["after"] > 0 for counts in told.values())
