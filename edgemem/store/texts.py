"""Texts: a row of a kind as people read it, and as recall finds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.store.declaration import Kind
from edgemem.store.episodes import stored_text
from edgemem.store.goals import goal_text
from edgemem.store.kinds import EPISODES, GOALS

if TYPE_CHECKING:
    from collections.abc import Sequence


def text_of(kind: Kind, values: Sequence[Any]) -> str:
    """Return the text of a row.

    Args:
        values: of the columns `Kind.found_by`, in their order.
    """
    if kind is EPISODES:
        return stored_text(*values)
    if kind is GOALS:
        title, data = values
        return f"goal: {goal_text(title, msgspec.json.decode(data))}"
    listed = kind.columns_of("json")
    words = (
        ", ".join(msgspec.json.decode(value)) if value and column in listed else value
        for column, value in zip(kind.found_by, values, strict=True)
    )
    return ". ".join(filter(None, words))
