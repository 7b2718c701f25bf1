"""A household robot's ten weeks, made from a seed: what was said, and 400 questions with the messages that answer them.

People tell the robot things (`Talk`), much of which is superseded later; afterwards they ask, mostly in other words
(`Asking`). The same seed and forms give the same bytes on every Python.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from lab import weeks_days
from lab.weeks_world import (
    DAYS,
    Dice,
    Fact,
    Forms,
    FormSet,
    Person,
    Version,
    askers,
    facts,
    filled,
    forms_of,
    lines,
    speakers,
    subject,
    world,
)

TURNS_A_DAY = 32
_SESSIONS = ((7 * 3600, 10 * 3600), (16 * 3600, 21 * 3600))
"""Between which seconds of a day its two sessions begin."""


class Turn(msgspec.Struct, frozen=True):
    id: str
    session: str
    at: int
    speaker: str | None  # None: the robot, or one of its tools
    role: Literal["user", "assistant", "tool"]
    text: str


class Telling(msgspec.Struct, frozen=True):
    fact: Fact
    version: Version
    speaker: Person | None
    said: str  # how the value, or the day, was put
    ids: tuple[str, ...]


class _Said(msgspec.Struct):
    speaker: Person | None
    text: str
    role: Literal["user", "assistant", "tool"] = "user"
    telling: int | None = None  # the number of the telling that it is evidence of
    unknown: bool = False  # whether it asks for what is told on a later day


class Talk:
    """Says all facts of a household in these sentences, day after day; the seed decides who says what, and how."""

    def __init__(self, forms: Forms, facts: list[Fact], seed: int) -> None:
        self.turns: list[Turn] = []
        self.tellings: list[Telling] = []
        self.unanswered: set[str] = set()  # the ids of questions that came too early
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
        """Return a question that comes too early, to which the robot says, often in its words, that it does not know."""
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
        dice = self._dice
        other = dice.pick([person for person in self._people if person != speaker])
        named = dice.pick([kind for kind in self._forms.kinds.values() if " the " in f" {kind.things}"])
        thing = named.names(dice.below(3))[0]
        return filled(dice.pick(lines(self._forms.talk.small)), speaker=speaker, holder=other, thing=thing)

    def _tool(self) -> list[_Said]:
        speaker = self._dice.pick(self._people)
        other = self._dice.pick([person for person in self._people if person != speaker])
        order, outcome, reply = lines(self._dice.pick(lines(self._forms.talk.tools)), "|")
        return [
            _Said(speaker, filled(order, speaker=speaker, holder=other)),
            _Said(None, outcome, "tool"),
            _Said(None, reply, "assistant"),
        ]


Category = Literal["present", "updated", "superseded", "when", "on_day", "who", "off_topic"]

MOST: dict[Category, int] = {
    "present": 85, "updated": 85, "superseded": 115, "when": 100, "on_day": 40, "who": 50, "off_topic": 60,
}  # fmt: skip
"""How many questions there are of each category, where there are facts for so many."""

SAME_NAME = 0.85  # how often a question calls a thing as those did who told of it


class Question(msgspec.Struct, frozen=True):
    id: str
    text: str
    asker: str
    at: int
    category: Category
    """present: a fact that never changed. updated: one that did, as it is now. superseded: as it was. when: its day,
    or the day on which it was told. on_day: what a day brought. who: who did or told it. off_topic: nobody said."""
    evidence: tuple[str, ...]  # messages; two where one says what it is about and the other the rest
    answer: str
    said: str = ""
    """The answer as the evidence words it; empty where it is the day or the speaker of the message, or there is none."""


class _Asked(msgspec.Struct):
    category: Category
    frame: str
    telling: Telling | None
    answer: str
    said: str = ""
    fact: Fact | None = None
    never: str = ""
    unless: Person | None = None  # who does not ask, as it was them who said it


class Asking:
    """Makes the questions about what was told, from each version of each fact, and where it stands."""

    def __init__(self, forms: Forms, facts: list[Fact], tellings: list[Telling], seed: int) -> None:
        self._forms = forms
        self._facts = facts
        self._dice = Dice(f"{seed} questions")
        self._people = world().people
        self._told: dict[int, list[Telling]] = {
            number: [telling for telling in tellings if telling.fact is fact]
            for number, fact in enumerate(facts)
        }
        self._now = DAYS

    def questions(self) -> list[Question]:
        """Return all questions, in an order of no meaning."""
        asked = [one for told in self._told.values() for one in self._about(told)] + self._off_topic()
        kept: list[_Asked] = []
        for category, most in MOST.items():
            kept += self._dice.shuffled([one for one in asked if one.category == category])[:most]
        return [self._question(number, one) for number, one in enumerate(self._dice.shuffled(kept), 1)]

    def _about(self, told: list[Telling]) -> list[_Asked]:
        fact, last = told[0].fact, told[-1]
        kind, talk, pick = self._forms.kinds[fact.kind], self._forms.talk, self._dice.pick
        moved, dated = len(told) > 1, last.version.date is not None
        now: Category = "when" if dated else "updated" if moved else "present"
        out = [_Asked(now, pick(lines(kind.ask)), last, _answer(last), last.said)]
        if moved:
            # "Before" means one thing only where there was one change; the frames of a kind do not tell "at first" apart.
            early, frames = told[-2], kind.before if len(told) == 2 else talk.prior
            out.append(_Asked("superseded", pick(lines(frames)), early, _answer(early), early.said))
        if len(told) > 2:
            out.append(_Asked("superseded", pick(lines(talk.first)), told[0], _answer(told[0]), told[0].said))
        if last.version.date is not None and last.version.date < DAYS:
            thing = kind.names(fact.thing or 0)[0]
            out.append(_Asked("on_day", pick(lines(kind.day)), last, thing, thing))
        if kind.who and fact.holder is not None:
            out.append(_Asked("who", pick(lines(kind.who)), last, fact.holder.name))
        elif last.speaker is not None and not dated:
            out.append(_Asked("who", pick(lines(talk.who)), last, last.speaker.name, unless=last.speaker))
        if not dated and not kind.request and self._dice.chance(0.4):
            out.append(_Asked("when", pick(lines(talk.when)), last, weeks_days.written(last.version.told)))
        return out

    def _off_topic(self) -> list[_Asked]:
        """Return questions without an answer: things and attributes nobody spoke of, people of whom it was not told."""
        strange, unknown, lacking = [], [], []
        for name, kind in world().kinds.items():
            forms = self._forms.kinds[name]
            frame = self._dice.pick(lines(forms.ask))
            if forms.never:
                strange.append(
                    _Asked("off_topic", frame, None, "", fact=Fact(name, None, None, ()), never=forms.never)
                )
            elif kind.people and not kind.things:
                known = [fact.holder for fact in self._facts if fact.kind == name]
                who = self._dice.pick([person for person in self._people if person not in known])
                lacking.append(_Asked("off_topic", frame, None, "", fact=Fact(name, None, who, ())))
        for frame in lines(self._forms.talk.off):
            who = self._dice.pick(self._people)
            unknown.append(_Asked("off_topic", frame, None, "", fact=Fact("", None, who, ())))
        return strange + unknown + lacking

    def _question(self, number: int, one: _Asked) -> Question:
        telling = one.telling
        fact = telling.fact if telling is not None else one.fact
        holder = fact.holder if fact is not None else None
        day = self._now + self._dice.below(3)
        at = weeks_days.moment(day, self._dice.between(7 * 3600, 21 * 3600))
        asker = self._dice.pick(
            [person for person in askers(one.frame, holder, self._people) if person != one.unless]
        )
        slots = {"thing": one.never, "is": "is", "does": "does"}
        if fact is not None and fact.kind:
            kind = self._forms.kinds[fact.kind]
            slots["topic"] = kind.topic
            if fact.thing is not None:
                told, asked = kind.names(fact.thing)
                slots["thing"] = told if self._dice.chance(SAME_NAME) else asked
        if telling is not None and telling.version.date is not None:
            if telling.version.date < day:
                slots |= {"is": "was", "does": "did"}
            if one.category == "on_day":
                slots["day"] = self._dice.pick(weeks_days.gone(day, telling.version.date))
        return Question(
            f"q{number:03}",
            filled(one.frame, speaker=asker, holder=holder, **slots),
            asker.name,
            at,
            one.category,
            telling.ids if telling is not None else (),
            one.answer,
            one.said,
        )


def _answer(telling: Telling) -> str:
    version = telling.version
    if version.date is None:
        return version.value
    date = weeks_days.written(version.date)
    return f"{date}, {version.value}" if version.value else date


class Weeks(msgspec.Struct, frozen=True):
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]


def weeks(seed: int = 1, forms: FormSet = "learnt") -> Weeks:
    """Return the weeks of a household, the same facts in both sets of words: weights are learnt on `learnt`, reported on `unseen`."""
    true, said = facts(seed), forms_of(forms)
    talk = Talk(said, true, seed)
    return Weeks(tuple(talk.turns), tuple(Asking(said, true, talk.tellings, seed).questions()))
