"""An embedder without a model: texts that share words are near to each other, and nothing else is."""

from collections.abc import Callable, Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from edgemem.llama.protocols import Embedder, Encoding
from edgemem.recall.text.analyse import terms


class HashEmbedder(Embedder):
    """Adds up a random direction for each stem of a text; `means`: words that mean another; `slow`: answers no query in time."""

    def __init__(
        self,
        dimensions: int = 64,
        *,
        name: str = "hash",
        means: dict[str, str] | None = None,
        slow: bool = False,
    ) -> None:
        self.dimensions = dimensions
        self.fingerprint = f"{name}:{dimensions}"
        self.embedded: list[str] = []
        self.questions: list[str] = []
        self._means = means or {}
        self.slow = slow
        self.closed = False

    def embed_query(self, text: str, *, timeout_s: float | None = None) -> NDArray[np.float32] | None:
        """Embed a question; nothing if it is slow and somebody waits."""
        self.questions.append(text)
        return None if self.slow and timeout_s is not None else self.vector_of(text)

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.embedded.extend(texts)
        return np.stack([self.vector_of(text) for text in texts])

    def close(self) -> None:
        self.closed = True

    def vector_of(self, text: str) -> NDArray[np.float32]:
        stems = [self._means.get(stem, stem) for stem in terms(text)] or [""]
        seeds = [np.random.default_rng(crc32(f"{self.fingerprint}{stem}".encode())) for stem in stems]
        vector = np.sum([seed.standard_normal(self.dimensions) for seed in seeds], axis=0)
        return (vector / np.linalg.norm(vector)).astype(np.float32)


class TokenEmbedder(HashEmbedder):
    """Also gives a vector for each stem; the vectors of whole texts are alike as the others' are."""

    def encode_query(self, text: str, *, timeout_s: float | None = None) -> Encoding | None:
        vector = self.embed_query(text, timeout_s=timeout_s)
        return None if vector is None else Encoding(vector, self.tokens_of(text))

    def encode_texts(self, texts: Sequence[str], stop: Callable[[], bool] | None = None) -> list[Encoding]:
        rows = self.embed_texts(texts) if stop is None else self.embed_until(texts, stop)
        return [Encoding(row, self.tokens_of(text)) for text, row in zip(texts, rows, strict=False)]

    def tokens_of(self, text: str) -> NDArray[np.int8]:
        rows = [HashEmbedder(32, means=self._means).vector_of(stem) for stem in terms(text)]
        return np.rint(np.reshape(rows, (-1, 32)) * 127).astype(np.int8)
