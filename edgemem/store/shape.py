"""The shape of a record: which field stands in which columns, said once and read in both directions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from edgemem.records import Heard
from edgemem.store.heard import heard_columns, heard_of
from edgemem.store.line import as_text
from edgemem.store.rights import LEVELS


def _same(value: Any) -> Any:
    return value


class Part(NamedTuple):
    """One field as one column.

    Args:
        store: what stands in the column for a value.
        read: the value of what stands there.
    """

    field: str
    column: str
    store: Callable[[Any], Any] = _same
    read: Callable[[Any], Any] = _same


LEVEL = Part("level", "level", LEVELS.index, LEVELS.__getitem__)
SINCE = Part(
    "valid_from",
    "valid_from",
    lambda since: -math.inf if since is None else since,
    lambda column: None if column == -math.inf else column,
)


def json_part(field: str, *, empty: Any = None) -> Part:
    """Return a field that stands as JSON; one that is `empty` as no value at all, unless that is None."""
    if empty is None:
        return Part(field, field, as_text, msgspec.json.decode)
    kind = type(empty)
    return Part(
        field,
        field,
        lambda value: as_text(value) if value else None,
        lambda column: kind(msgspec.json.decode(column)) if column else empty,
    )


class Shape:
    """The columns of a record's table, in the order in which they are written and read.

    Args:
        parts: fields; a name alone is a column of the same name that holds the value as it is.
        heard: whether the six columns of how it was heard follow.
    """

    def __init__(self, *parts: str | Part, heard: bool = False) -> None:
        self._parts = tuple(Part(part, part) if isinstance(part, str) else part for part in parts)
        self._heard = heard
        names = [part.column for part in self._parts] + list(Heard.__struct_fields__ if heard else ())
        self.columns = ", ".join(names)

    def row(self, record: Any) -> tuple[Any, ...]:
        """Return what stands in the columns for a record."""
        plain = tuple(part.store(getattr(record, part.field)) for part in self._parts)
        return (*plain, *heard_columns(record.heard)) if self._heard else plain

    def fields(self, row: Sequence[Any]) -> dict[str, Any]:
        """Return the fields that a row holds, by name."""
        found = {part.field: part.read(column) for part, column in zip(self._parts, row, strict=False)}
        if self._heard:
            found["heard"] = heard_of(row[len(self._parts) :])
        return found
