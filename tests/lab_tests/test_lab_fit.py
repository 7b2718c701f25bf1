"""Learning: weights that made the data are found again, signs and bounds hold, odds say how often messages are right.

Lessons from invented households teach what replaces an older message, and what wants something of a memory; a bootstrap
says how sure a mean is.
"""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemem.recall.rank.features import FACT_FEATURES, FEATURES
from edgemem.recall.rank.gate import SLOWLY, Fit, Gate, Utterance
from edgemem.recall.rank.model import LinearModel
from edgemem.recall.rank.replacing import Contents, Messages
from edgemem.recall.text.analyse import plain_words
from lab import gate
from lab.bootstrap import interval, paired
from lab.fit import LENGTHS, Asked, learnt_replacing
from lab.fit_facts import COST, COST_BY_WORDS, LEVEL, FactsAsked, learnt_facts
from lab.gate import Sample
from lab.learning import AGAINST, calibrated, learnt

NAMES = list(FEATURES)
TRUE = {"words": 6.0, "meaning": 4.0, "window": 2.0, "asks": -3.0, "when": 2.0}


def asked(n, weights, *, seed=1, candidates=12, noise=1.0):
    """Return features of the candidates of n questions, and which one of each answers: one of the highest sums."""
    random = np.random.default_rng(seed)
    vector = np.array([weights.get(name, 0.0) for name in NAMES])
    features = [random.random((candidates, len(NAMES))).astype(np.float32) for _ in range(n)]
    # The best of sums with such noise is the one that softmax draws.
    right = [
        np.arange(candidates) == np.argmax(x @ vector + noise * random.gumbel(size=candidates))
        for x in features
    ]
    return features, right


def messages(features, *, tense=""):
    """Return the candidates of each question, each said later than the one before it."""
    return [Messages(x, np.arange(len(x), dtype=float), tense) for x in features]


def learnt_of(features, right, **options):
    """Return the weights that are learnt of questions which ask neither for what holds nor for what was."""
    return learnt(messages(features), right, **options)


def loss(weights, features, right, l2):
    """Return what `learnt` makes small: after its docstring, in plain Python."""
    some = [(x.astype(float), y / y.sum()) for x, y in zip(features, right, strict=True) if y.any()]
    spread = np.concatenate([x for x, _ in some]).std(axis=0) + 1e-6
    vector = np.array([weights.get(name, 0.0) for name in NAMES])
    total = 0.0
    for x, target in some:
        sums = x @ vector
        total -= float(target @ (sums - np.log(np.exp(sums - sums.max()).sum()) - sums.max()))
    return total / len(some) + l2 / 2 * float(((vector * spread) ** 2).sum())


def test_weights_are_found_again():
    """Those that made the answers come out in their order and with their signs, about as large as they are."""
    found = learnt_of(*asked(1500, TRUE), l2=1e-4)
    order = sorted(found, key=lambda name: -abs(found[name]))
    assert order[:2] == ["words", "meaning"]
    assert set(order[:5]) == set(TRUE)
    for name, weight in TRUE.items():
        assert found[name] == pytest.approx(weight, abs=0.7), name
    assert all(abs(weight) < 0.7 for name, weight in found.items() if name not in TRUE)


@settings(max_examples=15)
@given(
    st.dictionaries(st.sampled_from(NAMES), st.floats(-5, 5), max_size=8),
    st.integers(0, 99),
    st.sampled_from([1e-3, 0.05, 0.5]),
)
def test_no_better_weights_are_near(weights, seed, l2):
    """Whatever made the data, each feature keeps the sign that it may have, and no small step that keeps it does better."""
    features, right = asked(60, weights, seed=seed, candidates=8)
    found = learnt_of(features, right, l2=l2)
    best = loss(found, features, right, l2)
    for name in NAMES:
        weight = found.get(name, 0.0)
        sign = -1 if name in AGAINST else 1
        assert weight * sign >= 0, name
        for step in (-0.02, 0.02):
            if (weight + step) * sign >= 0:
                assert loss({**found, name: weight + step}, features, right, l2) >= best - 2e-5, name


