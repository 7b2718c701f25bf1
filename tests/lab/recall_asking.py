"""Asking the questions of one case: the scores of each, and whether the block of a turn holds the answer.

LongMemEval's scores are as its own scorer defines them: the gain of the second place is divided by log2(2), which is 1, and
the ideal is taken over all sessions. A turn is prepared with the hooks of the memory, and thrown away. The words of an
answer are the stems of the shortest one that the evidence has and the question has not. They stand in the block where a
line has them that names who said the evidence, and the day: a date, or a number beside the name of the month.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime, timezone
from math import log2
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.context.block.render import Today, day_text
from edgemem.errors import InvalidInputError
from edgemem.languages.words import all_words
from edgemem.loop.loop import AgentLoop
from edgemem.recall.text.analyse import plain_words, terms
from edgemem.records import Reply
from lab.judge import lines_of
from lab.recall_cases import ADVERSARIAL, LEFT_OUT, Asked, Case, Form, strict_sessions
from lab.recall_home import Filled

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from edgemem.memory import Memory
    from edgemem.records import Message, Recalled
    from lab.recall_cases import Said


CUTS = (1, 5, 10, 20)
BEST = 5
SESSIONS = 5
"""Sessions that are looked at, as `Memory.recall_sessions` ranks them: by the noisy or of their messages."""


def recall_at(found: Sequence[str], evidence: Collection[str], k: int) -> float:
    return len(set(evidence).intersection(found[:k])) / len(set(evidence))


def reciprocal_rank(found: Sequence[str], evidence: Collection[str]) -> float:
    """Return 1 over the place of the first evidence; 0 if none was found."""
    return next((1.0 / place for place, one in enumerate(found, 1) if one in evidence), 0.0)


def turn_scores(
    found: Sequence[str], sessions: Sequence[str], *, evidence: Collection[str], right: Collection[str]
) -> dict[str, float]:
    """Return the scores of one question by the messages and the sessions found, best first, against those that answer."""
    return {
        **{f"recall@{k}": recall_at(found, evidence, k) for k in CUTS},
        f"session_recall@{SESSIONS}": recall_at(sessions, right, SESSIONS),
        "mrr": reciprocal_rank(found, evidence),
    }


def session_scores(ranked: Sequence[str], right: Collection[str], *, of: int) -> dict[str, float]:
    """Return LongMemEval's official scores of one question over a haystack of so many sessions, and the reciprocal rank."""
    scores: dict[str, float] = {}
    for k in (5, 10):
        first = set(ranked[:k])
        scores[f"recall_all@{k}"] = float(first.issuperset(right))
        scores[f"recall_any@{k}"] = float(not first.isdisjoint(right))
        scores[f"ndcg_any@{k}"] = ndcg([float(one in right) for one in ranked], len(set(right)), k, of=of)
    scores["mrr"] = reciprocal_rank(ranked, right)
    return scores


def ndcg(gains: Sequence[float], right: int, k: int, *, of: int) -> float:
    """Return the discounted gain of the first k of all places over the best one possible with so many right ones."""
    ideal = _dcg([1.0] * min(right, of), k)
    return _dcg(gains, k) / ideal if ideal else 0.0


def _dcg(gains: Sequence[float], k: int) -> float:
    # The scorer's own: places 1 and 2 count in full.
    return sum(gain / log2(max(2, place)) for place, gain in enumerate(gains[:k], 1))


def in_order(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(names))


