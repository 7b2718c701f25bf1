"""Echoes, which are messages that only repeat the question, and copies, which are messages that repeat another message.

A person who asks again wants the answer, not the memory of the first time; and three equal messages tell one thing. So
neither echoes nor copies raise or lower the score of any other candidate.
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
"""Longer texts are neither echoes nor copies: nobody only asks at such length, and to compare them would take long."""
_SENTENCE = re.compile(r"[^.!?。！？؟]+[.!?。！？؟]*")
_ASKS, _TELLS = "?？؟", ".!。！"


class Echoes:
    """Finds the echoes of a question, and copies, among messages.

    Args:
        query: what was asked.
    """

    def __init__(self, query: ParsedQuery) -> None:
        self._timed = bool(query.spans)
        # One recall looks at most items several times.
        self._read = cache(read_utterance)
        self._is_echo = cache(partial(_is_echo, read_utterance(query.text).words, query.all_stems))

    def among(self, items: Iterable[Recalled]) -> list[Recalled]:
        """Return the messages that only ask what the question asks; they may add politeness and the name of whom they speak to."""
        return [item for item in items if item.kind == "turn" and self._is_echo(item.text)]

    def copies(self, items: Iterable[Recalled]) -> list[Recalled]:
        """Return the messages that say in the same words what a better message says.

        A text that says "I" is a copy only of the same speaker's. The newer message is the better one; where the question
        names a time, the one that ranks higher.
        """
        alike: defaultdict[str, list[Recalled]] = defaultdict(list)
        for item in items:
            if item.kind == "turn" and len(item.text) <= MOST_CHARS:
                alike[self._read(item.text).words].append(item)
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


def _is_echo(question: str, stems: frozenset[str], text: str) -> bool:
    """Tell whether a text only asks what a question asks.

    Args:
        question: its words, as `read_utterance` gives them.
        stems: all stems of the question.
    """
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
    """Tell whether all sentences of a text are questions; sentences of empty words do not count."""
    if len(text) > MOST_CHARS:
        return False
    words = all_words().get(language_in(text))
    sentences = _sentences(text)
    telling = [sentence for sentence in sentences if terms(sentence)] or sentences
    return bool(telling) and all(_asks(sentence, words) for sentence in telling)


def asks(text: str) -> bool:
    """Tell whether the last sentence of a text is a question."""
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
        hit.start() == 0 or hit.end() == len(form)
        for form in (small(sentence), _without_politeness(sentence, words).strip())
        for hit in words.questions.pattern.finditer(form)
    )


def _without_politeness(text: str, words: Words | None) -> str:
    """Return a text in small letters, without "please", "can you tell me", and "do you know"."""
    bare = small(text)
    for phrases in () if words is None else (words.please, words.me, words.us, words.speech, words.little):
        bare = phrases.pattern.sub(" ", bare)
    return bare
