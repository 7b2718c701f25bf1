"""The worker that owns a model which embeds: a thread that serves queries first, and stored text when nobody speaks."""

from __future__ import annotations

import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as WaitTimeoutError
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem.errors import ClosedError
from edgemem.llama import backend
from edgemem.llama.backend import CachedContext, Interrupt
from edgemem.preload import np
from edgemem.store.db.files import Closable

if TYPE_CHECKING:
    from numpy.typing import NDArray

NO_POOLING = 0
"""llama.cpp's number of it."""
_CHARS_A_TOKEN = 64  # characters of a very long text beyond this a token cannot matter


class Forward:
    """Loads a model that embeds, and runs one text at a time through it; not thread-safe.

    llama.cpp attends over the whole batch: packing is no faster on a CPU, and alone a text always gets the same bits.
    """

    def __init__(
        self, path: Path, *, n_ctx: int, threads: int, interrupt: Interrupt, pooling: int | None
    ) -> None:
        """Load the model; `n_ctx` must not exceed the tokens it was trained for, `pooling` None takes the file's."""
        self.api, self.path, self.n_ctx = backend.llama(), path, n_ctx
        self._context: Any = None
        # the abort callback works on the CPU only, and the chat model needs the GPU
        self.model = backend.load_model(path, n_gpu_layers=0)
        pools = {} if pooling is None else {"pooling_type": pooling}
        try:
            self._context = CachedContext(
                self.model, interrupt, n_ctx=n_ctx, n_batch=n_ctx, threads=threads,
                embeddings=True, offload_kqv=False, op_offload=False, **pools,
            )  # fmt: skip
        except BaseException:
            self.close()
            raise
        self.pooling = int(self.api.llama_pooling_type(self._context.context))
        self.vocabulary = self.api.llama_model_get_vocab(self.model)
        self._tokens = backend.TokenBuffer(self.vocabulary)

    def tokenize(self, text: str) -> list[int]:
        """Return the ids of a text, with those that the model puts around it, also beyond `n_ctx`, of a far longer one its beginning's."""
        raw = text[: self.n_ctx * _CHARS_A_TOKEN].encode("utf-8", "replace").replace(b"\0", b" ")
        return self._tokens.ids(raw, around=True)

    def run(self, ids: Sequence[int], count: int) -> NDArray[np.float32] | None:
        """Read at most `n_ctx` ids and return `count` numbers of all, `float32[1, count]`, or, without pooling, of each.

        Return None if the interrupt was raised meanwhile.
        """
        self._context.clear()
        if not self._context.read(ids):
            return None
        if self.pooling == NO_POOLING:
            rows, pointer = len(ids), self.api.llama_get_embeddings(self._context.context)
        else:
            rows, pointer = 1, self.api.llama_get_embeddings_seq(self._context.context, 0)
        return np.array(np.ctypeslib.as_array(pointer, (rows, count)), dtype=np.float32)

    def close(self) -> None:
        """Free the model; a second call does nothing."""
        if self._context is not None:
            self._context.close()
        if self.model:
            self.api.llama_model_free(self.model)
        self._context = self.model = None


@dataclass(eq=False)
class Job:
    """Items on their way through the thread; `rows` grows, so an interrupted job goes on where it was."""

    compute: Callable[[Any, Any], Any]  # makes a row of model and item; None: interrupted
    items: list[Any]
    stop: Callable[[], bool] | None = None
    """Once it is true nobody waits for the rest."""
    rows: list[Any] = field(default_factory=list)
    done: Future[list[Any]] = field(default_factory=Future)


