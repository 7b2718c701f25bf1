"""Dates: the times that texts in five languages speak of, seen from a Wednesday in May 2024."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.dates.phrases import MAX_SPANS, Span, asks_when, mentions, times_in

ZONE = timezone(timedelta(hours=2))
NOW = datetime(2024, 5, 15, 14, tzinfo=ZONE).timestamp()


def days_of(span: Span) -> tuple[str, str]:
    """Return the first day of a span, and the last."""
    first, last = (datetime.fromtimestamp(at, ZONE) for at in (span.begin, span.end - 1))
    return first.strftime("%Y-%m-%d"), last.strftime("%Y-%m-%d")


def both_days(span: Span) -> str:
    """Return the first and the last day of a span, with .. between them; nothing for the first where it has no begin."""
    first, last = days_of(span)
    return f"{'' if span.begin == 0 else first}..{last}"


def likeliest(text: str) -> str:
    """Return the likeliest time of a text: a day, two days with .. between them, or nothing."""
    spans = times_in(text, NOW, ZONE)
    if not spans:
        return ""
    first, last = days_of(spans[0])
    return first if first == last else f"{first}..{last}"


SPANS = """
What did we do on 7 May 2023? = 2023-05-07 | Who came on May 7th, 2023 = 2023-05-07 |
it was delivered 2023-05-07T10:00 = 2023-05-07 |
I met her on the twenty third of april two thousand and twenty three = 2023-04-23 |
the party in may nineteen ninety nine = 1999-05-01..1999-05-31 | What happened in June? = 2023-06-01..2023-06-30 |
We will meet in June = 2024-06-01..2024-06-30 | where did we live in 2022 = 2022-01-01..2022-12-31 |
what did Anna say yesterday = 2024-05-14 | what did we say the day before yesterday = 2024-05-13 |
did it ring last Tuesday = 2024-05-14 | We go to Bern next Friday = 2024-05-17 |
What did I tell you on Monday? = 2024-05-13 | What is on Monday? = 2024-05-20 |
Who called on Wednesday? = 2024-05-08 | Did Ben come on Friday the tenth = 2024-05-10 |
we meet on Sunday in two weeks at three = 2024-05-26 | Where did I put it three days ago? = 2024-05-12 |
who was here last month = 2024-04-01..2024-04-30 | what did we plan the week before last = 2024-04-29..2024-05-05 |
what did we eat in the last three days = 2024-05-12..2024-05-15 | Friday next week at the dentist = 2024-05-24 |
my appointment was moved to Thursday the fourteenth of March = 2024-03-14 |
it was on Sunday the tenth of March = 2024-03-10 | seven may be too late, but on may 7 it is fine = 2025-05-07 |
this morning I took my pill = 2024-05-15 | who has been here on Monday = 2024-05-13 |
did anybody ring last summer = 2023-06-01..2023-08-31 | where were we at Christmas = 2023-12-25 |
the presents of Christmas 2022 = 2022-12-25 | were we in Rome at Easter 2024 = 2024-03-31 |
what did we do at the weekend = 2024-05-11..2024-05-12 | Was war am 3. Mai 2021? = 2021-05-03 |
Was war am dritten März? = 2024-03-03 | Wer kam am dritten Maerz = 2024-03-03 |
Wir fahren am 24.12.2024 nach Bern = 2024-12-24 | zweitausenddreiundzwanzig im Mai = 2023-05-01..2023-05-31 |
Was haben wir letzten Dienstag gemacht? = 2024-05-14 | Was war vor zwei Wochen? = 2024-04-28..2024-05-04 |
Wir treffen uns in drei Tagen = 2024-05-18 | Heute Morgen war Anna da = 2024-05-15 |
Was machen wir morgen früh? = 2024-05-16 | Im Mai letzten Jahres war es kalt = 2023-05-01..2023-05-31 |
übernächste Woche Freitag kommt Ben = 2024-05-31 | am Montagabend kommt Oma = 2024-05-20 |
Wer war vorgestern hier? = 2024-05-13 | ¿Qué pasó el 3 de marzo de 2022? = 2022-03-03 |
¿Quién vino hace dos días? = 2024-05-13 | ¿Qué dije el lunes pasado? = 2024-05-13 |
el próximo viernes vamos a Berna = 2024-05-17 | mañana por la mañana viene Ana = 2024-05-16 |
manana viene Ana = 2024-05-16 | vamos la semana que viene = 2024-05-20..2024-05-26 |
¿Qué hicimos el verano pasado? = 2023-06-01..2023-08-31 | el viernes 10 vino Ana = 2024-05-10 |
El sábado lavé el coche = 2024-05-11 | El sábado lavaré el coche = 2024-05-18 |
anoche llovió = 2024-05-14..2024-05-15 | Ngày 7 tháng 5 năm 2023 ai đến? = 2023-05-07 |
ba ngày trước ai gọi = 2024-05-12 | năm ngày trước ai gọi = 2024-05-10 | Hôm qua tôi đã nói gì? = 2024-05-14 |
hom qua toi da noi gi = 2024-05-14 | thứ sáu tuần trước = 2024-05-10 | thu sau tuan truoc = 2024-05-10 |
thứ năm tuần sau chúng ta đi Hà Nội = 2024-05-23 | mùa hè năm ngoái = 2023-06-01..2023-08-31 |
Tết năm ngoái = 2023-01-22 | tôi sẽ đi Đà Nẵng vào tháng 12 = 2024-12-01..2024-12-31 |
lịch khám dời sang thứ năm ngày mười bốn tháng ba = 2024-03-14 | hai tuần nữa = 2024-05-26..2024-06-01 |
2023年5月7日谁来了 = 2023-05-07 | 二零二三年五月七日 = 2023-05-07 | 三天前谁来了 = 2024-05-12 | 上周五我说了什么 = 2024-05-10 |
上個星期五我說了什麼 = 2024-05-10 | 下个月去北京 = 2024-06-01..2024-06-30 | 昨天晚上谁来了 = 2024-05-14 | 去年夏天我们在哪 = 2023-06-01..2023-08-31 |
春节我们去了哪里 = 2024-02-10 | 7号谁来了 = 2024-05-07 | 12月25日谁来了 = 2023-12-25 | 2024年05月03日 = 2024-05-03 |
过去三天 = 2024-05-12..2024-05-15
"""
RANGES_ASKED = """
What happened between Monday and Wednesday? = 2024-05-13..2024-05-15 |
what happened between Wednesday and Friday = 2024-05-08..2024-05-10 |
What do we have to do between Wednesday and Friday = 2024-05-22..2024-05-24 |
what did I say from Monday to Wednesday last week = 2024-05-06..2024-05-08 |
what did we do Monday through Wednesday = 2024-05-13..2024-05-15 |
what was going on between March and May 2023? = 2023-03-01..2023-05-31 |
What happened between November and March? = 2023-11-01..2024-03-31 |
what did we do between the 3rd and the 5th of May = 2024-05-03..2024-05-05 |
what did we do from May 3 to 5 = 2024-05-03..2024-05-05 |
what did we do from 3 May to 5 June 2023 = 2023-05-03..2023-06-05 |
where were we from 2019 to 2021? = 2019-01-01..2021-12-31 |
what did you hear from yesterday until today = 2024-05-14..2024-05-15 |
what happened from Monday to yesterday = 2024-05-13..2024-05-14 |
between Monday and the 10th of May what happened = 2024-05-06..2024-05-10 |
What has happened since Monday? = 2024-05-13..2024-05-15 |
what have I told you since last Monday = 2024-05-13..2024-05-15 |
what did we do after Easter = 2024-04-01..2024-05-15 | what did I say before Christmas = ..2023-12-24 |
what did we say until Friday = ..2024-05-10 | what do we have to do until Friday = 2024-05-15..2024-05-17 |
Was war zwischen Montag und Mittwoch? = 2024-05-13..2024-05-15 |
Was haben wir von Montag bis Mittwoch letzter Woche gemacht? = 2024-05-06..2024-05-08 |
was war vom 3. bis 5. Mai? = 2024-05-03..2024-05-05 |
was war zwischen Montag und dem 10. Mai = 2024-05-06..2024-05-10 |
was war zwischen Weihnachten und Neujahr? = 2023-12-25..2024-01-01 |
Was ist seit Montag passiert? = 2024-05-13..2024-05-15 | was war vor Weihnachten? = ..2023-12-24 |
was war nach Ostern? = 2024-04-01..2024-05-15 | ¿Qué pasó entre el lunes y el miércoles? = 2024-05-13..2024-05-15 |
¿Qué hicimos de lunes a miércoles? = 2024-05-13..2024-05-15 |
que hicimos del 3 al 5 de mayo = 2024-05-03..2024-05-05 | ¿Qué dije desde el lunes? = 2024-05-13..2024-05-15 |
¿Qué pasó antes de Navidad? = ..2023-12-24 | Chuyện gì đã xảy ra từ thứ hai đến thứ tư? = 2024-05-13..2024-05-15 |
tu thu hai den thu tu da co gi = 2024-05-13..2024-05-15 |
giữa thứ hai và thứ tư tôi đã nói gì = 2024-05-13..2024-05-15 |
từ thứ hai tuần trước tôi đã nói gì = 2024-05-06..2024-05-15 | 从周一到周三发生了什么? = 2024-05-13..2024-05-15 |
周一到周三之间发生了什么 = 2024-05-13..2024-05-15 | 周一和周三之间我说了什么 = 2024-05-13..2024-05-15 |
5月3日到5日发生了什么 = 2024-05-03..2024-05-05 | 星期一以来发生了什么 = 2024-05-13..2024-05-15 | 春节之后发生了什么 = 2024-02-11..2024-05-15 |
周五之前我说了什么 = ..2024-05-09
"""
NO_TIME = """
May I ask you something? | March with me to the kitchen | What did June say to April? | the code of the gate is 2022 |
what is 3 plus 4 | the server is 10.0.0.1 | books from the 1900s | 31 April 2024 | it is on the third floor |
im zweiten Stock | The gardener comes every second Wednesday | Die Papiertonne wird jeden Freitag geleert |
La pescadería cierra los lunes | 每个星期三他都来 | At my age one may sleep in | I read three books in one week and lost two |
Guten Morgen, hast du gut geschlafen? | bánh phô mai với anh đào | Wo finde ich einen Schlüssel? | 他在楼上
"""
ASKS_WHEN = """
When did Ben call? | do you know when the bus leaves | and when? | what day is the meeting | how long ago was that |
Wann fährt Ben nach Bern? | Wie lange ist es her, dass wir in Bern waren? | ¿Cuándo es la fiesta? |
cuando es la fiesta | Khi nào chúng ta đi? | khi nao chung ta di | 你什么时候回家 | 妈妈哪天来
"""
ASKS_NOT_WHEN = """
When I come home, turn on the light | What did I say when Ben called? | cuando llego a casa enciende la luz |
wenn ich komme, mach das Licht an | Who was here yesterday?
"""


def lines(table: str) -> list[str]:
    """Return the sentences of a table."""
    return [sentence for sentence in map(str.strip, table.split("|")) if sentence]


def test_the_time_of_a_text() -> None:
    """A text in any of the five languages, with or without accents, speaks of the days that people mean."""
    meant = dict(line.split(" = ") for line in lines(SPANS))
    assert {text: likeliest(text) for text in meant} == meant


def test_text_without_a_time() -> None:
    """Names, orders, codes and numbers tell no time."""
    assert [text for text in ("", *lines(NO_TIME)) if times_in(text, NOW, ZONE)] == []


def test_a_range_is_one_time() -> None:
    """Who asks from when to when, since when or until when, asks for one time."""
    meant = dict(line.split(" = ") for line in lines(RANGES_ASKED))
    spans = {text: times_in(text, NOW, ZONE) for text in meant}
    assert [text for text, readings in spans.items() if len({span.text for span in readings}) != 1] == []
    assert {text: both_days(readings[0]) for text, readings in spans.items()} == meant


READINGS = """
the Monday meeting = 2024-05-20 .5, 2024-05-13 .5 | What was said on Monday? = 2024-05-13 .7, 2024-05-20 .3 |
who rings on Monday? = 2024-05-13 .7, 2024-05-20 .3 | he rings on Monday = 2024-05-20 .5, 2024-05-13 .5 |
El sábado lavaré el coche = 2024-05-18 .7, 2024-05-11 .3 | next Friday = 2024-05-17 .7, 2024-05-24 .5 | 下周五 = 2024-05-24 1 |
on 5/7/2023 = 2023-07-05 .5, 2023-05-07 .5 | on 13/7/2023 = 2023-07-13 1
"""


def test_several_readings() -> None:
    """Where nothing tells which day is meant there are two, and neither is sure; tense, and that people ask for what was, chooses."""
    for text, readings in (line.split(" = ") for line in lines(READINGS)):
        spans = times_in(text, NOW, ZONE)
        meant = [reading.split() for reading in readings.split(", ")]
        assert [days_of(span)[0] for span in spans] == [day for day, _ in meant], text
        assert [span.sure for span in spans] == [float(sure) for _, sure in meant], text


def test_part_of_a_day() -> None:
    """Last night began on the evening before today and went into today; this morning is over by noon."""
    (night,) = times_in("who rang last night", NOW, ZONE)
    midnight = datetime(2024, 5, 15, tzinfo=ZONE).timestamp()
    assert night.holds(midnight - 60)
    assert night.holds(midnight + 3600)
    (morning,) = times_in("this morning", NOW, ZONE)
    assert morning.holds(midnight + 8 * 3600)
    assert not morning.holds(midnight + 13 * 3600)


def test_words_that_say_it() -> None:
    """A span carries the words that say it, and spans come in the order of the text."""
    spans = times_in("Yesterday we planned it for 7 May 2025, at home.", NOW, ZONE)
    assert [span.text for span in spans] == ["Yesterday", "7 May 2025"]


def test_the_zone_makes_the_day() -> None:
    """Late in the evening in one place it is tomorrow already in another."""
    late = datetime(2024, 5, 15, 23, 30, tzinfo=timezone.utc).timestamp()
    (here,) = times_in("today", late, timezone.utc)
    (beside,) = times_in("today", late, timezone(timedelta(hours=9)))
    assert here.holds(late)
    assert beside.holds(late)
    assert beside.begin - here.begin == 15 * 3600


def test_mentions_take_one_reading() -> None:
    """For the index a statement's plan lies ahead, once, where the words leave both open."""
    (plan,) = mentions("Anna is coming on Monday", NOW, ZONE)
    assert days_of(plan)[0] == "2024-05-20"


