"""Related words: what may be said for a word of a question, and which texts say it so."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest
from test_matching import Text, columns_of, occurrences
from test_recall import Robot

from edgemem.recall.candidates import make_filter
from edgemem.recall.lexical import Statistics
from edgemem.recall.related_words import FILE, note_related, related_to
from edgemem.recall.sources import TURN
from edgemem.recall.stemmer import stem, stems
from edgemem.recall.view import View
from edgemem.records import Reader

LINES = [
    line
    for line in files("edgemem.recall").joinpath(FILE).read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]


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


def noted(texts, *said, reader=None, counts=None):
    """Return how much of a question texts say by other words."""
    columns = columns_of(texts)
    view = View(columns, make_filter(reader))
    here = [each for each in texts if each.shown]
    if counts is None:
        counts = {one: sum(one in each.words for each in here) for one in said}
    statistics = Statistics(docs=len(here), terms=sum(each.length for each in here), counts=counts)
    note_related(view, said, lambda wanted: occurrences(columns, texts, wanted, parts=2), statistics)
    assert not view.related[-1]
    return view.related[:-1].tolist()


def test_every_line_is_a_group():
    """Words in small letters, each once: at least two of one meaning, or some on both sides of a colon."""
    for line in LINES:
        assert re.fullmatch(r"[a-z-]+(?: [a-z-]+)+|[a-z-]+(?: [a-z-]+)*:(?: [a-z-]+)+", line), line
        assert not re.search(r"-(?:-|\s|:|$)|(?:^|\s)-", line), line
        for words in (part.split() for part in line.split(":")):
            assert len(set(words)) == len(words), line


def test_what_means_the_same_finds_one_another():
    """Also the forms of a verb that no stemmer brings together."""
    assert ("sofa",) in related_to(stem("couch")).same
    assert (stem("couch"),) in related_to("sofa").same
    assert ("bought",) in related_to("buy").same


def test_a_kind_finds_what_is_of_it_and_not_the_other_way_round():
    """Who asks for a pet may mean the rabbit; who asks for the rabbit means no other pet."""
    assert ("rabbit",) in related_to("pet").kinds
    assert not {("pet",), ("dog",)} & {phrase for some in related_to("rabbit") for phrase in some}


@pytest.mark.parametrize("word", ["", " ", ":", "-", "\n", "washing-machine", "qqq", "sof", "coucher", "42"])
def test_what_is_no_word_of_it_has_nothing_related(word):
    """Whatever is asked for, also what stands in the file as a sign."""
    assert not any(related_to(word))


def test_nothing_is_related_to_itself_or_in_two_ways():
    """So no word is counted twice."""
    for one in stems(sorted({word for line in LINES for word in re.findall("[a-z]+", line)})):
        same, kinds = related_to(one)
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


def test_another_language_finds_its_own_words_alone(robot):
    """Hund is a dog, but "Pet" in a German question is a name as well."""
    robot.say(1, "Der rabbit frisst eine Karotte.")
    robot.say(2, "Das Wetter ist heute nicht gut.")
    found = robot.recall("Was ist denn das Pet und wo ist es?", k=2)
    assert all("related" not in item.why for item in found)


def test_who_is_named_is_no_word(robot):
    """Bill is no invoice."""
    robot.store.add_fact("bill.drink", "tea")  # his name is looked for, then
    robot.say(1, "The invoice is on the shelf.", speaker="bill")
    robot.say(2, "The train was late.", speaker="bill")
    found = robot.recall("What does Bill want?", k=2)
    assert all("related" not in item.why for item in found)
