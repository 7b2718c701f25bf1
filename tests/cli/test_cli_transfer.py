"""`export`, `import` and `forget` on the command line, and the demo, every run of which is the same."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conftest import Demo

import edgemem
from edgemem.cli.demo import SCRIPT, play
from edgemem.inspect.replay import find_tokenizer, read_script
from edgemem.records import Session
from support.cli import refused, run
from support.homes import home_of, opened, time_zone


@pytest.fixture
def home(tmp_path):
    path = tmp_path / "home"
    with opened(path) as memory:
        memory.store.add_fact("tea", "green", scope="user:Ann")
        memory.store.add_fact("door", "red")
        memory.store.add_fact("door", "blue\x1b[31m")
        said = [{"role": "user", "content": "the canoe is in the shed"}]
        memory.sessions.save("hall", Session(said, {"a": 1}))
        memory.notes.append("Bins on Monday.")
    return path


def test_an_export_comes_back_through_a_file(home, tmp_path):
    """A file carries everything to another home; it is its owner's alone, and a second time adds nothing."""
    file = tmp_path / "out.jsonl"
    told = json.loads(run("export", file, "--home", home, "--json").stdout)
    assert told["lines"] == len(file.read_text().splitlines())
    assert file.stat().st_mode & 0o777 == 0o600
    assert run("export", "--home", home).stdout == file.read_text()
    other = tmp_path / "other"
    report = json.loads(run("import", file, "--home", other, "--json").stdout)
    assert report["added"] == {"facts": 2, "sessions": 1, "turns": 1, "notes": 1}
    assert run("export", "--home", other).stdout == file.read_text()
    assert "canoe" in run("recall", "canoe", "--home", other).stdout
    again = run("import", file, "--home", other).stdout
    assert "Added: nothing. Here already: 2 facts, 1 session, 1 turn, 1 note." in again


def test_an_export_comes_back_through_a_pipe(home, tmp_path):
    """`edgemem export | ssh robot edgemem import -`: the bytes of standard output go into standard input."""
    for args in (("export",), ("export", "-")):
        sent = run(*args, "--home", home).stdout_bytes
        other = tmp_path / "-".join(("other", *args))
        assert "Added: 2 facts" in run("import", "-", "--home", other, input=sent).stdout
        assert run("export", "--home", other).stdout_bytes == sent
    known = json.loads(run("import", "-", "--json", "--home", other, input=sent).stdout)
    assert known["added"] == {}
    cut = sent[: sent[:-1].rindex(b"\n") + 1]
    assert "cut short" in refused(run("import", "-", "--home", other, input=cut))
    assert "not one line came" in refused(run("import", "-", "--home", other, input=b""))


def test_json_is_utf_8_whatever_the_terminal_speaks(tmp_path):
    """On a robot with the locale C, an export and `--json` lose no letter."""
    home = tmp_path / "home"
    with edgemem.open(home, worker=False) as memory:
        memory.store.add_fact("Straße", "Nguyễn’s 部屋")
    old = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for args in (("export",), ("facts", "--json")):
        command = [sys.executable, "-m", "edgemem", *args, "--home", home]
        ran = subprocess.run(command, env=old, capture_output=True, check=True)
        assert "Nguyễn’s 部屋" in ran.stdout.decode()


def test_an_export_never_replaces_a_device_or_a_link(home, tmp_path):
    """`edgemem export /dev/null` as root must not make a file of it; a link stays one, and its target is written."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert "no ordinary file" in refused(run("export", fifo, "--home", home))
    assert fifo.is_fifo()
    link, target = tmp_path / "link", tmp_path / "target"
    target.write_text("old")
    link.symlink_to(target)
    assert run("export", link, "--home", home).exit_code == 0
    assert link.is_symlink()
    assert target.read_text() == run("export", "--home", home).stdout


def test_an_export_into_a_directory_that_is_not_there_is_refused(home, tmp_path):
    """A stick that is not mounted is told, with what to do; nothing is made in its place."""
    file = tmp_path / "stick" / "backups" / "kitchen.jsonl"
    told = refused(run("export", file, "--home", home))
    assert f"mkdir -p {file.parent}" in told
    folder = refused(run("export", f"{tmp_path}/stick/", "--home", home))
    assert f"mkdir -p {tmp_path}/stick" in folder
    assert not (tmp_path / "stick").exists()
    file.parent.mkdir(parents=True)
    assert run("export", file, "--home", home).exit_code == 0


def test_what_cannot_be_imported_makes_no_home(tmp_path):
    """A file that is not there, a folder, or one that is another's is told before anything is made."""
    other, export = tmp_path / "other", tmp_path / "kitchen.jsonl"
    export.write_text('{"record":"edgemem","format":3}\n')
    assert "No such file" in refused(run("import", tmp_path / "none", "--home", other))
    assert "edgemem import edgevox" in refused(run("import", tmp_path, "--home", other))
    assert "nothing at" in refused(run("import", "edgevox", tmp_path / "none", "--home", other))
    assert "edgemem import" in refused(run("import", "edgevox", export, "--home", other))
    assert not other.exists()


def test_nobody_there_to_agree_is_a_no(home):
    """Without an answer nothing is erased, and the sentence says how to do it without one."""
    for typed, says in (("", "--yes"), ("n\n", "Nothing was erased.")):
        result = run("forget", "door", "--home", home, input=typed)
        assert result.exit_code == 1
        assert says in result.stderr.rpartition("edgemem: ")[2]
    command = [sys.executable, "-m", "edgemem", "facts", "forget", "door", "--home", home]
    command = ["sh", "-c", '"$@" <&-', "sh", *command]
    closed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert closed.returncode == 1
    assert "--yes does it without asking" in closed.stderr
    assert "door" in run("facts", "--home", home).stdout


