"""NOTES.md: plain text that the robot appends to, durably, and people edit.

When a note would go over the file's bound, its newest sections replace it in one step; older ones leave it for good. Only a file
that somebody else made longer is copied beside itself first (`NOTES.md.cut-1`). A change by hand is picked up with the next call,
also one during a replacement; bytes that are not UTF-8 are read as well as possible, and set aside before a rewrite.
"""

from __future__ import annotations

import datetime
import re
import unicodedata
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from edgemem.clock import Clock, local
from edgemem.config import NotesSettings, Profile, Settings, read_file
from edgemem.errors import ConfigError, InvalidInputError
from edgemem.store.db.files import (
    Stamp,
    append,
    locked_beside,
    look,
    name_aside,
    set_aside,
    to_store_error,
    translated_errors,
    write_new,
    write_private,
)
from edgemem.store.validation import checked_count, checked_path, checked_text

CUT = "… (note cut)\n"

MOST_CHARS = 4 << 20
"""Characters that are read of a file, the newest; a longer one, which people made, is not written."""
_MOST = 4 * MOST_CHARS  # bytes
_SMALLEST = 128  # characters; below that not even the marker and one line fit
_DAMAGED, _LONG = ".damaged-", ".cut-"  # why there is a copy beside the file

MARKER = "(earlier notes truncated)\n"
_HEADING = re.compile(r"#{1,6}\s+(?P<title>.*?)(?:\s+#+)?\s*$")
_DATED = re.compile(r"(?P<title>.*?)\s*\((?P<when>\d{4}-\d\d-\d\d \d\d:\d\d)\)$")
_FENCES = ("```", "~~~")
_WORD = re.compile(r"[^\S\n]+(?=\S)")
_LONGEST_WORD = 40


class NotesFile:
    """A bounded text file, made by the first note; safe to use from several threads and processes.

    Args:
        max_size_chars: characters that the file may hold; 0: no bound.
        low_water_chars: characters kept when the bound is reached; default: three quarters of it.
        clock: dates the headings, in local time.
        level: who may read it: `shared`: anyone, as a record stored by hand without a speaker; `household`: recognised speakers.
        settings: `[notes] level`, in place of `level`.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        max_size_chars: int = 65536,
        low_water_chars: int | None = None,
        clock: Clock | None = None,
        level: Literal["shared", "household"] = "shared",
        settings: Settings | None = None,
    ) -> None:
        self.path = checked_path(path, "notes")
        self._given = Path(path).expanduser()
        if level not in ("shared", "household"):
            raise InvalidInputError(f"Notes cannot be {level!r}; use shared or household.")
        self._settings = settings or Settings(Profile(notes=NotesSettings(level=level)))
        self.max_size_chars = max_size_chars
        self.low_water_chars = max_size_chars * 3 // 4 if low_water_chars is None else low_water_chars
        if self.path.exists() and not self.path.is_file():
            raise InvalidInputError(f"{self.path} is not a file of text; give another path for the notes.")
        if max_size_chars and not _SMALLEST <= max_size_chars > self.low_water_chars >= _SMALLEST // 2:
            raise InvalidInputError(
                f"Notes of {max_size_chars} characters, cut to {self.low_water_chars}, cannot be kept; give at"
                f" least {_SMALLEST} and {_SMALLEST // 2}, the second below the first, or 0 for no bound."
            )
        self._clock = clock or Clock()

    @property
    def level(self) -> Literal["shared", "household"]:
        """Return who may read it."""
        return self._settings.now.notes.level

    @property
    def zone(self) -> datetime.tzinfo | None:
        """Return `[time] zone`; None: this machine's."""
        return self._settings.now.time.tzinfo()

    def read(self) -> str:
        """Return the whole text; empty if there is no file."""
        return self._bytes(newest=_MOST).decode("utf-8", "replace")

    def tail(self, max_chars: int = 2000) -> str:
        """Return the newest lines that fit; a last line that is too long by itself is cut at its front, after `…`."""
        max_chars = checked_count(max_chars, "max_chars")
        data = b""
        with suppress(ConfigError):  # `check` tells of a file that is not to be trusted
            data = self._bytes(newest=min(_MOST, 4 * (max_chars + 1)))
        return last_lines(data.decode("utf-8", "replace"), max_chars) if max_chars else ""

    def sections(self) -> list[str]:
        """Return the headings without their dates, each once, in their first order."""
        headings = (section.heading for section in read_sections(self.read()))
        return list(dict.fromkeys(filter(None, headings)))

    def read_section(self, heading: str) -> str:
        """Return the lines under a heading, in any case and of any date, the oldest first; empty if there is none."""
        heading = checked_text(heading, "a heading")
        named = [part for part in read_sections(self.read()) if _bare(part.heading) == _bare(heading)]
        return "\n".join(section.text for section in named if section.text)

    def append(self, text: str, *, heading: str | None = None) -> None:
        """Write a note at the end, durably, below any `## heading (YYYY-MM-DD HH:MM)`; one that is too long is cut and says so."""
        entry = self._entry(text, heading)
        if not entry:
            return
        with locked_beside(self.path):
            text = self.read()
            if text and not text.endswith("\n"):
                entry = "\n" + entry
            if self.max_size_chars and len(text) + len(entry) > self.max_size_chars:
                self._rewrite(entry)
            else:
                with translated_errors(self.path):
                    append(self.path, entry.encode())

    def clear(self) -> None:
        """Erase every note, also in the copies that were set aside."""
        with locked_beside(self.path):
            for copy in (*set_aside(self.path, _DAMAGED), *set_aside(self.path, _LONG)):
                copy.unlink()
            if self.path.exists():
                while not self._replace(b"", look(self.path)):
                    pass

    def _entry(self, text: str, heading: str | None) -> str:
        entry = f"{body}\n" if (body := checked_text(text, "a note").rstrip()) else ""
        if heading is not None:
            when = local(self._clock.now(), self.zone)
            entry = f"\n## {' '.join(checked_text(heading, 'a heading').split())} ({when:%Y-%m-%d %H:%M})\n{entry}"
        room = self.max_size_chars - len(MARKER) - 1  # for the line end that a file edited by hand may lack
        if self.max_size_chars and len(entry) > room:
            entry = entry[: room - len(CUT)] + CUT
        return entry

    def _rewrite(self, entry: str) -> None:
        replaced = False
        while not replaced:  # an editor knows nothing of our lock: what it saved meanwhile is read again
            seen, data = look(self.path), self._bytes()
            text = data.decode("utf-8", "replace")
            why = _DAMAGED if text.encode() != data else _LONG if len(text) > self.max_size_chars else ""
            if why:
                with translated_errors(self.path):
                    write_new(name_aside(self.path, why), data)
            room = max(self.low_water_chars - len(MARKER), len(entry))
            replaced = self._replace((MARKER + newest_part(text + entry, room)).encode(), seen)

    def _bytes(self, *, newest: int = 0) -> bytes:
        """Return all bytes, or the newest; raise StoreError where all are more than anybody writes."""
        try:  # not `meaningful`, which costs a context in each turn
            return read_file(self._given, most=newest or _MOST, newest=newest > 0, home=self._given.parent)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise to_store_error(error, self.path) from error

    def _replace(self, data: bytes, seen: Stamp | None) -> bool:
        """Put a new file in the old one's place, unless that is not the one that was seen; tell whether it was."""
        with translated_errors(self.path):
            return write_private(
                self.path,
                data,
                part=self.path.with_name(f".{self.path.name}.new"),
                mode=self.path.stat().st_mode & 0o777 if self.path.exists() else 0o600,
                stands=lambda: look(self.path) == seen,
            )


