"""What is said in the household: facts as they are told, noted and looked up, and all the talk around them."""

from __future__ import annotations

from typing import Literal

import msgspec

from edgemem.bench import weeks_days
from edgemem.bench.weeks_dice import Dice
from edgemem.bench.weeks_facts import DAYS, Fact, Person, Version, world
from edgemem.bench.weeks_forms import Forms, filled, lines, speakers, subject

TURNS_A_DAY = 32
_SESSIONS = ((7 * 3600, 10 * 3600), (16 * 3600, 21 * 3600))
"""Between which seconds of a day its two sessions begin."""


class Turn(msgspec.Struct, frozen=True):
    """One message."""

    id: str
    session: str
    at: int
    speaker: str | None
    """None: the robot, or one of its tools."""
    role: Literal["user", "assistant", "tool"]
    text: str


class Telling(msgspec.Struct, frozen=True):
    """Where a version of a fact was told, and in which words."""

    fact: Fact
    version: Version
    speaker: Person | None
    said: str
    """How the value, or the day, was put."""
    ids: tuple[str, ...]


class _Said(msgspec.Struct):
    """A message that has no place yet."""

    speaker: Person | None
    text: str
    role: Literal["user", "assistant", "tool"] = "user"
    telling: int | None = None
    """The number of the telling that it is evidence of."""
    unknown: bool = False
    """Whether it asks for what is told on a later day."""


