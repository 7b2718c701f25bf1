"""The summary for a person who was faster than all idle work: made within a turn, in one or two milliseconds.

Sentences are ranked by themselves and never compared with each other, at most so many characters are read, and the
tokenizer is asked a few times in all. What it leaves out stays retrievable, like all that leaves the prompt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.context.gauge import about
from edgemem.context.sentences import gather
from edgemem.context.summarizer import lines_of, without_corrected

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgemem.context.sentences import Sentence
    from edgemem.llama.protocols import Tokenizer
    from edgemem.records import Message

_TRIES = 4
"""How often the size is counted; each time the text is cut to what the count before says."""
_FIRST = 0.7
_MARGIN = 0.85
"""Of its budget, because sentences may take more tokens than their size tells; each count takes a millisecond."""


class QuickSummarizer:
    """Picks what people told and tools did, the most telling sentences of the newest turns.

    Args:
        user: what to call a user whose messages carry no name.
        assistant: the same for the robot.
        max_chars: characters of the turns that are read, newest first.
        max_sentences: how many of their sentences are ranked, newest first.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        user: str = "Somebody",
        assistant: str = "Robot",
        max_chars: int = 3000,
        max_sentences: int = 24,
    ) -> None:
        self._tokenizer = tokenizer
        self._user = user
        self._assistant = assistant
        self._max_chars = max_chars
        self._max_sentences = max_sentences

    def summarize(
        self,
        turns: Sequence[Sequence[Message]],
        *,
        max_tokens: int,
        previous: str = "",
        stop: Callable[[], bool] | None = None,
    ) -> str:
        """Return lines as the Protocol says; it is over before anybody could stop it."""
        told = self._told(turns, previous)
        worth = {i: one.information + 0.1 * i / len(told) for i, one in enumerate(told)}
        ranked = sorted(worth, key=lambda i: -worth[i])
        size = int(_FIRST * max_tokens)
        for _ in range(_TRIES):
            text = lines_of(told[i] for i in sorted(_fitting(told, ranked, size)))
            tokens = len(self._tokenizer.encode(text)) if text else 0
            if tokens <= max_tokens:
                return text
            size = int(_MARGIN * size * max_tokens / tokens)
        return ""

    def _told(self, turns: Sequence[Sequence[Message]], previous: str) -> list[Sentence]:
        first, chars = len(turns), 0
        while first > 0 and chars < self._max_chars:
            first -= 1
            chars += sum(len(str(message.get("content") or "")) for message in turns[first])
        told = gather(turns[first:], previous=previous, user=self._user, assistant=self._assistant)
        earlier = previous.count("\n") + 1 if previous else 0
        kept = [one for one in told if one.source < earlier]
        new = [
            one for one in told if one.source >= earlier and one.teller != "assistant" and not one.question
        ]
        return without_corrected([*kept, *new[-self._max_sentences :]], lambda: False)


def _fitting(told: Sequence[Sentence], ranked: Sequence[int], size: int) -> list[int]:
    """Return the best sentences that take about `size` tokens together."""
    taken: list[int] = []
    for i in ranked:
        tokens = about(told[i].text) + about(told[i].speaker) + 2
        if tokens <= size:
            taken.append(i)
            size -= tokens
    return taken
