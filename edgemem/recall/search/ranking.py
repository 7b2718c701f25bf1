"""The ranking: candidates of all kinds in the order of their scores, which one linear model and one gate give."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import inf, log, nextafter
from typing import TYPE_CHECKING, NamedTuple

from edgemem.preload import np
from edgemem.recall.index.sources import FACT, KINDS, SUMMARY, TURN
from edgemem.recall.search.features import PLACES, TOKENS, are_values, features_of, rank
from edgemem.recall.search.gate import EVEN, NEARNESS, NOTHING, Evidence, shipped_gate
from edgemem.recall.search.models import (
    COMPARED,
    STORED,
    Candidates,
    Contents,
    choose_compared,
    shipped_models,
    weigh,
)
from edgemem.recall.times import period_candidates, period_shares
from edgemem.store.fact_queries import held_within, keys_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.recall.index.view import QueryView
    from edgemem.recall.query import ParsedQuery
    from edgemem.recall.search.gate import Utterance
    from edgemem.recall.search.models import Model
    from edgemem.recall.text.calendar import Range
    from edgemem.records import Reader
    from edgemem.store.db.database import Database
    from edgemem.store.fact_queries import HeldWithin

    Slots = NDArray[np.intp]
    Numbers = NDArray[np.float32]
    NearnessOf = Callable[[Sequence[int]], Numbers]
    ContentsOf = Callable[[Sequence[int]], Mapping[int, tuple[frozenset[str], Numbers | None]]]

_OF_THE_BEST = ("words", "window", "session_words", "meaning_share")
"""Features that are a share of the best message's."""
_OF_A_SUMMARY = 2 * log(0.5)
"""Halves a summary's score, in log odds: the turns that it was made from say the same."""
_ALSO, _NOW, _OTHER = 0.97, 0.95, 0.7
"""A version keeps these shares of its score if it held then as well; is the present one, often told too; or neither."""
_EXACT = 0.1  # of the log odds
_LEAST_SHARE = 0.05  # of the time asked for: a value from its last hours did not hold then
_AS_LONG, _FOR_LONG = 0.8, 0.2
"""Shares of the longest validity: from .8 a version is equivalent, from .2 worth mentioning."""
_MOST_MORE = 3
_OF_DAY = 0.5
"""How likely what is about a coming day helps whoever asks for more than what is on that day."""
READ_AGAIN = 20  # texts whose tokens are compared with the question's


class Hit(NamedTuple):
    """A candidate with its score."""

    name: str
    """`kind:id`, by which a turn notes it."""
    score: float
    kind: int
    ref: int
    row: int
    """Among all candidates."""


