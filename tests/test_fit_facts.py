"""Weights of facts: what is asked of a household, and a model that tells answers from what only looks like one."""

from __future__ import annotations

import numpy as np
import pytest

from edgemem.recall.fact_scores import CLUES
from edgemem.recall.gate import SLOWLY
from edgemem.recall.text.analyse import terms
from lab.facts_told import FactsTold
from lab.fit_facts import COST, COST_BY_WORDS, LEVEL, FactsAsked, fact_section, learnt_facts
from lab.weeks import weeks

NAMES = list(CLUES)


def questions(n, *, seed=1):
    """Return the clues of questions of which every second is answered: by the fact that is near and has the words."""
    random = np.random.default_rng(seed)
    out = []
    for at in range(n):
        found = np.zeros((12, len(NAMES)), np.float32)
        found[:, NAMES.index("meaning")] = random.uniform(0.0, 0.4, 12)
        found[:, NAMES.index("words")] = random.uniform(0.0, 0.3, 12)
        right = np.zeros(12, bool)
        if at % 2:
            right[3] = True
            found[3, NAMES.index("meaning")] += random.uniform(0.1, 0.4)
            found[3, NAMES.index("words")] += random.uniform(0.2, 0.5)
        out.append(FactsAsked(found, right, bool(at % 2)))
    return out


def best(model, asked):
    """Return how likely the best fact of each question is, times the share of the right one where there is one."""
    found = []
    for one in asked:
        odds = model.odds(one.clues)
        right = odds[one.right if one.answered else slice(None)].max()
        found.append(np.exp((right - odds.max()) / SLOWLY) / (1 + np.exp(-odds.max())))
    return np.array(found)


def test_right_facts_reach_the_level_of_scores():
    """All but a few that answer reach the level, also with words alone, and less of what answers nothing does."""
    asked = questions(400)
    models = learnt_facts(asked)
    answered = np.array([one.answered for one in asked])
    by_words = [one._replace(clues=one.clues * np.array([n != "meaning" for n in NAMES])) for one in asked]
    for model, some, cost in (
        (models.with_meaning, asked, COST),
        (models.words_only, by_words, COST_BY_WORDS),
    ):
        scores = best(model, some)
        assert (scores[answered] < LEVEL - 1e-6).mean() <= cost + 0.01, (
            "so few, and those that are not among the first"
        )
        assert scores[answered].mean() > 1.2 * scores[~answered].mean()
    assert "meaning" not in models.words_only.weights
    assert models.with_meaning.weights["meaning"] > 0


def test_what_was_not_found_teaches_nothing():
    """A question whose answer was not looked at is none that nothing answers."""
    asked = questions(200)
    missed = [one._replace(right=np.zeros(12, bool), answered=True) for one in questions(50, seed=2)]
    assert learnt_facts([*asked, *missed]) == learnt_facts(asked)


def test_the_section_of_the_file_names_every_weight():
    """It is the TOML that the models are read from."""
    import msgspec

    models = learnt_facts(questions(100))
    read = msgspec.toml.decode(fact_section(models))["facts"]
    for name in ("with_meaning", "words_only"):
        model = getattr(models, name)
        assert read[name]["bias"] == pytest.approx(model.bias, abs=1e-4)
        assert read[name]["weights"] == pytest.approx(model.weights, abs=1e-4)


def test_a_household_that_stores_little_answers_little():
    """Of what is not stored a question asks in vain, and no question is both."""
    made = weeks(1, "learnt")
    whole = FactsTold(made, seed=1, forms="learnt")
    little = FactsTold(made, seed=1, forms="learnt", most=20)
    assert len(little.keys) == 20
    assert little.keys < whole.keys
    answered = {one.question.id for one in little.asked()}
    in_vain = {one.id for one in little.off_topic()}
    assert answered
    assert not answered & in_vain
    assert answered | in_vain == {one.question.id for one in whole.asked()} | {
        one.id for one in whole.off_topic()
    }


def test_what_is_foreign_speaks_of_nothing_that_is_told():
    """No word of it is part of the name of a thing or a person of which something is stored."""
    told = FactsTold(weeks(1, "unseen"), seed=1, forms="unseen")
    names = {stem for key in told.keys for stem in terms(key.partition(".")[0].replace("_", " "))}
    assert len(told.foreign()) > 20
    assert all(names.isdisjoint(terms(text)) for text in told.foreign())
