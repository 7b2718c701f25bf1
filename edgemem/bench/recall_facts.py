"""Facts of our own corpus: whether a question finds the value that holds, the one before, and the one of another time.

What people tell in the weeks is stored as facts, each version valid from when it was told, under keys such as a model would
write (`cordless_drill.tools`). Asked are the questions of the corpus that ask for a value, among the messages of the same
home and all other facts; and those about what holds now twice more, of a day on which the value before did: with `valid_at`, and
with the day in front of the question and nothing else to tell.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.bench import weeks_days
from edgemem.bench.bootstrap import interval
from edgemem.bench.recall_home import IDLE_S
from edgemem.bench.weeks_facts import facts
from edgemem.bench.weeks_forms import forms_of
from edgemem.bench.weeks_talk import Talk
from edgemem.records import Heard
from edgemem.store.facts import assert_fact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.bench.recall_home import Filled
    from edgemem.bench.weeks import FormSet, Question, Weeks
    from edgemem.bench.weeks_forms import Forms
    from edgemem.bench.weeks_talk import Telling
    from edgemem.store.transaction import Transaction

SCOPE = "household"
CUTS = (1, 5)
_NOON = 12 * 3600
_AT_A_TIME, _ON_A_DATE = "at_a_time", "on_a_date"


class FactAsked(msgspec.Struct, frozen=True):
    """A question, and the fact that answers it."""

    question: Question
    category: str
    key: str
    value: str
    valid_at: float | None = None


def fact_figures(here: Filled, made: Weeks, *, seed: int, forms: FormSet) -> dict[str, Any]:
    """Store the facts of the weeks in a home that holds what was said, ask for them, and return what was found.

    Args:
        seed: of the weeks.
        forms: their words.
    """
    said = forms_of(forms)
    told = [one for one in Talk(said, facts(seed), seed).tellings if one.version.value]
    now = here.clock.at
    here.memory.database.write(lambda tx: _store(tx, told, said))
    here.memory.idle(IDLE_S)
    scores: dict[str, list[list[float]]] = {}
    for asked in _asked(made, told, said):
        here.clock.at = max(now, float(asked.question.at))
        found = here.memory.recall(
            asked.question.text,
            speaker=asked.question.asker,
            k=max(CUTS),
            kinds={"fact"},
            valid_at=asked.valid_at,
        )
        right = [(item.key, item.value) == (asked.key, asked.value) for item in found]
        scores.setdefault(asked.category, []).append([float(any(right[:cut])) for cut in CUTS])
    return {
        category: {"n": len(each)}
        | {
            f"found@{cut}": msgspec.structs.asdict(interval([one[n] for one in each]))
            for n, cut in enumerate(CUTS)
        }
        for category, each in sorted(scores.items())
    }


def _store(tx: Transaction, told: list[Telling], forms: Forms) -> None:
    for one in told:
        at = float(weeks_days.moment(one.version.told, _NOON))
        heard = Heard(speaker=one.speaker.name if one.speaker is not None else None, event_time=at)
        assert_fact(tx, _key(one, forms), one.version.value, scope=SCOPE, valid_from=at, heard=heard)


def _asked(made: Weeks, told: list[Telling], forms: Forms) -> Iterator[FactAsked]:
    """Yield the questions that ask for a value, and the same of another time."""
    by_evidence = {one.ids: one for one in told if one.version.date is None}
    for question in made.questions:
        one = by_evidence.get(question.evidence)
        if one is None or question.category not in ("present", "updated", "superseded"):
            continue
        key = _key(one, forms)
        yield FactAsked(question, question.category, key, one.version.value)
        if question.category == "updated":
            # In the middle of the days on which the value before held.
            *_, before, last = (each.version for each in told if each.fact is one.fact)
            middle = weeks_days.moment(before.told, _NOON) + (last.told - before.told) * 43_200
            yield FactAsked(question, _AT_A_TIME, key, before.value, float(middle))
            dated = f"{weeks_days.written(weeks_days.number_of(middle))}: {question.text}"
            yield FactAsked(msgspec.structs.replace(question, text=dated), _ON_A_DATE, key, before.value)


def _key(one: Telling, forms: Forms) -> str:
    fact = one.fact
    thing = forms.kinds[fact.kind].names(fact.thing)[0] if fact.thing is not None else ""
    parts = (fact.holder.name if fact.holder is not None else "", thing.removeprefix("the "), fact.kind)
    return ".".join(re.sub(r"\W+", "_", part).strip("_").lower() for part in parts if part)
