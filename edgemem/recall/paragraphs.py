"""Paragraphs: what of NOTES.md can be recalled, one line or list item at a time."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from edgemem.recall.sources import MAX_CHARS, NOTE, Doc

if TYPE_CHECKING:
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


def read_paragraphs(notes: NotesFile) -> dict[int, Doc]:
    """Return the lines of the notes by the hash of their text; headings only say when, and are left out."""
    modified = notes_stamp(notes)[1] / 1e9
    found: dict[int, Doc] = {}
    for line in notes.read().splitlines():
        text = line.strip().lstrip("-*+> ").strip()[:MAX_CHARS]
        if text and not line.startswith("#"):
            ref = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)
            found[ref] = Doc(NOTE, ref, text, HOUSEHOLD, None, None, at=modified)
    return found
