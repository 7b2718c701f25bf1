"""A kept state on disk: one file that is whole or not there, and is read only if every bit of it is right.

    EDGESTAT   8 bytes
    sha256     32 bytes, of everything behind it
    length     4 bytes, of the header
    header     msgpack: what the state depends on, the token ids, their log
    data       what llama.cpp wrote

Numbers are little-endian.
"""

from __future__ import annotations

import hashlib
import os
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import msgspec

from edgemem.errors import CorruptError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from typing_extensions import Buffer

FORMAT = 1
_MAGIC = b"EDGESTAT"
_LENGTH = struct.Struct("<I")
_DIGEST = 32
_BEGIN = len(_MAGIC) + _DIGEST + _LENGTH.size
_CHUNK = 1 << 20
_GLOB = "state-*.bin"


class StateHeader(msgspec.Struct, frozen=True):
    """What a kept state is."""

    kind: Literal["prefix", "whole"]
    """The instructions and tools alone, or the conversation as well."""
    stamp: dict[str, str]
    """What the data depends on; it is of no use where anything of it differs."""
    ids: list[int]
    """The tokens whose state the data is."""
    log: bytes
    """What the token log holds, for a whole conversation."""
    forgotten: int
    """When something was last forgotten, when this was made: what is older may hold it."""
    at: float
    """When it was made, in seconds since the epoch."""
    size: int
    """Bytes of the data."""
    name: str = ""
    """The model's file, for people."""
    format: int = FORMAT


def write_state(path: Path, header: StateHeader, data: Buffer, *, still_wanted: Callable[[], bool]) -> bool:
    """Write a file that appears whole; return False, with nothing left, if it is not wanted any more by then."""
    raw = msgspec.msgpack.encode(header)
    rest = _LENGTH.pack(len(raw)) + raw
    digest = hashlib.sha256(rest)
    digest.update(data)
    part = path.with_suffix(".part")
    try:
        # 0600 from the first byte on: a whole state holds what was said.
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:  # noqa: PTH123
            file.write(_MAGIC + digest.digest() + rest)
            view = memoryview(data)
            file.writelines(view[begin : begin + _CHUNK] for begin in range(0, len(view), _CHUNK))
            file.flush()
            os.fsync(file.fileno())
        if not still_wanted():
            return False
        part.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return True
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def read_state(path: Path, *, max_bytes: int) -> tuple[StateHeader, memoryview]:
    """Read a file and check every byte of it.

    Raises:
        CorruptError: it is cut short, changed, too large, or no such file.
    """
    if path.stat().st_size > max_bytes:
        raise CorruptError(f"{path.name} is larger than [chat] keep_state_mb allows")
    # Read, not mapped: a mapped file that is cut short kills the process.
    raw = memoryview(path.read_bytes())
    begin = len(_MAGIC) + _DIGEST
    if bytes(raw[: len(_MAGIC)]) != _MAGIC:
        raise CorruptError(f"{path.name} is no kept state")
    if hashlib.sha256(raw[begin:]).digest() != bytes(raw[len(_MAGIC) : begin]):
        raise CorruptError(f"{path.name} is damaged or cut short")
    header, end = _header(path, raw)
    if len(raw) - end != header.size:
        raise CorruptError(f"{path.name} holds {len(raw) - end} bytes of state and promises {header.size}")
    return header, raw[end:]


def check_state(
    name: str, header: StateHeader, *, stamp: Mapping[str, str], window: int, vocabulary: int
) -> None:
    """Refuse a state that llama.cpp must not be handed.

    Args:
        name: of the file, for the message.
        header: what the state says of itself.
        stamp: what a state of the open model depends on.
        window: tokens of its context.
        vocabulary: tokens that it knows.

    Raises:
        CorruptError: it belongs to another model or another context.
    """
    differs = [what for what, value in stamp.items() if header.stamp.get(what) != value]
    if differs:
        raise CorruptError(f"{name} was made with another {differs[0]}")
    if not 0 < len(header.ids) < window:
        raise CorruptError(f"{name} holds {len(header.ids)} tokens, the window {window}")
    if not all(0 <= token < vocabulary for token in header.ids):
        raise CorruptError(f"{name} holds tokens that the vocabulary does not")


def headers_in(folder: Path) -> list[tuple[Path, StateHeader]]:
    """Return the files of kept states that say what they are, without a look at their data."""
    return _headers(sorted(folder.glob(_GLOB)))


def make_room(newest: Path, *, max_bytes: int) -> None:
    """Delete states of other models, the oldest first, until all fit."""
    left = max_bytes - newest.stat().st_size
    others = [(header.at, path) for path, header in headers_in(newest.parent) if path != newest]
    for _, path in sorted(others, reverse=True):
        left -= path.stat().st_size
        if left < 0:
            path.unlink(missing_ok=True)


def remove_states(folder: Path, *, before: int | None = None) -> None:
    """Delete every kept state, and what a writing that was cut off left.

    Args:
        before: only what was made before something was forgotten at this tick; None: all.
    """
    paths = [*folder.glob(_GLOB), *folder.glob("state-*.part")]
    newer = {path for path, header in _headers(paths) if before is not None and header.forgotten >= before}
    for path in paths:
        if path not in newer:
            path.unlink(missing_ok=True)


def _headers(paths: Iterable[Path]) -> list[tuple[Path, StateHeader]]:
    """Return those files that say what they are, in the order given."""
    found = []
    for path in paths:
        with suppress(OSError, CorruptError), path.open("rb") as file:
            begin = file.read(_BEGIN)
            length = _LENGTH.unpack(begin[-_LENGTH.size :])[0] if len(begin) == _BEGIN else 0
            found.append((path, _header(path, memoryview(begin + file.read(min(length, _CHUNK))))[0]))
    return found


def _header(path: Path, raw: memoryview) -> tuple[StateHeader, int]:
    """Return the header and where it ends."""
    if len(raw) < _BEGIN:
        raise CorruptError(f"{path.name} is cut short")
    end = _BEGIN + _LENGTH.unpack_from(raw, _BEGIN - _LENGTH.size)[0]
    try:
        header = msgspec.msgpack.decode(raw[_BEGIN:end], type=StateHeader)
    except msgspec.DecodeError as error:
        raise CorruptError(f"{path.name} has no header that this edgemem reads") from error
    if header.format != FORMAT:
        raise CorruptError(f"{path.name} has format {header.format}, and this edgemem reads {FORMAT}")
    return header, end
