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
    people = _People(field.columns, question, mentioned)
    columns = {**_of_words(some), **_of_meaning(some, people), **_of_people(some, people)}
    worth = columns["meaning_share"] + 0.4 * columns["words"] + 0.3 * columns["about"]
    columns |= {**_of_dates(some), **_of_kind(some), **_of_form(some), **_of_changes(some, worth)}
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


class _People:
    """Whom the question names, and which texts are about them."""

    def __init__(self, columns: Columns, question: Question, mentioned: NDArray[np.bool_]) -> None:
        self._rows = columns.rows
        self._codes = [code for name in question.people if (code := columns.code(name)) is not None]
        self.mentioned = mentioned
        """By slot."""

    def speak(self, slots: Slots) -> NDArray[np.bool_]:
        """Tell which texts one of them said; none did what stands in no slot (-1)."""
        import numpy as np

        who, found = self._rows["who"][slots], np.zeros(len(slots), bool)
        for code in self._codes:
            found |= who == code
        return found & (slots >= 0)

    def are_in(self, slots: Slots) -> NDArray[np.bool_]:
        """Tell in which texts one of them speaks of themselves, or is spoken of."""
        found: NDArray[np.bool_] = self.mentioned[slots]
        if self._codes:
            found = found | (self.speak(slots) & ((self._rows["marks"][slots] & SAYS_I) > 0))
        return found


def _of_words(some: _Candidates) -> dict[str, NDArray[Any]]:
    field = some.field
    words, window, related, session = map(
        _best_share, (field.words, field.window, field.related, field.session)
    )
    before = words(some.before)
    return {
        "words": words(some.slots),
        "words_before": before,
        "words_led": words(some.led),
        "words_asked": before * some.replies,
        "window": window(some.slots),
        "window_rank": _rank(field.window, some.slots),
        "session_words": session(some.session),
        "session_rank": _rank(field.session, some.session),
        "related": related(some.slots),
    }


def _of_meaning(some: _Candidates, people: _People) -> dict[str, NDArray[Any]]:
    import numpy as np

    columns, meaning = some.field.columns, some.field.meaning
    known = np.flatnonzero(meaning[:-1] > 0)
    cosines, own = meaning[known], meaning[some.slots]
    in_session = np.zeros(columns.sessions, np.float32)
    np.maximum.at(in_session, columns.rows["session"][known], cosines)
    of_them = cosines[people.are_in(known)]
    return {
        "meaning": own,
        "meaning_share": own / max(float(cosines.max(initial=0.0)), _LEAST_BEST),
        "meaning_before": meaning[some.before],
        "session_meaning": in_session[some.session],
        "about_meaning": own * people.are_in(some.slots) / max(float(of_them.max(initial=0.0)), _LEAST_BEST),
    }


def _of_people(some: _Candidates, people: _People) -> dict[str, NDArray[Any]]:
    named = bool(some.question.people)
    by, about, mentioned = people.speak(some.slots), people.are_in(some.slots), people.mentioned[some.slots]
    return {
        "speaker": by,
        "other_speaker": ~by if named else some.none,
        "speaker_says_i": by & ((some.marks & SAYS_I) > 0),
        "mentioned": mentioned,
        "about": about,
        "about_beside": (people.are_in(some.before) | people.are_in(some.after)) & ~about,
        "other_mentioned": ((some.marks & NAMES) > 0) & ~mentioned if named else some.none,
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


def _of_changes(some: _Candidates, worth: NDArray[np.floating[Any]]) -> dict[str, NDArray[Any]]:
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

    own = values[slots]
    better = np.sort(-values[np.flatnonzero(values > 0)]).searchsorted(-own, "left")
    return np.where(own > 0, 1 / (1 + better / 2), 0).astype(np.float32)


def _before_and_after(at: NDArray[np.float64], worth: NDArray[np.floating[Any]]) -> tuple[Numbers, Numbers]:
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


def _best_share(values: Numbers) -> Callable[[Slots], Numbers]:
    """Return what tells how much of the best of all values some have: candidates are few, and a memory is large."""
    import numpy as np

    best = float(values.max(initial=0.0))

    def share(slots: Slots) -> Numbers:
        some: Numbers = values[slots]
        return some / np.float32(best) if best > 0 else some

    return share


def _readable(slots: Slots, n: int, may: Callable[[Slots], NDArray[np.bool_]]) -> Slots:
    """Return slots, and -1 for those that may not be read, or that came after the question."""
    import numpy as np

    known = np.where(slots < n, slots, -1)
    return np.where(may(known) & (known >= 0), known, -1)
