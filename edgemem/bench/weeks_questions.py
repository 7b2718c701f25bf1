"""What is asked after ten weeks: each question with the messages that answer it, or without, where none does."""

from __future__ import annotations

from typing import Literal

import msgspec

from edgemem.bench import weeks_days
from edgemem.bench.weeks_dice import Dice
from edgemem.bench.weeks_facts import DAYS, Fact, Person, world
from edgemem.bench.weeks_forms import Forms, askers, filled, lines
from edgemem.bench.weeks_talk import Telling

Category = Literal["present", "updated", "superseded", "when", "on_day", "who", "off_topic"]

MOST: dict[Category, int] = {
    "present": 85, "updated": 85, "superseded": 115, "when": 100, "on_day": 40, "who": 50, "off_topic": 60,
}  # fmt: skip
"""How many questions there are of each category, where there are facts for so many."""

SAME_NAME = 0.85
"""How often a question calls a thing as those did who told of it."""


class Question(msgspec.Struct, frozen=True):
    """What somebody asks."""

    id: str
    text: str
    asker: str
    at: int
    category: Category
    """present: a fact that never changed. updated: one that did, as it is now. superseded: as it was. when: its day,
    or the day on which it was told. on_day: what a day brought. who: who did or told it. off_topic: nobody said."""
    evidence: tuple[str, ...]
    """Messages; two where one says what it is about and the other the rest."""
    answer: str
    said: str = ""
    """The answer as the evidence words it; empty where it is the day or the speaker of the message, or there is none."""


class _Asked(msgspec.Struct):
    """A question that has no number yet."""

    category: Category
    frame: str
    telling: Telling | None
    answer: str
    said: str = ""
    fact: Fact | None = None
    never: str = ""
    unless: Person | None = None
    """Who does not ask, as it was them who said it."""


class Asking:
    """Makes the questions about what was told.

    Args:
        tellings: each version of each fact, and where it stands.
    """

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
        """Return what may be asked about one fact."""
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
    """Return what was told, days as dates."""
    version = telling.version
    if version.date is None:
        return version.value
    date = weeks_days.written(version.date)
    return f"{date}, {version.value}" if version.value else date
