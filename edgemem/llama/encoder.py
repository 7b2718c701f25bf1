"""The encoder: an embedding model that turns a text into a unit vector; owned and used by a single thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.errors import ModelError
from edgemem.llama.forward import CHARS_A_TOKEN, Forward

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.llama.forward import Interrupt
    from edgemem.llama.gguf import Header

_POOLING_MEAN, _POOLING_RANK = 1, 4


class Encoder:
    """Loads an embedding model and encodes one text at a time; not thread-safe."""

    def __init__(self, path: Path, header: Header, *, n_ctx: int, threads: int, interrupt: Interrupt) -> None:
        """Load the model; `n_ctx` is in tokens and must not exceed what the model was trained for."""
        said = f"{header.architecture}.pooling_type" in header.metadata
        self._forward = forward = Forward(
            path, n_ctx=n_ctx, threads=threads, interrupt=interrupt, pooling=None if said else _POOLING_MEAN
        )
        if not _POOLING_MEAN <= forward.pooling < _POOLING_RANK:
            self.close()
            raise ModelError(
                f"{path} gives no sentence vectors (pooling type {forward.pooling}); name an embedding model"
            )
        api, vocabulary = forward.api, forward.vocabulary
        self._n_ctx = n_ctx
        self.dimensions = int(api.llama_model_n_embd_out(forward.model))
        self._ends = {api.llama_vocab_eos(vocabulary), api.llama_vocab_sep(vocabulary)}

    def tokenize(self, text: str) -> list[int]:
        """Return at most `n_ctx` ids, the end token included; text that looks like a special token stays text."""
        ids = self._ids(text)
        cut = ids[: self._n_ctx]
        if len(ids) > self._n_ctx and ids[-1] in self._ends:
            cut[-1] = ids[-1]
        return cut

    def count(self, text: str) -> int:
        """Return how many ids a text has, also beyond `n_ctx`, with those that the model puts around it."""
        return len(self._ids(text))

    def encode(self, text: str) -> NDArray[np.float32] | None:
        """Return the unit vector of a text, or None if the interrupt was raised meanwhile.

        A text of which no token is left gets the zero vector: equally far from everything.
        """
        import numpy as np

        ids = self.tokenize(text)
        if not ids:
            return np.zeros(self.dimensions, dtype=np.float32)
        if not self._forward.run(ids):
            return None
        vector = self._forward.result(self.dimensions)
        norm = float(np.linalg.norm(vector))
        if not 0 < norm < float("inf"):
            raise ModelError(
                "The embedding model computes no finite vectors; check it with: edgemem models verify"
            )
        vector /= np.float32(norm)
        return vector

    def close(self) -> None:
        """Free the model; a second call does nothing."""
        self._forward.close()

    def _ids(self, text: str) -> list[int]:
        return self._forward.tokenize(text.strip()[: self._n_ctx * CHARS_A_TOKEN], around=True)
