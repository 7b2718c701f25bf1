"""The selection: which recalled items are worth their tokens, and which of their lines fit the budget of a block.

An item is left out if it scores too little beside the best one, if it only asks, or if it repeats the utterance. A turn that
holds a sentence of the utterance still adds something if another of its sentences goes on from there: that sentence shares a
word with the utterance, or refers back ("It's on the shelf.").

An answer is as private as what memory shows before it, so what would close it must be likely to help by itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import NamedTuple

from edgemem.config import InjectionSettings
from edgemem.context.block.delta import VALUES
from edgemem.context.block.render import LINE_CHARS, MOST_CHARS, fitting
from edgemem.context.sentences import split_sentences
from edgemem.fence import fence
from edgemem.languages.words import common_words, cues, either
from edgemem.preload import Pattern, preloaded
from edgemem.recall.rank import selection
from edgemem.recall.text.analyse import NOTHING, Analysis, plain_words, stem, terms
from edgemem.records import BlockLine, Recalled
from edgemem.scopes import RANK, Level

NEAR, NEAR_TOLD, BESIDE = 0.4, 0.25, 0.6
"""The least score of a fact, of any other item, and of any other item beside a fact, as a share of the best item's score.

Each token costs silence, and a fact says in few words what holds now: so more is asked of what stands beside one. How the
shares were chosen stands in `tests/lab/tuning.md`.
"""

_EPISODE = 0.15
"""Added to the score of an episode: it stands before a turn that scores a little more, since it is short and sure."""

_FEWEST = 3
"""Words of a sentence, from which on it is no chance that both have it."""
_ALIKE = 0.75
"""The share of words that two questions have in common which ask the same, perhaps of another thing. Of the messages that answer
our own and LoCoMo's questions, one or two in a thousand have a sentence that is so much alike to the question."""

MIN_SAFETY_SCORE = 0.2
"""How likely it must be that a fact that concerns somebody's safety helps; two such lines a block at most."""


class Floors(NamedTuple):
    """From which score on something is said."""

    any: float = 0.0
    """The least score of the best item; below it nothing is said. See `edgemem.recall.rank.models`."""
    safety: float = 0.0
    """The least score of a fact that concerns somebody's safety."""

    @property
    def lowest(self) -> float:
        """Return the score below which nothing is ever said."""
        return min(NEAR_TOLD * self.any, self.safety)


def floors_of(injection: InjectionSettings) -> Floors:
    """Return the least scores at which something is put before the model."""
    return Floors(injection.min_score, MIN_SAFETY_SCORE)


def worth_saying(
    recalled: Sequence[Recalled],
    floors: Floors,
    *,
    utterance: Analysis = NOTHING,
    answer: Level | None = None,
) -> list[Recalled]:
    """Return what is worth its tokens: facts first, then what tools did and what was said, each best first.

    A fact says what holds now in few words, while the turn in which it was told may have been corrected since; a
    turn that only asks answers nothing, and one that says again what the speaker has just said tells nothing.

    Args:
        answer: who may read the answer so far; None: nothing that is shown closes it.
    """
    least = least_scores(recalled, floors, answer=answer)
    worth = [item for item in recalled if item.score >= least.of(item) and not only_asks(item)]
    settled = sorted((item for item in worth if item.kind in VALUES), key=lambda item: -item.score)
    others = [item for item in worth if item.kind not in VALUES]
    others.sort(key=lambda item: -item.score - _EPISODE * (item.kind == "episode"))
    return settled + (_each_once(others, settled, utterance) if others else [])


class Least(NamedTuple):
    """From which score on an item is worth its tokens, beside others."""

    best: float
    """The score of the best item that does not only ask; infinite where nothing is worth saying."""
    beside: bool
    """Whether that is a fact or a preference."""
    floors: Floors
    answer: Level | None

    def of(self, item: Recalled) -> float:
        """Return the least score that one item needs to be shown."""
        least, alone = self.best * self.share(item), self.floors.any
        if item.safety:
            least, alone = min(least, self.floors.safety), self.floors.safety
        return max(least, alone) if self.closes(item) else least

    def closes(self, item: Recalled) -> bool:
        """Tell whether the answer would be more private with an item than without."""
        return self.answer is not None and RANK[item.level] > RANK[self.answer]

    def share(self, item: Recalled) -> float:
        """Return the share of the best that an item must score."""
        return NEAR if item.kind in VALUES else BESIDE if self.beside else NEAR_TOLD


