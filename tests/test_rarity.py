"""Rarity: whoever tells something says a word that is seldom said."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.rarity import Rarity, Worth

PUBLIC, KNOWN, PRIVATE = 0, 1, 2


def rarity(*texts, level=PUBLIC):
    """Return the rarity of some texts, each in its slot."""
    made = Rarity()
    for slot, text in enumerate(texts):
        made.add(slot, text.split(), level)
    return made


def of(made, *slots, known=True, without=()):
    """Return what the words of some slots are worth."""
    found = made.of(np.array(slots, np.intp), known=known, without=without)
    assert {each.dtype for each in found} == {np.dtype(np.float32)}
    return Worth(*(each.tolist() for each in found))


def test_the_rarest_word_of_a_text_counts():
    """A word that was said once is worth 1, one that stands everywhere little, whatever stands beside it."""
    made = rarity("nice day", "nice day sledge", "nice day", "nice")
    day, nice = (log(1 + (4.5 - n) / (n + 0.5)) / log(1 + 3.5 / 1.5) for n in (3, 4))
    found = of(made, 0, 1, 2, 3)
    assert found.rarest == pytest.approx([day, 1, day, nice])
    assert found.mean == pytest.approx([(day + nice) / 2, (day + nice + 1) / 3, (day + nice) / 2, nice])
    assert found.single == pytest.approx([1 / 3, 1, 1 / 3, 1 / 4])


def test_words_of_the_question_tell_nothing_new():
    """Whatever a question finds has its words; a text that says nothing else tells nothing that was said once."""
    found = of(rarity("sledge attic", "sledge", ""), 0, 1, 2, without=["sledge"])
    assert found.single == [1, 0, 0]
    assert found.rarest[1] == pytest.approx(log(1 + 1.5 / 2.5) / log(1 + 2.5 / 1.5))
    assert [each[2] for each in found] == [0, 0, 0]


def test_what_is_not_known_is_worth_half():
    """A text whose words were never at hand, in a slot beyond all others or between them, is neither rare nor common."""
    made = rarity("sledge")
    made.add(3, ["attic"], PUBLIC)
    assert list(of(made, 1, 3, 9)) == [[0.5, 1, 0.5]] * 3
    assert list(of(Rarity(), 0)) == [[0.5]] * 3
    assert list(of(made)) == [[]] * 3


def test_what_may_not_be_read_makes_no_word_common():
    """Nobody can tell from a score that a word was said in private, nor strangers that it was said to known people."""
    made = rarity("sledge", "attic")
    alone = of(made, 0, 1)
    made.add(2, ["sledge"], PRIVATE)
    assert of(made, 0, 1) == of(made, 0, 1, known=False) == alone
    made.add(3, ["sledge"], KNOWN)
    assert of(made, 0, 1, known=False) == alone
    assert of(made, 0).single == [0.5]


def test_nothing_stays_of_what_is_gone():
    """A text that is taken out leaves no count and no word, also when it is taken out twice."""
    made = rarity("sledge", "attic")
    before = of(made, 0)
    made.add(2, ["sledge", "cellar"], KNOWN)
    for _ in range(2):
        made.drop(2, KNOWN)
    made.drop(77, PUBLIC)
    assert of(made, 0) == before
    assert list(of(made, 2)) == [[0.5]] * 3
    assert np.count_nonzero(made._counts) == 2  # one for each word that is left
    assert np.count_nonzero(made._places != -1) == 2


@given(
    st.lists(
        st.tuples(st.frozensets(st.sampled_from("abcdef"), max_size=4), st.integers(0, 2)),
        min_size=1,
        max_size=12,
    ),
    st.frozensets(st.integers(0, 11)),
    st.booleans(),
)
def test_it_counts_as_one_would_by_hand(texts, gone, known):
    """Whatever is said, kept for whom and taken out, a text is worth one by the texts in which its rarest word stands."""
    made = Rarity()
    for slot, (words, level) in enumerate(texts):
        made.add(slot, words, level)
    for slot in gone:
        if slot < len(texts):
            made.drop(slot, texts[slot][1])
    left = {slot: text for slot, text in enumerate(texts) if slot not in gone}
    for slot, (words, _) in left.items():
        counts = [
            max(1, sum(word in said for said, level in left.values() if level < 1 + known)) for word in words
        ]
        found = of(made, slot, known=known)
        assert found.single == pytest.approx([1 / min(counts) if counts else 0])
        assert 0 <= found.mean[0] <= found.rarest[0] + 1e-6 <= 1 + 2e-6
