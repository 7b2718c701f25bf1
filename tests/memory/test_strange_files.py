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
from support.homes import check_of, opened
from support.kills import start
from support.selection import cases

MORE = '[bank]\nbackend = "files"\n[hooks]\nfiles = ["own.py"]\n'
PLACES = [
    "edgemem.toml", "NOTES.md", "bank/PROMPT.md", "bank/household/MEMORY.md", "hooks/own.py", "db/memory.db",
    "db/memory.db-wal", "db/memory.db-shm", "db/memory.db.lock", "db/memory.db.spool-1", "db/home.json",
    "db/home.lock", "db/index.db", "db/index.db-wal", "db/turn.json", "db/failures.json", "db/state-1.bin",
    "models/own.gguf", "models/own.gguf.pin", "backups/memory-20260101T000000.000000Z.db",
]  # fmt: skip
LOOK = [
    "stats", "check", "recall tea", "inspect prompt tea", "notes", "bank list", "facts", "sessions", "export",
    "models list",
]  # fmt: skip
COMMANDS = [line.split() for line in [*LOOK, "facts add k v", "notes add x", "backup"]]
PROGRAM = """
    import json, sys
    from click.testing import CliRunner
    from edgemem.cli import main
    for home in sys.argv[2:]:
        for command in json.loads(sys.argv[1]):
            result = CliRunner().invoke(main, [*command, "--home", home])
            print(json.dumps([home, command, result.exit_code, result.stdout, result.stderr]), flush=True)
"""


