"""The demo: the script keeps its own promises, and every run is the same."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conftest import Demo

from edgemem.cli.demo import SCRIPT, play
from edgemem.inspect.replay import find_tokenizer, read_script
from support.cli import run

LINES = read_script(SCRIPT)


@pytest.fixture
def told(demo: Demo) -> dict[str, Any]:
    """Return all that there is to tell of the demo, and its home."""
    return {"home": demo.home, **demo.report}


def test_all_that_must_be_before_the_model_is_and_nothing_else(told: dict[str, Any]) -> None:
    """Each text of `must` and `must_not` was looked for; counts are exact; a correction shows in both times."""
    wrong = [(turn["say"], turn["missing"], turn["leaked"]) for turn in told["turns"]]
    wrong = [(say, missing, leaked) for say, missing, leaked in wrong if missing or leaked]
    assert not wrong
    assert told["summary"]["checks_passed"] == told["summary"]["checks"] >= 100
    summary = told["summary"]
    assert summary["failures"] == []
    assert summary["ok"]
    assert summary["exact_tokens"]
    assert summary["tokens_memory"] < summary["tokens_evaluated"]
    assert all(turn["tokens"] <= 4096 for turn in told["turns"])
    now = {fact.key: fact.value for fact in told["facts"]}
    then = {fact.key: fact.value for fact in told["facts_believed_on_day_one"]}
    assert (then["oyelaran.allergy"], now["oyelaran.allergy"]) == ("peanuts", "hazelnuts")
    assert ("secret.teapot" in then, "secret.teapot" in now) == (True, False)


def test_the_checks_can_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that is nowhere is missed, one that is there is noticed, and the command then fails."""
    line = msgspec.structs.replace(LINES[1], must=("zebra",), must_not=("half a litre",))
    monkeypatch.setattr("edgemem.cli.demo.read_script", lambda _: [LINES[0], line])
    result = run("demo", "--home", tmp_path / "home")
    assert result.exit_code == 1
    assert "this was not before the model: zebra" in result.stdout
    assert "this was before the model, and must not be: half a litre" in result.stdout
    assert "0 of 2" in result.stdout


@pytest.fixture
def far_away(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Be on a machine in another part of the world."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("far_away")
def test_two_runs_are_the_same_but_for_milliseconds(
    told: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first day is the same again, in another time zone and where each question is late by the home's own profile."""
    monkeypatch.setattr("edgemem.cli.demo.read_script", lambda _: LINES[:25])
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "home" / "edgemem.toml").write_text("[recall]\ndeadline_ms = 0.001\nquery_embed_ms = 0.001\n")
    with find_tokenizer() as tokenizer:
        again = play(tmp_path / "home", tokenizer=tokenizer)

    def timeless(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
        # Tools that only later days need are offered to the model, and counted, from the first one on.
        left_out = {"late", "tokens", "new_tokens"}
        return [
            {k: v for k, v in row.items() if k not in left_out and not k.endswith("_ms")} for row in turns
        ]

    assert timeless(told["turns"][:25]) == timeless(again["turns"])
    assert again["summary"]["ok"]
    assert again["summary"]["late"] == sum(turn["late"] for turn in again["turns"]) > 20


def test_a_late_recall_is_told_and_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine too slow even for the demo's patience misses what it must find; that is counted, and exits with 0."""
    monkeypatch.setattr("edgemem.cli.demo.PATIENCE_MS", 0.001)
    monkeypatch.setattr("edgemem.cli.demo.read_script", lambda _: LINES[:40])
    result = run("demo", "--home", tmp_path / "home")
    assert result.exit_code == 0, result.output
    assert " ms, late" in result.stdout
    assert "missed  this was not before the model" in result.stdout
    assert "FAILED" not in result.stdout
    said = " ".join(result.stdout.split())
    assert "the others came late" in said
    assert "recalls took longer than the 150 ms that a robot waits" in said


def test_it_is_a_play_in_80_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The printed demo keeps to a small terminal, and ends with what to type next."""
    monkeypatch.setattr("edgemem.cli.demo.read_script", lambda _: LINES[:4])
    home = tmp_path / "home"
    out = run("demo", "--home", home).stdout
    lines = [line for line in out.splitlines() if str(home) not in line]
    assert max(map(len, lines)) <= 80
    assert not any(line != line.rstrip() for line in lines)
    assert "08:02 Mara" in out
    assert f"edgemem facts oyelaran.allergy --home {home}" in out
    assert lines[0] == "What Pip replies and keeps comes from a script; what memory does is real."
    again = run("demo", "--home", home)
    assert again.exit_code == 1
    assert "remembers something already" in again.stderr


def test_without_an_embedder_nothing_that_must_stay_hidden_is_shown(tmp_path: Path) -> None:
    """By words alone less is found, which is told and no failure; the privacy checks hold as before."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "edgemem.toml").write_text('[llama]\nembedder = ""\n')
    result = run("demo", "--home", home)
    assert result.exit_code == 0, result.output
    assert "No embedder" in result.stdout
    assert "FAILED" not in result.stdout


def test_a_real_model_answers_in_place_of_the_script(
    tmp_path: Path, chat_model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --llm the facts of the script are stored whatever the model says, and its nonsense fails no check."""
    monkeypatch.setattr("edgemem.cli.demo.read_script", lambda _: LINES[:4])
    monkeypatch.setattr("edgemem.cli.demo.REPLY_TOKENS", 4)
    home = tmp_path / "home"
    result = run("demo", "--json", "--llm", chat_model("qwen2"), "--home", home)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert not told["summary"]["scripted"]
    assert {"fridge.contents", "jonas.doctor"} <= {fact["key"] for fact in told["facts"]}
    assert told["turns"][0]["reply"] != LINES[0].reply
