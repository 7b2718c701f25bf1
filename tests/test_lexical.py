"""Words, questions and full text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemem.recall.candidates import make_filter
from edgemem.recall.file_words import FileWords
from edgemem.recall.index.docs import add_docs
from edgemem.recall.index.file import SCHEMA
from edgemem.recall.index.sources import EPISODE, Doc
from edgemem.recall.lexical import MAX_MATCHES, MAX_TERMS, Statistics, count_docs
from edgemem.recall.question import MAX_CHARS, read_question, take_apart
from edgemem.recall.stemmer import stem
from edgemem.recall.words import plain_words, terms
from edgemem.records import Reader
from edgemem.store.database import Database
from edgemem.store.episodes import spell_out

TEXTS = [
    "The cat sat on the warm kitchen floor and slept",
    "Kitchen lights: switch them off at ten",
    "Alice is allergic to peanuts, and peanut butter too",
    "Peanuts were in the cake that nobody ate",
    "The doctor moved the date to Friday",
]


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """Return an index of a few texts."""
    path = tmp_path_factory.mktemp("lexical") / "index.db"
    with Database(path, migrations=SCHEMA, durable=False) as db:
        docs = [Doc(EPISODE, n, text, 0, None, None) for n, text in enumerate(TEXTS)]
        db.write(lambda tx: add_docs(tx, docs))
        yield db


def test_forms_of_a_word_share_a_stem():
    """Cook, cooks, cooked and cooking are one word; the speaker's accents and case do not matter."""
    assert len({stem(word) for word in ("cook", "cooks", "cooked", "cooking")}) == 1
    assert terms("CAFÉ café Cafe\u0301") == [stem("cafe")] * 3
    assert terms("Straße") == terms("STRASSE")


def test_stop_words_are_dropped():
    """Words that tell nothing are not looked for, nor what is left of contractions."""
    assert terms("What did she say to you? I don't know, it's what they'd have") == [
        stem("say"),
        stem("know"),
    ]


def test_keys_are_spelt_out():
    """The parts of a key are words of their own."""
    assert spell_out("user.favouriteColour_2-b") == "user favourite Colour 2 b"


@given(st.text())
def test_no_text_breaks_into_syntax(text):
    """Whatever somebody says, terms hold no space, quote or control character."""
    for word in plain_words(text):
        assert word
        assert not any(letter.isspace() or letter in "\"'*:^()-\0" for letter in word)


@settings(deadline=None)
@given(
    text=st.text()
    | st.sampled_from(['"', "a AND (", "NEAR(x y", "-x", "a:b", "*", "'; drop table docs --", "\ud800"])
)
def test_no_question_is_a_syntax_error(database, text):
    """A question full of FTS syntax is looked for as plain words."""
    question = read_question(take_apart(text))
    assert count_docs(database, question.terms).keys() == set(question.terms)
    words = FileWords(database, make_filter(Reader("alice")))
    counts = words.counts(question.terms)
    assert counts.keys() == set(question.terms)
    assert words.find(question.terms, counts, {}).keys() <= counts.keys()


def test_in_a_small_memory_a_common_word_still_finds():
    """Where one of two texts holds a word, the word is worth something; where nothing is known, nothing breaks."""
    assert Statistics(docs=2, terms=9, counts={"cup": 1}).rarity(1) > 0.5
    assert Statistics(docs=1, terms=9, counts={"cup": 1}).rarity(1) > 0.1
    assert Statistics(docs=0, terms=0, counts={}).rarity(0) > 0


def test_common_words_are_left_out_when_others_tell_more():
    """Terms are taken from the rarest on until they match too much; one is always taken."""
    stats = Statistics(docs=50_000, terms=500_000, counts={"rare": 3, "known": 900, "common": MAX_MATCHES})
    assert stats.telling(["common", "nowhere", "known", "rare"]) == ["rare", "known"]
    assert stats.telling(["common"]) == ["common"]
    many = [f"t{n}" for n in range(99)]
    assert len(Statistics(99, 99, dict.fromkeys(many, 1)).telling(many)) == MAX_TERMS


def test_names_of_speakers_are_not_looked_for():
    """The name of a person who speaks here matches everything; it says whom the question is about instead."""
    question = read_question(take_apart("What did Alice's doctor say?"), people={"alice", "Bob Miller"})
    assert question.terms == (stem("doctor"), stem("say"))
    assert question.people == {"alice"}
    assert question.meaning == "What did doctor say?"
    assert read_question(take_apart("Call Bob Miller"), people={"Bob Miller"}).people == {"Bob Miller"}
    assert read_question(take_apart("Call Bob"), people={"Bob Miller"}).people == frozenset()


def test_a_question_of_a_name_alone_keeps_it():
    """Where nothing else is said, the name is what is looked for."""
    question = read_question(take_apart("And Alice?"), people={"alice"})
    assert question.terms == ("alic",)
    assert question.meaning == "And Alice?"


def test_who_says_i_is_meant():
    """A question with "my" in it is about the reader, if the voice is known."""
    assert read_question(take_apart("what are my allergies"), reader="alice").people == {"alice"}
    assert read_question(take_apart("what are allergies"), reader="alice").people == frozenset()


def test_words_of_a_date_that_stand_nowhere_are_not_looked_for():
    """Else they would be the rarest words of a question, and no text could have much of it; alone they are all that was said."""
    question = read_question(take_apart("What was the safe code in March?", 1.79e9))
    assert question.terms == ("safe", "code", "march")
    assert question.but({"march"}).terms == ("safe", "code")
    assert question.but({"safe"}).terms == question.terms
    alone = read_question(take_apart("Where was it in March?", 1.79e9))
    assert alone.but({"march"}).terms == alone.terms == ("march",)


@pytest.mark.parametrize("text", ["", "   ", "\0", "?!", "what is it", "\ud800"])
def test_questions_that_say_nothing(text):
    """Nothing is looked for, and nothing breaks."""
    assert read_question(take_apart(text)).terms == ()


def test_of_a_long_text_the_end_counts():
    """A megabyte is cut; people ask at the end."""
    question = read_question(take_apart("noise " * 200_000 + "where is the key"))
    assert len(question.meaning) <= MAX_CHARS
    assert question.terms[-1] == stem("key")


@pytest.mark.parametrize(
    ("text", "past"),
    [
        ("Where do we keep the drill these days?", False),
        ("Who told you most recently?", False),
        ("Where did it use to be, and not now?", True),
        ("Where was it?", True),
        ("Wo war der Bohrer früher?", True),
        ("以前在哪里?", True),
        ("Where is the drill?", False),
        ("The nowhere wash", False),
    ],
)
def test_whether_a_question_asks_for_the_past(text, past):
    """Words tell it, in each language."""
    assert read_question(take_apart(text)).in_past == past
