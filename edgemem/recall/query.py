"""Query: a sentence that is asked or said, analysed once: its words, stems, language, times, tense and people.

Times come first, since they decide which facts may answer, then corrected names, then words. A former state is asked for by a
word for "not any more", or one that may mean it ("before", "old", "antes") beside a verb in the past: "what must I do before the
trip?" is about no past. "What did we do yesterday?" asks for a period: it has only times, names and empty words.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import tzinfo
from functools import cache
from itertools import pairwise
from typing import Literal, NamedTuple

import msgspec

from edgemem.languages.words import Words, all_words, small, templates
from edgemem.preload import Pattern, preloaded
from edgemem.recall.people.names import Name, NamedPeople, People, parsed_name, replace_words
from edgemem.recall.text.analyse import (
    MAX_CHARS,
    NOTHING,
    Analysis,
    analyse_query,
    empty_signs,
    fold,
    has_question,
    plain_words,
    spoken_words,
    stem,
    stemmed,
    stop_words,
)
from edgemem.recall.text.calendar import Range
from edgemem.recall.text.lexicon import is_english, lexicons
from edgemem.recall.text.phrases import times_in

_FEW = 3  # words of a sentence that may be about what was said before; chosen as tests/lab/tuning.md says
_SURE = 0.9  # a less sure time may be a word to look for: "Monday" of a fact

_TOKEN = re.compile("[\u3400-\u9fff]|[^\\W\u3400-\u9fff]+")
_LETTER = "[^\\W\u3400-\u9fff]"  # a name in Chinese has no spaces around it
_NAMED = "@"  # replaces a name, and "we"
_A_TIME = "0"  # replaces a time: "before 0" asks for no former state
_DAY_S, _FEW_DAYS_S = 86400.0, 3 * 86400.0


class Tense(NamedTuple):
    """The tense of a question."""

    past: bool = False
    """Whether it asks about a former state."""
    first: bool = False
    """Whether it asks about the first state of all, not the last one that is over."""
    all: bool = False
    """Whether it asks for all states, one after the other: how something changed."""
    speaks: bool = False
    """Whether it is about the past at all, as "what did you eat?"."""


class PeriodQuestion(msgspec.Struct, frozen=True):
    """A question for what is of a period."""

    coming: bool = False
    """Whether it asks what is to come, of today what is on."""
    more: bool = False
    """Whether it names more than people and that period, which is one to come."""
    people: frozenset[str] = frozenset()
    """Whose it is; empty: anybody's, as in "what happened while I was away?"."""


class _TensePhrases(NamedTuple):
    over: tuple[Pattern, ...]
    over_but: Pattern
    beside: tuple[tuple[Pattern, Pattern], ...]
    """Words for "not any more", and the verbs beside which they mean it."""
    first: Pattern
    all: Pattern
    now: Pattern
    spoke: Pattern
    before: Pattern


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence with its times, before names are corrected."""

    text: str
    at: float = 0.0
    """When it is asked, seconds since the epoch."""
    times: tuple[Range, ...] = ()
    """In their order there; of one time, the likeliest reading first."""
    tense: Tense = Tense()
    dates: frozenset[str] = frozenset()
    """Phrases that surely name a time."""
    before: tuple[str, ...] = ()
    """What was said before it, the newest first: its subject, where it names none itself."""


class ParsedQuery(msgspec.Struct, frozen=True, kw_only=True):
    """All that recall knows of a sentence."""

    whole: Analysis = NOTHING
    """The end of the sentence, with names corrected."""
    english: bool = True
    """Whether it is in English, by the rules of which words sound alike."""
    times: tuple[Range, ...] = ()
    """In their order there; of one time, the likeliest reading first."""
    asks_past: bool = False
    asks_first: bool = False
    tense: Literal["now", "past", ""] = "now"
    """The time that it is about; empty: neither, as "what did she say?"."""
    terms: tuple[str, ...] = ()
    """Stems to look for, each once; speakers' names, which match everything, only if facts are about them."""
    meaning: str = ""
    """The text to embed: without those names, which would only find greetings."""
    people: Mapping[str, Name] = {}
    """People in it, and the reader where it says "I"."""
    unknown_words: frozenset[str] = frozenset()
    """Stems of words that are no English: misheard, where no text has them."""
    stems: frozenset[str] = frozenset()
    """Of all words that are content and no time, those names included."""
    date_terms: frozenset[str] = frozenset()
    """Its terms that may only name a time."""
    period: PeriodQuestion | None = None
    """What it asks of a time, where it names that and nothing else."""

    def names(self, subject: str) -> bool:
        """Tell whether the sentence has all stems of a subject, joined by spaces."""
        return self.stems.issuperset(subject.split())


