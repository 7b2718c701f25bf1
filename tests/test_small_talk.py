"""Small talk: what has the form of a question and wants nothing of a memory is told from what a memory answers."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.bench.recall_talk import HALVES, phrases
from edgemem.context.asking import asks
from edgemem.context.small_talk import wants_memory


@pytest.mark.parametrize("half", HALVES)
def test_most_idle_phrases_want_nothing(half: str) -> None:
    """Seven of eight phrases that are said to assistants all day, also where no rule was made by looking at them."""
    idle = phrases("idle", half)
    assert sum(map(wants_memory, idle)) <= len(idle) / 8
    assert sum(map(asks, idle)) > len(idle) * 0.9


@pytest.mark.parametrize("half", HALVES)
def test_what_a_memory_answers_is_asked_of_it(half: str) -> None:
    """Hardly any such question is taken for small talk."""
    needed = phrases("needed", half)
    assert sum(map(wants_memory, needed)) >= len(needed) * 0.95


def said(need: str, half: int) -> list[str]:
    """Return what stands in `data/utterances.toml`; the lines of half 0 were looked at when rules were made."""
    written = (Path(__file__).parent / "data" / "utterances.toml").read_bytes()
    groups = msgspec.toml.decode(written, type=dict[str, dict[str, str]])[need]
    return [one for group in groups.values() for one in group.split("\n") if crc32(one.encode()) % 2 == half]


@pytest.mark.parametrize(("half", "least"), [(0, 0.967), (1, 0.944)])
def test_nearly_all_that_people_want_to_know_is_asked_of_a_memory(half: int, least: float) -> None:
    """However freely they put it; what is left are questions like "how much?", which name nothing."""
    needed = said("needed", half)
    assert sum(map(wants_memory, needed)) >= len(needed) * least


@pytest.mark.parametrize(("half", "most"), [(0, 0.517), (1, 0.504)])
def test_idle_questions_are_not_taken_for_more_often(half: int, most: float) -> None:
    """Half of what has no use for a memory is told from what has, in words that no rule was made for."""
    idle = said("idle", half)
    assert sum(map(wants_memory, idle)) <= len(idle) * most


@pytest.mark.parametrize(
    "utterance",
    [
        "How are you doing today?",
        "oh hey, how are you",
        "Good morning, did you sleep well?",
        "Can you whistle, Pip?",
        "could you dim the lights",
        "Why do cats purr",
        "How many legs does a lobster have?",
        "What's the capital of Mongolia? It's for the crossword.",
        "Is it going to rain today?",
        "Did the lights flicker just now?",
        "Isn't the light lovely this evening?",
        "I can't decide what to wear. But who am I to judge.",
        "I've got paint on my nose, haven't I? What do you say to that, Pip?",
        "gizmo how are you",
        "morning pip how are we today",
        "I wonder how we ever lived without the dishwasher.",
        "The baker winked at me, I don't know what that means.",
        "I forgot why I came in here.",
        "I don't know what to say.",
        "Is anybody home?",
        "Are we there yet?",
        "Guess what?",
        "How come?",
        "Do you know that song?",
        "What's the hurry?",
        "Is a tomato a fruit?",
        "Where do penguins live?",
        "What day is it?",
        "What's today's date?",
        "How many legs does a spider have?",
        "Wie geht es dir?",
        "¿Qué hora es?",
        "Comment vas-tu ?",
        "bạn có khỏe không?",
        "现在几点",
        "I like it here.",
        "",
    ],
)
def test_it_wants_nothing_of_a_memory(utterance: str) -> None:
    """Greetings, deeds, the world at large, the clock, the sky, and what asks for a nod."""
    assert not wants_memory(utterance)


@pytest.mark.parametrize(
    "utterance",
    [
        "How are you doing today? And where is the torch?",
        "Could you tell me when Anna comes?",
        "could you dim the lights as Nina likes it",
        "Would you fetch my slippers?",
        "Could you call Ngozi?",
        "Can my cats have milk?",
        "I'm at the gate. What was it?",
        "I want the former state, not the present, of the drill. What was it?",
        "Ich brauche meine Papiere, wo sind sie?",
        "What's the temperature for the yoghurt maker?",
        "What time is my appointment?",
        "Isn't the plumber coming on Friday?",
        "What do you know about the car?",
        "Do you remember where the passports are?",
        "What do you think of the plumber?",
        "What did I wish for?",
        "who is coming?",
        "Is it time for my pills?",
        "What's going on today?",
        "What's next?",
        "Did you see my keys?",
        "Have you seen Ben?",
        "Do you know a good plumber?",
        "Do you think Mara is coming?",
        "Why do you think Mara is angry?",
        "What is the best way to fix the tap?",
        "Is this my cup?",
        "Does anyone like olives?",
        "Why is the lamp always on?",
        "Is there anything better for my cough?",
        "When will the renovation be over?",
        "How long do I have to take the antibiotics?",
        "What was that song called?",
        "Why did you turn off the heating?",
        "Are you done with the dishes?",
        "Are we ready for the guests?",
        "Was the tap leaking?",
        "pip where is my phone",
        "hey do you know if nora is coming",
        "you know the blue folder where'd it go",
        "I wonder who has the spare key, did anyone say?",
        "The nurse wants to know my blood type. What is it?",
        "Is that the one we bought in Spain?",
        "Could you put the alarm to the time we agreed?",
        "Who are you supposed to call in an emergency?",
        "I forgot why we changed banks.",
        "Khi nào chúng ta đi?",
        "钥匙在哪里",
        "Where is the torch? " * 100,
    ],
)
def test_in_doubt_a_memory_is_asked(utterance: str) -> None:
    """What was told, what is ours, how a deed was wished for, a second question, and what refers to what was just said."""
    assert wants_memory(utterance)


@given(st.text(max_size=300))
def test_anything_may_be_said(utterance: str) -> None:
    """Nothing is asked of a memory that is not asked at all."""
    assert not wants_memory(utterance) or asks(utterance)


def test_a_long_utterance_takes_no_longer_than_its_length() -> None:
    """Hostile text of 100 kB is looked at once, and is no small talk."""
    assert wants_memory("can you " * 12_000 + "?")
