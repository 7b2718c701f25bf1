"""Who says "I": in five languages what people told of themselves, and what is known about them, answers them first."""

from __future__ import annotations

import pytest

from edgemem.memory import Memory
from support.homes import tell

SAID = {
    "en": ("My bicycle is {}, I like it.", ("blue", "grey"), "Which colour does my bicycle have?"),
    "de": ("Mein Fahrrad ist {}, ich mag es.", ("blau", "grau"), "Welche Farbe hat mein Fahrrad?"),
    "es": ("Mi bicicleta es {}, me gusta.", ("azul", "gris"), "¿De qué color es mi bicicleta?"),
    "vi": ("Xe đạp của tôi màu {}, tôi thích nó.", ("xanh", "xám"), "Xe đạp của tôi màu gì?"),
    "zh": ("我的自行车是{}色的，我很喜欢。", ("蓝", "灰"), "我的自行车是什么颜色的？"),
}


@pytest.mark.parametrize("language", SAID)
def test_what_is_mine_is_mine(language: str, memory: Memory) -> None:
    """Two people say the same of themselves, and the same is known of both; each is told first what is theirs."""
    sentence, values, question = SAID[language]
    thing = {"en": "bicycle", "de": "Fahrrad", "es": "bicicleta", "vi": "xe đạp", "zh": "自行车"}[language]
    for number, (who, value) in enumerate(zip(("Anna", "Ben"), values, strict=True)):
        tell(memory, sentence.format(value), f"talk {number}", speaker=who)
        memory.store.add_fact(f"{who.lower()}.{thing}", value, scope="household")
    memory.idle(60.0)
    for who, value in zip(("Anna", "Ben"), values, strict=True):
        assert memory.recall(question, speaker=who, kinds={"turn"})[0].text == sentence.format(value)
        assert memory.recall(question, speaker=who, kinds={"fact"})[0].value == value