def candidates_of(n, weights, *, noise=1.0):
    """Return the candidates of n questions as messages, and which of them answers."""
    features, right = asked(n, weights, noise=noise)
    return messages(features), right


def best_five(model, candidates, right):
    """Return how likely the five best candidates of each question are right by their odds, and which are."""
    shares, good = [], []
    for one, y in zip(candidates, right, strict=True):
        own = model.odds(one)
        best = np.argsort(-own, kind="stable")[:5]
        shares.append(1 / (1 + np.exp(-np.clip(own[best], -50, 50))))
        good.append(y[best])
    return np.concatenate(shares), np.concatenate(good)


def test_odds_are_the_share_of_right_ones():
    """Of candidates with about the same odds, about that share is right; also on other questions, some unanswerable."""
    candidates, right = candidates_of(800, TRUE, noise=2.0)
    for at in range(0, 800, 4):
        right[at] = np.zeros(len(right[at]), bool)
    model = calibrated(TRUE, candidates[:400], right[:400])
    assert model.scale > 0
    assert model.weights == TRUE
    shares, good = best_five(model, candidates[400:], right[400:])
    assert shares.mean() == pytest.approx(good.mean(), abs=0.03)
    for low, high in ((0.0, 0.05), (0.05, 0.2), (0.2, 0.5), (0.5, 1.0)):
        some = (shares >= low) & (shares < high)
        if some.sum() >= 60:
            assert shares[some].mean() == pytest.approx(good[some].mean(), abs=0.1), (low, high)
    assert shares.max() > 2 * shares.mean()


FACT_NAMES = list(FACT_FEATURES)


def questions(n, *, seed=1):
    """Return the features of questions of which every second is answered: by the fact that is near and has the words."""
    random = np.random.default_rng(seed)
    out = []
    for at in range(n):
        found = np.zeros((12, len(FACT_NAMES)), np.float32)
        found[:, FACT_NAMES.index("meaning")] = random.uniform(0.0, 0.4, 12)
        found[:, FACT_NAMES.index("words")] = random.uniform(0.0, 0.3, 12)
        right = np.zeros(12, bool)
        if at % 2:
            right[3] = True
            found[3, FACT_NAMES.index("meaning")] += random.uniform(0.1, 0.4)
            found[3, FACT_NAMES.index("words")] += random.uniform(0.2, 0.5)
        out.append(FactsAsked(found, right, bool(at % 2)))
    return out


def best(model, asked):
    """Return how likely the best fact of each question is, times the share of the right one where there is one."""
    found = []
    for one in asked:
        odds = model.odds(one.features)
        right = odds[one.right if one.answered else slice(None)].max()
        found.append(np.exp((right - odds.max()) / SLOWLY) / (1 + np.exp(-odds.max())))
    return np.array(found)


def test_right_facts_reach_the_level_of_scores():
    """All but a few that answer reach the level, also with words alone, and less of what answers nothing does."""
    asked = questions(400)
    models = learnt_facts(asked)
    answered = np.array([one.answered for one in asked])
    by_words = [
        one._replace(features=one.features * np.array([n != "meaning" for n in FACT_NAMES])) for one in asked
    ]
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


def asked_at_home(*, replaced):
    """Return a question that an old message answers, or a newer one in much the same words, beside one of another thing."""
    features = np.zeros((3, len(FEATURES)), np.float32)
    features[:, list(FEATURES).index("words")] = (0.9, 0.8, 0.7)
    newer = frozenset({"key", "hook" if replaced else "car"})
    stems = np.array([frozenset({"key", "hook"}), newer, frozenset({"key"})], object)
    said = Contents(np.array([1, 1, 2]), np.zeros(3, bool), stems, stems, frozenset({"key"}))
    messages = Messages(features, np.array([0.0, 9.0, 5.0]) * 86400, "now", said)
    right = np.array([not replaced, replaced, False])
    return Asked("en", messages, right, np.array([replaced, False, False]), 1)


