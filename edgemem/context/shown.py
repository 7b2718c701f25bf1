"""Shown: one line of what memory put before the model, and what the model takes it for."""

from __future__ import annotations

from functools import cached_property

import msgspec

from edgemem.records import Level

RANK: dict[Level, int] = {"shared": 0, "household": 1, "private": 2}
"""How closed a level is."""

About = tuple[str, str, str]
"""What a line gives the value of: `fact` or `preference`, scope and key."""

IN_A_LINE_ABOVE = "(in a line above)"
"""How a person is told of an item whose line is empty: what one person said on a day stands in one line."""

_PART = "/part"
_PAST = "/past"


def part_of(name: str) -> str:
    """Return the id of an excerpt of an item: the rest of it was not shown."""
    return name + _PART


def past_of(name: str) -> str:
    """Return the id of the line that tells of a fact that it does not hold any more."""
    return name + _PAST


class Shown(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a block: which item it is, and who may read it."""

    id: str
    line: str
    level: Level = "household"
    owner: str | None = None
    fact: tuple[str, str] | None = None
    """Scope and key, when the item is of a fact."""
    value: str = ""
    preference: tuple[str, str] | None = None
    """Scope and key, when the item is of a preference."""
    passing: bool = False
    """Whether it is said now and stored nowhere: it tells that something was erased."""

    @property
    def item(self) -> str:
        """Return the id of the item, also where only an excerpt of it is shown, or that it is past."""
        return self.id.removesuffix(_PART).removesuffix(_PAST)

    @property
    def about(self) -> About | None:
        """Return what the model takes this for the value of; a doubt only stands beside one, and so does what is past."""
        if self.fact is None:
            return None if self.preference is None else ("preference", *self.preference)
        beside = self.id.startswith("doubt:") or self.id.endswith(_PAST)
        return None if beside else ("fact", *self.fact)


class Visible(dict[str, Shown]):
    """What a prompt holds, by item id, in the order in which it was told; never changed once it is made."""

    @cached_property
    def _about(self) -> dict[str, About]:
        return {name: about for name, item in self.items() if (about := item.about) is not None}

    @cached_property
    def newest(self) -> dict[About, Shown]:
        """What it says last of each key."""
        return {about: self[name] for name, about in self._about.items()}

    @cached_property
    def valued(self) -> frozenset[str]:
        """The ids of lines that give a key its value."""
        return frozenset(self._about)

    @cached_property
    def others(self) -> frozenset[str]:
        """The ids of all other lines."""
        return frozenset(self).difference(self.valued)
