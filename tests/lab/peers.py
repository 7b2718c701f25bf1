"""Peers: other memories on the same texts and vectors, each run by `peer.py` in a virtual environment of its own in the cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.bench.ground import say
from edgemem.errors import EdgememError, InvalidInputError
from edgemem.inspect.replay import cache_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray


INSTALL_S = 900.0
RUN_S = 3600.0
SCRIPT = Path(__file__).with_name("peer.py")


class Peer(msgspec.Struct, frozen=True):
    name: str
    needs: tuple[str, ...]
    alone: tuple[str, ...] = ()  # installed without what they need: their memory needs little of it
    python: tuple[int, int] = (3, 10)  # the oldest Python that it runs on


COMMON = ("pysqlite3-binary", "numpy", "sqlite-vec")
PEERS: Mapping[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer("engrava", ("engrava==0.7.2", *COMMON), python=(3, 11)),
        Peer("sqlite-vec", COMMON),
        Peer("edgevox", COMMON, alone=("edgevox==1.3.2",)),
        Peer("swarmline", ("swarmline==1.6.10", "sqlalchemy", "aiosqlite", "greenlet"), python=(3, 11)),
    )
}


class CannotRunError(EdgememError):
    """A peer that cannot run on this machine; the message says why."""


def python_of(peer: Peer, folder: Path) -> Path:
    """Return a Python that has a peer, making it if there is none yet."""
    if sys.version_info[:2] < peer.python:
        wanted = ".".join(map(str, peer.python))
        raise CannotRunError(f"{peer.name} needs Python {wanted}; this is {sys.version.split()[0]}.")
    home, made_of = folder / peer.name, " ".join((*peer.needs, *peer.alone))
    python, made = home / "bin" / "python", home / "made"
    if made.is_file() and made.read_text(encoding="utf-8") == made_of and python.exists():
        return python
    shutil.rmtree(home, ignore_errors=True)
    home.parent.mkdir(parents=True, exist_ok=True)
    call_peer([sys.executable, "-m", "venv", str(home)], peer, "its environment could not be made", INSTALL_S)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    failed = "it could not be installed"
    call_peer([*pip, *peer.needs], peer, failed, INSTALL_S)
    if peer.alone:
        call_peer([*pip, "--no-deps", *peer.alone], peer, failed, INSTALL_S)
    made.write_text(made_of, encoding="utf-8")
    return python


def version_of(peer: Peer, python: Path) -> str:
    code = f"import importlib.metadata as m; print(m.version({peer.name!r}))"
    return call_peer([str(python), "-c", code], peer, "it does not tell its version", 60.0).strip()


def run_peer(peer: Peer, python: Path, folder: Path) -> dict[str, Any]:
    """Run a peer on a folder; `peer.py` says what that holds, and what comes back."""
    told = call_peer([str(python), "-B", str(SCRIPT), peer.name, str(folder)], peer, "it failed", RUN_S)
    try:
        figures: dict[str, Any] = msgspec.json.decode(told.strip().splitlines()[-1])
    except (msgspec.DecodeError, IndexError) as error:
        raise CannotRunError(f"{peer.name}: it printed no figures ({error}).") from error
    return figures


def call_peer(command: Sequence[str], peer: Peer, failed: str, seconds: float) -> str:
    """Return what a command of a peer prints; raise CannotRunError, with `failed`, where it fails."""
    # What this process imports from is none of the peer's business.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, env=environment, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotRunError(f"{peer.name}: {failed} ({error}).") from error
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise CannotRunError(f"{peer.name}: {failed} ({last}).")
    return done.stdout


K = 10  # how many rows are asked for


class Peers:
    """The peers that can run here, of those named with commas, with their environments in a folder (None: the cache)."""

    def __init__(self, names: str, folder: Path | None = None) -> None:
        self.absent: dict[str, str] = {}  # why others cannot
        self.versions: dict[str, str] = {}
        self._pythons: dict[str, Path] = {}
        for name in filter(None, (one.strip() for one in names.split(","))):
            if name not in PEERS:
                raise InvalidInputError(f"There is no peer {name!r}; say some of: {', '.join(PEERS)}.")
            say(f"{name}: making its environment, if there is none …")
            try:
                python = python_of(PEERS[name], folder or cache_folder() / "peers")
                self.versions[name] = version_of(PEERS[name], python)
                self._pythons[name] = python
            except CannotRunError as error:
                self.absent[name] = str(error)

    def names(self) -> list[str]:
        return list(self._pythons)

    def run(self, name: str, job: Path) -> dict[str, Any] | None:
        peer: Peer = PEERS[name]
        try:
            return run_peer(peer, self._pythons[name], job)
        except CannotRunError as error:
            self.absent[name] = str(error)
            del self._pythons[name]
            return None


def write_job(
    folder: Path,
    texts: Sequence[str],
    questions: Sequence[str],
    vectors: NDArray[np.float32],
    queries: NDArray[np.float32],
) -> Path:
    """Write what a peer is given into an empty folder; return it."""
    import numpy as np

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "job.json").write_bytes(msgspec.json.encode({"texts": texts, "questions": questions, "k": K}))
    np.save(folder / "texts.npy", vectors)
    np.save(folder / "questions.npy", queries)
    return folder
