"""Tense: whether a question asks what was before, what was first of all, and what all was, in five languages.

It decides whether facts that do not hold any more may answer, not whether others may: one that is taken for such a
question by mistake still finds what holds. So it asks for a word that says "not any more", or for one that may say so
("before", "old", "antes") beside a verb in the past: "what must I do before the trip?" asks about no past.
"""

from __future__ import annotations

from typing import NamedTuple

from edgemem.languages.words import all_words, small, templates
from edgemem.patterns import Pattern
from edgemem.provisions import provided

_MAX_CHARS = 2000


class Tense(NamedTuple):
    """What a question says of the past."""

    past: bool
    """Whether it asks for what was, and is not any more."""
    first: bool
    """Whether, where it asks about the past, it asks for what was before all else, not for what was last."""
    all: bool
    """Whether it asks for all that was, one after the other: how something changed, what all it was so far."""
    speaks: bool
    """Whether it speaks of the past at all, as in "what did you eat?"."""


class _Phrases(NamedTuple):
    over: tuple[Pattern, ...]
    over_but: Pattern
    beside: tuple[tuple[Pattern, Pattern], ...]
    """Words that say "not any more", and the verbs beside which they do."""
    first: Pattern
    all: Pattern
    now: Pattern
    spoke: Pattern
    before: Pattern


def tense_of(text: str, untimed: str | None = None) -> Tense:
    """Return what a question says of the past.

    Args:
        text: anything at all; of a very long one the end counts.
        untimed: the same without the times that it names: on the first of May nothing was first, and two weeks ago is no
            question of what is over; None: it names none.
    """
    known = _phrases()
    text = small(text[-_MAX_CHARS:])
    plain = text if untimed is None else small(untimed[-_MAX_CHARS:])
    over = known.over_but.sub(" ", plain)
    return Tense(
        any(phrases.search(over) for phrases in known.over)
        or any(words.search(plain) and verbs.search(plain) for words, verbs in known.beside),
        bool(known.first.search(plain)),
        bool(known.all.search(text)),
        bool(known.before.search(text) or (known.spoke.search(text) and not known.now.search(text))),
    )


@provided
def _phrases() -> _Phrases:
    languages = [words.past for words in all_words().values()]
    return _Phrases(
        tuple(templates(past.over.items, past.value.items) for past in languages),
        templates([item for past in languages for item in past.over_but.items]),
        tuple((templates(past.beside.items), templates(past.was.items)) for past in languages),
        templates([item for past in languages for item in past.first.items]),
        templates([item for past in languages for item in past.all.items]),
        templates([item for past in languages for item in past.now.items]),
        templates([item for past in languages for item in past.spoke.items]),
        templates([item for past in languages for item in past.before.items]),
    )
