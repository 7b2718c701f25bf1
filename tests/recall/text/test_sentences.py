"""What sentences in five languages say of times, of the past and of numbers, seen from a Wednesday in May 2024."""

import math
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.languages.numbers import number_runs, unknown_numbers
from edgemem.recall.index.docs import ASKS, COUNTS, GREETS, MOST_TIMES, SAYS_I, annotate
from edgemem.recall.people.names import NamedPeople, people_of
from edgemem.recall.query import PeriodQuestion, parse_query, read_question, tense_of
from edgemem.recall.text.analyse import has_question, language_in, plain_words, terms
from edgemem.recall.text.calendar import Range
from edgemem.recall.text.phrases import MAX_RANGES, asks_when, mentions, times_in
from lab.noise import cardinal, ordinal
from support.data import sentences

ZONE = timezone(timedelta(hours=2))
NOW = datetime(2024, 5, 15, 14, tzinfo=ZONE).timestamp()
WORDS = """
last next the in of on monday may 3 三 天 前 月 上 下 周 年 日 ago two thousand twenty , . tháng năm ngày trước vor hace semana que
viene first 3rd 31 9999 99999 2023 5/7/2023 2023-13-40 30.2.2023 morgen heute mañana \u0301 weeks what did yesterday Anna 我 ? ( [ hey a' . ？ yes, Mr. \0
"""
SALAD = st.lists(st.sampled_from(WORDS.split()), max_size=40)
RANGES = {
    "between {} and {}": "%d %B %Y", "from {} to {}": "%B %d, %Y", "zwischen {} und {}": "%d.%m.%Y",
    "von {} bis {}": "%d.%m.%Y", "entre {} y {}": "%Y-%m-%d", "desde {} hasta {}": "%Y-%m-%d",
    "từ {} đến {}": "ngày %d tháng %m năm %Y", "从{}到{}": "%Y年%m月%d日",
}  # fmt: skip
DAYS_OF_CALENDAR = st.dates(date(2001, 1, 1), date(2023, 12, 31))


def days_of(span: Range) -> tuple[str, str]:
    first, last = (datetime.fromtimestamp(at, ZONE) for at in (span.begin, span.end - 1))
    return first.strftime("%Y-%m-%d"), last.strftime("%Y-%m-%d")


def both_days(span: Range) -> str:
    """Return the first and the last day of a span, with .. between them; nothing for the first where it has no begin."""
    first, last = days_of(span)
    return f"{'' if span.begin == 0 else first}..{last}"


def likeliest(text: str) -> str:
    spans = times_in(text, NOW, ZONE)
    days = days_of(spans[0]) if spans else ("none",)
    return "..".join(dict.fromkeys(days))


def only_range(text: str) -> str:
    spans = times_in(text, NOW, ZONE)
    return both_days(spans[0]) if len({span.text for span in spans}) == 1 else "several"


def readings(text: str) -> str:
    return ", ".join(
        f"{days_of(span)[0]} {f'{span.sure:g}'.removeprefix('0')}" for span in times_in(text, NOW, ZONE)
    )


def words(text: str) -> str:
    return ", ".join(dict.fromkeys(span.text for span in times_in(text, NOW, ZONE))) or "none"


def period(text: str) -> str:
    """Return which period Ben asks for, who lives with Anna."""
    people = people_of(["Anna"])
    named = NamedPeople(text, frozenset(people if "Anna" in text else ()), frozenset())
    asked = parse_query(read_question(text, NOW), named, people=people, reader="ben").period
    if asked is None or asked.more:
        return "other"
    return "to come" if asked.coming else "over"


def runs_of(text: str, language: str = "en") -> list[list[str]]:
    return number_runs(plain_words(text), language)


def digits(text: str, language: str = "en") -> str:
    return ", ".join(map(" ".join, runs_of(text, language))) or "none"


def called(text: str) -> str:
    return "ann" if "ann" in annotate(text, NOW).called.split() else "nobody"


def flagged(flag: int) -> Callable[[str], str]:
    return lambda text: "yes" if annotate(text, NOW).flags & flag else "no"


