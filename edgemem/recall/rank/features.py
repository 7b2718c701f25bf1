"""The features of texts, and of facts and preferences, one column each: numbers by which a linear model tells what answers.

BM25 is a share of the best in the memory; a cosine is given as it is, and as a share of the best. So a weight means the same
for every question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.recall.search.table import NOBODY
from edgemem.recall.text.analyse import terms
from edgemem.recall.times import date_scores, spoken_of
from edgemem.recall.traits import ASKS, SAYS_I

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.query import ParsedQuery
    from edgemem.recall.search.table import DocTable
    from edgemem.recall.search.view import View

    Numbers = NDArray[np.float32]
    Slots = NDArray[np.intp]


FEATURES: dict[str, str] = {
    "words": "words", "window": "neighbour", "session_words": "session", "session_rank": "session",
    "meaning": "meaning", "meaning_share": "meaning", "session_meaning": "session", "mentioned": "person",
    "about": "person", "about_meaning": "person", "date": "date", "date_said": "date", "when": "date", "asks": "form",
    "words_led": "neighbour", "window_rank": "neighbour",
}  # fmt: skip
"""The features in the order of the columns, each with its reason in `Recalled.why`."""

FACT_FEATURES: dict[str, str] = {
    "words": "words", "meaning": "meaning", "named": "subject", "theirs": "person", "past": "past",
}  # fmt: skip
"""The features in the order of the columns, each with its reason in `Recalled.why`. None can speak against a fact.

words: the share of the idf of the question's words that the fact has.
meaning: the cosine, times `ELSEWHERE` where the question names the subject of another fact.
named: whether the question names the subject of the fact.
theirs: whether it is about the asker ("my"), or belongs to somebody whom the question names, and has no other subject.
past: whether it held before the present value, where the question asks for that.
"""
MEANING = "meaning"
ELSEWHERE = 0.75
"""The factor of a cosine, where the question names a subject and the fact has another one.

It is not lower, since the subject may be said in another word.
"""

_LEAST_BEST = 0.25  # of cosines: a share is of at least this, where nothing is near


class Field(NamedTuple):
    """The scores that one question gives to all texts, by slot; one more at the end stands for no slot (-1)."""

    columns: DocTable
    words: Numbers
    window: Numbers
    session: Numbers
    """By the code of a session."""
    meaning: Numbers
    """Cosines; 0 where there is none."""


class _Candidates(NamedTuple):
    """The candidates, as all groups of features need them."""

    field: Field
    question: ParsedQuery
    slots: Slots
    at: NDArray[np.float64]
    """When each was said, seconds since the epoch."""
    session: Slots
    """The code of its session."""
    marks: NDArray[np.integer[Any]]
    led: Slots
    """The slot of the same speaker's message before; -1 where there is none, or it may not be read."""
    none: Numbers
    """Zeros, for a feature that the question does not ask for."""
    alone: NDArray[np.bool_]
    """Which are of no session, as notes are."""


def features_of(
    field: Field,
    slots: Slots,
    question: ParsedQuery,
    mentioned: NDArray[np.bool_],
    may: Callable[[Slots], NDArray[np.bool_]],
) -> Numbers:
    """Return the features of some messages, `float32[n, len(FEATURES)]`.

    Args:
        mentioned: by slot, whether the text speaks of a person whom the question names; one more at the end.
        may: tells which slots the reader may read; the others change no feature of their neighbours.
    """
    import numpy as np

    some = _candidates(field, slots, question, may)
    people = _People(field.columns, question, mentioned)
    columns = {**_of_words(some), **_of_meaning(some, people), **_of_people(some, people)}
    columns |= {**_of_dates(some), "asks": (some.marks & ASKS) > 0}
    features = np.empty((len(slots), len(FEATURES)), np.float32)
    for place, name in enumerate(FEATURES):
        features[:, place] = columns[name]
    return features


def _candidates(
    field: Field, slots: Slots, question: ParsedQuery, may: Callable[[Slots], NDArray[np.bool_]]
) -> _Candidates:
    import numpy as np

    columns, n = field.columns, len(field.words) - 1
    rows = columns.rows
    beside = np.concatenate([columns.beside(slots, step) for step in (-1, -2)])
    before, before_2 = np.split(_readable(beside, n, may), 2)
    who = rows["who"][slots]
    mine, mine_2 = (
        (rows["who"][neighbours] == who) & (neighbours >= 0) & (who > 0) for neighbours in (before, before_2)
    )
    return _Candidates(
        field,
        question,
        slots,
        rows["at"][slots],
        rows["session"][slots],
        rows["marks"][slots],
        led=np.where(mine, before, np.where(mine_2, before_2, -1)),
        none=np.zeros(len(slots), np.float32),
        alone=rows["session"][slots] == NOBODY,
    )


