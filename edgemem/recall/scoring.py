"""Scoring: candidates in the order of their scores: messages and facts by what was learnt, all else by `fusion`."""

from __future__ import annotations

from collections import Counter
from math import isnan
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from edgemem.recall.fact_scores import clues_of
from edgemem.recall.fact_scores import scores_of as fact_scores_of
from edgemem.recall.fusion import Signals, reasons, scores_of
from edgemem.recall.linear import REASONS, LinearModel, Messages
from edgemem.recall.linear import reasons as turn_reasons
from edgemem.recall.replacing import COMPARED, Said
from edgemem.recall.signals import SIGNALS, Field, rank, signals_of
from edgemem.recall.sources import FACT, KINDS, PREFERENCE, SUMMARY, TURN
from edgemem.recall.then_told import told_then
from edgemem.recall.traits import COUNTS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.fusion import Weights
    from edgemem.recall.linear import Models
    from edgemem.recall.question import Question
    from edgemem.recall.view import View

    Slots = NDArray[np.intp]
    Numbers = NDArray[np.float32]
    WordsOf = Callable[[Sequence[int]], Mapping[int, frozenset[str]]]

_PLACES = {name: place for place, name in enumerate(SIGNALS)}
_OF_THE_BEST = ("words", "window", "session_words", "meaning_share")
"""Signals that are a share of the best message's."""
_VALUES = (FACT, PREFERENCE)
HALF_LIFE_S = 30 * 86400.0
_BY_WORDS = 0.4
"""What is left of a summary's score where words alone were looked for: a message that has all of them scores .1 then, and
.3 to .5 with meaning."""


class Hit(NamedTuple):
    """A candidate with its score."""

    score: float
    kind: int
    ref: int
    row: int
    """Its place among all candidates."""

    @property
    def name(self) -> str:
        """Return `kind:id`, as a turn remembers what it was shown."""
        return f"{KINDS[self.kind]}:{self.ref}"


