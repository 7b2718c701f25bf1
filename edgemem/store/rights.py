"""Who may read what: one clause, the same for every table (law 7 of the design)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.errors import InvalidInputError
from edgemem.fence import storable
from edgemem.scopes import level_of_scope, name_key
from edgemem.store.names import SPELLED

if TYPE_CHECKING:
    from edgemem.records import Heard, Level, Reader

LEVELS: tuple[Level, ...] = ("shared", "household", "private")
"""Levels in the order of the integers that stand for them in the file."""

_SPEAKER = SPELLED.format(key=":speaker_key")


def reading_rule(
    reader: Reader | None, prefix: str = "", *, speaker: str = _SPEAKER
) -> tuple[str, dict[str, Any]]:
    """Return the condition under which `reader` may read a row, and its named values.

    It is true or false, and never null, so that it may be negated.

    Args:
        reader: None is the operator, who reads everything.
        prefix: of the columns `level` and `owner`, such as `f.`.
        speaker: the reader's name as the rows spell it; the index, which has no table of people, is given `:speaker`.
    """
    if reader is None:
        return "1", {}
    clause = (
        f"({prefix}level = 0 or ({prefix}level = 1 and :known)"
        f" or ({prefix}level = 2 and :alone and ifnull({prefix}owner = {speaker}, 0)))"
    )
    values = {"known": int(reader.known), "alone": int(reader.alone)}
    return clause, {**values, "speaker": reader.speaker, "speaker_key": reader.key}


def readable(reader: Reader | None, level: Level, owner: str | None) -> bool:
    """Tell whether `reader` may read a record that is in memory; the same rule as the clause."""
    if reader is None or level == "shared":
        return True
    if level == "household":
        return reader.known
    return reader.alone and owner is not None and name_key(owner) == reader.key


def level_of_episode(level: Level | None, heard: Heard | None) -> Level:
    """Return who may read an episode: the household, or anyone if nobody is known to have caused it, as with facts."""
    return level or ("household" if heard is not None and heard.speaker else "shared")


def level_and_owner(
    scope: str, level: Level | None, owner: str | None, heard: Heard | None
) -> tuple[int, str | None]:
    """Return the stored level and owner of a record: as given, or as its scope means.

    What is marked private without an owner belongs to whoever said it; nobody at all would never read it. What stands
    under a scope of an unknown form, and is not marked, is the operator's alone.
    """
    meant, owner_of_scope = level_of_scope(scope)
    if level is None and meant == "private" and owner_of_scope is None:
        return LEVELS.index(meant), None
    level = level or meant
    owner = storable(owner).strip() if owner else owner
    if level not in LEVELS:
        raise InvalidInputError(f"The level {level!r} does not exist; use one of {', '.join(LEVELS)}.")
    if level != "private":
        return LEVELS.index(level), owner
    owner = owner or owner_of_scope or (heard.speaker if heard else None)
    if not owner:
        raise InvalidInputError("A private record needs an owner: give one, or a scope such as user:alice.")
    return LEVELS.index(level), owner
