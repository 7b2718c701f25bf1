"""The window: instructions that leave no room for a turn are refused when a loop is attached, in one sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import edgemem
from edgemem.errors import ContextOverflowError
from edgemem.llama.tokens.tokenizer import LlamaTokenizer
from edgemem.loop.toolbox import Tool

TOOLS = [Tool("lamp", "Switch a lamp on or off. " * 30, {"type": "object", "properties": {}}, lambda: "done")]


def test_a_window_that_is_too_small(tmp_path: Path, vocabularies: Path) -> None:
    """The sentence names what there is and what is needed; a window of just that size is taken, one less is not."""
    home = tmp_path / "home"
    home.mkdir()
    profile = home / "edgemem.toml"
    orders = "You are a kitchen robot. " * 150
    file = vocabularies / "ggml-vocab-phi-3.gguf"
    template = (vocabularies / "templates" / "Qwen-Qwen2.5-7B-Instruct.jinja").read_text()

    def attach(window: int) -> str:
        profile.write_text(f'[llama]\nembedder = ""\n[context]\nwindow_tokens = {window}\n')
        with LlamaTokenizer(file, template=template) as tokenizer, edgemem.open(home, worker=False) as memory:
            try:
                memory.hooks(instructions=orders, tools=TOOLS, tokenizer=tokenizer)
            except ContextOverflowError as error:
                return str(error)
            return ""

    said = attach(1024)
    assert "the window has 1,024" in said
    assert "\n" not in said
    found = re.search(r"a window of at least ([\d,]+) ", said)
    assert found is not None
    least = int(found[1].replace(",", ""))
    assert attach(least) == ""
    assert f"{least:,}" in attach(least - 1)


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
