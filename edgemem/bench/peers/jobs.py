"""What peers are given, and what becomes of those that fail: the same texts and vectors for each of them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.bench.peers.environment import (
    PEERS,
    CannotRunError,
    Peer,
    cache_folder,
    python_of,
    run_peer,
    version_of,
)
from edgemem.bench.report import say
from edgemem.errors import InvalidInputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

K = 10
"""How many rows are asked for."""


class Peers:
    """The peers that can run here.

    Args:
        names: with commas.
        folder: where their environments are; None: the cache that other benches use.
    """

    def __init__(self, names: str, folder: Path | None = None) -> None:
        self.absent: dict[str, str] = {}
        """Why others cannot."""
        self.versions: dict[str, str] = {}
        self._pythons: dict[str, Path] = {}
        for name in filter(None, (one.strip() for one in names.split(","))):
            if name not in PEERS:
                raise InvalidInputError(f"There is no peer {name!r}; say some of: {', '.join(PEERS)}.")
            say(f"{name}: making its environment, if there is none …")
            try:
                python = python_of(PEERS[name], folder or cache_folder())
                self.versions[name] = version_of(PEERS[name], python)
                self._pythons[name] = python
            except CannotRunError as error:
                self.absent[name] = str(error)

    def names(self) -> list[str]:
        """Return who can run, and has not failed yet."""
        return list(self._pythons)

    def run(self, name: str, job: Path) -> dict[str, Any] | None:
        """Run one; None if it failed, which it is not asked again after."""
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