def test_an_export_of_one_person_has_only_theirs(home):
    """`--speaker` gives what a person said or owns."""
    told = run("export", "--speaker", "Ann", "--home", home).stdout
    lines = [json.loads(line) for line in told.splitlines()]
    assert {line.get("key") for line in lines} == {None, "tea"}
    nobody = run("export", "--speaker", "Nobdy", "--home", home)
    assert len(nobody.stdout.splitlines()) == 2
    assert "Nothing here was said by Nobdy" in nobody.stderr
    assert lines[0] == {"record": "edgemem", "format": 5, "speaker": "Ann"}


def test_edgevox_moves_in(tmp_path):
    """A folder of EdgeVox's is taken over and reported file by file; a second time adds nothing."""
    old = tmp_path / "memory"
    old.mkdir()
    row = {"key": "pet", "value": "cat", "scope": "global", "updated_at": 1.75e9, "valid_from": 1.75e9}
    (old / "kitchen.json").write_text(json.dumps({"facts": [row], "preferences": [], "episodes": []}))
    (old / "x.bin").write_bytes(b"\x00")
    home = tmp_path / "home"
    told = run("import", "edgevox", old, "--home", home).stdout
    shown = ("kitchen.json: 1 fact", "Added: 1 fact.", "x.bin")
    assert [part for part in shown if part not in told] == []
    assert "cat" in run("facts", "--home", home).stdout
    again = json.loads(run("import", "edgevox", old, "--home", home, "--json").stdout)
    assert (again["added"], again["known"]) == ({}, {"facts": 1})
    assert "nothing at" in refused(run("import", "edgevox", tmp_path / "no", "--home", home))


def test_forget_quotes_asks_and_erases_everywhere(home):
    """What will be erased is quoted; a no keeps it; a yes leaves no byte of it in any file of the home."""
    kept = run("forget", "door", "--home", home, input="n\n")
    assert kept.exit_code == 1
    assert [part for part in ("2 versions", "blue") if part not in kept.stderr] == []
    assert json.loads(run("forget", "door", "--yes", "--home", home, "--json").stdout)["versions"] == 2
    assert "canoe" in run("forget", "--session", "hall", "--home", home, input="n\n").stderr
    erased = run("forget", "--session", "hall", "--yes", "--home", home).stdout
    assert "Erased the conversation hall: 1 turn" in erased
    for file in (home / "db").iterdir():
        data = file.read_bytes()
        assert not any(word in data for word in (b"blue", b"canoe")), file
    assert "ever told" in refused(run("forget", "door", "--yes", "--home", home))
    assert "no conversation" in refused(run("forget", "--session", "hall", "--yes", "--home", home))
    assert "Say what" in refused(run("forget", "--home", home))
    assert "one thing" in refused(run("forget", "door", "--session", "hall", "--home", home))


def test_forgetting_a_person_counts_first_and_erases(home):
    """What will be erased is counted before it is asked for; nothing of it can be exported afterwards."""
    asked = run("forget", "--speaker", "Ann", "--home", home, input="n\n")
    assert asked.exit_code == 1
    assert "1 fact" in asked.stderr
    told = json.loads(run("forget", "--speaker", "Ann", "--yes", "--home", home, "--json").stdout)
    nothing = {"found": [], "count": 0}
    assert told == {"speaker": "Ann", "erased": {"facts": 1}, "pending": {}, "mentions": nothing, "files": []}
    assert "green" not in run("export", "--home", home).stdout
    assert "Nothing here" in refused(run("forget", "--speaker", "Ann", "--yes", "--home", home))


LINES = read_script(SCRIPT)


@pytest.fixture
def told(demo: Demo) -> dict[str, Any]:
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


def test_two_runs_are_the_same_but_for_milliseconds(
    told: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first day is the same again, in another time zone and where each question is late by the home's own profile."""
    monkeypatch.setattr("edgemem.cli.demo.read_script", lambda _: LINES[:25])
    home = home_of(tmp_path / "home", "[recall]\ndeadline_ms = 0.001\nquery_embed_ms = 0.001\n")
    with time_zone("Asia/Tokyo"), find_tokenizer() as tokenizer:
        again = play(home, tokenizer=tokenizer)

    def timeless(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
        # Tools that only later days need are offered to the model, and counted, from the first one on.
        left_out = {"late", "tokens", "new_tokens"}
        return [{k: v for k, v in r.items() if k not in left_out and not k.endswith("_ms")} for r in turns]

    assert timeless(told["turns"][:25]) == timeless(again["turns"])
    assert again["summary"]["ok"]
    assert again["summary"]["late"] == sum(turn["late"] for turn in again["turns"]) > 20


def test_a_late_recall_is_told_and_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine too slow even for the demo's patience misses what it must find; that is counted, and exits with 0."""
    lines = [*LINES[:39], msgspec.structs.replace(LINES[39], must=("a moose",))]
    monkeypatch.setattr("edgemem.cli.demo.PATIENCE_MS", 0.001)
    monkeypatch.setattr("edgemem.cli.demo.read_script", lambda _: lines)
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
    assert "remembers something already" in refused(run("demo", "--home", home))


def test_without_an_embedder_nothing_that_must_stay_hidden_is_shown(tmp_path: Path) -> None:
    """By words alone less is found, which is told and no failure; the privacy checks hold as before."""
    result = run("demo", "--home", home_of(tmp_path / "home", '[llama]\nembedder = ""\n'))
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
