"""When: the two times that a question may be asked of, when it was true and when it was known.

Facts alone are true of a time. What was said, done, noted and summed up was so at its moment and stays so; it counts from
when it was learnt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from edgemem.errors import InvalidInputError
from edgemem.store.arguments import checked_tick, checked_time
from edgemem.store.beliefs import held_at

if TYPE_CHECKING:
    from edgemem.records import Reader
    from edgemem.store.database import Database


class When(NamedTuple):
    """A moment in either time; seconds since the epoch."""

    valid_at: float
    known_at: float | None
    """None: as it is known now."""

    @property
    def known_tick(self) -> int | None:
        """Return when it was known, in the clock's ticks."""
        return None if self.known_at is None else checked_tick(self.known_at, "known_at")

    def held(self, truth: Database, reader: Reader | None) -> list[int]:
        """Return the statements that held then and may be read, as far as was known, by their ids in ascending order.

        All keys are looked at, so that no number of other versions of a fact takes the place of the one that held.
        """
        return held_at(truth, self.valid_at, known_at=self.known_at, reader=reader)


def checked_when(valid_at: float | None, known_at: float | None) -> When | None:
    """Return a moment as it was asked for; None: now, as it is known now."""
    known = None if known_at is None else checked_time(known_at, "known_at")
    if known is not None and known < 0:
        raise InvalidInputError(
            f"known_at must be a moment since 1970, not {known:g}: before, no memory knew anything; leave it out for now."
        )
    if valid_at is not None:
        return When(checked_time(valid_at, "valid_at"), known)
    return None if known is None else When(known, known)
