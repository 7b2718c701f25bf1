"""The shape of a model: what it takes of a board's memory, reckoned from a few numbers of its header."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from edgemem.llama.gguf import Header

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
