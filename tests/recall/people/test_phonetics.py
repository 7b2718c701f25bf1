"""Names are found although a recogniser wrote them differently, and words by those that sound like them, at a lower weight."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import edgemem
from edgemem.bench.corpus import household_facts
from edgemem.bench.prefill import askable
from edgemem.recall.index.sources import split_key
from edgemem.recall.people.names import correct_names, partly_named, people_of
from edgemem.recall.people.phonetics import LIMIT, SimilarTerms, nearest, sounds_heard, sounds_near, sounds_of
from edgemem.recall.text.analyse import plain_words, spoken_words, stem, terms
from edgemem.store.episodes import spell_out

FACTS = {
    "helene.shoe_size": "39", "helene.job": "carpenter", "maier.phone": "next door, 0171", "cat.name": "Miso", "john.job": "pilot",
}  # fmt: skip
SAME = """
Eleen/Helene Jon/John Meyer/Maier Mayer/Meier Katrin/Catherine Kathryn/Katrin Stefan/Stephen Steven/Stephen Neil/Neal
Fung/Phuong Hong/Huong Kwang/Quang Min/Minh Lin/Linh Kan/Khanh Tuy/Thuy Hosay/José Havier/Javier Xavier/Javier
Horhe/Jorge Bicente/Vicente Giyermo/Guillermo Volfgang/Wolfgang Yohannes/Johannes Yan/Jan Mikael/Michael Gerd/Gert
Jerald/Gerald Konrad/Conrad Schmidt/Shmitt Philip/Filip Sara/Sarah Hanna/Anna Thomas/Tomas Leigh/Lee Marc/Mark
Eric/Erik Müller/Mueller Jürgen/Yurgen Elena/Elaina Aileen/Eileen Maia/Maya Anh/Ann Duk/Đức Hanz/Hans
"""
DIFFERENT = """
Tom/Tim Dan/Tom Mara/Mary Ben/Bob Anna/Ian Alice/Alex Mia/Max Leo/Lea Jan/Hanna Jan/Jon Jonas/Janis Paul/Bill
Tim/Tina Rosa/Rose Carl/Carla Ada/Otto Mario/Maria Mai/Minh
"""
NO_RULE = """
nguyen/wen siobhan/shivon niamh/neave sean/shaun caitlin/katelyn wojciech/voitek thuy/twee hoa/wah trang/chang aoife/eefa
saoirse/sersha joaquin/wakeen isla/eyela bjorn/beyorn ewa/eva caoimhe/keeva łukasz/wukash joao/jwow zhou/joe
"""
LIVING = people_of(["Nana Ruth", "Mrs Achterberg", "Dae-jung", "Jo", "Oleg"])
TERMS = "paper pepper orchard orchid cello bin ben kettl cattl plumber 4291 味噌 ox"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
TERM_LISTS = st.lists(st.text(LETTERS, min_size=1, max_size=8), max_size=12, unique=True)


def sounds_alike(word, names):
    hits = nearest(word, names)
    return None if hits is None else hits[1]


def test_names_that_sound_the_same_are_told():
    """English, German, Spanish and Vietnamese names are recognised in another spelling; others are another person."""
    for heard, name in map(plain_words, SAME.split()):
        assert sounds_alike(heard, [name, "zyx"]) == name
        assert sounds_alike(name, [heard]) == heard
    for heard, name in map(plain_words, DIFFERENT.split()):
        assert sounds_alike(heard, [name]) is None, (heard, name)


@pytest.mark.parametrize("pair", NO_RULE.split())
def test_names_that_no_rule_of_english_reads_are_told(pair):
    """A recogniser writes an Irish, Vietnamese or Polish name as it hears it, and still means the one that lives here."""
    name, heard = pair.split("/")
    assert sounds_alike(heard, [name, "mara", "jonas", "robert"]) == name
    assert not sounds_of(name).isdisjoint(sounds_heard(heard) | sounds_near(heard))


@given(st.text(max_size=40))
def test_any_text_has_sounds_or_none(text):
    """Nothing that a recogniser may hand over fails; other scripts and numbers have no sound."""
    assert all(sounds_of(text))
    assert all(sounds_heard(text))
    assert all(sounds_near(text))
    assert sounds_of("味噌") == sounds_of("42") == sounds_of("") == sounds_heard("al") == frozenset()


@pytest.fixture
def memory(tmp_path):
    with edgemem.open(tmp_path / "home", worker=False) as memory:
        for key, value in FACTS.items():
            memory.store.add_fact(key, value)
        for name, value in (("Catherine", "peanuts"), ("Bob", "milk")):
            memory.store.add_fact("user.allergies", value, scope=f"user:{name}", level="household")
        yield memory


@pytest.mark.parametrize("indexed", [False, True])
def test_a_misheard_name_reaches_what_is_known_of_the_person(memory, indexed):
    """What was written a moment ago and what is indexed are both found by the sound of the name."""
    if indexed:
        memory.idle(5)
    for question, answer in (
        ("What is Eleen's shoe size?", "helene shoe size: 39"),
        ("what is the job of jon", "john job: pilot"),
        ("Can you phone Meyer?", "maier phone: next door, 0171"),
        ("Which allergies has Katrin?", "allergies: peanuts"),
        ("Which allergies has Bop?", "allergies: milk"),
    ):
        assert memory.recall(question, speaker="mai", k=1)[0].text == answer


def test_a_name_that_is_known_is_taken_as_it_was_said(memory):
    """Helene's facts do not answer for Ellen, once there is an Ellen."""
    memory.store.add_fact("ellen.shoe_size", "36")
    assert memory.recall("What is Ellen's shoe size?", k=1)[0].value == "36"
    assert memory.recall("What is Helene's shoe size?", k=1)[0].value == "39"
    memory.idle(5)
    assert memory.recall("What is Ellen's shoe size?", k=1)[0].value == "36"


