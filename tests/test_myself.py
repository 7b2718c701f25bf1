"""Who says "I": in five languages what people told of themselves, and what is known about them, answers them first."""

from __future__ import annotations

from pathlib import Path

import pytest

import edgemem
from edgemem.config import LlamaSettings, Profile
from edgemem.languages.words import all_words, small
from edgemem.records import Heard, StoredMessage, Turn
from edgemem.store.turns import commit_turn

SAID = {
    "en": ("My bicycle is {}, I like it.", ("blue", "grey"), "Which colour does my bicycle have?"),
    "de": ("Mein Fahrrad ist {}, ich mag es.", ("blau", "grau"), "Welche Farbe hat mein Fahrrad?"),
    "es": ("Mi bicicleta es {}, me gusta.", ("azul", "gris"), "¿De qué color es mi bicicleta?"),
    "vi": ("Xe đạp của tôi màu {}, tôi thích nó.", ("xanh", "xám"), "Xe đạp của tôi màu gì?"),
    "zh": ("我的自行车是{}色的，我很喜欢。", ("蓝", "灰"), "我的自行车是什么颜色的？"),
}


@pytest.mark.parametrize("language", SAID)
def test_what_is_mine_is_mine(language: str, tmp_path: Path) -> None:
    """Two people say the same of themselves, and each is told first what they said."""
    sentence, values, question = SAID[language]
    with edgemem.open(
        tmp_path / "home", profile=Profile(llama=LlamaSettings(embedder="")), worker=False
    ) as memory:
        for number, (who, value) in enumerate(zip(("Anna", "Ben"), values, strict=True)):
            said = (StoredMessage("user", sentence.format(value)),)
            turn = Turn(f"talk {number}", 0, said, heard=Heard(speaker=who))
            memory.database.write(lambda tx, turn=turn: commit_turn(tx, turn))
        memory.idle(60.0)
        for who, value in zip(("Anna", "Ben"), values, strict=True):
            assert memory.recall(question, speaker=who, kinds={"turn"})[0].text == sentence.format(value)


@pytest.mark.parametrize("language", SAID)
def test_a_fact_about_me_is_mine(language: str, tmp_path: Path) -> None:
    """The same of facts about two people: whoever asks gets the one about them."""
    _, values, question = SAID[language]
    with edgemem.open(
        tmp_path / "home", profile=Profile(llama=LlamaSettings(embedder="")), worker=False
    ) as memory:
        word = {"en": "bicycle", "de": "Fahrrad", "es": "bicicleta", "vi": "xe đạp", "zh": "自行车"}[language]
        for who, value in zip(("Anna", "Ben"), values, strict=True):
            memory.store.add_fact(f"{who.lower()}.{word}", value, scope="household")
        memory.idle(60.0)
        for who, value in zip(("Anna", "Ben"), values, strict=True):
            assert memory.recall(question, speaker=who, kinds={"fact"})[0].value == value


@pytest.mark.parametrize(
    ("language", "text", "itself"),
    [
        ("en", "What's mine?", True),
        ("en", "I’m late", True),
        ("en", "What did we eat?", False),
        ("de", "Wer hat mir geschrieben?", True),
        ("de", "Was haben wir gegessen?", False),
        ("es", "¿Dónde dejé las llaves?", True),
        ("es", "¿Dónde dejó las llaves?", False),
        ("vi", "Chìa khóa của tôi ở đâu?", True),
        ("vi", "Chúng tôi ăn gì?", False),
        ("vi", "Minh thích gì?", False),  # a name
        ("vi", "Tối nay ăn gì?", False),  # an evening
        ("vi", "Em thích gì?", False),  # I or you
        ("zh", "我喜欢什么？", True),
        ("zh", "我们吃什么？", False),
    ],
)
def test_words_that_say_i(language: str, text: str, itself: bool) -> None:
    """Whoever speaks of several people, or by a word that may mean somebody else, does not say "I"."""
    assert all_words()[language].speaks_of_itself(small(text)) is itself
