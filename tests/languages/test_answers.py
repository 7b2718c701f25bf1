"""Answers: yes, no and "do not forget", in nine languages."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from edgemem.languages import words
from edgemem.languages.words import says_no, says_not_to_forget, says_yes
from support.data import sentences

FILES = sorted(Path(words.__file__).parent.glob("*.toml"))


def test_who_says_do_not_forget_is_understood() -> None:
    """In each language, with and without punctuation, apostrophes and accents; that is no yes, and a yes asks to keep nothing."""
    for text, answer in sentences("keep").items():
        assert says_not_to_forget(text) is says_not_to_forget(text.upper()) is (answer == "yes"), text
        assert answer == "no" or not says_yes(text), text


def test_a_plain_yes_is_a_yes_and_a_no_a_no() -> None:
    """An answer that agrees and says nothing else; a no wherever it stands; words that only begin like one are none."""
    for text, answer in sentences("answers").items():
        assert says_yes(text) is (answer == "yes"), text
        assert answer == "yes" or says_no(text) is (answer == "no"), text
        assert answer != "yes" or not says_not_to_forget(text), text
    assert [text for text in ("", " ", "?", "\ud800", "yes " * 1000) if says_yes(text)] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_file_has_answers_and_no_yes_is_a_no(file: Path) -> None:
    """Each listed yes counts, each listed no counts as one, and nothing is listed as both in any two languages."""
    listed = msgspec.toml.decode(file.read_bytes())
    yes, no = (listed[key].split(", ") for key in ("yes", "no"))
    assert all(says_yes(item) for item in yes)
    assert not any(says_yes(item) for item in no)
    assert all(says_no(item) for item in no)


ODD = (
    "", "\0", "\ud800 don't forget", "don't " * 100_000, "not to " * 50_000 + "forget", "vergiss das " * 9999,
)  # fmt: skip


@pytest.mark.parametrize("text", ODD)
def test_any_text_is_read_quickly(text: str) -> None:
    """Half characters and endless repetition are read like anything else."""
    for reads in (says_yes, says_no, says_not_to_forget):
        assert reads(text) in (True, False)
