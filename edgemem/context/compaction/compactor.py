"""The compactor: old turns leave a message list as a whole, and a summary stands in for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.context.compaction.extractive import ExtractiveSummarizer
from edgemem.context.messages import repair_orphans, split_turns
from edgemem.context.sentences import tool_lines
from edgemem.errors import InvalidInputError
from edgemem.fence import fence
from edgemem.llama.tokens.estimate import estimate_tokens, tokenizer_of
from edgemem.store.validation import whole_number

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from edgemem.context.compaction.extractive import Summarizer
    from edgemem.llama.protocols import Tokenizer
    from edgemem.records import Message


HEADER = "Earlier in this conversation:"

_LOW_WATER = 0.6
"""Share of the trigger that a compaction leaves at most: four turns of a tenth of it have room before the next."""

_SUMMARY_SHARE = 0.25
"""Share of the trigger that a summary takes at most, however large it may be by its own limit."""

_TRACE_LINES = 40
_SUMMARY = "summary"
"""Key of a message that carries a summary at its head: its text, so that it can be told from what was said."""


def plan_epoch(
    turn_tokens: Sequence[int],
    *,
    fixed_tokens: int,
    window_tokens: int,
    reply_tokens: int,
    high_water: float,
    low_water: float,
    keep_last_turns: int,
) -> int | None:
    """Return the index of the first turn that stays word for word, or None when nothing is to be done.

    A cut costs the model its cache, so there are two marks: nothing happens up to the high one, and then the
    prompt goes below the low one at once. The newest turn stays even if it is larger than that.

    Args:
        turn_tokens: tokens of each turn that stands in the prompt now, oldest first.
        fixed_tokens: everything else: instructions, tool schemas, and room for the summary and a memory block.
        high_water: share of the window less the reply; 0 plans a cut now, whatever the size.
        low_water: share of the same that the prompt may take afterwards.
        keep_last_turns: how many turns stay at most; the fewer, the less the model must read again.
    """
    room = window_tokens - reply_tokens
    total = fixed_tokens + sum(turn_tokens)
    if total <= high_water * room or len(turn_tokens) < 2:
        return None
    kept = fixed_tokens + turn_tokens[-1]
    first = len(turn_tokens) - 1
    while first > 1 and len(turn_tokens) - first < keep_last_turns:
        if kept + turn_tokens[first - 1] > low_water * room:
            break
        first -= 1
        kept += turn_tokens[first]
    # A cut that ends above the high mark would be due again after each turn; it waits until it must be.
    if 0 < high_water * room < kept and total <= room:
        return None
    return first


class Compactor:
    """Puts a summary in place of the oldest turns once a conversation is larger than `trigger_tokens`.

    A cut leaves at most six tenths of the trigger, so that the next one is far: with turns of a tenth of the trigger at
    least five turns away, with turns of a third two. Turns that are larger than half of the trigger cause one each.

    Args:
        keep_last_turns: turns that stay word for word, the newest; fewer where they, the instructions and the summary
            take more than six tenths of the trigger. The newest stays in any case.
        summary_max_tokens: size of the summary's text, which also never takes more than a quarter of the trigger.
        preserve_tool_calls: list what the tools of the summarised turns returned as well: the newest 40 lines, or as
            many as have room.
        tokenizer: counts for every call; otherwise the `llm` of the call does, and an estimate without one.
        summarizer: default: sentences picked by their words.
    """

    def __init__(
        self,
        trigger_tokens: int = 4000,
        keep_last_turns: int = 4,
        summary_max_tokens: int = 300,
        preserve_tool_calls: bool = False,
        *,
        tokenizer: Tokenizer | None = None,
        summarizer: Summarizer | None = None,
    ) -> None:
        trigger_tokens = whole_number(trigger_tokens, "trigger_tokens")
        keep_last_turns = whole_number(keep_last_turns, "keep_last_turns")
        summary_max_tokens = whole_number(summary_max_tokens, "summary_max_tokens")
        if trigger_tokens < 1 or keep_last_turns < 1 or summary_max_tokens < 0:
            raise InvalidInputError(
                "trigger_tokens and keep_last_turns must be at least 1 and summary_max_tokens at least 0; "
                f"they are {trigger_tokens}, {keep_last_turns} and {summary_max_tokens}."
            )
        self.trigger_tokens = trigger_tokens
        self.keep_last_turns = keep_last_turns
        self.summary_max_tokens = summary_max_tokens
        self.preserve_tool_calls = preserve_tool_calls
        self._tokenizer = tokenizer
        self._summarizer = summarizer

    def should_compact(self, messages: Sequence[Message], llm: Any = None) -> bool:
        """Tell whether the conversation is over the trigger and has a turn that can go."""
        _, turns = split_turns(messages)
        return len(turns) > 1 and self._count(messages, llm) > self.trigger_tokens

    def compact(
        self, messages: Sequence[Message], llm: Any = None, *, stop_event: threading.Event | None = None
    ) -> list[Message]:
        """Return a new list: instructions, then the newest turns, the summary fenced in front of the first.

        The summary stands inside a user message because templates that demand strict alternation refuse it
        anywhere else. The list comes back as it was below the trigger, when there is nothing to cut or nothing would be
        won by it, and when `stop_event` is set.
        """
        if not self.should_compact(messages, llm):
            return list(messages)
        head, turns = split_turns(repair_orphans(messages))
        if len(turns) < 2:
            return list(messages)
        first = self._first_kept(head, turns, llm)
        previous, leaving = _without_summary(turns[:first])
        stop = None if stop_event is None else stop_event.is_set
        summary = self._summarizer_for(llm).summarize(
            leaving, max_tokens=self._summary_tokens, previous=previous, stop=stop
        )
        if stop is not None and stop():
            return list(messages)
        lines = summary.splitlines() or [f"{first} turns were left out."]
        trace = [line for turn in leaving for line in tool_lines(turn)] if self.preserve_tool_calls else []
        trace = [line for line in trace[-_TRACE_LINES:] if line not in lines]
        kept = [*head, *(message for turn in turns[first:] for message in turn)]
        while True:
            compacted = list(kept)
            compacted[len(head)] = _with_summary(kept[len(head)], "\n".join([*lines, *trace]))
            tokens = self._count(compacted, llm)
            if not trace or tokens <= self._low_water:
                break
            del trace[0]
        # A summary that is longer than what it stands for helps nobody.
        return compacted if tokens < self._count(messages, llm) else list(messages)

    @property
    def _low_water(self) -> float:
        return self.trigger_tokens * _LOW_WATER

    @property
    def _summary_tokens(self) -> int:
        return min(self.summary_max_tokens, int(self.trigger_tokens * _SUMMARY_SHARE))

    def _first_kept(self, head: list[Message], turns: list[list[Message]], llm: Any) -> int:
        for first in range(max(1, len(turns) - self.keep_last_turns), len(turns) - 1):
            kept = [message for turn in turns[first:] for message in turn]
            with_fence = [*head, _with_summary(kept[0], ""), *kept[1:]]
            if self._count(with_fence, llm) + self._summary_tokens <= self._low_water:
                return first
        return len(turns) - 1

    def _count(self, messages: Sequence[Message], llm: Any) -> int:
        return estimate_tokens(messages, self._tokenizer or llm)

    def _summarizer_for(self, llm: Any) -> Summarizer:
        if self._summarizer is not None:
            return self._summarizer
        return ExtractiveSummarizer(None, self._tokenizer or tokenizer_of(llm))


def _with_summary(message: Message, summary: str) -> Message:
    content = message.get("content")
    block = _block(summary)
    if isinstance(content, list):
        return {**message, "content": [{"type": "text", "text": block}, *content], _SUMMARY: summary}
    return {**message, "content": block + (content or ""), _SUMMARY: summary}


def _without_summary(turns: list[list[Message]]) -> tuple[str, list[list[Message]]]:
    """Split off the summary that an earlier compaction put there, by the bytes that it put there."""
    first = turns[0][0]
    summary = first.get(_SUMMARY)
    if not isinstance(summary, str):
        return "", turns
    message = {key: value for key, value in first.items() if key != _SUMMARY}
    content, block = message.get("content"), _block(summary)
    if isinstance(content, str):
        message["content"] = content.removeprefix(block)
    elif isinstance(content, list) and content[:1] == [{"type": "text", "text": block}]:
        message["content"] = content[1:]
    return summary, [[message, *turns[0][1:]], *turns[1:]]


def _block(summary: str) -> str:
    return fence(summary.splitlines(), header=HEADER)
