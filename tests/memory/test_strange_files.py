"""Files that a stranger left in a home, or whose name is given: nothing hangs, is run, or is written elsewhere."""

import json
import os
import shutil
import socket
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

import edgemem
from edgemem.errors import ConfigError
from edgemem.store import SQLiteMemoryStore
from edgemem.store.backups import backup_paths
from support.cli import refused, run
from support.homes import opened
from support.kills import start
from support.selection import cases

SECRET = "the secret of somebody else"
PLACES = (
    *("edgemem.toml", "NOTES.md", "bank/PROMPT.md", "bank/household/MEMORY.md", "hooks/own.py"),
    *(
        "db/memory.db",
        "db/memory.db-wal",
        "db/memory.db-shm",
        "db/memory.db.lock",
        "db/home.json",
        "db/home.lock",
    ),
    *(
        "db/index.db",
        "db/index.db-wal",
        "db/turn.json",
        "db/failures.json",
        "db/memory.db.spool-1",
        "db/state-1.bin",
    ),
    *("models/own.gguf", "models/own.gguf.pin", "backups/memory-20260101T000000.000000Z.db"),
)
COMMANDS = (
    ["stats"],
    ["check"],
    ["recall", "tea"],
    ["inspect", "prompt", "tea"],
    ["notes"],
    ["export"],
    ["models", "list"],
    ["facts", "add", "k", "v"],
    ["notes", "add", "x"],
    ["backup"],
)
LOOK = """
    import json, sys
    from click.testing import CliRunner
    from edgemem.cli import main
    for home in sys.argv[2:]:
        for command in json.loads(sys.argv[1]):
            print(home, command, flush=True)
            result = CliRunner().invoke(main, [*command, "--home", home])
            sentence = result.exit_code == 0 or result.stderr.startswith("edgemem: ")
            print(json.dumps([result.exit_code, sentence, result.output]), flush=True)
"""


def socket_at(path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as held:
        here = os.open(path.parent, os.O_RDONLY)  # a socket's name is short
        held.bind(f"/proc/self/fd/{here}/{path.name}")
        os.close(here)


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10 * 10**9)


KINDS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "socket": socket_at,
    "folder": Path.mkdir,
    "circle": lambda path: path.symlink_to(path.name),
    "device": lambda path: path.symlink_to("/dev/zero"),
    "link": lambda path: path.symlink_to(
        next(p for p in path.parents if p.name == "home").parent.parent / "outside"
    ),
    "sparse": sparse,
}


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_stands_in_place_of_a_file_nothing_hangs(tmp_path: Path, kind: str) -> None:
    """Every command ends, with a sentence where it fails, and nothing outside is read or written."""
    # Notes may lie elsewhere, where the link is their owner's: see below.
    places = [place for place in PLACES if (kind, place) != ("link", "NOTES.md")]
    places = Random(kind).sample(places, max(2, cases(len(places))))
    outside = tmp_path / "outside"
    outside.write_text(SECRET)
    homes = [tmp_path / str(n) / "home" for n in range(len(places))]
    for home, place in zip(homes, places, strict=True):
        home.parent.mkdir()
        with opened(home, '[bank]\nbackend = "files"\n[hooks]\nfiles = ["own.py"]\n') as memory:
            memory.store.add_fact("tea", "green")
        strange = home / place
        strange.parent.mkdir(parents=True, exist_ok=True)
        strange.unlink(missing_ok=True)
        KINDS[kind](strange)
    with start(LOOK, json.dumps(COMMANDS), *homes) as child:
        printed, _ = child.communicate(timeout=300)
    for asked, told in zip(*[iter(printed.splitlines())] * 2, strict=True):
        code, sentence, output = json.loads(told)
        assert sentence, (asked, output)
        assert code in (0, 1), (asked, output)
        assert SECRET not in output, asked
        assert "fault of edgemem" not in output, (asked, output)
    assert outside.read_text() == SECRET


