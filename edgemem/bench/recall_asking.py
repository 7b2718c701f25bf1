"""Asking the questions of one case, and what became of each: its scores, its time, and whether nothing was found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from time import perf_counter
from typing import TYPE_CHECKING

import msgspec

from edgemem.bench.recall_block import Turns, answer_words, share_told
from edgemem.bench.recall_cases import ADVERSARIAL, LEFT_OUT, Asked, Case, Form, strict_sessions
from edgemem.bench.recall_home import Filled
from edgemem.bench.recall_scores import CUTS, recall_at, session_scores, turn_scores

if TYPE_CHECKING:
    from edgemem.records import Recalled

DEPTH = 100
"""How far down the list is read; what stands behind is not found."""


class Answered(msgspec.Struct, frozen=True):
    """What became of one question."""

    asked: Asked
    scores: dict[str, float]
    """Empty where nothing answers the question."""
    ms: float
    embed_ms: float
    empty: bool
    """Whether nothing reached the least score."""


class Asking:
    """Asks the questions of one case.

    Args:
        least: the score below which nothing counts as found.
        count: counts the tokens of a block; None: blocks are not looked at.
    """

    def __init__(
        self, here: Filled, case: Case, *, form: Form, least: float, count: Callable[[str], int] | None
    ) -> None:
        self._here = here
        self._form = form
        self._least = least
        self._count = count
        self._said = {one.id: one for one in case.said}
        self._sessions = len({one.session for one in case.said})
        self._turns = Turns(here.memory) if count is not None else None
        self._asked = [one for one in case.asked if one.sessions or one.category in LEFT_OUT]

    def all(self) -> Iterator[Answered]:
        """Yield what became of each question."""
        for asked in self._asked:
            if asked.category != ADVERSARIAL:
                self._here.clock.at = asked.at
                yield self._one(asked)

    def talk(self, utterances: Iterable[tuple[str, str]]) -> Iterator[bool]:
        """Yield of each utterance whether anything stood before it; pairs of speaker and words."""
        if self._turns is not None:
            for speaker, text in utterances:
                yield bool(self._turns.block(text, speaker).lines())

    def _one(self, asked: Asked) -> Answered:
        memory = self._here.memory
        begun = perf_counter()
        good = self._recall(asked, self._least, max(CUTS[0], memory.profile.recall.k))
        ms, embed_ms = (perf_counter() - begun) * 1e3, memory.last_recall().embed_ms
        scores: dict[str, float] = {}
        if asked.category not in LEFT_OUT:
            scores = self._scores(asked)
            if self._form != "longmemeval":
                scores["recall@5_min_score"] = recall_at(self._names(good), asked.evidence, CUTS[0])
            scores |= self._block_scores(asked, found=scores.get(f"recall@{CUTS[0]}") == 1.0)
        return Answered(asked, scores, ms, embed_ms, not good)

    def _recall(self, asked: Asked, least: float, k: int) -> list[Recalled]:
        return self._here.memory.recall(
            asked.text, speaker=_reader(asked), k=k, kinds={"turn"}, min_score=least
        )

    def _scores(self, asked: Asked) -> dict[str, float]:
        found = self._here.memory.recall_sessions(asked.text, speaker=_reader(asked), k=DEPTH)
        sessions = [one.session for one in found]
        if self._form != "longmemeval":
            names = self._names(self._recall(asked, 0.0, DEPTH))
            return turn_scores(names, sessions, evidence=asked.evidence, right=asked.sessions)
        scores = session_scores(sessions, asked.sessions, of=self._sessions)
        if asked.strict:
            strict = session_scores(sessions, strict_sessions(asked), of=self._sessions)
            scores |= {f"strict_{name}": value for name, value in strict.items()}
        return scores

    def _block_scores(self, asked: Asked, *, found: bool) -> dict[str, float]:
        """Return what the block holds.

        Args:
            found: whether all the evidence is among the first five.
        """
        if self._turns is None or self._count is None or not asked.evidence:
            return {}
        block = self._turns.block(asked.text, asked.asker)
        lines = block.lines()
        scores = {
            "block_tokens": float(self._count(block.text)) if lines else 0.0,
            "block_late": float(block.late),
        }
        evidence = [self._said[one] for one in asked.evidence]
        words = answer_words(asked.answer, evidence, asked.text)
        if not words:
            return scores
        told = share_told(lines, words, evidence)
        whole = {"block_answer": float(told == 1.0), "block_answer_words": told}
        return scores | whole | ({"block_answer_found": whole["block_answer"]} if found else {})

    def _names(self, found: Sequence[Recalled]) -> list[str]:
        return [self._here.ids[item.id] for item in found]


def _reader(asked: Asked) -> str | msgspec.UnsetType:
    return msgspec.UNSET if asked.asker is None else asked.asker
