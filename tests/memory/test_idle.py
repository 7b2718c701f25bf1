"""The idle worker: steps in order, yielding, isolation; what a start must not wait for is made then, and no question waits for it."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

import edgemem
from edgemem import preload
from edgemem.bench.ground import Robot
from edgemem.cli.options import truth_alone
from edgemem.config import Profile
from edgemem.errors import StoreError
from edgemem.inspect.replay import Line
from edgemem.memory.idle import IdleWorker
from support.embedders import HashEmbedder
from support.homes import BY_WORDS, home_of


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


_NOTED = """
import json, re, sys

compiled = 0
plain = re.compile

def noted(expression, flags=0):
    global compiled
    if sys._getframe(1).f_globals["__name__"].startswith("edgemem"):
        compiled += len(expression)
    return plain(expression, flags)

re.compile = noted
import edgemem

found = {}

def note(name, before):
    found[name] = {"compiled": compiled, "imported": sorted(set(sys.modules) - before)}

before = set(sys.modules)
with edgemem.open(sys.argv[1], worker=False) as memory:
    note("open", before)
    memory.store.add_fact("ladder", "is in the shed")
    memory.idle(60)
    note("idle", set())
    before = set(sys.modules)
    assert memory.recall("Where did we put the ladder last week, Mara?")
    note("asked", before)
print(json.dumps(found))
"""

LATE = ("importlib.metadata", "jinja2", "llama_cpp", "numpy", "rich", "shutil", "socket", "tempfile")
"""What opening has no need of, and takes 2 to 40 ms each."""


@pytest.fixture(scope="module")
def noted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what a fresh process imported, and how many characters of expressions ours compiled, step by step."""
    home = home_of(tmp_path_factory.mktemp("opening") / "home", '[llama]\nembedder = ""\n')
    command = [sys.executable, "-c", _NOTED, str(home)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_opening_imports_nothing_heavy(noted: dict[str, Any]) -> None:
    """A memory opens without arrays, models, tables, and what reads the metadata of packages."""
    assert {name for name in LATE if name in noted["open"]["imported"]} == set()


def test_opening_compiles_no_long_patterns(noted: dict[str, Any]) -> None:
    """Expressions with hundreds of words are noted as a `Pattern`; all that is compiled at once has one page."""
    assert noted["open"]["compiled"] < 3000


def test_after_idle_time_a_question_waits_for_nothing(noted: dict[str, Any]) -> None:
    """What opening has put off is there before somebody asks: nothing is imported or compiled for them."""
    assert noted["idle"]["compiled"] > noted["open"]["compiled"]
    assert noted["asked"] == {"compiled": noted["idle"]["compiled"], "imported": []}


@pytest.mark.parametrize("hear", [False, True])
def test_somebody_who_begins_to_speak_or_silence_lays_it_in(tmp_path: Path, hear: bool) -> None:
    """The worker begins by itself once a memory is open, and whoever speaks first need not have waited for it."""
    idle = msgspec.structs.replace(BY_WORDS.idle, settle_s=60.0 if hear else 0.0)
    profile = msgspec.structs.replace(BY_WORDS, idle=idle)
    made: list[str] = []
    # Before the worker looks for what is to be made: it looks again only when something wakes it.
    preload.preload_later(lambda: made.append("made"))
    with edgemem.open(tmp_path, profile=profile, watch=False) as memory:
        if hear:
            memory.diagnostics.prefetch.wake()
        until = time.monotonic() + 30
        while not made and time.monotonic() < until:
            time.sleep(0.01)
    assert made == ["made"]


def test_what_was_opened_is_closed_if_the_next_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The home is free again if the index cannot be made; an unclosed file would warn, and a warning is an error here."""

    def broken(*_: object, **__: object) -> None:
        raise StoreError("no index")

    with monkeypatch.context() as patched:
        patched.setattr("edgemem.memory.opened.Index", broken)
        with pytest.raises(StoreError, match="no index"):
            edgemem.open(tmp_path, profile=BY_WORDS, worker=False)
    with truth_alone(tmp_path) as truth:
        assert truth.is_sound()
