"""Masks: which slots somebody may find, kept at hand, so that a question looks only at slots that came since the last one.

A memory of a hundred thousand texts has as many slots, and all but a few are as they were. The rule is that of the SQL,
which has the last word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.recall.index.sources import KINDS
from edgemem.recall.index.state import PRIVATE

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.candidates import Filter

_MOST = 12
"""Readers and kinds whose slots are kept, a byte a slot each; one reader needs two, for what is found and for what counts."""


class Masks:
    """By reader and kinds which slots may be found; not safe to use from several threads at once."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], tuple[int, NDArray[np.bool_]]] = {}
        """How many slots were looked at, and what was seen; that of the newest question last."""

    def of(
        self, only: Filter, rows: Mapping[str, NDArray[Any]], n: int, owner: int | None
    ) -> NDArray[np.bool_]:
        """Return by slot what may be found; of session, turns and times nothing is looked at. Not to be written to.

        Args:
            rows: `id`, `past`, `kind`, `level` and `owner` by slot; of an empty one the id is 0.
            n: how many slots there are.
            owner: the code of whoever asks alone; None: of nobody.
        """
        import numpy as np

        known = only.values.get("known")
        key = only.past, only.kinds, known, owner
        upto, mask = self._known.pop(key, (0, np.zeros(0, bool)))
        if upto < n:
            if len(mask) < n:
                mask, old = np.zeros(len(rows["id"]), bool), mask
                mask[:upto] = old[:upto]
            new = slice(upto, n)
            may = np.not_equal(rows["id"][new], 0, out=mask[new])
            if not only.past:
                may &= ~rows["past"][new]
            if len(only.kinds) < len(KINDS):
                kinds = np.zeros(256, bool)
                kinds[list(only.kinds)] = True
                may &= kinds[rows["kind"][new]]
            if known is not None:
                level = rows["level"][new]
                read = level <= int(known)
                if owner:
                    read |= (level == PRIVATE) & (rows["owner"][new] == owner)
                may &= read
        if len(self._known) >= _MOST:
            del self._known[next(iter(self._known))]
        self._known[key] = n, mask
        return mask[:n]

    def drop(self, slot: int) -> None:
        """Have nobody find a slot any more."""
        for upto, mask in self._known.values():
            if slot < upto:
                mask[slot] = False
