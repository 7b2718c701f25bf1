"""Where the command line looks for a memory, and what it leaves alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import edgemem
from edgemem.errors import InvalidInputError
from support.cli import refused, run
from support.homes import BY_WORDS

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("args", "says"),
    [
        *(((name,), "There is no memory at") for name in ("facts", "stats", "export", "notes", "check")),
        (("recall", "x"), "There is no memory at"),
        (("facts", "add", "a", "b"), "holds other things, such as mine.txt"),
        (("notes", "add", "x"), "holds other things, such as mine.txt"),
        (("models", "add", "f"), "holds other things, such as mine.txt"),
        ((), "holds other things, such as mine.txt"),
    ],
)
def test_a_directory_of_others_is_left_alone(tmp_path: Path, args: tuple[str, ...], says: str) -> None:
    """A directory without a memory gets no folders and keeps its rights, whatever is asked, also by `edgemem.open`."""
    tmp_path.chmod(0o755)
    (tmp_path / "mine.txt").write_text("x")
    if args:
        assert says in refused(run(*args, "--home", tmp_path))
    else:
        with pytest.raises(InvalidInputError, match=says):
            edgemem.open(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    assert tmp_path.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("name", ["edgemem.toml", "NOTES.md", "models/x.gguf", ".keep"])
def test_what_was_put_ready_for_a_home_may_be_there(tmp_path: Path, name: str) -> None:
    """A profile, notes or models that lie there before the first start are those of the home."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("")
    assert run("facts", "add", "a", "b", "--home", tmp_path).exit_code == 0
    assert "a" in run("facts", "--home", tmp_path).stdout


def test_the_home_that_was_meant_is_named(tmp_path: Path) -> None:
    """The README keeps its memory in a folder of the default home: who asks there is told where it is."""
    home = tmp_path / "kitchen"
    assert run("facts", "add", "a", "b", "--home", home).exit_code == 0
    for args in (("facts",), ("facts", "add", "a", "c")):
        assert f"there is one at {home}" in refused(run(*args, "--home", tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["kitchen"]


@pytest.mark.parametrize(("name", "says"), [("", "is empty"), ("~no-such-user-here/x", "no such user")])
def test_a_home_that_can_be_no_path_is_one_sentence(name: str, says: str) -> None:
    """An empty variable of a script does not mean the working directory."""
    assert says in refused(run("facts", "--home", name))


def test_checking_makes_no_home(tmp_path: Path) -> None:
    """`check` with a misspelt home looks at the machine, says that there is no memory, and makes none."""
    ran = run("check", "--home", tmp_path / "typo")
    assert ran.exit_code == 0
    assert "there is no memory at" in " ".join(ran.stdout.split())
    assert "machine" in ran.stdout
    assert list(tmp_path.iterdir()) == []


def test_only_what_is_ours_is_closed_to_others(tmp_path: Path) -> None:
    """An empty directory and a home are closed; one that holds something of the operator's keeps its rights."""
    for name, closed in (("empty", True), ("ready", False)):
        home = tmp_path / name
        home.mkdir()
        home.chmod(0o755)
        if not closed:
            (home / "lost+found").mkdir()
        edgemem.open(home, profile=BY_WORDS, worker=False).close()
        assert home.stat().st_mode & 0o777 == (0o700 if closed else 0o755)
    (tmp_path / "ready").chmod(0o755)
    edgemem.open(tmp_path / "ready", profile=BY_WORDS, worker=False).close()
    assert (tmp_path / "ready").stat().st_mode & 0o777 == 0o700


def test_a_new_fact_says_who_may_read_it(tmp_path: Path) -> None:
    """Who tells a fact sees at once who may read it."""
    readers = {"global": "anybody", "household": "recognised speakers", "user:alice": "alice alone"}
    for scope, who in readers.items():
        told = run("facts", "add", "allergy", "nuts", "--scope", scope, "--home", tmp_path / "home").stdout
        assert told.rstrip().endswith(f"; read by {who}.")


def test_a_home_that_cannot_be_written_is_one_sentence() -> None:
    """Where no folder can be made, that is said; /proc refuses even root."""
    assert "cannot be made" in refused(run("demo", "--home", "/proc/edgemem-home"))
