"""Subjects: of the facts about somebody, the one that is asked for; who says "I" is told of what is theirs."""

from contextlib import closing

import pytest

from edgemem.memory import Memory
from support.embedders import HashEmbedder
from support.homes import Robot, tell


def test_the_real_model_tells_what_is_asked_for(tmp_path, clock, minilm):
    """Of nine facts about one person and another's, the default model finds each by a question in other words."""
    from edgemem.llama.embedder import LlamaEmbedder

    with LlamaEmbedder(minilm) as embedder, closing(Robot(tmp_path, clock, embedder)) as robot:
        known = {"helene": "nurse 38 ginger heights Tuesday", "magnus": "baker 44 cider dogs Friday"}
        for name, values in known.items():
            keys = ("job", "shoe_size", "drink", "fear", "birthday")
            for key, value in zip(keys, values.split(), strict=True):
                robot.store.add_fact(f"{name}.{key}", value)
        robot.idle()
        asked = {
            "What does Helene do for a living?": "helene.job",
            "Boots for Magnus are on sale. Which fit him?": "magnus.shoe_size",
            "What is Helene scared of?": "helene.fear",
            "What can I pour Magnus?": "magnus.drink",
            "When do we bake a cake for Helene?": "helene.birthday",
        }
        assert {question: robot.recall(question)[0].key for question in asked} == asked


@pytest.mark.parametrize("question", ["What does Helene do?", "Who is Helene?", "Is the milk empty?"])
def test_a_question_is_embedded_once(tmp_path, clock, question):
    """Whatever it names: before the model is called there is time for one embedding (law 1)."""
    embedder = HashEmbedder()
    with closing(Robot(tmp_path, clock, embedder)) as robot:
        robot.store.add_fact("helene.job", "nurse")
        robot.store.add_fact("milk", "empty")
        robot.idle()
        robot.recall(question)
        assert embedder.questions == [question]


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
