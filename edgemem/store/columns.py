"""Columns: values as text of JSON, and how something was heard in the six columns of every table of speech."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.records import Heard

if TYPE_CHECKING:
    from collections.abc import Sequence


def as_text(value: Any) -> str:
    """Return a value as the JSON text that stands in a column."""
    return msgspec.json.encode(value).decode()


def heard_columns(heard: Heard | None) -> tuple[Any, ...]:
    """Return what stands in the columns, in their order."""
    h = heard or Heard()
    return (h.speaker, h.speaker_confidence, h.asr_confidence, h.device, h.room, h.event_time)


def heard_of(columns: Sequence[Any]) -> Heard | None:
    """Return what the columns say, or None if nothing is known."""
    return None if all(column is None for column in columns) else Heard(*columns)
