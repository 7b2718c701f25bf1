"""Embedding that yields: stored text is embedded only while nobody speaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.llama.protocols import Embedder


@runtime_checkable
class YieldingEmbedder(Protocol):
    """What an embedder can do beside the Protocol `Embedder`, if its computations can be stopped in the middle."""

    def embed_until(self, texts: Sequence[str], stop: Callable[[], bool]) -> Sequence[NDArray[np.float32]]:
        """Embed stored text in order, and return the rows that were made before `stop()` became true."""
        ...

    def give_way(self) -> None:
        """Stop at once what `embed_until` computes, wherever its `stop()` is true by now."""
        ...


def embed_until(
    embedder: Embedder, texts: Sequence[str], stop: Callable[[], bool] | None
) -> Sequence[NDArray[np.float32]]:
    """Return one vector for each text, or for the first of them only: as many as were made before `stop()`.

    Args:
        embedder: one that cannot be stopped in the middle is stopped between two texts.
        stop: None: nobody waits, and all of them are made.
    """
    if not texts:
        return ()
    if stop is None:
        return list(embedder.embed_texts(texts))
    if isinstance(embedder, YieldingEmbedder):
        return embedder.embed_until(texts, stop)
    rows: list[NDArray[np.float32]] = []
    for text in texts:
        if stop():
            break
        rows.extend(embedder.embed_texts([text]))
    return rows
