"""Sections: the headings of a Markdown text, what stands under them, and its newest end."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

MARKER = "(earlier notes truncated)\n"

_HEADING = re.compile(r"#{1,6}\s+(?P<title>.*?)(?:\s+#+)?\s*$")
_DATED = re.compile(r"(?P<title>.*?)\s*\((?P<when>\d{4}-\d\d-\d\d \d\d:\d\d)\)$")
_FENCES = ("```", "~~~")
_WORD = re.compile(r"[^\S\n]+(?=\S)")
_LONGEST_WORD = 40


class Section(NamedTuple):
    """A heading and the lines up to the next one, of whatever depth."""

    heading: str
    """Without the date that the robot writes behind it; empty before the first heading."""
    written: str | None
    """That date, `YYYY-MM-DD HH:MM` in local time, if there is one."""
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """Return what it says, without empty lines around it."""
        return "\n".join(self.lines).strip("\n")


def read_sections(text: str) -> list[Section]:
    """Take a text apart; lines of fenced code are no headings, and what is empty before the first one is left out."""
    found: list[Section] = []
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
        found.append(Section(heading, written, tuple(lines)))
        dated = _DATED.match(match["title"])
        heading, written = (dated["title"], dated["when"]) if dated else (match["title"], None)
        lines = []
    found.append(Section(heading, written, tuple(lines)))
    return found if found[0].text.strip() else found[1:]


def same_heading(one: str, other: str) -> bool:
    """Tell whether two headings mean the same section: dates, spaces and case do not matter."""
    return _bare(one) == _bare(other)


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
    if text[whole:].strip() and whole:
        return text[whole:]
    return "…" + text[begin + 1 :]


def _bare(heading: str) -> str:
    title = " ".join(heading.lstrip("#").split())
    dated = _DATED.match(title)
    return (dated["title"] if dated else title).casefold()
