"""The thread that owns an embedding model: queries first, stored text when nobody speaks."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING

from edgemem.errors import ClosedError, ModelError
from edgemem.llama.encoder import Encoder, Interrupt

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from edgemem.llama.gguf import Header


class Job:
    """Texts on their way through the worker; `rows` grows, so an interrupted job goes on where it was.

    Args:
        stop: once it is true, nobody waits for what is not made yet.
        counts: make no vectors, but tell how many tokens each text takes.
    """

    def __init__(
        self, texts: list[str], stop: Callable[[], bool] | None = None, *, counts: bool = False
    ) -> None:
        self.texts = texts
        self.stop = stop
        self.counts = counts
        self.rows: list[Any] = []
        self.done: Future[list[Any]] = Future()


class EmbeddingWorker:
    """The thread that loads, uses and frees the model, with a lane for queries and one for stored text."""

    def __init__(self, path: Path, header: Header, n_ctx: int, threads: int, dimensions: int) -> None:
        self._path, self._header, self._n_ctx, self._threads = path, header, n_ctx, threads
        self._dimensions = dimensions
        self._interrupt = Interrupt()
        self._changed = threading.Condition()
        self._queries: deque[Job] = deque()
        self._background: deque[Job] = deque()
        self._running: Job | None = None  # it stays at the head of its lane until it is done
        self._thread: threading.Thread | None = None
        self.closed = False

    def put(self, job: Job, *, query: bool) -> None:
        """Queue a job; a query interrupts stored text that is being embedded."""
        with self._changed:
            if self.closed:
                raise closed_error()
            if self._thread is None:
                # a daemon, so that a program that forgot to close still ends
                self._thread = threading.Thread(target=self._run, name="edgemem-embedder", daemon=True)
                self._thread.start()
            if query and self._running is not None and self._running not in self._queries:
                self._interrupt.raise_()
            (self._queries if query else self._background).append(job)
            self._changed.notify()

    def drop(self, job: Job) -> bool:
        """Forget a job that nobody waits for any more, also while it is computed; False if it is done already."""
        with self._changed:
            if job.done.done():
                return False
            self._leave(job)
            if self._running is job:
                self._interrupt.raise_()
            return job.done.cancel()

    def give_way(self) -> None:
        """End the jobs whose `stop()` is true, also the one that is computed at this moment, with what they have."""
        with self._changed:
            for job in [job for job in self._background if _stopped(job)]:
                if job is self._running:
                    self._interrupt.raise_()
                else:
                    self._finish(job, None)

    def close(self) -> None:
        """End the thread; jobs that are not done get ClosedError."""
        with self._changed:
            self.closed = True
            self._interrupt.raise_()
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        encoder: Encoder | None = None
        try:
            while (job := self._next()) is not None:
                encoder = self._step(encoder, job)
        finally:
            if encoder is not None:
                encoder.close()
            for job in (*self._queries, *self._background):
                self._finish(job, closed_error())

    def _next(self) -> Job | None:
        """Wait for work and mark it as running; None once the embedder is closed."""
        with self._changed:
            self._running = None
            while True:
                # Before each text: a query may have come in between, and its turn may still run.
                for job in [job for job in self._background if _stopped(job)]:
                    self._finish(job, None)
                if self.closed:
                    return None
                if self._queries or self._background:
                    break
                self._changed.wait()
            self._interrupt.lower()
            self._running = (self._queries or self._background)[0]
            return self._running

    def _load(self) -> Encoder:
        encoder = Encoder(
            self._path, self._header, n_ctx=self._n_ctx, threads=self._threads, interrupt=self._interrupt
        )
        if encoder.dimensions != self._dimensions:
            encoder.close()
            raise ModelError(
                f"{self._path} announces {self._dimensions} dimensions but gives {encoder.dimensions}"
            )
        return encoder

    def _step(self, encoder: Encoder | None, job: Job) -> Encoder | None:
        """Embed one text of a job; interrupted, it is simply tried again when its turn comes."""
        try:
            encoder = encoder or self._load()
            text = job.texts[len(job.rows)]
            row = encoder.count(text) if job.counts else encoder.encode(text)
        except Exception as error:  # noqa: BLE001  (it is raised where the job is waited for)
            self._finish(job, error)
            return encoder
        if row is not None:
            job.rows.append(row)
            if len(job.rows) == len(job.texts):
                self._finish(job, None)
        return encoder

    def _finish(self, job: Job, error: Exception | None) -> None:
        with self._changed:
            self._leave(job)
            if job.done.cancelled():
                return
            if error is None:
                job.done.set_result(job.rows)
            else:
                job.done.set_exception(error)

    def _leave(self, job: Job) -> None:
        for lane in (self._queries, self._background):
            if job in lane:
                lane.remove(job)


def _stopped(job: Job) -> bool:
    return job.stop is not None and job.stop()


def closed_error() -> ClosedError:
    """Return the error that everybody gets once the embedder is closed."""
    return ClosedError("The embedder was closed; open it again")