def test_what_replaces_is_learnt():
    """What was told anew is lifted above the old, and what is about another thing is not."""
    told = [asked_at_home(replaced=n % 2 == 0) for n in range(40)]
    model = LinearModel.bare({"words": 1.0})
    found = learnt_replacing(model, told, told, without=LENGTHS)
    assert found.weights["alike"] > 0
    assert not found.weights.keys() & LENGTHS
    for one in told[:2]:
        own = model.own_odds(one.messages)
        lifted = found.lifted(own, one.messages) > own
        assert lifted.tolist() == [False, bool(one.right[1]), False]


ASKED = ("where is the cup", "when does the bus leave", "where did i put it", "who is she")
TALKED = ("good night", "play some music", "thanks a lot", "good morning")
MAKER = "mini:1:3"


def samples(*, embedded: bool) -> list[Sample]:
    """Return what is said in two English households and a German one: questions that are answered, and small talk."""
    dice = np.random.default_rng(1)
    rows = []
    for home, asked, talked in (
        ("en_one", ASKED, TALKED),
        ("en_two", ASKED[::-1], TALKED[::-1]),
        ("de_haus", ("wo ist die tasse", "wann kommt sie"), ("gute nacht", "danke")),
    ):
        if embedded and home == "de_haus":
            continue
        for kind, texts in (("answerable", asked), ("small talk", talked)):
            wants = kind == "answerable"
            for text in texts:
                vector = dice.normal(0, 0.1, 3).astype(np.float32) + np.float32([wants, not wants, 0])
                utterance = Utterance(
                    frozenset(plain_words(text)),
                    home[:2],
                    vector if embedded else None,
                    MAKER if embedded else "",
                )
                found = Fit(0.6 if wants else 0.3, -2.0 + wants, float(wants), 2)
                rows.append(Sample(home, kind, 1.0, utterance, found))
    return rows


def test_questions_are_parted_from_small_talk() -> None:
    """By words and with vectors, also of a household that was not learnt on; the file says what was learnt."""
    embedded, by_words = samples(embedded=True), samples(embedded=False)
    learnt_gate, of_others = gate.learnt(embedded, by_words)
    assert learnt_gate.vocabularies.keys() == {"en", "de"}
    assert learnt_gate.meant.embedder == "mini"
    assert of_others.keys() == {"en_one", "en_two", "de_haus"}
    for meaning, some in ((1.0, embedded), (0.0, by_words)):
        for one in some:
            for each in (learnt_gate, of_others[one.home]):
                assert (each.chance(one.utterance, one.found, meaning=meaning) > 0.5) is one.helps, one
    assert msgspec.toml.decode(gate.file_of(learnt_gate), type=Gate) == learnt_gate


def test_interval_is_as_wide_as_theory_says() -> None:
    """Of 400 questions half of them answered: .5 with 1.96 times .025 to either side."""
    found = interval([0.0, 1.0] * 200)
    assert found.mean == 0.5
    assert found.low == pytest.approx(0.451, abs=0.006)
    assert found.high == pytest.approx(0.549, abs=0.006)
    assert interval([]).n == 0


def test_better_run_is_told_from_chance() -> None:
    """Twenty questions better and one worse is no chance; ten and nine may well be."""
    before, after = [0.0] * 20 + [1.0] + [0.5] * 79, [1.0] * 20 + [0.0] + [0.5] * 79
    clear = paired(before, after)
    assert clear.difference == 0.19
    assert clear.low > 0
    assert clear.p < 0.001
    assert (clear.better, clear.worse, clear.n) == (20, 1, 100)
    unclear = paired([0.0] * 10 + [1.0] * 9, [1.0] * 10 + [0.0] * 9)
    assert unclear.low < 0 < unclear.high
    assert unclear.p > 0.5
    back = paired(after, before)
    assert back.difference == -clear.difference
