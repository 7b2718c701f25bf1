"""Stops llama.cpp in the middle of its work when somebody says so."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from edgemem.llama.forward import Interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_POLL_S = 0.005


class Stop:
    """Whether a context was asked to stop, and the watch that asks it."""

    def __init__(self, context: Any) -> None:
        self.asked = False
        self._interrupt = Interrupt()
        self._kept_alive = self._interrupt.attach(context)

    def ask(self) -> None:
        """Let the running computation end as soon as it can."""
        self.asked = True
        self._interrupt.raise_()

    def reset(self) -> None:
        """Let the next computation run."""
        self.asked = False
        self._interrupt.lower()

    @contextmanager
    def watching(self, stop: Callable[[], bool]) -> Iterator[None]:
        """Ask to stop once `stop()` is true."""
        with watching(stop, self.ask):
            yield


@contextmanager
def watching(stop: Callable[[], bool], ask: Callable[[], None]) -> Iterator[None]:
    """Call `ask` once `stop()` is true, looked at every 5 ms from a thread of its own."""
    done = threading.Event()
    failures: list[BaseException] = []

    def watch() -> None:
        try:
            while not done.wait(_POLL_S):
                if stop():
                    ask()
                    return
        except BaseException as error:  # noqa: BLE001  # raised below, in the thread that waits
            failures.append(error)
            ask()

    watcher = threading.Thread(target=watch, name="edgemem-stop", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
    if failures:
        raise failures[0]
