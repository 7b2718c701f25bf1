"""The planner of epochs: it decides when a session's prompt begins anew, and with which summary.

A new epoch costs the model the whole prompt once, so it begins only above the high-water mark, and goes down to the low-water
mark at once. Planning and summarising read a snapshot in idle time; the result is switched in between two turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.context.block.delta import (
    CARRIED_SHARE,
    Current,
    carried_by,
    carrying,
    fitting,
    head_of,
    still_holding,
    to_carry,
    up_to_date,
)
from edgemem.context.budget import PromptSize, estimate, texts_of
from edgemem.context.prompt import CLOSED, PromptLog, PromptTurn
from edgemem.recall.people.hints import SOMEBODY_HERE
from edgemem.records import BlockLine, Epoch, Message, Reader, text_of
from edgemem.scopes import Level, most_private

if TYPE_CHECKING:
    from edgemem.context.budget import Budget
    from edgemem.context.compaction.extractive import Summarizer

HIGH_WATER = 0.92
"""Share of a prompt's room at which older turns are compacted; two or three turns still fit then."""

LOW_WATER = 0.5
"""Share of a prompt's room that a compaction leaves filled, so that the next one is far away."""

_READERS: dict[Level, Reader] = {"shared": Reader(), "household": SOMEBODY_HERE, "private": SOMEBODY_HERE}
_NEAR = 0.8
"""Share of the room from which a turn's end prepares for a next prompt that does not fit: the rest holds any question
but a pasted page, and that only makes the next epoch begin a few milliseconds later."""


def first_kept(costs: Sequence[int], *, fixed: int, room: int, most_turns: int) -> int | None:
    """Return the index of the first turn that stays word for word, or None where none can leave.

    A cut costs the model its cache, so the prompt goes below the low-water mark at once. The newest turn stays in any case.

    Args:
        costs: tokens of each turn in the prompt now, oldest first.
        fixed: tokens of instructions, tool schemas, and room for the summary and a memory block.
        most_turns: how many turns stay at most; the fewer, the less the model must read again.
    """
    first = len(costs) - 1
    left = LOW_WATER * room - fixed - sum(costs[-1:])
    while first > 1 and len(costs) - first < most_turns and costs[first - 1] <= left:
        first -= 1
        left -= costs[first]
    return first if first > 0 else None


class _Measured(NamedTuple):
    n: int = -1
    tokens: int = 0
    answered: bool = False
    first_turn: int = -1
    """The first turn of the epoch then."""


