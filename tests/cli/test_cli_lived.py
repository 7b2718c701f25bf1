"""What was lived through and noted, from the command line: episodes, procedures, how tools have done, and NOTES.md."""

import json
import time
from pathlib import Path

import pytest

import edgemem
from edgemem.records import Heard, Procedure, ProcedureStep
from edgemem.store.episodes import TOOL_CALL
from support.cli import json_of, refused, run
from support.homes import BY_WORDS, opened

GRIP = ProcedureStep("grip", {"what": "red cup"})
FETCH = Procedure("fetch-cup", "Fetch", "", "bring me the red cup", (GRIP,), success_count=1)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    with opened(home) as memory:
        add = memory.store.add_episode
        mara = Heard(speaker="Mara")
        add("task", {}, "success", summary="Watered the tulips.", tags=["garden"], heard=mara)
        add("task", {}, "failure", summary="Could not reach the red cup.", session="hall", tools=["grip"])
    return home


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ((), ["Could not reach the red cup.", "Watered the tulips."]), (("cup",), ["Could not reach the red cup."]),
        (("the", "red", "cup", "--outcome", "success"), []),
        (("tulips", "--tag", "garden"), ["Watered the tulips."]),
        (("--person", "mara", "--since", "2000-01-01"), ["Watered the tulips."]),
        (("--session", "hall", "--limit", "1"), ["Could not reach the red cup."]),
        (("--speaker", "Ben", "--tag", "garden"), ["Watered the tulips."]),
    ],
)  # fmt: skip
def test_episodes_are_listed_and_found(home: Path, args: tuple[str, ...], expected: list[str]) -> None:
    """Newest first, or what fits the query, each with its fields."""
    assert [episode["summary"] for episode in json_of("episodes", *args, "--home", home)] == expected


def test_they_are_shown_as_people_read_them(home: Path) -> None:
    """With the id by which one is forgotten, and a sentence where there are none."""
    text = run("episodes", "--home", home).stdout
    assert "Could not reach the red cup. [grip]" in " ".join(text.split())
    number = json_of("episodes", "cup", "--home", home)[0]["id"]
    assert "red cup" in run("forget", "--episode", number, "--yes", "--home", home).stdout
    assert "no episodes" in run("episodes", "cup", "--home", home).stdout


def test_a_procedure_is_listed_shown_found_and_forgotten(home: Path) -> None:
    """With its steps, and how often it worked."""
    with edgemem.open(home, worker=False) as memory:
        memory.procedures.store(FETCH)
    assert json_of("procedures", "fetch-cup", "--home", home)["success_count"] == 1
    assert [each["id"] for each in json_of("procedures", "suggest", "the", "red", "cup", "--home", home)] == [
        "fetch-cup"
    ]
    assert "1 of 1" in run("procedures", "--home", home).stdout
    assert '{"what":"red cup"}' in run("procedures", "show", "fetch-cup", "--home", home).stdout
    assert "Erased" in run("procedures", "forget", "fetch-cup", "--yes", "--home", home).stdout
    assert "no procedures" in run("procedures", "--home", home).stdout


def test_an_unknown_procedure_is_told(home: Path) -> None:
    """Whatever shall be done with it."""
    for args in (("show", "x"), ("forget", "x")):
        assert "no procedure 'x'" in refused(run("procedures", *args, "--home", home))


def test_tools_are_counted(home: Path) -> None:
    """As a table, and as JSON."""
    with edgemem.open(home, worker=False) as memory:
        memory.store.add_episode(TOOL_CALL, {"name": "grip"}, "failed", latency_ms=12.4)
    (grip,) = json_of("stats", "tools", "--home", home)
    assert grip == {
        "tool": "grip", "calls": 1, "failures": 1, "failure_rate": 1.0, "p50_ms": 12.4, "p90_ms": 12.4, "p99_ms": 12.4,
    }  # fmt: skip
    assert "1 (100%)" in run("stats", "tools", "--home", home).stdout


@pytest.fixture
def kitchen(tmp_path: Path) -> Path:
    kitchen = tmp_path / "home"
    with edgemem.open(kitchen, profile=BY_WORDS, worker=False) as memory:
        memory.notes.append("The oven runs hot.")
        memory.notes.append("- milk\n- tea", heading="Shopping")
    return kitchen


def test_the_notes_are_printed_as_json(kitchen: Path) -> None:
    """With `--json` each command prints its text and where it stands."""

    def read(*words: object) -> object:
        return json.loads(run("notes", *words, "--home", kitchen, "--json").output)

    path = str(kitchen / "NOTES.md")
    assert read() == {"path": path, "text": (kitchen / "NOTES.md").read_text(encoding="utf-8")}
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


def test_bad_words_are_one_sentence(kitchen: Path, tmp_path: Path) -> None:
    """An unknown heading names those that there are; nothing is no note; reading makes no home."""
    assert "Shopping" in refused(run("notes", "Cellar", "--home", kitchen))
    assert "empty note" in refused(run("notes", "add", "  ", "--home", kitchen))
    assert "no memory" in refused(run("notes", "--home", tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_notes_cannot_steer_the_terminal(kitchen: Path) -> None:
    """Control characters that somebody pasted into the file are not printed."""
    with (kitchen / "NOTES.md").open("a", encoding="utf-8") as file:
        file.write("  \x1b[31mred\u202e\n")
    output = run("notes", "--home", kitchen).output
    assert [part for part in ("\x1b", "\u202e") if part in output] == []


def test_of_notes_longer_than_their_bound_the_end_is_printed(kitchen: Path) -> None:
    """What people made longer than NOTES.md may be is not printed whole, and one sentence says so."""
    long = "## Log\n" + "".join(f"- line {n}\n" for n in range(9000))
    (kitchen / "NOTES.md").write_text(long, encoding="utf-8")
    for words in ((), ("Log",)):
        printed = run("notes", *words, "--home", kitchen)
        assert len(printed.stdout) <= 65_536
        assert printed.stdout.endswith("- line 8999\n")
        assert printed.stderr.splitlines() == [
            f"{kitchen / 'NOTES.md'} is longer than its bound of 65,536 characters; this is its end."
        ]
        text = json.loads(run("notes", *words, "--home", kitchen, "--json").stdout)["text"]
        assert text.strip("\n") == printed.stdout.strip("\n")


def test_a_line_is_as_old_as_its_section(kitchen: Path) -> None:
    """The date behind a heading says when a line was noted; a date that does not exist is none."""
    with edgemem.open(kitchen, profile=BY_WORDS, worker=False) as memory:
        memory.notes.path.write_text(
            "## Trip (2020-05-06 07:08)\n- sold the canoe\n## Trip (2020-99-99 07:08)\n- bought a kayak\n",
            encoding="utf-8",
        )
        noted = time.strftime("%Y-%m-%d %H:%M", time.localtime(memory.recall("canoe")[0].recorded_at))
        assert noted == "2020-05-06 07:08"
        assert memory.recall("kayak")[0].recorded_at == pytest.approx(memory.notes.path.stat().st_mtime)
