"""The block that a turn would have: whether the answer stands in it, and whether small talk stays without one.

A turn is prepared by the reference loop with the hooks of the memory, and thrown away, so each one finds the same memory
and an empty prompt. The words of an answer are those of the shortest one (stems of `edgemem.recall.words.terms`) that the
evidence has and the question has not; a question is left out where there are none, such as one that is answered by a day
or a speaker. They stand in the block where a line has them that names who said the evidence, and the day. A day is a date
(2026-03-01) or a number beside the name of the month (1 Mar, March 1st). Where nobody is named (the robot, LongMemEval's
user), no name is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.errors import InvalidInputError
from edgemem.loop import AgentLoop, Reply
from edgemem.recall.words import plain_words, terms

if TYPE_CHECKING:
    from edgemem.bench.recall_cases import Said
    from edgemem.memory import Memory
    from edgemem.records import Message

READER = "the visitor"
"""Who asks where the questions name nobody: a recognised voice, which reads what the household said."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_BETWEEN = ("the", "of", "st", "nd", "rd", "th")
_TAG = re.compile(r"</?[a-z]+>")


class _Hears:
    """A model that keeps what it is handed, and says little."""

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
        """Keep the messages."""
        self.handed = messages
        return Reply("I see.")

    def cut(self, heard_text: str) -> None:
        """Do nothing: nobody interrupts."""


class Block(NamedTuple):
    """What stood before one utterance."""

    text: str
    late: bool
    """Whether the deadline of the turn passed before everything was looked at."""

    def lines(self) -> list[str]:
        """Return its lines without the fence."""
        return [line for line in self.text.splitlines() if line.strip() and not _TAG.fullmatch(line.strip())]


class Turns:
    """Prepares turns in a session of their own, and throws them away."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._model = _Hears()
        self._loop = AgentLoop(self._model, hooks=memory.hooks(session_id="bench recall", speaker=READER))

    def block(self, utterance: str, speaker: str | None) -> Block:
        """Return the block of a turn."""
        self._loop.prepare(utterance, speaker=speaker or READER)
        self._loop.abort()
        for failure in self._loop.hooks.failures():
            raise InvalidInputError(f"{failure.hook} failed at {failure.point}: {failure.message}")
        content = self._model.handed[-1]["content"]
        if not isinstance(content, str) or utterance not in content:
            raise InvalidInputError("The turn does not hold what was said; a hook has changed the utterance.")
        return Block(content.replace(utterance, "", 1).strip(), self._memory.last_recall().late)


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
    if f"{when:%Y-%m-%d}" in line:
        return True
    words = [word for word in re.findall(r"\d+|[^\W\d_]+", line.lower()) if word not in _BETWEEN]
    day, month = str(when.day), _MONTHS[when.month - 1]
    # Also "1st of March": what stands between is left out.
    return any(
        word == day and any(other.startswith(month) for other in words[max(0, place - 1) : place + 2])
        for place, word in enumerate(words)
    )
