"""The scripts behind `make test-boards` and `make wheels`: what they find, choose, read and refuse."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

CI = Path(__file__).resolve().parent.parent / ".ci"


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load a script of `.ci`, which finds its neighbours beside itself."""
    monkeypatch.syspath_prepend(str(CI))
    for neighbour in ("setup_env", "old_sqlite"):
        monkeypatch.delitem(sys.modules, neighbour, raising=False)
    spec = importlib.util.spec_from_file_location(name, CI / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    for neighbour in ("setup_env", "old_sqlite"):
        monkeypatch.delitem(sys.modules, neighbour, raising=False)
    return script


@pytest.fixture
def boards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the script that runs the boards, with a cache of its own."""
    monkeypatch.setenv("EDGEMEM_CACHE", str(tmp_path / "cache"))
    return load("boards", monkeypatch)


@pytest.fixture
def old_sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the script that makes the oldest SQLite, with a cache of its own."""
    monkeypatch.setenv("EDGEMEM_CACHE", str(tmp_path / "cache"))
    return load("old_sqlite", monkeypatch)


@pytest.fixture
def wheels(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the script that collects wheels."""
    return load("wheels", monkeypatch)


def write_program(path: Path, body: str) -> Path:
    """Put a shell program at a path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_all_boards_run_unless_some_are_named(boards: ModuleType) -> None:
    """ONLY takes commas or spaces, keeps the order in which boards run, and none of it means all."""
    assert boards.chosen("") == ["sqlite", "3.10", "3.11", "3.12", "3.13", "3.14", "arm"]
    assert boards.chosen("3.12,sqlite") == ["sqlite", "3.12"]
    assert boards.chosen(" 3.14, 3.10 3.14") == ["3.10", "3.14"]


def test_a_board_that_does_not_exist_is_named(boards: ModuleType) -> None:
    """A slip of the pen in ONLY runs nothing and lists what there is."""
    with pytest.raises(SystemExit, match=r"no board 3\.9, sqlit; there are sqlite, 3\.10"):
        boards.chosen("3.9,sqlit,3.12")


def test_a_shim_that_does_not_run_is_passed_over(boards: ModuleType, tmp_path: Path) -> None:
    """A python3.12 on the PATH that only complains is not taken; the newest of pyenv is."""
    write_program(tmp_path / "shims" / "python3.12", "echo 'not active' >&2; exit 127")
    for version in ("3.12.9", "3.12.10", "3.12.1"):
        write_program(tmp_path / "pyenv" / "versions" / version / "bin" / "python3.12", f"echo {version}")
    found = boards.find_python("3.12", f"{tmp_path}/shims:{tmp_path}/nowhere", tmp_path / "pyenv")
    assert found == (tmp_path / "pyenv/versions/3.12.10/bin/python3.12", "3.12.10")


def test_the_path_goes_before_pyenv(boards: ModuleType, tmp_path: Path) -> None:
    """A Python on the PATH that works is the one."""
    first = write_program(tmp_path / "bin" / "python3.11", "echo 3.11.2")
    write_program(tmp_path / "pyenv" / "versions" / "3.11.7" / "bin" / "python3.11", "echo 3.11.7")
    assert boards.find_python("3.11", str(first.parent), tmp_path / "pyenv") == (first, "3.11.2")


def test_a_python_that_is_another_or_not_there_is_not_found(boards: ModuleType, tmp_path: Path) -> None:
    """What a program is called does not count, what it says does; a file that cannot run is none."""
    write_program(tmp_path / "bin" / "python3.1", "echo 3.10.1")
    write_program(tmp_path / "bin" / "python3.14", "echo 3.14.0").chmod(0o644)
    assert boards.find_python("3.1", str(tmp_path / "bin"), tmp_path) is None
    assert boards.find_python("3.14", str(tmp_path / "bin"), tmp_path) is None


def test_this_python_is_found(boards: ModuleType) -> None:
    """The probe that each candidate is asked is answered by a real Python."""
    done = subprocess.run([sys.executable, "-c", boards.PROBE], capture_output=True, text=True)
    assert done.stdout.strip() == ".".join(map(str, sys.version_info[:3])), done.stderr


HEADER = "collected 3 items\nsqlite 3.37.0, sqlite-vec 0.1.9, llama-cpp-python 0.3.36\n"


@pytest.mark.parametrize(
    ("code", "last", "passed", "result"),
    [
        (0, "==== 2153 passed in 216.87s (0:03:36) ====", 2153, "ok"),
        (1, "==== 2 failed, 2151 passed in 9.1s ====", 2151, "2 failed"),
        (1, "1 failed, 5 passed, 2 errors in 1.00s", 5, "1 failed, 2 errors"),
        (0, "==== 2150 passed, 3 skipped in 9.1s ====", 2150, "3 skipped"),
        (0, "==== 2150 passed, 1 xfailed in 9.1s ====", 2150, "1 xfailed"),
        (3, "==== 7 passed in 1.0s ====", 7, "pytest ended with exit code 3"),
        (5, "==== no tests ran in 0.01s ====", 0, "pytest ended with exit code 5"),
        (-11, "tests/test_a.py ....", 0, "pytest ended with exit code -11"),
    ],
)
def test_the_end_of_the_suite_is_read(
    boards: ModuleType, code: int, last: str, passed: int, result: str
) -> None:
    """Only tests that all passed, none skipped, are ok; a crash in the middle is not."""
    assert boards.read_suite(code, f"{HEADER}...\n{last}\n") == ("3.37.0", passed, result)


def test_a_suite_that_said_nothing_has_failed(boards: ModuleType) -> None:
    """No output and exit code 0 is no success."""
    assert boards.read_suite(0, "") == ("", 0, "pytest ended with exit code 0")


def test_what_is_not_installed_stands_in_the_table(boards: ModuleType) -> None:
    """The table lines up, and leaves out no board."""
    rows = [
        boards.Row("sqlite", "3.10.13", "3.37.0", 2153, 241.6),
        boards.Row("3.14", result=boards.ABSENT),
    ]
    assert boards.table(rows).splitlines() == [
        "Board   Python   SQLite  Tests  Seconds  Result",
        "sqlite  3.10.13  3.37.0  2,153      242  ok",
        "3.14    -        -           -        -  not installed here",
    ]


def test_what_is_missing_is_a_failure_only_where_it_was_asked_for(boards: ModuleType) -> None:
    """A whole run passes without Python 3.14; `ONLY=3.14` does not."""
    missing = boards.run_board("3.14", {})
    assert missing.result == "not installed here"
    assert boards.is_good(missing, named=False)
    assert not boards.is_good(missing, named=True)
    assert not boards.is_good(boards.Row("3.10", result="2 failed"), named=False)


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ("import sys; print('demo finished')", "ok"),
        ("import sys; print('qemu is not here'); sys.exit(77)", "not installed here: qemu is not here"),
        ("import sys; sys.exit(3)", "failed with exit code 3"),
    ],
)
def test_the_arm_run_says_how_it_ended(
    boards: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, result: str
) -> None:
    """Exit code 77 and a sentence mean that this machine cannot do it."""
    monkeypatch.setattr(boards, "ARM", tmp_path / "arm.py")
    assert boards.run_board("arm", {}).result == "not installed here"
    boards.ARM.write_text(body)
    assert boards.run_board("arm", {}).result == result


