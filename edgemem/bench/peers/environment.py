"""The Python of a peer: a virtual environment in the cache, made once, by pip's ordinary ways.

Peers live apart from edgemem: none of what they need is a dependency of ours.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import EdgememError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

INSTALL_S = 900.0
RUN_S = 3600.0
SCRIPT = Path(__file__).with_name("peer.py")


class Peer(msgspec.Struct, frozen=True):
    """What a peer needs to run."""

    name: str
    needs: tuple[str, ...]
    alone: tuple[str, ...] = ()
    """Installed without what they need: their memory needs little of it."""
    python: tuple[int, int] = (3, 10)
    """The oldest Python that it runs on."""


COMMON = ("pysqlite3-binary", "numpy", "sqlite-vec")
PEERS: Mapping[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer("engrava", ("engrava==0.7.2", *COMMON), python=(3, 11)),
        Peer("sqlite-vec", COMMON),
        Peer("edgevox", COMMON, alone=("edgevox==1.3.2",)),
    )
}


class CannotRunError(EdgememError):
    """A peer that cannot run on this machine; the message says why."""


def cache_folder() -> Path:
    """Return where the environments are, beside the other things that benches fetch."""
    base = os.environ.get("EDGEMEM_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "edgemem")
    return Path(base).expanduser() / "peers"


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
    _call([sys.executable, "-m", "venv", str(home)], peer, "its environment could not be made", INSTALL_S)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    failed = "it could not be installed"
    _call([*pip, *peer.needs], peer, failed, INSTALL_S)
    if peer.alone:
        _call([*pip, "--no-deps", *peer.alone], peer, failed, INSTALL_S)
    made.write_text(made_of, encoding="utf-8")
    return python


def version_of(peer: Peer, python: Path) -> str:
    """Return the version of what is measured."""
    code = f"import importlib.metadata as m; print(m.version({peer.name!r}))"
    return _call([str(python), "-c", code], peer, "it does not tell its version", 60.0).strip()


def run_peer(peer: Peer, python: Path, folder: Path) -> dict[str, Any]:
    """Run a peer on a folder; `peer.py` says what that holds, and what comes back."""
    told = _call([str(python), "-B", str(SCRIPT), peer.name, str(folder)], peer, "it failed", RUN_S)
    try:
        figures: dict[str, Any] = msgspec.json.decode(told.strip().splitlines()[-1])
    except (msgspec.DecodeError, IndexError) as error:
        raise CannotRunError(f"{peer.name}: it printed no figures ({error}).") from error
    return figures


def _call(command: Sequence[str], peer: Peer, failed: str, seconds: float) -> str:
    # What this process imports from is none of the peer's business.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    try:
        done = subprocess.run(  # noqa: S603 - our own words
            command, capture_output=True, text=True, timeout=seconds, env=environment, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotRunError(f"{peer.name}: {failed} ({error}).") from error
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise CannotRunError(f"{peer.name}: {failed} ({last}).")
    return done.stdout
