"""Signals: what tells whether a message answers a question, one column each, in numbers that a linear model can weigh.

BM25 is given as a share of the best in the memory, cosines as they are and as a share of the best; so a weight means the
same for every question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.recall.times_asked import said_then, spoken_of
from edgemem.recall.traits import ASKS, CHANGES, COUNTS, NAMES, SAYS_I, SAYS_YOU

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.columns import Columns
    from edgemem.recall.question import Question

    Numbers = NDArray[np.float32]
    Slots = NDArray[np.intp]

SIGNALS: dict[str, str] = {
    "words": "words", "words_before": "neighbour", "window": "neighbour", "session_words": "session",
    "session_rank": "session", "meaning": "meaning", "meaning_share": "meaning", "meaning_before": "neighbour",
    "session_meaning": "session", "speaker": "person", "other_speaker": "person",
    "speaker_says_i": "person", "mentioned": "person", "about": "person", "about_beside": "person",
    "other_mentioned": "person", "date": "date", "date_said": "date", "when": "date", "number": "kind", "name": "kind",
    "length": "form", "asks": "form", "says_i": "form", "says_you": "form", "words_led": "neighbour",
    "words_asked": "neighbour", "window_rank": "neighbour", "about_meaning": "person", "rarest": "form",
    "rare_words": "form", "single": "form", "change": "recent", "change_present": "recent", "later": "recent",
    "earlier": "recent", "related": "related",
}  # fmt: skip
"""The signals in the order of the columns, each with the reason that it stands for in `Recalled.why`."""

_LEAST_BEST = 0.25  # of cosines: the best of a question that nothing is near to is not worth everything
_STEEP = 4.0  # how much more the nearest count than the next ones
_LONG = 60  # stems: what is longer is not more of an answer


class Field(NamedTuple):
    """What one question looks at; arrays by slot, with one more at the end for no slot (-1)."""

    columns: Columns
    words: Numbers
    window: Numbers
    session: Numbers
    """By the code of a session."""
    meaning: Numbers
    """Cosines; 0 where there is none."""
    related: Numbers
    """What the words are worth that are said for others; see `related_words`."""
    known: bool = True
    """Whether the reader may read what only known people do."""


class _Candidates(NamedTuple):
    """What all groups of signals look at."""

    field: Field
    question: Question
    slots: Slots
    at: NDArray[np.float64]
    """When each was said."""
    session: Slots
    """The code of its session."""
    marks: NDArray[np.integer[Any]]
    before: Slots
    """Of the message before each; -1 where there is none, or it may not be read."""
    after: Slots
    before_2: Slots
    led: Slots
    """Of the message before it that the same person said."""
    replies: NDArray[np.bool_]
    """Whether it follows what somebody else asked."""
    none: Numbers
    """What a signal is that the question does not ask for."""


def signals_of(
    field: Field,
    slots: Slots,
    question: Question,
    mentioned: NDArray[np.bool_],
    may: Callable[[Slots], NDArray[np.bool_]],
) -> Numbers:
    """Return the signals of some messages, `float32[n, len(SIGNALS)]`.

    Args:
        mentioned: by slot, whether the text speaks of somebody whom the question names; one more at the end.
        may: tells which slots may be read; what may not has no say, though it stands beside what may.
    """
    import numpy as np

    some = _candidates(field, slots, question, may)
    speaker, about = _people(field.columns, question, mentioned)
    words = _share(field.words)
    near = field.meaning / max(float(field.meaning.max()), _LEAST_BEST)
    worth = near[slots] + 0.4 * words[slots] + 0.3 * about[slots]
    columns = {
        **_of_words(some, words),
        **_of_meaning(some, near, about),
        **_of_people(some, speaker, mentioned, about),
        **_of_dates(some),
        **_of_kind(some),
        **_of_form(some),
        **_of_changes(some, worth),
    }
    found = np.empty((len(slots), len(SIGNALS)), np.float32)
    for place, name in enumerate(SIGNALS):
        found[:, place] = columns[name]
    return found


def _candidates(
    field: Field, slots: Slots, question: Question, may: Callable[[Slots], NDArray[np.bool_]]
) -> _Candidates:
    import numpy as np

    columns, n = field.columns, len(field.words) - 1
    rows = columns.rows
    beside = np.concatenate([columns.beside(slots, step) for step in (-1, 1, -2)])
    before, after, before_2 = np.split(_readable(beside, n, may), 3)
    who = rows["who"][slots]
    mine, mine_2 = ((rows["who"][there] == who) & (there >= 0) & (who > 0) for there in (before, before_2))
    return _Candidates(
        field,
        question,
        slots,
        rows["at"][slots],
        rows["session"][slots],
        rows["marks"][slots],
        before,
        after,
        before_2,
        led=np.where(mine, before, np.where(mine_2, before_2, -1)),
        replies=((rows["marks"][before] & ASKS) > 0) & (before >= 0) & ~mine,
        none=np.zeros(len(slots), np.float32),
    )


def _people(
    columns: Columns, question: Question, mentioned: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return, by slot, who is named and speaks, and which texts are about them."""
    import numpy as np

    n, rows = len(mentioned) - 1, columns.rows
    speaker = np.zeros(n, bool)
    for name in question.people:
        code = columns.code(name)
        if code is not None:
            speaker |= rows["who"][:n] == code
    says_i = (rows["marks"][:n] & SAYS_I) > 0
    return speaker, np.append((speaker & says_i) | mentioned[:n], False)


