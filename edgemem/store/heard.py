"""How something was heard, as six columns of every table that holds what came from speech."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.records import Heard

if TYPE_CHECKING:
    from collections.abc import Sequence


def heard_columns(heard: Heard | None) -> tuple[Any, ...]:
    """Return what stands in the columns, in their order."""
    h = heard or Heard()
    return (h.speaker, h.speaker_confidence, h.asr_confidence, h.device, h.room, h.event_time)


def heard_of(columns: Sequence[Any]) -> Heard | None:
    """Return what the columns say, or None if nothing is known."""
    return None if all(each is None for each in columns) else Heard(*columns)