class Talk:
    """Says all facts of a household, day after day.

    Args:
        forms: the sentences.
        seed: decides who says what, and how.
    """

    def __init__(self, forms: Forms, facts: list[Fact], seed: int) -> None:
        self.turns: list[Turn] = []
        self.tellings: list[Telling] = []
        self.unanswered: set[str] = set()
        """The ids of questions that came too early."""
        self._forms = forms
        self._dice = Dice(f"{seed} talk")
        self._people = world().people
        self._facts = facts
        self._told: list[Telling] = []
        ids: dict[int, list[str]] = {}
        for day in range(DAYS):
            for half, exchanges in enumerate(self._halves(day)):
                self._session(day, half, [said for exchange in exchanges for said in exchange], ids)
        self.tellings = [
            msgspec.structs.replace(telling, ids=tuple(ids[number]))
            for number, telling in enumerate(self._told)
        ]

    def _halves(self, day: int) -> tuple[list[list[_Said]], list[list[_Said]]]:
        """Return what is said in a day's two sessions."""
        exchanges = [
            self._tell(fact, version)
            for fact in self._facts
            for version in fact.versions
            if version.told == day
        ]
        later = [fact for fact in self._facts if fact.versions[0].told > day]
        if later and self._dice.chance(0.6):
            exchanges.append(self._unanswered(self._dice.pick(later)))
        while sum(map(len, exchanges)) < TURNS_A_DAY:
            exchanges.append(self._tool() if self._dice.chance(0.15) else self._small())
        exchanges = self._dice.shuffled(exchanges)
        half = len(exchanges) // 2
        return exchanges[:half], exchanges[half:]

    def _session(self, day: int, half: int, said: list[_Said], ids: dict[int, list[str]]) -> None:
        """Give messages their place and time."""
        session = f"s{2 * day + half + 1:03}"
        at = weeks_days.moment(day, self._dice.between(*_SESSIONS[half]))
        for number, one in enumerate(said, 1):
            at += self._dice.between(4, 40)
            name = one.speaker.name if one.speaker is not None else None
            self.turns.append(Turn(f"{session}.{number:02}", session, at, name, one.role, one.text))
            if one.unknown:
                self.unanswered.add(self.turns[-1].id)
            if one.telling is not None:
                ids.setdefault(one.telling, []).append(self.turns[-1].id)

    def _tell(self, fact: Fact, version: Version) -> list[_Said]:
        """Return how a version is told: at once, as a note, after a word on what it is about, or by the robot."""
        dice, kind = self._dice, self._forms.kinds[fact.kind]
        thing = kind.names(fact.thing)[0] if fact.thing is not None else ""
        said, number, first = self._put(version), len(self._told), version == fact.versions[0]
        if kind.request:
            speaker, frame = dice.pick(self._people), dice.pick(lines(kind.tell))
            self._told.append(Telling(fact, version, None, said, ()))
            return [
                _Said(speaker, filled(dice.pick(lines(kind.request)), speaker=speaker, thing=thing)),
                _Said(None, f'{{"look_up": "done", "ms": {dice.between(180, 2400)}}}', "tool"),
                _Said(None, filled(frame, speaker=speaker, thing=thing, value=said), "assistant", number),
            ]
        led = dice.chance(0.12)
        frame = dice.pick(lines(kind.it if led else kind.tell if first else kind.change))
        may = [fact.holder] if led and fact.holder is not None else speakers(frame, fact.holder, self._people)
        speaker = dice.pick(may)
        self._told.append(Telling(fact, version, speaker, said, ()))
        text = filled(frame, speaker=speaker, holder=fact.holder, thing=thing, value=said)
        if led:
            return [
                *self._lead(fact, speaker, number),
                _Said(speaker, text, telling=number),
                self._answer(speaker, first=first),
            ]
        if dice.chance(0.12):
            return [
                _Said(speaker, f"{dice.pick(lines(self._forms.talk.note))} {text}", telling=number),
                _Said(None, f'{{"note": {dice.between(11, 99)}, "saved": true}}', "tool"),
                _Said(
                    None, filled(dice.pick(lines(self._forms.talk.note_reply)), speaker=speaker), "assistant"
                ),
            ]
        if dice.chance(0.15):
            text = f"{self._small_line(speaker)} {text}"
        return [_Said(speaker, text, telling=number), self._answer(speaker, first=first)]

    def _lead(self, fact: Fact, speaker: Person, number: int) -> list[_Said]:
        """Return what somebody says to begin with; without it nobody could tell what "it" is."""
        talk, dice = self._forms.talk, self._dice
        slots = {"thing": ""}
        if fact.thing is not None:
            slots["thing"] = self._forms.kinds[fact.kind].names(fact.thing)[0]
        lead = dice.pick(lines(talk.lead))
        text = filled(lead, speaker=speaker, holder=fact.holder, subject=subject(self._forms, fact), **slots)
        out = [_Said(speaker, text, telling=number)]
        # Half the time the recogniser only took a breath for an end, and the rest follows at once.
        return [*out, _Said(None, dice.pick(lines(talk.go_on)), "assistant")] if dice.chance(0.5) else out

    def _answer(self, speaker: Person, *, first: bool) -> _Said:
        talk = self._forms.talk
        frame = self._dice.pick(lines(talk.ack if first else talk.ack_change))
        return _Said(None, filled(frame, speaker=speaker), "assistant")

    def _put(self, version: Version) -> str:
        """Return a value as it is spoken, a day as one speaks of it on the day of the telling."""
        if version.date is None:
            return version.value
        if version.date <= version.told:
            return self._dice.pick(weeks_days.just_gone(version.told, version.date))
        day = self._dice.pick(weeks_days.coming(version.told, version.date))
        return f"{day} at {version.value}" if version.value else day

    def _unanswered(self, fact: Fact) -> list[_Said]:
        """Return a question that comes too early: what it asks for is told on a later day.

        The robot says that it does not know, often in the question's own words, as language models do.
        """
        talk, kind = self._forms.talk, self._forms.kinds[fact.kind]
        frame, speaker = self._dice.pick(lines(talk.unanswered)), self._dice.pick(self._people)
        thing = self._dice.pick(kind.names(fact.thing)) if fact.thing is not None else ""
        text = filled(frame, speaker=speaker, holder=fact.holder, topic=kind.topic, thing=thing)
        # It calls nobody's things its own.
        other = next(person for person in self._people if person != fact.holder)
        no_idea = self._dice.pick(lines(talk.no_idea))
        reply = filled(no_idea, speaker=other, holder=fact.holder, topic=kind.topic, thing=thing)
        return [_Said(speaker, text, unknown=True), _Said(None, reply, "assistant")]

    def _small(self) -> list[_Said]:
        """Return small talk: two lines, or three."""
        talk, speaker = self._forms.talk, self._dice.pick(self._people)
        line = self._small_line(speaker)
        if self._dice.chance(0.5):
            line = f"{line} {self._dice.pick(lines(talk.tail))}"
        out = [_Said(speaker, line)]
        out.append(_Said(None, self._dice.pick(lines(talk.reply)), "assistant"))
        if self._dice.chance(0.4):
            out.append(_Said(speaker, self._dice.pick(lines(talk.after))))
        return out

    def _small_line(self, speaker: Person) -> str:
        """Return a line that says nothing, often about a thing or a person that facts are about."""
        dice = self._dice
        other = dice.pick([person for person in self._people if person != speaker])
        named = dice.pick([kind for kind in self._forms.kinds.values() if " the " in f" {kind.things}"])
        thing = named.names(dice.below(3))[0]
        return filled(dice.pick(lines(self._forms.talk.small)), speaker=speaker, holder=other, thing=thing)

    def _tool(self) -> list[_Said]:
        """Return an order, what its tool answers, and what the robot says then."""
        speaker = self._dice.pick(self._people)
        other = self._dice.pick([person for person in self._people if person != speaker])
        order, outcome, reply = lines(self._dice.pick(lines(self._forms.talk.tools)), "|")
        return [
            _Said(speaker, filled(order, speaker=speaker, holder=other)),
            _Said(None, outcome, "tool"),
            _Said(None, reply, "assistant"),
        ]
