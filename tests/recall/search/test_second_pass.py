"""The second pass: the best texts are compared with a question token by token, those that were just said too."""

from contextlib import closing

import numpy as np
import pytest

from edgemem.clock import Clock
from edgemem.recall.index.vectors import late_interaction, packed
from support.embedders import HashEmbedder, TokenEmbedder
from support.homes import Robot

CLOCK = Clock(wall=lambda: 1_770_000_000.0, monotonic=lambda: 1.0)


class Blurred(TokenEmbedder):
    """Has one vector for all texts, so that only their tokens tell them apart."""

    def vector_of(self, text):
        return super().vector_of("the same")


def told(folder, embedder, *, idle):
    """Return what a question without a word of theirs finds among some messages, best first."""
    with closing(Robot(folder, CLOCK, embedder)) as robot:
        robot.say(1, "my canoe was repaired by Petra", speaker="bob")
        for n in range(2, 8):
            robot.say(n, f"drawer {n} is full", speaker="bob")
        robot.idle() if idle else robot.recaller.embed_new(100)
        return [(item.text, item.why) for item in robot.recall("the boat?", k=8)]


@pytest.mark.parametrize("idle", [False, True], ids=["just said", "indexed"])
def test_the_text_with_the_nearest_tokens_comes_first(tmp_path, idle):
    """Also before the index has it; an embedder without tokens leaves the order."""
    means = {"boat": "cano"}
    ((first, why), *_) = told(tmp_path / "a", Blurred(means=means), idle=idle)
    assert "canoe" in first
    assert "meaning" in why
    assert told(tmp_path / "b", HashEmbedder(means=means), idle=idle)


class Odd(Blurred):
    """Has no token for a text without words, in a shape of its own, and wider ones for a question than for what is stored."""

    def __init__(self, nothing):
        super().__init__(means={"boat": "cano"})
        self._nothing = nothing

    def tokens_of(self, text):
        rows = super().tokens_of(text)
        return rows if len(rows) else self._nothing

    def encode_query(self, text, *, timeout_s=None):
        return super().encode_query(text, timeout_s=timeout_s)._replace(tokens=np.ones((2, 44), np.int8))


@pytest.mark.parametrize("nothing", [np.zeros((0, 0), np.int8), np.array([], np.int8)], ids=["0x0", "flat"])
@pytest.mark.parametrize("idle", [False, True], ids=["just said", "indexed"])
def test_tokens_of_any_shape_keep_nothing_from_being_found(tmp_path, caplog, nothing, idle):
    """A text without tokens, or a question whose tokens are wider than those stored, hinders neither embedding nor search."""
    with closing(Robot(tmp_path / "a", CLOCK, Odd(nothing))) as robot:
        for n, text in enumerate(["…?!", "my canoe was repaired by Petra", "drawer 2 is full"]):
            robot.say(n, text, speaker="bob")
        robot.idle() if idle else robot.recaller.embed_new(100)
        assert "canoe" in robot.recall("who repaired the canoe?", k=8)[0].text
        assert not idle or not robot.index.pending()["vectors"]
    assert not caplog.records


def test_late_interaction_is_the_mean_and_deviation_of_each_tokens_nearest():
    """For texts of any lengths at once, whose vectors are kept in two bits a number: their cosines are a little off."""
    dice = np.random.default_rng(1)
    query, *texts = (unit(dice.normal(size=(n, 64))) for n in (5, 1, 40, 7))
    nearest = [(query @ text.T).max(axis=1) for text in texts]
    wanted = np.array([(each.mean(), each.std()) for each in nearest])
    query, *texts = (np.rint(rows * 127).astype(np.int8) for rows in (query, *texts))
    assert late_interaction(query, [packed(text) for text in texts]) == pytest.approx(wanted, abs=0.04)
    assert len(packed(texts[1])) == 40 * 16


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_no_text_rounds_another():
    """A text is as near alone as among others, to the bit: what waits for the index ranks as what is in it."""
    dice = np.random.default_rng(2)
    query, *texts = (
        np.rint(unit(dice.normal(size=(n, 64))) * 127).astype(np.int8) for n in (7, *range(1, 40))
    )
    texts = [packed(text) for text in texts]
    together = late_interaction(query, texts)
    assert all((late_interaction(query, [one]) == r).all() for one, r in zip(texts, together, strict=True))
