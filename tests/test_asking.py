"""Asking: questions are told from orders and statements, with or without punctuation."""

from __future__ import annotations

import pytest

from edgemem.context.asking import asks, only_asks


@pytest.mark.parametrize(
    "utterance",
    [
        "What is the wifi password",
        "A guest is here. How does she get online",
        "Can Anna eat this?",
        "Add two lemons and tell me how long the list is.",
        "tell me again on which day the rubbish is collected",
        "Wann kommt der Müll weg",
        "und wo ist die Taschenlampe",
        "Sag mir noch mal, wann der Arzt kommt?",
        "sag mir noch mal wann der Arzt kommt",
        "Dónde están mis llaves",
        "¿Que hora es?",
        "où est la clé",
        "est-ce que Paula mange de la viande",
        "dove sono le chiavi",
        "onde está a chave",
        "waar is de sleutel",
        "Chìa khóa ở đâu",
        "con mèo ăn gì",
        "Anna có ăn được không",
        "Anna co\u0301 a\u0306n được kho\u0302ng",
        "钥匙在哪里",
        "安娜可以吃这个吗",
        "カギはどこ？",
        "أين المفتاح؟",
    ],
)
def test_a_question_is_one_in_each_language(utterance: str) -> None:
    """At a sentence's beginning, behind "tell me", at any place where the language asks there, or by its mark."""
    assert asks(utterance)


@pytest.mark.parametrize(
    "utterance",
    [
        "pip where is my phone",
        "gizmo when does the bus go",
        "hey gizmo did nora call",
        "ok and when does the shop open",
        "hey so what was the code again",
        "um what was the name of the uh the dentist",
        "hang on what did you say the code is",
        "wait didn't we already book that",
        "the thing i told you about the car what was that",
        "ok we're at the station which platform is it",
        "anyone called",
        "you remember that plumber what was he called",
        "oye dónde está la llave",
        "äh wo ist die Taschenlampe",
    ],
)
def test_a_question_is_one_behind_whatever_it_begins_with(utterance: str) -> None:
    """Fillers, a name, and what it is about, without a comma between them."""
    assert asks(utterance)


@pytest.mark.parametrize(
    "utterance",
    [
        "I wonder where I put my gloves.",
        "Tell me about yesterday",
        "recap last week please",
        "erzähl mir von gestern",
        "cuéntame de ayer",
        "I can't remember when she comes",
        "not sure when the bin goes",
        "No clue where the manual is.",
        "I forgot which day we said",
        "remind me who rang",
        "Remind me about the dentist.",
        "help me remember the pin",
        "I need the address of the vet",
        "The wifi password, please.",
        "I'm looking for my phone",
        "i can't find my keys",
        "my wallet must be somewhere but where",
        "Tell me about Sofia's new job.",
        "Ich weiß nicht mehr wo der Schlüssel ist",
        "ich suche mein Handy",
        "erinnere mich an den Termin",
        "no sé dónde están las llaves",
        "recuérdame cuándo viene Nora",
        "no encuentro mis gafas",
    ],
)
def test_whoever_says_what_they_do_not_know_asks(utterance: str) -> None:
    """In the form of a statement or of an order."""
    assert asks(utterance)


@pytest.mark.parametrize(
    "utterance",
    [
        "",
        "dim the hall please",
        "We are out of rice.",
        "Thanks, that is what I wanted.",
        "Tell me a joke.",
        "Tell me a story about the sea",
        "remind me to buy milk",
        "ok computer turn it off",
        "I know where it is.",
        "He told me where he lives.",
        "I forgot my umbrella at the office",
        "I have to find my own way",
        "I need the loo",
        "anything will do",
        "I can't stand the smell",
        "We met where the old mill is",
        "Set a timer for nine minutes",
        "Mach das Licht im Flur an",
        "Pon un temporizador de nueve minutos",
        "Allume la lampe du salon",
        "Zet het licht aan",
        "Bật đèn phòng khách",
        "打开客厅的灯",
        "tell me about elephants",
        "I told you about this morning",
    ],
)
def test_orders_and_statements_are_none(utterance: str) -> None:
    """What begins otherwise, and asks nowhere, is no question."""
    assert not asks(utterance)


@pytest.mark.parametrize(
    ("said", "only"),
    [
        ("When is the doctor?", True),
        ("Tell me again on which day the rubbish is collected.", True),
        ("Please tell me where the torch is", True),
        ("What frightens Emil is the blender.", False),
        ("Is Anna here? She left her keys.", False),
        ("She left. Tell me when she is back.", False),
        ("The doctor is on Tuesday.", False),
        ("I sold the piano to Marta last week. How about you?", False),
        ("Hey Ann! That's great! When is the doctor?", True),
        ("Morning, Pip. What have we got in the fridge?", True),
        ("我明天去上海。你呢？", False),
        ("Did he say “come”?", True),
        ("Is he? " * 1000, False),
    ],
)
def test_what_tells_something_does_not_only_ask(said: str, only: bool) -> None:
    """In doubt it tells something, so that it may be recalled."""
    assert only_asks(said) is only


@pytest.mark.parametrize(
    "utterance",
    [
        "What a day. My legs are like lead.",
        "He missed the last tram again, what a shame",
        "I've got paint on my nose, haven't I?",
        "The soup was cold. Isn't that strange?",
        "We ought to take better care of it. Don't you agree?",
        "The neighbours are moving. What do you say to that, Pip?",
        "Das war schön, oder?",
        "Hace frío, ¿verdad?",
    ],
)
def test_what_wants_no_more_than_a_nod_asks_nothing(utterance: str) -> None:
    """An exclamation, and what is hung on to a statement, are not answered from memory."""
    assert not asks(utterance)


@pytest.mark.parametrize(
    "utterance",
    [
        "What a tram ticket is I know, but what does it cost",
        "The bin goes out tomorrow. Isn't that Tuesday?",
        "Isn't that strange?",
        "Do you know where the torch is?",
        "Where is the torch, you know?",
        "We ought to call the plumber. What did he want last time, don't you agree?",
        "What do you think of the plumber?",
    ],
)
def test_in_doubt_it_is_a_question(utterance: str) -> None:
    """One that has more in it than a nod, or stands alone, may be answered by what is remembered."""
    assert asks(utterance)


@pytest.mark.parametrize("unit", ["so, ", "hey a ", ", ", "n't a ", "forgot the ", "I can't ", "anyn"])
def test_a_long_text_is_looked_at_once(unit: str) -> None:
    """Nothing that people begin with is looked for more than a few times: 400 kB would take minutes."""
    assert not asks(unit * (400_000 // len(unit)))
