"""Scoring: candidates come best first, by kinds, and can say why."""

from __future__ import annotations

import pytest

from edgemem.recall.index.sources import FACT, NOTE, SUMMARY, TURN
from edgemem.recall.index.state import FIRST_OTHER
from edgemem.recall.query import ParsedQuery
from edgemem.recall.rank.gate import NOTHING, Utterance, shipped_gate
from edgemem.recall.rank.model import shipped_models
from edgemem.recall.rank.ranking import Ranking
from edgemem.recall.search.table import DocTable, Row
from edgemem.recall.search.view import Filter, View

NOW, DAY = 1e9, 86400.0
ASKED = ParsedQuery(terms=("cup",), meaning="the cup", people=frozenset())
SAID = Utterance(frozenset({"where", "is", "the", "cup"}), "en", None, "")


def same_words(docs):
    """Return the same stems and words for all docs."""
    return dict.fromkeys(docs, (frozenset({"cup", "shelf", "kitchen"}),) * 2)


def ranked(*candidates, meaning=1.0):
    """Return the ranking of candidates: their kind, ref, time, words and cosine."""
    columns = DocTable()
    for n, (kind, ref, at, _, _) in enumerate(candidates):
        turn = kind == TURN
        columns.append(
            Row(n + 1 if turn else FIRST_OTHER + n, kind, ref, 0, None, "ann", 1 if turn else None, n if turn else None, at, 0, None, None, 0, None, None, 3)
        )  # fmt: skip
    view = View(columns, Filter(None))
    view.words[:-1] = [member[3] for member in candidates]
    view.cosines[:-1] = [member[4] or 0 for member in candidates]
    view.near[:-1] = [member[4] is not None for member in candidates]
    view.chosen[:-1] = True
    return ranking_of(view, meaning), view


def ranking_of(view, meaning=1.0):
    """Return the ranking of a view."""
    return Ranking(
        view, ASKED, models=shipped_models(), gate=shipped_gate(), utterance=SAID, meaning=meaning, now=NOW, words_of=same_words
    )  # fmt: skip


def refs(ranking, *kinds, least=0.0):
    """Return the refs of the best of some kinds."""
    return [hit.ref for hit in ranking.best(kinds, least=least)]


def test_kinds_compete_among_themselves():
    """The best of each kinds asked for come first; those of other kinds are left out."""
    ranking, _ = ranked((FACT, 1, 0, 0.1, 0.1), (TURN, 2, 0, 0.1, 0.1), (FACT, 3, 0, 0.9, 0.9), (NOTE, 4, 0, 0.5, 0.5), (TURN, 5, 0, 0.9, 0.9))  # fmt: skip
    assert refs(ranking, FACT) == [3, 1]
    assert refs(ranking, FACT, NOTE) == [3, 4, 1]
    assert refs(ranking, TURN) == [5, 2]
    assert refs(ranking) == []
    assert len(ranking) == 5
    assert ranking.turns == len(ranking.messages.features) == 2
    assert ranking.texts == 3


def test_the_best_of_all_scores_the_chance_and_the_others_a_share_of_it():
    """A summary, which says what turns say too, scores half of what a note does; a fact that is likely meant speaks for itself."""
    ranking, _ = ranked((FACT, 1, 0, 0.1, 0.1), (TURN, 2, 0, 0.9, 0.9), (NOTE, 3, 0, 0.5, 0.5), (SUMMARY, 4, 0, 0.5, 0.5))  # fmt: skip
    chance = shipped_gate().chance(SAID, ranking.fit, meaning=1.0)
    scores = {hit.ref: hit.score for hit in ranking.best([FACT, TURN, NOTE, SUMMARY])}
    assert max(scores.values()) == scores[2] == pytest.approx(chance)
    assert min(scores.values()) > 0
    assert scores[4] == pytest.approx(scores[3] / 2)
    ranking, _ = ranked((FACT, 1, 0, 0.9, 0.9))
    (sure,) = ranking.best([FACT])
    assert sure.score >= ranking.likely(sure) ** 2 - 1e-6
    assert sure.score >= shipped_gate().chance(SAID, ranking.fit, meaning=1.0) - 1e-6


def test_what_the_gate_looks_at_is_the_best_that_is_left():
    """Where nothing is found, the odds are the lowest; what is left out has no say any more."""
    nothing = ranked()[0].fit
    assert (nothing.nearest, nothing.best) == (0.0, NOTHING)
    ranking, _ = ranked((TURN, 1, 0, 0.9, 0.9), (TURN, 2, 0, 0.1, 0.1))
    before = ranking.fit
    assert before.nearest == pytest.approx(0.9)
    ranking.leave_out([0])
    assert ranking.fit.nearest == pytest.approx(0.1)
    assert refs(ranking, TURN) == [2, 1]


def test_only_what_reaches_a_score_is_yielded():
    """The least score is within; a fact may reach it by what it is likely by itself."""
    ranking, _ = ranked((TURN, 1, 0, 0.9, 0.9), (TURN, 2, 0, 0.1, 0.1), (FACT, 3, 0, 0.1, 0.1))
    (best, _) = ranking.best([TURN])
    assert best.name == "turn:1"
    assert ranking.likely(best) == 0
    assert refs(ranking, TURN, least=best.score) == [1]
    assert refs(ranking, TURN, least=best.score + 1e-9) == []
    (fact,) = ranking.best([FACT])
    most = max(fact.score, ranking.likely(fact))
    assert refs(ranking, FACT, least=most) == [3]
    assert refs(ranking, FACT, least=most + 1e-9) == []


def test_of_equals_the_newest_comes_first():
    """Among candidates with the same score, what is newer, then what has the higher number."""
    ranking, _ = ranked((FACT, 1, NOW, 0.5, 0.5), (FACT, 3, NOW + 9, 0.5, 0.5), (FACT, 2, NOW, 0.5, 0.5))
    assert refs(ranking, FACT) == [3, 2, 1]


def test_reasons_are_those_of_the_score():
    """What was left out, or waits for its vector, makes no message recent whose score was not told of it."""
    ranking, _ = ranked((TURN, 1, 0, 0.9, 0.9), (TURN, 2, 20 * DAY, 0.5, 0.5))
    (first, _) = ranking.best([TURN])
    assert (first.ref, "recent" in ranking.why(first)) == (2, True)
    ranking.leave_out((), [0])
    (alone,) = ranking.best([TURN])
    assert (alone.ref, "recent" in ranking.why(alone)) == (2, False)
    ranking, _ = ranked((TURN, 1, 0, 0.9, None), (TURN, 2, 20 * DAY, 0.5, 0.5))
    near = next(hit for hit in ranking.best([TURN]) if hit.ref == 2)
    assert "recent" not in ranking.why(near)


def test_a_ranking_outlives_the_columns():
    """What is taken out of memory while hits are read changes none of them."""
    ranking, view = ranked((TURN, 1, 0, 0.5, 0.5), (FACT, 2, 0, 0.5, 0.5))
    before = [(hit, ranking.why(hit)) for hit in ranking.best([TURN, FACT])]
    view.columns.drop(1)
    view.columns.drop(FIRST_OTHER + 1)
    assert [(hit, ranking.why(hit)) for hit in ranking.best([TURN, FACT])] == before
