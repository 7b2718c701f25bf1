"""The idle worker: steps in order, yielding, isolation."""

from __future__ import annotations

import threading

import pytest

from edgemem.idle import IdleWorker, Step


def test_the_most_urgent_step_with_work_goes_first() -> None:
    """A later step runs only when the earlier ones have nothing to do."""
    left = {"first": 2, "second": 2}
    order: list[str] = []

    def step(name: str) -> Step:
        def run(stop: object) -> bool:
            if not left[name]:
                return False
            left[name] -= 1
            order.append(name)
            return True

        return Step(name, run)

    worker = IdleWorker([step("first"), step("second")])
    assert worker.run(10.0)
    assert order == ["first", "first", "second", "second"]


def test_a_failing_step_is_counted_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    """One broken kind of upkeep does not stop the rest, nor spin."""
    done: list[int] = []

    def fine(stop: object) -> bool:
        done.append(1)
        return len(done) < 3

    def broken(stop: object) -> bool:
        raise OSError("no space")

    worker = IdleWorker([Step("broken", broken), Step("fine", fine)])
    assert not worker.run(10.0)
    assert len(done) == 3
    assert worker.failures()[0].message == "OSError: no space"
    assert len(caplog.records) == 1


def test_work_yields_to_whoever_speaks() -> None:
    """A running step is told to stop as soon as somebody begins to speak, and the worker goes on afterwards."""
    running, stopped, again = threading.Event(), threading.Event(), threading.Event()

    def step(stop: object) -> bool:
        if stopped.is_set():
            again.set()
            return False
        running.set()
        while not stop():  # type: ignore[operator]
            pass
        stopped.set()
        return True

    worker = IdleWorker([Step("long", step)], settle_s=0.0)
    worker.start()
    worker.release()
    assert running.wait(10)
    worker.hold()
    assert stopped.wait(10)
    assert not again.is_set()
    worker.release()
    assert again.wait(10)
    worker.close()
    worker.close()
