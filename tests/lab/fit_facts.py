"""The weights of the features of facts, learnt on our own corpus: which of them tell that a fact answers a question.

Each household is asked twice: with all that it tells stored as facts, and with that of a few things only, so that most of
its questions are answered by none. The questions of everyday life that speak of nothing there are asked as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from edgemem.bench.report import say
from edgemem.config import Profile
from edgemem.recall.rank.features import FACT_FEATURES, MEANING
from edgemem.recall.rank.gate import SLOWLY
from edgemem.recall.rank.model import FactModel, FactModels
from edgemem.records import Reader
from lab.facts_told import AT_A_TIME, ON_A_DATE, FactsTold
from lab.learning import logistic
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

THINGS = (None, 50)
"""Of how many things something is stored; None: all."""
LEVEL = 0.1
COST, COST_BY_WORDS = 0.01, 0.03
"""All but so many of the facts that answer, and are among the first five, score `LEVEL`, with a vector and without one: at
the floor of the profile, .7 % of recall@5 are lost without one then. More with one leaves the evenings of `bench prefill` without
what they ask for. On `learnt` words .77 of the questions that nothing answers find a fact so, and .83 with .01; on `unseen` ones it moves nothing."""
_FIRST = 5
_PENALTY = 0.003
"""What the squares of weights cost, by the standard deviation of a feature, beside the mean loss."""


class FactsAsked(NamedTuple):
    """The facts that were considered for one question."""

    features: NDArray[np.float32]
    right: NDArray[np.bool_]
    answered: bool
    """Whether one of those that are stored answers."""


def asked_of_facts(seed: int, folder: Path, embedder: Embedder, cache: Path | None) -> Iterator[FactsAsked]:
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


def _asked(here: Filled, told: FactsTold) -> Iterator[FactsAsked]:
    now, values = here.clock.at, _values(here.memory)

    def ask(text: str, asker: str, at: float, right: tuple[str, str] | None) -> FactsAsked:
        import numpy as np

        here.clock.at = max(now, at)
        names, features = here.memory.diagnostics.search.fact_features_of(text, reader=Reader(asker))
        answers = np.array([right is not None and values.get(name) == right for name in names], bool)
        return FactsAsked(features, answers, right is not None)

    for one in told.asked():
        if one.category not in (AT_A_TIME, ON_A_DATE):  # there the time chooses among the versions
            yield ask(one.question.text, one.question.asker, float(one.question.at), one.right)
    for question in told.off_topic():
        yield ask(question.text, question.asker, float(question.at), None)
    for text in told.foreign():
        yield ask(text, READER, now, None)


def _values(memory: Memory) -> dict[str, tuple[str, str]]:
    """Return key and value of each statement and preference, by `kind:id`."""
    facts = memory.diagnostics.database.query(
        "select f.id, k.key, f.value from facts f join fact_keys k on k.id = f.key_id where f.id = f.origin"
    )
    preferences = memory.diagnostics.database.query("select id, key, value from preferences")
    return {
        f"{kind}:{number}": (key, value)
        for kind, rows in (("fact", facts), ("preference", preferences))
        for number, key, value in rows
    }


def learnt_facts(asked: Sequence[FactsAsked]) -> FactModels:
    """Return the models for questions with a vector and without one."""
    by_words = [one._replace(features=_without(one.features)) for one in asked]
    return FactModels(_learnt(asked, COST), _learnt(by_words, COST_BY_WORDS))


def _without(features: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    return features * np.array([name != MEANING for name in FACT_FEATURES], np.float32)


def _learnt(asked: Sequence[FactsAsked], cost: float) -> FactModel:
    """Return a logistic regression over facts.

    Of each question all that do not answer weigh as much as one that does, and of all questions those that nothing answers
    as much as the others.
    """
    import numpy as np

    # One that answers and was not even looked at does not make a question one that nothing answers.
    some = [one for one in asked if len(one.features) and (one.right.any() or not one.answered)]
    of = np.nan_to_num(np.concatenate([one.features for one in some])).astype(np.float64)
    right = np.concatenate([one.right for one in some])
    answered = sum(one.answered for one in some)
    shares = 1 / max(1, len(some) - answered), 1 / max(1, answered)
    each = np.concatenate([shares[one.answered] * _weights(one.right) for one in some])
    middle, spread = of.mean(axis=0), of.std(axis=0) + 1e-6
    bias, raw = logistic((of - middle) / spread, right, each / each.mean(), penalty=_PENALTY, prior=0.0)
    weights = raw / spread
    named = {name: float(weight) for name, weight in zip(FACT_FEATURES, weights, strict=True) if weight > 0}
    return _levelled(FactModel(bias - float(middle @ weights), named), some, cost)


def _weights(right: NDArray[np.bool_]) -> NDArray[np.float64]:
    import numpy as np

    if not right.any():
        return np.full(len(right), 1 / len(right))
    found: NDArray[np.float64] = np.where(right, 1 / right.sum(), 1 / max(1, (~right).sum()))
    return found


def _levelled(model: FactModel, asked: Sequence[FactsAsked], cost: float) -> FactModel:
    """Return the model with a bias by which all but `cost` of the right facts come up to `LEVEL`, the best being as likely as it says."""
    import numpy as np

    needed = []
    for one in asked:
        if not one.answered:
            continue
        odds = model.odds(np.nan_to_num(one.features))
        first = np.argsort(-odds, kind="stable")[:_FIRST]
        if one.right[first].any():
            # chance * share = LEVEL, solved for the odds of the best; one whose share is too small for any needs much.
            share = float(np.exp((odds[first][one.right[first]].max() - odds.max()) / SLOWLY))
            sure = LEVEL / max(share, 2 * LEVEL)
            needed.append(float(np.log(sure / (1 - sure)) - odds.max()))
    return msgspec.structs.replace(
        model, bias=model.bias + (float(np.quantile(needed, 1 - cost)) if needed else 0.0)
    )


def fact_section(models: FactModels) -> str:
    """Return the part of the file of weights that is about facts."""
    lines = []
    for name in ("with_meaning", "words_only"):
        model: FactModel = getattr(models, name)
        lines += ["", f"[facts.{name}]", f"bias = {model.bias:.4f}", "", f"[facts.{name}.weights]"]
        lines += [
            f"{feature} = {model.weights[feature]:.4f}"
            for feature in FACT_FEATURES
            if feature in model.weights
        ]
    return "\n".join(lines) + "\n"
