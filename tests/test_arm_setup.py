"""The aarch64 try behind `make test-arm`: its pure parts, and what it says where it cannot run."""

from __future__ import annotations

import importlib
import struct
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

CI = Path(__file__).resolve().parent.parent / ".ci"
NAMES = ("arm", "arm_wheels", "arm_root", "wheels", "setup_env")


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Let the scripts be imported as they import each other, with a cache of their own."""
    monkeypatch.setenv("EDGEMEM_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(CI))
    for name in NAMES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield
    for name in NAMES:
        sys.modules.pop(name, None)


@pytest.fixture
def arm(load: None) -> ModuleType:
    """Return the script."""
    return importlib.import_module("arm")


@pytest.fixture
def wheels(load: None) -> ModuleType:
    """Return its part that fills the wheel folder."""
    return importlib.import_module("arm_wheels")


def library(*, bits: int = 2, machine: int = 183, aligned: int = 0x10000) -> bytes:
    """Return the headers of a shared library with one note and one segment that is loaded."""
    ident = b"\x7fELF" + bytes([bits, 1, 1]) + bytes(9)
    header = struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    note = struct.pack("<IIQQQQQQ", 4, 4, 0, 0, 0, 0, 0, 4)
    return ident + header + note + struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 0, 0, aligned)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (library(aligned=0x1000), "aligned to 4096 bytes"),
        (library(bits=1), "no 64-bit ARM code"),
        (library(machine=62), "no 64-bit ARM code"),
        (b"", "no 64-bit ARM code"),
        (b"\x7fELF" * 9, "no 64-bit ARM code"),
    ],
)
def test_a_library_that_some_board_cannot_load_is_named(
    wheels: ModuleType, content: bytes, fault: str
) -> None:
    """Code for another processor, 32-bit code and segments for small pages only are told apart."""
    assert fault in wheels.elf_fault(content)


def test_every_library_of_every_wheel_is_looked_at(wheels: ModuleType, tmp_path: Path) -> None:
    """One bad library among good ones stops the run, with its wheel and its name."""
    for name, content in {"one": library(), "two": library(machine=62)}.items():
        with zipfile.ZipFile(tmp_path / f"{name}.whl", "w") as archive:
            archive.writestr(f"{name}/lib/x.so.1", content)
            archive.writestr(f"{name}/readme.txt", "no library")
    with pytest.raises(SystemExit, match=r"two\.whl: two/lib/x\.so\.1: no 64-bit ARM code"):
        wheels.check_libraries(tmp_path)
    (tmp_path / "two.whl").unlink()
    assert wheels.check_libraries(tmp_path) == 1


def test_the_tests_that_are_run_there_exist(arm: ModuleType) -> None:
    """A renamed test file or a renamed slow test is noticed here, not minutes into an emulated run."""
    for name in (*arm.TESTS, *arm.TOO_LONG):
        path, _, function = name.partition("::")
        assert (
            f"def {function}(" in (CI.parent / path).read_text() if function else (CI.parent / path).is_file()
        )
