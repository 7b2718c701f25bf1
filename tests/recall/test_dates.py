"""Dates: the times that texts in five languages speak of, seen from a Wednesday in May 2024."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone

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


def likeliest(text: str) -> str:
    """Return the likeliest time of a text: a day, two days with .. between them, or nothing."""
    spans = times_in(text, NOW, ZONE)
    if not spans:
        return ""
    first, last = days_of(spans[0])
    return first if first == last else f"{first}..{last}"


ENGLISH = {
    "What did we do on 7 May 2023?": "2023-05-07",
    "Who came on May 7th, 2023": "2023-05-07",
    "it was delivered 2023-05-07T10:00": "2023-05-07",
    "I met her on the twenty third of april two thousand and twenty three": "2023-04-23",
    "the party in may nineteen ninety nine": "1999-05-01..1999-05-31",
    "What happened in June?": "2023-06-01..2023-06-30",
    "We will meet in June": "2024-06-01..2024-06-30",
    "where did we live in 2022": "2022-01-01..2022-12-31",
    "what did Anna say yesterday": "2024-05-14",
    "what did we say the day before yesterday": "2024-05-13",
    "did it ring last Tuesday": "2024-05-14",
    "We go to Bern next Friday": "2024-05-17",
    "What did I tell you on Monday?": "2024-05-13",
    "What is on Monday?": "2024-05-20",
    "Who called on Wednesday?": "2024-05-08",
    "Did Ben come on Friday the tenth": "2024-05-10",
    "we meet on Sunday in two weeks at three": "2024-05-26",
    "Where did I put it three days ago?": "2024-05-12",
    "who was here last month": "2024-04-01..2024-04-30",
    "what did we plan the week before last": "2024-04-29..2024-05-05",
    "what did we eat in the last three days": "2024-05-12..2024-05-15",
    "Friday next week at the dentist": "2024-05-24",
    "my appointment was moved to Thursday the fourteenth of March": "2024-03-14",
    "it was on Sunday the tenth of March": "2024-03-10",
    "seven may be too late, but on may 7 it is fine": "2025-05-07",
    "this morning I took my pill": "2024-05-15",
    "who has been here on Monday": "2024-05-13",
    "did anybody ring last summer": "2023-06-01..2023-08-31",
    "where were we at Christmas": "2023-12-25",
    "the presents of Christmas 2022": "2022-12-25",
    "were we in Rome at Easter 2024": "2024-03-31",
    "what did we do at the weekend": "2024-05-11..2024-05-12",
}
GERMAN = {
    "Was war am 3. Mai 2021?": "2021-05-03",
    "Was war am dritten März?": "2024-03-03",
    "Wer kam am dritten Maerz": "2024-03-03",
    "Wir fahren am 24.12.2024 nach Bern": "2024-12-24",
    "zweitausenddreiundzwanzig im Mai": "2023-05-01..2023-05-31",
    "Was haben wir letzten Dienstag gemacht?": "2024-05-14",
    "Was war vor zwei Wochen?": "2024-04-28..2024-05-04",
    "Wir treffen uns in drei Tagen": "2024-05-18",
    "Heute Morgen war Anna da": "2024-05-15",
    "Was machen wir morgen früh?": "2024-05-16",
    "Im Mai letzten Jahres war es kalt": "2023-05-01..2023-05-31",
    "übernächste Woche Freitag kommt Ben": "2024-05-31",
    "am Montagabend kommt Oma": "2024-05-20",
    "Wer war vorgestern hier?": "2024-05-13",
}
SPANISH = {
    "¿Qué pasó el 3 de marzo de 2022?": "2022-03-03",
    "¿Quién vino hace dos días?": "2024-05-13",
    "¿Qué dije el lunes pasado?": "2024-05-13",
    "el próximo viernes vamos a Berna": "2024-05-17",
    "mañana por la mañana viene Ana": "2024-05-16",
    "manana viene Ana": "2024-05-16",
    "vamos la semana que viene": "2024-05-20..2024-05-26",
    "¿Qué hicimos el verano pasado?": "2023-06-01..2023-08-31",
    "el viernes 10 vino Ana": "2024-05-10",
    "El sábado lavé el coche": "2024-05-11",
    "El sábado lavaré el coche": "2024-05-18",
    "anoche llovió": "2024-05-14..2024-05-15",
}
VIETNAMESE = {
    "Ngày 7 tháng 5 năm 2023 ai đến?": "2023-05-07",
    "ba ngày trước ai gọi": "2024-05-12",
    "năm ngày trước ai gọi": "2024-05-10",
    "Hôm qua tôi đã nói gì?": "2024-05-14",
    "hom qua toi da noi gi": "2024-05-14",
    "thứ sáu tuần trước": "2024-05-10",
    "thu sau tuan truoc": "2024-05-10",
    "thứ năm tuần sau chúng ta đi Hà Nội": "2024-05-23",
    "mùa hè năm ngoái": "2023-06-01..2023-08-31",
    "Tết năm ngoái": "2023-01-22",
    "tôi sẽ đi Đà Nẵng vào tháng 12": "2024-12-01..2024-12-31",
    "lịch khám dời sang thứ năm ngày mười bốn tháng ba": "2024-03-14",
    "hai tuần nữa": "2024-05-26..2024-06-01",
}
CHINESE = {
    "2023年5月7日谁来了": "2023-05-07",
    "二零二三年五月七日": "2023-05-07",
    "三天前谁来了": "2024-05-12",
    "上周五我说了什么": "2024-05-10",
    "上個星期五我說了什麼": "2024-05-10",
    "下个月去北京": "2024-06-01..2024-06-30",
    "昨天晚上谁来了": "2024-05-14",
    "去年夏天我们在哪": "2023-06-01..2023-08-31",
    "春节我们去了哪里": "2024-02-10",
    "7号谁来了": "2024-05-07",
    "12月25日谁来了": "2023-12-25",
    "2024年05月03日": "2024-05-03",
    "过去三天": "2024-05-12..2024-05-15",
}
NO_TIME = (
    "May I ask you something?",
    "March with me to the kitchen",
    "What did June say to April?",
    "the code of the gate is 2022",
    "what is 3 plus 4",
    "the server is 10.0.0.1",
    "books from the 1900s",
    "31 April 2024",
    "it is on the third floor",
    "im zweiten Stock",
    "The gardener comes every second Wednesday",
    "Die Papiertonne wird jeden Freitag geleert",
    "La pescadería cierra los lunes",
    "每个星期三他都来",
    "At my age one may sleep in",
    "I read three books in one week and lost two",
    "Guten Morgen, hast du gut geschlafen?",
    "bánh phô mai với anh đào",
    "Wo finde ich einen Schlüssel?",
    "他在楼上",
    "",
)


@pytest.mark.parametrize(
    ("text", "days"), [*{**ENGLISH, **GERMAN, **SPANISH, **VIETNAMESE, **CHINESE}.items()]
)
def test_the_time_of_a_text(text: str, days: str) -> None:
    """A text in any of the five languages, with or without accents, speaks of the days that people mean."""
    assert likeliest(text) == days


@pytest.mark.parametrize("text", NO_TIME)
def test_text_without_a_time(text: str) -> None:
    """Names, orders, codes and numbers tell no time."""
    assert times_in(text, NOW, ZONE) == ()


def test_two_readings() -> None:
    """Where nothing tells which Monday is meant there are two, and neither is sure; words for the past choose."""
    both = times_in("the Monday meeting", NOW, ZONE)
    assert {days_of(span)[0] for span in both} == {"2024-05-13", "2024-05-20"}
    assert all(span.sure == 0.5 for span in both)
    first, second = times_in("What was said on Monday?", NOW, ZONE)
    assert first.end < NOW < second.begin
    assert first.sure > second.sure


def test_a_question_that_tells_no_tense() -> None:
    """People ask a memory about what was; a statement that tells none leaves both open."""
    asked, other = times_in("who rings on Monday?", NOW, ZONE)
    assert asked.end < NOW < other.begin
    assert asked.sure > other.sure
    assert len({span.sure for span in times_in("he rings on Monday", NOW, ZONE)}) == 1


def test_the_future_is_told_by_a_form() -> None:
    """A Spanish verb tells by its ending that the Saturday to come is meant."""
    first, second = times_in("El sábado lavaré el coche", NOW, ZONE)
    assert first.begin > NOW > second.begin
    assert first.sure > second.sure


def test_next_friday_may_be_that_of_next_week() -> None:
    """Said on a Wednesday, next Friday is in two days or, for some, in nine; in Chinese only the latter."""
    assert [days_of(span)[0] for span in times_in("next Friday", NOW, ZONE)] == ["2024-05-17", "2024-05-24"]
    assert [days_of(span)[0] for span in times_in("下周五", NOW, ZONE)] == ["2024-05-24"]


def test_figures_in_either_order() -> None:
    """5/7/2023 is in May or in July, 13/7/2023 only in July."""
    assert {days_of(span)[0] for span in times_in("on 5/7/2023", NOW, ZONE)} == {"2023-05-07", "2023-07-05"}
    assert [days_of(span)[0] for span in times_in("on 13/7/2023", NOW, ZONE)] == ["2023-07-13"]


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
    (there,) = times_in("today", late, timezone(timedelta(hours=9)))
    assert here.holds(late)
    assert there.holds(late)
    assert there.begin - here.begin == 15 * 3600


def test_mentions_take_one_reading() -> None:
    """For the index a statement's plan lies ahead, once, where the words leave both open."""
    (plan,) = mentions("Anna is coming on Monday", NOW, ZONE)
    assert days_of(plan)[0] == "2024-05-20"


@pytest.mark.parametrize(
    "text",
    [
        "When did Ben call?",
        "do you know when the bus leaves",
        "and when?",
        "what day is the meeting",
        "how long ago was that",
        "Wann fährt Ben nach Bern?",
        "Wie lange ist es her, dass wir in Bern waren?",
        "¿Cuándo es la fiesta?",
        "cuando es la fiesta",
        "Khi nào chúng ta đi?",
        "khi nao chung ta di",
        "你什么时候回家",
        "妈妈哪天来",
    ],
)
def test_questions_for_a_time(text: str) -> None:
    """Questions for a time are told in each language."""
    assert asks_when(text)


@pytest.mark.parametrize(
    "text",
    [
        "When I come home, turn on the light",
        "What did I say when Ben called?",
        "cuando llego a casa enciende la luz",
        "wenn ich komme, mach das Licht an",
        "Who was here yesterday?",
        "",
    ],
)
def test_other_questions(text: str) -> None:
    """A "when" that binds two sentences asks for nothing."""
    assert not asks_when(text)


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
