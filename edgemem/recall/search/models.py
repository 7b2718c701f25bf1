"""The linear models: how likely each candidate answers, and which newer message replaces an older one.

Candidates' log odds mean the same for texts and facts. `make lab ARGS=fit` learns them on `tests/lab/weeks.py` and writes
`ranking.toml`; each weight can be read, and changed. What a candidate scores by its log odds is told by the gate (`gate.py`).

Another model says of each of the best messages and facts how likely each newer one replaces it, by features of the pair. That part of
its chance to answer passes to the newer one where the question asks for the present state. So the newest gathers all of many that
replace one another, as daily readings do. Where the question asks for a former state, the older one gains. A message that is surely
replaced is shown only for its past.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from edgemem.preload import np, preloaded
from edgemem.recall.index.docs import CHANGES, COUNTS, SUPPOSES
from edgemem.recall.index.table import NOBODY
from edgemem.recall.index.vectors import products
from edgemem.recall.search.features import FEATURES, PLACES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float32]
    Rows = NDArray[np.intp] | NDArray[np.bool_] | slice

RANKING_FILE = "ranking.toml"
_LEAST_REASON = 0.1
"""Log odds; a feature that adds less is no reason."""
PAIR_FEATURES = (
    "old_odds", "new_odds", "new_rank", "same_speaker", "days", "numbers_alike", "asked_of_both", "rare", "near", "nearest",
    "old_cue", "new_cue", "old_supposes", "new_supposes", "earlier", "later", "old_length", "new_length",
)  # fmt: skip
"""Whether a message replaces an older one, in the order of the columns.

odds: less the best one's. new_rank: its reciprocal rank among the compared. days: between them, by logarithm. numbers_alike: both
hold a number, or none. asked_of_both: the share of the question's words in both. rare: how few of the compared have a word of
both that is no number; a sum of fourth powers, so that the rarest tells. near: the cosine of their vectors, less the mean of those
without a common word; where one has none, of their words.
nearest: whether no other newer one is more so. cue: whether it says that something is otherwise than before. supposes: whether
somebody only supposed it. earlier: whether the new one was said before the old one, as only what was surely told may be.
later: how many still newer ones are near the new one, by logarithm. length: of its words, by logarithm.
"""
COMPARED, _NEWEST = 64, 32
"""Top messages and facts compared pairwise, so many of them because they are the newest that answer about as well as the best."""
_ABOUT = 3.0  # of log odds: what answers about as well as the best is compared
_LIKELY, SURE = 0.5, 0.88
"""From the first chance on a message passes that part of its share on; two with a number (readings, dates, ages) need none.

From the second one on the older message is not shown.
"""
_MOST = 30.0  # of log odds: the most that a pair has
_STEEP, _PASSED = 3.0, 0.95
"""How steeply log odds become shares in answering, and the most of one that is passed on."""
_NEAR = 0.4  # of `near`: what is told of the same
STORED = -2
_TELLING = [PLACES[name] for name in ("words", "meaning", "fact_words", "fact_meaning")]
_DAY_S = 86400.0
_SAME = 0.9  # the share of an older message's words in one that says the same again
_ALIKE = 0.65  # the share of two messages' words in both, if not all but one are


class LinearModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The weights of features by name; others weigh 0."""

    bias: float
    weights: dict[str, float]

    def odds(self, features: Numbers, names: Iterable[str] = FEATURES) -> Numbers:
        """Return log odds: bias plus weighted sums over the last axis, which has these features.

        `einsum` in place of `@`: on one processor BLAS warned of NaN where there was none.
        """
        weights = np.array([self.weights.get(name, 0.0) for name in names], np.float32)
        log_odds: Numbers = np.einsum("...i,i->...", features, weights) + np.float32(self.bias)
        return log_odds

    def odds_of(self, features: Mapping[str, float]) -> float:
        """Return the log odds of one thing by its named features."""
        return self.bias + sum(self.weights.get(name, 0.0) * value for name, value in features.items())

    def mix(self, other: LinearModel, share: float) -> LinearModel:
        """Return the model whose log odds are a mixture with a `share`, 0 to 1, of the other's."""
        names = dict.fromkeys([*self.weights, *other.weights])
        return LinearModel(
            (1 - share) * self.bias + share * other.bias,
            {
                name: (1 - share) * self.weights.get(name, 0.0) + share * other.weights.get(name, 0.0)
                for name in names
            },
        )


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Weights of `FEATURES`, for answers, and of `PAIR_FEATURES`, for replacing an older message."""

    answers: LinearModel
    replaces: LinearModel = LinearModel(0.0, {})

    def reasons(self, features: Sequence[float], recent: float = 0.0) -> tuple[str, ...]:
        """Return why a candidate answers, strongest first; `form` explains nothing and is never given.

        `recent` is the part of its log odds for replacing an older message.
        """
        parts = {"recent": recent}
        for value, (name, reason) in zip(features, FEATURES.items(), strict=True):
            if value and reason != "form":
                parts[reason] = parts.get(reason, 0.0) + self.answers.weights.get(name, 0.0) * value
        strong = [reason for reason, part in parts.items() if part >= _LEAST_REASON]
        return tuple(sorted(strong, key=lambda reason: (-parts[reason], reason)))


class Models(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One model where question and candidate have vectors, one where either has none."""

    with_meaning: Model
    words_only: Model

    def for_meaning(self, meaning: float) -> Model:
        """Mix the log odds of both: 0 is words alone, 1 is with meaning."""
        if meaning in (0, 1):
            return self.with_meaning if meaning else self.words_only
        words, both = self.words_only, self.with_meaning
        return Model(words.answers.mix(both.answers, meaning), words.replaces.mix(both.replaces, meaning))


