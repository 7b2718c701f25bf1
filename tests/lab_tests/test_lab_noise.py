"""A recogniser's mistakes: as many as asked for, by sound, the same each time, and nothing but what people said.

Misheard names and words are measured by pairs of our own, half of which nobody looks at.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import edgemem
from edgemem.bench.ground import quiet
from edgemem.recall.text.analyse import plain_words
from lab.misheard import recall_at
from lab.names import OTHERS, K, fill, finds, grouped, pairs
from lab.noise import cardinal, heard, noisy, ordinal, spoken, word_errors
from lab.weeks import Weeks, weeks
from lab.weeks_world import FormSet


def said(text: str) -> list[str]:
    """Return the words of a text as they are spoken."""
    return [each.word for each in spoken(text)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Where's Dae-jung's PIN? It's 4291!", "where's dae jung's pin it's four two nine one"),
        ("At 7:30, 21 people; at 19:05 one.", "at seven thirty twenty one people at nineteen oh five one"),
        ("At 7:00", "at seven o'clock"),
        ("the 3rd, the 21st", "the third the twenty first"),
        ("305 g of rye, 1,200 m, 2.5 %", "three hundred and five g of rye one thousand two hundred m two point five percent"),
        ("1234567890", "one two three four five six seven eight nine zero"),
        ("007", "zero zero seven"),
        ("20° & 5€", "twenty degrees and five euros"),
        ("Aoife’s “Ölkanne”", "aoife's ölkanne"),
        ("", ""),
    ],
)  # fmt: skip
def test_what_is_read_aloud(text: str, words: str) -> None:
    """Small letters, no punctuation but the apostrophe within a word, and numbers as people read them."""
    assert said(text) == words.split()


def test_numbers_have_words() -> None:
    """Hundreds are joined by an and; places in a row end as English has it."""
    assert " ".join(cardinal(1_000_019)) == "one million and nineteen"
    assert " ".join(cardinal(2_340)) == "two thousand three hundred and forty"
    assert [" ".join(ordinal(n)) for n in (1, 12, 20, 33)] == [
        "first",
        "twelfth",
        "twentieth",
        "thirty third",
    ]


def test_names_are_told_by_their_capitals() -> None:
    """A capital where a sentence begins says nothing, nor does an I."""
    assert [each.word for each in spoken("Today I saw Oleg. Was Mia there?") if each.is_name] == [
        "oleg",
        "mia",
    ]


@pytest.mark.parametrize("forms", ["learnt", "unseen"])
@pytest.mark.parametrize("rate", [0.1, 0.2])
def test_as_many_mistakes_as_asked_for(forms: FormSet, rate: float) -> None:
    """The Levenshtein distance over the words of what was told, and of what is asked, is within .01 of the rate."""
    clean = weeks(1, forms)
    wrong = noisy(clean, rate, seed=1)
    told = [
        (one.text, other.text)
        for one, other in zip(clean.turns, wrong.turns, strict=True)
        if one.role == "user"
    ]
    asked = [(one.text, other.text) for one, other in zip(clean.questions, wrong.questions, strict=True)]
    for both in (told, asked):
        errors = sum(word_errors(said(one), other.split()) for one, other in both)
        assert errors / sum(len(said(one)) for one, _ in both) == pytest.approx(rate, abs=0.01)


def test_weeks_keep_all_but_their_words() -> None:
    """Ids, times, speakers and evidence stay, and so does what the robot and its tools say, unless they were heard too."""
    clean = weeks(1)
    for robot in (False, True):
        wrong = noisy(clean, 0.2, robot=robot)
        for one, other in zip(clean.turns, wrong.turns, strict=True):
            assert (one.id, one.session, one.at, one.speaker, one.role) == (
                other.id, other.session, other.at, other.speaker, other.role)  # fmt: skip
            assert other.text == one.text or one.role == "user" or (robot and one.role == "assistant")
        changed = {
            one.role for one, other in zip(clean.turns, wrong.turns, strict=True) if one.text != other.text
        }
        assert changed == ({"user", "assistant"} if robot else {"user"})
        for question, heard_ in zip(clean.questions, wrong.questions, strict=True):
            assert (question.id, question.evidence, question.answer) == (
                heard_.id,
                heard_.evidence,
                heard_.answer,
            )


def test_without_mistakes_only_the_writing_changes() -> None:
    """At a rate of 0 all words are right, in small letters and without punctuation."""
    assert heard("Oleg, where's the PIN 12?", 0.0) == "oleg where's the pin twelve"


@given(st.text(max_size=60), st.sampled_from([0.0, 0.1, 0.5, 1.0]), st.integers(0, 3))
def test_any_text_is_heard_the_same_each_time(text: str, rate: float, seed: int) -> None:
    """Whatever is said, it is written without capitals and without marks, and again in the same way."""
    written = heard(text, rate, seed)
    assert written == heard(text, rate, seed)
    assert not set(written) & set('.,?!;:"“”()[]<>@%0123456789')
    if spoken(text):
        assert written
        wanted = len(said(text)) * rate
        assert word_errors(said(text), written.split()) <= wanted * 4 / 3 + 1
    if rate == 0:
        assert written.split() == said(text)


def test_what_is_said_twice_is_misheard_in_two_ways() -> None:
    """The mistakes of the weeks belong to a message, not to its words."""
    clean = weeks(1)
    wrong = noisy(clean, 0.3)
    ways: dict[str, set[str]] = {}
    for one, other in zip(clean.turns, wrong.turns, strict=True):
        if one.role == "user":
            ways.setdefault(one.text, set()).add(other.text)
    assert sum(len(each) > 1 for each in ways.values()) > 20


@pytest.mark.parametrize("word", ["the", "a", "yes", "Oleg", "cello"])
def test_one_word_is_never_lost(word: str) -> None:
    """However bad the hearing, something is written of what was said."""
    for seed in range(30):
        assert heard(word, 1.0, seed)


def test_another_seed_makes_other_mistakes() -> None:
    """A text is misheard in many ways, and in the same way by the same seed on every Python."""
    text = "Niamh keeps the ice cream in the kitchen drawer behind the flour tin."
    ways = {heard(text, 0.3, seed) for seed in range(20)}
    assert len(ways) > 15
    assert any("neve" in way or "neeve" in way or "neave" in way for way in ways)
    assert any("i scream" in way for way in ways)
    assert heard(text, 0.3, 1) == FIXED


FIXED = "niamh keeps the ice creams in the kitchen drawer behind the flours tin"


@given(st.lists(st.sampled_from("abc"), max_size=7), st.lists(st.sampled_from("abc"), max_size=7))
def test_word_errors_are_a_distance(one: list[str], other: list[str]) -> None:
    """None for the same, the same in both directions, and never more than the longer has words."""
    assert (word_errors(one, other) == 0) == (one == other)
    assert word_errors(one, other) == word_errors(other, one)
    assert abs(len(one) - len(other)) <= word_errors(one, other) <= max(len(one), len(other))


def test_the_halves_share_no_name() -> None:
    """There are two hundred pairs in each half; no name stands in both, and none is heard as it is written."""
    tuned, held_out = pairs("tuned"), pairs("held_out")
    assert min(len(tuned), len(held_out)) >= 200
    names = [{tuple(plain_words(name)) for name, _ in half} for half in (tuned, held_out)]
    assert not names[0] & names[1]
    assert all(plain_words(name) != heard.split() for name, heard in tuned + held_out)


def test_each_memory_knows_sixty_others(tmp_path: Path) -> None:
    """Every pair is asked once, in a memory of sixty-one people; by the right name, everybody is found."""
    asked = pairs("tuned")
    groups = grouped(asked)
    assert sorted(pair for group in groups for pair in group) == sorted(asked)
    assert all(
        len({tuple(plain_words(name)) for name, _ in group}) == len(group) <= OTHERS + 1 for group in groups
    )
    with edgemem.open(tmp_path / "home", profile=quiet(), worker=False) as memory:
        people = fill(memory, [name for name, _ in groups[-1]])
        memory.idle(30)
        assert len(people) == OTHERS + 1
        assert {way for _, way in people.values()} == {"fact", "own fact", "turn"}
        assert all(finds(memory, people, name, name.lower())[0] for name in people)
        assert not finds(memory, people, next(iter(people)), "zzyzx")[0] or len(people) <= K


def test_recall_is_measured_on_what_was_heard(tmp_path: Path) -> None:
    """A few sessions are found as they were written, and the same with mistakes, under the same ids."""
    whole = weeks(1, "learnt")
    kept = {turn.session for turn in whole.turns[:200]}
    turns = tuple(turn for turn in whole.turns if turn.session in kept)
    ids = {turn.id for turn in turns}
    few = Weeks(turns, tuple(one for one in whole.questions if one.evidence and ids.issuperset(one.evidence)))
    clean = recall_at(tmp_path / "clean", few, 5, asked=20, meaning=False)
    wrong = recall_at(tmp_path / "wrong", noisy(few, 0.6), 5, asked=20, meaning=False)
    assert clean > 0.4
    assert wrong <= clean