class ModelWorker:
    """The thread that calls `load` with the `interrupt` to obey, uses and frees the model; newest query first, texts last."""

    def __init__(self, what: str, load: Callable[..., Any]) -> None:
        self._load, self._what = load, what
        self._interrupt = Interrupt()
        self._changed = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._running: Job | None = None  # it stays at its place until it is done
        self._thread: threading.Thread | None = None
        self.closed = False

    def put(self, job: Job, *, query: bool) -> None:
        """Queue a job; a query interrupts stored text or an older query, which goes on behind it."""
        with self._changed:
            if self.closed:
                raise self.closed_error()
            if self._thread is None:
                # a daemon, so that a program that forgot to close still ends
                self._thread = threading.Thread(target=self._run, name=f"edgemem-{self._what}", daemon=True)
                self._thread.start()
            if query:
                self._jobs.appendleft(job)
                if self._running is not None:
                    self._interrupt.ask()
            else:
                self._jobs.append(job)
            self._changed.notify()

    def wait(self, job: Job, timeout_s: float | None) -> list[Any]:
        """Return the rows of a job, or drop it and raise `TimeoutError` after `timeout_s` seconds."""
        try:
            return job.done.result(timeout_s)
        except (WaitTimeoutError, KeyboardInterrupt) as error:
            with self._changed:
                done = job.done.done()
                if not done:
                    self._jobs.remove(job)
                    if self._running is job:
                        self._interrupt.ask()
                    job.done.cancel()
            if done and isinstance(error, WaitTimeoutError):
                return job.done.result()  # done in the last moment
            raise

    def yield_to_speech(self) -> None:
        """End the jobs whose `stop()` is true, also the one at work, with the rows they have."""
        with self._changed:
            for job in self._stopped():
                if job is self._running:
                    self._interrupt.ask()
                else:
                    self._finish(job)

    def close(self) -> None:
        """End the thread; jobs that are not done get ClosedError."""
        with self._changed:
            self.closed = True
            self._interrupt.ask()
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def closed_error(self) -> ClosedError:
        """Return the error that everybody gets once the model is closed."""
        return ClosedError(f"The {self._what} was closed; open it again")

    def _run(self) -> None:
        model: Any = None
        try:
            while (job := self._next()) is not None:
                model = self._step(model, job)
        finally:
            if model is not None:
                model.forward.close()
            for job in list(self._jobs):
                self._finish(job, self.closed_error())

    def _step(self, model: Any, job: Job) -> Any:
        """Compute one item of a job; interrupted, it is tried again when its turn comes."""
        try:
            model = model or self._load(interrupt=self._interrupt)
            if len(job.rows) < len(job.items):
                row = job.compute(model, job.items[len(job.rows)])
                job.rows += [] if row is None else [row]
        except Exception as error:  # noqa: BLE001  (it is raised where the job is waited for)
            self._finish(job, error)
        else:
            if len(job.rows) == len(job.items):
                self._finish(job)
        return model

    def _next(self) -> Job | None:
        """Wait for work and mark it as running; None once the model is closed."""
        with self._changed:
            self._running = None
            while True:
                # Before each item: a query may have come in between, and its turn may still run.
                for job in self._stopped():
                    self._finish(job)
                if self.closed:
                    return None
                if self._jobs:
                    break
                self._changed.wait()
            self._interrupt.reset()
            self._running = self._jobs[0]
            return self._running

    def _finish(self, job: Job, error: Exception | None = None) -> None:
        with self._changed:
            if job.done.cancelled():
                return
            self._jobs.remove(job)
            if error is None:
                job.done.set_result(job.rows)
            else:
                job.done.set_exception(error)

    def _stopped(self) -> list[Job]:
        return [job for job in self._jobs if job.stop is not None and job.stop()]


class ModelHandle(Closable):
    """A model that any thread may use; it is loaded when first needed, and dropping it unclosed warns."""

    _close: weakref.finalize[..., ModelHandle] | None = None
    """Where the file was refused there is nothing to close."""

    def __init__(self, path: Path, what: str, load: Callable[..., Any]) -> None:
        """Take a model's file; `load` loads it later, in the thread, with an `interrupt` to obey."""
        self.path = path
        self._worker = ModelWorker(what, load)
        # also runs when the interpreter exits: llama.cpp must not compute while its library is torn down
        self._close = weakref.finalize(self, self._worker.close)

    @property
    def closed(self) -> bool:
        """Tell whether `close()` was called."""
        return self._worker.closed

    def warm(self) -> None:
        """Begin to load the model and return at once; an error shows at the next call."""
        self._worker.put(Job(lambda *_: None, []), query=True)

    def close(self) -> None:
        """Free the model; those who wait for it get ClosedError. A second call does nothing."""
        if self._close is not None:
            self._close()

    def _check_open(self) -> None:
        if self.closed:
            raise self._worker.closed_error()

    def __del__(self) -> None:
        if self._close is not None and self._close.alive:
            fault = f"{type(self).__name__} for {self.path} was not closed"
            warnings.warn(fault, ResourceWarning, stacklevel=2, source=self)
