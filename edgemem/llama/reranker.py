"""Reranking by llama.cpp: one thread owns the model, reads question and text together, and serves the newest question first."""

from __future__ import annotations

import warnings
import weakref
from concurrent.futures import TimeoutError as WaitTimeoutError
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from edgemem.errors import InvalidInputError, ModelError
from edgemem.llama.catalog import find_entry, find_model
from edgemem.llama.gguf import read_header
from edgemem.llama.ranker import Ranker
from edgemem.llama.worker import Job, ModelWorker, closed_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from edgemem.llama.forward import Interrupt
    from edgemem.llama.gguf import Header

_WHAT = "reranker"


class LlamaReranker:
    """Tells how well texts answer a question, with a reranking model in GGUF format.

    Safe to use from any thread. The model is loaded when first needed, or by `warm()`. A newer question interrupts an
    older one, which goes on behind it for as long as somebody waits: what was asked last is what is spoken now.
    """

    def __init__(self, path: str | Path, *, n_ctx: int = 256, threads: int = 1) -> None:
        """Check the file, without loading it yet.

        Args:
            n_ctx: tokens of a question and a text together; of what is longer the text's end is left out.
            threads: more than one makes the slowest answers far slower beside speech recognition.
        """
        if n_ctx < 32 or threads < 1:
            raise InvalidInputError("A reranker needs n_ctx of at least 32 tokens and at least one thread")
        self.path = Path(path).expanduser()
        header = read_header(self.path)
        if not (header.tensors and header.classifies):
            raise ModelError(
                f"{self.path} ranks no texts: it has no head that does; name a reranker, see: edgemem models"
            )
        # a position that the model has no row for would end the process
        self.n_ctx = min(n_ctx, header.number("context_length", n_ctx))
        """Tokens of a pair at most, with what the model puts around it."""
        self._worker = ModelWorker(
            "edgemem-reranker", partial(_load, self.path, header, self.n_ctx, threads), _WHAT
        )
        # also runs when the interpreter exits: llama.cpp must not compute while its library is torn down
        self._close = weakref.finalize(self, self._worker.close)

    @property
    def closed(self) -> bool:
        """Tell whether `close()` was called."""
        return self._worker.closed

    def warm(self) -> None:
        """Begin to load the model and return at once; an error shows at the next call."""
        self._worker.put(Job([("", "")]), query=True)

    def score(
        self,
        query: str,
        texts: Sequence[str],
        *,
        timeout_s: float | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> list[float] | None:
        """Return how well each text answers, as a logit: the higher the better, 0 where it is open.

        There are fewer, those of the first texts, when `timeout_s` seconds were not enough, and None when there is none.

        Args:
            stop: once it is true nobody waits any more; asked before each text.
        """
        if self.closed:
            raise closed_error(_WHAT)
        if not texts:
            return []
        job = Job([(query, text) for text in texts], stop)
        self._worker.put(job, query=True, newest=True)
        try:
            return self._worker.wait(job, timeout_s) or None
        except WaitTimeoutError:
            return job.rows[: len(texts)] or None

    def close(self) -> None:
        """Free the model; whoever waits for scores gets ClosedError. A second call does nothing."""
        self._close()

    def __enter__(self) -> LlamaReranker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_close") and self._close.alive:
            warnings.warn(
                f"LlamaReranker for {self.path} was not closed", ResourceWarning, stacklevel=2, source=self
            )

    def __repr__(self) -> str:
        return f"<LlamaReranker {self.path.name}{', closed' if self.closed else ''}>"


def open_reranker(
    model: str, *, home: Path | None = None, n_ctx: int | None = None, threads: int = 1
) -> LlamaReranker:
    """Open a reranker by its name or its path; `n_ctx` None takes 256 tokens a pair."""
    path = find_model(model, home=home)
    if path is None:
        get = f"type: edgemem models get {model}" if find_entry(model) is not None else "name one that is"
        raise ModelError(f"The reranking model {model} is not on this machine; {get}")
    return LlamaReranker(path, n_ctx=n_ctx or 256, threads=threads)


def _load(path: Path, header: Header, n_ctx: int, threads: int, interrupt: Interrupt) -> Ranker:
    return Ranker(path, header, n_ctx=n_ctx, threads=threads, interrupt=interrupt)
