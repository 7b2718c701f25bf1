"""Turns that wait on a full disk, and a kill: they are all there in order, or `check` said which are only in memory."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.disks import MODES, TURNS, kill_command
from support.selection import LONG


def talk_on(mode: str, folder: Path, left: int, chars: int = 20) -> dict[str, Any]:
    command = kill_command(mode, folder, left, chars)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    assert seen["damage"] == []
    return seen


@pytest.mark.long
@pytest.mark.parametrize("left", [0, 16_384] if LONG else [0])
@pytest.mark.parametrize("mode", MODES if LONG else MODES[-1:])
def test_a_kill_on_a_full_disk_loses_no_turn(tmp_path: Path, mode: str, left: int) -> None:
    """Thirty turns wait for space when the process dies; the next opening has each of them once, in order."""
    seen = talk_on(mode, tmp_path, left)
    assert seen["said"] == ["before", *(f"number {n}" for n in range(TURNS))]
    assert set(seen["states"]) == {"complete"}
    assert "in memory" not in json.dumps(seen["check"])


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES if LONG else MODES[:1])
def test_what_is_only_in_memory_is_told_and_leaves_no_gap(tmp_path: Path, mode: str) -> None:
    """Where more waits than the room beside the database takes, `check` counts the rest, also from another process."""
    seen = talk_on(mode, tmp_path, 0, chars=6000)
    kept = seen["states"].count("complete") - 1
    assert 0 < kept < TURNS
    # Of the first that did not fit, what was accepted may be there.
    assert seen["said"][: kept + 1] == ["before", *(f"number {n}" for n in range(kept))]
    assert seen["said"][kept + 1 :] in ([], [f"number {kept}"])
    state, detail, advice = seen["check"]
    assert state == "warn"
    assert f"{TURNS - kept} of them only in memory" in detail
    assert "nothing is lost" not in advice
    assert f"{TURNS - kept} of them only in memory" in seen["check_of_another"]
