"""Own records: those of a user's own store, which may be of its own classes and know less than ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import TypeVar

    from edgemem.records import Episode, Fact, Preference

    Ours = TypeVar("Ours", Fact, Preference, Episode)


def as_ours(record: Any, kind: type[Ours]) -> Ours:
    """Return a record of any store as ours; what it does not know is as our record has it by default."""
    if isinstance(record, kind):
        return record
    known = {name: getattr(record, name) for name in kind.__struct_fields__ if hasattr(record, name)}
    return kind(**known)
