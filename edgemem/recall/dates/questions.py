"""What a question asks of time: for what was before, and whether for a time or a conversation and nothing else.

That it asks for what was decides whether facts that do not hold any more may answer, not whether others may: one that is taken
for such a question by mistake still finds what holds. So it asks for a word that says "not any more", or for one that may say so
("before", "old", "antes") beside a verb in the past: "what must I do before the trip?" asks about no past.

Of a question such as "what did we do yesterday?", what is left of it when its times, the people whom it names and the words that say no more than "what was there?" are taken out
tells: nothing. Of a request such as "bring me up to speed on Sunday" one word may be left that nobody said then (see
`WordSearch`); of a question it may not: "what was delivered on Friday?" is found by its one word and by the day that texts speak
of, even where the word stands nowhere.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from edgemem.languages.words import Words, all_words, small, templates
from edgemem.preload import Pattern, preloaded
from edgemem.recall.dates.lexicon import date_words, fold
from edgemem.recall.text.analyse import MAX_CHARS, empty_signs, plain_words, stem, stemmed, stop_words

if TYPE_CHECKING:
    from collections.abc import Collection

    from edgemem.recall.dates.phrases import Span


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


class _TensePhrases(NamedTuple):
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
    known = _tense_phrases()
    text = small(text[-MAX_CHARS:])
    plain = text if untimed is None else small(untimed[-MAX_CHARS:])
    over = known.over_but.sub(" ", plain)
    return Tense(
        any(phrases.search(over) for phrases in known.over)
        or any(words.search(plain) and verbs.search(plain) for words, verbs in known.beside),
        bool(known.first.search(plain)),
        bool(known.all.search(text)),
        bool(known.before.search(text) or (known.spoke.search(text) and not known.now.search(text))),
    )


@preloaded
def _tense_phrases() -> _TensePhrases:
    languages = [words.past for words in all_words().values()]
    return _TensePhrases(
        tuple(templates(past.over.items, past.value.items) for past in languages),
        templates([item for past in languages for item in past.over_but.items]),
        tuple((templates(past.beside.items), templates(past.was.items)) for past in languages),
        templates([item for past in languages for item in past.first.items]),
        templates([item for past in languages for item in past.all.items]),
        templates([item for past in languages for item in past.now.items]),
        templates([item for past in languages for item in past.spoke.items]),
        templates([item for past in languages for item in past.before.items]),
    )


Whose = Literal["anyone", "asker", "named", "robot"]

_TOKEN = re.compile("[\u3400-\u9fff]|[^\\W\u3400-\u9fff]+")
_NAMED = "@"
"""Stands where a name stood, or "we"."""
_LETTER = "[^\\W\u3400-\u9fff]"  # no spaces stand around a name in Chinese
_DAY_S = 86400.0


class TimeAlone(msgspec.Struct, frozen=True):
    """A question for a time or a conversation and little else: whose words or deeds it asks for."""

    of: Whose = "anyone"
    """Whose words and deeds are asked for: those of whoever asks, of the people that are named, of the robot."""
    words: bool = False
    """Whether it asks for what was said, and not for what was done or happened."""
    reader: str | None = None
    """Who asks, if known."""
    talk: Literal["first", "last"] | None = None
    """Which conversation is asked for; None: a time."""
    left: tuple[frozenset[str], ...] = ()
    """The one word that is left of a request: of each of its syllables or signs, if it has several, the stems that it may have."""


def time_alone(
    text: str,
    spans: Collection[Span],
    *,
    now: float,
    language: str,
    named: Collection[str] = (),
    reader: str | None = None,
) -> TimeAlone | None:
    """Return what a question asks for, where it names a time or a conversation and little else; None: it asks for more, or names none.

    Args:
        text: with misheard names set right.
        spans: the times that it names.
        now: when it is asked, seconds since the epoch.
        language: that it is in.
        named: the people that it names.
        reader: who asks, if known.
    """
    words = all_words().get(language)
    if words is None:
        return None
    for phrase in sorted({span.text for span in spans}, key=len, reverse=True):
        text = text.replace(phrase, " ")
    text = _without_names(small(text), named)
    talk: Literal["first", "last"] | None = None
    if not spans:
        of_talk = words.first.stand_in(text) or words.last.stand_in(text)
        if named or not of_talk or not words.speech.stand_in(text):
            return None
        talk = "first" if words.first.stand_in(text) else "last"
    elif not _is_meant(text, spans, language, now):
        return None
    asks = words.asks.pattern.search(text)
    request = _request(text, words, before=len(text) if asks is None else asks.start())
    if asks is None and not request and not text.rstrip().endswith(("?", "？")):
        return None
    text = text[request:]
    left = _left(text, words, language)
    if left is None or (left and (talk is not None or not request)):
        return None
    of = _whose(text, words, named=bool(named), reader=reader)
    return TimeAlone(of, words.speech.stand_in(text), reader, talk, left)


def _without_names(text: str, named: Collection[str]) -> str:
    for name in sorted(map(small, named), key=len, reverse=True):
        text = re.sub(rf"(?<!{_LETTER}){re.escape(name)}(?:'?s)?(?!{_LETTER})", _NAMED, text)
    return text


def _request(text: str, words: Words, *, before: int) -> int:
    """Return where a request such as "tell me" or "fill us in" ends that a text begins with; 0: with none.

    Args:
        before: where what asks begins: "what did you tell me?" is no request.
    """
    whom = words.us.pattern.search(text) or words.me.pattern.search(text)
    if whom is None or whom.start() >= before:
        return 0
    verb = words.please.pattern.sub(" ", text[: whom.start()])
    return whom.end() if len(_TOKEN.findall(verb)) <= words.word_length and _NAMED not in verb else 0


def _is_meant(text: str, spans: Collection[Span], language: str, now: float) -> bool:
    """Tell whether a question asks for what was told at a time, and not for what is to be done.

    A question about a time that is over may ask anything; one about today asks for what was, one about a time to come for
    what is planned.
    """
    accented = date_words().accented.get(language) if not text.isascii() else None
    lexicon = accented or date_words().lexicons[language]
    past = lexicon.speaks_of_past(text, text if accented else fold(text))
    if any(span.holds(now) for span in spans):
        return past is True
    if past is False:
        return any(span.begin > now for span in spans) or all(span.end < now - _DAY_S for span in spans)
    return any(span.end <= now for span in spans)


def _whose(text: str, words: Words, *, named: bool, reader: str | None) -> Whose:
    """Tell whose words or deeds are asked for: of whoever stands last before the last word of speech or deed."""
    for some in (words.us, words.me, words.to_you):
        text = some.pattern.sub(" ", text)
    text = words.we.pattern.sub(_NAMED, text)
    begins = (at.start() for some in (words.speech, words.done) for at in some.pattern.finditer(text))
    deed = max(begins, default=-1)
    who: list[tuple[int, Whose]] = [(at.start(), "anyone") for at in re.finditer(_NAMED, text)]
    who += [(at.start(), "asker") for at in words.i.pattern.finditer(text)]
    who += [(at.start(), "robot") for at in words.you.pattern.finditer(text)]
    _, last = max((entry for entry in who if entry[0] <= deed), default=(0, "anyone"))
    if last == "robot" or (last == "asker" and reader is not None):
        return last
    return "named" if named else "anyone"


def _left(text: str, words: Words, language: str) -> tuple[frozenset[str], ...] | None:
    """Return the stems of the one word that tells anything in what is left of a question; None: there are more words."""
    for some in (words.please, words.first, words.last, words.speech, words.done, words.little, words.asks):
        text = some.pattern.sub(" ", text)
    accented = all_words()[language].accented and not text.isascii()
    left = []
    for token in _TOKEN.findall(text.replace(_NAMED, " ")):
        plain = next(iter(plain_words(token)), "")
        stems = frozenset((stem(plain), stem(plain, language) if stemmed(language) else plain))
        if plain and not (token in stop_words(language) if accented else stems & _empty(language)):
            left.append(stems)
    return tuple(left) if len(left) <= words.word_length else None


@cache
def _empty(language: str) -> frozenset[str]:
    """Return the stems of those words of a language that tell nothing; without accents, so that some Vietnamese ones mean another."""
    words = all_words()[language]
    listed = [item for some in (words.speech, words.done, words.little) for item in some.items]
    empty = stop_words(language) if words.spaced else empty_signs()
    plain = [word for item in (*empty, *listed) for word in plain_words(item)]
    if not stemmed(language):
        return frozenset(plain)
    return frozenset(stem(word, code) for word in plain for code in ("en", language))
