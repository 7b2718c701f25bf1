"""Vectors for `bench vectors`, made from a seed, and what is truly nearest among them.

They lie between two real embeddings of sentences of `weeks`, with noise.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from edgemem.bench.ground import real_embedder
from edgemem.bench.weeks import weeks
from edgemem.recall.packed import PackedVectors

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

K = 10
SCOPES = 10
NOISE = 0.5
"""The length of what is added to a unit vector."""
SEED = 5
_SLICE = 10_000


def embedded(sentences: int) -> NDArray[np.float32]:
    """Return real embeddings of different sentences."""
    from edgemem.llama.embedder import LlamaEmbedder

    texts = sorted({turn.text for forms in ("learnt", "unseen") for turn in weeks(forms=forms).turns})
    random.Random(SEED).shuffle(texts)
    with LlamaEmbedder(real_embedder()) as embedder:
        return embedder.embed_texts(texts[:sentences])


def between(
    bases: NDArray[np.float32], n: int, *, seed: int
) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
    """Yield unit vectors between two of the bases each, with noise, and their scopes, ten thousand at once."""
    import numpy as np

    dice = np.random.default_rng(seed)
    for begin in range(0, n, _SLICE):
        many = min(_SLICE, n - begin)
        one, other = dice.integers(0, len(bases), (2, many))
        share = dice.random((many, 1), np.float32)
        rows = _unit(share * bases[one] + (1 - share) * bases[other])
        rows += dice.standard_normal(rows.shape, np.float32) * np.float32(NOISE / rows.shape[1] ** 0.5)
        yield _unit(rows), dice.integers(0, SCOPES, many)


def packed(bases: NDArray[np.float32], n: int) -> PackedVectors:
    """Return the vectors in memory, numbered from 1 and labelled with their scopes."""
    import numpy as np

    made = PackedVectors(bases.shape[1])
    for rows, scopes in between(bases, n, seed=SEED):
        ids = np.arange(len(made) + 1, len(made) + 1 + len(rows))
        made.append(ids, ids, rows, scopes)
    return made


class Nearest:
    """The true neighbours of some questions among all vectors that were seen."""

    def __init__(self, asked: NDArray[np.float32]) -> None:
        import numpy as np

        self._asked = asked
        self.ids = np.zeros((len(asked), 0), np.int64)
        self._cosines = np.zeros((len(asked), 0), np.float32)

    def see(self, ids: NDArray[np.int64], rows: NDArray[np.float32]) -> None:
        """Compare with more vectors."""
        import numpy as np

        cosines = np.concatenate([self._cosines, self._asked @ rows.T], axis=1)
        every = np.concatenate([self.ids, np.broadcast_to(ids, (len(self._asked), len(ids)))], axis=1)
        best = np.argsort(-cosines, axis=1, kind="stable")[:, :K]
        self.ids, self._cosines = np.take_along_axis(every, best, 1), np.take_along_axis(cosines, best, 1)


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    unit: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit
