"""Folders and databases that strangers made: nothing outside is read, nothing hangs or fills the memory, and one sentence says why."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import gettempdir

import pytest

from edgemem.errors import InvalidInputError
from edgemem.takeover.edgevox import EdgevoxMemory
from edgemem.takeover.scratch import MAX_BYTES
from edgemem.takeover.swarmline import SwarmlineMemory
from support.cli import refused, run

ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select i as key, i as value from n"
FACTS = "create table facts (key text, value text, user_id text"
SECRET = "zq-private-key"


def database(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        for sql in statements:
            db.execute(sql)
        db.commit()


def linked(path: Path, target: object) -> None:
    path.symlink_to(str(target))


def logged(path: Path) -> None:
    database(path, f"{FACTS})")
    path.with_name(f"{path.name}-wal").symlink_to("/dev/zero")


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)


STRANGE: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a link out": lambda path: linked(path, path.parents[4] / "id_rsa"),
    "a linked device": lambda path: linked(path, "/dev/zero"),
    "a circle": lambda path: linked(path, path),
    "a linked folder": lambda path: linked(path, path.parents[4]),
    "a linked log": logged,
    "a computed column": lambda path: database(
        path,
        f"{FACTS}, source text generated always as (zeroblob(900000000)) virtual)",
        "insert into facts values ('tea', 'green', 'Ann')",
    ),
    "a view": lambda path: database(path, f"create view facts as {ENDLESS}"),
    "a module": lambda path: database(path, "create virtual table facts using fts5(key, value, user_id)"),
    "too much": huge,
}


@pytest.mark.parametrize("system", [EdgevoxMemory, SwarmlineMemory])
@pytest.mark.parametrize("kind", STRANGE)
def test_only_regular_files_inside_are_read(tmp_path: Path, kind: str, system: type) -> None:
    """The other files of the folder are read all the same, but where all are more than any memory has."""
    (tmp_path / "id_rsa").write_text(SECRET)
    bank = tmp_path / "theirs" / "mallory" / "t" / "memory"
    bank.mkdir(parents=True)
    (bank / "ok.md").write_text("fine")
    STRANGE[kind](bank / "x.md")
    if kind == "too much":
        with pytest.raises(InvalidInputError, match="more than"):
            system(tmp_path / "theirs")
        return
    old = system(tmp_path / "theirs")
    assert "mallory/t/memory/ok.md" in old.files
    assert SECRET not in str(vars(old))
    named = [remark for remark in old.remarks if "x.md" in remark]
    assert named or kind in ("a linked folder", "a computed column")
    assert not any("\n" in remark or "[Errno" in remark for remark in named)


@pytest.mark.parametrize("command", ["import", "import edgevox", "import swarmline", "replay"])
@pytest.mark.parametrize("kind", ["a pipe", "a linked device", "a circle", "too much"])
def test_a_strange_file_is_refused_in_a_sentence(tmp_path: Path, command: str, kind: str) -> None:
    """It is neither waited for nor taken for anything."""
    path = tmp_path / "a" / "b" / "c" / "d" / "x.jsonl"
    path.parent.mkdir(parents=True)
    STRANGE[kind](path)
    assert "[Errno" not in refused(run(*command.split(), path, "--home", tmp_path / "home"))


@pytest.mark.parametrize(
    ("system", "statements"),
    [
        ("edgevox", ["create table sessions (id integer)", "insert into sessions values (1)"]),
        ("swarmline", [f"{FACTS.replace('user_id text', 'user_id')})", "insert into facts values ('tea', 'green', null)"]),
        ("swarmline", [f"{FACTS.replace('user_id text', 'user_id')})", "insert into facts values ('tea', 'green', 7)"]),
    ],
)  # fmt: skip
def test_rows_of_other_kinds_are_taken_or_skipped(tmp_path: Path, system: str, statements: list[str]) -> None:
    """A database that somebody has edited has other columns, and numbers and nothing where names belong."""
    database(tmp_path / "x.db", *statements)
    result = run("import", system, tmp_path / "x.db", "--home", tmp_path / "home")
    assert result.exit_code == 0, result.output
    assert ("was skipped" in result.stdout) is ("7)" not in statements[1])


def test_a_copy_of_a_strangers_database_takes_no_folder_of_others_away(tmp_path: Path) -> None:
    """Only what was left of our own copies goes, whatever else is named after edgemem there."""
    memory = Path("/dev/shm")
    kept = (memory if os.access(memory, os.W_OK) else Path(gettempdir())) / f"edgemem-kitchen-{os.getpid()}"
    kept.mkdir()
    try:
        database(tmp_path / "x.db", f"{FACTS})")
        assert run("import", "swarmline", tmp_path / "x.db", "--home", tmp_path / "home").exit_code == 0
        assert kept.is_dir()
    finally:
        if kept.exists():
            kept.rmdir()
