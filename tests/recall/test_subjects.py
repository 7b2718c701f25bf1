"""Subjects: of the facts about somebody, the one that is asked for."""

from __future__ import annotations

from contextlib import closing

import pytest

from edgemem.recall.people.names import NamedPeople, people_of
from edgemem.recall.query import parse_query, read_question
from support.embedders import HashEmbedder
from support.homes import Robot


def test_names_of_speakers_are_words_where_facts_are_about_them():
    """Names of speakers are no terms to look for, unless facts are about them."""
    text = "What size of shoes does Mara wear?"
    people = people_of(["mara"])
    named = NamedPeople(text, frozenset({"mara"}), frozenset())
    speaker = parse_query(read_question(text), named, people=people)
    assert "mara" not in speaker.terms
    assert speaker.meaning == "What size of shoes does wear?"
    subject = parse_query(read_question(text), named, people=people, subjects={"mara"})
    assert "mara" in subject.terms
    assert subject.meaning == text
    assert subject.people.keys() == speaker.people.keys() == {"mara"}


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


@pytest.mark.parametrize(
    "question", ["What does Helene do for a living?", "Who is Helene?", "Is the milk empty?"]
)
def test_a_question_is_embedded_once(tmp_path, clock, question):
    """Whatever it names: before the model is called there is time for one embedding (law 1)."""
    embedder = HashEmbedder()
    with closing(Robot(tmp_path, clock, embedder)) as robot:
        robot.store.add_fact("helene.job", "nurse")
        robot.store.add_fact("milk", "empty")
        robot.idle()
        robot.recall(question)
        assert embedder.questions == [question]