def least_scores(recalled: Iterable[Recalled], floors: Floors, *, answer: Level | None = None) -> Least:
    """Return the score from which on each of some items is worth its tokens.

    How likely it is that any helps, the best of all tells, also if it only asks; what is near, the best that tells anything.
    """
    best, nearest, beside = 0.0, 0.0, False
    for item in sorted((item for item in recalled if not item.safety), key=lambda item: -item.score):
        best = max(best, item.score)
        if not only_asks(item):
            nearest, beside = item.score, item.kind in VALUES
            break
    return Least(nearest if best >= floors.any else math.inf, beside, floors, answer)


def only_asks(item: Recalled) -> bool:
    """Tell whether an item is a turn that asks something and answers nothing: beside the question it says small talk, if anything."""
    if item.kind != "turn" or len(item.text) > selection.MOST_CHARS:
        return False
    return selection.only_asks(item.text) or (
        selection.asks(item.text)
        and not any(
            tells(sentence) for sentence in split_sentences(item.text) if not selection.only_asks(sentence)
        )
    )


def _each_once(items: Iterable[Recalled], settled: Sequence[Recalled], utterance: Analysis) -> list[Recalled]:
    """Return what somebody told, without what the utterance or a line before it says.

    A turn that holds the whole value of a fact is where the fact comes from, and says it at length. Of everything else
    little words count, since "not" is one of them; and what two people said stands for both.
    """
    values = [words for item in settled if len(words := frozenset(plain_words(item.value or ""))) > 1]
    kept: list[tuple[str | None, frozenset[str]]] = [
        (None, frozenset(plain_words(item.text))) for item in settled
    ]
    out = []
    heard = Uttered.of(utterance)
    for item in items:
        words, who = frozenset(plain_words(item.text)), item.speaker
        if item.kind == "turn" and (not adds(item.text, heard) or any(value <= words for value in values)):
            continue
        if any(words <= other and by in (None, who) for by, other in kept):
            continue
        kept.append((who, words))
        out.append(item)
    return out


class FittingLines(NamedTuple):
    """The lines of a block that fit its budget."""

    lines: list[BlockLine]
    tokens: int
    """The tokens of these lines and of what was spent before."""


def within(
    shown: Sequence[BlockLine],
    *,
    tokens: float,
    count: Callable[[str], int],
    spent: int = 0,
    alone: bool = False,
    recalled: Iterable[Recalled] = (),
    question: Analysis = NOTHING,
    now: float | None = None,
) -> FittingLines:
    """Return the lines that fit, best first; one that is too long lets a shorter one behind it pass.

    Where they do not all fit, facts come first, and what was said is shortened, so that more of it may be told.

    Args:
        tokens: the budget of the whole block.
        count: tokens of a text.
        spent: tokens that the fence and other lines take already.
        alone: whether they stand in a fence of their own, in which a single line takes less (`fence`).
        recalled: what the lines tell of; a line of anything else stands as it is or not at all.
        question: by what a turn is shortened.
        now: as for `lines_for`.
    """
    count = cache(count)  # a block that was tried is the one that is said
    items = {
        name: item for item in recalled if item.kind not in VALUES and (name := f"{item.kind}:{item.id}")
    }
    # Most often all of them fit; where a text is cut, it had better be shortened.
    cut = any(len(items[line.id].text) > LINE_CHARS for line in shown if line.id in items)
    if shown and not (cut and math.isfinite(tokens)):
        size = _size(shown, count, spent, alone=alone, most=tokens)
        if size <= tokens:
            return FittingLines(list(shown), size)
    out: list[BlockLine] = []
    taken = spent
    for line in shown:
        if line.id not in items and (size := count(f"{line.line}\n")) <= tokens - taken:
            taken += size
            out.append(line)
    out += fitting(
        [line for line in shown if line.id in items],
        items,
        question=question,
        room=tokens,
        count=lambda some: _size([*out, *some], count, spent, alone=alone, most=tokens),
        now=now,
    )
    return FittingLines(out, _size(out, count, spent, alone=alone) if out else 0)


def _size(
    shown: Sequence[BlockLine],
    count: Callable[[str], int],
    spent: int,
    *,
    alone: bool,
    most: float = math.inf,
) -> int:
    """Return what a block of some lines takes, where the fence of several lines takes `spent`; about, if it is more than `most`."""
    lines = [line.line for line in shown if line.line]
    if alone and len(lines) == 1:
        return count(fence(lines))
    text = "".join(f"{line}\n" for line in lines)
    words = len(text.split())  # there are no fewer tokens, since none spans two words
    return spent + (words if spent + words > most else count(text))


