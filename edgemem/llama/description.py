"""What a GGUF file says it is: whether it embeds, ranks or chats, and what it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from edgemem.errors import ModelError
from edgemem.llama.gguf import read_header
from edgemem.llama.shape import embedder_ram_mb, reranker_ram_mb, shape_of

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.llama.catalog import ModelEntry
    from edgemem.llama.gguf import Header

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
    embeds = not ranks and _embeds(header)
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


def check_fits(entry: ModelEntry, path: Path) -> Description:
    """Raise ModelError unless a file can be the model of a catalogue entry whose checksum nobody knows."""
    found = describe(path)
    if entry.kind == "embedder":
        wanted = f"an embedder with {entry.dimensions} dimensions and {entry.pooling} pooling"
        fits = (found.kind, found.dimensions, found.pooling) == ("embedder", entry.dimensions, entry.pooling)
    else:
        wanted, fits = f"a {entry.kind} model", found.kind == entry.kind
    if not fits:
        told = f"{found.kind}, {found.architecture}"
        if found.kind == "embedder":
            told += f", {found.dimensions} dimensions, {found.pooling} pooling"
        raise ModelError(f"{path} ({told}) is not {entry.name}, {wanted}; name another file")
    return found


def _embeds(header: Header) -> bool:
    return header.number("pooling_type") in _POOLINGS or _encodes(header)


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
