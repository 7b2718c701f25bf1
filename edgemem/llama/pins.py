"""Pins: the checksum that a model's file had when it came, kept beside it and compared from then on."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec

from edgemem.errors import ModelError
from edgemem.store.files import sync

if TYPE_CHECKING:
    from pathlib import Path

_MIB = 1 << 20


class Pin(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What was true of a file when it came."""

    sha256: str
    bytes: int
    origin: str
    """The URL or the path that it came from."""
    query_prefix: str = ""
    """Of a model that the catalogue does not know: put before a question."""
    text_prefix: str = ""
    """The same before what is stored."""


def pin_path(path: Path) -> Path:
    """Return where the pin of a model's file lies."""
    return path.with_name(f"{path.name}.pin")


def read_pin(path: Path) -> Pin | None:
    """Return the pin of a model's file, if it has one."""
    place = pin_path(path)
    try:
        return msgspec.json.decode(place.read_bytes(), type=Pin)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise ModelError(
            f"The pin {place} cannot be read ({error}); delete it, and type: edgemem models add {path}"
        ) from error


def write_pin(path: Path, pin: Pin) -> None:
    """Put the pin of a model's file beside it, whole or not at all."""
    place = pin_path(path)
    made = place.with_name(f"{place.name}.part")
    made.write_bytes(msgspec.json.format(msgspec.json.encode(pin), indent=2) + b"\n")
    sync(made)
    made.replace(place)
    sync(place.parent)


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_MIB):
            digest.update(chunk)
    return digest.hexdigest()