READERS = {
    "time": likeliest, "range": only_range, "readings": readings, "words": words,
    "asks_when": lambda text: "yes" if asks_when(text) else "no",
    "past": lambda text: "yes" if read_question(text, NOW, ZONE).tense.past else "no",
    "first": lambda text: "yes" if tense_of(text).first else "no", "all": lambda text: "yes" if tense_of(text).all else "no",
    "speaks": lambda text: "yes" if read_question(text, NOW, ZONE).tense.speaks else "no", "period": period,
    "digits": digits, "digits_of": lambda text: digits(text[3:], text[:2]),
    "language": language_in, "called": called, "asks": flagged(ASKS), "questions": lambda text: "yes" if has_question(text) else "no",
    "greets": flagged(GREETS), "says_i": flagged(SAYS_I), "counts": flagged(COUNTS),
}  # fmt: skip


@pytest.mark.parametrize("table", READERS)
def test_sentences(table: str) -> None:
    """Each sentence is read as its table says."""
    meant = sentences(table)
    assert {text: READERS[table](text) for text in meant} == meant


def test_a_number_is_the_same_however_it_is_said() -> None:
    """A year, a code and a time are in what was said, whether they are written in one piece or in parts."""
    for said, shown in sentences("two_ways").items():
        assert not unknown_numbers(runs_of(shown), runs_of(said)), said
    assert unknown_numbers(runs_of("19 and 84, or 47 11"), runs_of("nineteen eighty five")) == {
        "84",
        "47",
        "11",
    }


def test_a_question_shares_a_term_with_what_answers_it() -> None:
    """Though the word has another form, no spaces around it, or no accents."""
    for question, answer in sentences("shared").items():
        assert set(terms(question)) & set(terms(answer)), question


def test_the_zone_makes_the_day() -> None:
    """Late in the evening in one place it is tomorrow already in another."""
    late = datetime(2024, 5, 15, 23, 30, tzinfo=timezone.utc).timestamp()
    (here,) = times_in("today", late, timezone.utc)
    (beside,) = times_in("today", late, timezone(timedelta(hours=9)))
    assert here.holds(late)
    assert beside.holds(late)
    assert beside.begin - here.begin == 15 * 3600


def test_what_a_statement_speaks_of() -> None:
    """A plan lies ahead, once; a range is found by each of its ends and by what lies between; "since Monday" is Monday."""
    (plan,) = mentions("Anna is coming on Monday", NOW, ZONE)
    assert days_of(plan)[0] == "2024-05-20"
    stated = mentions("We are in Rome from Monday to Friday", NOW, ZONE)
    assert {both_days(span) for span in stated} >= {"2024-05-20..2024-05-20", "2024-05-20..2024-05-24"}
    assert len(stated) == 3
    (since,) = mentions("He has been ill since Monday", NOW, ZONE)
    assert both_days(since) == "2024-05-13..2024-05-13"


@pytest.mark.parametrize(
    ("told", "day"),
    [
        ("We booked the hall for the 20th.", "2024-05-20"), ("the pump gets delivered on the 20th", "2024-05-20"),
        ("the vet said she'd come on the 20th", "2024-05-20"), ("We got the pump on the 20th.", "2024-04-20"),
        ("he's coming saturday week", "2024-05-25"), ("the weekend after next we sail", "2024-05-25"),
        ("wir haben den Saal für den 20. gebucht", "2024-05-20"), ("am 20. bekommen wir Holz geliefert", "2024-05-20"),
        ("The plumber's coming Thursday", "2024-05-16"), ("kommenden Donnerstag kommt er", "2024-05-16"), ("he sails next Thursday", "2024-05-23"),
        ("we sail this Monday", "2024-05-20"), ("this Monday we got the pump", "2024-05-13"),
        ("Freitag ist der Tischler angesagt", "2024-05-17"), ("am 20. haben wir Holz bekommen", "2024-04-20"), ("reservé la sala para el 20 de mayo", "2024-05-20"),
    ],
)  # fmt: skip
def test_what_is_done_today_for_a_day_to_come(told: str, day: str) -> None:
    """Behind "for", and where something gets done, a day lies ahead, though the sentence is about the past."""
    assert days_of(mentions(told, NOW, ZONE)[0])[0] == day


