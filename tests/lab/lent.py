"""An embedder that several memories use one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from edgemem.llama.protocols import Embedder, Encoding

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Lent(Embedder):
    """A real embedder, which stays open when a memory closes this one."""

    def __init__(self, real: Embedder) -> None:
        self.real = real
        self.dimensions, self.fingerprint = real.dimensions, real.fingerprint
        self.languages, self.n_ctx = real.languages, real.n_ctx

    def embed_query(self, text: str, *, timeout_s: float | None = None) -> NDArray[np.float32] | None:
        return self.real.embed_query(text, timeout_s=timeout_s)

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.real.embed_texts(texts)

    def embed_until(self, texts: Sequence[str], stop: Callable[[], bool]) -> Sequence[NDArray[np.float32]]:
        return self.real.embed_until(texts, stop)

    def encode_query(self, text: str, *, timeout_s: float | None = None) -> Encoding | None:
        return self.real.encode_query(text, timeout_s=timeout_s)

    def encode_texts(
        self, texts: Sequence[str], stop: Callable[[], bool] | None = None
    ) -> Sequence[Encoding]:
        return self.real.encode_texts(texts, stop)

    def yield_to_speech(self) -> None:
        self.real.yield_to_speech()

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self.real.count_tokens(texts)

    def warm(self) -> None:
        self.real.warm()

    def close(self) -> None:
        """Do nothing: others go on with it."""


class Tokenless(Lent):
    """A real embedder that gives no vectors of tokens: there is no second pass."""

    def encode_query(self, text: str, *, timeout_s: float | None = None) -> Encoding | None:
        encoding = self.real.encode_query(text, timeout_s=timeout_s)
        return encoding and encoding._replace(tokens=None)

    def encode_texts(
        self, texts: Sequence[str], stop: Callable[[], bool] | None = None
    ) -> Sequence[Encoding]:
        return [encoding._replace(tokens=None) for encoding in self.real.encode_texts(texts, stop)]
