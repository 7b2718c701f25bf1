"""The bench that learns the gate: tiny households teach what parts questions from small talk, and the file says the same."""

from __future__ import annotations

import msgspec
import numpy as np

from edgemem.recall.gate import Found, Gate, Utterance
from lab.gate import Sample, file_of, learnt

ASKED = ("where is the cup", "when does the bus leave", "where did i put it", "who is she")
TALKED = ("good night", "play some music", "thanks a lot", "good morning")
MAKER = "mini:1:3"


def samples(*, embedded: bool) -> list[Sample]:
    """Return what is said in two English households and a German one: questions that are answered, and small talk."""
    dice = np.random.default_rng(1)
    rows = []
    for home, asked, talked in (
        ("en_one", ASKED, TALKED),
        ("en_two", ASKED[::-1], TALKED[::-1]),
        ("de_haus", ("wo ist die tasse", "wann kommt sie"), ("gute nacht", "danke")),
    ):
        if embedded and home == "de_haus":
            continue
        for kind, texts in (("answerable", asked), ("small talk", talked)):
            wants = kind == "answerable"
            for text in texts:
                vector = dice.normal(0, 0.1, 3).astype(np.float32) + np.float32([wants, not wants, 0])
                utterance = Utterance(text, home[:2], vector if embedded else None, MAKER if embedded else "")
                found = Found(0.6 if wants else 0.3, -2.0 + wants, float(wants), 2)
                rows.append(Sample(home, kind, 1.0, utterance, found))
    return rows


def test_questions_are_parted_from_small_talk() -> None:
    """By words and with vectors, also of a household that was not learnt on."""
    embedded, by_words = samples(embedded=True), samples(embedded=False)
    gate, of_others = learnt(embedded, by_words)
    assert gate.said.keys() == {"en", "de"}
    assert gate.meant.embedder == "mini"
    assert of_others.keys() == {"en_one", "en_two", "de_haus"}
    for meaning, some in ((1.0, embedded), (0.0, by_words)):
        for one in some:
            for each in (gate, of_others[one.home]):
                assert (each.chance(one.utterance, one.found, meaning=meaning) > 0.5) is one.helps, one


def test_the_file_says_what_was_learnt() -> None:
    """It is read back as it was."""
    gate, _ = learnt(samples(embedded=True), samples(embedded=False))
    assert msgspec.toml.decode(file_of(gate), type=Gate) == gate
