"""The bank in a folder: nothing that somebody puts there leads out of it, and what is cut off leaves a whole file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from edgemem.errors import MemoryBankViolation
from edgemem.store.bank.bank import ScopedBank
from edgemem.store.bank.files import BankFolder
from edgemem.store.bank.rules import MemoryBankConfig


@pytest.fixture
def bank(tmp_path, clock):
    folder = BankFolder(tmp_path / "bank", clock=clock, default_folders=MemoryBankConfig().default_folders)
    return ScopedBank(lambda: folder, "user:Ann", "one", MemoryBankConfig)


def test_what_is_made_is_its_owners_alone(bank, tmp_path):
    """Files are 0600 and folders 0700, and the default folders stand beside the first file."""
    bank.write("plans/a.md", "x")
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
    for act in (bank.read, lambda path: bank.write(path, "x"), lambda path: bank.append(path, "x")):
        with pytest.raises(MemoryBankViolation):
            act("plans/a.md")
    bank.delete("plans/a.md")
    assert bank.list() == []
    assert [path.name for path in outside.iterdir() if not path.name.startswith(".")] == ["a.md"]
    assert (outside / "a.md").read_text() == "secret"


def test_a_folder_swapped_for_a_link_leads_nowhere(bank, tmp_path):
    """A folder that becomes a link between check and use is not followed: what is used is what was opened."""
    bank.write("plans/a.md", "x")
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

    with pytest.raises(MemoryBankViolation):
        bank.write("plans/a.md", Swapping("y"))
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.mkdir() or (path / "inner").write_text("x")])
def test_what_is_no_file_is_refused(bank, tmp_path, make):
    """A pipe is not waited for, and a folder is no file."""
    bank.write("b.md", "x")
    make(tmp_path / "bank" / "Ann" / "one" / "a.md")
    for act in (bank.read, lambda path: bank.write(path, "x")):
        with pytest.raises(MemoryBankViolation, match="move that away"):
            act("a.md")


def test_bytes_that_are_no_text_are_read_and_not_written_over(bank, tmp_path):
    """A file of somebody else's coding is read as well as it can be, and stays as it is."""
    bank.write("a.md", "x")
    path = tmp_path / "bank" / "Ann" / "one" / "a.md"
    path.write_bytes(b"caf\xe9")
    assert bank.read("a.md") == "caf\ufffd"
    with pytest.raises(MemoryBankViolation, match="UTF-8"):
        bank.append("a.md", "x")
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
bank.append("plans/a.md", "new")
"""


def test_a_kill_at_any_step_leaves_a_whole_file(bank, tmp_path):
    """Whenever a writer is killed, the file holds the old text or the new one, and the next write works."""
    seen, step = set(), 0
    while True:
        step += 2
        bank.write("plans/a.md", "old")
        command = [sys.executable, "-c", WRITER, str(tmp_path / "bank"), str(step)]
        code = subprocess.run(command, check=False).returncode
        assert code in (0, -signal.SIGKILL)
        seen.add(bank.read("plans/a.md"))
        assert bank.list() == ["plans/a.md"]
        if code == 0:
            break
    assert seen == {"old", "old\nnew"}
    bank.append("plans/a.md", "again")
    assert bank.read("plans/a.md") == "old\nnew\nagain"
    assert [path.name for path in (tmp_path / "bank" / "Ann" / "one" / "plans").iterdir()] == ["a.md"]
