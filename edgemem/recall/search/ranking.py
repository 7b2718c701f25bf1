"""The ranking: candidates of all kinds in the order of their scores, which one linear model and one gate give."""

from __future__ import annotations

from collections import defaultdict
from math import exp, inf, isfinite, log, nextafter
from typing import TYPE_CHECKING, NamedTuple

from edgemem.recall.index.docs import COUNTS
from edgemem.recall.index.sources import FACT, KINDS, SUMMARY, TURN
from edgemem.recall.search.features import PLACES, are_values, features_of, rank
from edgemem.recall.search.models import (
    COMPARED,
    NOTHING,
    SCORE_ROOT,
    Candidates,
    Contents,
    Evidence,
    odds_of,
    shipped_gate,
    shipped_models,
)
from edgemem.recall.times import period_candidates
from edgemem.store.fact_queries import held_within, keys_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.index.view import QueryView
    from edgemem.recall.query import ParsedQuery
    from edgemem.recall.search.models import Model, Utterance
    from edgemem.recall.text.calendar import Range
    from edgemem.records import Reader
    from edgemem.store.db.database import Database
    from edgemem.store.fact_queries import HeldWithin

    Slots = NDArray[np.intp]
    Numbers = NDArray[np.float32]
    WordsOf = Callable[[Sequence[int]], Mapping[int, tuple[frozenset[str], frozenset[str]]]]


_OF_THE_BEST = ("words", "window", "session_words", "meaning_share")
"""The features that are a share of the best message's."""
_OF_A_SUMMARY = 2 * log(0.5)
"""Is added to the log odds of a summary, which halves its score: the turns that it was made from say the same."""
_ALSO, _NOW, _OTHER = 0.97, 0.95, 0.7
"""The shares of its score that a version keeps which is not meant first: one that held then as well, the present one, which is
often told, too, and one that neither holds nor held then."""
_LEAST_SHARE = 0.05  # of the time that is asked for: a value that came in its last hours did not hold then
_AS_LONG, _FOR_LONG = 0.8, 0.2
"""Shares of the longest validity: a version is equivalent from .8, worth mentioning from .2."""
_MOST_MORE = 3


class Hit(NamedTuple):
    """A candidate with its score."""

    name: str
    """`kind:id`, under which a turn notes what it was shown."""
    score: float
    likely: float
    """How likely a fact or a preference answers, 0 to 1, whether anything is wanted or not; 0 for all else."""
    kind: int
    ref: int
    row: int
    """Its place among all candidates."""


