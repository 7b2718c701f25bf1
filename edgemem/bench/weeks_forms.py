"""How things are said and asked: two sets of surface forms that share no sentence frame, each in a file of its own."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec

from edgemem.bench.weeks_facts import Fact, Person

FormSet = Literal["learnt", "unseen"]
"""`learnt` is what weights are fitted to, `unseen` what figures are reported on."""

ROBOT = "Pip"


class KindForms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The sentences about facts of one kind, one in a line; the head of `weeks_learnt.toml` explains the slots."""

    tell: str
    ask: str
    topic: str
    """What a question may call the whole matter."""
    it: str = ""
    """Follows somebody who has said what it is about."""
    things: str = ""
    never: str = ""
    """A thing of the kind that nobody ever speaks of."""
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
    """The sentences that belong to no kind."""

    lead: str
    go_on: str
    ack: str
    ack_change: str
    note: str
    note_reply: str
    unanswered: str
    no_idea: str
    small: str
    tail: str
    """May follow small talk."""
    reply: str
    after: str
    tools: str
    """What is wanted, what the tool answers, what the robot says."""
    who: str
    when: str
    prior: str
    """What was true before what is true now, where it changed more than once."""
    first: str
    off: str


class Forms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file."""

    kinds: dict[str, KindForms]
    talk: TalkForms


@lru_cache(maxsize=2)
def forms_of(name: FormSet) -> Forms:
    """Return a set of forms."""
    return msgspec.toml.decode(Path(__file__).with_name(f"weeks_{name}.toml").read_bytes(), type=Forms)


def lines(text: str, between: str = "\n") -> list[str]:
    """Return what stands on the lines of a text."""
    return [line.strip() for line in text.split(between) if line.strip()]


def speakers(frame: str, holder: Person | None, people: list[Person]) -> list[Person]:
    """Return who may say a frame: of a matter of one's own one says "I", of somebody else's the name."""
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
