"""An embedder made of a plain function from text to vector, as users of the EdgeVox memory module bring it."""

from __future__ import annotations

import hashlib
import threading
from array import array
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from typing import TYPE_CHECKING

from edgemem.errors import EdgememError, InvalidInputError, ModelError
from edgemem.llama.protocols import Embedder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]
    EmbedFn = Callable[[str], Sequence[float]]

_PROBE = "The keys hang beside the kitchen door, and Alice is allergic to peanuts."
_LARGE = 1e38  # what 32 bits hold is a little more
_LARGEST = 16  # of the probe's numbers; the order of the largest ones says which model it was


class FunctionEmbedder(Embedder):
    """Makes unit vectors with a function, and calls it from one thread at a time.

    Args:
        embed_fn: from text to numbers of any length above zero. Its attribute `query`, if it has one, is called for
            what somebody asks; `dimensions` and `fingerprint` spare one call when a store is opened.
        dimensions: how many numbers it gives; None asks it.
    """

    def __init__(self, embed_fn: EmbedFn, *, dimensions: int | None = None) -> None:
        if not callable(embed_fn):
            raise InvalidInputError(
                "embed_fn must be a function from text to numbers; edgemem.llama_embed(llm) makes one."
            )
        self._embed_fn = embed_fn
        self._query_fn: EmbedFn = getattr(embed_fn, "query", embed_fn)
        self._lock = threading.Lock()
        self._waiting = threading.Lock()
        self._thread: ThreadPoolExecutor | None = None
        self._late: Future[Vector] | None = None
        self._dimensions: int | None = dimensions or getattr(embed_fn, "dimensions", None)
        self.fingerprint = str(getattr(embed_fn, "fingerprint", ""))
        """What the function says of itself, or else a string made of how it embeds one sentence."""
        if self._dimensions is None or not self.fingerprint:
            probe = self._probe()
            self._dimensions = len(probe)
            self.fingerprint = self.fingerprint or _fingerprint_of(probe)
        self.dimensions = int(self._dimensions)

    def embed_query(self, text: str, *, timeout_s: float | None = None) -> Vector | None:
        """Embed what somebody asks; None if that takes longer than `timeout_s`.

        A function cannot be interrupted: a late one is left to a thread of its own, and until it has answered there is
        no further answer within a time.
        """
        if timeout_s is None:
            return self._embed(self._query_fn, text)
        with self._waiting:
            if self._late is not None and not self._late.done():
                return None
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, "edgemem-embed")
            self._late = answer = self._thread.submit(self._embed, self._query_fn, text)
        try:
            return answer.result(timeout_s)
        except LateError:  # another class than the built-in one before Python 3.11
            return None

    def embed_texts(self, texts: Sequence[str]) -> Vector:
        """Embed text to be stored, one row each; a question waits for one text at most."""
        import numpy as np

        rows = [self._embed(self._embed_fn, text) for text in texts]
        return np.stack(rows) if rows else np.empty((0, self.dimensions), np.float32)

    def close(self) -> None:
        """Do nothing: the function belongs to whoever made it."""

    def _probe(self) -> Sequence[float] | Vector:
        """Return how one sentence is embedded, of whatever length."""
        given = self._call(self._embed_fn, _PROBE)
        # Plain numbers need no numpy, which would take 40 ms of a start.
        plain = isinstance(given, list) and all(
            type(number) in (int, float) and abs(number) < _LARGE for number in given
        )
        if plain and given and self._dimensions in (None, len(given)):
            return array("f", given)
        return self._unit(given)

    def _embed(self, function: EmbedFn, text: str) -> Vector:
        return self._unit(self._call(function, text))

    def _call(self, function: EmbedFn, text: str) -> Any:
        try:
            with self._lock:
                return function(text)
        except EdgememError:
            raise
        except Exception as error:
            raise _failed(error) from error

    def _unit(self, given: Any) -> Vector:
        """Return what the function gave as a vector of length 1."""
        import numpy as np

        try:
            vector: Vector = np.asarray(given, np.float32)
        except Exception as error:
            raise _failed(error) from error
        if vector.ndim != 1 or not len(vector) or not np.isfinite(vector).all():
            raise ModelError(
                f"embed_fn must give one row of finite numbers for a text, not shape {vector.shape}."
            )
        if self._dimensions is not None and len(vector) != self._dimensions:
            raise ModelError(
                f"embed_fn gives {len(vector)} numbers instead of {self._dimensions}; leave embedding_dim out, or name the right model."
            )
        norm = float(np.linalg.norm(vector))
        return vector / np.float32(norm) if norm > 0 else vector


def _failed(error: Exception) -> ModelError:
    return ModelError(
        f"embed_fn failed ({type(error).__name__}: {error}); what was stored is safe, mend the function."
    )


def _fingerprint_of(vector: Sequence[float] | Vector) -> str:
    """Return a string that another model would change, and the rounding of another processor would not."""
    largest: list[Any] = sorted(range(len(vector)), key=lambda at: -abs(float(vector[at])))[:_LARGEST]
    signs = [(at, bool(vector[at] > 0)) for at in sorted(largest)]
    return f"probe:{len(vector)}:{hashlib.sha256(repr(signs).encode()).hexdigest()[:24]}"