def socket_at(path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as held:
        folder = os.open(path.parent, os.O_RDONLY)  # a socket's name is short
        held.bind(f"/proc/self/fd/{folder}/{path.name}")
        os.close(folder)


KINDS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo, "socket": socket_at, "folder": Path.mkdir, "circle": lambda path: path.symlink_to(path.name),
    "device": lambda path: path.symlink_to("/dev/zero"),
    "link": lambda path: path.symlink_to(os.environ["PYTEST_OUTSIDE"]),
    "sparse": lambda path: (path.touch(), os.truncate(path, 10**10)),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_lies_in_place_of_a_file_nothing_hangs(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command ends, with one sentence where it fails, and nothing outside is read or written."""
    outside = tmp_path / "outside"
    outside.write_text("the secret")
    monkeypatch.setenv("PYTEST_OUTSIDE", str(outside))
    # Notes may lie elsewhere, where the link is their owner's.
    places = [place for place in PLACES if (kind, place) != ("link", "NOTES.md")]
    homes = []
    for place in Random(kind).sample(places, max(2, cases(len(places)))):
        homes.append(home := tmp_path / str(len(homes)))
        with opened(home, MORE) as memory:
            memory.store.add_fact("tea", "green")
        strange = home / place
        strange.parent.mkdir(parents=True, exist_ok=True)
        strange.unlink(missing_ok=True)
        KINDS[kind](strange)
    with start(PROGRAM, json.dumps(COMMANDS), *homes) as child:
        printed, _ = child.communicate(timeout=300)
    for line in printed.splitlines():
        *_, code, out, err = json.loads(line)
        assert code == 0 or (code == 1 and err.startswith("edgemem: ")) or "fail" in out, line
        assert "the secret" not in out + err, line
        assert "fault of edgemem" not in err, line
    assert len(printed.splitlines()) == len(homes) * len(COMMANDS)
    assert outside.read_text() == "the secret"


@pytest.mark.parametrize("place", ["bank/PROMPT.md", "edgemem.toml", "NOTES.md", "hooks/own.py"])
def test_what_everybody_or_a_stranger_may_write_is_not_read(tmp_path: Path, place: str) -> None:
    """`check` or the command says so, and where a group may write; a hook file and the prompt are no links."""
    home, real = tmp_path / "home", tmp_path / "real"
    opened(home, MORE if "hooks" in place else '[bank]\nbackend = "files"\n').close()

    def told() -> str:
        return " ".join(run("check", "--home", home).output.split())

    file = home / place
    file.parent.mkdir(exist_ok=True)
    with file.open("a") as text:
        text.write("# mine\n")
    for mode, says in ((0o666, "others may write it"), (0o664, "The group of"), (0o600, "picked up")):
        file.chmod(mode)
        assert says in told()
    if os.geteuid() == 0:
        os.chown(file, 12345, 12345)
        assert "owner is somebody else" in told()
        os.chown(file, 0, 0)
    file.rename(real)
    file.symlink_to(real)
    assert ("no regular file" in told()) is (place not in ("edgemem.toml", "NOTES.md"))


@pytest.mark.parametrize(
    ("place", "file"), [("hooks", "hooks/own.py"), ("bank", "bank/PROMPT.md"), (".", "edgemem.toml"), (".", "NOTES.md")]
)  # fmt: skip
def test_what_lies_in_a_folder_of_others_is_not_read(tmp_path: Path, place: str, file: str) -> None:
    """Who may write the folder may put any file of ours there: `check` or the command says so, and where a group may write."""
    home = tmp_path / "home"
    opened(home, MORE if place == "hooks" else '[bank]\nbackend = "files"\n').close()
    (home / file).parent.mkdir(exist_ok=True)
    (home / file).touch()
    folder = home / place

    def told() -> str:
        return " ".join(run("check", "--home", home).output.split())

    for mode, says in ((0o707, "others may write it"), (0o770, "The group of"), (0o700, "picked up")):
        if place != ".":  # a home of ours is closed when it is opened
            folder.chmod(mode)
            assert says in told()
    if os.geteuid() == 0:
        os.chown(folder, 12345, 12345)
        assert ("owner is somebody else" in told()) is (place != ".")  # the owner of a home is trusted
        os.chown(folder, 0, 0)
        folder.rename(tmp_path / "real")
        folder.symlink_to(tmp_path / "real")
        os.chown(folder, 12345, 12345, follow_symlinks=False)
        if place == "bank":
            assert "a link of somebody else's" in refused(run("facts", "--home", home))
        elif place == "hooks":
            assert "owner is somebody else" in told()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a link of somebody else's")
def test_a_link_of_somebody_else_says_not_where_to_write(tmp_path: Path) -> None:
    """Neither a backup nor an export follows it, nor a folder of a home; one of our own leads on, or the sentence names its end."""
    home, outside = tmp_path / "home", tmp_path / "outside"
    with opened(home) as memory:
        memory.store.add_fact("tea", "green")
    outside.mkdir()
    (outside / "x.db").write_text("theirs")
    for target in (outside / "x.db", outside / "new.db", outside):
        link = tmp_path / "link.db"
        link.symlink_to(target)
        os.chown(link, 12345, 12345, follow_symlinks=False)
        for command in ("backup", "export"):
            place = link / "new.db" if target == outside else link
            assert "link of somebody else's" in refused(run(command, place, "--home", home))
        link.unlink()
    shutil.rmtree(home / "backups")
    (home / "backups").symlink_to(outside)
    os.chown(home / "backups", 12345, 12345, follow_symlinks=False)
    assert "link of somebody else's" in refused(run("facts", "--home", home))
    assert [(file.name, file.read_text()) for file in outside.iterdir()] == [("x.db", "theirs")]


def test_a_backup_to_a_link_to_nothing_names_the_missing_folder(tmp_path: Path) -> None:
    """Where the folder is there, the copy is made at the end of the link."""
    home = tmp_path / "home"
    opened(home).close()
    (tmp_path / "link.db").symlink_to(tmp_path / "stick" / "x.db")
    assert f"no folder {tmp_path / 'stick'};" in refused(run("backup", tmp_path / "link.db", "--home", home))
    (tmp_path / "stick").mkdir()
    assert str(tmp_path / "stick" / "x.db") in run("backup", tmp_path / "link.db", "--home", home).output


def test_a_name_of_a_strangers_file_steers_no_terminal(tmp_path: Path) -> None:
    """A sentence that names it is as plain as what is printed."""
    result = run("import", tmp_path / "\x1b[31mx\u202e", "--home", tmp_path / "home", color=True)
    assert result.exit_code == 1
    assert [part for part in ("\x1b[31mx", "\u202e") if part in result.stderr] == []


@pytest.mark.parametrize(
    "text", ["def hook(memory):\n    raise KeyError('x')\n", "def hook(memory):\n    ret"]
)
def test_a_hook_file_that_fails_is_told_in_a_sentence(tmp_path: Path, text: str) -> None:
    """Whatever it raises when it is asked for its hook."""
    with opened(tmp_path, MORE) as memory:
        (tmp_path / "hooks").mkdir()
        (tmp_path / "hooks" / "own.py").write_text(text)
        with pytest.raises(ConfigError, match=r"own\.py failed: (Key|Name)Error"):
            memory.session("kitchen")


def test_notes_are_recalled_once_they_are_to_be_trusted(tmp_path: Path) -> None:
    """Rights that change take lines out of recall, and put them in again; a long file's end is recalled, and `check` says so."""
    with opened(tmp_path) as memory:
        memory.notes.append("The canoe is in the shed.")
        for mode in (0o606, 0o600, 0o606, 0o600):
            memory.notes.path.chmod(mode)
            for _ in range(2):
                assert bool(memory.recall("Where is the canoe?")) is (mode == 0o600)
                memory.idle(5)
        memory.notes.path.write_text("The canoe is away.\n" + "- line\n" * 20_000 + "The kayak is here.\n")
        assert [item.text for item in memory.recall("canoe and kayak")] == ["The kayak is here."]
        assert "only its end is recalled" in check_of(memory, "hot reload").detail


def test_looking_at_a_home_runs_and_changes_nothing_of_it(tmp_path: Path) -> None:
    """No command but those that talk loads a hook file; a session does."""
    home, ran = tmp_path / "home", tmp_path / "ran"
    with opened(home, MORE) as memory:
        memory.store.add_fact("tea", "green")
    (home / "hooks").mkdir()
    (home / "hooks" / "own.py").write_text(f"import pathlib\npathlib.Path({str(ran)!r}).touch()\n")
    before = (home / "db" / "memory.db").read_bytes()
    for command in COMMANDS:
        assert run(*command, "--home", home).exit_code == 0, command
        assert ((home / "db" / "memory.db").read_bytes() == before) is (" ".join(command) in LOOK), command
    assert not ran.exists()
    with edgemem.open(home, worker=False) as memory, pytest.raises(ConfigError, match="no function hook"):
        memory.session("kitchen")
    assert ran.exists()


def test_nothing_is_written_over_a_home(tmp_path: Path) -> None:
    """Neither a backup nor an export replaces a file of a home or an open database, or another memory's backup."""
    home, other, link = tmp_path / "home", tmp_path / "other", tmp_path / "link"
    for path in (home, other):
        with opened(path) as memory:
            memory.store.add_fact("who", path.name)
    assert run("backup", "--home", other).exit_code == 0
    (old,) = backup_paths(other / "backups")
    link.symlink_to(other / "db")
    names = ["db/memory.db", "db/memory.db-wal", "db/new.db", "NOTES.md", "bank/a.md", "db/../db/memory.db"]
    with SQLiteMemoryStore(tmp_path / "x.db"):
        for target in (*(other / name for name in names), old, link / "memory.db", tmp_path / "x.db"):
            for command in ("backup", "export"):
                assert "is left as it is" in refused(run(command, target, "--home", home)), (command, target)
    shutil.copy(old, tmp_path / "copy.db")
    assert "is left as it is" in refused(run("backup", tmp_path / "copy.db", "--home", home))
    assert "is left as it is" in refused(run("backup", other / "db", "--home", home))
    with edgemem.open(other, worker=False) as memory:
        assert memory.store.get_fact("who") == "other"


@pytest.mark.parametrize(
    "part",
    [
        "create trigger evil after insert on facts begin delete from facts where id <> new.id; end",
        "create view evil as select * from facts", "create virtual table evil using fts5(x)",
        "create index evil on facts (value)", "create table evil (x references facts (id))", "drop view facts_now",
    ],
)  # fmt: skip
def test_a_backup_with_parts_that_are_not_ours_is_not_put_back(tmp_path: Path, part: str) -> None:
    """`restore` refuses it and keeps what is there, and `check` tells of such a part in a truth."""
    home, copy = tmp_path / "home", tmp_path / "copy.db"
    with opened(home) as memory:
        memory.store.add_fact("a", "1")
        memory.diagnostics.backups.make(copy)
    for file in (copy, home / "db" / "memory.db"):
        with closing(sqlite3.connect(file)) as raw, raw:
            raw.execute(part)
    assert "not as it makes" in refused(run("restore", copy, "--yes", "--home", home))
    assert "not as edgemem makes it" in run("check", "--home", home).output
    with opened(home) as memory:
        assert memory.store.get_fact("a") == "1"