def test_questions_for_a_time() -> None:
    """They are told in each language; a "when" that binds two sentences asks for nothing."""
    assert [text for text in lines(ASKS_WHEN) if not asks_when(text)] == []
    assert [text for text in ("", *lines(ASKS_NOT_WHEN)) if asks_when(text)] == []


WORDS = st.sampled_from(
    [
        "last",
        "next",
        "the",
        "in",
        "of",
        "on",
        "monday",
        "may",
        "3",
        "三",
        "天",
        "前",
        "月",
        "上",
        "下",
        "周",
        "年",
        "日",
        "ago",
        "two",
        "thousand",
        "twenty",
        ",",
        ".",
        "tháng",
        "năm",
        "ngày",
        "trước",
        "vor",
        "hace",
        "semana",
        "que",
        "viene",
        "first",
        "3rd",
        "31",
        "9999",
        "99999",
        "2023",
        "5/7/2023",
        "2023-13-40",
        "30.2.2023",
        "morgen",
        "heute",
        "mañana",
        "́",
        "weeks",
    ]
)


@given(
    st.one_of(
        st.text(), st.lists(WORDS, max_size=40).map(" ".join), st.lists(WORDS, max_size=40).map("".join)
    )
)
def test_nothing_raises(text: str) -> None:
    """Whatever stands in a text, its times are few, in order, and numbers."""
    spans = times_in(text, NOW, ZONE)
    assert len(spans) <= MAX_SPANS
    assert all(math.isfinite(span.begin) and span.begin < span.end and 0 < span.sure <= 1 for span in spans)
    assert isinstance(asks_when(text), bool)