class _People:
    """The people whom the question names, and the texts about them."""

    def __init__(self, columns: DocTable, question: ParsedQuery, mentioned: NDArray[np.bool_]) -> None:
        self._rows = columns.rows
        self._codes = [code for name in question.people if (code := columns.code(name)) is not None]
        self.mentioned = mentioned
        """By slot."""

    def speak(self, slots: Slots) -> NDArray[np.bool_]:
        """Tell which texts were said by one of them; no slot (-1) was not."""
        import numpy as np

        who, spoken = self._rows["who"][slots], np.zeros(len(slots), bool)
        for code in self._codes:
            spoken |= who == code
        return spoken & (slots >= 0)

    def are_in(self, slots: Slots) -> NDArray[np.bool_]:
        """Tell which texts speak of one of them, or are their own and say "I"."""
        concerned: NDArray[np.bool_] = self.mentioned[slots]
        if self._codes:
            concerned = concerned | (self.speak(slots) & ((self._rows["marks"][slots] & SAYS_I) > 0))
        return concerned


def _of_words(some: _Candidates) -> dict[str, NDArray[Any]]:
    import numpy as np

    field = some.field
    words, window, session = map(_best_share, (field.words, field.window, field.session))
    own, own_rank = words(some.slots), rank(field.words, some.slots)
    return {
        "words": own,
        "words_led": words(some.led),
        "window": np.where(some.alone, own, window(some.slots)),
        "window_rank": np.where(some.alone, own_rank, rank(field.window, some.slots)),
        "session_words": np.where(some.alone, own, session(some.session)),
        "session_rank": np.where(some.alone, own_rank, rank(field.session, some.session)),
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
        "session_meaning": np.where(some.alone, own, in_session[some.session]),
        "about_meaning": own * people.are_in(some.slots) / max(float(of_them.max(initial=0.0)), _LEAST_BEST),
    }


def _of_people(some: _Candidates, people: _People) -> dict[str, NDArray[Any]]:
    return {"mentioned": people.mentioned[some.slots], "about": people.are_in(some.slots)}


def _of_dates(some: _Candidates) -> dict[str, NDArray[Any]]:
    columns, question = some.field.columns, some.question
    return {
        "date": spoken_of(columns, question)[some.slots] if question.times else some.none,
        "date_said": date_scores(some.at, question) if question.times else some.none,
        "when": columns.rows["dated"][some.slots] if question.asks_when else some.none,
    }


def rank(values: Numbers, slots: Slots) -> Numbers:
    """Return reciprocal ranks: 1 for the highest value of all, less for each next one, 0 where the value is 0."""
    import numpy as np

    own = values[slots]
    better = np.sort(-values[np.flatnonzero(values > 0)]).searchsorted(-own, "left")
    return np.where(own > 0, 1 / (1 + better / 2), 0).astype(np.float32)


def _best_share(values: Numbers) -> Callable[[Slots], Numbers]:
    """Return a function from slots to their share of the highest value: candidates are few, and a memory is large."""
    import numpy as np

    best = float(values.max(initial=0.0))

    def share(slots: Slots) -> Numbers:
        some: Numbers = values[slots]
        return some / np.float32(best) if best > 0 else some

    return share


def _readable(slots: Slots, n: int, may: Callable[[Slots], NDArray[np.bool_]]) -> Slots:
    """Return the slots, with -1 for those that may not be read, or that came after the question."""
    import numpy as np

    known = np.where(slots < n, slots, -1)
    return np.where(may(known) & (known >= 0), known, -1)


def fact_features_of(view: View, slots: Slots, question: ParsedQuery, past: NDArray[np.float64]) -> Numbers:
    """Return the features of some facts, `float32[n, len(FACT_FEATURES)]`.

    Args:
        past: 0 to 1, how well each is the earlier value that is asked for; 0 where the question asks for none.
    """
    import numpy as np

    features = np.zeros((len(slots), len(FACT_FEATURES)), np.float32)
    named, theirs, elsewhere = _about(view, slots, question)
    cosines = np.clip(view.cosines[slots], 0.0, 1.0) * np.where(elsewhere & named.any(), ELSEWHERE, 1.0)
    columns: dict[str, NDArray[Any]] = {
        "words": np.minimum(view.words[slots], 1.0),
        MEANING: np.where(view.near[slots], cosines, np.float32("nan")),
        "named": named,
        "theirs": theirs,
        "past": past,
    }
    for place, name in enumerate(FACT_FEATURES):
        features[:, place] = columns[name]
    return features


def _about(
    view: View, slots: Slots, question: ParsedQuery
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return three masks: facts about a named subject, facts that are `theirs`, and facts about another subject."""
    import numpy as np

    who, facts = view.columns.rows["who"], view.columns.facts
    people = {" ".join(terms(name)) for name in question.people}
    codes = {view.columns.code(name) for name in question.people}
    named, theirs, elsewhere = np.zeros((3, len(slots)), bool)
    for place, slot in enumerate(slots.tolist()):
        subject = facts.get(slot, (None, None))[0]
        if subject is None:
            theirs[place] = int(who[slot]) in codes
        elif question.names(subject):
            named[place] = True
        else:
            theirs[place], elsewhere[place] = subject in people, True
    return named, theirs, elsewhere
