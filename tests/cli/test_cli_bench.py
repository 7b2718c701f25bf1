"""`edgemem bench` prints figures as tables that a person can read."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from edgemem.cli.bench import command_for


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what is printed of some figures on a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")

    def show(**figures: Any) -> list[list[str]]:
        ran = CliRunner().invoke(command_for("weighed", lambda: figures), [], catch_exceptions=False)
        return [line.split() for line in ran.output.splitlines() if line.strip()]

    return show


def test_figures_are_a_list(printed: Any) -> None:
    """Single figures, and those of mappings, are listed under dotted names, in whole lines."""
    lines = printed(latency_ms={"median": 1.0, "query_embedding_median": 2.0}, ok=True)
    assert ["latency_ms.query_embedding_median", "2"] in lines
    assert ["ok", "True"] in lines


def test_columns_stand_side_by_side(printed: Any) -> None:
    """Of two things with scores, each thing has a row."""
    sides = {name: {"mrr": 0.0, "recall@5": 0.5} for name in ("when", "who")}
    head, _rule, first, *_ = printed(side_by_side=sides)
    assert (head, first) == (["figure", "mrr", "recall@5"], ["when", "0", "0.5"])
