"""The weights of the features of facts, learnt on our own corpus: which of them tell that a fact answers a question.

Each household is asked twice: with all that it tells stored as facts, and with that of a few things only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.bench.ground import say
from edgemem.config import Profile
from edgemem.recall.index.sources import FACT, PREFERENCE
from edgemem.recall.search.features import FEATURES, are_values
from edgemem.recall.search.models import LinearModel
from edgemem.records import Reader
from lab.facts_told import AT_A_TIME, ON_A_DATE, FactsTold
from lab.learning import Asked, logistic
from lab.recall_asking import READER
from lab.recall_cases import weeks_case
from lab.recall_home import IDLE_S, filled
from lab.weeks import weeks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.llama.protocols import Embedder
    from edgemem.memory import Memory
    from lab.recall_home import Filled

THINGS = (None, 50)  # of how many things something is stored; None: all
LEVEL = 0.1
WEIGHS = 0.5
"""What the gate weighs the margin of a candidate from the best, about."""
COST, COST_BY_WORDS = 0.01, 0.03
"""All but so many of the facts that answer, and are among the first five, score `LEVEL`, with a vector and without one: at
the floor of the profile, .7 % of recall@5 are lost without one then. More with one leaves the evenings of `bench prefill` without
what they ask for. On `learnt` words .77 of the questions that nothing answers find a fact so, and .83 with .01; on `unseen` ones it moves nothing."""
_FIRST = 5
_PENALTY = 0.003
"""What the squares of weights cost, by the standard deviation of a feature, beside the mean loss."""


def asked_of_facts(seed: int, folder: Path, embedder: Embedder, cache: Path | None) -> Iterator[Asked]:
    """Yield what was considered for each question of a household, among its messages."""
    made = weeks(seed, "learnt")
    for most in THINGS:
        with filled(
            weeks_case(made, f"weeks {seed}"), folder, embedder=embedder, profile=Profile(), cache=cache
        ) as here:
            told = FactsTold(made, seed=seed, forms="learnt", most=most)
            say(f"weeks {seed}: asking for {len(told.keys)} facts …")
            told.store(here.memory)
            here.memory.idle(IDLE_S)
            yield from _asked(here, told)


def _asked(here: Filled, told: FactsTold) -> Iterator[Asked]:
    now, values = here.clock.at, _values(here.memory)

    def ask(text: str, asker: str, at: float, right: tuple[str, str] | None) -> Asked:
        import numpy as np

        here.clock.at = max(now, at)
        ranking = here.memory.diagnostics.search.ranking_of(text, reader=Reader(asker))
        facts = are_values(ranking.kinds)
        refs = zip(ranking.kinds[facts].tolist(), ranking.refs[facts].tolist(), strict=True)
        answers = [right is not None and values.get(ref) == right for ref in refs]
        return Asked("", ranking.candidates.subset(facts), np.array(answers, bool), int(right is not None))

    for one in told.asked():
        if one.category not in (AT_A_TIME, ON_A_DATE):  # there the time chooses among the versions
            yield ask(one.question.text, one.question.asker, float(one.question.at), one.right)
    for question in told.off_topic():
        yield ask(question.text, question.asker, float(question.at), None)
    for text in told.foreign():
        yield ask(text, READER, now, None)


def _values(memory: Memory) -> dict[tuple[int, int], tuple[str, str]]:
    facts = memory.diagnostics.database.query(
        "select f.id, k.key, f.value from facts f join fact_keys k on k.id = f.key_id where f.id = f.origin"
    )
    preferences = memory.diagnostics.database.query("select id, key, value from preferences")
    return {
        (kind, number): (key, value)
        for kind, rows in ((FACT, facts), (PREFERENCE, preferences))
        for number, key, value in rows
    }


def with_facts(model: LinearModel, asked: Sequence[Asked], cost: float) -> LinearModel:
    """Return a model of texts with the weights of the features of facts, a logistic regression with balanced classes."""
    import numpy as np

    # One that answers and was not even looked at does not make a question one that nothing answers.
    some = [one for one in asked if len(one.right) and (one.right.any() or not one.evidence)]
    of = np.concatenate([one.candidates.features for one in some]).astype(np.float64)
    right = np.concatenate([one.right for one in some])
    answered = sum(one.evidence for one in some)
    shares = 1 / max(1, len(some) - answered), 1 / max(1, answered)
    each = np.concatenate([shares[one.evidence] * _weights(one.right) for one in some])
    middle, spread = of.mean(axis=0), of.std(axis=0) + 1e-6
    bias, raw = logistic((of - middle) / spread, right, each / each.mean(), penalty=_PENALTY, prior=0.0)
    weights = raw / spread
    named = {name: float(weight) for name, weight in zip(FEATURES, weights, strict=True) if weight > 0}
    of_facts = LinearModel(bias - float(middle @ weights), named)
    level = of_facts.bias + _missing(of_facts, some, cost)
    return LinearModel(model.bias, {**model.weights, "fact": level - model.bias, **named})


def _weights(right: NDArray[np.bool_]) -> NDArray[np.float64]:
    import numpy as np

    if not right.any():
        return np.full(len(right), 1 / len(right))
    found: NDArray[np.float64] = np.where(right, 1 / right.sum(), 1 / max(1, (~right).sum()))
    return found


def _missing(model: LinearModel, asked: Sequence[Asked], cost: float) -> float:
    """Return what a bias lacks for all but `cost` of the right facts to come up to `LEVEL`, the best being as likely as it says."""
    import numpy as np

    needed = []
    for one in asked:
        if not one.evidence:
            continue
        odds = model.odds(one.candidates.features)
        first = np.argsort(-odds, kind="stable")[:_FIRST]
        if one.right[first].any():
            # chance * share = LEVEL, solved for the odds of the best; one whose share is too small for any needs much.
            share = float(np.exp((odds[first][one.right[first]].max() - odds.max()) * WEIGHS))
            sure = LEVEL / max(share, 2 * LEVEL)
            needed.append(float(np.log(sure / (1 - sure)) - odds.max()))
    return float(np.quantile(needed, 1 - cost)) if needed else 0.0
