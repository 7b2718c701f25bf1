"""Relations: of the facts about somebody, the one that is asked for."""

from __future__ import annotations

import pytest
from hash_embedder import HashEmbedder
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.index import Index
from edgemem.recall.question import read_question, take_apart
from edgemem.recall.recall import Recall
from edgemem.recall.relations import RelationVectors
from edgemem.recall.sources import fact_text, split_key
from edgemem.recall.words import plain_words, terms
from edgemem.records import Heard, StoredMessage, Turn
from edgemem.store.database import Database
from edgemem.store.memory_store import SQLiteMemoryStore
from edgemem.store.turns import commit_turn

sentences = st.lists(
    st.sampled_from(["Helene", "helene's", "Paul", "the", "tin", "stool", "Where", "is", "job?", "Größe"]),
    max_size=8,
).map(" ".join)
subjects = st.sets(st.sampled_from(["helen", "paul", "tin stool", "stool", "job", "nobody"]))


class Listening(HashEmbedder):
    """Remembers what was asked, and may be late from the second question on."""

    def __init__(self, *, late: bool = False, **more) -> None:
        super().__init__(**more)
        self.asked: list[str] = []
        self.late = late

    def embed_query(self, text, *, timeout_s=None):
        """Embed a question."""
        self.asked.append(text)
        if self.late and timeout_s is not None and len(self.asked) > 1:
            return None
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

    def scores(self, question, **options) -> dict[str | None, float]:
        """Return the scores of the facts that are found; the clock's ticks tell in the last digits."""
        found = self.recaller.recall(question, reader=None, **options)
        return {item.key: round(item.score, 6) for item in found}

    def relations(self) -> dict[str, bool]:
        """Return the relations in the index, and which of them have a vector."""
        rows = self.index.database.query(
            "select relation, exists (select 1 from relation_vectors v where v.relation = r.id) from relations r"
        )
        return {relation: bool(made) for relation, made in rows}

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


@pytest.mark.parametrize(
    ("question", "subject", "rest"),
    [
        ("What does Helene do for a living?", "helen", "What does do for a living?"),
        ("Helene's shoe size", "helen", "shoe size"),
        ("Who took the tin stools home?", "tin stool", "Who took the home?"),
        ("Who took the tin box home?", "tin stool", None),
        ("Who is Helene?", "helen", None),
        ("Helene!", "helen", None),
        ("", "helen", None),
    ],
)
def test_a_question_without_its_subject(question, subject, rest):
    """The words of a subject are left out if all of them are there and something else is said."""
    assert read_question(take_apart(question)).without([subject]) == rest


def test_names_of_speakers_are_words_where_facts_are_about_them():
    """Names of speakers are no terms to look for, unless facts are about them; both ways they can be left out."""
    text = "What size of shoes does Mara wear?"
    speaker = read_question(take_apart(text), people={"mara"})
    assert "mara" not in speaker.terms
    assert speaker.without(["mara"]) == speaker.meaning == "What size of shoes does wear?"
    subject = read_question(take_apart(text), people={"mara"}, subjects={"mara"})
    assert "mara" in subject.terms
    assert subject.meaning == text
    assert subject.without(["mara"]) == speaker.meaning
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


@given(sentences, subjects)
def test_only_named_subjects_are_left_out(text, some):
    """What is left holds the other words in their order, and none of a subject that was named."""
    question = read_question(take_apart(text))
    rest = question.without(some)
    named = {part for each in some if question.names(each) for part in each.split()}
    if rest is None:
        assert not named or set(terms(text)) <= named
    else:
        kept = [word for word in text.replace("'s", "").split() if not named & set(terms(word))]
        assert plain_words(rest.replace("'s", "")) == plain_words(" ".join(kept))


def test_facts_that_say_the_same_of_many_share_a_vector(tmp_path, clock):
    """A relation is embedded once, before the facts themselves, and a key of one part needs none."""
    embedder = HashEmbedder()
    with Robot(tmp_path, clock, embedder) as robot:
        robot.store.add_fact("helene.shoe_size", "38")
        robot.store.add_fact("paul.shoe_size", "44")
        robot.store.add_fact("paul.job", "baker")
        robot.store.add_fact("milk", "empty")
        robot.index.catch_up()
        assert robot.index.pending()["vectors"] == 6
        robot.index.embed_pending(2)
        assert sorted(embedder.embedded) == ["job", "shoe size"]
        assert robot.index.pending()["vectors"] == 4
        robot.idle()
        assert robot.relations() == {"job": True, "shoe size": True}
        assert robot.index.pending()["vectors"] == 0


