"""Descriptions: whether a model embeds, ranks or chats, and the memory that it takes, by its header alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from edgemem.errors import ModelError
from edgemem.llama.header import Header, read_header

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.llama.models.catalog import ModelEntry

WINDOW = 4096
"""Tokens of the window at which memory is told: the profiles for small boards hold as many."""
_HALF, _FLOAT = 2, 4  # bytes: llama.cpp keeps keys and values as f16 and computes scores as f32
_BATCH = 512  # tokens evaluated at a time
_CHAT_REST = 120_000_000  # Python, llama.cpp, the tables of a vocabulary: 76 to 124 MB measured with three
_EMBEDDER_REST = 60_000_000  # what MiniLM takes beside its file, at 256 tokens; wider ones took 50 and 52
_PAIR = 256  # tokens of a question and a text
_LARGE, _TABLES = 100_000, 90_000_000  # a vocabulary of so many words, and what its tables take
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
    """Read the header of a model; raise ModelError for one that can neither embed, rank nor chat."""
    header = read_header(path)
    _check_usable(header, path)
    template = "tokenizer.chat_template" in header.metadata
    if header.classifies and header.number("pooling_type") not in _POOLINGS:
        kind: Literal["embedder", "reranker", "chat", "base"] = "reranker"
    elif header.number("pooling_type") in _POOLINGS or _encodes(header):
        kind = "embedder"
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
    """Raise ModelError unless a file can be the model of a catalogue entry whose checksum nobody knows."""
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
    """Return the MB that a process takes with a language model, or takes more with an embedder or a reranker."""
    heads, layers = header.number("attention.head_count"), header.number("block_count")
    width = header.number("attention.key_length") or header.number("embedding_length") // max(1, heads)
    # Keys and values: two numbers a layer, head and dimension for each token.
    token = 2 * layers * header.number("attention.head_count_kv", heads) * width * _HALF
    if kind in ("embedder", "reranker"):
        tables = _TABLES if header.arrays.get("tokenizer.ggml.tokens", 0) > _LARGE else 0
        cache = 0 if kind == "embedder" or _encodes(header) else token * _PAIR
        return round((header.size + cache + _EMBEDDER_REST + tables) / 1e6)
    scores = heads * _BATCH * WINDOW * _FLOAT
    return round((header.size + token * WINDOW + scores + _CHAT_REST) / 1e6) if token else 0


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
