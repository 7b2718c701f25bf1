"""The compactor: old turns leave a message list as a whole, and a summary replaces them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from edgemem.context.compaction.extractive import ExtractiveSummarizer, Summarizer
from edgemem.context.messages import prefixed, repair_orphans, split_turns
from edgemem.context.sentences import tool_lines
from edgemem.errors import InvalidInputError
from edgemem.fence import fence
from edgemem.llama.tokens.estimate import estimate_tokens, tokenizer_of
from edgemem.records import has_methods
from edgemem.store.validation import whole_number

if TYPE_CHECKING:
    import threading

    from edgemem.llama.protocols import Tokenizer
    from edgemem.records import Message

HEADER = "Earlier in this conversation:"

_LOW_WATER = 0.6
"""Share of the trigger that a compaction leaves at most: four turns of a tenth of it have room before the next."""

_SUMMARY_SHARE = 0.25
"""Share of the trigger that a summary takes at most, however large it may be by its own limit."""

_TRACE_LINES = 40
_SUMMARY = "summary"
"""Key of a message whose head is a summary: its text, so that it can be told from an utterance."""


class Compactor:
    """Puts a summary in place of the oldest turns once a conversation is larger than `trigger_tokens`.

    A cut leaves at most six tenths of the trigger: with turns of a tenth of it the next cut is at least five turns away, with
    turns of a third two. Turns that are larger than half of the trigger cause one each.

    Args:
        keep_last_turns: the newest turns, which stay word for word; fewer where they, the instructions and the summary
            take more than six tenths of the trigger. The newest stays in any case.
        summary_max_tokens: also never more than a quarter of the trigger.
        preserve_tool_calls: list the results of the summarised turns' tools as well: the newest 40, or as many as fit.
        tokenizer: default: the `llm` of the call counts, and without one an estimate.
        summarizer: default: the `llm` of the call writes it, checked as `ModelSummarizer` does; without one, sentences
            are picked by their words.
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

        The summary goes into a user message because templates that demand strict alternation refuse it anywhere else. The list is
        returned unchanged below the trigger, when nothing can or need be cut, and when `stop_event` is set.
        """
        if not self.should_compact(messages, llm):
            return list(messages)
        head, turns = split_turns(repair_orphans(messages))
        if len(turns) < 2:
            return list(messages)
        low_water = self.trigger_tokens * _LOW_WATER
        most = min(self.summary_max_tokens, int(self.trigger_tokens * _SUMMARY_SHARE))

        def compacted(first: int, lines: Sequence[str]) -> tuple[list[Message], int]:
            """Return the messages and their tokens: the instructions, a summary of these lines, and the turns from one on."""
            message, *rest = (message for turn in turns[first:] for message in turn)
            summary = "\n".join(lines)
            out = [*head, {**prefixed(message, _block(summary)), _SUMMARY: summary}, *rest]
            return out, self._count(out, llm)

        newest = len(turns) - 1
        kept = range(max(1, len(turns) - self.keep_last_turns), newest)
        first = next((n for n in kept if compacted(n, ())[1] + most <= low_water), newest)
        previous, leaving = _without_summary(turns[:first])
        stop = None if stop_event is None else stop_event.is_set
        summary = self._summarizer_for(llm).summarize(leaving, max_tokens=most, previous=previous, stop=stop)
        if stop is not None and stop():
            return list(messages)
        lines = summary.splitlines() or [f"{first} turns were left out."]
        trace = [line for turn in leaving for line in tool_lines(turn)] if self.preserve_tool_calls else []
        trace = [line for line in trace[-_TRACE_LINES:] if line not in lines]
        out, tokens = compacted(first, [*lines, *trace])
        while trace and tokens > low_water:
            del trace[0]
            out, tokens = compacted(first, [*lines, *trace])
        # A summary that is longer than its turns helps nobody.
        return out if tokens < self._count(messages, llm) else list(messages)

    def _summarizer_for(self, llm: Any) -> Summarizer:
        sentences = ExtractiveSummarizer(self._tokenizer or tokenizer_of(llm))
        if self._summarizer is not None:
            return self._summarizer
        if has_methods(llm, "complete") or has_methods(llm, "create_chat_completion"):
            # Its checks are a dozen modules, which most robots never need.
            from edgemem.context.compaction.model import ModelSummarizer

            return ModelSummarizer(llm, sentences)
        return sentences

    def _count(self, messages: Sequence[Message], llm: Any) -> int:
        return estimate_tokens(messages, self._tokenizer or llm)


def _without_summary(turns: list[list[Message]]) -> tuple[str, list[list[Message]]]:
    """Split off the summary of an earlier compaction, byte for byte."""
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
