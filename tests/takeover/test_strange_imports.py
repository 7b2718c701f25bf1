"""Folders and databases that strangers made: nothing outside is read, nothing hangs or fills the memory, and one sentence says why."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

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
    assert all(remark.count("\n") == 0 for remark in named)


@pytest.mark.parametrize("command", ["import", "import edgevox", "import swarmline", "replay"])
@pytest.mark.parametrize("kind", ["a pipe", "a linked device", "a circle", "too much"])
def test_a_strange_file_is_refused_in_a_sentence(tmp_path: Path, command: str, kind: str) -> None:
    """It is neither waited for nor taken for anything."""
    path = tmp_path / "a" / "b" / "c" / "d" / "x.jsonl"
    path.parent.mkdir(parents=True)
    STRANGE[kind](path)
    assert refused(run(*command.split(), path, "--home", tmp_path / "home"))
