"""Related words: what may be said for a word of a question, which an embedder of 22 million weights does not always see.

Who asks for the couch finds the sofa, who asks for a pet finds the rabbit. The words stand in `related_words_en.txt`, one
group a line. They were written from general knowledge of English for this project alone, before anything was measured,
by somebody who had read neither the questions of `edgemem.bench.weeks` nor those of any other corpus; a word is taken out
where it does harm in general, and none is added because a question of a bench missed it.

Another language is another file; where there is none, a question finds its own words alone.
"""

from __future__ import annotations

import functools
import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.recall.stemmer import stems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.lexical import Statistics
    from edgemem.recall.view import View

    Slots = NDArray[np.intp]
    Find = Callable[[Sequence[str]], Iterable[tuple[str, Slots, Any]]]

FILE = "related_words_en.txt"
_WORD = re.compile("[a-z]+")
_REMEMBERED = 512  # words that were asked for
_FEW, _MOST = 3, 0.05
"""Texts, or which share of them, in which a word and what may be said for it stand at most: what is said in more of them
tells little, and takes time."""

Phrase = tuple[str, ...]
"""Stems that must all stand in a text."""


class Related(NamedTuple):
    """What is related to one word, by its stem."""

    same: tuple[Phrase, ...] = ()
    """What means the same."""
    kinds: tuple[Phrase, ...] = ()
    """What is of it, or tells of it: a rabbit is a pet."""


@functools.lru_cache(maxsize=_REMEMBERED)
def related_to(stem: str) -> Related:
    """Return what is related to the stem of an English word."""
    same, kinds = {stem}, set[str]()
    for before, behind in _lines_with(stem):
        if not behind:
            same.update(before)
        elif stem in before:
            kinds.update(behind)
    return Related(_phrases(same - {stem}), _phrases(kinds - same))


def note_related(view: View, said: Sequence[str], find: Find, statistics: Statistics) -> Slots:
    """Note which texts say words of the question by other ones, and how much of the question they say so; return their slots.

    A word and all that may be said for it tell apart as much as one word that stands in as many texts: more for what
    means the same than for what is of a kind, which more may be. It counts where the very word does not stand, as a share of
    what all words of the question tell apart.

    Args:
        said: stems of the question.
        find: returns of those stems that stand anywhere which slots they do in, as often as it likes, and how often.
    """
    import numpy as np

    often, most = statistics.counts, max(_FEW, _MOST * statistics.docs)
    asked = [stem for stem in said if often.get(stem, 0) <= most]
    of = {stem: related for stem in asked if any(related := related_to(stem))}
    wanted = {stem for related in of.values() for phrases in related for phrase in phrases for stem in phrase}
    noted = [np.zeros(0, np.intp)]
    if not wanted:
        return noted[0]
    there: dict[str, Slots] = {}
    for stem, slots, _ in find([*of, *wanted.difference(of)]):
        there[stem] = np.append(there[stem], slots) if stem in there else slots
    whole = sum(statistics.rarity(often.get(stem, 0)) for stem in said)
    for stem, related in of.items():
        new, docs = None, often.get(stem, 0)
        for phrases in related:
            here = [_slots_of(phrase, there) for phrase in phrases if phrase[0] in there]
            if not here:
                continue
            if new is None:
                new = np.ones(view.n + 1, bool)
                new[there.get(stem, here[0][:0])] = False
            slots = view.around(np.concatenate(here), ()) if len(here) > 1 else here[0]
            slots = slots[new[slots]]
            new[slots] = False
            docs += int(np.count_nonzero(view.columns.read_by(slots, view.only)))
            if docs > most:
                break
            noted.append(view.seen(slots))
            view.related[noted[-1]] += statistics.rarity(docs) / whole
    return np.concatenate(noted)


def _slots_of(phrase: Phrase, there: Mapping[str, Slots]) -> Slots:
    """Return the slots of the texts in which all words of a phrase stand, the first of which stands somewhere."""
    import numpy as np

    slots = there[phrase[0]]
    for stem in phrase[1:]:
        slots = np.intersect1d(slots, there.get(stem, slots[:0]))
    return slots


def _phrases(words: Iterable[str]) -> tuple[Phrase, ...]:
    return tuple(tuple(word.split("-")) for word in words)


def _lines_with(stem: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield what stands before and behind the colon of each line that has a word of this stem."""
    if not stem.isalpha():
        return
    text, at = _stemmed(), -1
    while (at := text.find(f" {stem} ", at + 1)) >= 0:
        before, _, behind = text[text.rindex("\n", 0, at) : text.index("\n", at)].partition(":")
        yield before.split(), behind.split()


@functools.lru_cache(maxsize=1)
def _stemmed() -> str:
    """Return the file with stems for words, and a space on both sides of each word.

    It is searched as a text: 5 microseconds a word, and 30 kB instead of the 600 that a table takes.
    """
    text = files("edgemem.recall").joinpath(FILE).read_text("utf-8")
    lines = "".join(f"\n {line} " for line in text.replace(":", " :").splitlines() if line[:1] != "#")
    words = list(dict.fromkeys(_WORD.findall(lines)))
    stem_of = dict(zip(words, stems(words)))  # noqa: B905 - as long as one another
    return _WORD.sub(lambda found: stem_of[found[0]], lines) + "\n"