def test_an_unknown_common_word_is_nobodys_name(memory):
    """A question about things stays one, however a word of it sounds."""
    memory.store.add_fact("owen.job", "baker")
    assert "owen job: baker" not in [item.text for item in memory.recall("is the oven on", min_score=0.1)]


def test_questions_about_what_is_known_are_taken_as_they_were_said():
    """Of hundreds of questions among many facts none is changed, with and without capitals."""
    facts = household_facts(3000)
    stems = {term for fact in facts for term in terms(f"{spell_out(fact.key)} {fact.value}")}
    names = {word for fact in facts for word in (split_key(fact.key)[0] or "").split()}
    for fact in askable(facts, 200):
        for question in (fact.question, fact.question.lower()):
            unknown = set(terms(question)) - stems
            taken = correct_names(question, spoken_words(question), unknown, names=names)
            assert taken == question


def names_like(memory, heard: str) -> list[str]:
    table = memory.diagnostics.index.postings.table
    return table.names.sounding_like(sounds_heard(heard), np.ones(table.n, bool))


def test_a_forgotten_name_has_no_sound_any_more(memory):
    """What is erased is erased from the sounds as well; a small letter with a stroke begins no name."""
    memory.store.add_fact("mai.note", "chim đang hót")
    memory.idle(5)
    assert names_like(memory, "dang") == []
    assert names_like(memory, "meyer") == ["maier"]
    memory.forget("maier.phone")
    memory.idle(5)
    assert names_like(memory, "meyer") == []
    assert "helene" in names_like(memory, "eleen")


@pytest.mark.parametrize(
    ("question", "unknown", "heard"),
    [
        ("what does see omara like", "omara", "what does xiomara like"),
        ("when is jonluke here", "jonluke", "when is jean luc here"),
        ("Is Jonluke's bike here?", "jonluke", "Is jean luc bike here?"),
        ("what does neve like", "neve", "what does niamh like"),
        ("where is the neve", "neve", "where is the neve"),
        ("what does gill like", "gill", "what does jill like"),
        ("where is my gill", "gill", "where is my gill"),
        ("what does tim like", "tim", "what does tim like"),
        ("what does anna lisa like", "lisa", "what does anneliese like"),
    ],
)
def test_a_name_is_put_where_it_was_misheard(question, unknown, heard):
    """Also where it fell in two or two words became one; not where a thing is spoken of, nor for another name."""
    names = ["Xiomara", "Jean-Luc", "Niamh", "Tom", "Jill", "Anneliese", "Louisa"]
    taken = correct_names(question, spoken_words(question), {stem(unknown)}, names=names)
    assert taken == heard


