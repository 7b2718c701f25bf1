"""The selection: the recalled items that are worth their tokens, and their lines that fit the budget of a block.

An item is left out if it is not likely enough to help, only asks, or repeats the utterance. A turn that holds a sentence of the
utterance still adds something if another of its sentences goes on from there: it shares a word with the utterance, or refers
back ("It's on the shelf."). An answer is as private as the items that memory shows before it, so an item that would close it
must be likelier to help.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import chain
from typing import NamedTuple

from edgemem.context.block.delta import VALUES
from edgemem.context.block.render import GAP, HERE, MOST_CHARS, Today, fitting
from edgemem.context.sentences import split_sentences
from edgemem.fence import CLOSE, OPEN, fence
from edgemem.languages.numbers import number_runs
from edgemem.languages.words import cues, either
from edgemem.preload import Pattern, preloaded
from edgemem.recall.search.selection import told_here
from edgemem.recall.text.analyse import (
    MOST_ASKED,
    NOTHING,
    Analysis,
    analyse,
    asks,
    only_asks,
    plain_words,
    stem,
    terms,
)
from edgemem.recall.text.lexicon import common_words
from edgemem.records import BlockLine, Recalled
from edgemem.scopes import RANK, Level

_FEWEST = 3  # words from which on two sentences are not alike by chance
_ALIKE = 0.75
"""The share of words that two questions have in common which ask the same, perhaps of another thing. Of the messages that answer
our own and LoCoMo's questions, one or two in a thousand have a sentence that is so much like the question."""

_SPELLED = Pattern(r"\b[a-zA-Z0-9](?:[\W_]+[a-zA-Z0-9]\b)+")  # letters and digits that were said one by one
_BETWEEN = re.compile(r"[\W_]+")
_SIGN = re.compile(r"[^\w\s.,;:!?'\"()…–—/‘’“”«»¿¡。、，！？：；「」%€$£°&-]")
_NUMBER = re.compile(r"(?<![\w.,:])[-+−]?\d+(?:[.,:]\d+)*")

CLOSING = 3.0
"""So many times the odds must an item have that would make the answer more private."""


def least_score(item: Recalled, floor: float, answer: Level | None) -> float:
    """Return the least score of an item, 0 for safety; `answer`: who may read the answer so far, None: no item closes it."""
    odds = CLOSING if answer is not None and RANK[item.level] > RANK[answer] else 1.0
    return 0.0 if item.safety else odds * floor / (1 + (odds - 1) * floor)


def select_items(
    recalled: Sequence[Recalled], floor: float, *, utterance: Analysis = NOTHING, answer: Level | None = None
) -> list[Recalled]:
    """Return the items worth their tokens: what concerns safety, then facts, which are short, then the others, each best first."""
    worth = [
        item
        for item in _learnt_together(recalled)
        if (item.score >= least_score(item, floor, answer) or item.named_list) and not is_question(item)
    ]
    settled = sorted(
        (item for item in worth if item.kind in VALUES), key=lambda item: (item.heard_badly, -item.score)
    )
    others = [item for item in worth if item.kind not in VALUES]
    others.sort(key=lambda item: (not item.safety, item.heard_badly, -item.score))
    chosen = settled + (_each_once(others, settled, utterance) if others else [])
    return sorted(chosen, key=lambda item: not item.safety)


def _learnt_together(recalled: Sequence[Recalled]) -> list[Recalled]:
    """Return items with each sentence that learning made of several messages in the place of the first of them; newer messages may come before."""
    made = {name: item for item in recalled for name in told_here(item)}
    later = {made[item.name].name for item in recalled if item.name in made}
    items: dict[str, Recalled] = {}
    for item in recalled:
        if item.name not in later:
            told = made.get(item.name, item)
            items.setdefault(told.name, told)
    return [*items.values()]


def is_question(item: Recalled) -> bool:
    """Tell whether an item is a turn that asks something and answers nothing, small talk beside the question apart."""
    if item.kind != "turn" or len(item.text) > MOST_ASKED:
        return False
    return only_asks(item.text) or (
        asks(item.text)
        and not any(is_informative(part) for part in split_sentences(item.text) if not only_asks(part))
    )


