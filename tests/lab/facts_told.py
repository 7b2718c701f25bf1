"""Facts of our own corpus as a robot would have stored them, and which questions find the value that answers.

Each version is stored under a key such as a model would write, valid from when it was told; what never changed is a
preference. Questions ask for what holds, what held before, and what held at a time. Two more figures count what the floors
of the profile cost, and how often a fact is shown where nothing answers, or where nobody wants anything of a memory.
"""

from __future__ import annotations

import re
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from edgemem.recall.text.analyse import terms
from edgemem.records import Heard
from edgemem.store.facts import assert_fact
from edgemem.store.memory_store import put_preference
from lab import weeks_days
from lab.bootstrap import interval
from lab.recall_asking import READER, Turns
from lab.recall_cases import phrases
from lab.recall_home import IDLE_S
from lab.weeks import Talk
from lab.weeks_world import Dice, facts, forms_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from edgemem.memory import Memory
    from edgemem.records import Kind, Recalled
    from edgemem.store.db.transaction import Transaction
    from lab.recall_home import Filled
    from lab.weeks import Question, Telling, Weeks
    from lab.weeks_world import FormSet


SCOPE = "household"
ASKED_FOR = ("present", "updated", "superseded")  # categories of questions that a value answers
AT_A_TIME, ON_A_DATE, PREFERENCE = "at_a_time", "on_a_date", "preference"
_NOON = 12 * 3600
Value = tuple[str, str]  # a key and its value


class FactAsked(msgspec.Struct, frozen=True):
    question: Question
    category: str
    key: str
    value: str
    valid_at: float | None = None

    @property
    def right(self) -> Value:
        return self.key, self.value


class FactsTold:
    """What the weeks tell.

    Args:
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
        return {self._key(one) for one in self._stored}

    def store(self, memory: Memory) -> None:
        memory.diagnostics.database.write(self._store)

    def _store(self, tx: Transaction) -> None:
        for one in self._stored:
            at = float(weeks_days.moment(one.version.told, _NOON))
            if _lasts(one):
                put_preference(tx, self._key(one), one.version.value, scope=SCOPE)
                continue
            heard = Heard(speaker=one.speaker.name if one.speaker is not None else None, event_time=at)
            assert_fact(tx, self._key(one), one.version.value, scope=SCOPE, valid_from=at, heard=heard)

    def asked(self) -> Iterator[FactAsked]:
        """Yield the questions that ask for a value; those about the present also of an earlier day, by `valid_at` and by their words."""
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


CUTS = (1, 5)
_DEPTH = 100
_VALUES: frozenset[Kind] = frozenset(("fact", "preference"))


def fact_figures(here: Filled, told: FactsTold, talk: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Store the facts of the weeks in a home that holds what was said, ask for them, and return what was found."""
    now = here.clock.at
    told.store(here.memory)
    here.memory.idle(IDLE_S)
    asked = list(told.asked())
    scores: dict[str, list[list[float]]] = {}
    kept, places = [], []
    for one in asked:
        here.clock.at = max(now, float(one.question.at))
        right = [_of(item) == one.right for item in _found(here, one, kinds=_VALUES)]
        scores.setdefault(one.category, []).append([float(any(right[:cut])) for cut in CUTS])
        if one.category in (*ASKED_FOR, PREFERENCE):
            least = here.memory.profile.injection.floor
            kept.append(any(_of(item) == one.right for item in _found(here, one, kinds=_VALUES, least=least)))
            there = [_of(item) == one.right for item in _found(here, one, k=_DEPTH)]
            places.append(there.index(True) + 1 if any(there) else _DEPTH + 1)
    here.clock.at = now
    whole = [each[-1] for category in (*ASKED_FOR, PREFERENCE) for each in scores.get(category, [])]
    return {
        category: {"n": len(each)} | {f"found@{cut}": _share(one[n] for one in each) for n, cut in enumerate(CUTS)}
        for category, each in sorted(scores.items())
    } | {
        "at_the_floor": {
            "recall@5": _share(whole),
            "recall@5_min_score": _share(map(float, kept)),
            "cost_recall@5": round(_mean(whole) - _mean(kept), 4),
        },
        "among_all_kinds": {
            "first": _share(float(place == 1) for place in places),
            "among_5": _share(float(place <= CUTS[-1]) for place in places),
            "median_place": median(places) if places else None,
        },
        **_unasked_for(here, told, talk),
    }  # fmt: skip


def _unasked_for(here: Filled, told: FactsTold, talk: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return how often a fact is found, and put into a block, that nobody asks for."""
    turns, keys = Turns(here.memory), [f"{key}: " for key in told.keys]

    def told_in_block(text: str, speaker: str) -> float:
        lines = turns.block(text, speaker).lines()
        return float(any(key in line for line in lines for key in keys))

    def returned(text: str, speaker: str) -> float:
        least = here.memory.profile.injection.floor
        return float(bool(here.memory.recall(text, speaker=speaker, kinds=_VALUES, min_score=least)))

    sorts = {
        "off_topic": [(one.asker, one.text) for one in told.off_topic()],
        "foreign": [(READER, text) for text in told.foreign()],
    }
    return {
        sort: {
            "n": len(questions),
            "found": _share(returned(text, speaker) for speaker, text in questions),
            "in_block": _share(told_in_block(text, speaker) for speaker, text in questions),
        }
        for sort, questions in sorts.items()
    } | {
        "small_talk": {
            "n": len(talk),
            "in_block": _share(told_in_block(text, speaker) for speaker, text in talk),
        }
    }


def _found(
    here: Filled,
    one: FactAsked,
    *,
    k: int = CUTS[-1],
    kinds: frozenset[Kind] | None = None,
    least: float = 0.0,
) -> list[Recalled]:
    return here.memory.recall(
        one.question.text,
        speaker=one.question.asker,
        k=k,
        kinds=kinds,
        valid_at=one.valid_at,
        min_score=least,
    )


def _of(item: Recalled) -> tuple[str | None, str | None]:
    return item.key, item.value


def _share(values: Iterable[float]) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.structs.asdict(interval(list(values)))
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
