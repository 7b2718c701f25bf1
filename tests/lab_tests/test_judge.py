"""The sets of the judge: their homes can be read, and those that learn share nothing with those that judge."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgemem.errors import InvalidInputError
from lab.judge import judge, outcomes, run
from lab.judge_homes import Asked, Home, Told, paths, read, read_session, shared, words


def test_sets_that_learn_share_nothing_with_sets_that_judge() -> None:
    """No name, answer or row of three uncommon words stands in both."""
    assert shared(map(read, paths("train")), map(read, paths("test"))) == []


@pytest.mark.parametrize("path", [*paths("train"), *paths("test")], ids=lambda path: path.stem)
def test_what_is_asked_has_its_evidence(path: Path) -> None:
    """Each row names what was told, by people of the home, before it is asked."""
    home = read(path)
    told = {each.id: home.time(each.at) for each in home.told}
    assert all(each.speaker in ("", *home.people) for each in (*home.told, *home.asked))
    assert all(at < home.time(home.asked_at) for at in told.values())
    for asked in home.asked:
        assert set(asked.evidence) <= set(told)
        assert bool(asked.answer) is (asked.row not in ("none", "talk", "not_helped", "safe"))


@pytest.mark.parametrize("path", [*paths("week"), *paths("window")], ids=lambda path: path.stem)
def test_what_a_session_must_show_was_said_before(path: Path) -> None:
    """Times ascend, and all words of each alternative stand in one earlier text."""
    session = read_session(path)
    said = [*session.told, *session.turn]
    assert [each.at for each in said] == sorted({each.at for each in said})
    assert all(each.speaker in ("", *session.people) for each in said)
    texts = [set(words(each.text)) for each in said]
    for place, turn in enumerate(session.turn, len(session.told)):
        for answer in turn.answer:
            assert any(set(words(answer)) <= text for text in texts[:place]), answer


def test_a_home_is_judged_by_what_stands_before_the_model() -> None:
    """An answer, silence and a follow-up are told apart; nobody is shown misses of the sets that judge."""
    told = (
        Told("key", "2027-01-10T09:00:00", "mira", "The spare key hangs behind the blue barrel."),
        Told("horn", "2027-01-11T09:00:00", "joss", "I sold the old accordion for ninety euros."),
    )
    asked = (
        Asked("a", "direct", "joss", "Where is the spare key?", answer=("blue barrel",), evidence=("key",)),
        Asked("b", "talk", "joss", "Lovely evening, isn't it?"),
    )
    home = Home("en", ("mira", "joss"), "Europe/Berlin", "2027-02-01T18:00:00", told, asked)
    first, second = (outcomes(shown, home) for shown in judge(home, embedder=False))
    assert first["direct: answer"] == first["direct: evidence among 1"] == 1
    assert first["all: lines"] == first["all: useful of the lines"] == 1
    assert second == {"talk: silent": 1, "all: lines": 0}
    with pytest.raises(InvalidInputError, match="learns"):
        run(kind="test", show=1)


def test_whose_safety_an_answer_concerns_is_told_apart() -> None:
    """Only what the asker told of themselves can be missing as their own; the home lives in its own zone."""
    told = (
        Told("own", "2027-01-10T09:00:00", "mira", "I am allergic to kiwi."),
        Told("other", "2027-01-11T09:00:00", "joss", "Sesame makes my throat swell up."),
    )
    asked = (
        Asked("a", "safety", "mira", "What shall we eat?", answer=("kiwi",), evidence=("own",)),
        Asked("b", "safety", "mira", "Try this", audience=("joss",), answer=("sesame",), evidence=("other",)),
    )
    home = Home("en", ("mira", "joss"), "Pacific/Auckland", "2027-02-01T18:00:00", told, asked)
    shown = list(judge(home, embedder=False))
    assert "now: Monday 1 February 2027, 18:00" in shown[0].block
    first, second = (outcomes(each, home) for each in shown)
    assert first["safety: own missing"] == 0
    assert "safety: own missing" not in second
