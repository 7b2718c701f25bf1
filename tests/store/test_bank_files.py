"""The bank in a folder: nothing leads out of it, cut-off writes leave whole files, and files are forgotten, exported and counted."""

import json
import os
import signal
import subprocess
import sys

import pytest

from edgemem.errors import MemoryBankViolation
from edgemem.memory.stats import gather
from edgemem.store.bank.bank import ScopedBank
from edgemem.store.bank.files import BankFolder
from edgemem.store.bank.rules import MemoryBankConfig
from support.cli import run
from support.homes import files_with, opened, warning_of
from support.refusals import refusal


@pytest.fixture
def bank(tmp_path, clock):
    folder = BankFolder(tmp_path / "bank", clock=clock, default_folders=MemoryBankConfig().default_folders)
    return ScopedBank(lambda: folder, "user:Ann", "one", MemoryBankConfig)


def test_what_is_made_is_its_owners_alone(bank, tmp_path):
    """Files are 0600 and folders 0700, and the default folders stand beside the first file."""
    bank.write_file("plans/a.md", "x")
    place = tmp_path / "bank" / "Ann" / "one"
    assert sorted(path.name for path in place.iterdir()) == ["notes", "plans", "reports"]
    modes = {path: path.stat().st_mode & 0o777 for path in (place, place / "plans", place / "plans" / "a.md")}
    assert list(modes.values()) == [0o700, 0o700, 0o600]


@pytest.mark.parametrize(
    "linked", ["bank", "bank/Ann", "bank/Ann/one", "bank/Ann/one/plans", "bank/Ann/one/plans/a.md"]
)
def test_no_link_is_followed(bank, tmp_path, linked):
    """A link anywhere on the way is refused in reading and writing, and what lies outside stays as it was."""
    outside, link = tmp_path / "outside", tmp_path / linked
    outside.mkdir()
    (outside / "a.md").write_text("secret")
    target = outside / "a.md" if link.name == "a.md" else outside
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)
    for act in (
        bank.read_file,
        lambda path: bank.write_file(path, "x"),
        lambda path: bank.append_to_file(path, "x"),
    ):
        refusal(MemoryBankViolation, act, "plans/a.md")
    bank.delete_file("plans/a.md")
    assert bank.list_files() == []
    assert [path.name for path in outside.iterdir() if not path.name.startswith(".")] == ["a.md"]
    assert (outside / "a.md").read_text() == "secret"


def test_a_folder_swapped_for_a_link_leads_nowhere(bank, tmp_path):
    """A folder that becomes a link between check and use is not followed: what is used is what was opened."""
    bank.write_file("plans/a.md", "x")
    outside, plans = tmp_path / "outside", tmp_path / "bank" / "Ann" / "one" / "plans"
    outside.mkdir()

    class Swapping(str):
        """A text that, once it is asked for its bytes, swaps the folder that it goes to."""

        __slots__ = ()

        def encode(self, *args: str) -> bytes:
            if not plans.is_symlink():
                plans.rename(tmp_path / "moved")
                plans.symlink_to(outside)
            return super().encode(*args)

    refusal(MemoryBankViolation, bank.write_file, "plans/a.md", Swapping("y"))
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.mkdir() or (path / "inner").write_text("x")])
def test_what_is_no_file_is_refused(bank, tmp_path, make):
    """A pipe is not waited for, and a folder is no file."""
    bank.write_file("b.md", "x")
    make(tmp_path / "bank" / "Ann" / "one" / "a.md")
    for act in (bank.read_file, lambda path: bank.write_file(path, "x")):
        refusal(MemoryBankViolation, act, "a.md", match="move that away")


def test_bytes_that_are_no_text_are_read_and_not_written_over(bank, tmp_path):
    """A file of somebody else's coding is read as well as it can be, and stays as it is."""
    bank.write_file("a.md", "x")
    path = tmp_path / "bank" / "Ann" / "one" / "a.md"
    path.write_bytes(b"caf\xe9")
    assert bank.read_file("a.md") == "caf\ufffd"
    refusal(MemoryBankViolation, bank.append_to_file, "a.md", "x", match="UTF-8")
    assert path.read_bytes() == b"caf\xe9"


WRITER = """
import os, signal, sys
from pathlib import Path
from edgemem.clock import Clock
from edgemem.store.bank.bank import ScopedBank
from edgemem.store.bank.files import BankFolder
from edgemem.store.bank.rules import MemoryBankConfig

folder = BankFolder(Path(sys.argv[1]), clock=Clock())
bank = ScopedBank(lambda: folder, "user:Ann", "one", MemoryBankConfig)
left, name = int(sys.argv[2]), "os.{}"
for call in ("open", "write", "rename", "fsync", "unlink"):
    def killing(*args, _call=getattr(os, call), **given):
        global left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return _call(*args, **given)
    setattr(os, call, killing)
bank.append_to_file("plans/a.md", "new")
"""


def test_a_kill_at_any_step_leaves_a_whole_file(bank, tmp_path):
    """Whenever a writer is killed, the file holds the old text or the new one, and the next write works."""
    seen, step = set(), 0
    while True:
        step += 2
        bank.write_file("plans/a.md", "old")
        command = [sys.executable, "-c", WRITER, str(tmp_path / "bank"), str(step)]
        code = subprocess.run(command, check=False).returncode
        assert code in (0, -signal.SIGKILL)
        seen.add(bank.read_file("plans/a.md"))
        assert bank.list_files() == ["plans/a.md"]
        if code == 0:
            break
    assert seen == {"old", "old\nnew"}
    bank.append_to_file("plans/a.md", "again")
    assert bank.read_file("plans/a.md") == "old\nnew\nagain"
    assert [path.name for path in (tmp_path / "bank" / "Ann" / "one" / "plans").iterdir()] == ["a.md"]