@given(st.one_of(st.text(), SALAD.map(" ".join), SALAD.map("".join)), st.floats(0, 4e9))
def test_nothing_raises(text: str, said_at: float) -> None:
    """Whatever stands in a text, its times are few and in order, its questions have an answer, and its flags fit one byte."""
    annotations = annotate(text, said_at)
    assert 0 <= annotations.flags < 256
    assert annotations.called.split(" ") == annotations.called.split() or annotations.called == ""
    assert all(begin <= end and 0 < sure <= 1 for begin, end, sure, _ in annotations.times)
    spans = times_in(text, NOW, ZONE)
    assert len(spans) <= MAX_RANGES
    assert all(math.isfinite(span.begin) and span.begin < span.end and 0 < span.sure <= 1 for span in spans)
    assert isinstance(asks_when(text), bool)
    assert tense_of(text).past in (True, False)
    assert period(text) == "other" or spans


@pytest.mark.parametrize(
    "now", [math.nan, math.inf, -math.inf, 0.0, 2**53, 1e20, -1e20, 1e308, 253402300799.0, -62135596800.0]
)
def test_silly_clocks(now: float) -> None:
    """A clock beyond every calendar gives no times, and no error."""
    annotations = annotate("I saw Ann yesterday at 5", now)
    assert annotations.flags == SAYS_I | COUNTS
    assert len(annotations.times) <= MOST_TIMES
    text = "yesterday, two years ago, last summer, in May, in 900 years, next year"
    assert all(span.begin < span.end for span in times_in(text, now, ZONE))


def test_long_text() -> None:
    """Of a very long text the end counts."""
    assert words("last may " + "x " * 50_000 + "yesterday") == "yesterday"


PAST = ("n't ", "did ", "a", "not ", "who xed", "ía ", "how did ", "what was ")
CALLS = ("hey ", "a'", "Ann ", ", ", ",  ", "Mr. ", "a.", "A b, ", "yes ", "\n", "’")


@pytest.mark.parametrize("piece", PAST + CALLS)
def test_endless_text_is_read_in_linear_time(piece: str) -> None:
    """A text of 100 kB that is made to trouble patterns is read at once, or the test never ends."""
    assert not tense_of(piece * 100_000 + "?").all
    assert annotate(piece * 100_000, NOW).flags < 256


def test_a_voice_that_nobody_knows_has_said_nothing_of_its_own() -> None:
    """Where nobody knows who asks, "I" names nobody, and all that may be read answers."""
    question = parse_query(read_question("What did I say yesterday?", NOW))
    assert question.period == PeriodQuestion()
    assert not question.people


@given(st.sampled_from(sorted(RANGES)), st.lists(DAYS_OF_CALENDAR, min_size=2, max_size=2, unique=True))
def test_the_ends_of_a_range_are_those_of_its_parts(between: str, days: list[date]) -> None:
    """From the begin of the earlier day to the end of the later one, in every language; the other way round is no time."""
    said = [day.strftime(RANGES[between]) for day in sorted(days)]
    (span,) = times_in(between.format(*said), NOW, ZONE)
    begin, end = (next(other for other in times_in(day, NOW, ZONE) if other.sure == 1) for day in said)
    assert (span.begin, span.end) == (begin.begin, end.end)
    assert all(other.end <= end.end for other in times_in(between.format(*said[::-1]), NOW, ZONE))


@given(st.integers(0, 10**9 - 1), st.integers(3, 999).filter(lambda number: number % 100))
def test_every_number_is_read(number: int, place: int) -> None:
    """Whatever whole number is said in words is the one in digits; first and second alone are words."""
    assert number_runs(cardinal(number)) == number_runs([str(number)]) == [[str(number)]]
    assert number_runs(ordinal(place)) == [[str(place)]]


@given(st.text(max_size=40), st.sampled_from(["en", "de", "es", "xx"]))
def test_any_text_is_taken(text: str, language: str) -> None:
    """Other scripts, their digits and signs are no fault."""
    assert all("".join(run).isdecimal() for run in runs_of(text, language))
