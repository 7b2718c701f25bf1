"""The worker that owns a model which embeds: a thread that serves queries first, and stored text when nobody speaks."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as WaitTimeoutError
from dataclasses import dataclass, field
from typing import Any

from edgemem.errors import ClosedError
from edgemem.llama.backend import Interrupt

_CLOSED = "The embedder was closed; open it again"


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

    def __init__(self, load: Callable[..., Any]) -> None:
        self._load = load
        self._interrupt = Interrupt()
        self._changed = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._running: Job | None = None  # it stays at its place until it is done
        self._thread: threading.Thread | None = None
        self.closed = False

    def put(self, job: Job, *, query: bool) -> None:
        """Queue a job; a query interrupts stored text or an older query, which goes on behind it."""
        with self._changed:
            self.check_open()
            if self._thread is None:
                # a daemon, so that a program that forgot to close still ends
                self._thread = threading.Thread(target=self._run, name="edgemem-embedder", daemon=True)
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

    def check_open(self) -> None:
        """Raise the error that everybody gets once the model is closed."""
        if self.closed:
            raise ClosedError(_CLOSED)

    def _run(self) -> None:
        model: Any = None
        try:
            while (job := self._next()) is not None:
                model = self._step(model, job)
        finally:
            if model is not None:
                model.close()
            for job in list(self._jobs):
                self._finish(job, ClosedError(_CLOSED))

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
