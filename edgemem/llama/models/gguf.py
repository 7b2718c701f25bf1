"""The header of a GGUF file, and what it says: whether the model embeds, ranks or chats, and the memory it takes."""

from __future__ import annotations

import hashlib
import math
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from edgemem.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable


Scalar = str | int | float | bool
_FORMATS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _ARRAY = 8, 9
# weights in a block and bytes it takes, by tensor type; a rarer type is checked only for where it begins
_BLOCKS = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 10: (256, 84),
           11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 30: (1, 2)}  # fmt: skip
_MOST = 1 << 20  # keys or tensors that a sane file has
_LANGUAGES = "general.languages"
_MOST_LANGUAGES = 300  # there are 183 codes of two letters
_HEADS = ("cls.weight", "cls.output.weight")
_CHUNK = 1 << 20
_SAMPLES, _SAMPLE = 256, 4096


class Header(msgspec.Struct, frozen=True):
    """What a GGUF file says about itself."""

    architecture: str
    version: int
    tensors: int
    metadata: dict[str, Scalar]
    """Every key with a single value."""
    arrays: dict[str, int]
    """Every key with a list, and the list's length."""
    size: int
    """Bytes of the file."""
    classifies: bool = False
    """Whether it has a head that gives a text a number, as a reranker does."""
    languages: tuple[str, ...] = ()
    """Which it was trained on, in two letters, if it says so."""

    def number(self, key: str, default: int = 0) -> int:
        """Return an integer of the architecture's own section, such as `context_length`."""
        value = self.metadata.get(f"{self.architecture}.{key}", default)
        return int(value) if isinstance(value, (int, float)) else default


def read_header(path: Path) -> Header:
    """Read and check the header; raise ModelError for what llama.cpp could not load."""
    try:
        if not path.is_file():
            raise ModelError(f"There is no model file {path}; fetch it with: edgemem models get")
        with path.open("rb") as file:
            size = path.stat().st_size
            return _parse(_Cursor(file.read, size, path), size, path)
    except OSError as error:
        raise ModelError(
            f"The model file {path} cannot be read ({error.strerror}); mend its rights"
        ) from error


class _Cursor:
    """Walks over the beginning of a file and reads on only as far as it must."""

    def __init__(self, read: Callable[[int], bytes], size: int, path: Path) -> None:
        self._read, self._size, self._path = read, size, path
        self._buffer = bytearray()
        self.at = 0

    def need(self, count: int) -> int:
        """Make sure that `count` bytes are there, step over them, and return where they begin."""
        begin, self.at = self.at, self.at + count
        if self.at > self._size:
            raise _cut_short(self._path)
        while len(self._buffer) < self.at:
            chunk = self._read(_CHUNK)
            if not chunk:
                raise _cut_short(self._path)
            self._buffer += chunk
        return begin

    def scalar(self, form: str) -> int | float | bool:
        begin = self.need(struct.calcsize(form))
        (value,) = struct.unpack_from(form, self._buffer, begin)
        return value  # type: ignore[no-any-return]

    def integer(self, form: str) -> int:
        return int(self.scalar(form))

    def string(self) -> str:
        length = self.integer("<Q")
        if length > 64 * _CHUNK:
            raise _cut_short(self._path)
        begin = self.need(length)
        return self._buffer[begin : begin + length].decode("utf-8", "replace")

    def skip_strings(self, count: int) -> None:
        """Step over a list of strings; a vocabulary has hundreds of thousands."""
        unpack, buffer = struct.Struct("<Q").unpack_from, self._buffer
        at, end = self.at, len(buffer)
        for _ in range(count):
            if at + 8 > end:
                self.at = at
                self.need(8)
                end = len(buffer)
            at += 8 + unpack(buffer, at)[0]
        self.at = at
        self.need(0)