READER = "the visitor"
"""Who asks where the questions name nobody: a recognised voice, which reads what the household said."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_BETWEEN = ("the", "of", "st", "nd", "rd", "th")
_TAG = re.compile(r"</?[a-z]+>")


class _Hears:
    def __init__(self) -> None:
        self.handed: Sequence[Message] = ()

    def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]],
        stop: Callable[[], bool],
        on_text: Callable[[str], None],
        now: float | None = None,
    ) -> Reply:
        self.handed = messages
        return Reply("I see.")

    def cut(self, heard_text: str) -> None:
        """Do nothing: nobody interrupts."""


class Block(NamedTuple):
    text: str
    late: bool  # whether the deadline of the turn passed before everything was looked at
    always: frozenset[str]
    """The lines that the speaker gets whatever they say, as their own allergy."""

    def lines(self) -> list[str]:
        """Return the lines that the utterance brings."""
        return [line for line in self.all_lines() if line not in self.always]

    def all_lines(self) -> list[str]:
        """Return the lines that hold a word, those that always stand there among them."""
        lines = self.text.splitlines()
        return [line for line in lines if lines_of(line) and not _TAG.fullmatch(line.strip())]


class Turns:
    """Prepares turns in a session of their own, and throws them away."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._model = _Hears()
        self._loop = AgentLoop(self._model, hooks=memory.hooks(session_id="bench recall", speaker=READER))
        self._always: dict[str | None, frozenset[str]] = {}

    def block(self, utterance: str, speaker: str | None) -> Block:
        if speaker not in self._always:
            self._always[speaker] = frozenset(self._shown("Hm.", speaker).splitlines())
        shown = self._shown(utterance, speaker)
        return Block(shown, self._memory.diagnostics.search.last.late, self._always[speaker])

    def _shown(self, utterance: str, speaker: str | None) -> str:
        self._loop.prepare(utterance, speaker=speaker or READER)
        self._loop.abort()
        for failure in self._loop.hooks.failures():
            raise InvalidInputError(f"{failure.hook} failed at {failure.point}: {failure.message}")
        content = self._model.handed[-1]["content"]
        if not isinstance(content, str) or utterance not in content:
            raise InvalidInputError("The turn does not hold what was said; a hook has changed the utterance.")
        return content.replace(utterance, "", 1).strip()


def answer_words(answer: str, evidence: Collection[Said], question: str) -> set[str]:
    """Return the words of an answer that the evidence has and the question has not."""
    said = {stem for one in evidence for stem in terms(one.text)}
    return said.intersection(terms(answer)).difference(terms(question))


def share_told(lines: Sequence[str], words: Collection[str], evidence: Collection[Said]) -> float:
    """Return the share of some words that stands in the lines of a block that name who said the evidence, and the day."""
    there = {stem for line in lines if any(_names(line, one) for one in evidence) for stem in terms(line)}
    return len(there.intersection(words)) / len(words)


def _names(line: str, said: Said) -> bool:
    return set(plain_words(said.speaker or "")).issubset(plain_words(line)) and has_day(line, said.at)


def has_day(line: str, at: float) -> bool:
    """Tell whether a line names the day of a moment, as it is here or in UTC."""
    moment = datetime.fromtimestamp(at, timezone.utc)
    return any(_names_day(line, when) for when in (moment, moment.astimezone()))


def _names_day(line: str, when: datetime) -> bool:
    written = [day_text(when, "whole", Today(language=code)) for code in all_words()]
    if any(re.search(rf"(?<!\d){re.escape(day)}", line) for day in (f"{when:%Y-%m-%d}", *written)):
        return True
    words = [word for word in re.findall(r"\d+|[^\W\d_]+", line.lower()) if word not in _BETWEEN]
    day, month = str(when.day), _MONTHS[when.month - 1]
    # Also "1st of March": what stands between is left out.
    return any(
        word == day and any(other.startswith(month) for other in words[max(0, place - 1) : place + 2])
        for place, word in enumerate(words)
    )


DEPTH = 100  # how far down the list is read; what stands behind is not found


class Answered(msgspec.Struct, frozen=True):
    asked: Asked
    scores: dict[str, float]  # empty where nothing answers the question
    empty: bool  # whether nothing reached the least score


class Asking:
    """Asks the questions of one case.

    Args:
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
        good = self._recall(asked, self._least, max(BEST, memory.profile.recall.k))
        scores: dict[str, float] = {}
        if asked.category not in LEFT_OUT:
            scores = self._scores(asked)
            if self._form != "longmemeval":
                scores[f"recall@{BEST}_min_score"] = recall_at(self._names(good), asked.evidence, BEST)
            scores |= self._block_scores(asked, found=scores.get(f"recall@{BEST}") == 1.0)
        return Answered(asked, scores, not good)

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
        """Return what the block holds, and whether it does where all the evidence is among the first five."""
        if self._turns is None or self._count is None or not asked.evidence:
            return {}
        block = self._turns.block(asked.text, asked.asker)
        lines = block.all_lines()
        scores = {
            "block_tokens": float(self._count(block.text)) if block.lines() else 0.0,
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
