"""Reranking by llama.cpp: one thread owns the model, reads question and text together, and serves the newest question first."""

from __future__ import annotations

from concurrent.futures import TimeoutError as WaitTimeoutError
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from edgemem.errors import InvalidInputError, ModelError
from edgemem.llama.catalog import find_entry, find_model
from edgemem.llama.gguf import read_header
from edgemem.llama.handle import ModelHandle
from edgemem.llama.ranker import Ranker
from edgemem.llama.worker import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgemem.llama.forward import Interrupt
    from edgemem.llama.gguf import Header


class LlamaReranker(ModelHandle):
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
        path = Path(path).expanduser()
        header = read_header(path)
        if not (header.tensors and header.classifies):
            raise ModelError(
                f"{path} ranks no texts: it has no head that does; name a reranker, see: edgemem models"
            )
        # a position that the model has no row for would end the process
        self.n_ctx = min(n_ctx, header.number("context_length", n_ctx))
        """Tokens of a pair at most, with what the model puts around it."""
        super().__init__(path, "reranker", partial(_load, path, header, self.n_ctx, threads))

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
        self._check_open()
        if not texts:
            return []
        job = Job([(query, text) for text in texts], stop)
        self._worker.put(job, query=True, newest=True)
        try:
            return self._worker.wait(job, timeout_s) or None
        except WaitTimeoutError:
            return job.rows[: len(texts)] or None


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