WORD = "quixotry"
ON = '[bank]\nbackend = "{}"\nlimits = {{ max_entries = 3 }}\n'
FORGETTER = """
import os, signal, sys
import edgemem
from edgemem.store.bank.files import BankFolder

BankFolder.erase_person = lambda self, name: os.kill(os.getpid(), signal.SIGKILL)
edgemem.open(sys.argv[1], worker=False).forget(person="mara")
"""


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("backend", ["files", "database"])
def test_a_person_takes_their_files_along(tmp_path, backend, killed):
    """No byte is left of a forgotten person's files, in either backend, also where the forgetting was cut off; others' stay."""
    home = tmp_path / "home"
    with opened(home, ON.format(backend)) as memory:
        memory.bank.for_person("Mara", "one").write_file("a.md", f"a {WORD}")
        memory.bank.for_person("Mara", "two").write_file("plans/b.md", f"b {WORD}")
        memory.bank.for_person("Bob", "one").write_file("a.md", "mine")
        memory.bank.household.write_file("a.md", "Mara likes tea.")
        memory.idle(seconds=60)
        if not killed:
            forgotten = memory.forget(person="MARA")
            assert forgotten.erased == {"files": 2}
            assert [mention.where for mention in forgotten.mentions.quoted] == ["household/a.md"]
    if killed:
        command = [sys.executable, "-c", FORGETTER, str(home)]
        code = subprocess.run(command, check=False).returncode
        assert code == (-signal.SIGKILL if backend == "files" else 0)
    with opened(home, ON.format(backend)) as memory:
        memory.idle(seconds=60)
        assert files_with(home, WORD) == []
        assert [file.place for file in memory.bank.files()] == ["household/a.md", "Bob/one/a.md"]
        assert memory.recall(WORD) == []


@pytest.mark.parametrize("source", ["files", "database"])
def test_files_move_from_one_home_into_another(tmp_path, source):
    """An export carries files into a home that keeps them the other way; a person's has their own; what is here stays."""
    other = "database" if source == "files" else "files"
    here, there = opened(tmp_path / "a", ON.format(source)), opened(tmp_path / "b", ON.format(other))
    with here as memory, there as second:
        memory.bank.for_person("Mara", "one").write_file("plans/a.md", "mine\n")
        memory.bank.shared.write_file("b.md", "all")
        memory.bank.household.write_file("c.md", "ours")
        lines = [line.encode() for line in memory.export()]
        second.bank.household.write_file("c.md", "theirs")
        report = second.import_lines(lines)
        assert (report.added, len(report.refused)) == ({"files": 2}, 1)
        assert second.import_lines(lines).known == {"files": 2}
        assert second.bank.for_person("Mara", "one").read_file("plans/a.md") == "mine\n"
        assert {line.encode() for line in second.export() if "user:" in line} <= {*lines}
        theirs = [json.loads(line) for line in memory.export(speaker="mara")]
        assert [line["path"] for line in theirs if line["record"] == "file"] == ["plans/a.md"]


@pytest.mark.parametrize(("bank", "path"), [("shared", "../x.md"), ("user:household", "x.md")])
def test_a_file_of_an_export_that_the_bank_does_not_take_is_refused(tmp_path, bank, path):
    """A path that would lead out of the bank, and a name that is no person's, is refused with a sentence."""
    file = {"record": "file", "bank": bank, "path": path, "content": "x", "modified": 1.0}
    lines = ({"record": "edgemem", "format": 5}, file, {"record": "end", "lines": 1})
    with opened(tmp_path / "home") as memory:
        report = memory.import_lines([json.dumps(line).encode() for line in lines])
    assert (report.added, len(report.refused)) == ({}, 1)


def test_the_command_line_keeps_files(tmp_path):
    """Files are written, listed, shown and deleted; each command has --json, and errors say what to do."""

    def bank(*args: str, code: int = 0, **more: str) -> str:
        result = run("bank", *args, "--home", tmp_path / "home", **more)
        assert result.exit_code == code, result.output
        return result.output

    mara, all_here = ("--user", "mara"), ("--scope", "household")
    assert bank("write", "plans/a.md", "Beans", "and", "peas", *mara) == "Written: plans/a.md.\n"
    written = bank("write", "b.md", "-", *all_here, "--json", input="Bins.")
    assert json.loads(written) == {"path": "b.md", "text": "Bins."}
    assert bank() == "household/b.md (5 bytes)\nmara/default/plans/a.md (14 bytes)\n"
    assert [file["scope"] for file in json.loads(bank("list", "--json"))] == ["household", "user:mara"]
    assert bank("plans/a.md", *mara) == "Beans and peas\n"
    assert json.loads(bank("show", "b.md", *all_here, "--json"))["text"] == "Bins."
    assert "--user NAME" in bank("show", "b.md", code=1)
    assert "leads upwards" in bank("write", "../b.md", "x", *mara, code=1)
    assert "nobody agreed" in bank("delete", "plans/a.md", *mara, code=1)
    assert bank("delete", "plans/a.md", *mara, "--yes") == "Deleted: plans/a.md.\n"
    assert "no file" in bank("delete", "plans/a.md", *mara, "--yes", code=1)


def test_stats_count_and_check_names_what_is_over_its_limits(tmp_path):
    """How many files there are is counted; a bank that hands made too large is named, and what to do."""
    with opened(tmp_path / "home", ON.format("files")) as memory:
        memory.bank.shared.write_file("a.md", "x")
        assert gather(memory.diagnostics).counts["bank_files"] == 1
        for n in range(4):
            (memory.home / "bank" / "shared" / f"{n}.md").write_text("x")
        assert warning_of(memory, "bank") == "shared: 5 files, of at most 3"
