"""Two bits a dimension: what is kept of a vector in memory, and how a question is compared with it.

The first bit of a dimension is its sign. The second says whether the value is large for its vector; together they make
four levels, the best ones for values that are spread like a bell. Neither turning the vectors nor taking off their mean
finds more among those of all-MiniLM-L6-v2 (tried with 100,000).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LARGE = 0.9816  # times the root mean square: where the second bit changes
_LEVELS = 0.9814, 0.5286  # what the two bits are worth: .4528 and 1.51 are the best four levels
ERROR = 0.365
"""How far a cosine may be off, times sin(angle) / sqrt(dimensions): sqrt(.1175 / .8825), the loss of four levels."""


class Asked:
    """A question, made ready to be compared with packed rows."""

    def __init__(self, query: NDArray[np.float32]) -> None:
        import numpy as np

        words = -(-len(query) // 64)
        self._signs = np.zeros(8 * words, np.uint8)
        packed = np.packbits(query > 0, bitorder="little")
        self._signs[: len(packed)] = packed
        values = np.zeros(64 * words, np.float32)
        values[: len(query)] = query
        # What each value of a byte is worth in each place: its eight bits, each for or against.
        worth = values.reshape(-1, 8) @ _bytes_as_signs().T
        self._worth = np.multiply.outer(np.array(_LEVELS, np.float32), worth).ravel()
        # As narrow as they fit: to add them to the bytes of many rows takes a sixth of the time of comparing these.
        places = np.arange(0, len(self._worth), 256)
        self._places = places.astype(np.min_scalar_type(len(self._worth) - 1))

    def differences(self, signs: NDArray[np.uint64]) -> NDArray[np.uint16]:
        """Return in how many signs rows differ, `uint16[n]` of `uint64[words, n]`."""
        import numpy as np

        total = np.zeros(signs.shape[1], np.uint16)
        words = self._signs.view(np.uint64)
        for first in range(0, len(words), 3):  # three words differ in 192 bits at most, which a byte holds
            some = slice(first, first + 3)
            total += _ones(signs[some] ^ words[some, None]).sum(axis=0, dtype=np.uint8)
        return total

    def sums(self, codes: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return what rows are worth before they are scaled."""
        total: NDArray[np.float32] = self._worth.take(codes + self._places).sum(axis=1)
        return total


def pack(
    vectors: NDArray[np.float32],
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.float16]]:
    """Return the signs, the second bits, both `uint64[n, words]`, and the scales `float16[n]` of vectors."""
    import numpy as np

    dimensions = vectors.shape[1]
    size = np.abs(vectors)
    squares = np.einsum("ij,ij->i", vectors, vectors)
    large = size > (_LARGE * np.sqrt(squares / dimensions))[:, None]
    positive = vectors > 0
    pad = ((0, 0), (0, -dimensions % 64))
    signs = np.packbits(np.pad(positive, pad), axis=1, bitorder="little")
    # Set where it adds: to a large positive value, and to a small negative one.
    steps = np.packbits(np.pad(positive == large, pad), axis=1, bitorder="little")
    first, second = _LEVELS
    along = (first - second) * size.sum(axis=1) + 2 * second * np.where(large, size, 0).sum(axis=1)
    with np.errstate(all="ignore"):
        scales = (squares / along).astype(np.float16)
    scales[~np.isfinite(scales)] = 0  # of a vector that is none
    return signs.view(np.uint64), steps.view(np.uint64), scales


@functools.cache
def _bytes_as_signs() -> NDArray[np.float32]:
    """Return the eight bits of each byte as +1 or -1, `float32[256, 8]`."""
    import numpy as np

    every = np.arange(256, dtype=np.uint8)[:, None]
    return np.unpackbits(every, axis=1, bitorder="little").astype(np.float32) * 2 - 1


def _ones(words: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Count the bits of each word; the words are overwritten."""
    import numpy as np

    if hasattr(np, "bitwise_count"):  # numpy 2
        counted: NDArray[np.uint8] = np.bitwise_count(words)
        return counted
    return _ones_by_adding(words)


def _ones_by_adding(words: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Count the bits of each word by adding pairs, then pairs of pairs, in four times the time of one instruction."""
    import numpy as np

    pairs, fours, eights, all_ = (
        np.uint64(int(digit * (16 // len(digit)), 16)) for digit in ("5", "3", "0f", "01")
    )
    shifted = words >> np.uint64(1)
    shifted &= pairs
    words -= shifted
    np.right_shift(words, np.uint64(2), out=shifted)
    shifted &= fours
    words &= fours
    words += shifted
    np.right_shift(words, np.uint64(4), out=shifted)
    words += shifted
    words &= eights
    words *= all_
    words >>= np.uint64(56)
    return words.astype(np.uint8)
