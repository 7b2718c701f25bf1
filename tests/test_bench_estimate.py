"""The bench of the estimate: on texts that no constant was set to, and honest where it has nothing to count with."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_estimate import LATIN, OTHERS

from edgemem.errors import ModelError
from lab import estimate


@pytest.fixture(scope="module")
def counted(vocabularies: Path) -> list[estimate.Counted]:
    """Return all texts, counted with 15 vocabularies."""
    return estimate.count(estimate.samples())


def test_each_script_has_three_thousand_characters_that_no_test_has() -> None:
    """There is enough of each script, and none of it is what the constants are set to."""
    fitted = {text for each in (LATIN, OTHERS) for texts in each.values() for text in texts}
    size: dict[str, int] = {}
    for sample in estimate.samples():
        assert sample.text.strip() not in fitted
        size[sample.script] = size.get(sample.script, 0) + len(sample.text)
    assert set(size) == {"Latin", "Vietnamese", "CJK", "Thai", "Arabic", "code"}
    assert all(characters >= 3000 for characters in size.values()), size


def test_bars_hold_on_texts_that_were_not_used(counted: list[estimate.Counted]) -> None:
    """Against the real vocabularies every language is within its bound, and the worst of 15 is named."""
    figures = estimate.told(estimate.samples(), counted)
    assert figures["ok"], figures["bars"]
    assert len(figures["vocabularies"]) == 15
    assert set(estimate.SET_TO) < set(figures["vocabularies"])
    thai = figures["side_by_side"]["Thai"]
    assert thai["worst_by"] in figures["vocabularies"]
    assert thai["worst"] >= round(1 / thai["of_dearest"], 2), "three of them are among the fifteen"


@pytest.mark.parametrize(
    ("factor", "missed"),
    [(0.5, {"latin_lowest_of_median", "vietnamese_lowest_of_median", "others_lowest_of_dearest"}),
     (2.0, {"latin_highest_of_median", "vietnamese_highest_of_median", "others_highest_of_dearest"})],
)  # fmt: skip
def test_another_estimate_misses_the_bars(
    factor: float, missed: set[str], counted: list[estimate.Counted]
) -> None:
    """An estimate that says half or twice as much breaks the lower or the upper bars of all scripts."""
    other = [estimate.Counted(round(factor * one.estimated), one.taken) for one in counted]
    bars = estimate.told(estimate.samples(), other)["bars"]
    assert {name for name, bar in bars.items() if not bar["ok"]} == missed


def test_without_vocabularies_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is in the cache, one sentence tells where they come from."""
    monkeypatch.setenv("EDGEMEM_CACHE", str(tmp_path))
    with pytest.raises(ModelError, match="run `make`"):
        estimate.run()
