"""What a robot learns of plain talk, from the words to the facts."""

from __future__ import annotations

import time
from typing import get_args

import pytest

import edgemem
from edgemem.config import LearnerName, LearnSettings, LlamaSettings, Profile
from edgemem.learn.extraction import extract
from edgemem.learn.tagger import LANGUAGES, file_of, tagger_of
from support.homes import tell

ALL_LEARN = LearnSettings(get_args(LearnerName))
FACTS = [
    "my locker code is 4471",
    "put oat milk and bananas on the shopping list",
    "the spare fuses are in the drawer under the oven",
    "i've got the dentist on tuesday at ten",
    "Meine Lesebrille liegt in der Schublade im Flur.",
    "schreib hafermilch und bananen auf die einkaufsliste",
    "die pin vom tresor ist 7312",
    "Am Dienstag um zehn hab ich Zahnarzt.",
]
NOTHING = [
    "is the drill in the shed", "what would you do if i were allergic to nuts", "the keys are driving me mad", "play some jazz",
    "he says the code is 4471 but he's lying", "my sister is late", "once upon a time there was a king called otto",
    "ist die bohrmaschine im keller", "wenn ich allergisch wäre müsste ich verhungern", "mach das licht aus",
    "im film heißt der hund bello", "mir ist so kalt heute",
]  # fmt: skip


def test_plain_statements_are_learnt(tmp_path) -> None:
    """Most of them, and each as a fact with the words that were said."""
    with edgemem.open(
        tmp_path / "home", profile=Profile(llama=LlamaSettings(embedder=""), learn=ALL_LEARN), worker=False
    ) as memory:
        for n, text in enumerate(FACTS):
            tell(memory, text, f"s{n}", at=1_772_445_600.0 + n)
        memory.idle(10)
        facts = {
            fact.key: fact.value for fact in memory.store.facts(scope="household") if fact.source == "talk"
        }
    assert len(facts) >= len(FACTS) / 2, facts


@pytest.mark.parametrize("text", NOTHING)
def test_nothing_is_learnt_of_what_states_nothing(text: str) -> None:
    """Questions, suppositions, requests, stories and what is true for a moment."""
    assert extract(text) == []


def test_the_weights_are_small_and_fast() -> None:
    """They fit a wheel, and an utterance takes a few milliseconds."""
    assert sum(file_of(language).stat().st_size for language in LANGUAGES) < 450_000
    for language in LANGUAGES:
        tagger_of(language)
    begin = time.process_time()
    for text in FACTS * 10:
        extract(text)
    assert (time.process_time() - begin) / len(FACTS * 10) < 0.02