def _each_once(items: Iterable[Recalled], settled: Sequence[Recalled], utterance: Analysis) -> list[Recalled]:
    """Return the items that add something to the utterance and to the lines before them.

    A turn that holds the whole value of a fact is the fact's source, and says it at length. Of everything else little words
    count, since "not" is one of them; and the same words of two people are two items.
    """
    items = list(items)
    values = [words for item in settled if len(words := frozenset(plain_words(item.value or ""))) > 1]
    asked = frozenset(utterance.terms())
    told = max((_shared(asked, item) for item in items if not _is_reply(item)), default=0 if asked else -1)
    kept: list[tuple[str | None, frozenset[str]]] = [
        (None, frozenset(plain_words(item.text))) for item in settled
    ]
    out = []
    heard = Uttered.split(utterance)
    for item in items:
        words, who = frozenset(plain_words(item.text)), item.speaker
        if item.kind == "turn" and (
            not adds_information(item.text, heard) or any(value <= words for value in values)
        ):
            continue
        # The robot repeats what people tell it: a line of it must have a word of the utterance, and more of them than theirs.
        if _is_reply(item) and (told >= _shared(asked, item) or not is_informative(item.text)):
            continue
        if any(words <= other and by in (None, who) for by, other in kept):
            continue
        kept.append((who, words))
        out.append(item)
    return out


def _is_reply(item: Recalled) -> bool:
    return item.kind == "turn" and item.source == "assistant"


def _shared(asked: frozenset[str], item: Recalled) -> int:
    return len(asked.intersection(terms(item.text[:MOST_CHARS])))


class FittingLines(NamedTuple):
    """The lines of a block that fit its budget."""

    lines: list[BlockLine]
    tokens: int
    """The tokens of these lines and of the parts before them."""


def fit_lines(
    shown: Sequence[BlockLine],
    *,
    tokens: float,
    count: Callable[[str], int],
    header: str = "",
    recalled: Iterable[Recalled] = (),
    question: Analysis = NOTHING,
    today: Today = HERE,
) -> FittingLines:
    """Return the lines that fit, best first; one that is too long lets a shorter one behind it pass.

    Where they do not all fit, facts come first, and messages are shortened, so that more of them fit.

    Args:
        tokens: the budget of the whole block.
        header: a line that opens the block; without one a single line takes less (`fence`).
        recalled: the items of the lines; any other line is shown unchanged or not at all.
        question: chooses the excerpt of a long turn.
    """
    count = cache(count)  # a block that was tried is the one that is said
    spent = count(f"{OPEN}\n") + count(f"{header}\n{CLOSE}" if header else CLOSE)
    items = {hit.name: hit for hit in recalled if hit.kind not in VALUES}
    # Most often all of them fit; where a text is cut, it had better be shortened.
    cut = any(line.line.endswith(GAP) for line in shown if line.id in items)
    if shown and not (cut and math.isfinite(tokens)):
        size = _size(shown, count, spent, alone=not header, most=tokens)
        if size <= tokens:
            return FittingLines(list(shown), size)
    out: list[BlockLine] = []
    taken = spent
    for line in shown:
        if line.id not in items and (size := count(f"{line.line}\n")) <= tokens - taken:
            taken += size
            out.append(line)
    out += fitting(
        [line for line in shown if line.id in items],
        items,
        question=question,
        room=tokens,
        count=lambda some: _size([*out, *some], count, spent, alone=not header, most=tokens),
        today=today,
    )
    return FittingLines(out, _size(out, count, spent, alone=not header) if out else 0)


def _size(
    shown: Sequence[BlockLine],
    count: Callable[[str], int],
    spent: int,
    *,
    alone: bool,
    most: float = math.inf,
) -> int:
    """Return the tokens of a block, where the fence of several lines takes `spent`; an estimate above `most`."""
    lines = [line.line for line in shown if line.line]
    if alone and len(lines) == 1:
        return count(fence(lines))
    text = "".join(f"{line}\n" for line in lines)
    words = len(text.split())  # there are no fewer tokens, since none spans two words
    return spent + (words if spent + words > most else count(text))


class Uttered(NamedTuple):
    """An utterance, to be compared with recalled items."""

    whole: Analysis
    sentences: list[list[str]]
    """The words of each sentence that can be said again."""

    @classmethod
    def split(cls, whole: Analysis) -> Uttered:
        """Cut an utterance into its sentences."""
        sentences = map(plain_words, split_sentences(whole.text[:MOST_CHARS]))
        return cls(whole, [sentence for sentence in sentences if len(sentence) >= _FEWEST])


