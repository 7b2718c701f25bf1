"""Questions: what is asked for, of whom, and by which words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from edgemem.languages.words import all_words, small
from edgemem.recall.dates.period import TimeAlone, time_alone
from edgemem.recall.dates.phrases import asks_when, ends_in, times_in
from edgemem.recall.people.names import hear, people_in
from edgemem.recall.text.analyse import MAX_CHARS, language_in, plain_words, stem, terms
from edgemem.recall.text.tense import tense_of
from edgemem.recall.text.vocabulary import is_english
from edgemem.recall.traits import zone_at

if TYPE_CHECKING:
    from collections.abc import Collection

    from edgemem.recall.dates.phrases import Span


_SURE = 0.9  # a time that is less sure than this may be a word of what is asked for: "Monday" of a fact


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a question says by itself, before it is known which people there are."""

    text: str = ""
    """Its end."""
    spans: tuple[Span, ...] = ()
    """The times that it speaks of, in their order there; of one time, the likeliest reading first."""
    ends: tuple[Span, ...] = ()
    """The same, of "from Monday to Friday" each end by itself, and of "since March" March."""
    at: float = 0.0
    """When it is asked, seconds since the epoch."""
    asks_past: bool = False
    """Whether it asks for what was, and is not any more."""
    asks_first: bool = False
    """Whether for what was before all else."""
    asks_all: bool = False
    """Whether for all that was, one after the other."""
    asks_when: bool = False
    in_past: bool = False
    """Whether it speaks of the past at all, as in "what did you eat?"."""

    @property
    def tense(self) -> Literal["now", "past", ""]:
        """Return whether it is about what holds, or about what was; empty: about neither, as "what did she say?"."""
        if self.asks_past or self.asks_first:
            return "past"
        return "" if self.in_past else "now"


class Question(Asked, frozen=True, kw_only=True):
    """A question, taken apart, of the people who are known."""

    terms: tuple[str, ...]
    """Stems to look for, each once; names of people who speak here are left out, since they match everything, unless
    facts are about them."""
    meaning: str
    """The text to embed: without those names, which would only find greetings."""
    people: frozenset[str]
    """The people that it names, and the reader where it says "I"."""
    strange: frozenset[str] = frozenset()
    """Those of its terms that are no English words: where they stand nowhere, they were misheard."""
    language: str = "en"
    """That it is in, as `analyse.language_in` tells it: en where nothing tells."""
    stems: frozenset[str] = frozenset()
    """Of all its words that tell anything, those names included."""
    times: tuple[tuple[float, float, float], ...] = ()
    """Begin and end of the times that it speaks of, and how sure that is; their words are not looked for."""
    dates: frozenset[str] = frozenset()
    """Those of its terms that perhaps only say a time."""
    alone: TimeAlone | None = None
    """What it asks for if it names a time and little else that the memory knows."""

    @property
    def english(self) -> bool:
        """Whether it is in English, by the rules of which words sound alike."""
        return self.language == "en"

    def of(self, people: frozenset[str]) -> Question:
        """Return the same question, of other people."""
        return msgspec.structs.replace(self, people=people)

    def but(self, unknown: Collection[str]) -> Question:
        """Return the same question without the words of times that stand nowhere, if it says anything else.

        A text cannot have them, and they would be the rarest of its words.
        """
        left = tuple(term for term in self.terms if term not in self.dates or term not in unknown)
        return msgspec.structs.replace(self, terms=left) if left else self

    def settled(self, *, alone: bool) -> Question:
        """Return the same question as one of a time alone, which has no words to look for, or as any other."""
        return msgspec.structs.replace(self, terms=()) if alone else msgspec.structs.replace(self, alone=None)

    def names(self, subject: str) -> bool:
        """Tell whether a subject, given by its stems with spaces between them, stands in it."""
        return self.stems.issuperset(subject.split())


def take_apart(text: str, now: float | None = None) -> Asked:
    """Take a question apart, as far as that needs nobody's name.

    Args:
        text: anything at all; of a very long one the end counts.
        now: when it is asked, seconds since the epoch, for the times that it speaks of; None: leave them out.
    """
    text = text[-MAX_CHARS:]
    spans = () if now is None else times_in(text, now, zone_at(now))
    ends = ends_in(text, now, zone_at(now)) if now is not None and spans else ()
    untimed = text
    for span in ends:
        untimed = untimed.replace(span.said, " ", 1)
    tense = tense_of(text, untimed)
    return Asked(
        text=text,
        spans=spans,
        ends=ends,
        at=now or 0.0,
        asks_past=tense.past,
        asks_first=tense.first,
        asks_all=tense.all,
        asks_when=now is not None and asks_when(text),
        in_past=tense.speaks,
    )


def read_question(
    asked: Asked,
    text: str | None = None,
    *,
    people: Collection[str] = (),
    subjects: Collection[str] = (),
    reader: str | None = None,
) -> Question:
    """Say what to look for, and of whom.

    Args:
        text: the text with misheard names set right; None: as it was asked.
        people: names of known speakers.
        subjects: those of them that facts are about.
        reader: who asks, if known.
    """
    text, spans = asked.text if text is None else text, asked.spans
    if text != asked.text:  # what was taken for a time may have been a name
        spans = tuple(span for span in spans if span.said in text or span.said not in asked.text)
    whole = text
    for span in spans:
        if span.sure >= _SURE:
            text = text.replace(span.said, " ", 1)
    if spans and not terms(text):
        text = whole
    words = plain_words(text)
    said = set(words)
    named = people_in(text, people)
    language = language_in(whole)
    alone = time_alone(asked, whole, spans, language=language, named=named, reader=reader)
    name_words = {word for name in named.difference(subjects) for word in plain_words(name)}
    content = terms(text)
    wanted = terms(text, without=name_words)
    meaning = " ".join(text.split())
    if wanted and name_words:
        meaning = " ".join(hear(meaning, dict.fromkeys(name_words, "")).split())
    known = all_words().get(language)
    if reader and known is not None and known.speaks_of_itself(small(text)):
        named = named | {reader}
    return Question(
        **msgspec.structs.asdict(asked),
        terms=tuple(dict.fromkeys(wanted or content)),
        meaning=meaning,
        people=named,
        strange=frozenset(stem(word) for word in said if word.isalpha() and not is_english(word)),
        language=language,
        stems=frozenset(content),
        times=tuple((span.begin, span.end, span.sure) for span in spans),
        dates=frozenset(term for span in spans for term in terms(span.said)),
        alone=alone,
    )
