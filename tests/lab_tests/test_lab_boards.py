"""Two boards are compared figure by figure, and other files are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from edgemem.bench.board import FORMAT
from lab import boards


def told(**figures: Any) -> dict[str, Any]:
    """Return what a board's file holds, in short."""
    return {
        "bench": "board", "format": FORMAT, "board": {"model": "Pi 5", "cores": 4, "disk_rotates": False},
        "heat": {}, "figures": figures,
    }  # fmt: skip


def test_two_boards_stand_side_by_side(tmp_path: Path) -> None:
    """Numbers have a ratio; words, truths, nulls and what only one of them has do not."""
    first, second = tmp_path / "pi4.json", tmp_path / "pi5.json"
    first.write_text(json.dumps(told(calibration_ms=40.0, fsync_ms={"median": 2.0}, gone=1, late=0)))
    second.write_text(json.dumps(told(calibration_ms=20.0, fsync_ms={"median": 3.0}, gone=None, late=2)))
    sides = boards.run(compare=(first, second))["side_by_side"]
    assert sides["calibration_ms"] == {"pi4": 40.0, "pi5": 20.0, "ratio": 0.5}
    assert sides["fsync_ms.median"]["ratio"] == 1.5
    for name in ("model", "disk_rotates", "gone", "late"):
        assert sides[name]["ratio"] is None
    same = tmp_path / "other" / "pi4.json"
    same.parent.mkdir()
    same.write_bytes(second.read_bytes())
    assert str(same) in boards.run(compare=(first, same))["side_by_side"]["model"]
