"""The summary of turns that leave the prompt: their most telling sentences, word for word.

A small model that writes a summary invents names and takes minutes on a Raspberry Pi. Sentences that were
really said can be wrong only in what they leave out, and that stays retrievable.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Protocol

from edgemem.context.sentences import Sentence, gather
from edgemem.llama.yielding import embed_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.llama.protocols import Embedder, Tokenizer
    from edgemem.records import Message

DUPLICATE = 0.9
"""Sentences with a higher cosine say the same."""

_NEARLY = 0.9
"""Share of the budget up to which a sum of parts is as good as a count of the whole."""

_MISSES = 12
"""Sentences that did not fit any more, one after the other, before the summary counts as full."""


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
        """Return lines of at most `max_tokens` tokens that stand for `previous` and the turns.

        Args:
            previous: the summary of what came before the turns; it is replaced by the new one.
            stop: work ends soon after it returns true; the result is then empty and not to be used.
        """
        ...


class ExtractiveSummarizer:
    """Picks sentences that are central and say much; the newest wins over what it corrects.

    Args:
        embedder: tells which sentences mean the same; without one, their words do.
        user: what to call a user whose messages carry no name.
        assistant: the same for the robot.
        max_sentences: how many candidates are compared with each other, the most telling ones.
    """

    def __init__(
        self,
        embedder: Embedder | None,
        tokenizer: Tokenizer,
        *,
        user: str = "Somebody",
        assistant: str = "Robot",
        max_sentences: int = 384,
    ) -> None:
        self._embedder = embedder
        self._tokenizer = tokenizer
        self._user = user
        self._assistant = assistant
        self._max_sentences = max_sentences
        self._known: dict[str, NDArray[np.float32]] = {}
        """What was embedded when somebody began to speak: the next call goes on behind it."""

    def summarize(
        self,
        turns: Sequence[Sequence[Message]],
        *,
        max_tokens: int,
        previous: str = "",
        stop: Callable[[], bool] | None = None,
    ) -> str:
        """Return lines such as `Alice: I moved to Bonn.`, in the order in which they were said."""
        stopped = stop or _never
        told = gather(turns, previous=previous, user=self._user, assistant=self._assistant, stop=stopped)
        told = without_corrected(_most_telling(told, self._max_sentences), stopped)
        vectors = self._vectors(told, stopped)
        if vectors is None or not told:
            return ""
        import numpy as np

        alike = np.clip(vectors @ vectors.T, 0.0, 1.0)
        kept = _without_duplicates(told, alike)
        told, alike = [told[i] for i in kept], alike[np.ix_(kept, kept)]
        text = self._fill(told, alike, max_tokens, stopped)
        if text:
            self._known.clear()
        return text

    def _vectors(self, told: Sequence[Sentence], stopped: Callable[[], bool]) -> NDArray[np.float32] | None:
        """Return one unit vector for each sentence, or None when told to stop."""
        import numpy as np

        if self._embedder is None:
            return None if stopped() else _word_vectors(told)
        missing = [text for text in dict.fromkeys(one.text for one in told) if text not in self._known]
        made = embed_until(self._embedder, missing, stopped)
        self._known.update(zip(missing, made, strict=False))
        if len(made) < len(missing):
            return None
        return np.stack([self._known[one.text] for one in told]) if told else _word_vectors(told)

    def _fill(
        self,
        told: Sequence[Sentence],
        alike: NDArray[np.float32],
        max_tokens: int,
        stopped: Callable[[], bool],
    ) -> str:
        """Take the best sentence that adds something new, as long as the whole stays within `max_tokens`."""
        import numpy as np

        n = len(told)
        # Each row holds 1 for the sentence itself, give or take rounding.
        central = np.maximum(alike.sum(axis=1) - 1.0, 0.0)
        central = central / max(float(central.max()), 1e-3)
        said_late = np.arange(n) / max(1, n - 1)
        worth = np.array([one.information for one in told]) + 0.4 * central + 0.1 * said_late
        covered = np.zeros(n)
        open_ = np.ones(n, dtype=bool)
        picked: list[int] = []
        text, misses, taken = "", 0, 0
        while open_.any() and misses < _MISSES:
            if stopped():
                return ""
            gain = np.where(open_, worth - 0.5 * covered, -np.inf)
            best = int(np.argmax(gain))
            if gain[best] <= 0.0:
                # Questions, mostly: a shorter summary is read faster than a full one.
                break
            open_[best] = False
            longer = lines_of(told[i] for i in sorted([*picked, best]))
            # To count the whole with each sentence would take the longest of all this.
            tokens = taken + len(self._tokenizer.encode(f"{told[best].speaker}: {told[best].text}")) + 1
            if tokens > _NEARLY * max_tokens:
                tokens = len(self._tokenizer.encode(longer))
            if tokens > max_tokens:
                misses += 1
                continue
            picked.append(best)
            covered = np.maximum(covered, alike[best])
            text, misses, taken = longer, 0, tokens
        return text


def _most_telling(told: list[Sentence], limit: int) -> list[Sentence]:
    """Return at most `limit` sentences in their order; comparing all pairs of more would take too long."""
    if len(told) <= limit:
        return told
    ranked = sorted(range(len(told)), key=lambda i: (told[i].information, i), reverse=True)
    return [told[i] for i in sorted(ranked[:limit])]


def without_corrected(told: Sequence[Sentence], stopped: Callable[[], bool]) -> list[Sentence]:
    """Leave out each sentence that a later one corrects."""
    by_word: defaultdict[str, list[int]] = defaultdict(list)
    gone: set[int] = set()
    for i, one in enumerate(told):
        if stopped():
            return []
        if not one.question and one.teller != "tool":
            earlier = {j for word in one.words for j in by_word[word]}
            gone.update(j for j in earlier if _corrects(one, told[j]))
            for word in one.words:
                by_word[word].append(i)
    return [one for i, one in enumerate(told) if i not in gone]


def _corrects(new: Sentence, old: Sentence) -> bool:
    """Tell whether the newer sentence says otherwise about what the older one tells."""
    if not _same_matter(new, old) or (new.teller == "assistant" and old.teller == "user"):
        return False
    kinds = {kind for kind, _ in new.values} & {kind for kind, _ in old.values}
    differ = {value for value in new.values if value[0] in kinds} != {v for v in old.values if v[0] in kinds}
    if not new.correction:
        # Within one message people list things: box 1 here, box 2 there.
        return differ and new.words == old.words and new.source != old.source
    shared = len(new.words & old.words)
    close = 2 * shared >= min(len(new.words), len(old.words))
    return close and (differ or (new.denial and shared > 1))


def _without_duplicates(told: Sequence[Sentence], alike: NDArray[np.float32]) -> list[int]:
    """Return the sentences that say something of their own; of two that say the same, the newest."""
    kept: list[int] = []
    for i in reversed(range(len(told))):
        said = [j for j in kept if alike[i, j] > DUPLICATE and _repeats(told[j], told[i])]
        # A question or the robot's echo does not displace what somebody told.
        worse = [j for j in said if _weaker(told[j], told[i])]
        if len(worse) == len(said):
            kept = [j for j in kept if j not in worse] + [i]
    return sorted(kept)


def _weaker(new: Sentence, old: Sentence) -> bool:
    return not old.question and (new.question or (new.teller == "assistant" and old.teller == "user"))


def _repeats(new: Sentence, old: Sentence) -> bool:
    return new.values == old.values and _same_matter(new, old)


def _same_matter(new: Sentence, old: Sentence) -> bool:
    """Tell whether two sentences can be about the same: what two people say of themselves is not."""
    if "assistant" in (new.teller, old.teller) or new.speaker == old.speaker:
        return True
    return not (new.first_person or old.first_person)


def lines_of(picked: Iterable[Sentence]) -> str:
    """Write sentences down, those of one message on one line where full stops keep them apart."""
    lines: list[str] = []
    last: Sentence | None = None
    for one in picked:
        follows = last is not None and last.source == one.source and last.text[-1] in ".!?…。！？"
        if follows and one.teller != "tool":
            lines[-1] += " " + one.text
        else:
            lines.append(f"{one.speaker}: {one.text}" if one.speaker else one.text)
        last = one
    return "\n".join(lines)


def _word_vectors(told: Sequence[Sentence]) -> NDArray[np.float32]:
    """Return unit vectors of word weights: rare words tell more about what a sentence is about."""
    import numpy as np

    terms = [one.words | {value for _, value in one.values} for one in told]
    seen_in = Counter(term for words in terms for term in words)
    column = {term: i for i, term in enumerate(sorted(seen_in))}
    vectors: NDArray[np.float32] = np.zeros((len(told), max(1, len(column))), dtype=np.float32)
    for row, words in zip(vectors, terms, strict=True):
        for term in words:
            row[column[term]] = 1.0 + math.log(len(told) / seen_in[term])
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors /= np.maximum(lengths, 1e-9)
    return vectors


def _never() -> bool:
    return False
