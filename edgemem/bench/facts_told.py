"""Facts of our own corpus as a robot would have stored them, the questions that ask for them, and those that none answers.

What people tell in the weeks is stored under keys such as a model would write (`cordless_drill.tools`), each version valid
from when it was told; what somebody has and never changed is a preference. Of everyday questions that do need a memory
(`talk.toml`), those are foreign to the household that name nothing, and no part of anything, of which a fact tells.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

import msgspec

from edgemem.bench import weeks_days
from edgemem.bench.recall_talk import phrases
from edgemem.bench.weeks_dice import Dice
from edgemem.bench.weeks_facts import facts
from edgemem.bench.weeks_forms import forms_of
from edgemem.bench.weeks_talk import Talk
from edgemem.recall.words import terms
from edgemem.records import Heard
from edgemem.store.facts import assert_fact
from edgemem.store.preferences import put_preference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.bench.weeks import FormSet, Question, Weeks
    from edgemem.bench.weeks_talk import Telling
    from edgemem.memory import Memory
    from edgemem.store.transaction import Transaction

SCOPE = "household"
ASKED_FOR = ("present", "updated", "superseded")
"""Categories of questions that a value answers."""
AT_A_TIME, ON_A_DATE, PREFERENCE = "at_a_time", "on_a_date", "preference"
_NOON = 12 * 3600

Value = tuple[str, str]
"""A key and its value."""


class FactAsked(msgspec.Struct, frozen=True):
    """A question, and the fact that answers it."""

    question: Question
    category: str
    key: str
    value: str
    valid_at: float | None = None

    @property
    def right(self) -> Value:
        """Return key and value of what answers."""
        return self.key, self.value


class FactsTold:
    """What the weeks tell.

    Args:
        seed: of the weeks.
        forms: their words.
        most: things of which something is stored; None: all. What asks for the others is answered by none.
    """

    def __init__(self, made: Weeks, *, seed: int, forms: FormSet, most: int | None = None) -> None:
        self._made = made
        self._forms = forms_of(forms)
        self._half: Literal["seen", "unseen"] = "seen" if forms == "learnt" else "unseen"
        self._told = [one for one in Talk(self._forms, facts(seed), seed).tellings if one.version.value]
        self._stored = self._told
        if most is not None:
            kept = set(Dice(f"{seed} facts").shuffled(sorted(self.keys))[:most])
            self._stored = [one for one in self._told if self._key(one) in kept]

    @property
    def keys(self) -> set[str]:
        """Return the keys of all that is stored."""
        return {self._key(one) for one in self._stored}

    def store(self, memory: Memory) -> None:
        """Store them."""
        memory.database.write(self._store)

    def _store(self, tx: Transaction) -> None:
        for one in self._stored:
            at = float(weeks_days.moment(one.version.told, _NOON))
            if _lasts(one):
                put_preference(tx, self._key(one), one.version.value, scope=SCOPE)
                continue
            heard = Heard(speaker=one.speaker.name if one.speaker is not None else None, event_time=at)
            assert_fact(tx, self._key(one), one.version.value, scope=SCOPE, valid_from=at, heard=heard)

    def asked(self) -> Iterator[FactAsked]:
        """Yield the questions that ask for a value.

        Those about what holds now come twice more, of a day on which the value before did: with `valid_at`, and with the
        day in front of the question and nothing else to tell.
        """
        by_evidence = {one.ids: one for one in self._stored if one.version.date is None}
        for question in self._made.questions:
            one = by_evidence.get(question.evidence)
            if one is None or question.category not in ASKED_FOR:
                continue
            key = self._key(one)
            yield FactAsked(
                question, PREFERENCE if _lasts(one) else question.category, key, one.version.value
            )
            if question.category == "updated":
                # In the middle of the days on which the value before held.
                *_, before, last = (each.version for each in self._told if each.fact is one.fact)
                middle = weeks_days.moment(before.told, _NOON) + (last.told - before.told) * 43_200
                yield FactAsked(question, AT_A_TIME, key, before.value, float(middle))
                dated = f"{weeks_days.written(weeks_days.number_of(middle))}: {question.text}"
                yield FactAsked(msgspec.structs.replace(question, text=dated), ON_A_DATE, key, before.value)

    def off_topic(self) -> list[Question]:
        """Return the questions that nothing answers: of the same kinds, things and people."""
        stored = {one.ids for one in self._stored}
        untold = {one.ids for one in self._told if one.version.date is None} - stored
        return [
            one
            for one in self._made.questions
            if one.category == "off_topic" or (one.category in ASKED_FOR and one.evidence in untold)
        ]

    def foreign(self) -> list[str]:
        """Return questions of everyday life that speak of nothing which is told here."""
        names = {stem for key in self.keys for stem in terms(key.partition(".")[0].replace("_", " "))}
        return [text for text in phrases("needed", self._half) if names.isdisjoint(terms(text))]

    def _key(self, one: Telling) -> str:
        fact = one.fact
        thing = self._forms.kinds[fact.kind].names(fact.thing)[0] if fact.thing is not None else ""
        parts = (fact.holder.name if fact.holder is not None else "", thing.removeprefix("the "), fact.kind)
        return ".".join(re.sub(r"\W+", "_", part).strip("_").lower() for part in parts if part)


def _lasts(one: Telling) -> bool:
    """Tell whether somebody has or likes it, and it never changed."""
    fact = one.fact
    return fact.holder is not None and one.version.date is None and len(fact.versions) == 1
