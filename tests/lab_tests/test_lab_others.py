"""Experiments that run at a tiny size: answers of a chat model, estimated tokens, a home of EdgeVox, five languages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgemem.bench.ground import EMBEDDER
from edgemem.errors import InvalidInputError
from edgemem.llama.models.catalog import find_model
from lab import edgevox, estimate, import_, languages, reboot
from lab.answers import is_right
from lab.random_model import write_model
from support.data import LATIN, OTHERS


@pytest.mark.parametrize(
    ("reply", "answer", "right"),
    [
        ("The code is 4711.", "4711", True),
        ("The code is four seven one one", "4711", True),
        ("The code is 4712.", "4711", False),
        ("It's behind the boilers, next to the broom!", "next to the broom behind the boiler", True),
        ("It is behind something.", "next to the broom behind the boiler", False),
        ("", "blue", False),
        ("blue", "dark blue paint", False),
        ("blue paint", "dark blue paint", True),
    ],
)
def test_a_reply_is_right_if_it_holds_most_of_the_answer(reply: str, answer: str, right: bool) -> None:
    """In whatever form and order its words stand."""
    assert is_right(reply, answer) == right


@pytest.mark.long
@pytest.mark.experiment
@pytest.mark.usefixtures("vocabularies")
def test_bars_hold_on_texts_that_were_not_used() -> None:
    """Against the real vocabularies every language is within its bound, and the worst of 15 is named."""
    fitted = {text for languages in (LATIN, OTHERS) for texts in languages.values() for text in texts}
    samples = estimate.samples()
    assert not fitted & {sample.text.strip() for sample in samples}
    figures = estimate.told(samples, estimate.count(samples))
    assert figures["ok"], figures["bars"]
    assert len(figures["vocabularies"]) == 15
    assert set(estimate.SET_TO) < set(figures["vocabularies"])
    thai = figures["side_by_side"]["Thai"]
    assert thai["worst_by"] in figures["vocabularies"]
    assert thai["worst"] >= round(1 / thai["of_dearest"], 2), "three of them are among the fifteen"


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


@pytest.mark.skipif(find_model(EMBEDDER) is None, reason="the embedder is not here")
def test_meaning_is_reported_beside_words() -> None:
    """With the embedder English questions in other words are found that words alone do not find."""
    columns = languages.run(languages="en", models=EMBEDDER)["side_by_side"]
    assert columns[f"{EMBEDDER} @5 free"]["English"] > columns["words @5 free"]["English"]


def bars_of(figures: dict[str, Any], name: str) -> set[str]:
    """Check what all reports have in common, and return the names of the bars."""
    assert figures["bench"] == name
    assert figures["machine"]["calibration_ms"] > 0
    bars = figures["bars"]
    assert all(set(bar) == {"figure", "bar", "ok"} for bar in bars.values())
    assert figures["ok"] == all(bar["ok"] for bar in bars.values())
    return set(bars)


@pytest.mark.usefixtures("edgevox")
def test_the_real_edgevox_reads_more(tmp_path: Path, edgevox_path: Path) -> None:
    """EdgeVox with its memory has its model read more than without, and more than ours."""
    with pytest.raises(InvalidInputError, match="no EdgeVox in"):
        edgevox.run(edgevox=tmp_path)
    figures = edgevox.run(turns=4, edgevox=edgevox_path, home=tmp_path)
    assert figures["times_without_memory"] > 2
    assert figures["read"]["edgevox"] > figures["read"]["with_memory"]


def test_reboot_evaluates_only_the_turn(tmp_path: Path) -> None:
    """The reboot bench answers the same with the kept state, and evaluates only what is not in it."""
    model = write_model(tmp_path / "model.gguf", width=64, layers=2, hidden=96)
    figures = reboot.run(prefix_tokens=400, processes=1, threads=1, model=model, home=tmp_path)
    assert bars_of(figures, "reboot") == {"first_token_ratio", "same_first_token"}
    assert figures["bars"]["same_first_token"]["ok"]
    evaluated = figures["side_by_side"]["evaluated_tokens"]
    assert evaluated["cold"] == evaluated["kept"] + figures["prefix_tokens"]
    assert figures["prefix_tokens"] > 300
    assert figures["file_bytes"] > figures["prefix_tokens"] * 2 * 2 * 64 * 2
