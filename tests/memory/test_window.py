"""The window: instructions that leave no room for a turn are refused when a loop is attached, in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

import edgemem
from edgemem.errors import ContextOverflowError


def test_an_estimate_says_so(tmp_path: Path) -> None:
    """Without a tokenizer of its own the memory measures roughly, and says that too."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "edgemem.toml").write_text('[llama]\nembedder = ""\n[context]\nwindow_tokens = 1024\n')
    with edgemem.open(home, worker=False) as memory:
        with pytest.raises(ContextOverflowError, match=r"^The instructions take about [\d,]+ tokens .*\.$"):
            memory.hooks(instructions="You are a robot. " * 300)
        assert memory.hooks(instructions="You are a robot.")
        assert memory.hooks()
