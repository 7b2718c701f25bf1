"""The ranking: candidates in the order of their scores, which two models give to texts and to facts, and one gate to both."""

from __future__ import annotations

from collections import Counter, defaultdict
from math import exp, inf, isfinite, log, nextafter
from typing import TYPE_CHECKING, NamedTuple

from edgemem.recall.annotations import COUNTS
from edgemem.recall.index.sources import FACT, KINDS, PREFERENCE, SUMMARY, TURN
from edgemem.recall.rank.features import (
    FACT_FEATURES,
    FEATURES,
    MEANING,
    fact_features_of,
    features_of,
    rank,
)
from edgemem.recall.rank.gate import NOTHING, SLOWLY, Fit
from edgemem.recall.rank.model import reasons
from edgemem.recall.rank.period import period_candidates
from edgemem.recall.rank.replacing import COMPARED, Contents, Messages
from edgemem.store.fact_queries import held_within, keys_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.query import ParsedQuery
    from edgemem.recall.rank.gate import Gate, Utterance
    from edgemem.recall.rank.model import LinearModel, Models
    from edgemem.recall.search.query_view import QueryView
    from edgemem.records import Reader
    from edgemem.store.db.database import Database
    from edgemem.store.fact_queries import HeldWithin

    Slots = NDArray[np.intp]
    Numbers = NDArray[np.float32]
    WordsOf = Callable[[Sequence[int]], Mapping[int, tuple[frozenset[str], frozenset[str]]]]


_PLACES = {name: place for place, name in enumerate(FEATURES)}
_FACT_MEANING = list(FACT_FEATURES).index(MEANING)
_OF_THE_BEST = ("words", "window", "session_words", "meaning_share")
"""The features that are a share of the best message's."""
_VALUES = (FACT, PREFERENCE)
_OF_A_SUMMARY = 2 * log(0.5)
"""Is added to the log odds of a summary, which halves its score: the turns that it was made from say the same."""


class Hit(NamedTuple):
    """A candidate with its score."""

    score: float
    kind: int
    ref: int
    row: int
    """Its place among all candidates."""

    @property
    def name(self) -> str:
        """Return `kind:id`, the name under which a turn notes what it was shown."""
        return f"{KINDS[self.kind]}:{self.ref}"


