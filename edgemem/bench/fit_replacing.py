"""The weights of what tells that a message replaces an older one, learnt on invented households and on our own corpus.

One that was told anew counts for what replaces it, one that holds for nobody; of others nothing is known, and they teach nothing.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from edgemem.bench.learning import REPLACED, weights_of
from edgemem.bench.weeks_facts import facts
from edgemem.bench.weeks_forms import forms_of
from edgemem.bench.weeks_talk import Talk
from edgemem.recall.replacing import CLUES, Replacing, compared

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.bench.fit import Asked
    from edgemem.recall.linear import LinearModel

    Lesson = tuple[NDArray[np.float32], NDArray[np.bool_]]

LENGTHS = frozenset({"old_length", "new_length"})
"""Clues that mean something else in each language, as there are stems: Chinese has one for each two signs."""
_L2 = 1e-4
_HOME = 25
"""A question of a household is worth so many of our own corpus, which says all in few forms, and has more of them."""


def versions(seed: int) -> dict[tuple[str, ...], list[str]]:
    """Return the messages that tell other versions of what is told by some messages of our own corpus."""
    told = defaultdict(list)
    true = facts(seed)
    for telling in Talk(forms_of("learnt"), true, seed).tellings:
        told[id(telling.fact)].append(telling.ids)
    return {
        ids: [id_ for other in versions if other != ids for id_ in other]
        for versions in told.values()
        for ids in versions
    }


def learnt_replacing(
    model: LinearModel, at_home: Sequence[Asked], of_weeks: Sequence[Asked], *, without: Collection[str] = ()
) -> Replacing:
    """Return the weights of `CLUES` for a model of messages; some clues may be left out."""
    lessons = [*_lessons(model, at_home)] * _HOME + [*_lessons(model, of_weeks)]
    rows, right = zip(*lessons, strict=True)
    weights = weights_of(rows, right, [*CLUES, REPLACED], l2=_L2, without=without)
    return Replacing(weights.pop(REPLACED, 0.0), weights)


def _lessons(model: LinearModel, asked: Sequence[Asked]) -> Iterator[Lesson]:
    """Yield nobody and the newer messages of each old one, and which of them replaces it."""
    import numpy as np

    for one in asked:
        said = one.messages.said
        if said is None:
            continue
        pairs = compared(model.own_odds(one.messages), one.messages, said)
        now = one.messages.tense == "now"
        told, others = one.right[pairs.rows], one.others[pairs.rows]
        old, new = (others, told) if now else (told, others)
        for row in np.flatnonzero(old | new if now else old):
            newer = np.flatnonzero(pairs.may[row])
            replacing: NDArray[Any] = new[newer] & old[row]
            if len(newer) and (new[row] or replacing.any()):
                clues = np.zeros((1 + len(newer), len(CLUES) + 1), np.float32)
                clues[1:, :-1], clues[1:, -1] = pairs.clues[row, newer], 1.0
                yield clues, np.append(not replacing.any(), replacing)
