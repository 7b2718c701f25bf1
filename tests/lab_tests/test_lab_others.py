"""Experiments that run at a tiny size: answers of a chat model, estimated tokens, a home of EdgeVox, five languages."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgemem.errors import InvalidInputError
from lab import edgevox, import_
from lab.answers import is_right


@pytest.mark.parametrize(
    ("reply", "answer", "right"),
    [
        ("The code is 4711.", "4711", True), ("The code is four seven one one", "4711", True),
        ("The code is 4712.", "4711", False),
        ("It's behind the boilers, next to the broom!", "next to the broom behind the boiler", True),
        ("It is behind something.", "next to the broom behind the boiler", False), ("", "blue", False),
        ("blue", "dark blue paint", False), ("blue paint", "dark blue paint", True),
    ],
)  # fmt: skip
def test_a_reply_is_right_if_it_holds_most_of_the_answer(reply: str, answer: str, right: bool) -> None:
    """In whatever form and order its words stand."""
    assert is_right(reply, answer) == right


SIZES = {"facts": 60, "episodes": 30, "sessions": 12}


def test_a_home_is_taken_over_exactly_and_twice_is_once(tmp_path: Path) -> None:
    """Every row of both forms is compared, none differs, and the second import changes nothing."""
    figures = import_.run(**SIZES, times=1, home=tmp_path)
    assert figures["bench"] == "import"
    for form in ("json", "sqlite"):
        assert figures[form]["rows_different"] == []
        assert figures[form]["changed_by_the_second"] == []
        compared = figures[form]["rows_compared"]
        assert compared["fact"] == figures["edgevox"]["fact_rows"] > SIZES["facts"]
        assert (compared["episode"], compared["session"]) == (30, 12)
        assert set(figures["bars"]) > {f"{form}_first_s", f"{form}_second_s"}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("edgevox")
def test_the_real_edgevox_reads_more(tmp_path: Path, edgevox_path: Path) -> None:
    """EdgeVox with its memory has its model read more than without, and more than ours."""
    with pytest.raises(InvalidInputError, match="no EdgeVox in"):
        edgevox.run(edgevox=tmp_path)
    figures = edgevox.run(turns=4, edgevox=edgevox_path, home=tmp_path)
    assert figures["times_without_memory"] > 2
    assert figures["read"]["edgevox"] > figures["read"]["with_memory"]