class Ranking:
    """A question's candidates with scores; it holds copies, and no reference to the table."""

    def __init__(
        self,
        view: QueryView,
        question: ParsedQuery,
        *,
        utterance: Utterance,
        meaning: float,
        now: float,
        contents_of: ContentsOf,
        nearness_of: NearnessOf,
    ) -> None:
        """Score the candidates; the caller holds the lock of the table.

        `meaning` is the share of its weight, 0 to 1, 0 without a vector; `contents_of` reads stems and vectors of messages, by docs,
        `nearness_of` compares their tokens with the question's.
        """
        rows = view.table.rows
        models = shipped_models()
        self._model: Model = models.for_meaning(meaning)
        self._by_words = models.words_only
        self._gate, self.utterance, self._meaning = shipped_gate(), utterance, meaning
        self._known, self._terms = view.known_share, len(question.terms)
        self._of_time = question.period is not None or not question.date_terms.issuperset(question.terms)
        """Whether the time in it tells what is asked for: "how are you today?" asks for nothing of today."""
        of_period = period_shares(view, question, now)
        period = period_candidates(view, question, of_period)
        self.by_period = period is not None
        """Whether the question asks for a period alone, so that no word ranks; see `times`."""
        slots = np.flatnonzero(view.candidates) if period is None else period[0]
        kept = view.findable[slots]
        slots = slots[kept]
        self.kinds, self.refs, self._at = (rows[name][slots] for name in ("kind", "ref", "at"))
        self._text = ~are_values(self.kinds)
        """Which are no facts or preferences."""
        self.candidates = Candidates(features_of(view, slots, question), self._at, question.tense)
        self._summary_penalty = np.where(self.kinds == SUMMARY, np.float32(_OF_A_SUMMARY), np.float32(0))
        self._sessions = rows["session"][slots]
        self._no_vector = ~view.has_cosine[slots] & bool(meaning)
        """Those without a vector, though the question has one: the model of words alone scores them."""
        self._docs, self._nearness_of = rows["id"][slots], nearness_of
        self._nearness = np.full((len(slots), 2), np.nan, np.float32)
        """How near each comes to the question's tokens, and how unevenly; NaN: not read."""
        self._kept_rows = np.arange(len(slots))
        if meaning and period is None:
            self._compare_tokens()
        facts = ~self._text & ~rows["past"][slots] & (question.tense == "now")
        compared = np.flatnonzero((self.kinds == TURN) | facts)
        if question.tense and period is None and len(compared) > 1:
            contents = self._contents(view, slots, compared, question, contents_of)
            self.candidates = self.candidates._replace(contents=contents)
        telling = self.candidates.features[:, PLACES["asks"]] <= 0
        self._of_day = _OF_DAY * telling * of_period[slots]
        """How likely each helps, 0 to 1, because it is about the coming time that is asked for."""
        self._exact = view.exact[slots]
        self._repeats, self._replaced = np.zeros((2, len(slots)), bool)
        """Masks of echoes and copies, and of messages that are surely replaced."""
        self.log_odds, self._recency_bonus = np.zeros((2, len(slots)), np.float32)
        """The log odds of each that it answers, and their part for being newer."""
        self._weigh()
        self._chances = self._gated()
        self.scores = self._chances.copy() if period is None else period[1][kept]
        self.scores[self._replaced] = 0.0
        self._source_row = np.arange(len(slots))
        """For each row the candidate whose features explain it."""

    @property
    def evidence(self) -> Evidence:
        """Return how well the best remaining candidates fit, for the gate."""
        features, odds = self.candidates.features[self._kept_rows], self.log_odds[self._kept_rows]
        told = features[:, PLACES["asks"]] <= 0
        second, best = np.sort(np.append(odds[told], (NOTHING, NOTHING)))[-2:].tolist()
        near = self._nearness[self._kept_rows]
        read = np.flatnonzero(told & ~np.isnan(near[:, 0]))
        return Evidence(
            float(features[:, [PLACES["meaning"], PLACES["fact_meaning"]]].max(initial=0.0)),
            best,
            self._known,
            self._terms,
            float(features[told, PLACES["date"]].max(initial=0.0)) * self._of_time,
            best - second,
            *(near[read[odds[read].argmax()]].tolist() if len(read) else (NEARNESS, EVEN)),
        )

    def __len__(self) -> int:
        return len(self.scores)

    def _contents(
        self, view: QueryView, slots: Slots, told: Slots, question: ParsedQuery, contents_of: ContentsOf
    ) -> Contents:
        """Return the contents of candidates, all of them for the messages and facts (`told`) to compare."""
        rows, features = view.table.rows, self.candidates.features[told]
        models = (self._model, self._by_words) if self._no_vector.any() else (self._model,)
        odds = [model.answers.odds(features) for model in models]
        compared = np.concatenate([choose_compared(log_odds, self.candidates, told) for log_odds in odds])
        docs = {row: int(rows["id"][slots[row]]) for row in np.unique(compared).tolist()}
        known = contents_of(list(docs.values()))
        stems, vectors = np.full(len(slots), frozenset(), object), np.full(len(slots), None, object)
        for row, doc in docs.items():
            if doc in known:
                stems[row], vectors[row] = known[doc]
        who = np.where(self._text, rows["who"][slots], STORED)
        return Contents(who, rows["flags"][slots], stems, vectors, frozenset(question.terms))

    def _compare_tokens(self) -> None:
        """Read the best texts a second time, by their tokens; one without tokens is as near as the mean."""
        features, place = self.candidates.features, PLACES[TOKENS]
        features[:, place] = 0.0
        rows = self._kept_rows[self._text[self._kept_rows] & ~self._no_vector[self._kept_rows]]
        best = rows[np.argsort(-self._model.answers.odds(features[rows]), kind="stable")[:READ_AGAIN]]
        near = self._nearness[:, 0]
        unread = best[np.isnan(near[best])]
        self._nearness[unread] = self._nearness_of(self._docs[unread].tolist())
        read = best[~np.isnan(near[best])]
        if len(read):
            features[read, place] = near[read] - near[read].mean()

    def best(self, kinds: Collection[int], *, least: float = 0.0) -> Iterator[Hit]:
        """Return candidates of some kinds that reach a score, by themselves or among all, best first."""
        chosen = np.zeros(256, bool)
        chosen[list(kinds)] = True
        rows = np.flatnonzero(chosen[self.kinds] & (self.scores >= max(least, 0.0)))
        rows = rows[np.lexsort((-self.refs[rows], -self._at[rows], -self.scores[rows]))]
        columns = (self.scores, self.kinds, self.refs)
        scores, numbers, refs = (column[rows].tolist() for column in columns)
        # Most are never looked at.
        names = map("{}:{}".format, map(KINDS.__getitem__, numbers), refs)
        return map(Hit, names, scores, numbers, refs, rows.tolist())

    def leave_out(self, echoes: Sequence[int], copies: Sequence[int] = ()) -> None:
        """Score messages as if some rows had not been found; echoes score 0, and copies are no candidates any more.

        They do not count for the chance, and a conversation gains nothing by an echo. A message beside one keeps its share of
        that: it may answer a question that is asked again.
        """
        repeats = np.array(echoes, np.intp)
        self._repeats[[*echoes, *copies]] = True
        self.scores[repeats] = 0.0
        self.scores[np.array(copies, np.intp)] = -1.0
        if self.by_period:
            return
        features, text = self.candidates.features, self._text
        self._kept_rows = np.flatnonzero(~self._repeats)
        kept = self._kept_rows[text[self._kept_rows]]
        if len(repeats):
            self._weigh_sessions(kept[self.kinds[kept] == TURN], np.unique(self._sessions[repeats]))
        for name in _OF_THE_BEST:
            column = features[kept, PLACES[name]]
            if column.max(initial=0.0) > 0:
                features[kept, PLACES[name]] = column / column.max()
        if self._meaning:
            self._compare_tokens()
        self._weigh()
        before, self._chances = self._chances, self._gated()
        self.scores[kept] = np.where(self._replaced[kept], 0.0, self._chances[kept])
        values = np.flatnonzero(are_values(self.kinds) & (self.scores > 0))
        rows = self._source_row[values]
        self.scores[values] *= self._chances[rows] / before[rows]  # a version keeps its share

    def _weigh_sessions(self, kept: Slots, echoing: Slots) -> None:
        """Give sessions with echoes the score of their best remaining message; rank all anew."""
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

    def _gated(self) -> NDArray[np.float64]:
        """Return the chance of each candidate that the gate gives it by its odds."""
        evidence, waits = self.evidence, self._no_vector[self._kept_rows].any()
        # The best one's nearness in meaning is unknown while some wait for vectors.
        shares = (self._meaning, 0.0) if waits else (self._meaning,)
        chances = [
            self._gate.chances(self.utterance, evidence, self.log_odds, meaning=share) for share in shares
        ]
        likeliest = chances[0] if len(chances) == 1 else np.maximum(*chances)
        best: NDArray[np.float64] = 1 - (1 - likeliest) * (1 - self._of_day)
        return best

    def _weigh(self) -> None:
        kept = self._kept_rows
        candidates, waits = self.candidates.subset(kept), self._no_vector[kept]
        odds, lifts, replaced = weigh(candidates, self._by_words if waits.any() else self._model)
        if waits.any():
            rest = weigh(candidates.subset(~waits), self._model)
            text = self._text[kept]
            # A text with words of the question, and no vector yet, is as likely as one with a vector.
            worded = candidates.features[:, PLACES["words"]] > 0
            if worded.any():
                best = float(rest.odds[text[~waits]].max(initial=-inf))
                odds[worded] += max(0.0, best - float(odds[text].max()))
            odds[~waits], lifts[~waits], replaced[~waits] = rest
        odds += self._summary_penalty[kept]
        exact = self._exact[kept]
        if exact.any() and not exact.all():
            # What has the code that is asked for is never less likely than what is near in meaning alone.
            odds[exact] += max(0.0, float(odds[~exact].max() - odds[exact].max() + _EXACT))
        self.log_odds[kept] = odds
        if candidates.contents is not None and np.count_nonzero(replaced) > COMPARED // 2:
            # Of thousands of readings only some are compared, among them the newest.
            replaced |= (self.kinds[kept] == TURN) & ~candidates.contents.stems.astype(bool)
        # What was stored on purpose stays in sight, below what was said since.
        self._recency_bonus[kept], self._replaced[kept] = lifts, replaced & self._text[kept]

    def add_versions(self, refs: Sequence[int], like: Sequence[int]) -> None:
        """Add versions of things, with the score and reasons of a candidate each."""
        rows = np.array(like, np.intp)
        self._source_row = np.append(self._source_row, rows)
        self.scores = np.append(self.scores, self.scores[rows])
        self.log_odds = np.append(self.log_odds, self.log_odds[rows])
        self._of_day = np.append(self._of_day, self._of_day[rows])
        self.kinds = np.append(self.kinds, self.kinds[rows])
        self.refs = np.append(self.refs, np.array(refs, self.refs.dtype))
        self._at = np.append(self._at, np.array(refs) / 1e6)

    def why(self, hit: Hit) -> tuple[str, ...]:
        """Return the reasons for a score, strongest first."""
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
    """Rank each key's values that held at some times before its others.

    They need not be candidates: of three thousand versions the words find any, hardly the one that is meant. So the readable
    values of then and now join each key's candidates; `others` keeps the rest.
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
                scores[ref] = -1.0  # looked at only in case it held then
    ranking.add_versions(list(joining), list(joining.values()))
    rows |= {ref: len(old) + n for n, ref in enumerate(joining)}
    ranking.scores[[rows[ref] for ref in scores]] = list(scores.values())


def values_meant(held: Collection[HeldWithin], length: float) -> dict[int, float]:
    """Return the meant values among those `held` in a time of `length` seconds, by origin, with the share of score each keeps."""
    if sum(value.seconds for value in held) < _LEAST_SHARE * length:
        return {}
    longest = max(value.seconds for value in held)
    # Of two that held about equally long the later counts: on the day of a change, the new value was told.
    first = max((value for value in held if value.seconds >= _AS_LONG * longest), key=lambda v: v.origin)
    more = [value for value in held if value.seconds >= _FOR_LONG * longest and value is not first]
    more.sort(key=lambda value: (-value.seconds, -value.origin))
    return {first.origin: 1.0, **dict.fromkeys((value.origin for value in more[:_MOST_MORE]), _ALSO)}