class Ranking:
    """The candidates of a question with their scores; it holds copies, and no reference to the table."""

    def __init__(
        self,
        view: QueryView,
        question: ParsedQuery,
        *,
        models: Models,
        gate: Gate,
        utterance: Utterance,
        meaning: float,
        now: float,
        words_of: WordsOf,
    ) -> None:
        """Score the candidates; the caller holds the lock of the table.

        Args:
            gate: tells how likely any of them helps.
            meaning: the share of its weight that meaning has, 0 to 1; 0 where the question has no vector.
            now: seconds since the epoch.
            words_of: reads the stems and the words of messages, by docs.
        """
        import numpy as np

        rows = view.table.rows
        self._model: LinearModel = models.at(meaning)
        self._by_words, self._fact_models = models.words_only, models.facts
        self._gate, self.utterance, self._meaning = gate, utterance, meaning
        self._known, self._terms = view.known, len(question.terms)
        period = None if question.alone is None else period_candidates(view, question, now)
        self.by_period = period is not None
        """Whether the question asks for a period alone, so that no word of it ranks them; see `period`."""
        slots = np.flatnonzero(view.chosen) if period is None else period[0]
        kept = view.may[slots]
        slots = slots[kept]
        kind = rows["kind"][slots]
        turn, value = kind == TURN, np.isin(kind, _VALUES)
        order = np.concatenate([np.flatnonzero(some) for some in (turn, ~turn & ~value, value)])
        slots = slots[order]
        self.turns = int(turn.sum())
        """The number of messages, which come first."""
        self.texts = len(slots) - int(value.sum())
        """The number of candidates that are no facts or preferences; these two come last."""
        texts, values = slots[: self.texts], slots[self.texts :]
        self._messages = Messages(features_of(view, texts, question), rows["at"][texts], question.tense)
        self._less = np.where(rows["kind"][texts] == SUMMARY, np.float32(_OF_A_SUMMARY), np.float32(0))
        self._sessions = rows["session"][texts]
        self._waits = ~view.near[texts] & bool(meaning)
        """The texts that have no vector yet, though the question has one: the model of words alone scores them."""
        if question.tense and period is None and self.turns > 1:
            self._messages = self._messages._replace(contents=self._contents(view, texts, question, words_of))
        self._left = np.arange(self.texts)
        """The rows of the texts that were not left out."""
        past = (
            _pasts(view, values, first=question.asks_first) if question.asks_past else np.zeros(len(values))
        )
        self.fact_features = fact_features_of(view, values, question, past)
        """The features of facts and preferences, one row each."""
        self._odds = np.concatenate([self._odds_of_texts(), models.facts.odds(self.fact_features, meaning)])
        self._level = self._level_of_scores()
        self._likely = 1 / (1 + np.exp(-self._odds))
        self._likely[: self.texts] = 0.0
        self.scores = self._scores() if period is None else period[1][kept][order]
        self.kinds, self.refs, self._at = (rows[name][slots] for name in ("kind", "ref", "at"))
        self._like = np.arange(len(slots))
        """The row whose reasons each has: of what joined later that of a candidate."""

    @property
    def messages(self) -> Messages:
        """Return the candidate messages with their features."""
        return self._messages.some(slice(self.turns))

    @property
    def fit(self) -> Fit:
        """Return how well the best candidates that are left fit, for the gate."""
        import numpy as np

        features = self._messages.features[self._left]
        statements = self._odds[self._left[features[:, _PLACES["asks"]] <= 0]]
        return Fit(
            max(
                float(features[:, _PLACES["meaning"]].max(initial=0.0)),
                float(np.nan_to_num(self.fact_features[:, _FACT_MEANING]).max(initial=0.0)),
            ),
            float(np.concatenate([statements, self._odds[self.texts :]]).max(initial=NOTHING)),
            self._known,
            self._terms,
        )

    def __len__(self) -> int:
        return len(self.scores)

    def _contents(self, view: QueryView, slots: Slots, question: ParsedQuery, words_of: WordsOf) -> Contents:
        """Return the contents of the messages, with words for twice as many as are compared: echoes are left out later."""
        import numpy as np

        models = (self._model, self._by_words) if self._waits.any() else (self._model,)
        order = [np.argsort(-model.sums(self._messages), kind="stable")[: 2 * COMPARED] for model in models]
        rows = view.table.rows
        docs: list[int] = rows["id"][slots].tolist()
        # Notes and episodes replace no message.
        known = words_of([docs[row] for row in np.unique(np.concatenate(order)).tolist() if row < self.turns])
        stems, words = np.full((2, len(docs)), frozenset(), object)
        for row, doc in enumerate(docs):
            if doc in known:
                stems[row], words[row] = known[doc]
        return Contents(
            rows["who"][slots], (rows["flags"][slots] & COUNTS) > 0, stems, words, frozenset(question.terms)
        )

    def best(self, kinds: Collection[int], *, least: float = 0.0) -> Iterator[Hit]:
        """Yield the candidates of some kinds that reach a score, by themselves or among all, the best first."""
        import numpy as np

        chosen = np.zeros(256, bool)
        chosen[list(kinds)] = True
        reached = (self.scores >= 0) & (np.maximum(self.scores, self._likely) >= least)
        rows = np.flatnonzero(chosen[self.kinds] & reached)
        order = np.lexsort((-self.refs[rows], -self._at[rows], -self.scores[rows]))
        for row in rows[order].tolist():
            yield Hit(float(self.scores[row]), int(self.kinds[row]), int(self.refs[row]), row)

    def likely(self, hit: Hit) -> float:
        """Return how likely a fact or a preference answers, 0 to 1, whether anything is wanted or not; 0 for all else."""
        return float(self._likely[hit.row])

    def leave_out(self, echoes: Sequence[int], copies: Sequence[int] = ()) -> None:
        """Score messages as if some rows had not been found; of these, echoes score 0, and copies are no candidates any more.

        They have no say in how sure it is that one answers, and a conversation gains nothing by an echo. What was said next
        to one keeps what it has of that: the answer to a question that is asked again.
        """
        import numpy as np

        repeats = np.array(echoes, np.intp)
        self.scores[repeats] = 0.0
        self.scores[np.array(copies, np.intp)] = -1.0
        kept = np.flatnonzero(self.scores[: self.texts] > 0)
        if not self.by_period:
            features = self._messages.features
            if len(repeats):
                self._weigh_sessions(kept[kept < self.turns], np.unique(self._sessions[repeats]))
            for name in _OF_THE_BEST:
                column = features[kept, _PLACES[name]]
                if column.max(initial=0.0) > 0:
                    features[kept, _PLACES[name]] = column / column.max()
            self._left = kept
            self._odds[kept] = self._odds_of_texts()
            level, self._level = self._level, self._level_of_scores()
            self.scores[kept] = self._scores()[kept]
            known, alone = self.scores[self.texts :], self._meaning * self._likely[self.texts :] ** 2
            known[known > 0] = np.maximum(known * exp(self._level - level), np.minimum(known, alone))[
                known > 0
            ]

    def _weigh_sessions(self, kept: Slots, echoing: Slots) -> None:
        """Set the scores of the sessions with echoes to those of the best message that is kept there; rank all anew."""
        import numpy as np

        if not len(kept):
            return
        features, sessions = self._messages.features, self._sessions[kept]
        for session in echoing:
            mates = kept[sessions == session]
            for name, own in (("session_words", "words"), ("session_meaning", "meaning")):
                best = features[mates, _PLACES[own]].max(initial=0.0)
                features[mates, _PLACES[name]] = np.minimum(features[mates, _PLACES[name]], best)
        session_words = np.zeros(int(sessions.max()) + 1, np.float32)
        session_words[sessions] = features[kept, _PLACES["session_words"]]
        features[kept, _PLACES["session_rank"]] = rank(session_words, sessions)
        features[kept, _PLACES["window_rank"]] = rank(features[kept, _PLACES["window"]], np.arange(len(kept)))

    def _scores(self) -> NDArray[np.float64]:
        """Return the score of each candidate that is left, by its odds.

        Who orders a coffee asks for nothing, and is helped by how he likes it: a fact that is likely meant scores its likelihood
        squared at least (chosen as `tests/lab/tuning.md` says). By words alone one rare word is enough to be likely, so
        there only what is asked counts.
        """
        import numpy as np

        gated = np.exp(np.minimum(self._odds / SLOWLY + self._level, 0.0))
        scores: NDArray[np.float64] = np.maximum(gated, self._meaning * self._likely**2).astype(np.float64)
        return scores

    def _level_of_scores(self) -> float:
        """Return the logarithm of what a candidate with even odds scores: the best of those that are left scores the chance."""
        left = self._odds[self._left], self._odds[self.texts :]
        best = max(float(odds.max(initial=-inf)) for odds in left)
        if not isfinite(best):
            return 0.0
        fit, waits = self.fit, self._waits[self._left].any()
        # How near in meaning the best is, nobody knows while some wait for their vectors.
        chance = max(
            self._gate.chance(self.utterance, fit, meaning=share)
            for share in ((self._meaning, 0.0) if waits else (self._meaning,))
        )
        return log(chance) - best / SLOWLY

    def _odds_of_texts(self) -> Numbers:
        """Return the log odds of the texts that are left, and keep what each has for being newer."""
        import numpy as np

        messages, waits = self._messages.some(self._left), self._waits[self._left]
        by_words = self._by_words if waits.any() else self._model
        own = by_words.own_odds(messages)
        log_odds = by_words.replacing.lifted(own, messages)
        lifts = log_odds - own
        if waits.any():
            others = messages.some(~waits)
            own_rest = self._model.own_odds(others)
            rest = self._model.replacing.lifted(own_rest, others)
            # What has words of the question, and no vector yet, is as likely as what has one.
            worded = messages.features[:, _PLACES["words"]] > 0
            if len(rest):
                log_odds[worded] += max(0.0, float(rest.max() - log_odds.max()))
            log_odds[~waits], lifts[~waits] = rest, rest - own_rest
        self._lifts = np.zeros(self.texts, np.float32)
        self._lifts[self._left] = lifts
        log_odds += self._less[self._left]
        return log_odds

    def join(self, refs: Sequence[int], like: Sequence[int]) -> None:
        """Take in further things, each with the score and the reasons of a candidate: versions of the same."""
        import numpy as np

        rows = np.array(like, np.intp)
        self._like = np.append(self._like, rows)
        self.scores = np.append(self.scores, self.scores[rows])
        self._odds = np.append(self._odds, self._odds[rows])
        self._likely = np.append(self._likely, self._likely[rows])
        self.kinds = np.append(self.kinds, self.kinds[rows])
        self.refs = np.append(self.refs, np.array(refs, self.refs.dtype))
        self._at = np.append(self._at, np.array(refs) / 1e6)

    def why(self, hit: Hit) -> tuple[str, ...]:
        """Return the reasons for a score, the strongest first."""
        if self.by_period:
            return ("date",)
        row = int(self._like[hit.row])
        if row >= self.texts:
            features = self.fact_features[row - self.texts].tolist()
            return reasons(self._fact_models.parts(features, self._meaning))
        if row not in self._left:
            return ()
        model = self._by_words if self._waits[row] else self._model
        parts = model.parts(self._messages.features[row].tolist())
        return reasons({**parts, "recent": float(self._lifts[row])})


