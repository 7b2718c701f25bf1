"""The oldest SQLite that edgemem promises, 3.37.0, as a library to put before the system's.

JetPack 6 and Ubuntu 22.04 carry 3.37. The source lies in an npm package, is compiled once, and is kept in the cache.
"""

import os
import shlex
import shutil
import subprocess
import tarfile
from pathlib import Path

from setup_env import CACHE, fail, run, say

VERSION = "3.37.0"
PACKAGE = "better-sqlite3@7.4.6"
FLAGS = ("-O2", "-w", "-fPIC", "-shared", "-DSQLITE_ENABLE_FTS5", "-DSQLITE_THREADSAFE=1")
"""No option of a distribution beside FTS5: what works with this library works with theirs."""


def compiler() -> "list[str]":
    """Return the C compiler that the caller names, or the machine's."""
    return shlex.split(os.environ.get("CC", "")) or ["cc"]


def missing_tools() -> "list[str]":
    """Return what is needed to build the library and is not on the PATH."""
    if library().exists():
        return []
    return [name for name in ("npm", compiler()[0]) if shutil.which(name) is None]


def library() -> Path:
    """Return where the library is, or will be."""
    return CACHE / f"sqlite-{VERSION}" / "libsqlite3.so.0"


def build() -> Path:
    """Fetch the source and compile it, unless that was done before; return the library."""
    made = library()
    if made.exists():
        return made
    part = made.parent.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    run(f"fetching the source of SQLite {VERSION}", [
        "npm", "pack", "--silent", "--pack-destination", str(part), PACKAGE])  # fmt: skip
    (package,) = part.glob("*.tgz")
    with tarfile.open(package) as outer:
        inner = outer.extractfile("package/deps/sqlite3.tar.gz")
        with tarfile.open(fileobj=inner) as archive:
            for name in ("sqlite3.c", "sqlite3.h"):
                source = archive.extractfile(name)
                if source is None:
                    fail(f"{PACKAGE} has no {name}")
                    raise AssertionError
                (part / name).write_bytes(source.read())
    run(f"compiling SQLite {VERSION} (once)", [
        *compiler(), *FLAGS, "-Wl,-soname,libsqlite3.so.0", "-o", str(part / made.name),
        str(part / "sqlite3.c"), "-ldl", "-lpthread", "-lm"])  # fmt: skip
    made.parent.mkdir(parents=True, exist_ok=True)
    (part / made.name).replace(made)
    shutil.rmtree(part)
    return made


def put_before(environment: "dict[str, str]", found: Path) -> "dict[str, str]":
    """Return the environment with the folder of a library before every other."""
    before = [str(found.parent), environment.get("LD_LIBRARY_PATH", "")]
    return {**environment, "LD_LIBRARY_PATH": ":".join(filter(None, before))}


PROOF = """
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import NamedTemporaryFile
from edgemem.store.db.connection import connect, register_vec0
register_vec0()
with NamedTemporaryFile() as file, closing(connect(Path(file.name), "rw", 1.0)) as connection:
    connection.execute("create virtual table v using vec0(e float[2])")
    connection.execute("create virtual table t using fts5(e)")
print(sqlite3.sqlite_version)
"""


def prove(python: Path, environment: "dict[str, str]") -> None:
    """Raise RuntimeError unless a Python uses this very SQLite in an environment, with vec0 and full text."""
    done = subprocess.run(
        [str(python), "-c", PROOF], env=environment, capture_output=True, text=True, check=False
    )
    said = (done.stdout + done.stderr).strip().splitlines()
    if done.returncode or said != [VERSION]:
        raise RuntimeError(f"{python} does not use SQLite {VERSION} as it must: {said[-1] if said else ''}")
    say(f"{python} uses SQLite {VERSION}, and vec0 loads there")
