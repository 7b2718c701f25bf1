"""Tense: who asks for what was, for what was first and for all that was, in five languages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.dates.questions import tense_of

PAST = """
What did Mara drink before? | where did the ladder use to be | Where did Oleg used to live? |
What was the old code of the safe? | Who was our previous dentist? | What does Mara not drink any more? |
what doesn't she eat anymore | What did we call the cat in the beginning? | Was hat Mara früher getrunken? |
Wo war die Leiter vorher? | Wie lautete die alte Nummer? | Was isst Jo nicht mehr? | ¿Qué bebía Mara antes? |
¿Dónde solía vivir? | ¿Cuál era la vieja contraseña? | Trước đây Mara uống gì? | Số cũ đã là bao nhiêu? |
Mara 以前喝什么? | 密码原来是什么 | What is the old door code? | what's Ann's prior address |
Which doctor had we called until then? | What did Jo switch from? | What did they change the wifi password from? |
What has Mara given up drinking? | What did Ben stop eating? | Where had the spare key been? |
Where'd we keep the salt before? | Where was the drill at the very start? | Which colour was it at the outset? |
At one time, what was our number? | What worked before? | Wie lautet die alte Telefonnummer? |
Wo wohnte Jo bis vor kurzem? | Was trank Mara noch im ersten Jahr? | Wie hieß der Hund am Anfang? |
Was hat Ben aufgegeben? | Was war der vorige Code? | Welchen Platz hatte die Leiter vor dem Umzug? |
Keinen Kaffee mehr? Wer sagte das? | ¿Dónde vivía Ana hasta hace poco? | ¿Qué dejó de comer Juan? |
¿Cuál fue el código inicial? | ¿Qué médico teníamos en un principio? | ¿Cuál es la clave de antes? |
Mật khẩu cũ là gì? | Xưa kia cái thang để ở đâu? | Mara không uống gì nữa? | Thoạt đầu con mèo tên là gì? |
Trước khi đổi, mã là gì? | 上一个密码是什么 | 换之前的密码 | 当初猫叫什么 | 旧地址是哪里
"""
PRESENT = """
What does Mara drink? | What must I do before the trip? | What do I use to clean the oven? | Is there any more milk? |
How old is Jo? | When did Mara call? | What did I say about the holidays? | Was trinkt Mara? | Was mache ich zuerst? |
Wie alt ist Jo? | ¿Qué hago antes de cenar? | ¿Qué bebe Mara? | Mara uống gì? | Mara 喝什么? | Where is the old ladder? |
How old is the dog? | Is the old man next door ill? | What is the code? | What did I move to the cellar? |
Did the washing machine stop? | Who had a cold? | Have we given Ann the key? |
When do I have to get rid of the batteries? | Until when is the shop open? | Is there a first aid kit? |
Which past tense is right? | Wo ist die alte Leiter? | Wer ist der Alte? | Wie viel mehr Milch brauchen wir? |
Was kommt zuerst in den Topf? | Wann beginnt die Schule? | Was habe ich gesagt? | ¿Cuántos años tiene Ana? |
¿Qué hay para el primer plato? | ¿Dónde dejó Ana la llave? | ¿Quiere alguien más pan? | Còn gì nữa không? |
Trước khi đi ngủ tôi phải làm gì? | Từng người một uống gì? | Ai có số của bác sĩ? | 是不是下雨了? | 我的钥匙不见了 | 他的曾祖父叫什么 |
前天谁来了
"""
FIRST = """
What was it at first? | Wie hieß es ursprünglich? | ¿Cómo se llamaba al principio? | ban đầu là gì | 最初是什么
"""
LAST = """
What was it before? | Was war es vorher?
"""
CHANGES = """
How did the door code change over the year? | how has the code changed | What were all the door codes? |
Which codes have we had so far? | List the history of the door code |
Wie hat sich der Code im Laufe des Jahres geändert? | Welche Codes hatten wir alle? | ¿Cómo ha cambiado el código? |
Mã cửa đã thay đổi như thế nào? | 密码怎么变的?
"""
ONE_THING = """
What is the door code? | Did Ann change her shirt? | Was all the milk gone? | What did we do in history? |
Can you change the code? | Was haben wir alles eingekauft? | ¿Cuándo cambia la hora?
"""


def lines(table: str) -> list[str]:
    """Return the sentences of a table."""
    return [sentence for sentence in map(str.strip, table.split("|")) if sentence]


def test_a_question_about_the_past_is_known() -> None:
    """It asks for what is not any more; neither "before" in a plan nor a verb in the past alone does."""
    assert [text for text in lines(PAST) if not (tense_of(text).past and tense_of(text.lower()).past)] == []
    assert [text for text in ("", *lines(PRESENT)) if tense_of(text).past] == []


def test_what_was_first_is_told_from_what_was_last() -> None:
    """One word says which of several values is meant."""
    assert [text for text in lines(FIRST) if not tense_of(text).first] == []
    assert [text for text in lines(LAST) if tense_of(text).first] == []


def test_who_asks_how_something_changed_asks_for_all_that_was() -> None:
    """Every value that it had is an answer; that something changes, or that all of it is meant, is no question of its past."""
    assert [text for text in lines(CHANGES) if not (tense_of(text).all and tense_of(text.lower()).all)] == []
    assert [text for text in lines(ONE_THING) if tense_of(text).all] == []


@given(st.text(max_size=300))
def test_any_text_is_one_or_the_other(text: str) -> None:
    """Whatever is said, there is an answer."""
    assert tense_of(text).past in (True, False)


@pytest.mark.parametrize("piece", ["n't ", "did ", "a", "not ", "who xed", "ía ", "how did ", "what was "])
def test_it_is_read_in_linear_time(piece: str) -> None:
    """A text that is made to trouble patterns takes no longer than another."""
    assert tense_of(piece * 100_000 + "?").past in (True, False)
    assert not tense_of(piece * 100_000 + "?").all
