"""Sizes: tokens of texts, each counted once."""

from __future__ import annotations

import gc

import pytest

from edgemem.context.sizes import _MOST, Sizes
from edgemem.fence import CLOSE, fence


class Letters:
    """Counts what it is asked for; each letter is a token."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Return a token for each letter."""
        self.asked.append(text)
        return list(map(ord, text))


@pytest.fixture
def letters() -> Letters:
    """Return a tokenizer that tells what it was asked for."""
    return Letters()


def test_a_text_is_tokenised_once(letters: Letters) -> None:
    """Whoever asks again is told the same without a look at the text."""
    sizes = Sizes(letters)
    assert sizes.known("cup") is None
    assert (sizes.of("cup"), sizes.of("cup"), sizes.known("cup")) == (3, 3, 3)
    assert letters.asked == ["cup"]


def test_of_a_message_only_what_stands_behind_a_known_block_is_tokenised(letters: Letters) -> None:
    """A block that was counted when it was filled is not counted with the message; an unknown one is."""
    sizes, block = Sizes(letters), fence(["- the cup is blue", "- the tin is red"])
    whole = f"{block}Where is it?"
    assert sizes.about(whole) == len(whole)
    assert letters.asked == [whole]
    sizes.note(block, 20)
    other = f"{block}And that?"
    assert sizes.about(other) == sizes.about(other) == 20 + len("And that?")
    assert letters.asked == [whole, "And that?"]


def test_a_bound_tokenises_nothing(letters: Letters) -> None:
    """Of a message whose block is known, bytes stand for the rest; once the rest is known too, all of it is found."""
    sizes, block = Sizes(letters), fence(["- the cup is blue", "- the tin is red"])
    whole = f"{block}où?"
    assert (sizes.at_most(whole), sizes.found(whole)) == (len(whole.encode()), None)
    sizes.note(block, 20)
    assert (sizes.at_most(whole), sizes.found(whole)) == (20 + len("où?".encode()), None)
    assert letters.asked == []
    sizes.of("où?")
    assert (sizes.at_most(whole), sizes.found(whole), sizes.known(whole)) == (23, 23, 23)
    assert letters.asked == ["où?"]


def test_what_only_looks_like_a_block_is_counted(letters: Letters) -> None:
    """A text without a block, and one with a tag inside, is counted as a whole."""
    sizes = Sizes(letters)
    for text in ("Hello", f"I say {CLOSE}", "<memory>no end", ""):
        assert sizes.about(text) == len(text)


def test_no_words_are_kept(letters: Letters) -> None:
    """Of texts that were measured nothing is left but numbers, and after a forgetting not even these."""
    sizes = Sizes(letters)
    sizes.of("".join(["se", "cret"]))
    assert not [each for each in gc.get_referents(sizes._known, *sizes._known) if isinstance(each, str)]
    sizes.forget()
    assert sizes.known("secret") is None


def test_only_the_newest_are_kept(letters: Letters) -> None:
    """A long life does not fill the memory."""
    sizes = Sizes(letters)
    for n in range(_MOST + 10):
        sizes.of(str(n))
    assert len(sizes._known) == _MOST
    assert sizes.known("0") is None
    assert sizes.known(str(_MOST)) is not None
