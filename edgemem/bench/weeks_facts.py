"""What is true in a household over ten weeks, and when it is told: facts with versions, plans that move, events.

Nothing here knows a sentence. Kinds and values stand in `weeks_world.toml`.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec

from edgemem.bench.weeks_dice import Dice

DAYS = 70
THINGS = 3
"""How many things of each kind there are facts about."""

_LAST_PLAN = 58
"""Plans are first told of until this day, so that most of them are over when the questions come."""


class Person(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Somebody who lives here, or nearly."""

    name: str
    he: str
    him: str
    his: str


class Kind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What facts of one kind are like; the head of `weeks_world.toml` tells more."""

    shape: Literal["state", "plan", "event", "robot"]
    values: str = ""
    changes: int = 0
    hour: bool = False
    things: bool = False
    """Whether facts about people are also about a thing of theirs; those of the household always are."""
    people: int = 0
    """0: facts of this kind are about the household."""


class World(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    people: list[Person]
    pools: dict[str, str]
    kinds: dict[str, Kind]

    def pool(self, name: str) -> list[str]:
        """Return some values; in the file a slash stands between them."""
        return " ".join(self.pools[name].split()).replace(" /", "/").split("/")


class Version(msgspec.Struct, frozen=True):
    """A fact as it holds from one telling to the next."""

    told: int
    """The day of the telling."""
    value: str = ""
    """What is told; for plans and events the hour, or nothing."""
    date: int | None = None
    """The day of a plan or an event."""


class Fact(msgspec.Struct, frozen=True):
    """One thing that is true, and what becomes of it."""

    kind: str
    thing: int | None
    holder: Person | None
    versions: tuple[Version, ...]


@lru_cache(maxsize=1)
def world() -> World:
    """Return the file."""
    return msgspec.toml.decode(Path(__file__).with_name("weeks_world.toml").read_bytes(), type=World)


def facts(seed: int) -> list[Fact]:
    """Return all facts of a seed, kind after kind."""
    out: list[Fact] = []
    for name, kind in world().kinds.items():
        dice = Dice(f"{seed} {name}")
        holders = dice.shuffled(world().people)[: kind.people] if kind.people else [None] * THINGS
        values = dice.shuffled(world().pool(kind.values)) if kind.values else []
        dates: list[int] = []
        for number, holder in enumerate(holders):
            thing = number if holder is None or kind.things else None
            out.append(Fact(name, thing, holder, _versions(kind, dice, values, dates)))
    return out


def _versions(kind: Kind, dice: Dice, values: list[str], dates: list[int]) -> tuple[Version, ...]:
    """Return what becomes of a fact; take its values and dates from those that are left."""
    changes = dice.below(kind.changes + 1) if dice.chance(0.6) else kind.changes
    if kind.shape == "event":
        date = _free(dice, dates, 1, DAYS - 3)
        return (Version(date + dice.below(2), date=date),)
    if kind.shape == "plan":
        return _moved(kind, dice, changes, dates)
    told = sorted(dice.shuffled(range(DAYS))[: changes + 1])
    own: list[str] = []
    for _ in told:
        # The first that the fact itself has not had: where a pool is short, two facts may share a value.
        own.append(next(value for value in values if value not in own))
        values.remove(own[-1])
        values.append(own[-1])
    return tuple(Version(day, value) for day, value in zip(told, own, strict=True))


def _moved(kind: Kind, dice: Dice, changes: int, dates: list[int]) -> tuple[Version, ...]:
    """Return a plan that is moved so many times, each time before its day comes."""
    hour = dice.pick(world().pool("hours")) if kind.hour else ""
    told = dice.below(_LAST_PLAN)
    out = [Version(told, hour, _free(dice, dates, told + 3, told + 24))]
    for _ in range(changes):
        date = out[-1].date or 0
        told = dice.between(told + 1, min(date - 1, DAYS - 1))
        out.append(Version(told, hour, _free(dice, dates, told + 2, told + 24)))
    return tuple(out)


def _free(dice: Dice, dates: list[int], least: int, most: int) -> int:
    """Return a day that no other fact of the kind has: whoever asks for a day means one thing."""
    date = dice.pick([day for day in range(least, most + 1) if day not in dates])
    dates.append(date)
    return date
