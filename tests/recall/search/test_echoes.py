"""Echoes: who asks once more is told the answer, and what was said twice is told once."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import HandClock

import edgemem
from edgemem.inspect.replay import Line, Player
from edgemem.memory import Memory
from support.cli import run
from support.homes import home_of

ASKED = "Where is the spare key?"
PLEASES = "Do you know", "Can you tell me"
ANSWER = "I hung the spare key behind the shed."
REPLY = "All right."
SMALL_TALK = (
    "The neighbours are painting their fence green this week.",
    "We had pancakes with blueberries for breakfast.", "I watched a film about whales last night.",
    "The tram was full again this morning.", "My tomato plants look thirsty today.",
    "Grandma sends her love from the seaside.",
)  # fmt: skip
LANGUAGES = {
    "¿Dónde está la llave de repuesto?": "La llave de repuesto cuelga detrás del cobertizo.",
    "wo ist der ersatzschlüssel": "Der Ersatzschlüssel hängt hinter dem Schuppen.",
    "备用钥匙在哪里": "备用钥匙挂在棚子后面。",
    "chìa khóa dự phòng ở đâu": "Chìa khóa dự phòng treo sau nhà kho.",
}


@pytest.fixture(params=["all-minilm-l6-v2", ""], ids=["with MiniLM", "by words"])
def home(request: pytest.FixtureRequest, tmp_path: Path, minilm: Path) -> Path:
    assert minilm
    return home_of(tmp_path / "home", f'[llama]\nembedder = "{request.param}"\n')


def say(memory: Memory, *spoken: str, speaker: str = "alice") -> None:
    player = Player(memory)
    for n, text in enumerate(spoken):
        player.turn(Line(say=text, speaker=speaker, session=f"{speaker} {n}", reply=REPLY))


def messages(memory: Memory, query: str, k: int = 5) -> list[str]:
    return [item.text for item in memory.recall(query, k=k, kinds={"turn"})]


@pytest.mark.parametrize(
    ("asked", "query"),
    [
        ([ASKED] * 3, ASKED),
        (["where is the spare key"] * 3, "where is the spare key"),
        ([ASKED, "where is the spare key", "Where's the spare key?"], "spare key"),
        (
            ["Pip, where is the spare key?", *(f"{please} where the spare key is?" for please in PLEASES)],
            ASKED,
        ),
    ],
    ids=["the same", "as recognisers write it", "some words of it", "with a please"],
)
def test_the_answer_stands_before_the_question(home: Path, asked: Sequence[str], query: str) -> None:
    """What only repeats the question stands behind what answers it, through Python and the command line alike."""
    with edgemem.open(home, worker=False) as memory:
        say(memory, *SMALL_TALK[:3], ANSWER, *SMALL_TALK[3:])
        say(memory, *asked, speaker="ben")
        memory.idle(10)
        hits = memory.recall(query, k=3)
        assert hits[0].text == ANSWER
        assert [item.score for item in hits] == sorted((item.score for item in hits), reverse=True)
    shown = run("recall", query, "-k", 3, "--home", home, "--json")
    assert [item["text"] for item in json.loads(shown.output)] == [item.text for item in hits]


def test_a_question_is_known_in_each_language(home: Path) -> None:
    """With a question mark or without."""
    with edgemem.open(home, worker=False) as memory:
        say(memory, *LANGUAGES.values(), *SMALL_TALK, *LANGUAGES, *LANGUAGES)
        assert {question: messages(memory, question)[0] for question in LANGUAGES} == LANGUAGES


def test_who_looks_for_a_phrase_finds_it(home: Path) -> None:
    """A message that tells something is found by its own words, also where it asks beside it, or has words that ask."""
    phrases = (
        "the spare key hangs behind the shed", "Anna told me how to open the shed.", "I got a spare key! How are you?",
        "The key is in the shed.",
    )  # fmt: skip
    with edgemem.open(home, worker=False) as memory:
        others = ("The shed has a new lock.", "Anna has a spare bicycle.", "How is Anna?")
        say(memory, *phrases, *others, *SMALL_TALK)
        assert [phrase for phrase in phrases if phrase not in messages(memory, phrase, k=2)] == []


def test_copies_of_a_text_are_told_once(home: Path) -> None:
    """Of what was said several times in the same words the newest is told, and the places of the others go to what else there is."""
    other, newest = "The spare key is a blue one.", "the spare key hangs behind the shed"
    with edgemem.open(home, worker=False) as memory:
        say(memory, *["The spare key hangs behind the shed."] * 3, other)
        say(memory, newest, *SMALL_TALK, speaker="ben")
        assert {item.text for item in memory.recall("spare key", k=2)} == {newest, other}
        alone = memory.recall("spare key behind the shed", k=1)[0]
        assert (alone.text, alone.speaker) == (newest, "ben")


def test_what_two_people_say_of_themselves_is_told_of_both(home: Path) -> None:
    """The same words of two people who say "I" are no copies."""
    with edgemem.open(home, worker=False) as memory:
        for speaker in ("alice", "ben"):
            say(memory, "I am allergic to walnuts.", "I am allergic to walnuts.", speaker=speaker)
        say(memory, *SMALL_TALK)
        hits = memory.recall("Who is allergic to walnuts?")
        assert sorted(item.speaker or "" for item in hits if "walnuts" in item.text) == ["alice", "ben"]


def test_of_copies_the_one_of_the_day_that_is_asked_for_is_told(home: Path, hand: HandClock) -> None:
    """What was said on several days in the same words was said on that day, too."""
    with edgemem.open(home, worker=False, clock=hand.clock) as memory:
        for day in range(4):
            say(memory, "The courier brought a parcel.", speaker=f"day {day}")
            hand.advance(86400)
        hits = memory.recall("Did the courier bring a parcel three days ago?")
        assert [item.speaker for item in hits if "parcel" in item.text] == ["day 1"]


def test_each_conversation_counts_in_which_something_was_said(home: Path) -> None:
    """Who asks when something was talked about is told of the same words in each conversation, questions too."""
    with edgemem.open(home, worker=False) as memory:
        say(memory, *SMALL_TALK, *[ANSWER] * 3)
        say(memory, ASKED, speaker="ben")
        hits = memory.recall_sessions("spare key", k=4)
        assert {entry.session for entry in hits} == {"alice 6", "alice 7", "alice 8", "ben 0"}
        assert all(entry.score > 0 for entry in hits)


def test_only_the_question_itself_is_found_with_no_score(home: Path) -> None:
    """Where nothing answers, who asked is still found, and nobody takes that for an answer."""
    with edgemem.open(home, worker=False) as memory:
        say(memory, ASKED, ASKED)
        *others, hits = memory.recall(ASKED)
        assert (hits.text, hits.score) == (ASKED, 0.0)
        assert all(item.text == REPLY and item.score < 0.5 for item in others)
