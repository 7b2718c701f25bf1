"""The bench of languages: its households, and what it reports."""

from __future__ import annotations

import pytest

from edgemem.bench.ground import EMBEDDER
from edgemem.errors import InvalidInputError
from edgemem.llama.models.catalog import find_model
from edgemem.recall.text.analyse import language_in
from lab.languages import LANGUAGES, household, run


@pytest.mark.parametrize("language", LANGUAGES)
def test_households_say_the_same(language: str) -> None:
    """Each language has 120 statements and 40 questions with the same ids, and the answer to each question was said."""
    spoken, english = household(language), household("en")
    assert len(spoken.said) == 120
    assert len(spoken.asked) == len(spoken.asked_freely) == 20
    assert [name for name, _, _ in spoken.said] == [name for name, _, _ in english.said]
    assert {who for _, who, _ in spoken.said} == {"Anna", "Ben", "Lena", "Ruth"}
    for mine, theirs in ((spoken.asked, english.asked), (spoken.asked_freely, english.asked_freely)):
        assert [name for name, _ in mine] == [name for name, _ in theirs]
    ids = {name for name, _, _ in spoken.said}
    asked = [name for name, _ in spoken.asked + spoken.asked_freely]
    assert len(ids) == 120
    assert len(set(asked)) == 40
    assert ids.issuperset(asked)


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_changed_came_first(language: str) -> None:
    """What was superseded is said before what superseded it, in whatever order the rest is said."""
    for seed in range(3):
        names = [name for name, _, _ in household(language, seed=seed).said]
        for number in ("k02", "k05", "k16"):
            assert names.index(f"{number}a") < names.index(f"{number}b")


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_language_of_a_household_is_told(language: str) -> None:
    """Of its sentences, at most one in twenty is too short to tell in which language it is."""
    spoken = household(language)
    texts = [text for _, _, text in spoken.said] + [text for _, text in spoken.asked + spoken.asked_freely]
    told = [language_in(text) for text in texts]
    assert told.count(language) >= 0.95 * len(texts)
    assert set(told) <= {language, "en"}


def test_words_alone_are_reported() -> None:
    """Without a model there are figures of words for each language, held against a bar."""
    figures = run(languages="en", models="")
    assert figures["statements"] == 120
    assert figures["questions"] == 40
    columns = figures["side_by_side"]
    assert columns["words @5 said"]["English"] >= 0.95
    assert columns["words @10"]["English"] >= columns["words @5"]["English"]
    assert figures["bars"]["words en"]["ok"]


def test_a_model_that_is_not_here_is_refused() -> None:
    """Nobody gets figures of a model that did not run."""
    missing = next(
        name for name in ("embeddinggemma-300m", "multilingual-e5-small") if find_model(name) is None
    )
    with pytest.raises(InvalidInputError, match=missing):
        run(languages="en", models=missing)
    with pytest.raises(InvalidInputError, match="xx"):
        household("xx")


@pytest.mark.skipif(find_model(EMBEDDER) is None, reason="the embedder is not here")
def test_meaning_is_reported_beside_words() -> None:
    """With the embedder English questions in other words are found that words alone do not find."""
    columns = run(languages="en", models=EMBEDDER)["side_by_side"]
    assert columns[f"{EMBEDDER} @5 free"]["English"] > columns["words @5 free"]["English"]
