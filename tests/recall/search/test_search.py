"""Search: nothing that the reader may not read has a say in what is found, and what was just written is found at once."""

from __future__ import annotations

from contextlib import closing

import pytest

from edgemem.clock import Clock
from edgemem.records import Reader
from support.embedders import HashEmbedder
from support.homes import Robot

CLOCK = Clock(wall=lambda: 1_770_000_000.0, monotonic=lambda: 1.0)
FILLER = [f"{a} is {b}" for a in ("bread", "soup", "weather", "music") for b in ("fine", "late", "good")]


def scores(folder, secret, query, *, idle, reader=None):
    """Return what bob finds, with the score, in a session in which ann said something in private."""
    folder.mkdir()
    with closing(Robot(folder, CLOCK, HashEmbedder())) as robot:
        for n, text in enumerate(FILLER, start=1):
            robot.say(n, text, speaker="bob")
        robot.say(49, "somebody wants the cup", speaker="bob")
        robot.say(50, secret, speaker="ann", level="private", owner="ann")
        robot.say(51, "it stands in the cupboard", speaker="bob")
        robot.say(52, "the kettle is hot", speaker="bob")
        robot.say(53, "the rabbit had no hay", speaker="bob")
        if idle:
            robot.idle()
            robot.index.warm()
        found = robot.recall(query, reader=reader or Reader("bob"), k=30, kinds={"turn"})
        assert all(item.text != secret for item in found)
        return [(item.text, pytest.approx(item.score, abs=1e-6), item.why) for item in found]


@pytest.mark.parametrize("idle", [False, True])
@pytest.mark.parametrize(
    ("query", "secret"),
    [
        ("where is the kettle", "hot kettle pot"),
        ("where is the kettle", "kettle kettle kettle"),
        ("what does ann want", "I want ann home"),
        ("which pet is hungry", "my dog likes the rabbit"),
        ("wo ist mein board", " ".join(f"ca{letter}board" for letter in "abcdefghijklmnopqrst")),
    ],
)
def test_what_somebody_said_in_private_changes_nothing_for_others(tmp_path, idle, query, secret):
    """What others find, how it scores and why is the same whatever it was, also right beside it."""
    found = scores(tmp_path / "a", secret, query, idle=idle)
    assert found == scores(tmp_path / "b", "xylophones sound odd", query, idle=idle)
    assert found


def test_a_fact_that_waits_for_its_vector_is_found_by_its_words(tmp_path):
    """It comes before facts that have theirs; once it has one, meaning is a reason too."""
    with closing(Robot(tmp_path, CLOCK, HashEmbedder())) as robot:
        for n, text in enumerate(FILLER):
            robot.store.add_fact(f"thing {n}", text)
        robot.idle()
        robot.store.add_fact("kettle.place", "behind the blue curtain")
        query = "where is the kettle"
        waiting = robot.recall(query, k=1)[0]
        robot.idle()
        embedded = robot.recall(query, k=1)[0]
        assert waiting.id == embedded.id
        assert waiting.key == "kettle.place"
        assert "words" in waiting.why
        assert "meaning" not in waiting.why
        assert "meaning" in embedded.why