class Ranking:
    """The candidates of a question with their scores; it knows nothing of the columns any more."""

    def __init__(
        self,
        view: View,
        question: Question,
        *,
        models: Models,
        meaning: float,
        weights: Weights,
        now: float,
        words_of: WordsOf,
    ) -> None:
        """Score the candidates; whoever calls holds the lock of the columns.

        Args:
            models: how messages, facts and preferences are scored.
            meaning: how much of its weight meaning has; 0 where the question has no vector.
            weights: how other kinds are scored.
            now: seconds since the epoch.
            words_of: reads the stems of docs.
        """
        import numpy as np

        rows = view.columns.rows
        self._model: LinearModel = models.at(meaning)
        self._by_words = models.words_only
        self._fact_models, self._meaning = models.facts, meaning
        self._weights = weights = msgspec.structs.replace(weights, meaning=weights.meaning * meaning)
        told = None if question.alone is None else told_then(view, question, now)
        self.told = told is not None
        """Whether no word of the question tells them apart; see `then_told`."""
        slots = np.flatnonzero(view.chosen) if told is None else told[0]
        kept = view.may[slots]
        slots = slots[kept]
        kind = rows["kind"][slots]
        turn, value = kind == TURN, np.isin(kind, _VALUES)
        order = np.concatenate([np.flatnonzero(some) for some in (turn, value, ~turn & ~value)])
        slots = slots[order]
        self.turns = int(turn.sum())
        """How many of them are messages; they come first."""
        self.messages = _messages(view, slots[: self.turns], question)
        """The signals of the messages."""
        self._sessions = rows["session"][slots[: self.turns]]
        self._waits = ~view.near[slots[: self.turns]] & bool(meaning)
        """Which of them have no vector yet, though the question has one: what they score by words alone counts."""
        if question.tense and told is None and self.turns > 1:
            self.messages = self.messages._replace(
                said=self._said(view, slots[: self.turns], question, words_of)
            )
        self._left = np.arange(self.turns)
        """Which of them were not left out."""
        self._parts: Numbers | None = None
        self._values = self.turns + int(value.sum())
        values, others = slots[self.turns : self._values], slots[self._values :]
        past = (
            _pasts(view, values, first=question.asks_first) if question.asks_past else np.zeros(len(values))
        )
        self.clues = clues_of(view, values, question, past)
        """Of the facts and preferences, one row each; they come next."""
        self._others = _signals_of_others(view, others, question, now)
        summary = weights.summary * (1.0 if meaning else _BY_WORDS)
        worth = np.where(rows["kind"][others] == SUMMARY, summary, 1.0)
        self.scores = (
            np.concatenate(
                [
                    self._scores_of_turns(),
                    fact_scores_of(models.facts.odds(self.clues, meaning)),
                    worth * scores_of(*self._others, weights),
                ]
            ).astype(np.float64)
            if told is None
            else told[1][kept][order]
        )
        self.kinds, self.refs, self._at = (rows[name][slots] for name in ("kind", "ref", "at"))
        self._order = np.lexsort((-self.refs, -self._at, -self.scores))
        self._like: dict[int, int] = {}
        """Of what joined later: whose reasons it has."""

    def __len__(self) -> int:
        return len(self.scores)

    def _said(self, view: View, slots: Slots, question: Question, words_of: WordsOf) -> Said:
        """Return what is compared of the messages; of as many again also the words, for echoes are left out later."""
        import numpy as np

        models = (self._model, self._by_words) if self._waits.any() else (self._model,)
        order = [np.argsort(-model.sums(self.messages), kind="stable")[: 2 * COMPARED] for model in models]
        rows = view.columns.rows
        docs: list[int] = rows["id"][slots].tolist()
        words = words_of([docs[row] for row in np.unique(np.concatenate(order)).tolist()])
        return Said(
            rows["who"][slots],
            (rows["marks"][slots] & COUNTS) > 0,
            tuple(words.get(doc, frozenset()) for doc in docs),
            frozenset(question.terms),
        )

    def best(self, kinds: Collection[int], *, least: float = 0.0) -> Iterator[Hit]:
        """Yield the candidates of some kinds that reach a score, the best first."""
        import numpy as np

        wanted = np.zeros(256, bool)
        wanted[list(kinds)] = True
        for row in self._order[(wanted[self.kinds] & (self.scores >= max(0.0, least)))[self._order]].tolist():
            yield Hit(float(self.scores[row]), int(self.kinds[row]), int(self.refs[row]), row)

    def leave_out(self, echoes: Collection[int], copies: Collection[int] = ()) -> None:
        """Score messages as if some of them had not been found; of these, echoes score 0, and copies are no candidates any more.

        They have no say in how sure it is that one answers, and a conversation is worth nothing for an echo. What was said next
        to one keeps what it has of that: the answer to a question that is asked again.
        """
        import numpy as np

        scores, refs = self.scores[: self.turns], self.refs[: self.turns]
        repeat = np.isin(refs, list(echoes))
        scores[repeat] = 0.0
        scores[np.isin(refs, list(copies))] = -1.0
        kept = np.flatnonzero(scores > 0)
        if len(kept) and not self.told:
            signals = self.messages.signals
            if repeat.any():
                self._weigh_sessions(kept, np.unique(self._sessions[repeat]))
            for name in _OF_THE_BEST:
                column = signals[kept, _PLACES[name]]
                if column.max() > 0:
                    signals[kept, _PLACES[name]] = column / column.max()
            self._left, self._parts = kept, None
            self.scores[kept] = self._scores_of_turns()
        self.rescore(self.scores)

    def _weigh_sessions(self, kept: Slots, echoing: Slots) -> None:
        """Set what the sessions with echoes are worth to what the best message that is kept there is; rank all anew."""
        import numpy as np

        signals, sessions = self.messages.signals, self._sessions[kept]
        for session in echoing:
            mates = kept[sessions == session]
            for name, own in (("session_words", "words"), ("session_meaning", "meaning")):
                best = signals[mates, _PLACES[own]].max(initial=0.0)
                signals[mates, _PLACES[name]] = np.minimum(signals[mates, _PLACES[name]], best)
        worth = np.zeros(int(sessions.max()) + 1, np.float32)
        worth[sessions] = signals[kept, _PLACES["session_words"]]
        signals[kept, _PLACES["session_rank"]] = rank(worth, sessions)
        signals[kept, _PLACES["window_rank"]] = rank(signals[kept, _PLACES["window"]], np.arange(len(kept)))

    def _scores_of_turns(self) -> Numbers:
        """Return the scores of the messages that are left, among themselves."""
        messages, waits = self.messages.some(self._left), self._waits[self._left]
        if not waits.any():
            return self._model.scores(messages)
        found, rest = self._by_words.scores(messages), self._model.scores(messages.some(~waits))
        # The best scores how sure it is that anything answers. What has words of the question, and no vector yet, makes that no less sure.
        said = messages.signals[:, _PLACES["words"]] > 0
        found[said] *= max(1.0, float(rest.max(initial=0.0) / found.max()))
        found[~waits] = rest
        return found

    def _parts_of_turns(self) -> Numbers:
        """Return what each reason adds to the log odds of all messages; nothing where one was left out."""
        import numpy as np

        messages, waits = self.messages.some(self._left), self._waits[self._left]
        found = self._by_words.parts(messages)
        found[~waits] = self._model.parts(messages.some(~waits))
        parts = np.zeros((self.turns, len(REASONS)), np.float32)
        parts[self._left] = found
        return parts

    def join(self, refs: Sequence[int], like: Sequence[int]) -> None:
        """Take in further things, each for the reasons of a candidate: versions of the same.

        They have no place in the order until `rescore` gives them one.
        """
        import numpy as np

        rows = np.array(like, np.intp)
        self._like.update(zip(range(len(self), len(self) + len(refs)), like, strict=True))
        self.scores = np.append(self.scores, self.scores[rows])
        self.kinds = np.append(self.kinds, self.kinds[rows])
        self.refs = np.append(self.refs, np.array(refs, self.refs.dtype))
        self._at = np.append(self._at, np.array(refs) / 1e6)

    def rescore(self, scores: NDArray[np.float64]) -> None:
        """Rank by other scores; what is below 0 is left out."""
        import numpy as np

        self.scores = scores
        self._order = np.lexsort((-self.refs, -self._at, -self.scores))

    def why(self, hit: Hit) -> tuple[str, ...]:
        """Return the signals that made a score, strongest first."""
        if self.told:
            return ("date",)
        row = self._like.get(hit.row, hit.row)
        if row < self.turns:
            if self._parts is None:
                self._parts = self._parts_of_turns()
            return turn_reasons(self._parts[row].tolist())
        if row < self._values:
            return self._fact_models.reasons(self.clues[row - self.turns].tolist(), self._meaning)
        words, meaning, *more = (float(column[row - self._values]) for column in self._others)
        signals = Signals(words, None if isnan(meaning) else meaning, *more)
        return reasons(signals, self._weights)


