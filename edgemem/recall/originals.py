"""Originals: the docs of the index as the truth has them now."""

from __future__ import annotations

from collections import defaultdict
from hashlib import blake2b
from typing import TYPE_CHECKING

from edgemem.recall.paragraphs import read_paragraphs
from edgemem.recall.sources import NOTE, SOURCES, Doc, read_docs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from edgemem.store.database import Database
    from edgemem.store.notes import NotesFile


class Originals:
    """Reads what docs were made from.

    Args:
        notes: None: there are none.
    """

    def __init__(self, truth: Database, notes: NotesFile | None) -> None:
        self._truth = truth
        self._notes = notes

    def read(self, names: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Doc]:
        """Return what there still is of some (kind, ref)."""
        wanted: dict[int, list[int]] = defaultdict(list)
        for kind, ref in names:
            wanted[kind].append(ref)
        now = self._truth.clock.now()
        found = {
            (source.kind, ref): doc
            for source in SOURCES
            if source.kind in wanted
            for ref, doc in read_docs(self._truth, source, wanted[source.kind], now).items()
        }
        if self._notes is not None and NOTE in wanted:
            lines = read_paragraphs(self._notes)
            found.update({(NOTE, ref): lines[ref] for ref in wanted[NOTE] if ref in lines})
        return found


def digest_of(text: str) -> int:
    """Return what tells a text from any other: a vector of it is right for as long as this is the same."""
    hashed = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(hashed.digest(), "big", signed=True)