def _parse(cursor: _Cursor, size: int, path: Path) -> Header:
    if size < 24 or cursor.integer("<I") != 0x46554747:  # "GGUF"
        raise ModelError(f"{path} is not a GGUF file; name a model in GGUF format")
    version = cursor.integer("<I")
    if version not in (2, 3):
        raise ModelError(
            f"{path} is a GGUF of version {version}; only 2 and 3 (little-endian) are understood"
        )
    tensors, keys = cursor.integer("<Q"), cursor.integer("<Q")
    if tensors > _MOST or keys > _MOST:
        raise _cut_short(path)
    metadata: dict[str, Scalar] = {}
    arrays: dict[str, int] = {}
    languages: tuple[str, ...] = ()
    for _ in range(keys):
        key, kind = cursor.string(), cursor.integer("<I")
        if kind == _ARRAY:
            inner, arrays[key] = cursor.integer("<I"), cursor.integer("<Q")
            if arrays[key] > 64 * _MOST or (inner != _STRING and inner not in _FORMATS):
                raise _cut_short(path)
            if key == _LANGUAGES and inner == _STRING and arrays[key] <= _MOST_LANGUAGES:
                languages = tuple(cursor.string() for _ in range(arrays[key]))
            elif inner == _STRING:
                cursor.skip_strings(arrays[key])
            else:
                cursor.need(arrays[key] * struct.calcsize(_FORMATS[inner]))
        elif kind == _STRING:
            metadata[key] = cursor.string()
        elif kind in _FORMATS:
            metadata[key] = cursor.scalar(_FORMATS[kind])
        else:
            raise _cut_short(path)
    end, classifies = _tensors(cursor, tensors, path)
    if tensors:
        alignment = int(metadata.get("general.alignment", 32)) or 32
        end += math.ceil(cursor.at / alignment) * alignment
        if end > size:
            raise _cut_short(path)
    architecture = str(metadata.get("general.architecture", ""))
    return Header(architecture, version, tensors, metadata, arrays, size, classifies, languages)


