"""A truth that was lost: noticed, never taken for a new memory, put back by hand or without anybody there."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import edgemem
from edgemem.config import BackupSettings, LlamaSettings, Profile, StoreSettings
from edgemem.errors import BusyError, CorruptError, LostTruthError
from edgemem.memory import Memory
from edgemem.store.backups import backup_paths
from edgemem.store.memory_store import SQLiteMemoryStore
from support.cli import refused, run
from support.homes import check_of, home_of, home_with, told, turns_of, warning_of
from support.loops import start_in_a_tool
from support.refusals import refusal

Lose = Callable[[Path], None]
PROFILE = Profile(llama=LlamaSettings(embedder=""), backup=BackupSettings(every_h=1e-9))


def opened(home: Path, **settings: Any) -> Memory:
    return edgemem.open(home, profile=PROFILE, worker=False, **settings)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a closed home with an index, two backups, and one fact that is newer than both."""
    path = tmp_path / "home"
    with opened(path) as memory:
        for tea in ("green", "black"):
            memory.store.add_fact("tea", tea)
            memory.idle(10)
        memory.store.add_fact("tea", "white")
    assert len(backup_paths(path / "backups")) == 2
    assert (path / "db" / "index.db").exists()
    return path


def tea_of(home: Path) -> str | None:
    """Return which tea a home remembers when it is opened."""
    with opened(home) as memory:
        return memory.store.get_fact("tea")


def cut(home: Path) -> None:
    """Leave of the truth what a power cut leaves on FAT or ext4."""
    (home / "db" / "memory.db").write_bytes(b"")


def delete(home: Path) -> None:
    (home / "db" / "memory.db").unlink()


def overwrite(home: Path) -> None:
    (home / "db" / "memory.db").write_bytes(b"\0" * 5000)