@pytest.mark.parametrize("now", [math.nan, math.inf, -math.inf, 1e20, -1e20, 253402300799.0, -62135596800.0])
def test_silly_clocks(now: float) -> None:
    """A clock beyond every calendar gives no times, and no error."""
    for span in times_in(
        "yesterday, two years ago, last summer, at Easter, in 900 years, next year", now, ZONE
    ):
        assert span.begin < span.end


def test_long_text() -> None:
    """Of a very long text the end counts."""
    assert [span.text for span in times_in("last may " + "x " * 50_000 + "yesterday", NOW, ZONE)] == [
        "yesterday"
    ]


# Ranges


@pytest.mark.parametrize(
    ("text", "spoken"),
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
def test_what_is_no_range(text: str, spoken: list[str]) -> None:
    """What is moved from one day to another lies on two days; a day beside something else is one day."""
    assert list(dict.fromkeys(span.text for span in times_in(text, NOW, ZONE))) == spoken


def test_a_statement_speaks_of_both_ends_and_of_all_between() -> None:
    """Who will be away from Monday to Friday is found by each of both days, and by Wednesday; "since Monday" is Monday."""
    stated = mentions("We are in Rome from Monday to Friday", NOW, ZONE)
    assert {both_days(member) for member in stated} >= {"2024-05-20..2024-05-20", "2024-05-20..2024-05-24"}
    assert len(stated) == 3
    assert [both_days(member) for member in mentions("He has been ill since Monday", NOW, ZONE)] == [
        "2024-05-13..2024-05-13"
    ]


RANGES = {
    "between {} and {}": "%d %B %Y",
    "from {} to {}": "%B %d, %Y",
    "zwischen {} und {}": "%d.%m.%Y",
    "von {} bis {}": "%d.%m.%Y",
    "entre {} y {}": "%Y-%m-%d",
    "desde {} hasta {}": "%Y-%m-%d",
    "từ {} đến {}": "ngày %d tháng %m năm %Y",
    "从{}到{}": "%Y年%m月%d日",
}
DAYS_OF_CALENDAR = st.dates(date(2001, 1, 1), date(2023, 12, 31))


@given(st.sampled_from(sorted(RANGES)), DAYS_OF_CALENDAR, DAYS_OF_CALENDAR)
def test_the_ends_of_a_range_are_those_of_its_parts(words: str, entry: date, other: date) -> None:
    """From the begin of the earlier day to the end of the later one, in every language; the other way round is no time."""
    if entry == other:
        return
    first, last = sorted((entry, other))
    spoken = [day.strftime(RANGES[words]) for day in (first, last)]
    (span,) = times_in(words.format(*spoken), NOW, ZONE)
    begin, end = (next(member for member in times_in(day, NOW, ZONE) if member.sure == 1) for day in spoken)
    assert (span.begin, span.end) == (begin.begin, end.end)
    assert all(member.end <= end.end for member in times_in(words.format(*spoken[::-1]), NOW, ZONE))


WEEKDAYS_OF_CALENDAR = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6))
def test_a_range_of_weekdays(first: int, last: int, today: int) -> None:
    """What was between two weekdays lies within eight days, begins and ends with them, and has begun."""
    now = NOW + today * 86400.0
    span = times_in(
        f"what happened between {WEEKDAYS_OF_CALENDAR[first]} and {WEEKDAYS_OF_CALENDAR[last]}", now, ZONE
    )[0]
    begin, end = (datetime.fromtimestamp(at, ZONE) for at in (span.begin, span.end - 1))
    assert (begin.weekday(), end.weekday()) == (first, last)
    assert timedelta(1) < end - begin < timedelta(8)
    assert span.begin < now
    assert span.end - 86400.0 <= now


@given(st.sampled_from(WEEKDAYS_OF_CALENDAR), st.integers(0, 6))
def test_since_a_day_lasts_until_now(day: str, today: int) -> None:
    """What was since a day holds the moment of the question, and begins with that day."""
    now = NOW + today * 86400.0
    (span,) = times_in(f"what happened since {day}", now, ZONE)
    (then,) = [member for member in times_in(f"what happened on {day}", now, ZONE) if member.begin < now]
    assert span.holds(now)
    assert span.begin == then.begin
