"""Extractive summaries: the most telling sentences of the turns that leave the prompt, word for word.

Sentences that were really said can be wrong only in what they leave out, and that stays retrievable.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from edgemem.context.sentences import Sentence, gather

if TYPE_CHECKING:
    from edgemem.llama.protocols import Tokenizer
    from edgemem.records import Message

_ALIKE = 0.8  # sentences that share more of their words say the same

_LATE = 0.1  # what the newest sentence is worth more than the oldest

_MOST_SENTENCES = 384
"""How many of the most telling sentences are compared: all pairs of more would take too long."""

_TRIES = 4  # how often the size is counted and the text cut to fit
_MARGIN = 0.85
"""Share of the budget that each new try aims at: sentences together may take more tokens than each by itself."""

QUICK_CHARS = 3000
"""Characters of the newest turns that are read within a turn, for a person who was faster than all idle work."""


class Summarizer(Protocol):
    """Makes a short text of turns that leave the prompt."""

    def summarize(
        self,
        turns: Sequence[Sequence[Message]],
        *,
        max_tokens: int,
        previous: str = "",
        stop: Callable[[], bool] | None = None,
    ) -> str:
        """Return lines of at most `max_tokens` in place of `previous` and the turns; empty, and not to be used, if stopped."""
        ...


class ExtractiveSummarizer:
    """Picks the sentences that say most, from the newest `max_chars`; the newest wins over what it corrects or repeats."""

    def __init__(self, tokenizer: Tokenizer, *, max_chars: int | None = None) -> None:
        self._tokenizer = tokenizer
        self._max_chars = max_chars

    def summarize(
        self,
        turns: Sequence[Sequence[Message]],
        *,
        max_tokens: int,
        previous: str = "",
        stop: Callable[[], bool] | None = None,
    ) -> str:
        """Return lines such as `Alice: I moved to Bonn.`, in the order in which they were said."""
        stopped = stop or (lambda: False)
        if self._max_chars is not None:
            turns = _newest(turns, self._max_chars)
        sentences = gather(turns, previous=previous, stop=stopped)
        if len(sentences) > _MOST_SENTENCES:
            ranked = sorted(range(len(sentences)), key=lambda i: (-sentences[i].information, -i))
            sentences = [sentences[i] for i in sorted(ranked[:_MOST_SENTENCES])]
        sentences = without_corrected(sentences, stopped)
        return "" if stopped() else self._best_of(_without_duplicates(sentences), max_tokens)

    def _best_of(self, sentences: Sequence[Sentence], max_tokens: int) -> str:
        """Return the best sentences that take so many tokens together, in their order."""
        worth = [item.information + _LATE * i / len(sentences) for i, item in enumerate(sentences)]
        # Worth less than nothing are questions, mostly: a shorter summary is read faster than a full one.
        ranked = sorted((i for i in range(len(sentences)) if worth[i] > 0.0), key=lambda i: -worth[i])
        count = self._tokenizer.encode
        sizes = {i: len(count(f"{sentences[i].speaker}: {sentences[i].text}")) + 1 for i in ranked}
        room = max_tokens
        for _ in range(_TRIES):
            left, picked = room, []
            for i in ranked:
                if sizes[i] <= left:
                    picked.append(i)
                    left -= sizes[i]
            text = lines_of(sentences[i] for i in sorted(picked))
            tokens = len(count(text)) if text else 0
            if tokens <= max_tokens:
                return text
            room = int(_MARGIN * room * max_tokens / tokens)
        return ""


def without_corrected(sentences: Sequence[Sentence], stopped: Callable[[], bool]) -> list[Sentence]:
    """Leave out each sentence that a later one corrects."""
    by_word: defaultdict[str, list[int]] = defaultdict(list)
    gone: set[int] = set()
    for i, sentence in enumerate(sentences):
        if stopped():
            return []
        if not sentence.question and sentence.teller != "tool":
            earlier = {j for word in sentence.words for j in by_word[word]}
            gone.update(j for j in earlier if _corrects(sentence, sentences[j]))
            for word in sentence.words:
                by_word[word].append(i)
    return [sentence for i, sentence in enumerate(sentences) if i not in gone]


def _corrects(new: Sentence, old: Sentence) -> bool:
    if not _same_matter(new, old) or _echoes(new, old):
        return False
    kinds = {kind for kind, _ in new.values} & {kind for kind, _ in old.values}
    differ = {value for value in new.values if value[0] in kinds} != {v for v in old.values if v[0] in kinds}
    if not new.correction:
        # Within one message people list things: box 1 here, box 2 there.
        return differ and new.words == old.words and new.source != old.source
    shared = len(new.words & old.words)
    close = 2 * shared >= min(len(new.words), len(old.words))
    return close and (differ or (new.denial and shared > 1))


def _without_duplicates(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Return the sentences without repetitions; of two that say the same, the newest stays."""
    kept: list[int] = []
    for i in reversed(range(len(sentences))):
        same = [j for j in kept if _repeats(sentences[j], sentences[i])]
        # A question or the robot's echo does not displace what somebody told.
        if all(
            not sentences[i].question and (sentences[j].question or _echoes(sentences[j], sentences[i]))
            for j in same
        ):
            kept = [j for j in kept if j not in same] + [i]
    return [sentences[i] for i in sorted(kept)]


def _repeats(new: Sentence, old: Sentence) -> bool:
    if new.values != old.values or not _same_matter(new, old):
        return False
    return len(new.words & old.words) >= _ALIKE * len(new.words | old.words)


def _echoes(new: Sentence, old: Sentence) -> bool:
    return new.teller == "assistant" and old.teller == "user"


def _same_matter(new: Sentence, old: Sentence) -> bool:
    """Tell whether two sentences can be about the same: what two people say of themselves is not."""
    if "assistant" in (new.teller, old.teller) or new.speaker == old.speaker:
        return True
    return not (new.first_person or old.first_person)


def lines_of(picked: Iterable[Sentence]) -> str:
    """Write sentences down, those of one message on one line where full stops keep them apart."""
    lines: list[str] = []
    last: Sentence | None = None
    for sentence in picked:
        follows = last is not None and last.source == sentence.source and last.text[-1] in ".!?…。！？"
        if follows and sentence.teller != "tool":
            lines[-1] += " " + sentence.text
        else:
            lines.append(f"{sentence.speaker}: {sentence.text}" if sentence.speaker else sentence.text)
        last = sentence
    return "\n".join(lines)


def _newest(turns: Sequence[Sequence[Message]], chars: int) -> Sequence[Sequence[Message]]:
    """Return the newest turns, until they have so many characters together."""
    first = len(turns)
    while first > 0 and chars > 0:
        first -= 1
        chars -= sum(len(str(message.get("content") or "")) for message in turns[first])
    return turns[first:]