@preloaded
def shipped_models() -> Models:
    """Read the package's models."""
    return msgspec.toml.decode(Path(__file__).with_name(RANKING_FILE).read_text("utf-8"), type=Models)


class Contents(NamedTuple):
    """The contents of candidates, one entry each."""

    who: NDArray[np.integer]
    """The speaker's code; `NOBODY` is the robot, or an unknown voice, `STORED` a fact or preference."""
    flags: NDArray[np.integer]
    """As `annotate` finds them."""
    stems: NDArray[np.object_]
    """A `frozenset[str]` each, for messages and facts that rank high enough to be compared; else empty."""
    vectors: NDArray[np.object_]
    """Of whole texts, unit length; None: not known."""
    asked: frozenset[str]
    """Stems of the question."""

    def subset(self, rows: Rows) -> Contents:
        """Return the contents of some rows."""
        return Contents(self.who[rows], self.flags[rows], self.stems[rows], self.vectors[rows], self.asked)


class Candidates(NamedTuple):
    """The candidates of a question."""

    features: NDArray[np.float32]
    """`float32[n, len(FEATURES)]`."""
    at: NDArray[np.float64]
    """When each was said, seconds since the epoch."""
    tense: Literal["now", "past", ""]
    """The question's; empty: neither, as "what did she say?"."""
    contents: Contents | None = None
    """For a question with a tense; None: none replaces another."""

    def subset(self, rows: Rows) -> Candidates:
        """Return the candidates of some rows."""
        contents = None if self.contents is None else self.contents.subset(rows)
        return self._replace(features=self.features[rows], at=self.at[rows], contents=contents)


class Pairs(NamedTuple):
    """A question's top messages and facts, compared pairwise."""

    rows: NDArray[np.intp]
    """Among the candidates."""
    features: NDArray[np.float32]
    """By old, new and `PAIR_FEATURES`."""
    allowed: NDArray[np.bool_]
    """By old and new: whether the new message may replace the old one.

    It must be newer, or surely told where the old one is only supposed, and both must answer something themselves. It may not
    replace a message
    - of another person that tells more about the people in the question ("I" means the speaker alone);
    - that has a number of the question which it lacks: cup 1 is not cup 0;
    - that has a word of the question which it lacks in much the same words: the dentist's number is not the plumber's;
    - of a person, if the robot said the new one.
    """
    again: NDArray[np.bool_]
    """By old and new: whether the new message surely says all that the old one does, but for its numbers: a reading of another day."""