def _tensors(cursor: _Cursor, tensors: int, path: Path) -> tuple[int, bool]:
    """Return how many bytes the data section must have at least, and whether one of them is a head that classifies."""
    end, classifies = 0, False
    for _ in range(tensors):
        classifies = cursor.string() in _HEADS or classifies
        dimensions = cursor.integer("<I")
        if dimensions > 8:
            raise _cut_short(path)
        weights = math.prod(cursor.integer("<Q") for _ in range(dimensions))
        kind, offset = cursor.integer("<I"), cursor.integer("<Q")
        in_block, bytes_of_block = _BLOCKS.get(kind, (1, 0))
        end = max(end, offset + weights // in_block * bytes_of_block)
    return end, classifies


def _cut_short(path: Path) -> ModelError:
    return ModelError(f"The model file {path} is cut short or damaged; delete it and fetch it again")


WINDOW = 4096
"""Tokens of the window at which the catalogue tells memory: what the profiles for small boards hold."""
_HALF, _FLOAT = 2, 4  # bytes: llama.cpp keeps keys and values as f16 and computes scores as f32
_BATCH = 512  # tokens evaluated at a time
_REST = 120_000_000  # Python, llama.cpp, the tables of a vocabulary: 76 to 124 MB measured with three
_EMBEDDER_REST = 60_000_000  # what MiniLM takes beside its file, at 256 tokens; wider ones took 50 and 52
_PAIR = 256  # tokens of a question and a text
_LARGE, _TABLES = 100_000, 90_000_000  # a vocabulary of so many words, and what its tables take


class Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The numbers that a language model's memory follows from."""

    layers: int
    heads: int
    kv_heads: int
    head_dimensions: int

    def cache_bytes(self, window: int = WINDOW) -> int:
        """Return the bytes of keys and values: two numbers a layer, head and dimension for each token."""
        return 2 * self.layers * self.kv_heads * self.head_dimensions * _HALF * window

    def ram_mb(self, weights: int, window: int = WINDOW) -> int:
        """Return the MB that a process takes with it: `weights` bytes, the cache, a batch's attention, and the rest."""
        scores = self.heads * _BATCH * window * _FLOAT
        return round((weights + self.cache_bytes(window) + scores + _REST) / 1e6)


def embedder_ram_mb(weights: int, vocabulary: int) -> int:
    """Return the MB that a process takes more with an embedder of `weights` bytes, at 256 tokens of text."""
    return round((weights + _EMBEDDER_REST + (_TABLES if vocabulary > _LARGE else 0)) / 1e6)


def reranker_ram_mb(weights: int, vocabulary: int, decoder: Shape | None = None) -> int:
    """Return the MB that a process takes more with a reranker, at 256 tokens a pair; a decoder has a cache as well."""
    cache = decoder.cache_bytes(_PAIR) if decoder is not None else 0
    return embedder_ram_mb(weights + cache, vocabulary)


def shape_of(header: Header) -> Shape | None:
    """Return the shape that a GGUF announces; None where it does not say all of it in single numbers."""
    heads, layers = header.number("attention.head_count"), header.number("block_count")
    if not (heads and layers):
        return None
    return Shape(
        layers=layers,
        heads=heads,
        kv_heads=header.number("attention.head_count_kv", heads),
        head_dimensions=header.number("attention.key_length", header.number("embedding_length") // heads),
    )


_POOLINGS = {1: "mean", 2: "cls", 3: "last"}
_RANK = 4
_ENCODERS = ("bert", "embedding")  # in the names of architectures: nomic-bert, gemma-embedding


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """A model of which nothing is known but its header."""

    kind: Literal["embedder", "reranker", "chat", "base"]
    """A base model has weights and no chat template: it completes text, and cannot be talked to."""
    architecture: str
    bytes: int
    context: int
    dimensions: int
    """Of an embedder's vectors; 0 for the others."""
    pooling: str
    """Of an embedder."""
    chat_template: bool
    ram_mb: int
    """Reckoned, for a language model at a window of 4,096 tokens; 0 where the header does not tell enough."""
    licence: str


def describe(path: Path) -> Description:
    """Read the header of a model, and refuse what can neither embed, rank nor chat."""
    header = read_header(path)
    _check_usable(header, path)
    ranks = header.classifies and header.number("pooling_type") not in _POOLINGS
    embeds = not ranks and (header.number("pooling_type") in _POOLINGS or _encodes(header))
    template = "tokenizer.chat_template" in header.metadata
    shape, words = shape_of(header), header.arrays.get("tokenizer.ggml.tokens", 0)
    if embeds:
        ram_mb = embedder_ram_mb(header.size, words)
    elif ranks:
        ram_mb = reranker_ram_mb(header.size, words, None if _encodes(header) else shape)
    else:
        ram_mb = shape.ram_mb(header.size) if shape is not None else 0
    return Description(
        kind="embedder" if embeds else "reranker" if ranks else "chat" if template else "base",
        architecture=header.architecture,
        bytes=header.size,
        context=header.number("context_length"),
        dimensions=(header.number("embedding_length_out") or header.number("embedding_length"))
        if embeds
        else 0,
        pooling=_POOLINGS.get(header.number("pooling_type", 1), "mean") if embeds else "",
        chat_template=template,
        ram_mb=ram_mb,
        licence=str(header.metadata.get("general.license", "")),
    )


def _encodes(header: Header) -> bool:
    causal = header.metadata.get(f"{header.architecture}.attention.causal")
    return causal is False or any(word in header.architecture for word in _ENCODERS)


def _check_usable(header: Header, path: Path) -> None:
    if header.number("pooling_type") == _RANK and header.tensors and not header.classifies:
        raise ModelError(f"{path} is to rank texts, and lacks the head that does; name another file")
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


def sampled(path: Path) -> hashlib._Hash:
    """Return a hash of a model's file that tells it from any other training: all of a large file takes a Pi half a minute.

    It is of the first and the last MiB, and of at most 256 pieces of 4 KiB between them.
    """
    size, digest = path.stat().st_size, hashlib.sha256()
    with path.open("rb") as file:
        digest.update(file.read(_CHUNK))
        for at in range(_CHUNK, size - _CHUNK, max(_CHUNK, size // _SAMPLES)):
            file.seek(at)
            digest.update(file.read(_SAMPLE))
        file.seek(max(0, size - _CHUNK))
        digest.update(file.read(_CHUNK))
    return digest
