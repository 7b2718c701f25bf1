"""The threads behind an async memory, what a task waits for there, and how a synchronous method becomes a coroutine.

Jobs of one thread run in the order in which they were asked for. When a task gives up waiting, a job that has begun runs to its
end, one that has not never begins.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from functools import wraps
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar

from edgemem.errors import ClosedError
from edgemem.store.db.database import Writer

Lane = Literal["turn", "store", "long", "idle"]
"""The thread of hooks, tools and recall; of the stores, whose writes wait for the disk; of what takes long; and of upkeep."""

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

CLOSED = "This memory is closed; open the home again with edgemem.aio.open(), or make another provider."


class Worker:
    """The threads of one memory, each begun with its first job; tasks of several loops may use them at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: dict[Lane, Writer] = {}
        self._closing: Future[None] | None = None

    @property
    def closed(self) -> bool:
        """Tell whether nothing is begun any more; what takes long asks now and then."""
        return self._closing is not None

    def submit(self, lane: Lane, work: Callable[[], R], *, though_closed: bool = False) -> Future[R]:
        """Queue a job from any thread; ClosedError ends it if the memory closes before it runs, unless `though_closed`."""

        def job() -> R:
            if self.closed and not though_closed:
                raise ClosedError(CLOSED)
            return work()

        with self._lock:
            if self.closed:
                raise ClosedError(CLOSED)
            return self._thread(lane).submit(job)

    async def run(self, lane: Lane, work: Callable[[], R], *, given_up: Callable[[bool], object] = bool) -> R:
        """Return a job's result, on the caller's loop; `given_up` hears at once of a cancelled task, and if the job had begun."""
        return await _Waiting(self.submit(lane, work), given_up)

    def close(self, last: Callable[[], None]) -> Future[None]:
        """End the threads when their work is done; run a last task on the thread of the turns."""
        with self._lock:
            if self._closing is None:
                turn = self._thread("turn")
                others = [thread for thread in self._threads.values() if thread is not turn]

                def end() -> None:
                    for thread in others:
                        thread.stop()
                    try:
                        last()
                    finally:
                        turn.stop()

                self._closing = turn.submit(end)
            return self._closing

    def _thread(self, lane: Lane) -> Writer:
        if lane not in self._threads:
            self._threads[lane] = Writer(f"edgemem-aio-{lane}", lambda: None)
        return self._threads[lane]


class _Waiting(asyncio.Future[R]):
    """A job's result; a cancelled task calls `cancel` at once, so the work that it leaves to do is queued before later calls."""

    def __init__(self, job: Future[R], given_up: Callable[[bool], object]) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self._job, self._given_up = job, given_up
        job.add_done_callback(self._tell)

    def cancel(self, msg: Any | None = None) -> bool:
        given_up, self._given_up = self._given_up, bool
        given_up(not self._job.cancel())
        return super().cancel(msg)

    def _tell(self, _: Future[R]) -> None:
        with suppress(RuntimeError):  # the loop has ended, and nobody waits
            self.get_loop().call_soon_threadsafe(self._take)

    def _take(self) -> None:
        if self.done():
            return
        error = self._job.exception()
        if error is None:
            self.set_result(self._job.result())
        else:
            self.set_exception(error)


class Face(Generic[T_co]):
    """The async face of an object; `of` returns that, on the thread that uses it."""

    def __init__(self, worker: Worker, of: Callable[[], T_co]) -> None:
        self._worker, self._of = worker, of


class Same(Generic[R]):
    """A property of the synchronous object that its face has as well, at once and on the caller's thread."""

    def __init__(self, of: Callable[[Any], R]) -> None:
        self._property: Any = of
        self.__doc__ = of.__doc__

    def __get__(self, face: Face[Any] | None, owner: type | None = None) -> R:
        value: Any = self if face is None else self._property.__get__(face._of())
        return value  # type: ignore[no-any-return]

    def __set__(self, face: Face[Any], value: R) -> None:
        self._property.__set__(face._of(), value)


def asynchronous(
    method: Callable[Concatenate[T, P], R], *, lane: Lane = "turn"
) -> Callable[Concatenate[Face[T], P], Coroutine[Any, Any, R]]:
    """Return a method of the synchronous object as a coroutine of its face, on the thread of a lane."""
    return converted(method, lambda _, result: result, lane=lane)


def converted(
    method: Callable[Concatenate[T, P], R], to: Callable[[Worker, R], S], *, lane: Lane = "turn"
) -> Callable[Concatenate[Face[T], P], Coroutine[Any, Any, S]]:
    """Return a coroutine as `asynchronous` does; `to` makes of its result what an async program can use."""

    @wraps(method)
    async def call(self: Face[T], /, *args: P.args, **kwargs: P.kwargs) -> S:
        worker = self._worker
        return to(worker, await worker.run(lane, lambda: method(self._of(), *args, **kwargs)))

    return call
