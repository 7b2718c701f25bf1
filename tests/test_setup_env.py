"""The set-up script behind `make`: what it asks for, what it builds, and when it has nothing to do."""

from __future__ import annotations

import fcntl
import importlib.util
import io
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
CHECKOUT = ("Makefile", "pyproject.toml", ".ci/setup_env.py", ".ci/constraints.txt")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout with only what the set-up reads, and no `.venv`."""
    folder = tmp_path / "check out"
    for name in CHECKOUT:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


class SetUp:
    """The script of a checkout, loaded, with pip and venv replaced by something that leaves the same files."""

    def __init__(self, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        self.ran: list[str] = []
        self.fail_at = ""
        path = checkout / ".ci" / "setup_env.py"
        spec = importlib.util.spec_from_file_location("setup_env", path)
        assert spec is not None
        assert spec.loader is not None
        self.script: ModuleType = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.script)
        monkeypatch.setattr(self.script, "run", self._run)

    def __call__(self, kind: str = "demo") -> list[str]:
        """Set up, and return which steps ran."""
        self.ran.clear()
        self.monkeypatch.setattr(sys, "argv", ["setup_env.py", kind])
        self.script.main()
        return [*self.ran]

    def _step(self, command: list[str]) -> str:
        (word,) = [word for word in ("venv", "download", "wheel", "install") if word in command]
        return f"install {'edgemem' if '-e' in command else 'llama'}" if word == "install" else word

    def _run(self, what: str, command: list[str], env: dict[str, str] | None = None) -> None:
        with (self.script.CACHE / "lock").open() as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        step = self._step(command)
        self.ran.append(step)
        if step == self.fail_at:
            self.script.fail(what)
        elif step == "venv":
            self.make_python(sys.version)
        elif step == "download":
            self._write_source(Path(command[command.index("-d") + 1]))
        elif step == "wheel":
            (Path(command[command.index("-w") + 1]) / "llama_cpp_python-9-py3-none-any.whl").touch()

    def make_python(self, version: str) -> None:
        """Put a `.venv` there whose Python tells this version."""
        python: Path = self.script.PYTHON
        python.parent.mkdir(parents=True, exist_ok=True)
        (python.parent / "version").write_text(version)
        python.write_text('#!/bin/sh\nexec cat "${0%/*}/version"\n')
        python.chmod(0o755)

    def _write_source(self, folder: Path) -> None:
        name = f"llama_cpp_python-{self.script.pinned('llama-cpp-python')}"
        folder.mkdir(parents=True)
        with tarfile.open(folder / f"{name}.tar.gz", "w:gz") as tar:
            for inside in ("vendor/llama.cpp/models/templates/a.jinja", "vendor/llama.cpp/README.md"):
                tar.addfile(tarfile.TarInfo(f"{name}/{inside}"), io.BytesIO())


@pytest.fixture
def set_up(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SetUp:
    """Return the loaded script, with an empty cache and a machine that has a compiler."""
    monkeypatch.setenv("EDGEMEM_CACHE", str(tmp_path / "the cache"))
    for name in ("CMAKE_ARGS", "EDGEMEM_LLAMA_SERVER", "EDGEMEM_LLAMA_WHEEL", "EDGEMEM_VENV"):
        monkeypatch.delenv(name, raising=False)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "cat"):
        (tools / name).symlink_to(shutil.which(name) or "")
    (tools / "g++").write_text("#!/bin/sh\n")
    (tools / "g++").chmod(0o755)
    monkeypatch.setenv("PATH", str(tools))
    return SetUp(checkout, monkeypatch)


def run_make(
    checkout: Path, tmp_path: Path, *words: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run make where nothing but make itself and a shell is on the PATH."""
    tools = tmp_path / "only make"
    tools.mkdir()
    for name in ("make", "sh"):
        (tools / name).symlink_to(shutil.which(name) or "")
    given = {
        "PATH": str(tools),
        "HOME": str(tmp_path),
        "EDGEMEM_CACHE": str(tmp_path / "cache"),
        **environment,
    }
    return subprocess.run(
        ["make", *words], cwd=checkout, env=given, capture_output=True, text=True, timeout=60
    )


def test_a_bare_machine_is_told_the_one_line_to_type(checkout: Path, tmp_path: Path) -> None:
    """Without ensurepip and a compiler, `make` names both in one apt line, and makes nothing."""
    shim = tmp_path / "shim"
    shim.mkdir()
    (shim / "ensurepip.py").write_text("raise ImportError('split off, as in Debian')")
    done = run_make(checkout, tmp_path, f"PYTHON={sys.executable}", PYTHONPATH=str(shim))
    venv = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    assert done.returncode != 0
    assert re.findall(r".*apt.*", done.stderr) == [f"    sudo apt install {venv} build-essential"]
    assert "Traceback" not in done.stderr
    assert not (checkout / ".venv").exists()


def test_the_first_time_does_everything_and_the_second_nothing(set_up: SetUp) -> None:
    """A fresh checkout with an empty cache is set up once."""
    steps = ["venv", "download", "wheel", "install llama", "install edgemem"]
    assert set_up() == steps
    (vocabularies,) = set_up.script.CACHE.glob("vocab-*")
    assert [str(path.relative_to(vocabularies)) for path in vocabularies.rglob("*.*")] == [
        "templates/a.jinja"
    ]
    assert set_up() == []


@pytest.mark.parametrize("name", ["pyproject.toml", ".ci/constraints.txt"])
def test_a_changed_pin_is_installed(set_up: SetUp, checkout: Path, name: str) -> None:
    """What the environment is made from is followed, without building again."""
    set_up("dev")
    with (checkout / name).open("a") as file:
        file.write("# changed\n")
    assert set_up("dev") == ["install llama", "install edgemem"]
    assert set_up("dev") == []


@pytest.mark.parametrize("step", ["venv", "download", "wheel", "install llama", "install edgemem"])
def test_a_set_up_that_broke_off_goes_on_where_it_was(set_up: SetUp, step: str) -> None:
    """What was half done is done again, what was finished is not."""
    whole = ["venv", "download", "wheel", "install llama", "install edgemem"]
    set_up.fail_at = step
    with pytest.raises(SystemExit):
        set_up()
    set_up.fail_at = ""
    kept = min(whole.index(step), whole.index("install llama"))
    assert set_up() == whole[kept:]
    assert set_up() == []


def test_a_step_that_fails_shows_the_end_of_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says which step, what it wrote last, and where the whole log lies."""
    monkeypatch.setenv("EDGEMEM_CACHE", str(tmp_path))
    script = ROOT / ".ci" / "setup_env.py"
    program = (
        "import runpy, sys; runpy.run_path(sys.argv[1])['run']('trying it', [sys.executable, '-c', 'no'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(script)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "trying it failed" in done.stderr
    assert "NameError" in done.stderr
    assert f"{tmp_path}/logs/trying-it.log" in done.stderr


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13", "3.14"])
def test_every_python_gets_one_version_of_everything(python: str) -> None:
    """The constraints pin all that the package asks for, once for each Python."""
    lines = (ROOT / ".ci" / "constraints.txt").read_text().splitlines()
    pins = [Requirement(line) for line in lines if not line.startswith("#")]
    pinned = [
        pin.name.lower() for pin in pins if not pin.marker or pin.marker.evaluate({"python_version": python})
    ]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = sum(project["optional-dependencies"].values(), project["dependencies"])
    wanted = {Requirement(line).name for line in lines}
    assert len(pinned) == len(set(pinned))
    assert wanted - {"edgemem"} <= set(pinned)
