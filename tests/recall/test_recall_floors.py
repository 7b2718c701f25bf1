"""What recall finds in our own corpus, in words that nothing was learnt on, is frozen: a change is seen, and meant.

`EDGEMEM_FREEZE=1 pytest tests/recall/test_recall_floors.py` writes what this tree finds into `data/recall_floors.json`; whoever does
so says in the commit why it moved.
"""

import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest

from edgemem.config import Profile
from edgemem.llama.embedder import LlamaEmbedder
from edgemem.llama.models.catalog import find_model
from edgemem.recall.search.models import Candidates, Model, shipped_models, weigh
from edgemem.records import Kind, Reader
from lab.facts_told import ASKED_FOR, PREFERENCE, FactsTold
from lab.recall_asking import Answered, Asking
from lab.recall_cases import LEFT_OUT, Asked, Case, Said, weeks_case
from lab.recall_home import IDLE_S, Filled, filled
from lab.weeks import weeks

FROZEN = Path(__file__).parents[1] / "data" / "recall_floors.json"
FREEZE = "EDGEMEM_FREEZE" in os.environ
SHARE = 0.02  # by how much a share may be lower or higher than the frozen one
SCORE = 0.01  # the same of a score: on another processor vectors are rounded otherwise
EACH = 10  # questions of each category whose scores are frozen
FIRST = 5  # things that are found of each of them
VALUES: frozenset[Kind] = frozenset(("fact", "preference"))


class Considered(NamedTuple):
    """What was considered for one question, and which of it answers."""

    candidates: Candidates
    right: np.ndarray[Any, np.dtype[np.bool_]]
    evidence: int


class Corpus(NamedTuple):
    """The weeks as a robot would remember them, and what it finds there."""

    name: str
    model: Model
    questions: list[Considered]
    of_facts: list[Candidates]  # what was considered for the questions for a value, messages and facts
    facts: float  # share of the questions for a value of which it is among the first five facts
    scores: dict[str, list[float]]  # by question, of the first that were found, of all kinds

    def shares(self) -> dict[str, float]:
        found: dict[str, list[float]] = {"recall@1": [], "recall@5": [], "recall@10": [], "score": []}
        for one in self.questions:
            scores = shares_of(self.model, one.candidates)
            right = one.right[np.argsort(-scores, kind="stable")]
            for k in (1, 5, 10):
                found[f"recall@{k}"].append(right[:k].sum() / one.evidence)
            found["score"].append(float(scores[one.right].max(initial=0.0)))
        return {name: round(float(np.mean(values)), 4) for name, values in found.items()}