def test_another_model_makes_them_again(tmp_path, clock):
    """Vectors of relations go with the vectors of another model."""
    with Robot(tmp_path, clock, HashEmbedder(64)) as robot:
        robot.know(helene__job="nurse")
    other = HashEmbedder(32, name="other")
    with Robot(tmp_path, clock, other) as robot:
        assert robot.index.pending()["vectors"] == 2
        robot.idle()
        assert other.embedded == ["job", "helene job: nurse"]
        assert robot.keys("Helene's job") == ["helene.job"]


def test_a_forgotten_relation_leaves_no_trace(tmp_path, clock):
    """With the last fact that has it a relation leaves the index file and its log."""
    with Robot(tmp_path, clock, HashEmbedder()) as robot:
        robot.know(helene__zeppelin_licence="none", paul__zeppelin_licence="two", paul__job="pilot")
        robot.store.forget_fact("helene.zeppelin_licence")
        robot.idle()
        assert robot.relations() == {"zeppelin licence": True, "job": True}
        robot.store.forget_fact("paul.zeppelin_licence")
        robot.idle()
        assert robot.relations() == {"job": True}
        files = (robot.index.path, robot.index.path.with_name(robot.index.path.name + "-wal"))
        assert not any(b"zeppelin" in file.read_bytes() for file in files if file.exists())


def test_what_is_asked_of_a_subject_decides(tmp_path, clock):
    """A value that repeats the question's words, and the same thing about others, come after what is asked for."""
    embedder = Listening(means={"live": "job"})
    with Robot(tmp_path, clock, embedder) as robot:
        robot.know(helene__job="nurse in the old town", helene__friend="Helene", paul__job="baker")
        assert robot.keys("What does Helene do for a living?")[0] == "helene.job"
        assert embedder.asked == ["What does Helene do for a living?", "What does do for a living?"]


@pytest.mark.parametrize("question", ["Who works as a nurse?", "Who is Helene?", "Is the milk empty?"])
def test_a_question_that_names_no_subject_is_embedded_once(tmp_path, clock, question):
    """Without the subject of a fact in it, or without anything else, a question costs what it did before."""
    embedder = Listening()
    with Robot(tmp_path, clock, embedder) as robot:
        robot.know(helene__job="nurse", milk="empty")
        robot.keys(question)
        assert embedder.asked == [question]


def test_being_late_for_the_subject_costs_nothing_else(tmp_path, clock):
    """Where the deadline has no time for the second embedding, the first one counts as if it were all."""
    embedder = Listening(late=True)
    with Robot(tmp_path, clock, embedder) as robot:
        robot.know(helene__job="nurse", helene__tea="green", paul__job="baker")
        robot.index.database.write(lambda tx: tx.execute("delete from relation_vectors"))
        robot.index.database.write(lambda tx: tx.execute("update spaces set relations_upto = 0"))
        plain = robot.scores("Helene's job")
        robot.idle()
        assert robot.scores("Helene's job") != plain
        embedder.asked.clear()
        assert robot.scores("Helene's job", deadline_s=60) == plain
        assert robot.recaller.last.late
        assert robot.recaller.last.signals == ("words", "meaning")


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


def test_vectors_of_relations_are_read_once_and_forgotten_with_them(tmp_path, clock):
    """What was read of relations serves the next question; nothing is kept of it once anything was taken out."""
    robot = Robot(tmp_path, clock, HashEmbedder(64))
    robot.know(helene__job="baker", helene__shoe_size="39")
    known = RelationVectors(robot.index.database)
    query, space = HashEmbedder(64).embed_query("job"), robot.index.vectors.space

    def asked(removal):
        return known.cosines(query, ["job", "shoe size", "nothing"], space=space, removal=removal)

    first = asked(1)
    assert first.keys() == {"job", "shoe size"}
    assert first["job"] == pytest.approx(1.0, abs=1e-3)
    robot.index.database.write(lambda tx: tx.execute("delete from relation_vectors"))
    assert asked(1) == first
    assert asked(2) == {}
    assert known.cosines(query[:32], ["job"], space=space, removal=2) == {}
    robot.index.close()
    robot.truth.close()
