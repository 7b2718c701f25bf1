"""Extractive summaries: the most telling sentences of the turns that leave the prompt, word for word.

Sentences that were really said can be wrong only in what they leave out, and that stays retrievable. `ExtractiveSummarizer`
works in idle time and tells with an embedder which sentences say the same. `QuickSummarizer` works within a turn, for a
person who was faster than all idle work: it reads so many characters at most, and asks the tokenizer a few times.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from typing import TYPE_CHECKING, Protocol

import msgspec

from edgemem.context.sentences import Sentence, gather
from edgemem.context.size import estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.llama.protocols import Embedder, Tokenizer
    from edgemem.records import Message


DUPLICATE = 0.9
"""Sentences with a higher cosine say the same."""

_ALIKE = 0.8
"""So do sentences that share more of their words, where no embedder tells."""

_LATE = 0.1
"""What the newest sentence is worth more than the oldest."""

_TRIES = 4
"""How often the size is counted; each time the text is cut to what the count before says."""
_FIRST = 0.7
_MARGIN = 0.85
"""Share of the budget that each new try aims at: sentences may take more tokens than estimated, and a count takes a millisecond."""

_AHEAD = 2
"""Times the characters of a summary that are read ahead: the newest turns stay word for word, and older ones leave."""


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
    """Picks the sentences that say most; the newest wins over what it corrects, and over what says the same.

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
        if len(sentences) > self._max_sentences:
            # Comparing all pairs of more would take too long.
            ranked = sorted(range(len(sentences)), key=lambda i: (-sentences[i].information, -i))
            sentences = [sentences[i] for i in sorted(ranked[: self._max_sentences])]
        sentences = without_corrected(sentences, stopped)
        vectors = self._vectors(sentences, stopped)
        if vectors is None or stopped():
            return ""
        sentences = _without_duplicates(sentences, vectors)
        sizes = [len(self._tokenizer.encode(f"{item.speaker}: {item.text}")) + 1 for item in sentences]
        text = _best_of(sentences, sizes, max_tokens, self._tokenizer)
        if text:
            self._known.clear()
        return text

    def _vectors(
        self, sentences: Sequence[Sentence], stopped: Callable[[], bool]
    ) -> Mapping[str, NDArray[np.float32]] | None:
        """Return a unit vector for each text, none where no embedder is loaded; None when told to stop."""
        embedder = self._embedder() if self._embedder is not None else None
        if embedder is None:
            return {}
        missing = [
            text for text in dict.fromkeys(sentence.text for sentence in sentences) if text not in self._known
        ]
        embedded = embedder.embed_until(missing, stopped) if missing else ()
        self._known.update(zip(missing, embedded, strict=False))
        return self._known if len(embedded) == len(missing) else None


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
        self._known: dict[bytes, list[Sentence]] = {}

    def read(self, turns: Sequence[Sequence[Message]], *, previous: str = "") -> None:
        """Cut and weigh ahead what `summarize` would read now, which saves two thirds of its time; nothing else is kept.

        Args:
            turns: those that stand in the prompt, once they are over.
            previous: the summary that stands before them.
        """
        read = [((), previous), *((turn, "") for turn in _newest(turns, _AHEAD * self._max_chars))]
        self._known = {_key(*key): self._sentences(*key) for key in read}

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
        source, new = previous.count("\n") + 1, list[Sentence]()
        for turn in _newest(turns, self._max_chars):
            sentences = self._sentences(turn, "")
            # Sentences of one message stand on one line, so each message has a number of its own.
            new += (msgspec.structs.replace(item, source=source + item.source) for item in sentences)
            source += sentences[-1].source + 1 if sentences else 0
        known = self._sentences((), previous)
        chosen = without_corrected([*known, *new[-self._max_sentences :]], _never)
        sizes = [estimate(item.text) + estimate(item.speaker) + 2 for item in chosen]
        return _best_of(chosen, sizes, max_tokens, self._tokenizer, share=_FIRST)

    def _sentences(self, turn: Sequence[Message], previous: str) -> list[Sentence]:
        """Return all sentences of an earlier summary, and of a turn those in which somebody tells something."""
        known = self._known.get(_key(turn, previous))
        if known is not None:
            return known
        sentences = gather(
            [turn] if turn else (), previous=previous, user=self._user, assistant=self._assistant
        )
        return [item for item in sentences if not turn or (item.teller != "assistant" and not item.question)]


def _best_of(
    sentences: Sequence[Sentence],
    sizes: Sequence[int],
    max_tokens: int,
    tokenizer: Tokenizer,
    *,
    share: float = 1.0,
) -> str:
    """Return the best sentences that take so many tokens together, in their order.

    Args:
        sizes: about what each takes.
        share: of the tokens that the first try aims at.
    """
    worth = [item.information + _LATE * i / len(sentences) for i, item in enumerate(sentences)]
    # Less than nothing are questions, mostly: a shorter summary is read faster than a full one.
    ranked = sorted((i for i in range(len(sentences)) if worth[i] > 0.0), key=lambda i: -worth[i])
    room = int(share * max_tokens)
    for _ in range(_TRIES):
        left, picked = room, []
        for i in ranked:
            if sizes[i] <= left:
                picked.append(i)
                left -= sizes[i]
        text = lines_of(sentences[i] for i in sorted(picked))
        tokens = len(tokenizer.encode(text)) if text else 0
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


def _without_duplicates(
    sentences: Sequence[Sentence], vectors: Mapping[str, NDArray[np.float32]]
) -> list[Sentence]:
    """Return the sentences that say something of their own; of two that say the same, the newest."""
    kept: list[int] = []
    for i in reversed(range(len(sentences))):
        same = [j for j in kept if _repeats(sentences[j], sentences[i], vectors)]
        # A question or the robot's echo does not displace what somebody told.
        worse = [j for j in same if _weaker(sentences[j], sentences[i])]
        if len(worse) == len(same):
            kept = [j for j in kept if j not in worse] + [i]
    return [sentences[i] for i in sorted(kept)]


def _weaker(new: Sentence, old: Sentence) -> bool:
    return not old.question and (new.question or (new.teller == "assistant" and old.teller == "user"))


def _repeats(new: Sentence, old: Sentence, vectors: Mapping[str, NDArray[np.float32]]) -> bool:
    if new.values != old.values or not _same_matter(new, old):
        return False
    if vectors:
        return bool(vectors[new.text] @ vectors[old.text] > DUPLICATE)
    return len(new.words & old.words) >= _ALIKE * len(new.words | old.words)


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


def _never() -> bool:
    return False


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