@pytest.mark.parametrize("place", ["bank/PROMPT.md", "edgemem.toml", "NOTES.md", "hooks/own.py"])
def test_what_everybody_or_a_stranger_may_write_is_not_read(tmp_path: Path, place: str) -> None:
    """`check` or the command says so in one sentence, and tells where a group may write; a hook file is no link."""
    home = tmp_path / "home"
    hooks = '[hooks]\nfiles = ["own.py"]\n' if "hooks" in place else ""
    with opened(home, f'[bank]\nbackend = "files"\n{hooks}') as memory:
        memory.store.add_fact("tea", "green")
    file = home / place
    file.parent.mkdir(exist_ok=True)
    file.write_text((file.read_text() if file.exists() else "") + "# mine\n")
    for mode, says in ((0o666, "Everybody may write"), (0o664, "The group of"), (0o600, "picked up")):
        file.chmod(mode)
        assert says in " ".join(run("check", "--home", home).output.split())
    if os.geteuid() == 0:
        os.chown(file, 12345, 12345)
        assert "belongs to somebody else" in " ".join(run("check", "--home", home).output.split())
        os.chown(file, 0, 0)
    file.rename(tmp_path / "real")
    file.symlink_to(tmp_path / "real")
    followed = place in ("edgemem.toml", "NOTES.md")
    assert ("no regular file" in " ".join(run("check", "--home", home).output.split())) is not followed


def test_looking_at_a_home_runs_nothing_of_it(tmp_path: Path) -> None:
    """No command but those that talk loads a hook file; a session does."""
    home, ran = tmp_path / "home", tmp_path / "ran"
    with opened(home, '[hooks]\nfiles = ["own.py"]\n') as memory:
        memory.store.add_fact("tea", "green")
    (home / "hooks").mkdir()
    (home / "hooks" / "own.py").write_text(f"import pathlib\npathlib.Path({str(ran)!r}).touch()\n")
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    for command in COMMANDS:
        assert run(*command, "--home", home).exit_code == 0, command
        if not {"add", "backup"} & {*command}:
            after = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
            assert {path: data for path, data in after.items() if ".spool" not in path.name} == before, (
                command
            )
    assert not ran.exists()
    with edgemem.open(home, worker=False) as memory, pytest.raises(ConfigError, match="no function hook"):
        memory.session("kitchen")
    assert ran.exists()


def test_nothing_is_written_over_a_home(tmp_path: Path) -> None:
    """Neither a backup nor an export takes the place of a file of a home, by whatever way its name leads there."""
    home, other, outside = tmp_path / "home", tmp_path / "other", tmp_path / "outside"
    for path in (home, other):
        with opened(path) as memory:
            memory.store.add_fact("who", path.name)
            memory.notes.append("mine")
    assert run("backup", "--home", other).exit_code == 0
    (old,) = backup_paths(other / "backups")
    outside.symlink_to(other / "db")
    with SQLiteMemoryStore(tmp_path / "x.db") as living:
        living.add_fact("who", "x")
        for target in (
            *(
                other / name
                for name in ("db/memory.db", "db/memory.db-wal", "db/new.db", "NOTES.md", "bank/a.md")
            ),
            *(
                home / "db" / "memory.db",
                old,
                outside / "memory.db",
                other / "db" / ".." / "db" / "memory.db",
            ),
            tmp_path / "x.db",
        ):
            for command in ("backup", "export"):
                assert "is left as it is" in refused(run(command, target, "--home", home)), (command, target)
    shutil.copy(old, tmp_path / "copy.db")
    assert "is left as it is" in refused(run("backup", tmp_path / "copy.db", "--home", home))
    with edgemem.open(other, worker=False) as memory:
        assert (memory.store.get_fact("who"), memory.notes.read()) == ("other", "mine\n")


@pytest.mark.parametrize(
    "part",
    [
        "create trigger evil after insert on facts begin delete from facts where id <> new.id; end",
        "create view evil as select * from facts",
        "create virtual table evil using fts5(x)",
        "create index evil on facts (value)",
        "create table evil (x references facts (id))",
        "drop index if exists {index}",
    ],
)
def test_a_backup_with_parts_that_are_not_ours_is_not_put_back(tmp_path: Path, part: str) -> None:
    """`restore` refuses it and keeps what is there, `check` tells of such a part in a truth, and older steps are known."""
    home, copy = tmp_path / "home", tmp_path / "copy.db"
    with opened(home) as memory:
        memory.store.add_fact("a", "1")
        memory.diagnostics.backups.make(copy)
    for file in (copy, home / "db" / "memory.db"):
        with closing(sqlite3.connect(file)) as raw, raw:
            (index,) = raw.execute(
                "select min(name) from sqlite_master where type = 'index' and sql > ''"
            ).fetchone()
            raw.execute(part.format(index=index))
    assert "does not make" in refused(run("restore", copy, "--yes", "--home", home))
    assert "not as edgemem makes it" in run("check", "--home", home).output
    with opened(home) as memory:
        assert memory.store.get_fact("a") == "1"
