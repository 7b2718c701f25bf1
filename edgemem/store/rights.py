"""Who may read what: one clause, the same for every table (law 7 of the design)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.errors import InvalidInputError
from edgemem.fence import storable
from edgemem.records import Level, level_of_scope

if TYPE_CHECKING:
    from edgemem.records import Heard, Reader

LEVELS: tuple[Level, ...] = ("shared", "household", "private")
"""Levels in the order of the integers that stand for them in the file."""


def reading_rule(reader: Reader | None, prefix: str = "") -> tuple[str, dict[str, Any]]:
    """Return the condition under which `reader` may read a row, and its named values.

    Args:
        reader: None is the operator, who reads everything.
        prefix: of the columns `level` and `owner`, such as `f.`.
    """
    if reader is None:
        return "1", {}
    clause = (
        f"({prefix}level = 0 or ({prefix}level = 1 and :known)"
        f" or ({prefix}level = 2 and {prefix}owner = :speaker and :alone))"
    )
    # An empty name is a voice that nobody recognised: with one in the room, only what is shared is read.
    known = bool(reader.speaker) and "" not in reader.audience
    alone = bool(reader.speaker) and reader.audience <= {reader.speaker}
    return clause, {"known": int(known), "speaker": reader.speaker, "alone": int(alone)}


def readable(reader: Reader | None, level: Level, owner: str | None) -> bool:
    """Tell whether `reader` may read a record that is in memory; the same rule as the clause."""
    if reader is None or level == "shared":
        return True
    if not reader.speaker or (level == "household" and "" in reader.audience):
        return False
    return level == "household" or (owner == reader.speaker and reader.audience <= {reader.speaker})


def level_of_episode(level: Level | None, heard: Heard | None) -> Level:
    """Return who may read an episode: the household, or anyone if nobody is known to have caused it, as with facts."""
    return level or ("household" if heard is not None and heard.speaker else "shared")


def level_and_owner(
    scope: str, level: Level | None, owner: str | None, heard: Heard | None
) -> tuple[int, str | None]:
    """Return the stored level and owner of a record: as given, or as its scope means.

    What is marked private without an owner belongs to whoever said it; nobody at all would never read it.
    """
    meant, owner_of_scope = level_of_scope(scope)
    level = level or meant
    owner = storable(owner) if owner else owner
    if level not in LEVELS:
        raise InvalidInputError(f"The level {level!r} does not exist; use one of {', '.join(LEVELS)}.")
    if level != "private":
        return LEVELS.index(level), owner
    owner = owner or owner_of_scope or (heard.speaker if heard else None)
    if not owner:
        raise InvalidInputError("A private record needs an owner: give one, or a scope such as user:alice.")
    return LEVELS.index(level), owner
