"""Meaning search: what is near in meaning to a question, also among what is about the people whom it names."""

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
    wanted: int,
) -> None:
    """Find what is near to a question, and how near its candidates and their neighbours are.

    Args:
        new: the cosines of docs that the index does not know yet.
        wanted: candidates by meaning; and twice as many about the people whom it names.
    """
    _note(view, new.items())
    near = _nearest([*vectors.nearest(vector, wanted, about=True), *new.items()])[:wanted]
    first = near[:_FIRST]
    # What may not be read leaves no trace: its cosine would be the best of all, or of its session.
    readable = _take_up(view, near)
    if len(near) == wanted and readable < _FEWEST:
        # Most of what is near is somebody else's, or in the prompt already.
        _take_up(view, vectors.nearest(vector, 4 * wanted, about=True))
    about = about_people(view, question)
    if len(about):
        docs = view.columns.rows["id"][about]
        theirs = vectors.nearest(vector, 2 * wanted, docs, about=True)
        first += theirs[:_FIRST]
        _take_up(view, theirs)
    view.chosen[_around(view, [doc for doc, _ in first])] = True
    _estimate(view, vectors, vector, view.around(_chosen(view), (-2, -1, 1)))


def find_past(
    view: View, vectors: ExactVectors, vector: Vector, among: Sequence[int] | None, *, wanted: int
) -> None:
    """Find what is near of facts that do not hold any more.

    Args:
        vectors: theirs.
        among: the only docs that may be found; None: all.
        wanted: candidates.
    """
    # Of a few that are named, memory is up to date only if they need not be estimates.
    _take_up(view, vectors.nearest(vector, wanted, among, about=among is None))
    _estimate(view, vectors, vector, _chosen(view))


def _nearest(near: Iterable[tuple[int, float]]) -> list[tuple[int, float]]:
    return sorted(near, key=lambda one: -one[1])


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
    """Make candidates of what is near and may be found; return how many they are."""
    slots = _note(view, near)
    view.chosen[slots] = True
    return len(slots)


def _note(view: View, near: Iterable[tuple[int, float]]) -> Slots:
    """Note how near docs are; return the slots of those that may be found."""
    import numpy as np

    found = dict(near)
    slots = view.take_up(list(found))
    here = slots >= 0
    slots = slots[here]
    view.cosines[slots] = np.fromiter(found.values(), np.float32, len(found))[here]
    view.near[slots] = True
    return slots


def _estimate(view: View, vectors: ExactVectors, vector: Vector, slots: Slots) -> None:
    """Note how near those of some slots are of which that is not known."""
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
