"""Times of our own corpus: whether "what happened yesterday?" finds what was told then, and nothing of another day.

Early on the Monday after the ten weeks somebody asks for ten times, some of several days, in four ways: what happened, what we
did, what I said and what somebody else said. The facts that were told then answer, small talk of that day does not, and
little may come of other days. Of four more times nobody has anything to tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.bench import weeks_days
from edgemem.bench.bootstrap import interval
from edgemem.bench.recall_block import Turns, answer_words, share_told
from edgemem.bench.recall_cases import Said
from edgemem.bench.weeks_facts import DAYS, facts, world
from edgemem.bench.weeks_forms import forms_of
from edgemem.bench.weeks_talk import Talk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from edgemem.bench.recall_home import Filled
    from edgemem.bench.weeks import FormSet, Weeks

CUT = 5
_SIX = 6 * 3600
"""Before anybody asks the questions of the corpus: a memory's clock never runs backwards."""
_TIMES = {
    "yesterday": (69, 70), "last weekend": (68, 70), "on Saturday": (68, 69), "three days ago": (67, 68), "on Thursday": (66, 67),
    "last week": (63, 70), "between Tuesday and Thursday": (64, 67), "since Friday": (67, 70), "on the tenth of April": (39, 40),
    "in March": (0, 30),
}  # fmt: skip
"""By its words, the first day and the one after the last, counted from the first of the weeks."""
_NEVER = ("in January", "last summer", "at Christmas", "on the twentieth of February")
_ANYONE = ("What happened {then}?", "what did we do {then}")
_ASKER = "What did I tell you {then}?"
_OTHER = "what did {name} say {then}"


class TimeAsked(NamedTuple):
    """A question for a time."""

    text: str
    asker: str
    evidence: frozenset[str]
    """The messages that told a fact then; none where nobody said anything."""
    begin: float
    end: float
    answers: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """What was told then, as it was worded, each with its messages."""


def time_figures(here: Filled, made: Weeks, *, seed: int, forms: FormSet, block: bool) -> dict[str, Any]:
    """Ask for times in a home that holds the weeks, and return what was found.

    Args:
        seed: of the weeks.
        forms: their words.
        block: also look at the block that a turn would have.
    """
    here.clock.at = float(weeks_days.moment(DAYS, _SIX))
    said = {one.id: Said(one.id, one.session, one.at, one.speaker, one.text, one.role) for one in made.turns}
    turns, least = Turns(here.memory) if block else None, here.memory.profile.injection.min_score
    scores: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        scores.setdefault(name, []).append(value)

    for asked in time_questions(made, seed=seed, forms=forms):
        found = here.memory.recall(asked.text, speaker=asked.asker, k=CUT, kinds={"turn"}, min_score=least)
        names = [here.ids[item.id] for item in found]
        lines = turns.block(asked.text, asked.asker).lines() if turns is not None else []
        if not asked.evidence:
            note("none_empty", float(not names and not lines))
            continue
        note(f"told@{CUT}", sum(one in asked.evidence for one in names) / min(CUT, len(asked.evidence)))
        note("then", sum(asked.begin <= said[one].at < asked.end for one in names) / max(1, len(names)))
        if turns is not None:
            note("block_answer", float(any(_stands(lines, asked, *one, said) for one in asked.answers)))
    return {"n": len(scores.get("then", ()))} | {
        name: msgspec.structs.asdict(interval(each)) for name, each in sorted(scores.items())
    }


def _stands(
    lines: Sequence[str], asked: TimeAsked, answer: str, evidence: Sequence[str], said: Mapping[str, Said]
) -> bool:
    """Tell whether the whole of what was told once stands in a block."""
    messages = [said[one] for one in evidence]
    words = answer_words(answer, messages, asked.text)
    return bool(words) and share_told(lines, words, messages) == 1.0


def time_questions(made: Weeks, *, seed: int, forms: FormSet) -> Iterator[TimeAsked]:
    """Yield each question for which something was told, and those for times of which nobody can tell."""
    tellings = Talk(forms_of(forms), facts(seed), seed).tellings
    names = {name for one in tellings for name in one.ids}
    told = [one for one in made.turns if one.id in names]
    people = [person.name for person in world().people]
    for number, (then, (first, last)) in enumerate(_TIMES.items()):
        begin, end = (weeks_days.moment(day, 0) for day in (first, last))
        of_then = [one for one in told if begin <= one.at < end]
        speakers = sorted({one.speaker for one in of_then if one.speaker}, key=people.index)
        for frame in (*_ANYONE, _ASKER, _OTHER):
            by = speakers[number % len(speakers)] if speakers and frame in (_ASKER, _OTHER) else None
            evidence = frozenset(one.id for one in of_then if by is None or one.speaker == by)
            asker = by if frame == _ASKER and by else next(name for name in people if name != by)
            if evidence and (by or frame in _ANYONE):
                answers = tuple((one.said, one.ids) for one in tellings if evidence.issuperset(one.ids))
                yield TimeAsked(frame.format(then=then, name=by), asker, evidence, begin, end, answers)
    for then, frame in zip(_NEVER, (*_ANYONE, _ASKER, _OTHER), strict=True):
        yield TimeAsked(frame.format(then=then, name=people[1]), people[0], frozenset(), 0.0, 0.0)
