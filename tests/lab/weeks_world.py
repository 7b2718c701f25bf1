"""The world of the weeks: what is true in a household over ten weeks, when it is told, and the words it is said in.

Kinds and values stand in `weeks_world.toml`; two sets of surface forms say them, and share no sentence frame.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

Item = TypeVar("Item")


class Dice:
    """Draws from a seed, a number or a text: the same one draws the same."""

    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(str(seed))

    def chance(self, share: float) -> bool:
        return self._random.random() < share

    def below(self, most: int) -> int:
        return int(self._random.random() * most)

    def between(self, least: int, most: int) -> int:
        """Return a whole number, both ends included."""
        return least + self.below(most - least + 1)

    def pick(self, items: Sequence[Item]) -> Item:
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        keys = [self._random.random() for _ in items]
        return [items[i] for i in sorted(range(len(items)), key=keys.__getitem__)]


DAYS = 70
THINGS = 3  # how many things of each kind there are facts about
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
    people: int = 0  # 0: facts of this kind are about the household


class World(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    people: list[Person]
    pools: dict[str, str]
    kinds: dict[str, Kind]

    def pool(self, name: str) -> list[str]:
        return " ".join(self.pools[name].split()).replace(" /", "/").split("/")


class Version(msgspec.Struct, frozen=True):
    told: int  # the day of the telling
    value: str = ""  # what is told; for plans and events the hour, or nothing
    date: int | None = None  # the day of a plan or an event


class Fact(msgspec.Struct, frozen=True):
    kind: str
    thing: int | None
    holder: Person | None
    versions: tuple[Version, ...]


@lru_cache(maxsize=1)
def world() -> World:
    return msgspec.toml.decode(Path(__file__).with_name("weeks_world.toml").read_bytes(), type=World)


def facts(seed: int) -> list[Fact]:
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


FormSet = Literal["learnt", "unseen"]
"""`learnt` is what weights are fitted to, `unseen` what figures are reported on."""

ROBOT = "Pip"


class KindForms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The sentences about facts of one kind, one in a line; the head of `weeks_learnt.toml` explains the slots."""

    tell: str
    ask: str
    topic: str  # what a question may call the whole matter
    it: str = ""  # follows somebody who has said what it is about
    things: str = ""
    never: str = ""  # a thing of the kind that nobody ever speaks of
    change: str = ""
    before: str = ""
    day: str = ""
    who: str = ""
    request: str = ""

    def names(self, thing: int) -> tuple[str, str]:
        """Return by which name a thing is told, and by which it is asked."""
        told, asked = lines(self.things, " / ")[thing].split(" = ")
        return told, asked


class TalkForms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    lead: str
    go_on: str
    ack: str
    ack_change: str
    note: str
    note_reply: str
    unanswered: str
    no_idea: str
    small: str
    tail: str  # may follow small talk
    reply: str
    after: str
    tools: str  # what is wanted, what the tool answers, what the robot says
    who: str
    when: str
    prior: str  # what was true before what is true now, where it changed more than once
    first: str
    off: str


class Forms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kinds: dict[str, KindForms]
    talk: TalkForms


@lru_cache(maxsize=2)
def forms_of(name: FormSet) -> Forms:
    return msgspec.toml.decode(Path(__file__).with_name(f"weeks_{name}.toml").read_bytes(), type=Forms)


def lines(text: str, between: str = "\n") -> list[str]:
    return [line.strip() for line in text.split(between) if line.strip()]


def speakers(frame: str, holder: Person | None, people: list[Person]) -> list[Person]:
    if holder is None or ("{ps}" in frame and "{p}" not in frame):
        return people
    return [person for person in people if person != holder] if "{p}" in frame else [holder]


def askers(frame: str, holder: Person | None, people: list[Person]) -> list[Person]:
    """Return who may ask a question: nobody calls himself by his name."""
    return [person for person in people if person != holder or "{p}" not in frame]


def filled(frame: str, *, speaker: Person, holder: Person | None = None, **slots: str) -> str:
    """Return a sentence: slots filled, capitals where sentences begin."""
    words = dict(slots, me=speaker.name)
    if holder is not None:
        words |= {"p": holder.name, "he": holder.he, "him": holder.him, "his": holder.his}
        words["ps"] = "my" if speaker == holder else f"{holder.name}'s"
    # Twice: a topic has slots of its own.
    for _ in range(2):
        frame = re.sub(r"\{(\w+)\}", lambda slot: words[slot[1]], frame)
    return re.sub(r"(^|[.?!] )([a-z])", lambda found: found[1] + found[2].upper(), frame)


def subject(forms: Forms, fact: Fact) -> str:
    """Return what a fact is about, as somebody says who is going to tell it."""
    kind = forms.kinds[fact.kind]
    return kind.topic if fact.thing is None or fact.holder is not None else "{thing}"