@given(st.text(max_size=60), st.sets(st.text(max_size=12), max_size=5))
def test_any_question_is_taken(text, names):
    """Whatever was heard, and however people are called, a question comes back; the same where nothing is strange or nobody lives."""
    strange = {stem(word) for word in plain_words(text)}
    assert isinstance(correct_names(text, spoken_words(text), strange, names=names), str)
    assert correct_names(text, spoken_words(text), (), names=names) == text


def test_a_name_that_fell_stays_as_long_as_some_text_has_it(memory):
    """A name that no fact and no speaker has is known as long as its words stand in one text together."""
    memory.store.add_fact("club.guests", "Zebulon, and Ottoline Brack")
    memory.store.add_fact("club.cook", "Brack")
    memory.idle(5)
    assert names_like(memory, "brack") == ["brack"]
    assert names_like(memory, "ottoline") == ["ottoline"]
    assert memory.recall("who is zebbulon", k=1)[0].text.startswith("club guests")
    memory.forget("club.guests")
    memory.idle(5)
    assert names_like(memory, "zebbulon") == names_like(memory, "ottoline") == []


@pytest.mark.parametrize(
    ("text", "people"),
    [
        ("what does ruth like", {"Nana Ruth"}), ("who is mrs okafor", set()), ("what shall i so", set()),
        ("", set()),
    ],
)  # fmt: skip
def test_a_question_names_somebody_by_the_same(text: str, people: set[str]) -> None:
    """A part of a name that is nobody else's names them."""
    assert partly_named(plain_words(text), LIVING, ()) == people


def test_a_part_that_two_people_share_or_a_name_that_was_understood_names_nobody() -> None:
    """Nobody knows which Ruth was meant; and Anna Ruth is not Nana Ruth if she is known herself."""
    asked = ["what", "does", "ruth", "like"]
    assert partly_named(asked, people_of(["Nana Ruth", "Ruth Wolski"]), ()) == set()
    assert partly_named(asked, LIVING | people_of(["Ruth"]), ["Ruth"]) == set()


def made_of(terms: Iterable[str]) -> SimilarTerms:
    built = SimilarTerms()
    for term in dict.fromkeys(terms):
        built.add(term)
    return built


@pytest.mark.parametrize(
    "pair", ["pepper/paper", "orchid/orchard", "chelo/cello", "been/bin", "cattl/kettl", "plummer/plumber"]
)
def test_terms_that_sound_alike_are_near(pair: str) -> None:
    """What a recogniser takes for one another is found, whether the memory knows the word or not."""
    term, other = pair.split("/")
    near = dict(made_of(TERMS.split()).similar_to(term, wide=len(other) > 6))
    assert near[other] <= LIMIT
    assert term not in near


@given(TERM_LISTS, st.text(LETTERS, max_size=8), st.integers(0, 12), st.integers(0, 12), st.booleans())
def test_terms_go_without_a_trace(terms: list[str], asked: str, cut: int, gone: int, wide: bool) -> None:
    """Whatever terms came and went, the same is near as if only those had come that are there."""
    changed = made_of(terms[:cut])
    for term in terms[cut:]:
        changed.add(term)
    for term in terms[:gone]:
        changed.drop(term)
    assert changed.similar_to(asked, wide=wide) == made_of(terms[gone:]).similar_to(asked, wide=wide)


@given(TERM_LISTS)
def test_of_a_term_that_went_nothing_is_left(terms: list[str]) -> None:
    """What was forgotten stands nowhere."""
    similar = made_of([*terms, "xylophon"])
    assert "xylophon" in str(vars(similar))
    similar.drop("xylophon")
    assert "xylophon" not in str(vars(similar))