def _of_words(some: _Candidates, words: Numbers) -> dict[str, NDArray[Any]]:
    field = some.field
    return {
        "words": words[some.slots],
        "words_before": words[some.before],
        "words_led": words[some.led],
        "words_asked": words[some.before] * some.replies,
        "window": _share(field.window)[some.slots],
        "window_rank": _rank(field.window, some.slots),
        "session_words": _share(field.session)[some.session],
        "session_rank": _rank(field.session, some.session),
        "related": _share(field.related)[some.slots],
    }


def _of_meaning(some: _Candidates, near: Numbers, about: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
    import numpy as np

    columns, meaning = some.field.columns, some.field.meaning
    known = np.flatnonzero(meaning[:-1] > 0)
    in_session = np.zeros(columns.sessions, np.float32)
    np.maximum.at(in_session, columns.rows["session"][known], meaning[known])
    of_them = meaning * about
    return {
        "meaning": meaning[some.slots],
        "meaning_share": near[some.slots],
        "meaning_before": meaning[some.before],
        "session_meaning": in_session[some.session],
        "about_meaning": of_them[some.slots] / max(float(of_them.max()), _LEAST_BEST),
    }


def _of_people(
    some: _Candidates, speaker: NDArray[np.bool_], mentioned: NDArray[np.bool_], about: NDArray[np.bool_]
) -> dict[str, NDArray[Any]]:
    slots, named = some.slots, bool(some.question.people)
    by = speaker[slots]
    return {
        "speaker": by,
        "other_speaker": ~by if named else some.none,
        "speaker_says_i": by & ((some.marks & SAYS_I) > 0),
        "mentioned": mentioned[slots],
        "about": about[slots],
        "about_beside": (about[some.before] | about[some.after]) & ~about[slots],
        "other_mentioned": ((some.marks & NAMES) > 0) & ~mentioned[slots] if named else some.none,
    }


def _of_dates(some: _Candidates) -> dict[str, NDArray[Any]]:
    columns, question = some.field.columns, some.question
    return {
        "date": spoken_of(columns, question)[some.slots] if question.times else some.none,
        "date_said": said_then(some.at, question) if question.times else some.none,
        "when": columns.rows["dated"][some.slots] if question.asks_when else some.none,
    }


def _of_kind(some: _Candidates) -> dict[str, NDArray[Any]]:
    return {
        "number": (some.marks & COUNTS) > 0 if some.question.asks_number else some.none,
        "name": (some.marks & NAMES) > 0 if some.question.asks_name else some.none,
    }


def _of_form(some: _Candidates) -> dict[str, NDArray[Any]]:
    import numpy as np

    columns = some.field.columns
    worth = columns.rarity.of(some.slots, known=some.field.known, without=some.question.terms)
    return {
        "length": np.log1p(np.minimum(columns.rows["length"][some.slots], _LONG)) / 4,
        "asks": (some.marks & ASKS) > 0,
        "says_i": (some.marks & SAYS_I) > 0,
        "says_you": (some.marks & SAYS_YOU) > 0,
        "rarest": worth.rarest,
        "rare_words": worth.mean,
        "single": worth.single,
    }


def _of_changes(some: _Candidates, worth: Numbers) -> dict[str, NDArray[Any]]:
    question = some.question
    changes = (some.marks & CHANGES) > 0
    before, after = some.none, some.none
    if question.asks_now or question.asks_past:
        before, after = _before_and_after(some.at, worth)
    return {
        "change": changes if question.asks_now else some.none,
        "change_present": changes if not (question.asks_now or question.in_past) else some.none,
        "later": after if question.asks_now else some.none,
        "earlier": before if question.asks_past else some.none,
    }


def _rank(values: Numbers, slots: Slots) -> Numbers:
    """Return 1 for the best of all, less and less for the next ones, and nothing for what is worth nothing."""
    import numpy as np

    better = np.sort(-values[values > 0]).searchsorted(-values[slots], "left")
    return np.where(values[slots] > 0, 1 / (1 + better / 2), 0).astype(np.float32)


def _before_and_after(at: NDArray[np.float64], worth: Numbers) -> tuple[Numbers, Numbers]:
    """Return which share of what may answer was said before each text, and which after it, by what is worth how much."""
    import numpy as np

    if not len(at):
        return np.zeros(0, np.float32), np.zeros(0, np.float32)
    shares = np.exp(_STEEP * (worth - worth.max()))
    shares /= shares.sum()
    times, place = np.unique(at, return_inverse=True)
    then = np.bincount(place, shares, len(times))
    until = np.cumsum(then)
    before, after = until - then, np.maximum(1 - until, 0)  # the last one's may be a rounding less
    return before[place].astype(np.float32), after[place].astype(np.float32)


def _share(values: Numbers) -> Numbers:
    best = float(values.max()) if len(values) else 0.0
    return values / best if best > 0 else values


def _readable(slots: Slots, n: int, may: Callable[[Slots], NDArray[np.bool_]]) -> Slots:
    """Return slots, and -1 for those that may not be read, or that came after the question."""
    import numpy as np

    known = np.where(slots < n, slots, -1)
    good = np.zeros(len(slots), bool)
    good[known >= 0] = may(known[known >= 0])
    return np.where(good, known, -1)
