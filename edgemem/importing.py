"""Importing: JSON lines of an export into a memory, which may hold other things.

One transaction takes in a whole file: one that is damaged, or cut short, leaves nothing behind. What is there
already stays as it is, so a second time adds nothing; an export that was made later brings its memory up to date.
Ids are kept, and the clock takes note of them. Where two memories part ways (two values for one fact at the same
moment, two conversations of one name), what is here stays, and the report names what was not taken.
"""

from __future__ import annotations

import re
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from edgemem.errors import EdgememError, InvalidInputError
from edgemem.fence import check_key, check_session_id
from edgemem.store import rows
from edgemem.store.facts import storable_value
from edgemem.store.files import create_private, sync
from edgemem.store.intake import ImportReport
from edgemem.store.merging import Merge

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from edgemem.store.database import Database, Transaction
    from edgemem.store.notes import NotesFile

MAX_LINE_BYTES = 64 * 1024 * 1024

LEAP_US = int(10 * 365.25 * 86400 * 1e6)
"""What claims to be later than this from now would push the clock out of all reason."""
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


def import_lines(db: Database, lines: Iterable[bytes], *, notes: NotesFile | None = None) -> ImportReport:
    """Take in the lines of an export; return what was added, known and refused.

    Raises:
        InvalidInputError: a line is damaged, or the last one is missing; then nothing was imported.
    """
    reading = _Reading(lines, int(db.clock.now() * 1e6) + LEAP_US)

    def work(tx: Transaction) -> Merge:
        merge = Merge(tx)
        try:
            for _, group in groupby(reading, key=_group):
                merge.take(group)
        except InvalidInputError as error:
            raise InvalidInputError(f"{error} Nothing was imported.") from error
        merge.finish(reading.newest)
        return merge

    try:
        merge = db.write(work)
    except InvalidInputError:
        raise
    except EdgememError as error:
        raise type(error)(f"Line {reading.line} could not be taken in: {error}") from error
    if merge.notes and notes is not None:
        take_notes(notes, merge.notes, merge.report)
    return merge.report


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file; one that is too long for an export comes in part, and is refused."""
    return iter(partial(file.readline, MAX_LINE_BYTES + 1), b"")


class _Reading:
    """Yields the records of lines, and knows where it is."""

    def __init__(self, lines: Iterable[bytes], limit: int) -> None:
        self._lines = lines
        self._limit = limit
        self._decode = msgspec.json.Decoder(rows.Line).decode
        self.line = 0
        self.newest = 0

    def __iter__(self) -> Iterator[rows.Line]:
        end: rows.End | None = None
        count = 0
        for data in self._lines:
            self.line += 1
            if not data.strip():
                continue
            record = self._record(data)
            if end is not None:
                raise InvalidInputError(
                    f"Line {self.line} stands behind the last one; import one export at a time."
                )
            if self.line == 1:
                self._check_first(record)
            elif isinstance(record, rows.Edgemem):
                raise InvalidInputError(f"Line {self.line} begins another export; import one at a time.")
            elif isinstance(record, rows.End):
                end = record
            else:
                count += 1
                yield record
        if self.line == 0:
            raise InvalidInputError("There is nothing to take in: not one line came.")
        if end is None or end.lines != count:
            raise InvalidInputError(
                f"The file was cut short: behind its line {self.line}, lines are missing; export it again."
            )

    def _record(self, data: bytes) -> rows.Line:
        if len(data) > MAX_LINE_BYTES:
            raise InvalidInputError(
                f"Line {self.line} is longer than {MAX_LINE_BYTES:,} bytes; this is no export."
            )
        try:
            if _NUL.search(data):
                raise InvalidInputError("it holds a NUL character.")
            record: rows.Line = self._decode(data)
            _check(record)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, InvalidInputError) as error:
            reason = str(error).rstrip(".")
            raise InvalidInputError(
                f"Line {self.line} is damaged ({reason}); mend it or export again."
            ) from error
        ticks = rows.ticks_of(record)
        if not 0 < min(ticks) <= max(ticks) <= self._limit:
            raise InvalidInputError(
                f"Line {self.line} was written in another age by its ids; set this robot's clock, or mend the line."
            )
        self.newest = max(self.newest, *ticks)
        return record

    def _check_first(self, record: rows.Line) -> None:
        if not isinstance(record, rows.Edgemem):
            raise InvalidInputError(
                'Line 1 is not {"record":"edgemem",…}; `edgemem export` writes what can be read.'
            )
        if record.format > rows.FORMAT:
            raise InvalidInputError(
                f"A newer edgemem wrote this export (format {record.format}); update edgemem to read it."
            )


def _group(record: rows.Line) -> Any:
    return (record.scope, record.key) if isinstance(record, rows.Fact) else None


def _check(record: rows.Line) -> None:
    """Raise InvalidInputError for what could not have been stored here."""
    if isinstance(record, (rows.Fact, rows.Doubt, rows.Preference)):
        check_key(record.key)
        check_key(record.scope, what="a scope")
        if record.value is not None:
            storable_value(record.value)
    elif isinstance(record, rows.Session):
        check_session_id(record.name)
    if isinstance(record, rows.Fact):
        begin, end = record.valid_from, record.valid_to
        if begin is not None and end is not None and end <= begin:
            raise InvalidInputError("it ends before it begins")
        if (record.known_to is None) != (record.node is None) or (
            record.known_to or 2**62
        ) <= record.recorded:
            raise InvalidInputError("it was believed until before it was recorded")


def take_notes(notes: NotesFile, text: str, report: ImportReport) -> None:
    """Write notes where there are none; else add the sections that are not here."""
    here = notes.read()
    if not here.strip():
        _write(notes.path, text)
        report.added["notes"] = 1
        return
    new = "".join(section for section in _sections(text) if section.strip() not in here)
    if not new.strip():
        report.known["notes"] = 1
    elif notes.max_size_chars and len(here) + len(new) + 1 > notes.max_size_chars:
        report.refused.append(
            f"{len(new):,} characters of notes do not fit into NOTES.md beside those that are here."
        )
    else:
        notes.append(new)
        report.added["notes"] = 1


def _sections(text: str) -> list[str]:
    return re.split(r"(?m)^(?=## )", text)


def _write(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}.import")
    part.unlink(missing_ok=True)
    create_private(part)
    part.write_bytes(text.encode())
    sync(part)
    part.replace(path)
    sync(path.parent)