def spoil(home: Path) -> None:
    """Spoil a page in the middle, which opening alone does not look at."""
    path = home / "db" / "memory.db"
    data = bytearray(path.read_bytes())
    data[len(data) // 2 :] = b"\x55" * (len(data) - len(data) // 2)
    path.write_bytes(data)


def swap(home: Path) -> None:
    """Put an empty memory in the truth's place, as a store that is opened by its path makes one."""
    delete(home)
    SQLiteMemoryStore(home / "db" / "memory.db").close()


@pytest.mark.parametrize("lose", [cut, delete, swap])
def test_a_lost_truth_is_never_taken_for_a_new_memory(home: Path, lose: Lose) -> None:
    """Opening refuses in one sentence that names the newest good backup, by every command, and changes nothing."""
    lose(home)
    before = sorted(home.rglob("*"))
    newest = backup_paths(home / "backups")[0]
    refusal(LostTruthError, opened, home, match=newest.name)
    for command in (("facts",), ("facts", "add", "tea", "mint"), ("check",), ("recall", "tea")):
        assert newest.name in refused(run(*command, "--home", home))
    assert sorted(home.rglob("*")) == before


@pytest.mark.parametrize("left", ["mark", "emptied mark", "index", "backups"])
def test_whatever_is_left_tells_that_there_was_a_truth(home: Path, left: str) -> None:
    """The mark, even emptied by the same power cut, the index's stamp or the backups: each of them alone is enough."""
    cut(home)
    if left == "emptied mark":
        (home / "db" / "home.json").write_bytes(b"")
    elif left != "mark":
        (home / "db" / "home.json").unlink()
    if left != "index":
        for path in (home / "db").glob("index.db*"):
            path.unlink()
    if left != "backups":
        shutil.rmtree(home / "backups")
    refusal(LostTruthError, opened, home)


def test_the_log_beside_an_empty_truth_is_not_thrown_away(home: Path) -> None:
    """SQLite deletes it as soon as it opens such a file; refusing looks at the file alone, and restoring puts it aside."""
    cut(home)
    log = home / "db" / "memory.db-wal"
    log.write_bytes(b"what a person may want to look at")
    refusal(LostTruthError, opened, home)
    assert log.exists()
    assert run("restore", "--home", home).exit_code == 0
    (aside,) = (home / "db").glob("memory.db.aside-*-wal")
    assert aside.read_bytes() == b"what a person may want to look at"
    assert (aside.with_name(aside.name.removesuffix("-wal"))).exists()


@pytest.mark.parametrize("lose", [cut, delete, overwrite])
def test_restore_puts_back_the_newest_good_backup(home: Path, lose: Lose) -> None:
    """A damaged one is passed over, the index is made again, and the memory goes on."""
    lose(home)
    newest, good = backup_paths(home / "backups")
    newest.write_bytes(newest.read_bytes()[:4096] + b"\0" * 8192)
    refusal(CorruptError, opened, home, match=good.name)
    done = json.loads(run("restore", "--home", home, "--json").stdout)
    assert done["restored"] == str(good)
    assert [Path(path).exists() for path in done["aside"]] == ([] if lose is delete else [True])
    with opened(home) as memory:
        assert memory.store.get_fact("tea") == "green"
        assert check_of(memory, "lost data").state == "ok"
        memory.idle(10)
        assert [found.value for found in memory.recall("tea")] == ["green"]
        memory.store.add_fact("tea", "mint")
    assert good.exists()


@pytest.mark.parametrize("lose", [cut, delete, overwrite, spoil, swap])
def test_a_robot_that_nobody_stands_beside_helps_itself(home: Path, lose: Lose) -> None:
    """With restore="newest" the newest good backup is put back, and `check` tells until somebody has seen it."""
    lose(home)
    newest = backup_paths(home / "backups")[0]
    with opened(home, restore="newest") as memory:
        assert memory.store.get_fact("tea") == "black"
        assert newest.name in warning_of(memory, "lost data")
        memory.store.add_fact("tea", "mint")
    with opened(home, restore="newest") as memory:
        assert memory.store.get_fact("tea") == "mint"
        assert check_of(memory, "lost data").state == "warn"
    assert "lost data" in run("check", "--home", home, "--acknowledge").stdout
    with opened(home) as memory:
        assert check_of(memory, "lost data").state == "ok"


@pytest.mark.parametrize(("lose", "damaged"), [(cut, True), (delete, False), (overwrite, True)])
def test_without_a_good_backup_it_begins_empty_and_says_so(home: Path, lose: Lose, damaged: bool) -> None:
    """What is left is put aside under a dated name; damaged backups stay where they are."""
    lose(home)
    for path in backup_paths(home / "backups"):
        if damaged:
            path.write_bytes(b"\0" * 5000)
        else:
            path.unlink()
    refusal(CorruptError, opened, home, match="edgemem restore --empty")
    with opened(home, restore="newest") as memory:
        assert memory.store.facts() == []
        assert "began empty" in check_of(memory, "lost data").detail
        assert bool(memory.diagnostics.truth.aside()) == (lose is not delete)
        memory.store.add_fact("tea", "mint")
        memory.idle(10)
        assert memory.recall("tea")[0].value == "mint"
    with opened(home) as memory:
        assert memory.store.get_fact("tea") == "mint"
        assert check_of(memory, "lost data").state == "warn"
        memory.diagnostics.truth.acknowledge()
        assert check_of(memory, "lost data").state == "ok"


def test_another_memory_is_kept_where_nothing_else_could_stand_there(home: Path) -> None:
    """Without a backup of the one before, restore="newest" takes it as it is, and says so; by hand a command does."""
    shutil.rmtree(home / "backups")
    delete(home)
    with SQLiteMemoryStore(home / "db" / "memory.db") as store:
        store.add_fact("tea", "of another robot")
    refusal(LostTruthError, opened, home, match="not the memory that this home had")
    with opened(home, restore="newest") as memory:
        assert memory.store.get_fact("tea") == "of another robot"
        assert check_of(memory, "lost data").state == "warn"
    assert run("restore", home / "db" / "memory.db", "--yes", "--home", home).exit_code == 0
    assert tea_of(home) == "of another robot"


KILLED_AT_EACH_STEP = """
import itertools, os, sys
from pathlib import Path
import edgemem
from edgemem.cli import main

def counted(call, steps):
    def wrapped(*args, **kwargs):
        if next(steps) == 0:
            os.kill(os.getpid(), 9)
        return call(*args, **kwargs)
    return wrapped

def start(home):
    with edgemem.open(home, worker=False, watch=False) as memory:
        memory.store.add_fact("tea", "green")

def restore(home):
    main(["restore", "--home", home], standalone_mode=False)

what, folder, *counted_calls = sys.argv[1:]
out, sys.stdout = sys.stdout, sys.stderr
globals()[what](f"{folder}/first")  # so that no process imports what another has imported
for n in itertools.count():
    child = os.fork()
    if child == 0:
        steps = itertools.count(n, -1)
        for owner, name in (call.split(".") for call in counted_calls):
            owner = {"os": os, "Path": Path}[owner]
            setattr(owner, name, counted(getattr(owner, name), steps))
        try:
            globals()[what](f"{folder}/{n}")
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(status, file=out, flush=True)
    if status != -9:
        break
"""
"""A program that does something in one process after the other, each of which is killed one step later than the one before."""


def killed_at_each_step(what: str, folder: Path, *calls: str) -> int:
    """Do something in a home of each number of that folder, killed at each of these calls; return the last home's number."""
    command = [sys.executable, "-c", KILLED_AT_EACH_STEP, what, str(folder), *calls]
    process = subprocess.run(command, capture_output=True, text=True)
    *killed, last = process.stdout.split()
    assert (set(killed), last) == ({str(-signal.SIGKILL)}, "0"), process.stderr
    return len(killed)


def test_a_first_start_that_is_cut_off_is_no_loss(tmp_path: Path) -> None:
    """Before the first durable commit there was nothing: wherever the process dies, the next start opens."""
    for name in ("first", *map(str, range(40))):
        home_of(tmp_path / name, '[llama]\nembedder = ""\n')
    last = killed_at_each_step("start", tmp_path, "os.fsync", "os.open")
    assert 3 < last < 40
    for n in range(last + 1):
        assert tea_of(tmp_path / str(n)) in (("green",) if n == last else (None, "green"))


def test_a_restore_that_is_cut_off_loses_nothing(home: Path, tmp_path: Path) -> None:
    """Wherever it dies, the next one succeeds, and what stood there lies under its own or a dated name."""
    overwrite(home)
    for name in ("first", *map(str, range(60))):
        shutil.copytree(home, tmp_path / name)
    last = killed_at_each_step("restore", tmp_path, "Path.replace", "Path.unlink", "os.fsync")
    assert 10 < last < 60
    for n in range(last + 1):
        copy = tmp_path / str(n)
        try:
            opened(copy).close()
        except CorruptError:
            assert n < last
            assert run("restore", "--home", copy).exit_code == 0
        with opened(copy) as memory:
            assert memory.store.get_fact("tea") == "black"
            assert [path.read_bytes() for path in memory.diagnostics.truth.aside()] == [b"\0" * 5000]


def killed_in_a_turn(home: Path, *, backed_up: bool) -> None:
    """Leave a turn that was accepted and never written, of a robot that was killed."""
    process = start_in_a_tool(home, *(["backed up"] if backed_up else []))
    process.kill()
    process.communicate()


@pytest.mark.parametrize(("lose", "backed_up"), [(cut, True), (delete, False)])
def test_waiting_turns_go_into_what_was_put_back(tmp_path: Path, lose: Lose, backed_up: bool) -> None:
    """They were accepted and stand in no backup: once there is a truth again, nobody's words are missing."""
    home = home_with(tmp_path / "home", wait=60)
    killed_in_a_turn(home, backed_up=backed_up)
    lose(home)
    for _ in range(2):
        with opened(home, restore="newest") as memory:
            texts = [told(turn)[0][1] for turn in turns_of(memory)]
        assert texts == (["good morning", "a timer, zebra"] if backed_up else ["a timer, zebra"])


@pytest.mark.parametrize("empty", [True, False])
def test_turns_that_wait_are_not_written_into_another_memory(tmp_path: Path, empty: bool) -> None:
    """Who puts another memory in the place of a sound one, or begins anew, leaves them with what goes aside."""
    home, other = home_with(tmp_path / "home", wait=60), tmp_path / "other.db"
    killed_in_a_turn(home, backed_up=False)
    SQLiteMemoryStore(other).close()
    assert run("restore", "--empty" if empty else other, "--yes", "--home", home).exit_code == 0
    with opened(home) as memory:
        assert turns_of(memory) == []
        assert any(b"zebra" in path.read_bytes() for path in memory.diagnostics.truth.aside())


def test_what_is_replaced_is_put_aside_and_asked_for(home: Path, tmp_path: Path) -> None:
    """Where the memory is sound a restore asks; without an answer nothing is changed."""
    older = backup_paths(home / "backups")[1]
    unanswered = run("restore", older, "--home", home)
    assert (unanswered.exit_code, "Nothing was changed" in unanswered.stderr) == (1, True)
    assert tea_of(home) == "white"
    assert run("restore", older, "--yes", "--home", home).exit_code == 0
    with opened(home) as memory:
        assert memory.store.get_fact("tea") == "green"
        (aside,) = memory.diagnostics.truth.aside()
    with SQLiteMemoryStore(shutil.copy(aside, tmp_path / "seen.db")) as store:
        assert store.get_fact("tea") == "white"


@pytest.mark.parametrize("source", ["nowhere", "text", "damaged", "--empty"])
def test_what_cannot_be_restored_is_one_sentence(home: Path, tmp_path: Path, source: str) -> None:
    """Nothing is changed for a file that is missing, none of ours or damaged, nor for two wishes at once."""
    (tmp_path / "text").write_text("not a memory" * 500)
    backup = backup_paths(home / "backups")[0]
    (tmp_path / "damaged").write_bytes(backup.read_bytes()[:-2048])
    args = (backup, "--empty") if source == "--empty" else (tmp_path / source,)
    before = (home / "db" / "memory.db").read_bytes()
    refused(run("restore", *args, "--yes", "--home", home))
    assert (home / "db" / "memory.db").read_bytes() == before
    assert tea_of(home) == "white"


def test_beginning_anew_by_hand(home: Path) -> None:
    """`restore --empty` puts aside what is left, and the backups of before are never pushed out."""
    cut(home)
    backups = backup_paths(home / "backups")
    assert "begins anew" in run("restore", "--empty", "--home", home).stdout
    with opened(home) as memory:
        assert memory.store.facts() == []
        for n in range(5):
            memory.store.add_fact("tea", str(n))
            memory.idle(10)
    assert set(backups) <= set(backup_paths(home / "backups"))
    assert run("restore", backups[0], "--yes", "--home", home).exit_code == 0
    assert tea_of(home) == "black"


def test_a_memory_begun_anew_is_not_given_what_stood_before(home: Path) -> None:
    """Whose robot it was stays unknown to whoever it belongs to now, also where that memory is lost in its turn."""
    assert run("restore", "--empty", "--yes", "--home", home).exit_code == 0
    with opened(home) as memory:
        memory.store.add_fact("coffee", "mine")
    cut(home)
    refusal(CorruptError, opened, home, match="no good backup")
    with opened(home, restore="newest") as memory:
        assert memory.store.facts() == []
        assert "began empty" in check_of(memory, "lost data").detail


@pytest.mark.parametrize("command", [("backup",), ("restore", "--yes"), ("restore", "--empty", "--yes")])
def test_nothing_is_replaced_while_a_robot_has_the_home_open(home: Path, command: tuple[str, ...]) -> None:
    """One sentence says so, also where the truth was deleted under the robot."""
    hasty = Profile(store=StoreSettings(busy_timeout_s=0.1))
    for lose in (lambda _home: None, delete):
        with opened(home):
            lose(home)
            assert "open; stop it" in refused(run(*command, "--home", home))
            if lose is delete:
                refusal(BusyError, edgemem.open, home, profile=hasty, worker=False, restore="newest")


def test_a_backup_by_hand_is_whole_and_can_be_restored(home: Path, tmp_path: Path) -> None:
    """It goes to a file, a folder or the home's own backups, for the owner alone."""
    done = json.loads(run("backup", tmp_path / "copy.db", "--home", home, "--json").stdout)
    assert done == {"backup": str(tmp_path / "copy.db"), "bytes": (tmp_path / "copy.db").stat().st_size}
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600
    assert run("backup", tmp_path, "--home", home).exit_code == 0
    (folder,) = backup_paths(tmp_path)
    assert "found good" in run("backup", "--home", home).stdout
    for source in (tmp_path / "copy.db", folder, backup_paths(home / "backups")[0]):
        cut(home)
        assert run("restore", source, "--home", home).exit_code == 0
        assert tea_of(home) == "white"


def test_a_backup_is_restored_onto_a_new_card(home: Path, tmp_path: Path) -> None:
    """The home that is not there yet is made; without a backup to name, nothing is."""
    card = tmp_path / "card" / "memory"
    assert "no memory at" in refused(run("restore", "--home", card))
    assert not card.exists()
    assert run("restore", backup_paths(home / "backups")[0], "--home", card).exit_code == 0
    assert tea_of(card) is not None


def test_a_backup_overwrites_nothing_but_a_backup(home: Path, tmp_path: Path) -> None:
    """A file of something else, and the memory's own folder, are left alone, in one sentence."""
    (tmp_path / "photo.jpg").write_bytes(b"mine")
    assert "is something else" in refused(run("backup", tmp_path / "photo.jpg", "--home", home))
    assert (tmp_path / "photo.jpg").read_bytes() == b"mine"
    for missing in ("usb", "usb/memory.db", "usb/sub"):  # a stick that nobody has put in
        assert f"no folder {tmp_path / 'usb'};" in refused(run("backup", tmp_path / missing, "--home", home))
    assert not (tmp_path / "usb").exists()
    before = (home / "db" / "memory.db").read_bytes()
    assert "another place" in refused(run("backup", home / "db" / "memory.db", "--home", home))
    assert (home / "db" / "memory.db").read_bytes() == before
    for _ in range(2):
        assert run("backup", tmp_path / "copy.db", "--home", home).exit_code == 0
