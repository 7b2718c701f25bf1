"""Times asked: which messages speak of a time that a question speaks of, and which were said then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.recall.index.sources import TURN

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.columns import Columns
    from edgemem.recall.question import Question

    Numbers = NDArray[np.float32]

_TOLD_WITHIN_S = 86400.0
"""What somebody did is told the next day, too,"""
_TOLD_LATER = 0.9
"""and what was said on the day itself comes first where nothing else tells them apart. On seeds of our corpus that weights
are learnt on, 1 and .9 find the same, .75 and .5 less and less."""
_FEW_DAYS_S = 3 * 86400.0
"""A weekend, and the hour that a clock may be set by; of a month too much was said to be looked through."""
_LIKELY = 0.5


def on_dates(columns: Columns, question: Question) -> NDArray[np.intp]:
    """Return the slots of the texts that speak of a time that the question speaks of, the best first."""
    import numpy as np

    spans = columns.spans()
    if not question.times or not len(spans):
        return np.zeros(0, np.intp)
    worth = _overlap(spans, question)
    found = np.flatnonzero(worth > 0)
    best: NDArray[np.intp] = spans[found[np.argsort(-worth[found], kind="stable")], 0].astype(np.intp)
    return best


def on_days(columns: Columns, question: Question) -> NDArray[np.intp]:
    """Return the slots of the messages that were said on a day that the question speaks of, as they were said."""
    import numpy as np

    at, kind = columns.rows["at"][: columns.n], columns.rows["kind"][: columns.n]
    there = np.zeros(columns.n, bool)
    for begin, end, sure in question.times:
        if end - begin <= _FEW_DAYS_S and sure >= _LIKELY:
            there |= (at >= begin) & (at < end)
    return np.flatnonzero(there & (kind == TURN))


def spoken_of(columns: Columns, question: Question) -> Numbers:
    """Return, by slot, how well the times that each text speaks of are the question's, 0 to 1; one more at the end."""
    import numpy as np

    found = np.zeros(columns.n + 1, np.float32)
    if question.times:
        spans = columns.spans()
        np.maximum.at(found, spans[:, 0].astype(np.intp), _overlap(spans, question))
    return found


def said_then(at: NDArray[np.float64], question: Question) -> Numbers:
    """Return how sure it is that each text was said at a time that the question speaks of, or the day after, a little less, 0 to 1.

    Args:
        at: when it was said, seconds since the epoch.
    """
    import numpy as np

    found = np.zeros(len(at), np.float32)
    for begin, end, sure in question.times:
        then, later = (at >= begin) & (at < end), (at >= end) & (at < end + _TOLD_WITHIN_S)
        found = np.maximum(found, np.float32(sure) * (then + np.float32(_TOLD_LATER) * later))
    return found


def _overlap(spans: NDArray[np.float64], question: Question) -> NDArray[np.float32]:
    """Return how much of the longer one of both is common to a text's time and the question's, times how sure both are."""
    import numpy as np

    worth = np.zeros(len(spans))
    for begin, end, sure in question.times:
        common = np.minimum(spans[:, 2], end) - np.maximum(spans[:, 1], begin)
        longer = np.maximum(spans[:, 2] - spans[:, 1], max(end - begin, 1.0))
        worth = np.maximum(worth, sure * spans[:, 3] * np.maximum(common, 0) / longer)
    return worth.astype(np.float32)