def _messages(view: View, slots: Slots, question: Question) -> Messages:
    import numpy as np

    if not len(slots):
        return Messages(np.zeros((0, len(SIGNALS)), np.float32), np.zeros(0), "", view.known)
    meaning = np.zeros(view.n + 1, np.float32)
    meaning[view.near] = np.maximum(view.cosines[view.near], 0)
    field = Field(
        view.columns,
        view.words,
        view.window,
        view.session,
        meaning,
    )
    signals = signals_of(field, slots, question, view.mentioned, view.allowed)
    return Messages(signals, view.columns.rows["at"][slots], question.tense, view.known)


def _signals_of_others(
    view: View, slots: Slots, question: Question, now: float
) -> tuple[Numbers, Numbers, Numbers, NDArray[np.float64]]:
    """Return words, meaning (not a number where it is not known), person and recent of what is neither said nor known."""
    import numpy as np

    rows = view.columns.rows
    who = rows["who"][slots]
    person = np.zeros(len(slots), np.float32)
    for name in question.people:
        code = view.columns.code(name)
        if code is not None:
            person[who == code] = 1.0
    recent = 0.5 ** (np.maximum(0.0, now - rows["at"][slots]) / HALF_LIFE_S)
    meaning = np.where(view.near[slots], view.cosines[slots], np.float32("nan"))
    return view.words[slots], meaning, person, recent


def _pasts(view: View, slots: Slots, *, first: bool) -> NDArray[np.float64]:
    """Return how well each fact is what was before: of one thing the last value that does not hold, or the first, is 1.

    The one before it is a half, then a third, and so on.
    """
    import numpy as np

    rows, facts = view.columns.rows, view.columns.facts
    places = np.flatnonzero(rows["past"][slots])
    places = places[np.argsort(rows["at"][slots[places]], kind="stable")]
    worth, seen = np.zeros(len(slots)), Counter[object]()
    for place in (places if first else places[::-1]).tolist():
        slot = int(slots[place])
        about = facts.get(slot)
        thing = slot if about is None else (about, int(rows["owner"][slot]))
        seen[thing] += 1
        worth[place] = 1 / seen[thing]
    return worth
