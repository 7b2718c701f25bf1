"""The documentation cannot rot: README blocks run, commands are listed, tests say what they test."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgemem.cli import COMMANDS, main
from edgemem.llama.embedder import LlamaEmbedder
from edgemem.recall import search

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=[f"block{i}" for i in range(len(BLOCKS))])
def test_code_of_the_readme_runs(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each Python block runs by itself in an empty home, however slow the machine is."""
    embed = LlamaEmbedder.embed_query
    monkeypatch.setattr(LlamaEmbedder, "embed_query", lambda self, text, **_: embed(self, text))
    monkeypatch.setattr(search, "monotonic", lambda: 0.0)  # no recall is late
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("EDGEMEM_MODELS", str(ROOT / "models"))
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {"__name__": "__main__"})
    if "alice" in block and "bob" in block:
        printed = capsys.readouterr().out
        assert "hazelnuts" in printed.splitlines()[0]
        assert printed.splitlines()[-1] == "['fridge contents: six eggs, milk, a leek']"
    if "Eleen" in block:
        assert capsys.readouterr().out in README
    written = (tmp_path / ".edgemem" / "kitchen" / "db" / "memory.db", tmp_path / "kitchen.json")
    assert any(file.is_file() for file in written)


def test_the_demos_output_in_the_readme_is_real(tmp_path: Path) -> None:
    """Every line of the excerpt is one that the demo prints, but for milliseconds."""
    excerpt = README.partition("<!-- demo -->\n```\n")[2].partition("```")[0]
    printed = CliRunner().invoke(main, ["demo", "--home", str(tmp_path / "pip")]).output

    def lines(text: str) -> list[str]:
        timeless = re.sub(r"\d+ \+ \d+ ms|\d+ ms|\d+ kB", "… ms", text)
        return [line.rstrip() for line in timeless.splitlines() if line.strip()]

    missing = [line for line in lines(excerpt) if line not in lines(printed)]
    assert len(lines(excerpt)) > 20
    assert missing == []


def test_there_are_blocks_to_run() -> None:
    """The pattern above still finds the README's code."""
    assert len(BLOCKS) >= 2


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_is_in_the_readme(command: str) -> None:
    """A new command is documented the day it comes."""
    assert f"`edgemem {command}" in README


def test_every_test_says_what_it_tests() -> None:
    """Each test function has a docstring that states the behaviour."""
    silent = [
        f"{path.name}:{node.lineno} {node.name}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and not ast.get_docstring(node)
    ]
    assert silent == []


def test_no_path_of_one_machine_is_in_the_tree() -> None:
    """Nothing that is committed names a folder of the machine that it was written on."""
    pattern = re.compile(r"(?<![\w.])/(?:root|home/\w+|work)/")
    found = []
    for path in ROOT.rglob("*"):
        if path.suffix not in {".py", ".md", ".toml", ".jsonl", ".txt"} or any(
            part.startswith(".") and part != ".ci" for part in path.parts[len(ROOT.parts) :]
        ):
            continue
        if path != Path(__file__) and pattern.search(path.read_text(encoding="utf-8", errors="replace")):
            found.append(str(path.relative_to(ROOT)))
    assert found == []
