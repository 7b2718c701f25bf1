"""Echoes: messages that only ask the same once more, and copies of what another message says.

Who asks again wants the answer, not the memory of having asked; and what was said three times is one thing to know. So
neither has a say in how sure it is that something answers.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache, partial
from typing import TYPE_CHECKING

from edgemem.languages.words import all_words, small
from edgemem.recall.prefetch import read_utterance
from edgemem.recall.text.analyse import language_in, terms
from edgemem.recall.traits import called_by

if TYPE_CHECKING:
    from collections.abc import Iterable

    from edgemem.languages.words import Words
    from edgemem.recall.query import ParsedQuery
    from edgemem.records import Recalled


MOST_CHARS = 1000
"""Nobody only asks for longer, nor says so much twice by chance; looking costs the more the longer a text is."""
_SENTENCE = re.compile(r"[^.!?。！？؟]+[.!?。！？؟]*")
_ASKS, _TELLS = "?？؟", ".!。！"


class Echoes:
    """Tells which messages only ask what a question asks, and which are copies.

    Args:
        query: what was asked.
    """

    def __init__(self, query: ParsedQuery) -> None:
        self._timed = bool(query.spans)
        # One recall looks at most items several times.
        self._said = cache(read_utterance)
        self._is_one = cache(partial(_is_one, read_utterance(query.text).words, query.all_stems))

    def among(self, items: Iterable[Recalled]) -> list[Recalled]:
        """Return the messages that ask, and have nothing that the question has not but politeness and a name that they call."""
        return [item for item in items if item.kind == "turn" and self._is_one(item.text)]

    def copies(self, items: Iterable[Recalled]) -> list[Recalled]:
        """Return the messages that say in the same words what a better one says; who says "I" says it of nobody else.

        Better is the newer one, and where the question names a time, the one that stands before.
        """
        alike: defaultdict[str, list[Recalled]] = defaultdict(list)
        for item in items:
            if item.kind == "turn" and len(item.text) <= MOST_CHARS:
                alike[self._said(item.text).words].append(item)
        copies = []
        for same in alike.values():
            if len(same) > 1:
                words = all_words().get(language_in(same[0].text))
                personal = words is None or words.speaks_of_itself(small(same[0].text))
                if not self._timed:
                    same.sort(key=lambda item: item.event_time or item.recorded_at, reverse=True)
                best: dict[str | None, Recalled] = {}
                copies += [
                    item
                    for item in same
                    if best.setdefault(item.speaker if personal else None, item) is not item
                ]
        return copies


def _is_one(question: str, stems: frozenset[str], text: str) -> bool:
    """Tell whether a text only asks what a question of some words and stems asks."""
    if len(text) > MOST_CHARS or text.rstrip()[-1:] in _TELLS:
        return False
    if read_utterance(text).words != question:
        own = set(terms(text))
        if own.isdisjoint(stems):
            return False
        if left := own.difference(stems):
            words = all_words().get(language_in(text))
            polite = terms(_without_politeness(text, words))
            if not left.intersection(polite) <= set(called_by(text).split()):
                return False
    return only_asks(text)


def only_asks(text: str) -> bool:
    """Tell whether each sentence of a text that says anything asks; in doubt it does not."""
    if len(text) > MOST_CHARS:
        return False
    words = all_words().get(language_in(text))
    said = _sentences(text)
    sentences = [sentence for sentence in said if terms(sentence)] or said
    return bool(sentences) and all(_asks(sentence, words) for sentence in sentences)


def asks(text: str) -> bool:
    """Tell whether the last sentence of a text asks."""
    sentences = _sentences(text[-MOST_CHARS:])
    return bool(sentences) and _asks(sentences[-1], all_words().get(language_in(text)))


def _sentences(text: str) -> list[str]:
    return [stripped for sentence in _SENTENCE.findall(text) if (stripped := sentence.strip())]


def _asks(sentence: str, words: Words | None) -> bool:
    if sentence[-1] in _ASKS:
        return True
    if words is None or sentence[-1] in _TELLS:
        return False
    return any(
        found.start() == 0 or found.end() == len(said)
        for said in (small(sentence), _without_politeness(sentence, words).strip())
        for found in words.questions.pattern.finditer(said)
    )


def _without_politeness(text: str, words: Words | None) -> str:
    """Return a text in small letters, without "please", "can you tell me", and "do you know"."""
    said = small(text)
    for some in () if words is None else (words.please, words.me, words.us, words.said, words.little):
        said = some.pattern.sub(" ", said)
    return said
