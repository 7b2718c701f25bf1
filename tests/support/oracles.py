"""What facts in two times mean, in the plainest way there is: later assertions paint over earlier ones of no more trust."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

from edgemem.store.db.database import Database


class Assertion(NamedTuple):
    """Somebody said at `recorded` that a value (None: no value) held in `[valid_from, valid_to)`."""

    recorded: int
    valid_from: float
    valid_to: float | None
    value: Any
    trust: int = 3

    def holds(self, t: float) -> bool:
        """Tell whether it is about a moment."""
        return self.valid_from <= t and (self.valid_to is None or t < self.valid_to)

    def meets(self, other: Assertion) -> bool:
        """Tell whether both are about some moment."""
        begin = max(self.valid_from, other.valid_from)
        return self.holds(begin) and other.holds(begin)


class NaiveFacts:
    """Every assertion of every key in the order in which they came, and what waits because of who said it."""

    def __init__(self) -> None:
        self.said: dict[tuple[str, str], list[Assertion]] = {}
        self.waiting: dict[tuple[str, str], list[Assertion]] = {}

    def say(self, scope: str, key: str, new: Assertion, *, now: bool = False) -> None:
        """Take note of one assertion, or doubt it; `now`: it holds since the doubt that it confirms."""
        said, waiting = self.said.setdefault((scope, key), []), self.waiting.setdefault((scope, key), [])
        since = min(
            (old.valid_from for old in waiting if old.value == new.value and old.meets(new)),
            default=new.valid_from,
        )
        if now and since < new.valid_from:
            between = new._replace(valid_from=since, valid_to=new.valid_from)
            new = new if self._against(said, between)[0] else new._replace(valid_from=since)
        outranked, differs = self._against(said, new)
        if not outranked:
            said.append(new)
        if not (outranked and differs):
            near = [old for old in waiting if old.meets(new)]
            done = [old for old in near if old.trust <= new.trust or old.value == new.value]
            waiting[:] = [old for old in waiting if old not in done]
        elif new.value is not None and not any(_covers(old, new) for old in waiting):
            waiting.append(new)

    @staticmethod
    def _against(said: list[Assertion], new: Assertion) -> tuple[bool, bool]:
        """Tell whether any value of more trust holds while `new` does, and whether any other value or none does."""
        edges = {
            new.valid_from,
            *(edge for old in said for edge in old[1:3] if edge is not None and new.holds(edge)),
        }
        held = [next((old for old in reversed(said) if old.holds(edge)), None) for edge in edges]
        outranked = any(old is not None and old.value is not None and old.trust > new.trust for old in held)
        return outranked, any((None if old is None else old.value) != new.value for old in held)

    def value(self, scope: str, key: str, t: float, known_at: int | None = None) -> Any:
        """Return what held at `t`, as believed when only the assertions up to `known_at` had been made."""
        found = None
        for old in self.said.get((scope, key), ()):
            if (known_at is None or old.recorded <= known_at) and old.holds(t):
                found = old.value
        return found

    def as_of(self, scope: str, t: float, known_at: int | None = None) -> dict[str, Any]:
        values = {key: self.value(scope, key, t, known_at) for each, key in self.said if each == scope}
        return {key: value for key, value in values.items() if value is not None}


def has_one_value_at_each_moment(truth: Database, key_id: int) -> None:
    """Check that no two rectangles of a key overlap, and that what is believed leaves no gap."""
    columns = "valid_from, coalesce(valid_to, 9e999), recorded, coalesce(known_to, 9e999)"
    rows = truth.query(f"select {columns} from facts where key_id = ?", (key_id,))
    for (a, b, c, d), (e, f, g, h) in itertools.combinations(rows, 2):
        assert not (a < f and e < b and c < h and g < d)
    believed = sorted((a, b) for a, b, _, d in rows if d == math.inf)
    assert (believed[0][0], believed[-1][1]) == (-math.inf, math.inf)
    assert all(left[1] == right[0] for left, right in itertools.pairwise(believed))


def _covers(old: Assertion, new: Assertion) -> bool:
    """Tell whether a doubt says all that a new one would."""
    ends = old.valid_to is None or (new.valid_to is not None and new.valid_to <= old.valid_to)
    return old.value == new.value and old.trust >= new.trust and old.valid_from <= new.valid_from and ends