def read_question(text: str, now: float | None = None, zone: tzinfo | None = None) -> Question:
    """Return a sentence, of a very long text the end, with its times as of `now`, seconds since the epoch; None: without.

    `zone` None: this machine's.
    """
    text = text[-MAX_CHARS:]
    times = () if now is None else times_in(text, now, zone)
    undated = text
    for span in times:
        for named in span.ends or (span,):
            undated = undated.replace(named.text, _A_TIME, 1)
    return Question(
        text=text,
        at=now or 0.0,
        times=times,
        tense=tense_of(text, undated),
        dates=frozenset([span.text for span in times if span.sure >= _SURE]),
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
        named: the sentence with names corrected, and the people in it; None: nobody.
        people: known speakers.
        subjects: speakers whom facts are about.
        called: the speaker that each further name means.
        reader: the asker, if recognised.
    """
    named = named or NamedPeople(question.text, frozenset(), frozenset())
    # A name may have been taken for a time.
    times = tuple([at for at in question.times if at.text in named.text or at.text not in question.text])
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
    return ParsedQuery(
        whole=whole,
        english=english,
        times=times,
        asks_past=tense.past,
        asks_first=tense.first,
        tense="past" if tense.past else "" if tense.speaks else "now",
        terms=tuple(dict.fromkeys(sought or content)),
        meaning=meaning,
        people={name: known.get(name) or parsed_name(name) for name in sorted(concerned)},
        unknown_words=frozenset([stem(word) for word in foreign]),
        stems=frozenset(content),
        date_terms=date_terms,
        period=period_question(named, [*times], question.at, whole.language, concerned, reader),
    )


def lacks_subject(question: ParsedQuery, reader: str | None, counts: Mapping[str, int]) -> bool:
    """Tell whether a sentence of a few words names nobody but its `reader`, and nothing, or only "she" or "it".

    `counts` are the texts with each of its terms. One word that some text has is its subject; one that none has tells what is asked
    about somebody named before.
    """
    text, words = question.whole.text, len(question.whole.tokens)
    if question.people.keys() - {reader} or words > _FEW or any(map(str.isdigit, text)):
        return False
    language = all_words().get(question.whole.language)
    refers = language is not None and language.others.stand_in(
        small(_without_determiners(question, language, counts))
    )
    return refers or (words <= 1 and not any(counts.values()) and not question.people)


def _without_determiners(question: ParsedQuery, language: Words, counts: Mapping[str, int]) -> str:
    """Leave out determiners before nouns: words with a capital, or, where the language or the writer has none, such as texts have."""
    text, times = question.whole.text, question.date_terms
    capitals = question.whole.language == "de" and text != text.lower()
    for after, word in pairwise(spoken_words(text)[::-1]):
        noun = text[after.begin].isupper() if capitals else counts.get(after.stem) and after.stem not in times
        if after.content and noun and language.determiners.make_up(small(text[word.begin : word.end])):
            text = text[: word.begin] + text[word.end :]
    return text


def with_subjects(question: Question) -> Question:
    """Return a sentence behind another of the names and content words of what was said before it."""
    words = [
        text[word.begin : word.end] for text in question.before for word in spoken_words(text) if word.content
    ]
    text = f"{' '.join(dict.fromkeys(words))}. {question.text}" if words else question.text
    return msgspec.structs.replace(question, text=text[-MAX_CHARS:])


def tense_of(text: str, undated: str | None = None) -> Tense:
    """Return the tense of a question, of a very long one that of the end.

    `undated` is the question with `_A_TIME` for its times, since the first of May is no first state; None: it names none.
    """
    known = _tense_phrases()
    text = small(text[-MAX_CHARS:])
    plain = text if undated is None else small(undated[-MAX_CHARS:])
    over = known.over_but.sub(" ", plain)
    return Tense(
        any(phrases.search(over) for phrases in known.over)
        or any(words.search(over) and verbs.search(over) for words, verbs in known.beside),
        bool(known.first.search(plain)),
        bool(known.all.search(text)),
        bool(known.before.search(text) or (known.spoke.search(text) and not known.now.search(plain))),
    )


@preloaded
def _tense_phrases() -> _TensePhrases:
    pasts = [words.past for words in all_words().values()]
    return _TensePhrases(
        tuple(templates(past.over.items, past.value.items) for past in pasts),
        templates([item for past in pasts for item in past.over_but.items]),
        tuple((templates(past.beside.items, past.value.items), templates(past.was.items)) for past in pasts),
        templates([item for past in pasts for item in past.first.items]),
        templates([item for past in pasts for item in past.all.items]),
        templates([item for past in pasts for item in past.now.items]),
        templates([item for past in pasts for item in past.spoke.items]),
        templates([item for past in pasts for item in past.before.items]),
    )


def period_question(
    named: NamedPeople, times: list[Range], now: float, language: str, people: set[str], reader: str | None
) -> PeriodQuestion | None:
    """Return the period question in a sentence with these times; None: it asks for more, or names no time.

    `now` is in seconds since the epoch; `people` are those in it, and the `reader` where it says "I".
    """
    words, text = all_words().get(language), named.text
    if words is None or not times:
        return None
    for phrase in sorted({span.text for span in times}, key=len, reverse=True):
        text = text.replace(phrase, " ")
    text = small(text)
    for name in sorted(map(small, named.whole), key=len, reverse=True):
        text = re.sub(rf"(?<!{_LETTER}){re.escape(name)}(?:'?s)?(?!{_LETTER})", _NAMED, text)
    accented = lexicons().accented.get(language) if not text.isascii() else None
    lexicon = accented or lexicons().plain[language]
    asks = words.asks.pattern.search(text)
    request = _request(text, words, before=len(text) if asks is None else asks.start())
    tenses = lexicon.tenses(text, text if accented else fold(text))
    coming = _asks_coming(tenses, times, now, request=request > 0)
    asks_it = asks is not None or (coming and has_question(named.text)) or text.rstrip().endswith(("?", "？"))
    if not asks_it and (coming or not request):
        return None
    text = text[request:]
    content = _has_content(lexicon.coming.sub(" ", text) if coming else text, words, language)
    if coming is None or (content and not coming) or _asks_robot(text, words, coming=coming):
        return None
    begins = (at.start() for some in (words.speech, words.done) for at in some.pattern.finditer(text))
    deed = max(begins, default=-1)
    mine = coming or reader in named.whole or any(at.start() <= deed for at in words.i.pattern.finditer(text))
    return PeriodQuestion(coming, content, frozenset(people).difference(() if mine else (reader,)))


def _asks_coming(
    tenses: tuple[bool, bool], spans: Collection[Range], now: float, *, request: bool
) -> bool | None:
    """Tell whether a question with signs of the past, and of the future, asks what is to come, or what is on today.

    Plans are rarely for as long as a month. None: it asks neither for that, nor for what was before.
    """
    past, coming = tenses
    likeliest = max(spans, key=lambda span: span.sure)  # of readings that are as likely the first
    if past and likeliest.begin <= now:
        return False
    short = likeliest.end - likeliest.begin <= _FEW_DAYS_S
    if coming and (short or not past):
        return True if likeliest.end > now else None if likeliest.end > now - _DAY_S else False
    either = any(span.end <= now for span in spans if span.sure == likeliest.sure)
    return likeliest.end > now and (not either or (short and not request))


def _request(text: str, words: Words, *, before: int) -> int:
    """Return the end of a request ("tell me") before the asking word, at `before`; 0: none, as in "what did you tell me?"."""
    whom = words.us.pattern.search(text) or words.me.pattern.search(text)
    if whom is None or whom.start() >= before:
        return 0
    verb = words.please.pattern.sub(" ", text[: whom.start()])
    return whom.end() if len(_TOKEN.findall(verb)) <= words.word_length and _NAMED not in verb else 0


def _asks_robot(text: str, words: Words, *, coming: bool) -> bool:
    """Tell whether only the robot's words or deeds are asked for: "you" is all that does something."""
    text = words.please.pattern.sub(" ", text)
    people = (words.i, words.we, words.me) if coming else (words.i, words.we)
    others = _NAMED in text or any(some.pattern.search(text) for some in people)
    return not others and words.you.pattern.search(text) is not None


def _has_content(text: str, words: Words, language: str) -> bool:
    """Tell whether a word has content."""
    for some in (words.please, words.speech, words.done, words.little, words.asks):
        text = some.pattern.sub(" ", text)
    accented = words.accented and not text.isascii()
    for token in _TOKEN.findall(text.replace(_NAMED, " ")):
        plain = next(iter(plain_words(token)), "")
        stems = {stem(plain), stem(plain, language) if stemmed(language) else plain}
        if plain and not (token in stop_words(language) if accented else stems & _empty_stems(language)):
            return True
    return False


@cache
def _empty_stems(language: str) -> frozenset[str]:
    """Return the stems of a language's empty words, without accents: some Vietnamese ones then mean another."""
    words = all_words()[language]
    listed = [item for some in (words.speech, words.done, words.little) for item in some.items]
    empty = stop_words(language) if words.spaced else empty_signs()
    plain = [word for item in (*empty, *listed) for word in plain_words(item)]
    if not stemmed(language):
        return frozenset(plain)
    return frozenset(stem(word, code) for word in plain for code in ("en", language))
