"""A handle on a model that a thread of its own loads, uses and frees: what an embedder and a reranker have in common."""

from __future__ import annotations

import warnings
import weakref
from typing import TYPE_CHECKING

from edgemem.llama.worker import ModelWorker, closed_error

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from typing_extensions import Self

    from edgemem.llama.forward import Interrupt
    from edgemem.llama.worker import Computing


class ModelHandle:
    """A model that any thread may use; it is loaded when first needed, and whoever drops it unclosed is warned."""

    def __init__(self, path: Path, what: str, load: Callable[[Interrupt], Computing]) -> None:
        """Take a model's file, without loading it yet.

        Args:
            what: the kind of model, as errors and the thread are named.
            load: loads it, in the thread.
        """
        self.path = path
        self._what = what
        self._worker = ModelWorker(f"edgemem-{what}", load, what)
        # also runs when the interpreter exits: llama.cpp must not compute while its library is torn down
        self._close = weakref.finalize(self, self._worker.close)

    @property
    def closed(self) -> bool:
        """Tell whether `close()` was called."""
        return self._worker.closed

    def close(self) -> None:
        """Free the model; whoever waits for it gets ClosedError. A second call does nothing."""
        self._close()

    def _check_open(self) -> None:
        if self.closed:
            raise closed_error(self._what)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_close") and self._close.alive:
            warnings.warn(
                f"{type(self).__name__} for {self.path} was not closed",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path.name}{', closed' if self.closed else ''}>"