def test_a_set_up_that_fails_does_not_stop_the_other_boards(boards: ModuleType, tmp_path: Path) -> None:
    """Its row says so, and the next board runs."""
    broken = boards.Found(write_program(tmp_path / "python3.12", "exit 1"), "3.12.1")
    assert boards.run_board("3.12", {"3.12": broken}).result == "the set-up failed"


def test_a_board_is_set_up_with_its_own_python_and_environment(
    boards: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the caller's make was told goes to no board."""
    python = write_program(tmp_path / "python3.12", f'echo "$2 <$EDGEMEM_VENV>" > "{tmp_path}/told"; exit 1')
    monkeypatch.setenv("MAKEFLAGS", f"-n -- PYTHON={sys.executable}")
    with pytest.raises(RuntimeError, match="the set-up failed"):
        boards.set_up(boards.Found(python, "3.12.1"))
    folder = boards.folder_of(boards.Found(python, "3.12.1"))
    assert (tmp_path / "told").read_text().endswith(f" <{folder}>\n")


def test_each_checkout_and_python_has_an_environment_of_its_own(
    boards: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Two checkouts never point one environment at each other's files; none lies in a checkout."""
    one = boards.folder_of(boards.Found(Path("a"), "3.12.1"))
    assert one.name == "3.12.1"
    assert one.is_relative_to(tmp_path / "cache")
    monkeypatch.setattr(boards, "ROOT", tmp_path)
    assert boards.folder_of(boards.Found(Path("a"), "3.12.1")) != one


def test_the_set_up_makes_the_environment_where_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EDGEMEM_VENV names it; without, it is the checkout's `.venv`."""
    monkeypatch.setenv("EDGEMEM_VENV", str(tmp_path / "3.12.1"))
    assert tmp_path / "3.12.1" / "bin" / "python" == load("setup_env", monkeypatch).PYTHON
    monkeypatch.delenv("EDGEMEM_VENV")
    assert CI.parent / ".venv" == load("setup_env", monkeypatch).VENV


def test_the_old_library_goes_before_all_others(old_sqlite: ModuleType) -> None:
    """LD_LIBRARY_PATH keeps what it held, after the old SQLite."""
    library = Path("/cache/sqlite/libsqlite3.so.0")
    assert old_sqlite.put_before({"A": "b"}, library) == {"A": "b", "LD_LIBRARY_PATH": "/cache/sqlite"}
    held = old_sqlite.put_before({"LD_LIBRARY_PATH": "/cuda"}, library)
    assert held["LD_LIBRARY_PATH"] == "/cache/sqlite:/cuda"


def test_a_python_with_another_sqlite_is_refused(old_sqlite: ModuleType, tmp_path: Path) -> None:
    """The run with the old SQLite cannot pass with the system's by mistake."""
    modern = write_program(tmp_path / "modern", "echo 3.45.1")
    with pytest.raises(RuntimeError, match=r"does not use SQLite 3\.37\.0 as it must: 3\.45\.1"):
        old_sqlite.prove(modern, {})
    no_vec0 = write_program(tmp_path / "no vec0", "echo 'no such module: vec0' >&2; exit 1")
    with pytest.raises(RuntimeError, match="no such module: vec0"):
        old_sqlite.prove(no_vec0, {})
    old_sqlite.prove(write_program(tmp_path / "old", "echo 3.37.0"), {})


def test_the_proof_runs_in_a_real_python(old_sqlite: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """This Python loads vec0 and full text, and is refused for nothing but its SQLite's age."""
    import sqlite3

    monkeypatch.setattr(old_sqlite, "VERSION", sqlite3.sqlite_version)
    old_sqlite.prove(Path(sys.executable), dict(os.environ))


def test_what_building_the_old_sqlite_needs_is_named(
    old_sqlite: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without npm and a compiler there is no old SQLite, unless it was built before."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CC", "gcc-12 -m64")
    assert old_sqlite.missing_tools() == ["npm", "gcc-12"]
    old_sqlite.library().parent.mkdir(parents=True)
    old_sqlite.library().touch()
    assert old_sqlite.missing_tools() == []


def test_wheels_never_replace_a_folder_of_other_things(wheels: ModuleType, tmp_path: Path) -> None:
    """A new or empty folder is taken, and one that was made before; anybody else's is refused."""
    assert wheels.place(str(tmp_path / "new")) == tmp_path / "new"
    assert wheels.place(str(tmp_path)) == tmp_path
    (tmp_path / "letters").mkdir()
    with pytest.raises(SystemExit, match="holds other things; name a new folder"):
        wheels.place(str(tmp_path))
    (tmp_path / "install.sh").write_text(wheels.INSTALL)
    assert wheels.place(str(tmp_path)) == tmp_path


def test_the_installer_says_which_python_it_needs(wheels: ModuleType, tmp_path: Path) -> None:
    """On a machine with another Python it makes nothing and says how to name one."""
    installer = tmp_path / "install.sh"
    installer.write_text(wheels.INSTALL.format(python="3.99"))
    done = subprocess.run(
        ["sh", str(installer)],
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "for Python 3.99, and python3.99 is not here. Name it: PYTHON=" in done.stderr
    assert list(tmp_path.iterdir()) == [installer]


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
