"""Subjects: of the facts about somebody, the one that is asked for."""

from __future__ import annotations

import pytest
from hash_embedder import HashEmbedder
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.index.index import Index
from edgemem.recall.index.sources import fact_text, split_key
from edgemem.recall.query import parse_query
from edgemem.recall.recall import Recall
from edgemem.recall.text.analyse import terms
from edgemem.records import Heard, StoredMessage, Turn
from edgemem.store.db.database import Database
from edgemem.store.memory_store import SQLiteMemoryStore
from edgemem.store.turns import commit_turn


class Listening(HashEmbedder):
    """Remembers what was asked."""

    def __init__(self, **more) -> None:
        super().__init__(**more)
        self.asked: list[str] = []

    def embed_query(self, text, *, timeout_s=None):
        """Embed a question."""
        self.asked.append(text)
        return super().embed_query(text, timeout_s=timeout_s)


class Robot:
    """A truth with an index, and what recall finds in it."""

    def __init__(self, folder, clock, embedder) -> None:
        self.truth = Database(folder / "memory.db", clock=clock)
        self.store = SQLiteMemoryStore(self.truth)
        self.index = Index(folder / "index.db", self.truth, embedder=embedder)
        self.recaller = Recall(self.truth, self.index, embedder=embedder, clock=clock)

    def know(self, **facts) -> None:
        """Store facts, written with two underscores for the point, and do all upkeep."""
        for key, value in facts.items():
            self.store.add_fact(key.replace("__", "."), value)
        self.idle()

    def idle(self) -> None:
        """Do all upkeep."""
        while self.index.catch_up() + self.index.embed_pending():
            pass
        self.index.erase()

    def keys(self, question, **options) -> list[str | None]:
        """Return the keys of the facts that are found."""
        return [item.key for item in self.recaller.recall(question, reader=None, **options)]

    def __enter__(self) -> Robot:
        return self

    def __exit__(self, *_) -> None:
        self.index.close()
        self.truth.close()


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("helene.shoe_size", ("helen", "shoe size")),
        ("tinStool.lent_to", ("tin stool", "lent to")),
        ("user.sister.first_name", ("sister", "first name")),
        ("user.allergies", (None, None)),
        ("door code", (None, None)),
        ("the.end", (None, None)),
        (".end", (None, None)),
        ("end.", (None, None)),
    ],
)
def test_a_key_is_a_subject_and_a_relation(key, parts):
    """A key of several parts says something of somebody; others say all by themselves."""
    assert split_key(key) == parts


@given(st.text(max_size=30))
def test_a_subject_is_found_by_its_words(key):
    """Any key can be split, and the stems of its subject are stems that its fact is found by."""
    subject, relation = split_key(key)
    assert (subject is None) == (relation is None)
    assert set((subject or "").split()) <= set(terms(fact_text(key, "")))


def test_names_of_speakers_are_words_where_facts_are_about_them():
    """Names of speakers are no terms to look for, unless facts are about them."""
    text = "What size of shoes does Mara wear?"
    speaker = parse_query(text).resolved(people={"mara"})
    assert "mara" not in speaker.terms
    assert speaker.meaning == "What size of shoes does wear?"
    subject = parse_query(text).resolved(people={"mara"}, subjects={"mara"})
    assert "mara" in subject.terms
    assert subject.meaning == text
    assert subject.people == speaker.people == {"mara"}


@pytest.mark.parametrize("indexed", [False, True])
def test_facts_about_somebody_who_speaks_here_are_found(tmp_path, clock, indexed):
    """Of a hundred people who have a job, the one who is named is found, also if she is always talking."""
    with Robot(tmp_path, clock, HashEmbedder()) as robot:
        for n in range(100):
            robot.store.add_fact(f"person{n}.job", f"work{n}")
        robot.store.add_fact("mara.job", "carpenter")
        turn = Turn("s", 0, (StoredMessage("user", "good morning"),), heard=Heard(speaker="mara"))
        robot.truth.write(lambda tx: commit_turn(tx, turn))
        if indexed:
            robot.idle()
        assert robot.keys("What is Mara's job?")[0] == "mara.job"


def test_the_real_model_tells_what_is_asked_for(tmp_path, clock, minilm):
    """Of nine facts about one person and another's, the default model finds each by a question in other words."""
    from edgemem.llama.embedder import LlamaEmbedder

    with LlamaEmbedder(minilm) as embedder, Robot(tmp_path, clock, embedder) as robot:
        for name, values in (
            ("helene", "nurse 38 ginger heights Tuesday"),
            ("magnus", "baker 44 cider dogs Friday"),
        ):
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
        assert {question: robot.keys(question)[0] for question in asked} == asked


@pytest.mark.parametrize(
    "question", ["What does Helene do for a living?", "Who is Helene?", "Is the milk empty?"]
)
def test_a_question_is_embedded_once(tmp_path, clock, question):
    """Whatever it names: before the model is called there is time for one embedding (law 1)."""
    embedder = Listening()
    with Robot(tmp_path, clock, embedder) as robot:
        robot.know(helene__job="nurse", milk="empty")
        robot.keys(question)
        assert embedder.asked == [question]
