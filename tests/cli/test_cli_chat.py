"""`edgemem chat` and `edgemem demo` with a model: named as in the catalogue, and offered the memory's tools."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.cli import refused, run


@pytest.fixture(autouse=True)
def models(
    chat_model: Callable[[str], Path],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Have models looked for where two answer nonsense: one whose template prints tools, and one that does not."""
    folder = tmp_path_factory.mktemp("models")
    for name, vocabulary in (("talker", "qwen2"), ("plain", "phi-3")):
        (folder / f"{name}.gguf").hardlink_to(chat_model(vocabulary))
    monkeypatch.setenv("EDGEMEM_MODELS", str(folder))


def chat(home: Path, llm: str, *options: str) -> tuple[dict[str, Any], str]:
    """Say one thing to a model; return what is told of the turn, and what stands on stderr."""
    args = ("chat", "--llm", llm, "--home", home, "--max-tokens", "2", "--json", *options)
    result = run(*args, input="Hello.\n")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout), result.stderr


def test_chat_offers_the_memory_as_tools(tmp_path: Path) -> None:
    """Their schemas stand in the prompt of a model that is found by its name; `--no-tools` leaves them out."""
    offered, _ = chat(tmp_path, "talker", "--session", "one")
    bare, _ = chat(tmp_path, "talker", "--session", "two", "--no-tools")
    assert offered["tools"] == bare["tools"] == []
    assert offered["prompt_tokens"] > bare["prompt_tokens"] + 300


def test_a_model_whose_template_prints_no_tools_is_offered_none(tmp_path: Path) -> None:
    """It could never know of them; that is said once, and the talk goes on."""
    _, told = chat(tmp_path, "plain")
    assert "prints no tools" in told
    _, told = chat(tmp_path, "plain", "--no-tools")
    assert told == ""


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("qwen2.5-1.5b-instruct", "edgemem models get qwen2.5-1.5b-instruct"),
        ("no-such-model", "edgemem models list"),
        ("../../no-such-model", "edgemem models list"),
    ],
)
@pytest.mark.parametrize("command", ["chat", "demo"])
def test_a_missing_model_says_how_to_bring_it(tmp_path: Path, command: str, name: str, advice: str) -> None:
    """One sentence that names the command to type; nothing is made before."""
    home = tmp_path / "home"
    assert advice in refused(run(command, "--llm", name, "--home", home))
    assert not home.exists()


def test_help_is_a_command_of_the_talk(tmp_path: Path) -> None:
    """`/help` tells what can be typed; the model hears nothing of it, and nothing of it is remembered."""
    args = ("--llm", "talker", "--home", tmp_path, "--max-tokens", "2")
    told = run("chat", *args, "--json", input="/help\n")
    assert (told.exit_code, told.stdout) == (0, "")
    assert "/quit" in told.stderr
    assert json.loads(run("sessions", "--home", tmp_path, "--json").stdout) == []
