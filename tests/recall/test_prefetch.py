"""Prefetch: when it begins, what it costs, what it forgets, and which ways of writing a sentence are the same to it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from conftest import HandClock
from hypothesis import given
from hypothesis import strategies as st

from edgemem.errors import DiskError
from edgemem.recall.prefetch import Prefetch
from edgemem.recall.recall import Request
from edgemem.recall.text.analyse import read_utterance, with_ending
from edgemem.records import Recalled
from support.data import sentences
from support.homes import eventually

ASKED = Request(reader=None)


class Talk:
    """A conversation: anything that can be referred to weakly."""


class Searches:
    """A search that finds its own question, and notes what it was asked."""

    def __init__(self, hand: HandClock) -> None:
        self.hand = hand
        self.asked: list[str] = []
        self.takes_s = 0.0
        self.stamp = 0
        self.late = False

    def __call__(self, text: str, _asked: Request, **_: Any) -> list[Recalled]:
        self.asked.append(text)
        self.hand.advance(self.takes_s)
        return [Recalled("note", "1", text, 1.0, ())]


@pytest.fixture
def searches(hand: HandClock) -> Searches:
    return Searches(hand)


@contextmanager
def prefetching(search: Callable[..., list[Recalled]], **more: Any) -> Iterator[Prefetch]:
    made = Prefetch(search, **{"stamp": lambda: 0, "share": lambda: 1.0, "now": lambda: 0.0, **more})
    made.settle_s = 0.0
    yield made
    made.close()


@pytest.fixture
def ahead(searches: Searches, hand: HandClock) -> Iterator[Prefetch]:
    of_hand = {"now": lambda: hand.wall, "clock": lambda: hand.monotonic}
    of_search = {"stamp": lambda: searches.stamp, "late": lambda: searches.late}
    with prefetching(searches, **of_hand, **of_search) as made:
        yield made


def hear(ahead: Prefetch, by: object, text: str) -> None:
    ahead.ask(by, text, ASKED)
    eventually(lambda: ahead.idle)


def test_it_rests_between_recalls(ahead: Prefetch, searches: Searches, hand: HandClock) -> None:
    """With half a core, a recall of a second is followed by a second of rest, whoever speaks."""
    one, other = Talk(), Talk()
    ahead.share = lambda: 0.5
    searches.takes_s = 1.0
    hear(ahead, one, "first")
    searches.takes_s = 0.0
    ahead.ask(other, "second", ASKED)
    time.sleep(0.05)
    assert searches.asked == ["first"]
    hand.advance(1.0)
    ahead.wake()
    eventually(lambda: ahead.idle)
    assert searches.asked == ["first", "second"]


def test_what_is_said_tells_sentences_apart_and_not_how_it_is_written() -> None:
    """Case, white space, commas and ways to write a letter are no difference; words, signs that are spoken and questions are."""
    for table, same in (("written_alike", True), ("said_otherwise", False)):
        for text, other in sentences(table).items():
            assert (read_utterance(text) == read_utterance(other)) is same, text
    assert read_utterance("so  far ") == read_utterance("so far")


@given(st.text(max_size=60), st.sampled_from(["", "?", "."]))
def test_an_ending_changes_no_word(text: str, ending: str) -> None:
    """What is written as if it ended here is the same words, with that ending."""
    whole = read_utterance(with_ending(text, ending))
    assert whole.words == read_utterance(text).words
    if ending:
        assert whole.ending == ending


def test_what_cannot_be_looked_at_is_not_lent_out() -> None:
    """Where nobody can tell whether anything has changed, the turn's own recall says what is wrong."""
    broken: list[bool] = []

    def stamp() -> int:
        if broken:
            raise DiskError("The disk could not be read.")
        return 0

    by = Talk()
    with prefetching(lambda text, _asked, **_: [], stamp=stamp) as ahead:
        hear(ahead, by, "so far")
        broken.append(True)
        assert ahead.claim(by, "so far", ASKED) == ("stale", None)
