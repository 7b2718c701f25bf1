"""The summary for a person who was faster than all idle work: made within a turn, in a millisecond.

Sentences are ranked by themselves and never compared with each other, at most so many characters are read, and the
tokenizer is asked a few times in all. They are cut and weighed when each turn ends, so that they need only be chosen.
What it leaves out stays retrievable, like all that leaves the prompt.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

import msgspec

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

_AHEAD = 2
"""Times the characters of a summary that are read ahead: the newest turns stay word for word, and older ones leave."""


class _Weighed(NamedTuple):
    """A sentence, and what it tells by itself."""

    sentence: Sentence
    information: float


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
        self._known: dict[bytes, list[_Weighed]] = {}

    def read(self, turns: Sequence[Sequence[Message]], *, previous: str = "") -> None:
        """Cut and weigh ahead what `summarize` would read now; of everything else nothing is kept.

        Args:
            turns: those that stand in the prompt, once they are over.
            previous: the summary that stands before them.
        """
        read = [((), previous), *((turn, "") for turn in _newest(turns, _AHEAD * self._max_chars))]
        self._known = {_key(*one): self._weighed(*one, self._known) for one in read}

    def forget(self) -> None:
        """Keep no sentence that was read ahead."""
        self._known = {}

    def summarize(
        self,
        turns: Sequence[Sequence[Message]],
        *,
        max_tokens: int,
        previous: str = "",
        stop: Callable[[], bool] | None = None,
    ) -> str:
        """Return lines as the Protocol says; it is over before anybody could stop it."""
        told, information = self._told(turns, previous)
        worth = {i: information[i] + 0.1 * i / len(told) for i in range(len(told))}
        ranked = sorted(worth, key=lambda i: -worth[i])
        size = int(_FIRST * max_tokens)
        for _ in range(_TRIES):
            text = lines_of(told[i] for i in sorted(_fitting(told, ranked, size)))
            tokens = len(self._tokenizer.encode(text)) if text else 0
            if tokens <= max_tokens:
                return text
            size = int(_MARGIN * size * max_tokens / tokens)
        return ""

    def _told(self, turns: Sequence[Sequence[Message]], previous: str) -> tuple[list[Sentence], list[float]]:
        """Return the sentences to choose from, oldest first, and how much each tells."""
        kept, source = self._weighed((), previous, self._known), previous.count("\n") + 1
        new: list[_Weighed] = []
        for turn in _newest(turns, self._max_chars):
            said = self._weighed(turn, "", self._known)
            # Sentences of one message stand on one line, so each message has a number of its own.
            new += (
                _Weighed(msgspec.structs.replace(sentence, source=source + sentence.source), information)
                for sentence, information in said
            )
            source += said[-1].sentence.source + 1 if said else 0
        of_all = [*kept, *new[-self._max_sentences :]]
        information = {id(one.sentence): one.information for one in of_all}
        told = without_corrected([one.sentence for one in of_all], lambda: False)
        return told, [information[id(sentence)] for sentence in told]

    def _weighed(
        self, turn: Sequence[Message], previous: str, known: dict[bytes, list[_Weighed]]
    ) -> list[_Weighed]:
        """Return all sentences of an earlier summary, and of a turn those in which somebody tells something."""
        key = _key(turn, previous)
        if key not in known:
            said = gather(
                [turn] if turn else (), previous=previous, user=self._user, assistant=self._assistant
            )
            if turn:
                said = [one for one in said if one.teller != "assistant" and not one.question]
            return [_Weighed(one, one.information) for one in said]
        return known[key]


def _newest(turns: Sequence[Sequence[Message]], chars: int) -> Sequence[Sequence[Message]]:
    """Return the newest turns, until they have so many characters together."""
    first = len(turns)
    while first > 0 and chars > 0:
        first -= 1
        chars -= sum(len(str(message.get("content") or "")) for message in turns[first])
    return turns[first:]


def _key(turn: Sequence[Message], previous: str) -> bytes:
    """Return what tells a turn from every other one without its words."""
    return hashlib.blake2b(repr((turn, previous)).encode(errors="replace"), digest_size=16).digest()


def _fitting(told: Sequence[Sentence], ranked: Sequence[int], size: int) -> list[int]:
    """Return the best sentences that take about `size` tokens together."""
    taken: list[int] = []
    for i in ranked:
        tokens = about(told[i].text) + about(told[i].speaker) + 2
        if tokens <= size:
            taken.append(i)
            size -= tokens
    return taken
