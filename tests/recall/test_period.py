"""Time alone: which questions name a time and little else, and whose words and deeds they ask for."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.dates.phrases import times_in
from edgemem.recall.dates.questions import TimeAlone
from edgemem.recall.query import parse_query

ZONE = timezone(timedelta(hours=2))
NOW = datetime(2024, 5, 15, 14, tzinfo=ZONE).timestamp()


def asked(text: str) -> TimeAlone | None:
    """Return what Ben asks for, who lives with Anna."""
    named = [name for name in ("Anna",) if name in text]
    return parse_query(text, NOW).resolved(people=named, reader="ben").alone


ALONE = {
    "anyone": """
What happened yesterday? | What did we do last weekend? | What happened between Monday and Wednesday? |
what was going on in March? | did anything happen while I was away on Friday? |
can you tell me what happened on Tuesday | what's been going on since Friday | Did I miss anything yesterday? |
do you remember yesterday? | hey robot, what's happened since I left on Friday | give me a summary of yesterday |
tell me about yesterday | tell me more about last weekend | and last Monday? | Was war gestern? |
erzähl mir von gestern | Was haben wir letztes Wochenende gemacht? | Was war zwischen Montag und Mittwoch los? |
Ist am Freitag etwas passiert, als ich weg war? | ¿Qué pasó ayer? | ¿Qué hicimos el fin de semana pasado? |
cuéntame de ayer | Hôm qua có chuyện gì? | hom qua co chuyen gi xay ra | Cuối tuần trước chúng ta đã làm gì? |
昨天发生了什么? | 上周末我们做了什么? | 周一到周三发生了什么事?
""",
    "anyone, words": """
what did we talk about last week? | Worüber haben wir gestern gesprochen? | ¿De qué hablamos ayer?
""",
    "asker": """
What did I do yesterday? | Was habe ich gestern gemacht? | ¿Qué hice ayer? | 昨天我做了什么
""",
    "asker, words": """
What did I tell you this morning? | what did I say on Monday? | do you remember what I said last night? |
Was habe ich heute Morgen gesagt? | ¿Qué te dije esta mañana? | Sáng nay tôi đã nói gì? | 今天早上我跟你说了什么?
""",
    "named": """
What did Anna do yesterday? | what happened to Anna on Monday?
""",
    "named, words": """
what did Anna say yesterday? | Was hat Anna gestern gesagt? | ¿Qué dijo Anna ayer? | 昨天Anna说了什么
""",
    "robot": """
what did you do yesterday?
""",
    "robot, words": """
what did you tell me this morning? | Was hast du mir gestern gesagt? | ¿Qué me dijiste ayer?
""",
}
OTHER = """
What did we decide yesterday about the garden? | what did I do with the key yesterday? |
what did Ben cook yesterday? | when did we talk yesterday? | what did I ask you yesterday? |
what did Anna tell Ben yesterday? | What are you doing today? | What can we do tomorrow? | What a day yesterday was |
What day is it today? | what is today? | I said so yesterday | how are you this morning? | see you tomorrow |
tell me tomorrow | Was machst du heute? | Was gibt es heute Abend zu essen? | ¿Qué haces hoy? | Hôm nay ăn gì? |
今天吃什么? | 今天几号? | What happened?
"""


def lines(table: str) -> list[str]:
    """Return the sentences of a table."""
    return [sentence for sentence in map(str.strip, table.split("|")) if sentence]


@pytest.mark.parametrize("of", ALONE)
def test_a_question_of_a_time_alone(of: str) -> None:
    """In five languages: of whom, and whether of words alone."""
    whose = {text: asked(text) for text in lines(ALONE[of])}
    shown_text = {
        text: alone and (f"{alone.of}, words" if alone.words else alone.of) for text, alone in whose.items()
    }
    assert shown_text == dict.fromkeys(whose, of)


def test_other_questions() -> None:
    """Whoever orders, greets or states something, or names no time, asks otherwise; so does who names what the memory knows.

    Of two words it is not asked whether it knows them. Whom nobody here is called, as Ben, is looked for.
    """
    asked_for = {text: asked(text) for text in ("", *lines(OTHER))}
    assert [text for text, alone in asked_for.items() if alone is not None and not alone.left] == []


def test_a_voice_that_nobody_knows_has_said_nothing_of_its_own() -> None:
    """Where nobody knows who asks, "I" names nobody, and all that may be read answers."""
    question = parse_query("What did I say yesterday?", NOW).resolved()
    assert question.alone == TimeAlone("anyone", words=True)


@pytest.mark.parametrize(
    ("talk", "text"),
    [
        ("first", "what was our first conversation about?"),
        ("first", "Was haben wir bei unserem ersten Gespräch gesagt?"),
        ("last", "¿De qué hablamos la última vez?"),
        ("last", "Lần trước chúng ta nói chuyện gì?"),
        ("first", "我们第一次聊了什么?"),
    ],
)
def test_a_conversation_is_a_time(talk: str, text: str) -> None:
    """The first and the last one are asked for in all five languages; what was first is something else."""
    hits = asked(text)
    assert hits is not None
    assert (hits.talk, hits.words) == (talk, True)
    assert asked("what was the first door code?") is None
    assert asked("who was here last?") is None


@given(
    st.one_of(
        st.text(),
        st.lists(st.sampled_from(["what", "did", "yesterday", "Anna", "我", "?", "(", "["])).map(" ".join),
    )
)
def test_any_text(text: str) -> None:
    """Whatever is said, it either asks so or does not."""
    assert asked(text) is None or times_in(text, NOW, ZONE)