def shares_of(model: Model, candidates: Candidates) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return what each candidate scores beside the best, whatever the chance is that any of them helps."""
    odds = weigh(candidates, model).odds
    return np.exp((odds - odds.max(initial=0.0)) / 2)


def ask(here: Filled, text: str, asker: str | None, kinds: frozenset[Kind] | None = None) -> list[Any]:
    return here.memory.recall(text, speaker=asker, k=FIRST, kinds=kinds)


def asked_of_weeks(name: str, folder: Path, embedder: LlamaEmbedder | None) -> Corpus:
    """Return what is found in seed 1, which no weight was learnt on."""
    made = weeks(1, "unseen")
    case = weeks_case(made, "weeks 1")
    told = FactsTold(made, seed=1, forms="unseen")
    models = shipped_models()
    questions, of_facts, hits, scores = [], [], [], {}
    left = dict.fromkeys([one.category for one in case.asked], EACH)
    with filled(case, folder, embedder=embedder, profile=Profile()) as here:
        now = here.clock.at
        for asked in case.asked:
            here.clock.at = asked.at
            if asked.category not in LEFT_OUT:
                ranking = here.memory.diagnostics.search.ranking_of(
                    asked.text, reader=None if asked.asker is None else Reader(asked.asker), kinds={"turn"}
                )
                right = np.array([here.ids.get(str(ref)) in asked.evidence for ref in ranking.refs], bool)
                questions.append(Considered(ranking.candidates, right, len(asked.evidence)))
        here.clock.at = now
        told.store(here.memory)
        here.memory.idle(IDLE_S)
        for one in told.asked():
            if one.category in (*ASKED_FOR, PREFERENCE):
                here.clock.at = max(now, float(one.question.at))
                text, asker = one.question.text, one.question.asker
                search = here.memory.diagnostics.search
                of_facts.append(search.ranking_of(text, reader=Reader(asker)).candidates)
                found = ask(here, text, asker, VALUES)
                hits.append(any((item.key, item.value) == one.right for item in found))
        for asked in case.asked:
            if left[asked.category]:
                left[asked.category] -= 1
                here.clock.at = max(now, asked.at)
                scores[asked.text] = [round(item.score, 3) for item in ask(here, asked.text, asked.asker)]
    model = models.words_only if embedder is None else models.with_meaning
    return Corpus(name, model, questions, of_facts, round(float(np.mean(hits)), 4), scores)


@pytest.fixture(scope="module")
def corpora(minilm: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Corpus]:
    folder = tmp_path_factory.mktemp("weeks")
    with LlamaEmbedder(minilm) as embedder:
        return [asked_of_weeks("with MiniLM", folder, embedder), asked_of_weeks("by words", folder, None)]


@pytest.fixture(scope="module")
def frozen() -> dict[str, Any]:
    return json.loads(FROZEN.read_text("utf-8")) if FROZEN.exists() else {}


def freeze(frozen: dict[str, Any]) -> None:
    text = json.dumps(frozen, indent=1, ensure_ascii=False)
    text = re.sub(r"\[\s+([^]]*?)\s+\]", lambda scores: f"[{' '.join(scores[1].split())}]", text)
    FROZEN.write_text(f"{text}\n", "utf-8")


def figures(corpus: Corpus) -> dict[str, float]:
    return {**corpus.shares(), "facts@5": corpus.facts}


def test_as_much_is_found_as_was_frozen(corpora: list[Corpus], frozen: dict[str, Any]) -> None:
    """Recall of messages and facts is neither lower nor higher than it was."""
    if FREEZE:
        frozen |= {one.name: {"shares": figures(one), "scores": one.scores} for one in corpora}
        freeze(frozen)
    for corpus in corpora:
        assert figures(corpus) == pytest.approx(frozen[corpus.name]["shares"], abs=SHARE), corpus.name


def test_a_weight_that_is_lost_is_noticed(corpora: list[Corpus]) -> None:
    """Without any single weight, a message or a fact that is asked for has another score."""
    for corpus in corpora:
        asked = [*(one.candidates for one in corpus.questions), *corpus.of_facts]
        before = [shares_of(corpus.model, candidates) for candidates in asked]
        answers = corpus.model.answers
        for name in answers.weights.keys() - {"topic"}:  # nothing was said before these questions
            lost = msgspec.structs.replace(answers, weights={**answers.weights, name: 0.0})
            model = msgspec.structs.replace(corpus.model, answers=lost)
            after = [shares_of(model, candidates) for candidates in asked]
            moved = max(float(np.abs(new - old).max()) for new, old in zip(after, before, strict=True))
            assert moved > SCORE, (corpus.name, name)


def test_scores_are_as_they_were_frozen(corpora: list[Corpus], frozen: dict[str, Any]) -> None:
    """Each of the first five things that a question finds has the score that it had."""
    for corpus in corpora:
        for text, scores in frozen[corpus.name]["scores"].items():
            assert corpus.scores[text] == pytest.approx(scores, abs=SCORE), (corpus.name, text)


FLOOR = 0.85
BEFORE = 600  # messages of the weeks
PEOPLE = ("Xiomara", "Oleg", "Jo")


class Told(msgspec.Struct, frozen=True):
    said: str
    asks: str
    answer: str


def told_at_length() -> Case:
    """Return what was told in several sentences a minute apart, behind days in which others spoke of alike, and what is asked a day later."""
    path = Path(__file__).parents[1] / "data" / "told_at_length.toml"
    told = msgspec.toml.decode(path.read_bytes(), type=dict[str, list[Told]])["told"]
    before = weeks_case(weeks(1, "learnt")).said[-BEFORE:]
    begin = before[-1].at + 600
    said, asked = [], []
    for n, one in enumerate(told):
        who = PEOPLE[n % len(PEOPLE)]
        said.append(Said(f"told {n}", f"told {n // 8}", begin + 60 * n, who, one.said))
        at = begin + 86_400 + n
        asked.append(
            Asked(f"asked {n}", one.asks, who, at, "told", (said[-1].id,), ("told",), answer=one.answer)
        )
    return Case("told at length", (*before, *said), tuple(asked))


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> list[Answered]:
    path = find_model("all-minilm-l6-v2")
    assert path is not None
    case, profile = told_at_length(), Profile()
    embedder = LlamaEmbedder(path, n_ctx=profile.llama.embed_context, threads=profile.llama.embed_threads)
    try:
        with filled(case, tmp_path_factory.mktemp("told"), embedder=embedder, profile=profile) as here:
            return list(Asking(here, case, form="weeks", least=0.0, count=len).all())
    finally:
        embedder.close()


def test_the_whole_answer_stands_in_the_block(answered: list[Answered]) -> None:
    """Of the messages that are among the first five, so many tell their whole answer."""
    told = "block_answer_found"
    found = {one.asked.text: one.scores[told] for one in answered if told in one.scores}
    assert len(found) > 70
    missed = [asks for asks, whole in found.items() if not whole]
    assert sum(found.values()) >= FLOOR * len(found), missed


def test_a_password_stands_behind_the_sentence_that_the_question_repeats(answered: list[Answered]) -> None:
    """The guest wifi has changed because somebody was leeching; what it is now, in words, follows and is told."""
    assert answered[0].scores["block_answer_found"] == 1.0
    assert next(one for one in answered if "Gäste-WLAN" in one.asked.text).scores["block_answer_found"] == 1.0
