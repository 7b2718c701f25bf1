"""`export`, `import` and `forget` on the command line."""

import json
import os
import subprocess
import sys

import pytest

import edgemem
from edgemem.records import Session
from support.cli import refused, run
from support.homes import opened


@pytest.fixture
def home(tmp_path):
    """Return a home with facts of two people, a conversation and notes."""
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
    assert "kitchen.json: 1 fact" in told
    assert "Added: 1 fact." in told
    assert "x.bin" in told
    assert "cat" in run("facts", "--home", home).stdout
    again = json.loads(run("import", "edgevox", old, "--home", home, "--json").stdout)
    assert (again["added"], again["known"]) == ({}, {"facts": 1})
    assert "nothing at" in refused(run("import", "edgevox", tmp_path / "no", "--home", home))


def test_forget_quotes_asks_and_erases_everywhere(home):
    """What will be erased is quoted; a no keeps it; a yes leaves no byte of it in any file of the home."""
    kept = run("forget", "door", "--home", home, input="n\n")
    assert kept.exit_code == 1
    assert "2 versions" in kept.stderr
    assert "blue" in kept.stderr
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
    assert "Say what" in refused(run("forget", "door", "--session", "hall", "--home", home))


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
