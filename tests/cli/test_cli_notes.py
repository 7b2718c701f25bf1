"""`edgemem notes`: printing NOTES.md and adding to it."""

import json
import time
from pathlib import Path

import pytest

import edgemem
from support.cli import refused, run
from support.homes import BY_WORDS


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    with edgemem.open(home, profile=BY_WORDS, worker=False) as memory:
        memory.notes.append("The oven runs hot.")
        memory.notes.append("- milk\n- tea", heading="Shopping")
    return home


def test_the_notes_are_printed_as_json(home: Path) -> None:
    """With `--json` each command prints its text and where it stands."""

    def read(*words: object) -> object:
        return json.loads(run("notes", *words, "--home", home, "--json").output)

    path = str(home / "NOTES.md")
    assert read() == {"path": path, "text": (home / "NOTES.md").read_text(encoding="utf-8")}
    assert read("Shopping") == {"path": path, "text": "- milk\n- tea", "heading": "Shopping"}
    added = {"path": path, "text": "salt", "heading": "Shopping"}
    assert read("add", "salt", "--heading", "Shopping") == added


def test_a_note_is_added_and_can_be_recalled(tmp_path: Path) -> None:
    """`notes add` makes the home if there is none; what was noted is found with its heading."""
    home = tmp_path / "new"
    assert "NOTES.md" in run("notes", "add", "buy a new ladder", "--heading", "Garage", "--home", home).output
    assert run("notes", "add", "- oil the hinge", "--home", home).exit_code == 0
    assert run("notes", "add", "-", "--home", home, input="from a pipe\nof two lines\n").exit_code == 0
    text = (home / "NOTES.md").read_text(encoding="utf-8")
    assert text.endswith("buy a new ladder\n- oil the hinge\nfrom a pipe\nof two lines\n")
    assert "Garage: buy a new ladder" in run("recall", "ladder", "--home", home, "--json").output


def test_bad_words_are_one_sentence(home: Path, tmp_path: Path) -> None:
    """An unknown heading names those that there are; nothing is no note; reading makes no home."""
    assert "Shopping" in refused(run("notes", "Cellar", "--home", home))
    assert "empty note" in refused(run("notes", "add", "  ", "--home", home))
    assert "no memory" in refused(run("notes", "--home", tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_notes_cannot_steer_the_terminal(home: Path) -> None:
    """Control characters that somebody pasted into the file are not printed."""
    with (home / "NOTES.md").open("a", encoding="utf-8") as file:
        file.write("  \x1b[31mred\u202e\n")
    output = run("notes", "--home", home).output
    assert "\x1b" not in output
    assert "\u202e" not in output


def test_a_line_is_as_old_as_its_section(home: Path) -> None:
    """The date behind a heading says when a line was noted; a date that does not exist is none."""
    with edgemem.open(home, profile=BY_WORDS, worker=False) as memory:
        memory.notes.path.write_text(
            "## Trip (2020-05-06 07:08)\n- sold the canoe\n## Trip (2020-99-99 07:08)\n- bought a kayak\n",
            encoding="utf-8",
        )
        noted = time.strftime("%Y-%m-%d %H:%M", time.localtime(memory.recall("canoe")[0].recorded_at))
        assert noted == "2020-05-06 07:08"
        assert memory.recall("kayak")[0].recorded_at == pytest.approx(memory.notes.path.stat().st_mtime)
