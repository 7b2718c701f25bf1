"""Query: a sentence that is asked or said, analysed once: its words, stems, language, times, tense and people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from edgemem.languages.words import all_words, is_english, small
from edgemem.recall.annotations import zone_at
from edgemem.recall.dates.calendar import Range
from edgemem.recall.dates.phrases import asks_when, times_in
from edgemem.recall.dates.questions import PeriodQuestion, period_question, tense_of
from edgemem.recall.people.names import People, hear, named_in
from edgemem.recall.text.analyse import MAX_CHARS, NOTHING, Analysis, analyse, stem, terms

if TYPE_CHECKING:
    from collections.abc import Collection


_SURE = 0.9  # a time that is less sure than this may be a word of what is asked for: "Monday" of a fact


class ParsedQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence that somebody asks or says, analysed once: what all of recall knows of it.

    `parse_query` makes one of what the sentence says by itself; `resolved` adds what that says of the people who are known.
    """

    whole: Analysis = NOTHING
    """The end of the sentence, with misheard names set right."""
    untimed: Analysis = NOTHING
    """The same without the times that are sure, unless nothing else is left."""
    times: tuple[Range, ...] = ()
    """The times that it names, in their order there; of one time, the likeliest reading first."""
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
    terms: tuple[str, ...] = ()
    """Stems to look for, each once; names of people who speak here are left out, since they match everything, unless
    facts are about them."""
    meaning: str = ""
    """The text to embed: without those names, which would only find greetings."""
    people: frozenset[str] = frozenset()
    """The people that it names, and the reader where it says "I"."""
    strange: frozenset[str] = frozenset()
    """Those of its terms that are no English words: where they stand nowhere, they were misheard."""
    stems: frozenset[str] = frozenset()
    """Of all its words that tell anything but a time, those names included."""
    dates: frozenset[str] = frozenset()
    """Those of its terms that perhaps only say a time."""
    period: PeriodQuestion | None = None
    """What it asks for, where it names a time and nothing else."""

    @property
    def tense(self) -> Literal["now", "past", ""]:
        """Return which time the question is about: what holds now, or what held in the past; empty: neither, as "what did she say?"."""
        if self.asks_past or self.asks_first:
            return "past"
        return "" if self.in_past else "now"

    @property
    def english(self) -> bool:
        """Whether it is in English, by the rules of which words sound alike."""
        return self.whole.language == "en"

    def of(self, people: frozenset[str]) -> ParsedQuery:
        """Return the same question as one about other people."""
        return msgspec.structs.replace(self, people=people)

    def but(self, unknown: Collection[str]) -> ParsedQuery:
        """Return the same question without those words of a time that stand in no text; unchanged, if nothing else is left.

        No text can be found by them, and as the rarest words of the question they would count most.
        """
        left = tuple(term for term in self.terms if term not in self.dates or term not in unknown)
        return msgspec.structs.replace(self, terms=left) if left else self

    def without_terms(self) -> ParsedQuery:
        """Return the same question without words to look for."""
        return msgspec.structs.replace(self, terms=())

    def names(self, subject: str) -> bool:
        """Tell whether a subject, given by its stems with spaces between them, stands in it."""
        return self.stems.issuperset(subject.split())

    def resolved(
        self,
        *,
        people: People | None = None,
        subjects: Collection[str] = (),
        reader: str | None = None,
    ) -> ParsedQuery:
        """Return the query with what to look for and the people it is about.

        Args:
            people: known speakers.
            subjects: those of them that facts are about.
            reader: who asks, if known.
        """
        whole, untimed = self.whole, self._untimed()
        words = frozenset(untimed.words)
        content = untimed.terms()
        people = people or {}
        named = named_in(words, people)
        name_words = {word for name in named.difference(subjects) for word in people[name]}
        sought = untimed.terms(without=name_words)
        meaning = " ".join(untimed.text.split())
        if sought and name_words:
            meaning = " ".join(hear(meaning, dict.fromkeys(name_words, "")).split())
        known = all_words().get(whole.language)
        speaks_of_itself = (
            reader is not None and known is not None and known.speaks_of_itself(small(untimed.text))
        )
        return msgspec.structs.replace(
            self,
            untimed=untimed,
            terms=tuple(dict.fromkeys(sought or content)),
            meaning=meaning,
            people=named | {reader} if reader and speaks_of_itself else named,
            strange=frozenset(stem(word) for word in words if word.isalpha() and not is_english(word)),
            stems=frozenset(content),
            dates=frozenset(term for span in self.times for term in terms(span.text)),
            period=None
            if self.asks_when
            else period_question(
                whole.text,
                self.times,
                now=self.at,
                language=whole.language,
                named=named,
                reader=reader,
            ),
        )

    def _untimed(self) -> Analysis:
        """Return the sentence without the times that are sure; as it is, if nothing else is left."""
        text = self.whole.text
        for span in self.times:
            if span.sure >= _SURE:
                text = text.replace(span.text, " ", 1)
        untimed = self.whole if text == self.whole.text else analyse(text)
        return untimed if untimed.tokens else self.whole

    def heard_as(self, text: str) -> ParsedQuery:
        """Return the same query in other words, for misheard names; what was taken for a time may have been one."""
        if text == self.whole.text:
            return self
        times = (span for span in self.times if span.text in text or span.text not in self.whole.text)
        return msgspec.structs.replace(self, whole=analyse(text), times=tuple(times))


def parse_query(text: str, now: float | None = None) -> ParsedQuery:
    """Analyse a sentence, as far as that needs nobody's name.

    Args:
        text: anything at all; of a very long one the end counts.
        now: when it is asked, seconds since the epoch, for the times that it speaks of; None: leave them out.
    """
    text = text[-MAX_CHARS:]
    times = () if now is None else times_in(text, now, zone_at(now))
    untimed = text
    for span in times:
        for named in span.ends or (span,):
            untimed = untimed.replace(named.text, " ", 1)
    tense = tense_of(text, untimed)
    return ParsedQuery(
        whole=analyse(text),
        times=times,
        at=now or 0.0,
        asks_past=tense.past,
        asks_first=tense.first,
        asks_all=tense.all,
        asks_when=now is not None and asks_when(text),
        in_past=tense.speaks,
    )
