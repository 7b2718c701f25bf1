"""`make test-boards`: the whole suite on every Python that is here, on the oldest SQLite, and on an emulated ARM board.

Each has a virtual environment of its own in the cache of `setup_env.py`, one set for each checkout; llama.cpp is built
once for all. A run of all passes over what is not here; `ONLY=3.12,sqlite` runs these, and fails where one is not here.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import nox

sys.path.insert(0, str(Path(__file__).parent))
import old_sqlite
from setup_env import CACHE, ROOT

# pyenv's come first: its shims stand on the PATH also for versions that are not active.
PYENV = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser()
FOLDERS = sorted(
    PYENV.glob("versions/3.*/bin"), key=lambda path: [*map(int, re.findall(r"\d+", path.parent.name))]
)
os.environ["PATH"] = os.pathsep.join([*map(str, reversed(FOLDERS)), os.environ.get("PATH", "")])

VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
OLDEST = next((version for version in VERSIONS if shutil.which(f"python{version}")), VERSIONS[0])
ARM = ROOT / ".ci" / "arm.py"
NOT_POSSIBLE = 77
"""The exit code by which the ARM run says that this machine cannot do it."""

only = [name for name in os.environ.get("ONLY", "").replace(",", " ").split() if name]
nox.options.envdir = str(CACHE / "boards" / hashlib.sha256(str(ROOT).encode()).hexdigest()[:8])
nox.options.default_venv_backend = "venv"
nox.options.reuse_venv = "yes"
nox.options.error_on_missing_interpreters = bool(only)
if only:
    nox.options.sessions = only


def run_suite(session: nox.Session, environment: "dict[str, str]") -> None:
    """Set the environment up as `make test` does, and run the suite; it skips nothing, so what is skipped has failed."""
    inside = Path(session.bin, "python")
    session.chdir(ROOT)
    session.run("python", ".ci/setup_env.py", "server", env={"EDGEMEM_VENV": session.virtualenv.location})
    if environment:
        old_sqlite.prove(inside, {**os.environ, **environment})
    # No temporary folder of nox: under its long name a socket file cannot be bound.
    report = Path(session.virtualenv.location) / "report.xml"
    session.run("python", "-m", "pytest", f"--junitxml={report}", *session.posargs, env=environment)
    skipped = sum(int(suite.get("skipped", 0)) for suite in ElementTree.parse(report).iter("testsuite"))
    if skipped:
        session.error(f"{skipped} tests were skipped, or expected to fail")


def on_this_python(session: nox.Session) -> None:
    """Run the suite on one Python."""
    run_suite(session, {})


@nox.session(python=OLDEST)
def sqlite(session: nox.Session) -> None:
    """Run the suite with the oldest SQLite, on the oldest Python that is on the PATH."""
    missing = old_sqlite.missing_tools()
    if missing:
        (session.error if only else session.skip)(f"not here: {' and '.join(missing)}")
    run_suite(session, old_sqlite.put_before(dict(os.environ), old_sqlite.build()))


for version in VERSIONS:
    nox.session(on_this_python, name=version, python=version)


@nox.session(venv_backend="none")
def arm(session: nox.Session) -> None:
    """Run what can be run of an ARM board here."""
    code = subprocess.run([sys.executable, str(ARM)], cwd=ROOT, check=False).returncode
    if code == NOT_POSSIBLE:
        (session.error if only else session.skip)("this machine cannot do it")
    if code:
        session.error(f"it ended with exit code {code}")