class Ranking:
    """The candidates of a question with their scores; it holds copies, and no reference to the table."""

    def __init__(
        self,
        view: QueryView,
        question: ParsedQuery,
        *,
        utterance: Utterance,
        meaning: float,
        now: float,
        words_of: WordsOf,
    ) -> None:
        """Score the candidates; the caller holds the lock of the table.

        Args:
            meaning: the share of its weight that meaning has, 0 to 1; 0 where the question has no vector.
            now: seconds since the epoch.
            words_of: reads the stems and the words of messages, by docs.
        """
        import numpy as np

        rows = view.table.rows
        models = shipped_models()
        self._model: Model = models.for_meaning(meaning)
        self._by_words = models.words_only
        self._gate, self.utterance, self._meaning = shipped_gate(), utterance, meaning
        self._known, self._terms = view.known_share, len(question.terms)
        period = None if question.period is None else period_candidates(view, question, now)
        self.by_period = period is not None
        """Whether the question asks for a period alone, so that no word of it ranks them; see `times`."""
        slots = np.flatnonzero(view.candidates) if period is None else period[0]
        kept = view.findable[slots]
        slots = slots[kept]
        self.kinds, self.refs, self._at = (rows[name][slots] for name in ("kind", "ref", "at"))
        self._text = ~are_values(self.kinds)
        """Which of them are no facts or preferences."""
        self.candidates = Candidates(features_of(view, slots, question), self._at, question.tense)
        """All of them with their features."""
        self._summary_penalty = np.where(self.kinds == SUMMARY, np.float32(_OF_A_SUMMARY), np.float32(0))
        self._sessions = rows["session"][slots]
        self._no_vector = ~view.has_cosine[slots] & bool(meaning)
        """Those that have no vector yet, though the question has one: the model of words alone scores them."""
        turns = np.flatnonzero(self.kinds == TURN)
        if question.tense and period is None and len(turns) > 1:
            contents = self._contents(view, slots, turns, question, words_of)
            self.candidates = self.candidates._replace(contents=contents)
        self._kept_rows = np.arange(len(slots))
        """The rows that were not left out."""
        self._log_odds, self._recency_bonus = np.zeros((2, len(slots)), np.float32)
        """The log odds of each, and their part for being newer."""
        self._weigh()
        self._level = self._level_of_scores()
        self._likely = 1 / (1 + np.exp(-self._log_odds))
        self._likely[self._text] = 0.0
        self.scores = self._scores() if period is None else period[1][kept]
        self._source_row = np.arange(len(slots))
        """For each row the candidate whose features explain it."""

    @property
    def evidence(self) -> Evidence:
        """Return how well the best candidates that are left fit, for the gate."""
        features, odds = self.candidates.features[self._kept_rows], self._log_odds[self._kept_rows]
        statements = odds[features[:, PLACES["asks"]] <= 0]
        return Evidence(
            float(features[:, [PLACES["meaning"], PLACES["fact_meaning"]]].max(initial=0.0)),
            float(statements.max(initial=NOTHING)),
            self._known,
            self._terms,
        )

    def __len__(self) -> int:
        return len(self.scores)

    def _contents(
        self, view: QueryView, slots: Slots, turns: Slots, question: ParsedQuery, words_of: WordsOf
    ) -> Contents:
        """Return the contents of the candidates, with words for twice as many as are compared: echoes are left out later.

        Args:
            turns: the rows of the messages, since notes and episodes replace none.
        """
        import numpy as np

        rows, features = view.table.rows, self.candidates.features[turns]
        models = (self._model, self._by_words) if self._no_vector.any() else (self._model,)
        order = [np.argsort(-model.answers.odds(features), kind="stable")[: 2 * COMPARED] for model in models]
        docs = {row: int(rows["id"][slots[row]]) for row in turns[np.unique(np.concatenate(order))].tolist()}
        known = words_of(list(docs.values()))
        stems, words = np.full((2, len(slots)), frozenset(), object)
        for row, doc in docs.items():
            if doc in known:
                stems[row], words[row] = known[doc]
        return Contents(
            rows["who"][slots], (rows["flags"][slots] & COUNTS) > 0, stems, words, frozenset(question.terms)
        )

    def best(self, kinds: Collection[int], *, least: float = 0.0) -> Iterator[Hit]:
        """Return the candidates of some kinds that reach a score, by themselves or among all, the best first."""
        import numpy as np

        chosen = np.zeros(256, bool)
        chosen[list(kinds)] = True
        reached = (self.scores >= 0) & (np.maximum(self.scores, self._likely) >= least)
        rows = np.flatnonzero(chosen[self.kinds] & reached)
        rows = rows[np.lexsort((-self.refs[rows], -self._at[rows], -self.scores[rows]))]
        columns = (self.scores, self._likely, self.kinds, self.refs)
        scores, likely, numbers, refs = (column[rows].tolist() for column in columns)
        # Most of them are never looked at.
        names = map("{}:{}".format, map(KINDS.__getitem__, numbers), refs)
        return map(Hit, names, scores, likely, numbers, refs, rows.tolist())

    def leave_out(self, echoes: Sequence[int], copies: Sequence[int] = ()) -> None:
        """Score messages as if some rows had not been found; of these, echoes score 0, and copies are no candidates any more.

        They have no say in how sure it is that one answers, and a conversation gains nothing by an echo. A message next
        to one keeps its share of that: the answer to a question that is asked again.
        """
        import numpy as np

        repeats = np.array(echoes, np.intp)
        self.scores[repeats] = 0.0
        self.scores[np.array(copies, np.intp)] = -1.0
        if self.by_period:
            return
        features, text = self.candidates.features, self._text
        self._kept_rows = np.flatnonzero(~text | (self.scores[: len(text)] > 0))
        kept = self._kept_rows[text[self._kept_rows]]
        if len(repeats):
            self._weigh_sessions(kept[self.kinds[kept] == TURN], np.unique(self._sessions[repeats]))
        for name in _OF_THE_BEST:
            column = features[kept, PLACES[name]]
            if column.max(initial=0.0) > 0:
                features[kept, PLACES[name]] = column / column.max()
        self._weigh()
        level, self._level = self._level, self._level_of_scores()
        self.scores[kept] = self._scores()[kept]
        values = are_values(self.kinds) & (self.scores > 0)
        known, alone = self.scores[values], self._meaning * self._likely[values] ** 2
        self.scores[values] = np.maximum(known * exp(self._level - level), np.minimum(known, alone))

    def _weigh_sessions(self, kept: Slots, echoing: Slots) -> None:
        """Set the scores of the sessions with echoes to those of the best message that is kept there; rank all anew."""
        import numpy as np

        if not len(kept):
            return
        features, sessions = self.candidates.features, self._sessions[kept]
        for session in echoing:
            mates = kept[sessions == session]
            for name, own in (("session_words", "words"), ("session_meaning", "meaning")):
                best = features[mates, PLACES[own]].max(initial=0.0)
                features[mates, PLACES[name]] = np.minimum(features[mates, PLACES[name]], best)
        session_words = np.zeros(int(sessions.max()) + 1, np.float32)
        session_words[sessions] = features[kept, PLACES["session_words"]]
        features[kept, PLACES["session_rank"]] = rank(session_words, sessions)
        features[kept, PLACES["window_rank"]] = rank(features[kept, PLACES["window"]], np.arange(len(kept)))

    def _scores(self) -> NDArray[np.float64]:
        """Return the score of each candidate that is left, by its odds.

        A statement can be helped by a fact although it asks nothing (ordering coffee: how the person likes it), so a fact scores
        at least its likelihood squared (chosen as `tests/lab/tuning.md` says). By words alone one rare word is enough to be likely, so
        there only a question counts.
        """
        import numpy as np

        gated = np.exp(np.minimum(self._log_odds / SCORE_ROOT + self._level, 0.0))
        scores: NDArray[np.float64] = np.maximum(gated, self._meaning * self._likely**2).astype(np.float64)
        return scores

    def _level_of_scores(self) -> float:
        """Return the logarithm of what a candidate with even odds scores: the best of those that are left scores the chance."""
        best = float(self._log_odds[self._kept_rows].max(initial=-inf))
        if not isfinite(best):
            return 0.0
        evidence, waits = self.evidence, self._no_vector[self._kept_rows].any()
        # How near in meaning the best is, nobody knows while some wait for their vectors.
        chance = max(
            self._gate.chance(self.utterance, evidence, meaning=share)
            for share in ((self._meaning, 0.0) if waits else (self._meaning,))
        )
        return log(chance) - best / SCORE_ROOT

    def _weigh(self) -> None:
        """Set the log odds of the candidates that are left."""
        candidates, waits = self.candidates.subset(self._kept_rows), self._no_vector[self._kept_rows]
        odds, lifts = odds_of(candidates, self._by_words if waits.any() else self._model)
        if waits.any():
            rest, rest_lifts = odds_of(candidates.subset(~waits), self._model)
            text = self._text[self._kept_rows]
            # A text that has words of the question, and no vector yet, is as likely as one that has a vector.
            worded = candidates.features[:, PLACES["words"]] > 0
            if worded.any():
                best = float(rest[text[~waits]].max(initial=-inf))
                odds[worded] += max(0.0, best - float(odds[text].max()))
            odds[~waits], lifts[~waits] = rest, rest_lifts
        self._log_odds[self._kept_rows] = odds + self._summary_penalty[self._kept_rows]
        self._recency_bonus[self._kept_rows] = lifts

    def add_versions(self, refs: Sequence[int], like: Sequence[int]) -> None:
        """Add versions of things, each with the score and the reasons of a candidate."""
        import numpy as np

        rows = np.array(like, np.intp)
        self._source_row = np.append(self._source_row, rows)
        self.scores = np.append(self.scores, self.scores[rows])
        self._log_odds = np.append(self._log_odds, self._log_odds[rows])
        self._likely = np.append(self._likely, self._likely[rows])
        self.kinds = np.append(self.kinds, self.kinds[rows])
        self.refs = np.append(self.refs, np.array(refs, self.refs.dtype))
        self._at = np.append(self._at, np.array(refs) / 1e6)

    def why(self, hit: Hit) -> tuple[str, ...]:
        """Return the reasons for a score, the strongest first."""
        if self.by_period:
            return ("date",)
        row = int(self._source_row[hit.row])
        if row not in self._kept_rows:
            return ()
        model = self._by_words if self._no_vector[row] else self._model
        return model.reasons(self.candidates.features[row].tolist(), float(self._recency_bonus[row]))


