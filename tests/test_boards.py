"""The scripts behind `make`, and its targets for boards, quick tests and wheels: what they run, find and refuse."""

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement

from support.selection import SLOW_TESTS, TESTS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
CI = ROOT / ".ci"


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(CI))
    before = set(sys.modules)
    script = importlib.import_module(name)
    for new in set(sys.modules) - before:
        del sys.modules[new]
    return script


@pytest.fixture
def old_sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("EDGEMEM_CACHE", str(tmp_path / "cache"))
    return load("old_sqlite", monkeypatch)


@pytest.fixture
def wheels(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load("wheels", monkeypatch)


def write_program(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_a_bare_machine_is_told_the_one_line_to_type(tmp_path: Path) -> None:
    """Without ensurepip and a compiler, `make` names both in one apt line, and makes nothing."""
    checkout, tools, shim = tmp_path / "check out", tmp_path / "only make", tmp_path / "shim"
    for folder in (checkout / ".ci", tools, shim):
        folder.mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", ".ci/setup_env.py", ".ci/constraints.txt"):
        shutil.copy(ROOT / name, checkout / name)
    for name in ("make", "sh"):
        (tools / name).symlink_to(shutil.which(name) or "")
    (shim / "ensurepip.py").write_text("raise ImportError('split off, as in Debian')")
    paths = {"PATH": tools, "HOME": tmp_path, "EDGEMEM_CACHE": tmp_path / "cache", "PYTHONPATH": shim}
    done = subprocess.run(
        ["make", f"PYTHON={sys.executable}"], cwd=checkout, env={name: str(path) for name, path in paths.items()},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    venv = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    assert done.returncode != 0
    assert re.findall(r".*apt.*", done.stderr) == [f"    sudo apt install {venv} build-essential"]
    assert "Traceback" not in done.stderr
    assert not (checkout / ".venv").exists()


def test_a_step_that_fails_shows_the_end_of_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says which step, what it wrote last, and where the whole log lies."""
    monkeypatch.setenv("EDGEMEM_CACHE", str(tmp_path))
    script = ROOT / ".ci" / "setup_env.py"
    program = (
        "import runpy, sys; runpy.run_path(sys.argv[1])['run']('trying it', [sys.executable, '-c', 'x'])"
    )
    command = [sys.executable, "-c", program, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    shown = ("trying it failed", "NameError", f"{tmp_path}/logs/trying-it.log")
    assert [part for part in shown if part not in done.stderr] == []


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13", "3.14"])
def test_every_python_gets_one_version_of_everything(python: str) -> None:
    """The constraints pin all that the package asks for, once for each Python."""
    lines = (ROOT / ".ci" / "constraints.txt").read_text().splitlines()
    pins = [Requirement(line) for line in lines if not line.startswith("#")]
    wanted = [pin for pin in pins if not pin.marker or pin.marker.evaluate({"python_version": python})]
    pinned = [pin.name.lower() for pin in wanted]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = sum(project["optional-dependencies"].values(), project["dependencies"])
    wanted = {Requirement(line).name for line in lines}
    assert len(pinned) == len(set(pinned))
    assert wanted - {"edgemem"} <= set(pinned)


def test_a_python_with_another_sqlite_is_refused(old_sqlite: ModuleType, tmp_path: Path) -> None:
    """The run with the old SQLite cannot pass with the system's by mistake."""
    modern = write_program(tmp_path / "modern", "echo 3.45.1")
    with pytest.raises(RuntimeError, match=r"does not use SQLite 3\.37\.0 as it must: 3\.45\.1"):
        old_sqlite.prove(modern, {})
    no_vec0 = write_program(tmp_path / "no vec0", "echo 'no such module: vec0' >&2; exit 1")
    with pytest.raises(RuntimeError, match="no such module: vec0"):
        old_sqlite.prove(no_vec0, {})
    old_sqlite.prove(write_program(tmp_path / "old", "echo 3.37.0"), {})


def test_no_statement_needs_what_the_oldest_sqlite_lacks() -> None:
    """JSON came with 3.38 (before, a distribution chose it), the rest later; the ordinary suite would not notice."""
    newer = re.compile(
        r"\bjson_(each|extract|tree|array|object|group|valid)|->>|\bunixepoch\(|\bdistinct from\b|\b(full|right) join\b"
    )
    modules = sorted((CI.parent / "edgemem").rglob("*.py"))
    assert [module for module in modules if newer.search(module.read_text())] == []


def test_each_test_that_is_named_as_slow_exists() -> None:
    """A test that was renamed or removed is removed from the list in `tests/support/selection.py` too."""
    texts = (path.read_text("utf-8") for path in TESTS.rglob("test_*.py"))
    defined = {name for text in texts for name in re.findall(r"def (test_\w+)\(", text)}
    assert SLOW_TESTS - defined == set()


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
def test_a_library_that_cannot_load_is_named_with_what_to_do(tmp_path: Path, said: str, advice: str) -> None:
    """A wheel of another machine, or a bare system, gives one clear sentence and no traceback."""
    (tmp_path / "llama_cpp.py").write_text(f"raise RuntimeError({said!r})")
    program = (
        "from edgemem.llama.backend import llama\n"
        "from edgemem.errors import ModelError\n"
        "try:\n    llama()\nexcept ModelError as error:\n    print(error)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    assert said in done.stdout, done.stderr
    assert advice in done.stdout