def _pasts(view: QueryView, slots: Slots, *, first: bool) -> NDArray[np.float64]:
    """Return how well each fact is what was before: of one thing the last value that does not hold, or the first, is 1.

    The one before it is a half, then a third, and so on.
    """
    import numpy as np

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


_ALSO, _NOW, _OTHER = 0.97, 0.95, 0.7
"""What is left of the score of a thing's versions that are not meant first: of what held then as well, of what holds now,
which is often told, too, and of what neither holds nor held then."""
_LEAST_SHARE = 0.05  # of the time that is asked for: a value that came in its last hours did not hold then
_AS_LONG, _FOR_LONG = 0.8, 0.2
"""Of the time for which the one held that held longest: what is as good, and what is worth telling as well."""
_MOST_MORE = 3


def choose_versions(
    ranking: Ranking,
    truth: Database,
    times: Sequence[tuple[float, float]],
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
    for value in held_within(truth, by_thing, [*times, (now, nextafter(now, inf))], reader=reader):
        held[value.key, value.time].append(value)
    old, scores = ranking.scores, {}
    joining: dict[int, int] = {}
    for thing, refs in by_thing.items():
        best = max(refs, key=lambda ref: old[rows[ref]])
        present = {value.origin for value in held[thing, len(times)]}
        meant: dict[int, float] = {}
        for n, (begin, end) in enumerate(times):
            for ref, share in values_meant(held[thing, n], end - begin).items():
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
    ranking.join(list(joining), list(joining.values()))
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
