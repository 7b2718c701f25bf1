"""The search by meaning: the docs nearest to a question, and the nearest ones about the people whom it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.recall.index.sources import TURN
from edgemem.recall.traits import SAYS_I

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.index.vectors import ExactVectors, Vector
    from edgemem.recall.query import ParsedQuery
    from edgemem.recall.search.view import View

    Slots = NDArray[np.intp]


_FIRST = 8
"""Candidates by meaning whose neighbours are candidates too: who says what it will be about says the rest after that."""
_FEWEST = 8  # candidates by meaning that a reader must be left with, before more are looked for


def find_near(
    view: View,
    vectors: ExactVectors,
    vector: Vector,
    question: ParsedQuery,
    *,
    new: Mapping[int, float],
    most: int,
) -> None:
    """Find the docs near to a question, and the cosines of all candidates and their neighbours.

    Args:
        new: the cosines of docs that the index does not know yet.
        most: the number of candidates by meaning; there may be twice as many about the people whom it names.
    """
    _note(view, new.items())
    near = _nearest([*vectors.nearest(vector, most, about=True), *new.items()])[:most]
    first = near[:_FIRST]
    # What may not be read leaves no trace: its cosine would be the best of all, or of its session.
    readable = _take_up(view, near)
    if len(near) == most and readable < _FEWEST:
        # Most of what is near is somebody else's, or in the prompt already.
        _take_up(view, vectors.nearest(vector, 4 * most, about=True))
    about = about_people(view, question)
    if len(about):
        docs = view.columns.rows["id"][about]
        theirs = vectors.nearest(vector, 2 * most, docs, about=True)
        first += theirs[:_FIRST]
        _take_up(view, theirs)
    view.chosen[_around(view, [doc for doc, _ in first])] = True
    _estimate(view, vectors, vector, view.around(_chosen(view), (-2, -1, 1)))


def find_past(
    view: View, vectors: ExactVectors, vector: Vector, among: Sequence[int] | None, *, most: int
) -> None:
    """Find the nearest facts that no longer hold.

    Args:
        vectors: theirs.
        among: the only docs that may be found; None: all.
        most: the number of candidates.
    """
    # Of a few that are named, memory is up to date only if they need not be estimates.
    _take_up(view, vectors.nearest(vector, most, among, about=among is None))
    _estimate(view, vectors, vector, _chosen(view))


def _nearest(near: Iterable[tuple[int, float]]) -> list[tuple[int, float]]:
    return sorted(near, key=lambda hit: -hit[1])


def _around(view: View, docs: Sequence[int]) -> Slots:
    """Return the slots of some docs that may be found, and of the messages around them."""
    slots = view.take_up(docs)
    return view.around(slots[slots >= 0], (-1, 1, 2))


def about_people(view: View, question: ParsedQuery) -> Slots:
    """Return the slots of messages in which somebody whom the question names speaks of themselves, or is spoken of."""
    import numpy as np

    rows, n = view.columns.rows, view.n
    if not question.people:
        return np.zeros(0, np.intp)
    about = view.mentioned[:n].copy()
    codes = [code for name in question.people if (code := view.columns.code(name)) is not None]
    for code in codes:
        about |= (rows["who"][:n] == code) & ((rows["marks"][:n] & SAYS_I) > 0)
    about &= view.may[:n] & (rows["kind"][:n] == TURN)
    return np.flatnonzero(about)


def _take_up(view: View, near: Iterable[tuple[int, float]]) -> int:
    """Make candidates of the near docs that may be found; return their number."""
    slots = _note(view, near)
    view.chosen[slots] = True
    return len(slots)


def _note(view: View, near: Iterable[tuple[int, float]]) -> Slots:
    """Note the cosines of docs; return the slots of those that may be found."""
    import numpy as np

    cosines = dict(near)
    slots = view.take_up(list(cosines))
    here = slots >= 0
    slots = slots[here]
    view.cosines[slots] = np.fromiter(cosines.values(), np.float32, len(cosines))[here]
    view.near[slots] = True
    return slots


def _estimate(view: View, vectors: ExactVectors, vector: Vector, slots: Slots) -> None:
    """Note the cosines of some slots that have none yet."""
    import numpy as np

    slots = slots[~view.near[slots] & view.may[slots]]
    docs = view.columns.rows["id"][slots]
    order = np.argsort(docs, kind="stable")  # most of them stand in it already
    slots, docs = slots[order], docs[order]
    ids, cosines = vectors.estimates(vector, docs)
    slots = slots[docs.searchsorted(ids)]
    view.cosines[slots] = cosines
    view.near[slots] = True


def _chosen(view: View) -> Slots:
    import numpy as np

    return np.flatnonzero(view.chosen)
