"""The idle worker: steps in order, yielding, isolation."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

import edgemem
from edgemem.bench.ground import Robot
from edgemem.config import Profile
from edgemem.inspect.replay import Line
from edgemem.memory.idle import IdleWorker
from support.embedders import HashEmbedder


def test_a_failing_step_is_counted_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    """One broken kind of upkeep does not stop the rest, nor spin."""
    done: list[int] = []

    def fine(stop: object) -> bool:
        done.append(1)
        return len(done) < 3

    def broken(stop: object) -> bool:
        raise OSError("no space")

    worker = IdleWorker({"broken": broken, "fine": fine})
    assert not worker.run(10.0)
    assert len(done) == 3
    assert worker.failures()[0].message == "OSError: no space"
    assert len(caplog.records) == 1


def test_no_step_begins_once_somebody_speaks() -> None:
    """Also not the ones behind a step that had nothing to do; and whoever speaks is told at once."""
    begun: list[str] = []
    told: list[bool] = []

    def first(stop: object) -> bool:
        begun.append("first")
        worker.hold()
        return False

    def second(stop: object) -> bool:
        begun.append("second")
        return False

    worker = IdleWorker({"first": first, "second": second}, on_hold=lambda: told.append(worker.speaking))
    assert not worker.run(10.0, yielding=True)
    assert begun == ["first"]
    assert told == [True]
    worker.release()
    begun.clear()
    assert worker.run(10.0)
    assert begun == ["first", "second"]


class Embedding(HashEmbedder):
    """Embeds stored text for as long as nobody tells it to give way."""

    def __init__(self) -> None:
        super().__init__()
        self.busy, self.given_way = threading.Event(), threading.Event()

    def embed_until(self, texts: Sequence[str], stop: Callable[[], bool]) -> Sequence[Any]:
        if self.given_way.is_set():
            return list(self.embed_texts(texts))
        self.busy.set()
        assert self.given_way.wait(10)
        assert stop()
        return list(self.embed_texts(texts[:1]))

    def yield_to_speech(self) -> None:
        if self.busy.is_set():
            self.given_way.set()


def test_a_turn_aborts_what_is_embedded_and_it_is_embedded_later(tmp_path: Path) -> None:
    """`on_run_start` alone is enough; what was made until then is kept, and the rest waits for the next quiet."""
    embedder = Embedding()
    plain = Profile()
    profile = msgspec.structs.replace(plain, idle=msgspec.structs.replace(plain.idle, settle_s=0.0))
    with edgemem.open(tmp_path, profile=profile, embedder=embedder, watch=False) as memory:
        robot = Robot(memory.hooks(session_id="kitchen", speaker="mara"))
        for n in range(3):
            memory.store.add_fact(f"shelf {n}", f"holds jar {n}")
        robot.loop.idle(0.0)  # now it is quiet
        assert embedder.busy.wait(10)
        robot.turn(Line("where is jar 2?", speaker="mara", reply="On shelf 2."))
        robot.check()
        assert embedder.given_way.is_set()
        assert memory.idle(30)
        assert set(memory.diagnostics.search.pending().values()) == {0}
        assert memory.diagnostics.upkeep.failures() == []


def test_whoever_gives_no_time_waits_for_no_step() -> None:
    """`idle(0)` in the middle of a step of the worker returns at once, and says that not all is done."""
    begun, go_on = threading.Event(), threading.Event()

    def slow(stop: Callable[[], bool]) -> bool:
        begun.set()
        go_on.wait(30)
        return False

    worker = IdleWorker({"slow": slow}, settle_s=lambda: 0.0)
    worker.start()
    try:
        assert begun.wait(30)
        assert not worker.run(0.0)
        assert not go_on.is_set()
    finally:
        go_on.set()
        worker.close()