class Uttered(NamedTuple):
    """An utterance, ready to be held against all that is recalled."""

    whole: Analysis
    sentences: list[list[str]]
    """The words of each of its sentences that can be said again."""

    @classmethod
    def of(cls, whole: Analysis) -> Uttered:
        """Cut an utterance into its sentences."""
        sentences = map(plain_words, split_sentences(whole.text[:MOST_CHARS]))
        return cls(whole, [sentence for sentence in sentences if len(sentence) >= _FEWEST])


def adds(text: str, utterance: Uttered) -> bool:
    """Tell whether what somebody said once tells more than the utterance; in doubt it does."""
    repeated, uttered = utterance.sentences, frozenset(utterance.whole.words)
    words = plain_words(text)
    if tuple(words) == utterance.whole.words:
        return False
    if sum(word in uttered for word in words) < _FEWEST:
        return True  # too few for any sentence that both have, or that is much alike
    left, again = [], False
    for sentence in split_sentences(text[:MOST_CHARS]):
        words = plain_words(sentence)
        rest = _without(words, repeated)
        if rest != words:
            again = True
            sentence = " ".join(rest)  # noqa: PLW2901
        elif selection.only_asks(sentence) or selection.asks(sentence):
            alike = any(_much_alike(words, other) for other in repeated)
            again = again or alike
            if alike or selection.only_asks(sentence):
                continue
        left.append(sentence)
    if not again:
        return True
    asked = frozenset(utterance.whole.terms())
    return any(_goes_on(sentence, asked) for sentence in left)


def _goes_on(sentence: str, asked: frozenset[str]) -> bool:
    """Tell whether a sentence says more of what it stands beside."""
    if _small_talk().refers.match(sentence.replace("’", "'")):
        return any(term not in _common_stems() for term in terms(sentence))
    return not asked.isdisjoint(terms(sentence)) and tells(sentence)


def _much_alike(first: list[str], other: list[str]) -> bool:
    """Tell whether two sentences have nearly all of their words in common, in the same order."""
    longest = [0] * (len(other) + 1)
    for word in first:
        before = 0
        for n, other_word in enumerate(other, 1):
            before, longest[n] = (
                longest[n],
                before + 1 if word == other_word else max(longest[n], longest[n - 1]),
            )
    return longest[-1] >= _ALIKE * max(len(first), len(other), _FEWEST)


def _without(words: list[str], repeated: Sequence[list[str]]) -> list[str]:
    """Return words without those sentences that stand in them as a whole."""
    for sentence in repeated:
        size = len(sentence)
        for start in range(len(words) - size + 1):
            if words[start : start + size] == sentence:
                words = words[:start] + words[start + size :]
                break
    return words


@preloaded
def _common_stems() -> frozenset[str]:
    return frozenset(map(stem, common_words()))


def tells(text: str) -> bool:
    """Tell whether a sentence says more than small talk does, so that a reader would miss it."""
    if _small_talk().greeting.fullmatch(text):
        return False
    stems = frozenset(terms(text)) - _small_talk().empty
    # A script without spaces makes one long word of a whole clause.
    return len(stems) > 1 or any(len(stem) > 2 and not stem.isascii() for stem in stems)


class _SmallTalk(NamedTuple):
    refers: Pattern
    """The beginning of an answer that speaks of what the question was about."""
    greeting: Pattern
    """A text that greets, thanks or wonders, perhaps with whom it speaks to, and says nothing else."""
    empty: frozenset[str]
    """Stems that say nothing."""


@preloaded
def _small_talk() -> _SmallTalk:
    known = cues()
    before = rf"(?:{either(known.before_refers)} |{either(known.answers_before)},? )?"
    called, end = r"(?:,? (?!I\b)(?-i:[A-Z])\w+)?", r"(?: *[,!.…]+ *| +[-–—]+ +|$)"
    talk = rf"(?:{either(known.small_talk)}(?: {either(known.behind_small_talk)})?{called}{end})+"
    return _SmallTalk(
        Pattern(rf"{before}{either(known.refers)}(?!\w)", flags=re.IGNORECASE),
        Pattern(talk, flags=re.IGNORECASE),
        frozenset(terms(" ".join(known.of_small_talk.words))),
    )