def adds_information(text: str, utterance: Uttered) -> bool:
    """Tell whether an earlier message informs beyond the utterance; in doubt it does."""
    repeated, uttered = utterance.sentences, frozenset(utterance.whole.words)
    words = plain_words(text)
    if tuple(words) == utterance.whole.words:
        return False
    if sum(word in uttered for word in words) < _FEWEST:
        return True  # too few for any sentence that both have, or that is much alike
    left, again = [], False
    for sentence in split_sentences(text[:MOST_CHARS]):
        words = plain_words(sentence)
        rest = _without(words, repeated)
        if rest != words:
            again = True
            sentence = " ".join(rest)  # noqa: PLW2901
        elif only_asks(sentence) or asks(sentence):
            alike = any(_much_alike(words, other) for other in repeated)
            again = again or alike
            if alike or only_asks(sentence):
                continue
        left.append(sentence)
    if not again:
        return True
    asked = frozenset(utterance.whole.terms())
    return any(_continues_topic(sentence, asked) for sentence in left)


def _continues_topic(sentence: str, asked: frozenset[str]) -> bool:
    if _small_talk().refers.match(sentence.replace("’", "'")):
        return any(term not in _common_stems() for term in terms(sentence))
    return not asked.isdisjoint(terms(sentence)) and is_informative(sentence)


def _much_alike(first: list[str], other: list[str]) -> bool:
    """Tell whether two sentences have nearly all of their words in common, in the same order."""
    longest = [0] * (len(other) + 1)
    for word in first:
        before = 0
        for n, other_word in enumerate(other, 1):
            longer = before + 1 if word == other_word else max(longest[n], longest[n - 1])
            before, longest[n] = longest[n], longer
    return longest[-1] >= _ALIKE * max(len(first), len(other), _FEWEST)


def _without(words: list[str], repeated: Sequence[list[str]]) -> list[str]:
    """Return words without those sentences that occur in them as a whole."""
    for sentence in repeated:
        size = len(sentence)
        for start in range(len(words) - size + 1):
            if words[start : start + size] == sentence:
                words = words[:start] + words[start + size :]
                break
    return words


@preloaded
def _common_stems() -> frozenset[str]:
    return frozenset(map(stem, common_words()))


def is_informative(text: str) -> bool:
    """Tell whether a sentence says more than small talk."""
    if _small_talk().greeting.fullmatch(text):
        return False
    stems = frozenset(terms(text)) - _small_talk().empty
    # A script without spaces makes one long word of a whole clause.
    return len(stems) > 1 or any(len(stem) > 2 and not stem.isascii() for stem in stems)


class _SmallTalk(NamedTuple):
    refers: Pattern
    """The beginning of an answer that refers to the subject of the question."""
    greeting: Pattern
    """A text that greets, thanks or wonders, perhaps with whom it speaks to, and says nothing else."""
    empty: frozenset[str]


@preloaded
def _small_talk() -> _SmallTalk:
    known = cues()
    before = rf"(?:{either(known.before_refers)} |{either(known.answers_before)},? )?"
    called, end = r"(?:,? (?!I\b)(?-i:[A-Z])\w+)?", r"(?: *[,!.…]+ *| +[-–—]+ +|$)"
    talk = rf"(?:{either(known.small_talk)}(?: {either(known.behind_small_talk)})?{called}{end})+"
    return _SmallTalk(
        Pattern(rf"{before}{either(known.refers)}(?!\w)", flags=re.IGNORECASE),
        Pattern(talk, flags=re.IGNORECASE),
        frozenset(terms(" ".join(known.of_small_talk.words))),
    )


def repeats(texts: Sequence[str], others: Iterable[str]) -> bool:
    """Tell whether each content word and number of some texts is in other texts, and the last of them has one.

    A name that was spelled counts as one word, as do a number said digit by digit and a sign, such as ★ or #.
    """
    written, others = [_spelt(text) for text in texts], list(others)
    if not written[-1].tokens or not _signs(texts) <= _signs(others):
        return False
    known = [_spelt(text) for text in others]
    words = {word for text in known for word, _ in text.tokens if word}
    words |= {"".join(run) for text in known for run in number_runs(text.words, text.language)}
    terms = frozenset(term for text in known for term in text.terms())
    tokens = chain.from_iterable(text.tokens for text in written)
    return all(word in words or terms.issuperset(stems) for word, stems in tokens)


def _signs(texts: Iterable[str]) -> set[str]:
    """Return the signs that are no punctuation, and the numbers with a sign or a point."""
    numbers = (number for text in texts for number in _NUMBER.findall(text))
    signs = (sign for text in texts for sign in _SIGN.findall(text))
    return {*signs, *(number for number in numbers if not number.isdigit())}


def _spelt(text: str) -> Analysis:
    """Return the analysis of a text, its spelled signs joined."""
    return analyse(_SPELLED.sub(lambda match: _BETWEEN.sub("", match[0]), text))
