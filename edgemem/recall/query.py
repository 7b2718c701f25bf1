"""Query: a sentence that is asked or said, analysed once: its words, stems, language, times, tense and people.

Its times are read first, since they decide which facts may answer. Then misheard names are corrected, and only then is
it cut into words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from edgemem.languages.words import all_words, is_english, small
from edgemem.recall.dates.calendar import Range
from edgemem.recall.dates.phrases import asks_when, times_in, zone_at
from edgemem.recall.dates.questions import PeriodQuestion, Tense, period_question, tense_of
from edgemem.recall.people.names import Name, NamedPeople, People, parsed_name, replace_words
from edgemem.recall.text.analyse import MAX_CHARS, NOTHING, Analysis, analyse_query, stem

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_SURE = 0.9  # a time that is less sure may be a word to look for: "Monday" of a fact


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence with the times that it names, before its names are corrected."""

    text: str
    at: float = 0.0
    """When it is asked, seconds since the epoch."""
    times: tuple[Range, ...] = ()
    """The times that it names, in their order there; of one time, the likeliest reading first."""
    tense: Tense = Tense()
    dates: frozenset[str] = frozenset()
    """The phrases that surely name a time."""
    asks_when: bool = False


class ParsedQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence that somebody asks or says: all that recall knows of it."""

    whole: Analysis = NOTHING
    """The end of the sentence, with misheard names corrected."""
    english: bool = True
    """Whether it is in English, by the rules of which words sound alike."""
    times: tuple[Range, ...] = ()
    """The times that it names, in their order there; of one time, the likeliest reading first."""
    asks_past: bool = False
    """Whether the question asks about a former state."""
    asks_first: bool = False
    """Whether it asks about the first of all states."""
    asks_when: bool = False
    tense: Literal["now", "past", ""] = "now"
    """Whether the question is about what holds now or held in the past; empty: neither, as "what did she say?"."""
    terms: tuple[str, ...] = ()
    """Stems to look for, each once; names of people who speak here are left out, since they match everything, unless facts are
    about them."""
    meaning: str = ""
    """The text to embed: without those names, which would only find greetings."""
    people: Mapping[str, Name] = {}
    """The people whom it names, and the reader where it says "I"."""
    unknown_words: frozenset[str] = frozenset()
    """Stems of words that are no English: where no text has them, they were misheard."""
    stems: frozenset[str] = frozenset()
    """Stems of all its words that are content and no time, those names included."""
    date_terms: frozenset[str] = frozenset()
    """Those of its terms that may only name a time."""
    period: PeriodQuestion | None = None
    """What it asks for, where it names a time and nothing else."""

    def names(self, subject: str) -> bool:
        """Tell whether the sentence has all stems of a subject, given with spaces between them."""
        return self.stems.issuperset(subject.split())


def read_question(text: str, now: float | None = None) -> Question:
    """Return a sentence with the times that it names.

    Args:
        text: anything at all; of a very long one the end counts.
        now: when it is asked, seconds since the epoch; None: leave out the times that it names.
    """
    text = text[-MAX_CHARS:]
    times = () if now is None else times_in(text, now, zone_at(now))
    undated = text
    for span in times:
        for named in span.ends or (span,):
            undated = undated.replace(named.text, " ", 1)
    return Question(
        text=text,
        at=now or 0.0,
        times=times,
        tense=tense_of(text, undated),
        dates=frozenset([span.text for span in times if span.sure >= _SURE]),
        asks_when=now is not None and asks_when(text),
    )


def parse_query(
    question: Question,
    named: NamedPeople | None = None,
    *,
    people: People | None = None,
    subjects: Collection[str] = (),
    called: Mapping[str, str] | None = None,
    reader: str | None = None,
) -> ParsedQuery:
    """Analyse a sentence.

    Args:
        named: the sentence with its names corrected, and the people whom it names; None: nobody.
        people: known speakers.
        subjects: those of them that facts are about.
        called: further names of speakers, each with the speaker that it means.
        reader: the person who asks, if recognised.
    """
    named = named or NamedPeople(question.text, frozenset(), frozenset())
    # A name may have been taken for a time.
    times = tuple(
        [span for span in question.times if span.text in named.text or span.text not in question.text]
    )
    phrases = {span.text: span.text in question.dates for span in times}
    whole, undated, date_terms = analyse_query(named.text, phrases)
    known, called = people or {}, called or {}
    name_words = {word for name in named.whole.difference(subjects) for word in known[name].words}
    content = [term for _, terms in undated.tokens for term in terms]
    sought = [term for word, terms in undated.tokens if word not in name_words for term in terms]
    meaning = " ".join(undated.text.split())
    if sought and name_words:
        meaning = " ".join(replace_words(meaning, dict.fromkeys(name_words, "")).split())
    language, english = all_words().get(whole.language), whole.language == "en"
    concerned = set(named.whole | named.partly if english else named.whole)
    if reader and language is not None and language.speaks_of_itself(small(undated.text)):
        concerned.add(reader)
    concerned |= {called[name] for name in concerned if name in called}
    foreign = [word for word in undated.words if word.isalpha() and not is_english(word)]
    tense = question.tense
    asked_past = tense.past or tense.first
    return ParsedQuery(
        whole=whole,
        english=english,
        times=times,
        asks_past=tense.past,
        asks_first=tense.first,
        asks_when=question.asks_when,
        tense="past" if asked_past else "" if tense.speaks else "now",
        terms=tuple(dict.fromkeys(sought or content)),
        meaning=meaning,
        people={name: known.get(name) or parsed_name(name) for name in sorted(concerned)},
        unknown_words=frozenset([stem(word) for word in foreign]),
        stems=frozenset(content),
        date_terms=date_terms,
        period=None
        if question.asks_when
        else period_question(
            named.text, times, now=question.at, language=whole.language, named=named.whole, reader=reader
        ),
    )
