"""An embedder without a model: texts that share words are near to each other, and nothing else is."""

from collections.abc import Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from edgemem.llama.protocols import Embedder
from edgemem.recall.text.analyse import terms


class HashEmbedder(Embedder):
    """Adds up one pseudo-random direction for each stem of a text.

    Args:
        means: words that mean another one, to tell meaning from spelling.
        slow: answer no query within its timeout.
    """

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
