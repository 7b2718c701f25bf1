"""What facts in two times mean, in the plainest way there is: later assertions paint over earlier ones."""

from __future__ import annotations

from typing import NamedTuple


class Assertion(NamedTuple):
    """Somebody said at `recorded` that a value (None: no value) held in `[valid_from, valid_to)`."""

    recorded: int
    valid_from: float
    valid_to: float | None
    value: str | None


class NaiveFacts:
    """Every assertion of every key in the order in which they came."""

    def __init__(self) -> None:
        self.said: dict[tuple[str, str], list[Assertion]] = {}

    def say(self, scope: str, key: str, assertion: Assertion) -> None:
        """Take note of one assertion."""
        self.said.setdefault((scope, key), []).append(assertion)

    def value(self, scope: str, key: str, t: float, known_at: int | None = None) -> str | None:
        """Return what held at `t`, as believed when only the assertions up to `known_at` had been made."""
        found = None
        for recorded, valid_from, valid_to, value in self.said.get((scope, key), ()):
            known = known_at is None or recorded <= known_at
            if known and valid_from <= t and (valid_to is None or t < valid_to):
                found = value
        return found

    def as_of(self, scope: str, t: float, known_at: int | None = None) -> dict[str, str]:
        """Return all values of one scope."""
        values = {key: self.value(scope, key, t, known_at) for each, key in self.said if each == scope}
        return {key: value for key, value in values.items() if value is not None}
