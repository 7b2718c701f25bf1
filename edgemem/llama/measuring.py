"""Measuring: how much of a text goes into one vector, where an embedder can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence


@runtime_checkable
class MeasuringEmbedder(Protocol):
    """What an embedder can do beside the Protocol `Embedder`, if it knows its tokens."""

    @property
    def n_ctx(self) -> int:
        """Return how many tokens one vector can be made of, with those that are put around the text."""
        ...

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return how many tokens each stored text takes, with those that are put around it."""
        ...
