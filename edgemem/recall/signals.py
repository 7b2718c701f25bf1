"""Signals: what tells whether a message answers a question, one column each, in numbers that a linear model can weigh.

BM25 is given as a share of the best in the memory, cosines as they are and as a share of the best; so a weight means the
same for every question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

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
    "words": "words", "words_before": "neighbour", "words_before_2": "neighbour", "window": "neighbour",
    "session_words": "session", "meaning": "meaning", "meaning_share": "meaning", "meaning_before": "neighbour",
    "meaning_before_2": "neighbour", "session_meaning": "session", "speaker": "person", "other_speaker": "person",
    "speaker_says_i": "person", "mentioned": "person", "about": "person", "about_beside": "person",
    "other_mentioned": "person", "date": "date", "date_said": "date", "when": "date", "number": "kind", "name": "kind",
    "length": "form", "asks": "form", "says_i": "form", "says_you": "form", "words_led": "neighbour",
    "words_asked": "neighbour", "window_rank": "neighbour", "about_meaning": "person", "rarest": "form",
    "rare_words": "form", "single": "form", "change": "recent", "change_present": "recent", "later": "recent",
}  # fmt: skip
"""The signals in the order of the columns, each with the reason that it stands for in `Recalled.why`."""

_LEAST_BEST = 0.25  # of cosines: the best of a question that nothing is near to is not worth everything
_DAY = 86400.0
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
    known: bool = True
    """Whether the reader may read what only known people do."""


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

    columns, n = field.columns, len(field.words) - 1
    rows = columns.rows
    some = {name: rows[name][slots] for name in ("at", "session", "marks", "length", "who")}
    beside = np.concatenate([columns.beside(slots, step) for step in (-1, 1, -2)])
    before, after, before_2 = np.split(_readable(beside, n, may), 3)
    words, meaning = _share(field.words), field.meaning
    best = max(float(meaning.max()), _LEAST_BEST)
    near = meaning / best
    in_session = np.zeros(columns.sessions, np.float32)
    known = np.flatnonzero(meaning[:n] > 0)
    np.maximum.at(in_session, rows["session"][known], meaning[known])
    speaker = np.zeros(n, bool)
    for name in question.people:
        code = columns.code(name)
        if code is not None:
            speaker |= rows["who"][:n] == code
    says_i = (rows["marks"][:n] & SAYS_I) > 0
    about = np.append((speaker & says_i) | mentioned[:n], False)
    by, named = speaker[slots], bool(question.people)
    marks = some["marks"]
    on, said, dated = _dates(columns, slots, some["at"], question)
    session = _share(field.session)[some["session"]]
    mine = [
        (rows["who"][there] == some["who"]) & (there >= 0) & (some["who"] > 0) for there in (before, before_2)
    ]
    led = np.where(mine[0], before, np.where(mine[1], before_2, -1))
    answers = ((rows["marks"][before] & ASKS) > 0) & (before >= 0) & ~mine[0]
    worth = columns.rarity.of(slots, known=field.known, without=question.terms)
    of_them = meaning * about
    columns_of = {
        "words": words[slots],
        "words_before": words[before],
        "words_before_2": words[before_2],
        "window": _share(field.window)[slots],
        "session_words": session,
        "meaning": meaning[slots],
        "meaning_share": near[slots],
        "meaning_before": meaning[before],
        "meaning_before_2": meaning[before_2],
        "session_meaning": in_session[some["session"]],
        "speaker": by,
        "other_speaker": ~by if named else np.zeros(len(slots)),
        "speaker_says_i": by & says_i[slots],
        "mentioned": mentioned[slots],
        "about": about[slots],
        "about_beside": (about[before] | about[after]) & ~about[slots],
        "other_mentioned": ((marks & NAMES) > 0) & ~mentioned[slots] if named else np.zeros(len(slots)),
        "date": on,
        "date_said": said,
        "when": dated if question.asks_when else np.zeros(len(slots)),
        "number": (marks & COUNTS) > 0 if question.asks_number else np.zeros(len(slots)),
        "name": (marks & NAMES) > 0 if question.asks_name else np.zeros(len(slots)),
        "length": np.log1p(np.minimum(some["length"], _LONG)) / 4,
        "asks": (marks & ASKS) > 0,
        "says_i": (marks & SAYS_I) > 0,
        "says_you": (marks & SAYS_YOU) > 0,
        "words_led": words[led],
        "words_asked": words[before] * answers,
        "about_meaning": of_them[slots] / max(float(of_them.max()), _LEAST_BEST),
        "rarest": worth.rarest,
        "rare_words": worth.mean,
        "single": worth.single,
        "window_rank": _rank(field.window, slots),
        "change_present": (marks & CHANGES) > 0
        if not (question.asks_now or question.in_past)
        else np.zeros(len(slots)),
        "change": (marks & CHANGES) > 0 if question.asks_now else np.zeros(len(slots)),
        "later": _later(some["at"], near[slots] + 0.4 * words[slots] + 0.3 * about[slots])
        if question.asks_now
        else np.zeros(len(slots)),
    }
    return np.stack([columns_of[name] for name in SIGNALS], axis=1).astype(np.float32)


def on_dates(columns: Columns, question: Question) -> Slots:
    """Return the slots of the texts that speak of a time that the question speaks of, the best first."""
    import numpy as np

    spans = columns.spans()
    if not question.times or not len(spans):
        return np.zeros(0, np.intp)
    worth = _overlap(spans, question)
    found = np.flatnonzero(worth > 0)
    best: Slots = spans[found[np.argsort(-worth[found], kind="stable")], 0].astype(np.intp)
    return best


def _rank(values: Numbers, slots: Slots) -> Numbers:
    """Return 1 for the best of all, less and less for the next ones, and nothing for what is worth nothing."""
    import numpy as np

    better = np.sort(-values[values > 0]).searchsorted(-values[slots], "left")
    return np.where(values[slots] > 0, 1 / (1 + better / 2), 0).astype(np.float32)


def _later(at: Any, worth: NDArray[Any]) -> Numbers:
    """Return which share of what may answer was said later than each text, by what is worth how much."""
    import numpy as np

    if not len(at):
        return np.zeros(0, np.float32)
    shares = np.exp(_STEEP * (worth - worth.max()))
    shares /= shares.sum()
    times, place = np.unique(at, return_inverse=True)
    later = 1 - np.cumsum(np.bincount(place, shares, len(times)))
    return np.maximum(later, 0)[place].astype(np.float32)  # the last one's may be a rounding less


def _dates(
    columns: Columns, slots: Slots, at: Any, question: Question
) -> tuple[Numbers, Numbers, NDArray[np.bool_]]:
    """Return how well each text's times are those of the question, whether it was said then, and whether it has any."""
    import numpy as np

    spans = columns.spans()
    of = spans[:, 0].astype(np.intp)
    on = np.zeros(columns.n + 1, np.float32)
    said = np.zeros(len(slots), np.float32)
    if question.times:
        np.maximum.at(on, of, _overlap(spans, question))
        for begin, end, _ in question.times:
            short = 1 / (1 + np.log2(max(1.0, (end - begin) / _DAY)))
            said = np.maximum(said, short * ((at >= begin) & (at < end)))
    return on[slots], said, columns.rows["dated"][slots]


def _overlap(spans: NDArray[np.float64], question: Question) -> NDArray[np.float32]:
    """Return how much of the longer one of both is common to a text's time and the question's, times how sure both are."""
    import numpy as np

    worth = np.zeros(len(spans))
    for begin, end, sure in question.times:
        common = np.minimum(spans[:, 2], end) - np.maximum(spans[:, 1], begin)
        longer = np.maximum(spans[:, 2] - spans[:, 1], max(end - begin, 1.0))
        worth = np.maximum(worth, sure * spans[:, 3] * np.maximum(common, 0) / longer)
    return worth.astype(np.float32)


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
