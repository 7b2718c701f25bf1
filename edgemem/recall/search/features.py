"""The features of candidates, one column each, from which a linear model tells the likely answers.

Texts have some, facts and preferences others; the rest are 0. BM25 of a text is a share of the best in the memory, a cosine is
given as it is and as a share, so a weight means the same for every question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from edgemem.preload import np
from edgemem.recall.index.docs import ASKS, SUPPOSES
from edgemem.recall.index.sources import FACT, PREFERENCE
from edgemem.recall.index.table import NOBODY
from edgemem.recall.times import date_scores, spoken_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.recall.index.view import QueryView
    from edgemem.recall.query import ParsedQuery

    Numbers = NDArray[np.float32]
    Slots = NDArray[np.intp]
    Columns = Mapping[str, NDArray[Any]]

FEATURES: dict[str, str] = {
    "words": "words", "window": "neighbour", "session_words": "session", "session_rank": "session",
    "meaning": "meaning", "meaning_share": "meaning", "session_meaning": "session", "about": "person",
    "about_meaning": "person", "date": "date", "date_said": "date", "asks": "form", "supposes": "form",
    "window_rank": "neighbour", "tokens": "meaning", "topic": "subject",
    "fact": "form", "fact_words": "words", "fact_meaning": "meaning", "named": "subject", "theirs": "person", "past": "past",
}  # fmt: skip
"""The features in the order of the columns, each with its reason in `Recalled.why`. `topic` is the share of what was said before
that a text or fact has, as by `WordSearch`. Those of facts and preferences are:

fact: 1, to weigh how much likelier than a text a fact answers.
fact_words: its share of the idf of the question's words.
fact_meaning: the cosine, times `ELSEWHERE` where the question names another fact's subject.
named: whether the question names its subject.
theirs: whether it is about the asker ("my"), or has no other subject than its owner, whom the question names.
past: for a question about a former state, how well the fact is that, see `_pasts`.
"""
TOKENS = "tokens"
"""How near a text's tokens come to the question's, less the mean of the texts that were read a second time; `Ranking` fills it."""
PLACES = {name: place for place, name in enumerate(FEATURES)}
ELSEWHERE = 0.75
"""The factor of a cosine where the question names another subject; not lower, since the subject may be said in another word."""

_LEAST_BEST = 0.25  # of cosines: the least denominator of a share, where nothing is near


def features_of(view: QueryView, slots: Slots, question: ParsedQuery) -> Numbers:
    """Return the features of some candidates, `float32[n, len(FEATURES)]`."""
    features = np.zeros((len(slots), len(FEATURES)), np.float32)
    values = are_values(view.table.rows["kind"][slots])
    for some, columns_of in ((~values, _of_texts), (values, _of_facts)):
        rows = np.flatnonzero(some)
        if len(rows):
            columns = columns_of(view, slots[rows], question)
            places = [PLACES[name] for name in columns]
            features[rows[:, None], places] = np.stack(list(columns.values()), axis=1)
    features[:, PLACES["topic"]] = _share(view.topic, slots)
    return features


def are_values(kinds: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
    """Tell by their kinds which candidates are facts or preferences."""
    values: NDArray[np.bool_] = (kinds == FACT) | (kinds == PREFERENCE)
    return values


def _of_texts(view: QueryView, slots: Slots, question: ParsedQuery) -> Columns:
    table, rows = view.table, view.table.rows
    none, session = np.zeros(len(slots), np.float32), rows["session"][slots]
    alone = session == NOBODY  # of no session, as notes are
    meaning = np.where(view.has_cosine, np.maximum(view.cosines, 0), np.float32(0))
    known = np.flatnonzero(meaning[:-1] > 0)
    cosines, own_meaning = meaning[known], meaning[slots]
    in_session = np.zeros(len(table.sessions), np.float32)
    np.maximum.at(in_session, rows["session"][known], cosines)
    about = view.about_people(question.people, slots)
    nearest_about = cosines[view.about_people(question.people, known)].max(initial=0.0)
    own, own_rank = _share(view.words, slots), rank(view.words, slots)
    return {
        "words": own, "window": np.where(alone, own, _share(view.window, slots)),
        "window_rank": np.where(alone, own_rank, rank(view.window, slots)),
        "session_words": np.where(alone, own, _share(view.session, session)),
        "session_rank": np.where(alone, own_rank, rank(view.session, session)), "meaning": own_meaning,
        "meaning_share": own_meaning / max(float(cosines.max(initial=0.0)), _LEAST_BEST),
        "session_meaning": np.where(alone, own_meaning, in_session[session]),
        "about_meaning": own_meaning * about / max(float(nearest_about), _LEAST_BEST), "about": about,
        "date": spoken_of(table, question)[slots] if question.times else none,
        "date_said": date_scores(rows["at"][slots], question) if question.times else none,
        "asks": (rows["flags"][slots] & ASKS) > 0, "supposes": (rows["flags"][slots] & SUPPOSES) > 0,
    }  # fmt: skip


def rank(values: Numbers, slots: Slots) -> Numbers:
    """Return reciprocal ranks: 1 for the highest value of all, less for each next, 0 for 0."""
    own = values[slots]
    better = np.sort(-values[np.flatnonzero(values > 0)]).searchsorted(-own, "left")
    return np.where(own > 0, 1 / (1 + better / 2), 0).astype(np.float32)


def _share(values: Numbers, slots: Slots) -> Numbers:
    best = float(values.max(initial=0.0))
    some: Numbers = values[slots]
    return some / np.float32(best) if best > 0 else some


def _of_facts(view: QueryView, slots: Slots, question: ParsedQuery) -> Columns:
    named, theirs, elsewhere = _about(view, slots, question)
    cosines = np.clip(view.cosines[slots], 0.0, 1.0) * np.where(elsewhere & named.any(), ELSEWHERE, 1.0)
    return {
        "fact": np.ones(len(slots)),
        "fact_words": np.minimum(view.words[slots], 1.0),
        "fact_meaning": np.where(view.has_cosine[slots], cosines, 0.0),
        "named": named,
        "theirs": theirs,
        "date": spoken_of(view.table, question)[slots] if question.times else np.zeros(len(slots)),
        "past": _pasts(view, slots, first=question.asks_first)
        if question.asks_past
        else np.zeros(len(slots)),
    }


def _about(
    view: QueryView, slots: Slots, question: ParsedQuery
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Mask facts about a named subject, facts that are `theirs`, and facts about another subject."""
    who, facts = view.table.rows["who"], view.table.facts
    people = {" ".join(name.stems) for name in question.people.values()}
    codes = {view.table.codes.get(name) for name in question.people}
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


def _pasts(view: QueryView, slots: Slots, *, first: bool) -> NDArray[np.float64]:
    """Return how well each fact is the former state: 1 for a thing's last, or first, value that is over, then 1/2, and so on."""
    rows, facts = view.table.rows, view.table.facts
    places = np.flatnonzero(rows["past"][slots])
    places = places[np.argsort(rows["at"][slots[places]], kind="stable")]
    shares, seen = np.zeros(len(slots)), Counter[object]()
    for place in (places if first else places[::-1]).tolist():
        slot = int(slots[place])
        about = facts.get(slot)
        thing = slot if about is None else (about, int(rows["owner"][slot]))
        seen[thing] += 1
        shares[place] = 1 / seen[thing]
    return shares