def choose_compared(odds: Numbers, candidates: Candidates, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Choose those of some candidates that are compared, best first, by their log odds."""
    at = candidates.at[rows]
    late = at if candidates.tense == "past" else -at
    best = np.lexsort((late, -odds))
    good = np.flatnonzero(odds >= odds.max(initial=-np.inf) - _ABOUT)
    newest = good[np.argsort(late[good], kind="stable")][:_NEWEST]
    chosen, first = np.unique(np.concatenate([best[: COMPARED - _NEWEST], newest, best]), return_index=True)
    compared: NDArray[np.intp] = rows[chosen[np.argsort(first)][:COMPARED]]
    return compared


def compare(odds: Numbers, candidates: Candidates, contents: Contents) -> Pairs:
    """Compare the top messages and facts pairwise, by each candidate's log odds of answering."""
    rows = np.flatnonzero(contents.stems)
    rows = choose_compared(odds[rows], candidates, rows)
    at, features, contents = candidates.at[rows], candidates.features[rows], contents.subset(rows)
    supposes, earlier = (contents.flags & SUPPOSES) > 0, at < at[:, None]
    below = odds[rows] - odds[rows].max(initial=-np.inf)
    words = _likeness(contents.stems, contents.asked)
    near, length = _nearness(contents.vectors, words.alike), words.length
    tells = (features[:, _TELLING] > 0).any(axis=1) & (features[:, PLACES["asks"]] <= 0)
    same_speaker, about = contents.who[:, None] == contents.who, features[:, PLACES["about"]]
    surer = supposes[:, None] & ~supposes & (candidates.tense != "past")
    allowed = (
        ((at > at[:, None]) | (surer & earlier))
        & tells
        & tells[:, None]
        & (same_speaker | (about >= about[:, None]))
    )
    # Of two facts that hold neither replaces the other; what was stored may be anybody's.
    stored = contents.who == STORED
    allowed &= ~(stored & stored[:, None])
    allowed &= ~words.lacks & ((contents.who != NOBODY) | (contents.who == NOBODY)[:, None])
    later = ((near > _NEAR) & (at > at[:, None])).sum(axis=1)
    counts, changes = (contents.flags & COUNTS) > 0, (contents.flags & CHANGES) > 0
    again = allowed & counts & counts[:, None] & ~supposes & (words.covers >= _SAME) & (length > 1)[:, None]
    pair_features = np.empty((len(rows), len(rows), len(PAIR_FEATURES)), np.float32)
    columns = (
        below[:, None], below, 1 / (1 + np.argsort(np.argsort(-below, kind="stable"))),
        same_speaker | stored | stored[:, None], np.log1p(np.abs(at[:, None] - at) / _DAY_S),
        counts[:, None] == counts, words.both, words.rare, near, _most(near, allowed), changes[:, None], changes,
        supposes[:, None], supposes, earlier, np.log1p(later), np.log1p(length)[:, None], np.log1p(length),
    )  # fmt: skip
    for place, column in enumerate(columns):
        pair_features[..., place] = column
    return Pairs(rows, pair_features, allowed, again)


class _Likeness(NamedTuple):
    """How alike texts are by their words: of pairs by old and new, as `PAIR_FEATURES` and `Pairs` say."""

    length: NDArray[np.float64]
    both: NDArray[np.float64]
    covers: NDArray[np.float64]
    alike: NDArray[np.float64]
    rare: NDArray[np.float64]
    lacks: NDArray[np.bool_]


def _likeness(stems: NDArray[np.object_], question: frozenset[str]) -> _Likeness:
    told = [*chain.from_iterable(stems)]
    places = {word: place for place, word in enumerate(dict.fromkeys(told))}
    presence = np.zeros((len(stems), len(places)))
    presence[np.repeat(np.arange(len(stems)), [*map(len, stems)]), [places[word] for word in told]] = 1.0
    # Readings are alike but for their numbers.
    words = np.array([word.isalpha() or not any(map(str.isdecimal, word)) for word in places], bool)
    often = presence.sum(axis=0)
    idf = np.log(1 + (len(stems) - often + 0.5) / (often + 0.5)) * words
    weighed = presence * idf
    asked = [places[word] for word in question if word in places]
    having_asked = presence[:, asked]
    # What one message alone holds tells of no pair.
    shared = np.flatnonzero(often > 1)
    having_shared, weighed_shared = presence[:, shared], weighed[:, shared]
    both = products(having_asked * idf[asked], having_asked) / max(float(idf[asked].sum()), 1e-6)
    covers = products(weighed_shared, having_shared) / np.maximum(weighed.sum(axis=1, keepdims=True), 1e-6)
    weighed_shared /= np.sqrt((weighed**2).sum(axis=1, keepdims=True)) + 1e-6
    rarest = np.log(1 + max(len(stems) - 1.5, 0.5) / 2.5)  # of a word that two have
    rare = products(having_shared * (idf[shared] / rarest) ** 4, having_shared) ** 0.25
    length, alike_words = presence[:, words].sum(axis=1), having_shared[:, words[shared]]
    mean = (length[:, None] + length) / 2
    much = products(alike_words, alike_words) >= np.minimum(_ALIKE * mean, mean - 1)
    lacking = having_asked[:, None] > having_asked
    lacks = lacking[..., ~words[asked]].any(axis=-1) | (lacking.any(axis=-1) & much)
    return _Likeness(length, both, covers, products(weighed_shared, weighed_shared), rare, lacks)


def _nearness(vectors: NDArray[np.object_], alike: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cosines of all pairs, less the mean of those without a common word: embedders differ in what is far.

    Where a vector is not known, the words stand in.
    """
    known = np.flatnonzero([vector is not None for vector in vectors])
    nearness: NDArray[np.float64] = alike.copy()
    if len(known) > 1:
        matrix, here = np.stack(vectors[known].tolist()), np.ix_(known, known)
        cosines = products(matrix, matrix)
        far = alike[here] == 0
        nearness[here] = cosines - (cosines[far].mean() if far.any() else 0.0)
    return nearness


def _most(likeness: NDArray[np.float64], allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Tell by old and new which of the newer ones is likest to the old one, if any is."""
    some = np.where(allowed & (likeness != 0), likeness, -np.inf)
    likest: NDArray[np.bool_] = (some == some.max(axis=1, keepdims=True, initial=-np.inf)) & np.isfinite(some)
    return likest


class Weighed(NamedTuple):
    """What candidates weigh, one entry each."""

    odds: NDArray[np.float32]
    """The log odds of answering."""
    lifts: NDArray[np.float32]
    """Their part for replacing others, or for being replaced; turned where a former state is asked for."""
    replaced: NDArray[np.bool_]
    """Which are surely replaced."""


def weigh(candidates: Candidates, model: Model) -> Weighed:
    """Weigh candidates by themselves, and the newer ones against those that they replace."""
    odds = model.answers.odds(candidates.features)
    lifts, replaced, contents = np.zeros_like(odds), np.zeros(len(odds), bool), candidates.contents
    if not model.replaces.weights or contents is None or np.count_nonzero(contents.stems) < 2:
        return Weighed(odds, lifts, replaced)
    pairs = compare(odds, candidates, contents)
    chances, at = replacement_chances(pairs, model.replaces), candidates.at[pairs.rows]
    counts, past = (contents.flags[pairs.rows] & COUNTS) > 0, candidates.tense == "past"
    # Of many readings each newer one may be a little likely; of other messages that is told by chance.
    passed = np.where((chances > _LIKELY) | (counts & counts[:, None]), chances, 0.0)
    lifts[pairs.rows] = _passed_on(
        odds[pairs.rows].astype(np.float64), passed.T if past else passed, once=past
    )
    replaced[pairs.rows] = ((chances > SURE) & (at > at[:, None])).any(axis=1) & (not past)
    return Weighed(odds + lifts, lifts, replaced)


def _passed_on(odds: NDArray[np.float64], passed: NDArray[np.float64], *, once: bool) -> NDArray[np.float64]:
    """Return what log odds gain where each passes these parts of its share on, by giver and taker: once, or until nobody does.

    The shares end as those of an absorbing Markov chain (J. Kemeny and J. Snell, "Finite Markov Chains", 1960).
    """
    passed = passed / np.maximum(passed.sum(axis=1, keepdims=True) / _PASSED, 1.0)
    shares, rest = np.exp(_STEEP * (odds - odds.max())), 1 - passed.sum(axis=1)
    if once:
        gathered = rest * shares + (shares[:, None] * passed).sum(axis=0)
    else:
        gathered = rest * np.linalg.solve(np.eye(len(odds)) - passed.T, shares)
    gains: NDArray[np.float64] = np.log(gathered / shares) / _STEEP
    return gains


def replacement_chances(pairs: Pairs, model: LinearModel) -> Numbers:
    """Return by old and new how likely that new message replaces the old one, which one replaces or none.

    A conditional logit (D. McFadden, "Conditional logit analysis of qualitative choice behavior", 1974): among many that might
    replace it none is likely. All that say the same again replace it.
    """
    odds = np.where(pairs.allowed, model.odds(pairs.features, PAIR_FEATURES), -np.inf)
    shares = np.exp(np.minimum(odds, _MOST))
    chances: Numbers = np.where(pairs.again, 1.0, shares / (1 + shares.sum(axis=1, keepdims=True)))
    return chances
