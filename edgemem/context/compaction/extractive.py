"""Extractive summaries: the most telling sentences of the turns that leave the prompt, word for word.

A small model that writes a summary invents names and takes minutes on a Raspberry Pi. Sentences that were really said
can be wrong only in what they leave out, and that stays retrievable. `ExtractiveSummarizer` works in idle time and
compares sentences with each other. `QuickSummarizer` works within a turn, in a millisecond, for a person who was faster
than all idle work: it ranks sentences by themselves, reads so many characters at most, and asks the tokenizer a few times.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from edgemem.context.sentences import Sentence, gather
from edgemem.context.size import estimate

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
        embedder: returns what tells which sentences mean the same; without one, their words do.
        user: what to call a user whose messages carry no name.
        assistant: the same for the robot.
        max_sentences: how many candidates are compared with each other, the most telling ones.
    """

    def __init__(
        self,
        embedder: Callable[[], Embedder | None] | None,
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
        """Vectors of sentences, by text, from a call that somebody's speech stopped; the next call uses them."""

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
        sentences = gather(turns, previous=previous, user=self._user, assistant=self._assistant, stop=stopped)
        sentences = without_corrected(_most_telling(sentences, self._max_sentences), stopped)
        vectors = self._vectors(sentences, stopped)
        if vectors is None or not sentences:
            return ""
        import numpy as np

        alike = np.clip(vectors @ vectors.T, 0.0, 1.0)
        kept = _without_duplicates(sentences, alike)
        sentences, alike = [sentences[i] for i in kept], alike[np.ix_(kept, kept)]
        text = self._fill(sentences, alike, max_tokens, stopped)
        if text:
            self._known.clear()
        return text

    def _vectors(
        self, sentences: Sequence[Sentence], stopped: Callable[[], bool]
    ) -> NDArray[np.float32] | None:
        """Return one unit vector for each sentence, or None when told to stop."""
        import numpy as np

        embedder = self._embedder() if self._embedder is not None else None
        if embedder is None:
            return None if stopped() else _word_vectors(sentences)
        missing = [
            text for text in dict.fromkeys(sentence.text for sentence in sentences) if text not in self._known
        ]
        embedded = embedder.embed_until(missing, stopped) if missing else ()
        self._known.update(zip(missing, embedded, strict=False))
        if len(embedded) < len(missing):
            return None
        return (
            np.stack([self._known[sentence.text] for sentence in sentences])
            if sentences
            else _word_vectors(sentences)
        )

    def _fill(
        self,
        sentences: Sequence[Sentence],
        alike: NDArray[np.float32],
        max_tokens: int,
        stopped: Callable[[], bool],
    ) -> str:
        """Take the best sentence that adds something new, as long as the whole stays within `max_tokens`."""
        import numpy as np

        n = len(sentences)
        # Each row holds 1 for the sentence itself, give or take rounding.
        central = np.maximum(alike.sum(axis=1) - 1.0, 0.0)
        central = central / max(float(central.max()), 1e-3)
        said_late = np.arange(n) / max(1, n - 1)
        worth = np.array([sentence.information for sentence in sentences]) + 0.4 * central + 0.1 * said_late
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
            longer = lines_of(sentences[i] for i in sorted([*picked, best]))
            # To count the whole with each sentence would take the longest of all this.
            tokens = (
                taken + len(self._tokenizer.encode(f"{sentences[best].speaker}: {sentences[best].text}")) + 1
            )
            if tokens > _NEARLY * max_tokens:
                tokens = len(self._tokenizer.encode(longer))
            if tokens > max_tokens:
                misses += 1
                continue
            picked.append(best)
            covered = np.maximum(covered, alike[best])
            text, misses, taken = longer, 0, tokens
        return text


def _most_telling(sentences: list[Sentence], limit: int) -> list[Sentence]:
    """Return at most `limit` sentences in their order; comparing all pairs of more would take too long."""
    if len(sentences) <= limit:
        return sentences
    ranked = sorted(range(len(sentences)), key=lambda i: (sentences[i].information, i), reverse=True)
    return [sentences[i] for i in sorted(ranked[:limit])]


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


def _without_duplicates(sentences: Sequence[Sentence], alike: NDArray[np.float32]) -> list[int]:
    """Return the sentences that say something of their own; of two that say the same, the newest."""
    kept: list[int] = []
    for i in reversed(range(len(sentences))):
        same = [j for j in kept if alike[i, j] > DUPLICATE and _repeats(sentences[j], sentences[i])]
        # A question or the robot's echo does not displace what somebody told.
        worse = [j for j in same if _weaker(sentences[j], sentences[i])]
        if len(worse) == len(same):
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
    for sentence in picked:
        follows = last is not None and last.source == sentence.source and last.text[-1] in ".!?…。！？"
        if follows and sentence.teller != "tool":
            lines[-1] += " " + sentence.text
        else:
            lines.append(f"{sentence.speaker}: {sentence.text}" if sentence.speaker else sentence.text)
        last = sentence
    return "\n".join(lines)


def _word_vectors(sentences: Sequence[Sentence]) -> NDArray[np.float32]:
    """Return unit vectors of word weights: rare words tell more about what a sentence is about."""
    import numpy as np

    terms = [sentence.words | {value for _, value in sentence.values} for sentence in sentences]
    seen_in = Counter(term for words in terms for term in words)
    column = {term: i for i, term in enumerate(sorted(seen_in))}
    vectors: NDArray[np.float32] = np.zeros((len(sentences), max(1, len(column))), dtype=np.float32)
    for row, words in zip(vectors, terms, strict=True):
        for term in words:
            row[column[term]] = 1.0 + math.log(len(sentences) / seen_in[term])
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors /= np.maximum(lengths, 1e-9)
    return vectors


def _never() -> bool:
    return False


_TRIES = 4
"""How often the size is counted; each time the text is cut to what the count before says."""
_FIRST = 0.7
_MARGIN = 0.85
"""Share of the budget that each new try aims at: sentences may take more tokens than estimated, and a count takes a millisecond."""

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
        self._known = {_key(*key): self._weighed(*key, self._known) for key in read}

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
        sentences, information = self._sentences(turns, previous)
        worth = {i: information[i] + 0.1 * i / len(sentences) for i in range(len(sentences))}
        ranked = sorted(worth, key=lambda i: -worth[i])
        size = int(_FIRST * max_tokens)
        for _ in range(_TRIES):
            text = lines_of(sentences[i] for i in sorted(_fitting(sentences, ranked, size)))
            tokens = len(self._tokenizer.encode(text)) if text else 0
            if tokens <= max_tokens:
                return text
            size = int(_MARGIN * size * max_tokens / tokens)
        return ""

    def _sentences(
        self, turns: Sequence[Sequence[Message]], previous: str
    ) -> tuple[list[Sentence], list[float]]:
        """Return the sentences to choose from, oldest first, and how much each tells."""
        kept, source = self._weighed((), previous, self._known), previous.count("\n") + 1
        new: list[_Weighed] = []
        for turn in _newest(turns, self._max_chars):
            weighed = self._weighed(turn, "", self._known)
            # Sentences of one message stand on one line, so each message has a number of its own.
            new += (
                _Weighed(msgspec.structs.replace(sentence, source=source + sentence.source), information)
                for sentence, information in weighed
            )
            source += weighed[-1].sentence.source + 1 if weighed else 0
        of_all = [*kept, *new[-self._max_sentences :]]
        information = {id(weighed.sentence): weighed.information for weighed in of_all}
        sentences = without_corrected([weighed.sentence for weighed in of_all], lambda: False)
        return sentences, [information[id(sentence)] for sentence in sentences]

    def _weighed(
        self, turn: Sequence[Message], previous: str, known: dict[bytes, list[_Weighed]]
    ) -> list[_Weighed]:
        """Return all sentences of an earlier summary, and of a turn those in which somebody tells something."""
        key = _key(turn, previous)
        if key not in known:
            sentences = gather(
                [turn] if turn else (), previous=previous, user=self._user, assistant=self._assistant
            )
            if turn:
                sentences = [
                    sentence
                    for sentence in sentences
                    if sentence.teller != "assistant" and not sentence.question
                ]
            return [_Weighed(sentence, sentence.information) for sentence in sentences]
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


def _fitting(sentences: Sequence[Sentence], ranked: Sequence[int], size: int) -> list[int]:
    """Return the best sentences that take about `size` tokens together."""
    taken: list[int] = []
    for i in ranked:
        tokens = estimate(sentences[i].text) + estimate(sentences[i].speaker) + 2
        if tokens <= size:
            taken.append(i)
            size -= tokens
    return taken