class EpochPlanner:
    """Plans the epochs of one prompt log for one window.

    Args:
        budget: its summary's share is for the head of an epoch, carried values included.
        current: tells which values hold; None: none are carried.
        now: the wall time that the new epoch freezes, seconds since the epoch UTC.
    """

    def __init__(
        self,
        log: PromptLog,
        budget: Budget,
        summarizer: Summarizer,
        *,
        current: Current | None = None,
        now: Callable[[], float],
    ) -> None:
        self.log = log
        self.summarizer = summarizer
        self.budget = budget
        self._current = current
        self._now = now
        self._counted: dict[int, tuple[int, int]] = {}
        self._newest = _Measured()
        self.prompt_size = PromptSize(budget.tokenizer)

    @property
    def room(self) -> int:
        """Return the tokens that a prompt may have."""
        return self.budget.plan.room

    @property
    def summary_tokens(self) -> int:
        """Return the tokens of an epoch's head: the summary, and the carried values."""
        return self.budget.plan["summary"]

    def plan(self) -> int | None:
        """Return the first turn of the next epoch, or None while there is room."""
        turns = self.log.epoch_turns()
        if not turns or self.size() <= HIGH_WATER * self.room:
            return None
        return self._first([self._cost(turn) for turn in turns], self._fixed())

    def plan_now(self, messages: Sequence[Message], tokens: int) -> int | None:
        """Return the first turn of an epoch for a prompt that did not fit, by text sizes alone; None: none would help."""
        turns = self.log.epoch_turns()
        if not turns:
            return None

        def estimated(message: Message) -> int:
            calls = message.get("tool_calls")
            return 8 + estimate(text_of(message)) + (12 + estimate(str(calls)) if calls else 0)

        ratio = tokens / max(1, sum(map(estimated, messages)))
        costs = [int(ratio * (sum(map(estimated, turn.messages)) + estimate(turn.block))) for turn in turns]
        summaries = self.summary_tokens - int(ratio * estimate(head_of(self.log.epoch)))
        return self._first(costs, max(0, tokens - sum(costs)) + summaries)

    def _first(self, costs: Sequence[int], fixed: int) -> int | None:
        index = first_kept(costs, fixed=fixed, room=self.room, most_turns=self.budget.context.keep_last_turns)
        return None if index is None else self.log.epoch_turns()[index].n

    def measured(self, n: int, tokens: int, *, answered: bool = False) -> None:
        """Note the exact size of the prompt of turn `n`, before its answer or with it."""
        self._newest = _Measured(n, tokens, answered, self.log.epoch.first_turn)

    def settle(self, tokens: int, *, tools: Sequence[dict[str, Any]] | None) -> None:
        """Measure ahead, at a turn's end near the limit, for a next prompt that does not fit; takes a millisecond."""
        turns = self.log.epoch_turns()
        if not turns:
            return
        most = sum(len(text_of(message).encode(errors="replace")) for message in turns[-1].messages[-1:])
        if tokens + most > _NEAR * self.room:
            counted = self.prompt_size.settle(self.log.view_in(self.log.epoch), tools=tools, limit=self.room)
            if counted is not None:
                self.measured(turns[-1].n, counted, answered=True)

    def size(self) -> int:
        """Return the prompt's tokens: as last counted, and the messages since."""
        turns = self.log.epoch_turns()
        n, tokens, answered, first_turn = self._newest
        # A size of an earlier epoch says nothing of this one.
        if not turns or first_turn != self.log.epoch.first_turn:
            return self._fixed() + sum(self._cost(turn) for turn in turns)
        since = [message for turn in turns if turn.n == n and not answered for message in turn.messages[1:]]
        later = sum(self._cost(turn) for turn in turns if turn.n > n)
        return tokens + later + sum(self._tokens_of(message) for message in since)

    def prepare(
        self,
        first_turn: int,
        *,
        summarizer: Summarizer | None = None,
        stop: Callable[[], bool] | None = None,
        reason: str = "high water",
    ) -> Epoch | None:
        """Write the next epoch, with a summary of the turns that leave the prompt; None when `stop` became true."""
        used = summarizer or self.summarizer
        carried = self._carried(first_turn)
        values = self._tokens_in(carried)
        # A summary is made of what the whole household sees; private parts are left out.
        leaving = [turn for turn in self.log.epoch_turns() if turn.n < first_turn and not turn.unkept]
        parts = [part for turn in leaving if (part := turn.seen_at("household")) is not None]
        summary = used.summarize(
            [_attributed(part) for part in parts],
            max_tokens=max(1, self.summary_tokens - values),
            previous=self.log.epoch.summary,
            stop=stop,
        )
        # A summary that was finished just as somebody began to speak is used all the same.
        if not summary and stop is not None and stop():
            return None
        how = getattr(used, "how", "")  # only what has several ways tells which one it took
        reason = f"{reason}; {how}" if how else reason
        before = self.log.epoch
        level = most_private(
            *(part.answer for part in parts),
            *(item.level for item in carried),
            *([before.level] if before.summary or before.carried else []),
        )
        summary, now = self.log.never_aloud().redact(summary, _READERS[level], []), self._now()
        epoch = Epoch(self.log.session, first_turn, summary, reason=reason, started_at=now, level=level)
        return carrying(epoch, carried)

    def still_holding(self, epoch: Epoch) -> Epoch:
        """Return an epoch without the carried values that are gone or private by now."""
        return epoch if self._current is None else still_holding(epoch, self._current)

    def _carried(self, first_turn: int) -> list[BlockLine]:
        """Return the lines of memory that stay when the turns before one leave the prompt."""
        if self._current is None:
            return []
        turns = [turn for turn in self.log.epoch_turns() if not turn.unkept]
        parts = [part for turn in turns if (part := turn.seen_at("household")) is not None]
        shown = [(part.n >= first_turn, item) for part in parts for item in part.shown]
        stays = {item.subject for is_kept, item in shown if is_kept and item.subject is not None}
        leaving = [item for is_kept, item in shown if not is_kept]
        candidates = to_carry([*carried_by(self.log.epoch), *leaving], stays)
        holds, known = up_to_date(candidates, self._current) if candidates else [], self.log.never_aloud()
        holds = [line for item in holds for line in known.redact_all([item], _READERS[item.level], [])]
        carried = fitting(holds, tokens=CARRIED_SHARE * self.summary_tokens)
        # The estimate is a guess in scripts of few letters a token.
        while carried and self._tokens_in(carried) > CARRIED_SHARE * self.summary_tokens:
            carried = carried[len(carried) // 4 + 1 :]
        return carried

    def _tokens_in(self, carried: Sequence[BlockLine]) -> int:
        text = "".join(f"{item.line}\n" for item in carried)
        return len(self.budget.tokenizer.encode(text)) if text else 0

    def _fixed(self) -> int:
        return self.summary_tokens + sum(
            self.prompt_size.cache.tokens(str(m.get("content"))) + 8 for m in self.log.system
        )

    def _cost(self, turn: PromptTurn) -> int:
        size = sum(len(str(message)) for message in turn.messages) + len(turn.block)
        known = self._counted.get(turn.n)
        if known is None or known[0] != size:
            tokens = sum(self._tokens_of(message) for message in turn.messages)
            known = (size, tokens + self.prompt_size.cache.tokens(turn.block))
            self._counted[turn.n] = known
        return known[1]

    def _tokens_of(self, message: Message) -> int:
        """Return a message's tokens, with those of the template's markers.

        Templates refuse some messages that stand alone (a tool result, say), so the parts are counted as text; 8 tokens a
        message and 12 a call cover the markers of all templates at hand. The prompt size keeps the counts, so that no turn
        tokenises them again.
        """
        texts = texts_of(message)
        return 8 + 12 * (len(texts) - 1) + sum(map(self.prompt_size.cache.tokens, texts))


def _attributed(turn: PromptTurn) -> Sequence[Message]:
    speaker = turn.heard.speaker if turn.heard is not None else None
    messages = [message for message in turn.messages if message.get("content") != CLOSED]
    if speaker is None:
        return messages
    return [{**m, "name": speaker} if m.get("role") == "user" else m for m in messages]