class Section(NamedTuple):
    """A heading and the lines up to the next one, of whatever depth."""

    heading: str  # without its date; empty before the first heading
    written: str | None  # its date, `YYYY-MM-DD HH:MM` in local time, if there is one
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """Return what it says, without empty lines around it."""
        return "\n".join(self.lines).strip("\n")


def read_sections(text: str) -> list[Section]:
    """Take a text apart; lines of fenced code are no headings, and an empty part before the first one is left out."""
    sections: list[Section] = []
    heading, written, lines, fence = "", None, [], ""
    for line in text.splitlines():
        mark = line.lstrip()[:3]
        if mark in _FENCES and fence in ("", mark):
            fence = "" if fence else mark
        match = None if fence else _HEADING.match(line)
        if match is None:
            if line + "\n" != MARKER:
                lines.append(line)
            continue
        sections.append(Section(heading, written, tuple(lines)))
        dated = _DATED.match(match["title"])
        heading, written = (dated["title"], dated["when"]) if dated else (match["title"], None)
        lines = []
    sections.append(Section(heading, written, tuple(lines)))
    return sections if sections[0].text.strip() else sections[1:]


def newest_part(text: str, room: int) -> str:
    """Return the end of a text that is no longer than `room`: whole sections, whole lines, or whole words of a long line.

    Nothing that is whole is worth losing more than half of the room.
    """
    start = len(text) - room
    if start <= 0:
        return text
    section = text.find("\n## ", start - 1) + 1
    if section and len(text) - section >= room // 2:
        return text[section:]
    line = text.find("\n", start - 1) + 1
    if line and len(text) - line >= room // 2:
        return text[line:]
    word = _WORD.search(text, start + 1, start + _LONGEST_WORD)
    begin = word.end() if word else start + 1
    while begin < len(text) and unicodedata.combining(text[begin]):
        begin += 1
    return "…" + text[begin:]


def last_lines(text: str, max_chars: int) -> str:
    """Return the last whole lines that fit; of a last line that does not fit by itself, its end behind `…`."""
    if len(text) <= max_chars:
        return text
    begin = len(text) - max_chars
    whole = text.find("\n", begin - 1) + 1
    return text[whole:] if whole and text[whole:].strip() else "…" + text[begin + 1 :]


def _bare(heading: str) -> str:
    title = " ".join(heading.lstrip("#").split())
    dated = _DATED.match(title)
    return (dated["title"] if dated else title).casefold()
