"""Date ranges: from when to when, since when and until when, in five languages, seen from a Wednesday in May 2024."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.dates.phrases import Span, mentions, times_in

ZONE = timezone(timedelta(hours=2))
NOW = datetime(2024, 5, 15, 14, tzinfo=ZONE).timestamp()
EVER = ""


def days_of(span: Span) -> str:
    """Return the first and the last day of a span, with .. between them; nothing for the first where it has no begin."""
    first, last = (datetime.fromtimestamp(at, ZONE).strftime("%Y-%m-%d") for at in (span.begin, span.end - 1))
    return f"{EVER if span.begin == 0 else first}..{last}"


SPANS = {
    "What happened between Monday and Wednesday?": "2024-05-13..2024-05-15",
    "what happened between Wednesday and Friday": "2024-05-08..2024-05-10",
    "What do we have to do between Wednesday and Friday": "2024-05-22..2024-05-24",
    "what did I say from Monday to Wednesday last week": "2024-05-06..2024-05-08",
    "what did we do Monday through Wednesday": "2024-05-13..2024-05-15",
    "what was going on between March and May 2023?": "2023-03-01..2023-05-31",
    "What happened between November and March?": "2023-11-01..2024-03-31",
    "what did we do between the 3rd and the 5th of May": "2024-05-03..2024-05-05",
    "what did we do from May 3 to 5": "2024-05-03..2024-05-05",
    "what did we do from 3 May to 5 June 2023": "2023-05-03..2023-06-05",
    "where were we from 2019 to 2021?": "2019-01-01..2021-12-31",
    "what did you hear from yesterday until today": "2024-05-14..2024-05-15",
    "what happened from Monday to yesterday": "2024-05-13..2024-05-14",
    "between Monday and the 10th of May what happened": "2024-05-06..2024-05-10",
    "What has happened since Monday?": "2024-05-13..2024-05-15",
    "what have I told you since last Monday": "2024-05-13..2024-05-15",
    "what did we do after Easter": "2024-04-01..2024-05-15",
    "what did I say before Christmas": f"{EVER}..2023-12-24",
    "what did we say until Friday": f"{EVER}..2024-05-10",
    "what do we have to do until Friday": "2024-05-15..2024-05-17",
    "Was war zwischen Montag und Mittwoch?": "2024-05-13..2024-05-15",
    "Was haben wir von Montag bis Mittwoch letzter Woche gemacht?": "2024-05-06..2024-05-08",
    "was war vom 3. bis 5. Mai?": "2024-05-03..2024-05-05",
    "was war zwischen Montag und dem 10. Mai": "2024-05-06..2024-05-10",
    "was war zwischen Weihnachten und Neujahr?": "2023-12-25..2024-01-01",
    "Was ist seit Montag passiert?": "2024-05-13..2024-05-15",
    "was war vor Weihnachten?": f"{EVER}..2023-12-24",
    "was war nach Ostern?": "2024-04-01..2024-05-15",
    "¿Qué pasó entre el lunes y el miércoles?": "2024-05-13..2024-05-15",
    "¿Qué hicimos de lunes a miércoles?": "2024-05-13..2024-05-15",
    "que hicimos del 3 al 5 de mayo": "2024-05-03..2024-05-05",
    "¿Qué dije desde el lunes?": "2024-05-13..2024-05-15",
    "¿Qué pasó antes de Navidad?": f"{EVER}..2023-12-24",
    "Chuyện gì đã xảy ra từ thứ hai đến thứ tư?": "2024-05-13..2024-05-15",
    "tu thu hai den thu tu da co gi": "2024-05-13..2024-05-15",
    "giữa thứ hai và thứ tư tôi đã nói gì": "2024-05-13..2024-05-15",
    "từ thứ hai tuần trước tôi đã nói gì": "2024-05-06..2024-05-15",
    "从周一到周三发生了什么?": "2024-05-13..2024-05-15",
    "周一到周三之间发生了什么": "2024-05-13..2024-05-15",
    "周一和周三之间我说了什么": "2024-05-13..2024-05-15",
    "5月3日到5日发生了什么": "2024-05-03..2024-05-05",
    "星期一以来发生了什么": "2024-05-13..2024-05-15",
    "春节之后发生了什么": "2024-02-11..2024-05-15",
    "周五之前我说了什么": f"{EVER}..2024-05-09",
}


@pytest.mark.parametrize(("text", "days"), SPANS.items())
def test_a_range_is_one_time(text: str, days: str) -> None:
    """Who asks from when to when, since when or until when, asks for one time."""
    spans = times_in(text, NOW, ZONE)
    assert len({span.text for span in spans}) == 1
    assert days_of(spans[0]) == days


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("we moved the meeting from Monday to Wednesday", ["Monday", "Wednesday"]),
        ("what was on Monday and on Wednesday", ["Monday", "Wednesday"]),
        ("what did Anna say after Monday's meeting", ["Monday's"]),
        ("what did we do the day before Christmas", ["Christmas"]),
        ("from 9 to 5 on Monday", ["Monday"]),
        ("Der Termin wurde von Montag auf Mittwoch verschoben", ["Montag", "Mittwoch"]),
        ("between you and me, yesterday was bad and today is good", ["yesterday", "today"]),
        ("what did June say to April", []),
        ("what happened between three and five", []),
    ],
)
def test_what_is_no_range(text: str, said: list[str]) -> None:
    """What is moved from one day to another lies on two days; a day beside something else is one day."""
    assert list(dict.fromkeys(span.text for span in times_in(text, NOW, ZONE))) == said


def test_a_statement_speaks_of_both_ends_and_of_all_between() -> None:
    """Who will be away from Monday to Friday is found by each of both days, and by Wednesday; "since Monday" is Monday."""
    told = mentions("We are in Rome from Monday to Friday", NOW, ZONE)
    assert {days_of(each) for each in told} >= {"2024-05-20..2024-05-20", "2024-05-20..2024-05-24"}
    assert len(told) == 3
    assert [days_of(each) for each in mentions("He has been ill since Monday", NOW, ZONE)] == [
        "2024-05-13..2024-05-13"
    ]


WORDS = {
    "between {} and {}": "%d %B %Y",
    "from {} to {}": "%B %d, %Y",
    "zwischen {} und {}": "%d.%m.%Y",
    "von {} bis {}": "%d.%m.%Y",
    "entre {} y {}": "%Y-%m-%d",
    "desde {} hasta {}": "%Y-%m-%d",
    "từ {} đến {}": "ngày %d tháng %m năm %Y",
    "从{}到{}": "%Y年%m月%d日",
}
DAYS = st.dates(date(2001, 1, 1), date(2023, 12, 31))


@given(st.sampled_from(sorted(WORDS)), DAYS, DAYS)
def test_the_ends_of_a_range_are_those_of_its_parts(words: str, one: date, other: date) -> None:
    """From the begin of the earlier day to the end of the later one, in every language; the other way round is no time."""
    if one == other:
        return
    first, last = sorted((one, other))
    said = [day.strftime(WORDS[words]) for day in (first, last)]
    (span,) = times_in(words.format(*said), NOW, ZONE)
    begin, end = (next(each for each in times_in(day, NOW, ZONE) if each.sure == 1) for day in said)
    assert (span.begin, span.end) == (begin.begin, end.end)
    assert all(each.end <= end.end for each in times_in(words.format(*said[::-1]), NOW, ZONE))


WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6))
def test_a_range_of_weekdays(first: int, last: int, today: int) -> None:
    """What was between two weekdays lies within eight days, begins and ends with them, and has begun."""
    now = NOW + today * 86400.0
    span = times_in(f"what happened between {WEEKDAYS[first]} and {WEEKDAYS[last]}", now, ZONE)[0]
    begin, end = (datetime.fromtimestamp(at, ZONE) for at in (span.begin, span.end - 1))
    assert (begin.weekday(), end.weekday()) == (first, last)
    assert timedelta(1) < end - begin < timedelta(8)
    assert span.begin < now
    assert span.end - 86400.0 <= now


@given(st.sampled_from(WEEKDAYS), st.integers(0, 6))
def test_since_a_day_lasts_until_now(day: str, today: int) -> None:
    """What was since a day holds the moment of the question, and begins with that day."""
    now = NOW + today * 86400.0
    (span,) = times_in(f"what happened since {day}", now, ZONE)
    (then,) = [each for each in times_in(f"what happened on {day}", now, ZONE) if each.begin < now]
    assert span.holds(now)
    assert span.begin == then.begin
