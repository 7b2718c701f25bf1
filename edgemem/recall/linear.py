"""The linear model: how likely a message answers, out of its signals, and why.

What was said may have been replaced since, and no text tells that by itself. So where the question is about what holds, a
message gains by each older one that answers about as well, and loses by a newer one; where it is about what was, the other
way round. Learnt like the rest: on our own corpus, in words that nothing was learnt on, recall@1 is .44 instead of .35
(`tests/data/recall_floors.json`); LoCoMo dev has as much recall@5 as before. By words alone nothing is taken for replaced.

Learnt on the corpus of `edgemem.bench.weeks` alone, by `edgemem bench fit`, which writes `ranking.toml` anew; so each weight
can be read, and changed. The sum of weighted signals is the logarithm of odds; how sure it is that any message answers is
looked at for the question as a whole (see `gate`), so scores mean the same for every question.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from edgemem.provisions import provided
from edgemem.recall.fact_scores import FactModels, weighed
from edgemem.recall.signals import SIGNALS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

FILE = "ranking.toml"
REASONS = (*dict.fromkeys(SIGNALS.values()), "recent")
"""What a signal may stand for in `Recalled.why`; `form` explains nothing and is not said."""
AGES = ("replaced_now", "replacing_now", "replaced_past", "replacing_past")
"""What tells of the age of a message beside others, in the order of the columns; in `Recalled.why` it is `recent`.

replaced: how near a newer message comes to its sum. What only asks, or answers only by what stands around it, replaces nothing.
replacing: how near an older one is to it.
now, past: where the question is about what holds, or about what was; elsewhere it is 0.
Each is 0 to 1, and less the further the message is behind the best: what answers nothing replaces nothing. Near means that sums
differ by little against 1.
"""
_COMPARED = 32
_ASKS, _WORDS, _MEANING = map(list(SIGNALS).index, ("asks", "words", "meaning"))
_MENTIONED = 0.1  # of the log odds: a signal that contributes less does not explain anything


class Messages(NamedTuple):
    """The messages that were found for a question."""

    signals: NDArray[np.float32]
    """One row each, `float32[n, len(SIGNALS)]`."""
    at: NDArray[np.float64]
    """When each was said, seconds since the epoch."""
    tense: Literal["now", "past", ""]
    """Whether the question is about what holds, or about what was; empty: about neither, as "what did she say?"."""

    def some(self, rows: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Messages:
        """Return some of them."""
        return self._replace(signals=self.signals[rows], at=self.at[rows])


def ages_of(sums: NDArray[np.float32], messages: Messages) -> NDArray[np.float32]:
    """Return what tells of the age of some messages, `float32[n, len(AGES)]`.

    Args:
        sums: of the weighted signals of each.
    """
    import numpy as np

    found = np.zeros((len(sums), len(AGES)), np.float32)
    if not messages.tense or len(sums) < 2:
        return found
    # Of many that answer alike, what shall come first is among those that are compared.
    first = np.lexsort((messages.at if messages.tense == "past" else -messages.at, -sums))[:_COMPARED]
    own, at = sums[first], messages.at[first]
    more = own[None, :] - own[:, None]
    signals = messages.signals[first]
    itself = (signals[:, _WORDS] > 0) | (signals[:, _MEANING] > 0)
    tells = itself & (signals[:, _ASKS] <= 0)
    newer = at[None, :] > at[:, None]
    best = np.exp(own - own.max())
    place = 0 if messages.tense == "now" else 2
    found[first, place] = best * (np.exp(np.minimum(0.0, more)) * (newer & tells)).max(axis=1)
    found[first, place + 1] = best * itself * (np.exp(-np.abs(more)) * (newer.T & tells)).max(axis=1)
    return found


class LinearModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """Weights of signals and of `AGES`; those that are not named weigh nothing."""

    bias: float
    scale: float
    """By which the sum is stretched, so that with the bias it is the logarithm of the odds of being right."""
    weights: dict[str, float]

    @classmethod
    def bare(cls, weights: dict[str, float]) -> LinearModel:
        """Return a model that knows the order of messages, and not how likely any of them is right."""
        return cls(0.0, 1.0, weights)

    def odds(self, messages: Messages) -> NDArray[np.float32]:
        """Return the logarithm of the odds that each of some messages is right."""
        import numpy as np

        sums = self.sums(messages) + self._worth_of_age(messages)
        found: NDArray[np.float32] = np.float32(self.scale) * sums + np.float32(self.bias)
        return found

    def sums(self, messages: Messages) -> NDArray[np.float32]:
        """Return the weighted signals of some messages, each by itself."""
        return weighed(messages.signals, self._column)

    @functools.cached_property
    def _column(self) -> NDArray[np.float32]:
        """Return the weights in the order of the signals."""
        import numpy as np

        return np.array([self.weights.get(name, 0.0) for name in SIGNALS], np.float32)

    def _worth_of_age(self, messages: Messages) -> NDArray[np.float32]:
        """Return what their age adds to the sums of some messages."""
        import numpy as np

        weights = np.array([self.weights.get(name, 0.0) for name in AGES], np.float32)
        if not weights.any():
            return np.zeros(len(messages.at), np.float32)
        return weighed(ages_of(self.sums(messages), messages), weights)

    @functools.cached_property
    def _shares(self) -> NDArray[np.float32]:
        """Return what each signal adds to which reason, `float32[len(SIGNALS), len(REASONS)]`."""
        import numpy as np

        share = np.zeros((len(SIGNALS), len(REASONS)), np.float32)
        for row, (name, reason) in enumerate(SIGNALS.items()):
            share[row, REASONS.index(reason)] = self.scale * self.weights.get(name, 0.0)
        return share

    def parts(self, messages: Messages) -> NDArray[np.float32]:
        """Return what each of `REASONS` adds to the log odds of some messages, `float32[n, len(REASONS)]`."""
        import numpy as np

        found: NDArray[np.float32] = np.einsum("ij,jk->ik", messages.signals, self._shares)
        found[:, REASONS.index("recent")] += np.float32(self.scale) * self._worth_of_age(messages)
        return found


def reasons(parts: Sequence[float]) -> tuple[str, ...]:
    """Return what speaks for a message, strongest first, given its row of `LinearModel.parts`."""
    said = [(-part, reason) for part, reason in zip(parts, REASONS, strict=True) if part >= _MENTIONED]
    return tuple(reason for _, reason in sorted(said) if reason != "form")


class Models(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One model for questions that have a vector, one for those that have none."""

    with_meaning: LinearModel
    words_only: LinearModel
    facts: FactModels
    """The same of facts and preferences."""

    def at(self, meaning: float) -> LinearModel:
        """Return the model whose log odds are those of both, mixed: 0 takes words alone, 1 the one with meaning."""
        if meaning in (0, 1):
            return self.with_meaning if meaning else self.words_only
        both = ((self.with_meaning, meaning), (self.words_only, 1 - meaning))
        scale = sum(share * model.scale for model, share in both)
        return LinearModel(
            sum(share * model.bias for model, share in both),
            scale,  # not 1: what is near for `ages_of` is near by sums that are not stretched
            {
                name: sum(share * model.scale * model.weights.get(name, 0.0) for model, share in both) / scale
                for name in (*SIGNALS, *AGES)
            },
        )


@provided
def shipped_models() -> Models:
    """Return the models that come with the package."""
    text = Path(__file__).with_name(FILE).read_text("utf-8")
    return msgspec.toml.decode(text, type=Models)
