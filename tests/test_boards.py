"""The scripts behind `make test-boards`, `make test-arm`, `make quick` and `make wheels`: what they run, find and refuse."""

from __future__ import annotations

import importlib
import os
import re
import sqlite3
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from support.selection import HEAVY_FIXTURES, SLOW_TESTS, TESTS, heavy_names

CI = Path(__file__).resolve().parent.parent / ".ci"


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load a script of `.ci`, which finds its neighbours beside itself."""
    monkeypatch.syspath_prepend(str(CI))
    before = set(sys.modules)
    script = importlib.import_module(name)
    for new in set(sys.modules) - before:
        del sys.modules[new]
    return script


@pytest.fixture
def old_sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the script that makes the oldest SQLite, with a cache of its own."""
    monkeypatch.setenv("EDGEMEM_CACHE", str(tmp_path / "cache"))
    return load("old_sqlite", monkeypatch)


@pytest.fixture
def wheels(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the script that collects wheels."""
    return load("wheels", monkeypatch)


@pytest.fixture
def arm_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the script that collects wheels for aarch64, with a cache of its own."""
    monkeypatch.setenv("EDGEMEM_CACHE", str(tmp_path / "cache"))
    return load("arm_wheels", monkeypatch)


def write_program(path: Path, body: str) -> Path:
    """Put a shell program at a path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_a_python_with_another_sqlite_is_refused(old_sqlite: ModuleType, tmp_path: Path) -> None:
    """The run with the old SQLite cannot pass with the system's by mistake."""
    modern = write_program(tmp_path / "modern", "echo 3.45.1")
    with pytest.raises(RuntimeError, match=r"does not use SQLite 3\.37\.0 as it must: 3\.45\.1"):
        old_sqlite.prove(modern, {})
    no_vec0 = write_program(tmp_path / "no vec0", "echo 'no such module: vec0' >&2; exit 1")
    with pytest.raises(RuntimeError, match="no such module: vec0"):
        old_sqlite.prove(no_vec0, {})
    old_sqlite.prove(write_program(tmp_path / "old", "echo 3.37.0"), {})


def test_a_python_with_the_sqlite_that_is_asked_for_passes(
    old_sqlite: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proof fits the code of today: with this very Python it finds vec0, full text and the version."""
    monkeypatch.setattr(old_sqlite, "VERSION", sqlite3.sqlite_version)
    old_sqlite.prove(Path(sys.executable), dict(os.environ))


def test_no_statement_needs_what_the_oldest_sqlite_lacks() -> None:
    """JSON came with 3.38 (before, a distribution chose it), the rest later; the ordinary suite would not notice."""
    newer = re.compile(
        r"\bjson_(each|extract|tree|array|object|group|valid)|->>|\bunixepoch\(|\bdistinct from\b|\b(full|right) join\b"
    )
    modules = sorted((CI.parent / "edgemem").rglob("*.py"))
    assert [module for module in modules if newer.search(module.read_text())] == []


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("def test_it(tmp_path): open(tmp_path)", False),
        ("import subprocess\ndef test_it(): subprocess.run('ls')", True),
        ("import subprocess\ndef test_it(): len('subprocess')", False),
        ("def test_it():\n    import http.server", True),
        ("from support.servers import RunningServer\ndef test_it(): RunningServer()", True),
        ("from support.embedders import HashEmbedder\ndef test_it(): HashEmbedder()", False),
        ("def robot(minilm): ...\ndef home(robot): ...\ndef test_it(home): ...", True),
        ("import llama_cpp as llama\nMODEL = llama.Llama\ndef run(): MODEL()\ndef test_it(): run()", True),
    ],
)
def test_code_tells_what_is_quick(tmp_path: Path, code: str, heavy: bool) -> None:
    """`make quick` passes over a test whose code reaches a model, a server or a process, through whatever names."""
    (tmp_path / "test_it.py").write_text(code)
    assert ("test_it" in heavy_names(tmp_path / "test_it.py")) == heavy
    assert heavy_names(tmp_path / "test_it.py") >= HEAVY_FIXTURES


def test_each_test_that_is_named_as_slow_exists() -> None:
    """A test that was renamed or removed is removed from the list in `tests/support/selection.py` too."""
    defined = {
        name
        for path in TESTS.rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)\(", path.read_text("utf-8"))
    }
    assert SLOW_TESTS - defined == set()


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
        (b"\x7fELF" * 9, "no 64-bit ARM code"),
    ],
)
def test_a_library_that_some_board_cannot_load_is_named(
    arm_wheels: ModuleType, content: bytes, fault: str
) -> None:
    """Code for another processor, 32-bit code and segments for small pages only are told apart."""
    assert fault in arm_wheels.elf_fault(content)


def test_every_library_of_every_wheel_is_looked_at(arm_wheels: ModuleType, tmp_path: Path) -> None:
    """One bad library among good ones stops the run, with its wheel and its name."""
    for name, content in {"one": library(), "two": library(machine=62)}.items():
        with zipfile.ZipFile(tmp_path / f"{name}.whl", "w") as archive:
            archive.writestr(f"{name}/lib/x.so.1", content)
            archive.writestr(f"{name}/readme.txt", "no library")
    with pytest.raises(SystemExit, match=r"two\.whl: two/lib/x\.so\.1: no 64-bit ARM code"):
        arm_wheels.check_libraries(tmp_path)
    (tmp_path / "two.whl").unlink()
    assert arm_wheels.check_libraries(tmp_path) == 1


def test_the_tests_that_are_run_on_arm_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    """A renamed test file or a renamed slow test is noticed here, not minutes into an emulated run."""
    arm = load("arm", monkeypatch)
    for name in (*arm.TESTS, *arm.TOO_LONG):
        path, _, function = name.partition("::")
        text = (CI.parent / path).read_text()
        assert not function or f"def {function}(" in text


def test_wheels_never_replace_a_folder_of_other_things(wheels: ModuleType, tmp_path: Path) -> None:
    """A new or empty folder is taken, and one that was made before; anybody else's is refused."""
    assert wheels.place(str(tmp_path / "new")) == tmp_path / "new"
    assert wheels.place(str(tmp_path)) == tmp_path
    (tmp_path / "letters").mkdir()
    with pytest.raises(SystemExit, match="holds other things; name a new folder"):
        wheels.place(str(tmp_path))
    (tmp_path / "install.sh").write_text(wheels.INSTALL)
    assert wheels.place(str(tmp_path)) == tmp_path


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        (
            "Failed to load 'libllama.so': libgomp.so.1: cannot open shared object file: No such file",
            "sudo apt install libgomp1",
        ),
        (
            "Failed to load 'libllama.so': version `GLIBC_2.38' not found",
            "build llama-cpp-python on this machine",
        ),
    ],
)
def test_a_library_that_cannot_be_loaded_is_named_with_what_to_do(
    tmp_path: Path, said: str, advice: str
) -> None:
    """A wheel of another machine, or a bare system, gives one clear sentence and no traceback."""
    (tmp_path / "llama_cpp.py").write_text(f"raise RuntimeError({said!r})")
    program = (
        "from edgemem.llama.backend import llama\n"
        "from edgemem.errors import ModelError\n"
        "try:\n    llama()\nexcept ModelError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert said in done.stdout, done.stderr
    assert advice in done.stdout
