"""A download that has begun: the bytes so far, and a note beside them of what they are the beginning of."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from typing_extensions import Self

_MIB = 1 << 20


class Begun(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the note says."""

    url: str
    etag: str
    """By which the server tells versions of the file apart; empty if it does not."""
    length: int
    """Bytes of the whole file; 0 if the server did not say."""
    kept: int
    """Bytes that are really on the disk. After a pulled plug a file may be longer than that, and hold nonsense."""


class Part:
    """The file of a download and its note. Bytes are counted as kept only once they are on the disk.

    Args:
        path: where the bytes go; its name ends in `.part`.
        mark_every: bytes that a pulled plug costs at most.
    """

    def __init__(self, path: Path, *, mark_every: int = 64 * _MIB) -> None:
        self.path = path
        self._mark_every = mark_every
        # the ending is one that .gitignore knows
        self._note = path.with_name(f"{path.name.removesuffix('.part')}.json.part")
        self._file = -1
        self.begun: Begun | None = None
        self.count = 0

    def find(self, url: str) -> Begun | None:
        """Return how far an earlier download from this URL came; anything else that lies here is removed."""
        try:
            begun = msgspec.json.decode(self._note.read_bytes(), type=Begun)
            usable = begun.url == url and 0 < begun.kept <= self.path.stat().st_size
        except (FileNotFoundError, msgspec.DecodeError):
            usable = False
        if not usable:
            self.drop()
            return None
        return begun

    def start(self, begun: Begun) -> None:
        """Open for writing behind the bytes that are kept; what stands after them goes, and so does everything for 0."""
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        os.ftruncate(self._file, begun.kept)
        os.lseek(self._file, 0, os.SEEK_SET)
        self.count = begun.kept
        self._digest = hashlib.sha256()
        while chunk := os.read(self._file, _MIB):
            self._digest.update(chunk)
        self.begun = begun
        self._write_note()

    def add(self, chunk: bytes) -> None:
        """Append bytes; now and then make sure that they are on the disk."""
        rest = memoryview(chunk)
        while rest:
            rest = rest[os.write(self._file, rest) :]
        self._digest.update(chunk)
        self.count += len(chunk)
        if self.begun is not None and self.count - self.begun.kept >= self._mark_every:
            self.mark()

    def mark(self) -> None:
        """Make sure that what was written is on the disk, and note how much it is."""
        if self.begun is not None:
            os.fsync(self._file)
            self.begun = msgspec.structs.replace(self.begun, kept=self.count)
            self._write_note()

    def digest(self) -> str:
        """Return the sha256 of everything that stands in the file."""
        return self._digest.hexdigest()

    def drop(self) -> None:
        """Remove the file and its note."""
        self.close()
        self._note.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)

    def finish(self) -> None:
        """Remove the note of a file that has got its name."""
        self._note.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _write_note(self) -> None:
        # replaced in one step: with a full disk the older note stays, and is true of a shorter beginning
        made = self._note.with_name(f"{self._note.name}.part")
        try:
            made.write_bytes(msgspec.json.encode(self.begun))
            made.replace(self._note)
        except OSError:
            made.unlink(missing_ok=True)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
