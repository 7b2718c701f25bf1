"""Run the whole suite on every Python that is here, and on the oldest SQLite; say what is not here.

    python3 .ci/boards.py [3.12,sqlite]

Each Python has a virtual environment of its own in the cache of `setup_env.py`; llama.cpp is built once for all.
"""

import hashlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import old_sqlite
from setup_env import CACHE, ROOT, fail, say

VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
BOARDS = ("sqlite", *VERSIONS, "arm")
ARM = ROOT / ".ci" / "arm.py"
NOT_POSSIBLE = 77
"""The exit code by which the ARM run says that this machine cannot do it."""

NOT_PASSED = ("failed", "error", "errors", "skipped", "xfailed", "xpassed", "deselected")
"""What pytest may count beside the passed ones; the suite skips nothing, so each of them is a failure."""

ABSENT = "not installed here"
PROBE = "import ensurepip, sqlite3, sys, venv; print('.'.join(map(str, sys.version_info[:3])))"


class Found(NamedTuple):
    """A Python that can make virtual environments."""

    path: Path
    version: str


class Row(NamedTuple):
    """What one board gave."""

    board: str
    python: str = ""
    sqlite: str = ""
    tests: int = 0
    seconds: float = 0.0
    result: str = "ok"


def chosen(only: str) -> "list[str]":
    """Return the boards of a list like `3.12,sqlite`, in the order in which they run; all for an empty one."""
    wanted = {name for name in re.split(r"[,\s]+", only) if name}
    unknown = sorted(wanted - set(BOARDS))
    if unknown:
        fail(f"there is no board {', '.join(unknown)}; there are {', '.join(BOARDS)}")
    return [name for name in BOARDS if not wanted or name in wanted]


def candidates(version: str, search: str, pyenv: Path) -> "list[Path]":
    """Return every file that may be this Python: on the PATH, then pyenv's, the newest first."""
    on_path = [Path(folder, f"python{version}") for folder in search.split(os.pathsep) if folder]
    of_pyenv = [path / "bin" / f"python{version}" for path in (pyenv / "versions").glob(f"{version}.*")]
    of_pyenv.sort(key=lambda path: [int(part) for part in re.findall(r"\d+", path.parent.parent.name)])
    return [path for path in (*on_path, *reversed(of_pyenv)) if os.access(path, os.X_OK)]


def find_python(version: str, search: str, pyenv: Path) -> "Found | None":
    """Return the first Python of this version that runs and can make virtual environments.

    A shim of pyenv stands on the PATH also where the version behind it is not active, so each is tried.
    """
    for path in candidates(version, search, pyenv):
        done = subprocess.run([str(path), "-c", PROBE], capture_output=True, text=True, check=False)
        told = done.stdout.strip()
        if done.returncode == 0 and told.startswith(f"{version}."):
            return Found(path, told)
    return None


def read_suite(code: int, output: str) -> "tuple[str, int, str]":
    """Return the SQLite that pytest ran with, how many tests passed, and `ok` or what went wrong."""
    sqlite = re.search(r"(?m)^sqlite (\S+), ", output)
    lines = output.strip().splitlines()
    counts = {word: int(number) for number, word in re.findall(r"(\d+) ([a-z]+)", "".join(lines[-1:]))}
    passed = counts.get("passed", 0)
    wrong = [f"{number} {word}" for word, number in counts.items() if word in NOT_PASSED]
    if not wrong and (code or not passed):
        wrong = [f"pytest ended with exit code {code}"]
    return sqlite.group(1) if sqlite else "", passed, ", ".join(wrong) or "ok"


def folder_of(python: Found) -> Path:
    """Return where the virtual environment of a Python is kept; each checkout has its own."""
    checkout = hashlib.sha256(str(ROOT).encode()).hexdigest()[:8]
    return CACHE / "boards" / checkout / python.version


def set_up(python: Found) -> Path:
    """Bring the virtual environment of a Python up to date, as `make test` does, and return its Python."""
    folder = folder_of(python)
    environment = dict(os.environ, EDGEMEM_VENV=str(folder))
    # What the caller's make was told, PYTHON above all, is not for this one.
    environment.pop("MAKEFLAGS", None)
    command = ["make", "--no-print-directory", "server", f"PYTHON={python.path}", f"BIN={folder / 'bin'}"]
    if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
        raise RuntimeError("the set-up failed")
    return folder / "bin" / "python"


