"""`export`, `import` and `forget` on the command line."""

from __future__ import annotations

import json

import pytest
from test_cli import refused, run

import edgemem
from edgemem.records import Session


@pytest.fixture
def home(tmp_path):
    """Return a home with facts of two people, a conversation and notes."""
    path = tmp_path / "home"
    with edgemem.open(path, worker=False) as memory:
        memory.store.add_fact("tea", "green", scope="user:Ann")
        memory.store.add_fact("door", "red")
        memory.store.add_fact("door", "blue\x1b[31m")
        memory.sessions.save(
            "hall", Session([{"role": "user", "content": "the canoe is in the shed"}], {"a": 1})
        )
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
    assert (
        "Added: nothing. Here already: 2 facts, 1 session, 1 turn, 1 note."
        in run("import", file, "--home", other).stdout
    )


def test_an_export_of_one_person_has_only_theirs(home):
    """`--speaker` gives what a person said or owns."""
    lines = [
        json.loads(line) for line in run("export", "--speaker", "Ann", "--home", home).stdout.splitlines()
    ]
    assert {line.get("key") for line in lines} == {None, "tea"}
    assert lines[0] == {"record": "edgemem", "format": 1, "speaker": "Ann"}


def test_a_damaged_file_is_refused_in_one_sentence(home, tmp_path):
    """The sentence names the line; nothing is imported."""
    file = tmp_path / "out.jsonl"
    run("export", file, "--home", home)
    text = file.read_text().splitlines()
    file.write_text("\n".join([*text[:3], text[3][:20]]))
    sentence = refused(run("import", file, "--home", tmp_path / "other"))
    assert "Line 4 is damaged" in sentence
    assert sentence.endswith("Nothing was imported.")
    file.write_bytes(b"\xff\x00")
    assert "Line 1" in refused(run("import", file, "--home", tmp_path / "other"))


def test_a_merge_that_excludes_names_what_was_not_taken(home, tmp_path):
    """What is here stays, and the report says so in a sentence that cannot steer the terminal."""
    other = tmp_path / "other"
    with edgemem.open(other, worker=False) as memory:
        memory.store.add_fact("door", "green")
    file = tmp_path / "out.jsonl"
    run("export", file, "--home", home)
    told = run("import", file, "--home", other).stdout
    assert "The fact 'door' (global) has another history here" in told
    assert "\x1b" not in told


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
    assert (
        "Erased the conversation hall: 1 turn"
        in run("forget", "--session", "hall", "--yes", "--home", home).stdout
    )
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
    assert told == {"speaker": "Ann", "erased": {"facts": 1}}
    assert "green" not in run("export", "--home", home).stdout
    assert "Nothing here" in refused(run("forget", "--speaker", "Ann", "--yes", "--home", home))