def choose_versions(
    ranking: Ranking,
    truth: Database,
    times: Sequence[Range],
    *,
    reader: Reader | None,
    now: float,
    others: bool,
) -> None:
    """Rank the values of each key that held at some times before its other values.

    They need not be candidates: of a key that was set three thousand times the words find any values, and hardly the one that
    is meant. So the values of then and of now join the candidates of each key, as far as the reader may read them.

    Args:
        now: seconds since the epoch.
        others: whether values that neither held then nor hold now stay candidates.
    """
    rows = {int(ranking.refs[row]): int(row) for row in (ranking.kinds == FACT).nonzero()[0]}
    by_thing: dict[int, list[int]] = defaultdict(list)
    for ref, thing in keys_of(truth, list(rows)).items():
        by_thing[thing].append(ref)
    held: dict[tuple[int, int], list[HeldWithin]] = defaultdict(list)
    for value in held_within(
        truth,
        by_thing,
        [*((span.begin, span.end) for span in times), (now, nextafter(now, inf))],
        reader=reader,
    ):
        held[value.key, value.time].append(value)
    old, scores = ranking.scores, {}
    joining: dict[int, int] = {}
    for thing, refs in by_thing.items():
        best = max(refs, key=lambda ref: old[rows[ref]])
        present = {value.origin for value in held[thing, len(times)]}
        meant: dict[int, float] = {}
        for n, span in enumerate(times):
            for ref, share in values_meant(held[thing, n], span.end - span.begin).items():
                meant[ref] = max(share, meant.get(ref, 0.0))
        for ref in {*refs, *meant, *present}:
            if ref not in rows:
                joining[ref] = rows[best]
            if ref in meant:
                scores[ref] = meant[ref] * old[rows[best]]
            elif ref in present or others:
                left = 1.0 if not meant else _NOW if ref in present else _OTHER
                scores[ref] = left * old[rows.get(ref, rows[best])]
            else:
                scores[ref] = -1.0  # it was looked at only because it might have held then
    ranking.add_versions(list(joining), list(joining.values()))
    rows |= {ref: len(old) + n for n, ref in enumerate(joining)}
    ranking.scores[[rows[ref] for ref in scores]] = list(scores.values())


def values_meant(held: Collection[HeldWithin], length: float) -> dict[int, float]:
    """Return the values of a key that a question for some time means, by their origin, with the share of the score that each keeps.

    Args:
        held: the values of the key within that time.
        length: of that time, in seconds.
    """
    if sum(value.seconds for value in held) < _LEAST_SHARE * length:
        return {}
    longest = max(value.seconds for value in held)
    # Of two that held about equally long the later one counts: on the day of a change, the new value was told.
    first = max(
        (value for value in held if value.seconds >= _AS_LONG * longest), key=lambda value: value.origin
    )
    more = [value for value in held if value.seconds >= _FOR_LONG * longest and value is not first]
    more.sort(key=lambda value: (-value.seconds, -value.origin))
    return {first.origin: 1.0, **dict.fromkeys((value.origin for value in more[:_MOST_MORE]), _ALSO)}
