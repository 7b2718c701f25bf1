"""Paragraphs: what of NOTES.md can be recalled, one line or list item at a time, under its heading."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING

from edgemem.recall.sources import MAX_CHARS, NOTE, Doc
from edgemem.store.rights import LEVELS
from edgemem.store.sections import read_sections

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.store.notes import NotesFile

Stamp = tuple[int, int]


def notes_stamp(notes: NotesFile) -> Stamp:
    """Return what changes whenever the file does: its size and time."""
    try:
        found = notes.path.stat()
    except OSError:
        return 0, 0
    return found.st_size, found.st_mtime_ns


def read_paragraphs(notes: NotesFile) -> Mapping[int, Doc]:
    """Return the lines of the notes by the hash of their text, with the heading that tells what they are about."""
    return _paragraphs(notes.read(), notes_stamp(notes)[1] / 1e9, LEVELS.index(notes.level))


@lru_cache(maxsize=1)  # asked for with every note that is found, and seldom changed
def _paragraphs(text: str, modified: float, level: int) -> Mapping[int, Doc]:
    found: dict[int, Doc] = {}
    for section in read_sections(text):
        at = modified if section.written is None else _moment(section.written, modified)
        for line in section.lines:
            said = line.strip().lstrip("-*+> ").strip()
            if not said or said.strip("`~#=_") == "":
                continue
            if section.heading:
                said = f"{section.heading}: {said}"  # "milk" alone would not say that it is to be bought
            said = said[:MAX_CHARS]
            # A line that was in the file before is recognised, wherever under its heading it stands now.
            ref = int.from_bytes(blake2b(said.encode(), digest_size=8).digest(), "big", signed=True)
            found[ref] = Doc(NOTE, ref, said, level, None, None, at=at)
    return found


def _moment(written: str, otherwise: float) -> float:
    try:
        return datetime.strptime(written, "%Y-%m-%d %H:%M").astimezone().timestamp()
    except (ValueError, OverflowError):
        return otherwise  # a date that somebody wrote by hand, such as the 31st of February
