"""Paragraphs: what of NOTES.md can be recalled, one line or list item at a time."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING

from edgemem.recall.sources import MAX_CHARS, NOTE, Doc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.store.notes import NotesFile

HOUSEHOLD = 1
"""Notes are read by the people who live here; whoever wants one kept private tells the robot instead."""

Stamp = tuple[int, int]


def notes_stamp(notes: NotesFile) -> Stamp:
    """Return what changes whenever the file does: its size and time."""
    try:
        found = notes.path.stat()
    except OSError:
        return 0, 0
    return found.st_size, found.st_mtime_ns


def read_paragraphs(notes: NotesFile) -> Mapping[int, Doc]:
    """Return the lines of the notes by the hash of their text; headings only say when, and are left out."""
    return _paragraphs(notes.read(), notes_stamp(notes)[1] / 1e9)


@lru_cache(maxsize=1)  # asked for with every note that is found, and seldom changed
def _paragraphs(text: str, modified: float) -> Mapping[int, Doc]:
    found: dict[int, Doc] = {}
    for line in text.splitlines():
        said = line.strip().lstrip("-*+> ").strip()[:MAX_CHARS]
        if said and not line.startswith("#"):
            # A line that was in the file before is recognised, wherever it stands now.
            ref = int.from_bytes(blake2b(said.encode(), digest_size=8).digest(), "big", signed=True)
            found[ref] = Doc(NOTE, ref, said, HOUSEHOLD, None, None, at=modified)
    return found
