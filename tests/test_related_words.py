"""Related words: what may be said for a word of a question, and which texts say it so."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from test_matching import Text, columns_of, occurrences
from test_recall import Robot

from edgemem.recall.candidates import make_filter
from edgemem.recall.languages import TELLING, empty_words
from edgemem.recall.lexical import Statistics
from edgemem.recall.number_words import with_digits
from edgemem.recall.related_words import LANGUAGES, groups_of, note_related, related_to
from edgemem.recall.sources import TURN
from edgemem.recall.stemmer import stem, stems
from edgemem.recall.view import View
from edgemem.recall.words import without_accents
from edgemem.records import Reader

LETTERS = {"en": "a-z", "de": "a-zäöüß", "es": "a-zñáéíóúü"}
BOTH = ["de", "es"]


def words_of(language):
    """Return the words of a language, each once, without accents."""
    return sorted(set(re.findall("[a-z]+", without_accents(" ".join(groups_of(language))))))


@pytest.fixture
def robot(tmp_path, clock):
    """Return a robot that has words alone."""
    made = Robot(tmp_path, clock)
    yield made
    made.close()


def text(number, *words, **more):
    """Return a text of some stems that all may read."""
    plain = {"kind": TURN, "session": 1, "turn": number, "level": 0, "owner": None, "past": False}
    return Text(number, words=words, **{**plain, **more})


def noted(texts, *said, reader=None, counts=None, language="en"):
    """Return how much of a question texts say by other words."""
    columns = columns_of(texts)
    view = View(columns, make_filter(reader))
    here = [each for each in texts if each.shown]
    if counts is None:
        counts = {one: sum(one in each.words for each in here) for one in said}
    statistics = Statistics(docs=len(here), terms=sum(each.length for each in here), counts=counts)
    note_related(
        view, said, lambda wanted: occurrences(columns, texts, wanted, parts=2), statistics, language
    )
    assert not view.related[-1]
    return view.related[:-1].tolist()


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_every_line_is_a_group(language):
    """Words in small letters, each once: at least two of one meaning, or some on both sides of a colon."""
    word = f"[{LETTERS[language]}-]+"
    for line in groups_of(language):
        assert re.fullmatch(f"{word}(?: {word})+|{word}(?: {word})*:(?: {word})+", line), line
        assert not re.search(r"-(?:-|\s|:|$)|(?:^|\s)-", line), line
        for words in (part.split() for part in without_accents(line).split(":")):
            assert len(set(words)) == len(words), line


@pytest.mark.parametrize("language", BOTH)
def test_every_group_can_be_found(language):
    """No word of it tells nothing or is a number, which no text has as it is written; no group is one stem only."""
    empty = empty_words(language) - {without_accents(word) for word in TELLING[language]}
    for line in groups_of(language):
        plain = without_accents(line)
        words = re.findall("[a-z]+", plain)
        assert not empty.intersection(words), line
        assert all(with_digits([word], language) == [word] for word in words), line
        assert (
            ":" in line or len({" ".join(stems(each.split("-"), language)) for each in plain.split()}) > 1
        ), line


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_a_word_is_found_by_its_stem(language):
    """Though the file is searched as it is written, by the letters that its stem begins with."""
    for line in groups_of(language):
        same, _, kinds = without_accents(line).partition(":")
        asked = [word for word in same.split() if word.isalpha()]
        for word, other in zip(asked, [*asked[1:], *asked[:1]], strict=True):
            related = related_to(stem(word, language), language)
            wanted = [
                (stem(each, language),) for each in (kinds.split() if kinds else [other]) if each.isalpha()
            ]
            for phrase in wanted:
                assert phrase == (stem(word, language),) or phrase in {*related.same, *related.kinds}, line


def test_what_means_the_same_finds_one_another():
    """Also the forms of a verb that no stemmer brings together."""
    assert ("sofa",) in related_to(stem("couch")).same
    assert (stem("couch"),) in related_to("sofa").same
    assert ("bought",) in related_to("buy").same


def test_a_kind_finds_what_is_of_it_and_not_the_other_way_round():
    """Who asks for a pet may mean the rabbit; who asks for the rabbit means no other pet."""
    assert ("rabbit",) in related_to("pet").kinds
    assert not {("pet",), ("dog",)} & {phrase for some in related_to("rabbit") for phrase in some}


@pytest.mark.parametrize("word", ["", " ", ":", "-", "\n", "washing-machine", "qqq", "couc", "coucher", "42"])
def test_what_is_no_word_of_it_has_nothing_related(word):
    """Whatever is asked for, also what stands in the file as a sign."""
    assert not any(any(related_to(word, language)) for language in LANGUAGES)


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_nothing_is_related_to_itself_or_in_two_ways(language):
    """So no word is counted twice."""
    for one in stems(words_of(language), language):
        same, kinds = related_to(one, language)
        assert (one,) not in {*same, *kinds}
        assert not set(same) & set(kinds)
        assert len(set(same)) == len(same)


def test_a_text_counts_that_says_a_word_by_another_one():
    """As much as all that may be said for it tells apart; what has the very word counts nothing."""
    texts = [text(1, "sofa"), text(2, "couch", "sofa"), text(3, "rabbit"), text(4, "bread")]
    rarity = Statistics(docs=4, terms=4, counts={}).rarity
    assert noted(texts, "couch", "blue") == [pytest.approx(rarity(2) / (rarity(1) + rarity(0))), 0, 0, 0]
    assert noted(texts, "pet") == [0, 0, pytest.approx(rarity(1) / rarity(0)), 0]


def test_what_means_the_same_counts_more_than_what_is_of_a_kind():
    """Of a kind is more, and each tells less apart."""
    rest = [text(n, "soup") for n in range(10, 20)]
    meds, pill, both, *_ = noted([text(1, "med"), text(2, "pill"), text(3, "med", "pill"), *rest], "medicin")
    assert both == meds > pill > 0


def test_a_second_word_of_the_same_meaning_adds_nothing():
    """A text that says three of them says one thing; another word of the question adds its own."""
    two, one, more, rest = noted(
        [text(1, "sofa", "sette"), text(2, "sofa"), text(3, "sofa", "rabbit"), text(4, "soup")],
        "couch",
        "pet",
    )
    assert more > two == one > rest == 0


def test_words_that_belong_together_count_where_all_of_them_stand():
    """A machine is no washing machine."""
    found = noted([text(1, "machin"), text(2, "wash"), text(3, "wash", "new", "machin")], "applianc")
    assert found[:2] == [0, 0]
    assert found[2] > 0


def test_what_is_said_everywhere_tells_nothing():
    """Where more than a few texts and more than one in twenty say it, none of them counts."""
    few = [text(n, "sofa") for n in range(1, 4)]
    assert all(noted(few, "couch"))
    rest = [text(n, "bread") for n in range(10, 50)]
    assert any(noted([*few, *rest], "couch"))
    many = [text(n, "sofa") for n in range(1, 5)]
    assert not any(noted([*many, *rest], "couch"))
    assert any(noted([*many, *rest, *(text(n, "soup") for n in range(50, 90))], "couch"))


def test_what_may_not_be_read_leaves_no_trace():
    """It does not count, nor does it make the others count less."""
    texts = [text(n, "sofa" if n == 1 else "bread") for n in range(1, 30)]
    secret = [text(40 + n, "sofa", level=2, owner="ann", shown=False) for n in range(2)]
    bob, ann = Reader("bob"), Reader("ann")
    alone, beside = noted(texts, "couch", reader=bob), noted([*texts, *secret], "couch", reader=bob)
    assert beside[: len(texts)] == alone
    assert any(alone)
    assert not any(beside[len(texts) :])
    assert all(noted([*texts, *secret], "couch", reader=ann, counts={})[len(texts) :])


@pytest.mark.parametrize("indexed", [False, True])
def test_a_question_finds_what_was_said_in_other_words(robot, indexed):
    """Without any embedder, just said or indexed; `why` tells that."""
    robot.say(1, "We gave the rabbit a carrot.")
    for n in range(2, 40):
        robot.say(n, f"The train number {n} was late.", session=f"{n}")
    if indexed:
        robot.idle()
        robot.index.warm()
    found = robot.recall("Is there a pet?", k=1)
    assert [item.text for item in found] == ["We gave the rabbit a carrot."]
    assert "related" in found[0].why


def test_the_very_word_counts_more(robot):
    """Who says "couch" is asked for before who says "sofa"."""
    robot.say(1, "The sofa came on a lorry.")
    robot.say(2, "The couch came on a lorry.")
    assert robot.texts("Who wanted a couch?", k=2)[0] == "The couch came on a lorry."


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("Wir haben die Paradeiser auf der Terrasse gegossen.", "Wo sind denn die Tomaten?"),
        ("Der Kasten von der Oma ist kaputt.", "Was ist mit dem Schrank?"),
        ("Der Installateur kommt und repariert das Rohr.", "Wann ist der Klempner bei uns?"),
        ("El carro de Pablo está en la calle.", "¿Dónde está el coche?"),
        ("He llevado la computadora a la escuela.", "¿Qué pasa con el ordenador?"),
        ("El conejo se ha comido una zanahoria.", "¿Tenemos una mascota?"),
    ],
)
@pytest.mark.parametrize("indexed", [False, True])
def test_other_languages_find_it_too(robot, said, asked, indexed):
    """In German and Spanish, by the words of Vienna as by those of Berlin, without any embedder."""
    robot.say(1, said)
    rest = "El tren número {} llegó tarde." if "¿" in asked else "Der Zug Nummer {} war zu spät."
    for n in range(2, 40):
        robot.say(n, rest.format(n), session=f"{n}")
    if indexed:
        robot.idle()
        robot.index.warm()
    found = robot.recall(asked, k=1)
    assert [item.text for item in found] == [said]
    assert "related" in found[0].why


def test_a_text_counts_whose_language_nothing_tells():
    """It has English stems: of Wagen another one than the German."""
    german, english = stem("wagen", "de"), stem("wagen")
    assert german != english
    texts = [text(1, german), text(2, english), text(3, "hund")]
    assert [value > 0 for value in noted(texts, "auto", language="de")] == [True, True, False]


@pytest.mark.parametrize(
    ("word", "language", "never"),
    [
        ("gift", "de", ["present"]),
        ("gift", "en", ["giftig", "toxisch"]),
        ("die", "de", ["died", "dead", "funeral"]),
        ("fast", "de", ["quick", "quickly"]),
        ("hell", "en", ["licht", "lampe", "licht"]),
        ("bald", "en", ["demnachst"]),
        ("pan", "en", ["bread", "barra", "panecillo"]),
        ("pan", "es", ["saucepan", "frying"]),
        ("pie", "es", ["dessert", "cake"]),
        ("arm", "en", ["bedurftig"]),
        ("wand", "en", ["mauer"]),
        ("red", "en", ["internet", "wifi"]),
        ("once", "es", ["one"]),
    ],
)
def test_a_word_of_two_languages_means_what_its_own_says(word, language, never):
    """A German Gift is no present, and a Spanish pie no dessert."""
    same, kinds = related_to(stem(word, language), language)
    pulled = {part for phrase in (*same, *kinds) for part in phrase}
    assert not pulled & {*stems(never), *stems(never, "de"), *stems(never, "es")}


def test_a_question_is_looked_up_in_its_own_language(robot):
    """Gift is a present in an English question, and nothing that was said in a German one."""
    robot.say(1, "The present for Ann is in the wardrobe.")
    for n in range(2, 30):
        robot.say(n, f"The train number {n} was late.", session=f"{n}")
    assert "related" in robot.recall("Where did we put the gift?", k=1)[0].why
    assert all("related" not in item.why for item in robot.recall("Wo haben wir das Gift?", k=5))
    assert all("related" not in item.why for item in robot.recall("món quà ở đâu vậy gift?", k=5))


def test_a_name_is_no_word_in_another_language_either(robot):
    """Rosa is no colour where she speaks."""
    robot.store.add_fact("rosa.drink", "tee")
    robot.say(1, "Der pinke Stuhl ist im Flur.", speaker="rosa")
    robot.say(2, "Das Wetter ist heute nicht gut.", speaker="rosa")
    assert all("related" not in item.why for item in robot.recall("Was ist denn mit der Rosa?", k=2))


def test_a_language_is_read_when_it_is_asked_for():
    """An English question reads no German file; importing reads none at all."""
    code = (
        "from edgemem.recall import related_words as r\n"
        "print(r._text.cache_info().currsize)\n"
        "r.related_to('sofa'); print(r._text.cache_info().currsize)\n"
        "r.related_to('sofa', 'de'); print(r._text.cache_info().currsize)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["0", "1", "2"]


def test_who_is_named_is_no_word(robot):
    """Bill is no invoice."""
    robot.store.add_fact("bill.drink", "tea")  # his name is looked for, then
    robot.say(1, "The invoice is on the shelf.", speaker="bill")
    robot.say(2, "The train was late.", speaker="bill")
    found = robot.recall("What does Bill want?", k=2)
    assert all("related" not in item.why for item in found)