def run_suite(board: str, python: Found, library: "Path | None" = None) -> Row:
    """Run the suite on one Python, with another SQLite library if one is given."""
    inside = set_up(python)
    environment = dict(os.environ)
    environment.pop("EDGEMEM_VENV", None)
    if library is not None:
        environment = old_sqlite.put_before(environment, library)
        old_sqlite.prove(inside, environment)
    started = time.monotonic()
    code, output = run_aloud([str(inside), "-m", "pytest"], environment)
    sqlite, passed, result = read_suite(code, output)
    if library is not None and sqlite != old_sqlite.VERSION:
        result = f"the tests ran with SQLite {sqlite or 'unknown'}"
    return Row(board, python.version, sqlite, passed, time.monotonic() - started, result)


def run_aloud(command: "list[str]", environment: "dict[str, str]") -> "tuple[int, str]":
    """Run a command in the checkout, show what it prints as it comes, and return its exit code and all of that."""
    kept = []
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            kept.append(line)
    return process.returncode, "".join(kept)


def run_sqlite(pythons: "dict[str, Found]") -> Row:
    """Run the suite with the oldest SQLite, on the oldest Python that is here."""
    missing = old_sqlite.missing_tools()
    if missing or not pythons:
        return Row("sqlite", result=f"{ABSENT} (needs {' and '.join(missing) or 'a Python'})")
    return run_suite("sqlite", next(iter(pythons.values())), old_sqlite.build())


def run_arm() -> Row:
    """Run what can be run of an ARM board here."""
    if not ARM.exists():
        return Row("arm", result=ABSENT)
    started = time.monotonic()
    code, output = run_aloud([sys.executable, str(ARM)], dict(os.environ))
    said = (output.strip().splitlines() or [""])[-1].strip()
    result = {0: "ok", NOT_POSSIBLE: f"{ABSENT}: {said}"}.get(code, f"failed with exit code {code}")
    return Row("arm", seconds=time.monotonic() - started, result=result)


def run_board(board: str, pythons: "dict[str, Found]") -> Row:
    """Run one board; what goes wrong before its tests begin is its result."""
    say(f"board {board}")
    try:
        if board == "sqlite":
            return run_sqlite(pythons)
        if board == "arm":
            return run_arm()
        if board not in pythons:
            return Row(board, result=ABSENT)
        return run_suite(board, pythons[board])
    except (RuntimeError, OSError, SystemExit) as error:  # SystemExit: a step of the set-up failed
        print(error)
        said = str(error).strip().splitlines()
        return Row(board, result=said[0] if said else "the set-up failed")


def table(rows: "list[Row]") -> str:
    """Return the rows as a table."""
    cells = [("Board", "Python", "SQLite", "Tests", "Seconds", "Result")]
    cells += [
        (
            row.board,
            row.python or "-",
            row.sqlite or "-",
            f"{row.tests:,}" if row.tests else "-",
            f"{row.seconds:.0f}" if row.seconds else "-",
            row.result,
        )
        for row in rows
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(5)]
    return "\n".join(
        "  ".join([*map(str.ljust, line[:3], widths[:3]), *map(str.rjust, line[3:5], widths[3:]), line[5]])
        for line in cells
    )


def is_good(row: Row, *, named: bool) -> bool:
    """Tell whether a board passed; one that is not here is good only where nobody asked for it by name."""
    return row.result == "ok" or (row.result.startswith(ABSENT) and not named)


def main() -> None:
    """Run the chosen boards one after the other and print what each gave."""
    only = " ".join(sys.argv[1:])
    boards = chosen(only)
    pyenv = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser()
    found = {version: find_python(version, os.environ.get("PATH", ""), pyenv) for version in VERSIONS}
    pythons = {version: python for version, python in found.items() if python is not None}
    rows = [run_board(board, pythons) for board in boards]
    print(f"\n{table(rows)}")
    if not all(is_good(row, named=bool(only)) for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
