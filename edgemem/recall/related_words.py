"""Related words: what may be said for a word of a question, which an embedder of 22 million weights does not always see.

Who asks for the couch finds the sofa, who asks for a pet finds the rabbit. The words stand in `related_words_en.txt` and
those of other languages in files beside it, one group a line. They were written from general knowledge of the language for
this project alone, before anything was measured, by somebody who had read neither the questions of `edgemem.bench.weeks`
nor those of any other corpus; a word is taken out where it does harm in general, and none is added because a question of a
bench missed it.

A question is looked up in its own language alone: a German Gift is no present. A language without a file finds its own
words alone.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.provisions import later
from edgemem.recall.stemmer import stems
from edgemem.recall.words import without_accents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.recall.lexical import Statistics
    from edgemem.recall.view import View

    Slots = NDArray[np.intp]
    Find = Callable[[Sequence[str]], Iterable[tuple[str, Slots, Any]]]

LANGUAGES = frozenset({"en", "de", "es"})
_BEGIN, _SHORT = 3, 2
"""Letters at the beginning of a word that no stemmer changes; of a stem no longer than the first, `cry` keeps only the second."""
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


def groups_of(language: str) -> list[str]:
    """Return the groups of a language as they are written in its file."""
    lines = Path(__file__).with_name(f"related_words_{language}.txt").read_text("utf-8").splitlines()
    return [line for line in lines if line and line[0] != "#"]


@functools.lru_cache(maxsize=_REMEMBERED)
def related_to(stem: str, language: str = "en") -> Related:
    """Return what is related to the stem of a word of a language: one of `LANGUAGES`."""
    same, kinds = list[str](), list[str]()
    for before, behind, said in _lines_with(stem, language):
        if not behind:
            same += before
        elif said:
            kinds += behind
    like = {(stem,), *_phrases(same, language)}
    return Related(tuple(like - {(stem,)}), tuple(_phrases(kinds, language) - like))


def note_related(
    view: View, said: Sequence[str], find: Find, statistics: Statistics, language: str = "en"
) -> Slots:
    """Note which texts say words of the question by other ones, and how much of the question they say so; return their slots.

    A word and all that may be said for it tell apart as much as one word that stands in as many texts: more for what
    means the same than for what is of a kind, which more may be. It counts where the very word does not stand, as a share of
    what all words of the question tell apart.

    Args:
        said: stems of the question.
        find: returns of those stems that stand anywhere which slots they do in, as often as it likes, and how often.
        language: of the question.
    """
    import numpy as np

    often, most = statistics.counts, max(_FEW, _MOST * statistics.docs)
    asked = [stem for stem in said if often.get(stem, 0) <= most]
    of = {stem: related for stem in asked if any(related := related_to(stem, language))}
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
            slots = _once(np.concatenate(here)) if len(here) > 1 else here[0]
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
        slots = np.intersect1d(_once(slots), _once(there.get(stem, slots[:0])), assume_unique=True)
    return slots


def _once(slots: Slots) -> Slots:
    """Return slots in order, each once: `np.unique` imports masked arrays when it is first called, for 10 to 30 ms."""
    import numpy as np

    slots = np.sort(slots)
    new = np.ones(len(slots), bool)
    new[1:] = slots[1:] != slots[:-1]
    return slots[new]


def _phrases(words: Sequence[str], language: str) -> set[Phrase]:
    """Return words, and words with hyphens between them, by their stems.

    A text too short to tell its language has English stems, so they are wanted too.
    """
    parts = list(dict.fromkeys(part for word in words for part in word.split("-")))
    found: set[Phrase] = set()
    for each in dict.fromkeys((language, "en")):
        stem_of = dict(zip(parts, stems(parts, each)))  # noqa: B905 - as long as one another
        found.update(tuple(stem_of[part] for part in word.split("-")) for word in words)
    return found


def _lines_with(stem: str, language: str) -> Iterator[tuple[list[str], list[str], bool]]:
    """Yield what stands before and behind the colon of each line that has a word of this stem, and whether before it.

    The file is searched as it is written: to make stems of all its words at the first question took 13 ms. Only
    those are made that begin as the stem does.
    """
    if not (stem.isascii() and stem.isalpha()):
        return
    text, at = _text(language), -1
    begin = f" {stem[: _BEGIN if len(stem) > _BEGIN else _SHORT]}"
    places = []
    while (at := text.find(begin, at + 1)) >= 0:
        places.append(at + 1)
    words = [text[place : text.index(" ", place)] for place in places]
    alike = list(dict.fromkeys(word for word in words if word.isalpha()))
    of_it = {word for word, other in zip(alike, stems(alike, language)) if other == stem}  # noqa: B905 - as long
    lines: dict[int, bool] = {}
    for place, word in zip(places, words):  # noqa: B905 - as long as one another
        if word in of_it:
            line = text.rindex("\n", 0, place)
            lines[line] = lines.get(line, False) or text.find(":", line, place) < 0
    for line, said in lines.items():
        before, _, behind = text[line : text.index("\n", line + 1)].partition(":")
        yield before.split(), behind.split(), said


@functools.cache
def _text(language: str) -> str:
    """Return the file of a language without accents, with a space on both sides of each word: 20 kB, read once asked for."""
    text = without_accents("".join(f"\n {line} " for line in groups_of(language)))
    return text.replace(":", " :") + "\n"


later(functools.partial(_text, "en"))  # 2 ms; the other languages are read when they are first asked in
