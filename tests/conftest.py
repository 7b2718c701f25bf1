"""Fixtures: a clock that tests move by hand, and the real models and vocabularies; and how properties are tried."""

import importlib
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from hypothesis import settings

import edgemem
from edgemem.clock import Clock
from edgemem.llama.template.chat_template import CHATML
from edgemem.store.db.database import Database
from edgemem.store.kinds import open_truth
from edgemem.store.memory_store import SQLiteMemoryStore
from support import selection
from support.embedders import HashEmbedder
from support.homes import Robot, home_of, opened, time_zone
from support.selection import LONG

# An example that takes long says that the machine is busy, and nothing about what the test proves. The examples follow from
# the test alone: what passed on one machine passes on the next. `EDGEMEM_EXPLORE=1` tries new ones, to look for what is not known yet.
settings.register_profile("repeatable", settings.default, deadline=None, print_blob=True, derandomize=True)
settings.register_profile("explore", settings.default, deadline=None, print_blob=True)
settings.register_profile("quick", settings.get_profile("repeatable"), max_examples=10)
settings.load_profile("explore" if os.environ.get("EDGEMEM_EXPLORE") else "repeatable")

collect_ignore = ["attach"]  # `make test-loops` runs these, with frameworks that the suite does without


class HandClock:
    """A wall clock and a monotonic clock that a test moves by hand."""

    def __init__(self, start: float = 1_770_000_000.0) -> None:
        self.wall = start
        self.monotonic = 1000.0
        self.clock = Clock(wall=lambda: self.wall, monotonic=lambda: self.monotonic)

    def advance(self, seconds: float) -> None:
        self.wall += seconds
        self.monotonic += seconds


@pytest.fixture
def hand() -> HandClock:
    """Return a clock that stands still until the test moves it."""
    return HandClock()


@pytest.fixture
def clock(hand: HandClock) -> Clock:
    """Return the robot's clock on top of the hand-moved one."""
    return hand.clock


@pytest.fixture
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[edgemem.Memory]:
    """Return a memory that finds by words, on the clock of a test that moves one by hand.

    What a module names `HOME_SETTINGS` stands in its profile too.
    """
    clock = request.getfixturevalue("clock") if "hand" in request.fixturenames else None
    with opened(tmp_path / "home", getattr(request.module, "HOME_SETTINGS", ""), clock=clock) as memory:
        yield memory


@pytest.fixture
def truth(tmp_path: Path, clock: Clock) -> Iterator[Database]:
    with open_truth(tmp_path / "memory.db", clock=clock) as database:
        yield database


@pytest.fixture
def store(truth: Database) -> SQLiteMemoryStore:
    return SQLiteMemoryStore(truth)


@pytest.fixture(params=["words", "meaning"])
def robot(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Robot]:
    """Return a robot with vectors and one without."""
    made = Robot(tmp_path, clock, HashEmbedder() if request.param == "meaning" else None)
    yield made
    made.close()


@pytest.fixture(params=["at once", "indexed"])
def settled(request: pytest.FixtureRequest, robot: Robot) -> Callable[[], None]:
    """Return a function to call after writing: the index may have seen it or not."""
    return (lambda: None) if request.param == "at once" else robot.idle


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a turn's end and a memory tool wait for the disk as long as it takes: a test's disk may be busy."""
    from edgemem.session import log
    from edgemem.store import spool

    for module in (log, spool):
        monkeypatch.setattr(module, "wait", lambda futures, _: wait(futures, 60))


def _cache() -> Path:
    base = os.environ.get("EDGEMEM_CACHE")
    return (
        Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "edgemem"
    )


@pytest.fixture(scope="session")
def edgevox_path() -> Path:
    """Return the folder that has the real EdgeVox, for the path of another process."""
    found = sorted(_cache().glob("edgevox-*/edgevox"), key=lambda path: path.stat().st_mtime)
    assert found, "no EdgeVox: `make server` installs it (python3 .ci/setup_env.py server)"
    return found[-1].parent


@pytest.fixture(scope="session")
def vocabularies() -> Path:
    """Return the folder of real tokenizer vocabularies and templates that the set-up unpacked."""
    found = sorted(_cache().glob("vocab-*"))
    assert found, "no vocabularies: run `make env` (they come out of the llama-cpp-python source package)"
    return found[-1]


MADE_FOR = {
    "qwen2": "Qwen-Qwen2.5-7B-Instruct",
    "llama-bpe": "meta-llama-Llama-3.2-3B-Instruct",
    "phi-3": "microsoft-Phi-3.5-mini-instruct",
}
"""Vocabularies, and the template that was made for each."""


@pytest.fixture(scope="session")
def chat_model(tmp_path_factory: pytest.TempPathFactory, vocabularies: Path) -> Callable[[str], Path]:
    """Return what gives a real chat model of random weights with a vocabulary and its template, written once for all tests."""
    from support.models import write_llama_gguf

    folder = tmp_path_factory.mktemp("chat models")

    def get(vocabulary: str) -> Path:
        file = folder / f"{vocabulary}.gguf"
        if not file.exists():
            template = MADE_FOR.get(vocabulary, CHATML)
            write_llama_gguf(
                file, vocabularies=vocabularies, vocabulary=vocabulary, template=template, width=32
            )
        return file

    return get


@pytest.fixture(scope="session")
def phi3(chat_model: Callable[[str], Path]) -> Path:
    """Return a chat model with the vocabulary that loads fastest."""
    return chat_model("phi-3")


@pytest.fixture(scope="session")
def llama_server() -> Path:
    """Return the program of a real llama-server."""
    from support.servers import built_server

    found = built_server(_cache())
    assert found is not None, "no llama-server: `make test` builds it; or name one with EDGEMEM_LLAMA_SERVER"
    return found


@pytest.fixture(scope="module")
def edgevox(edgevox_path: Path) -> Iterator[ModuleType]:
    """Return the agents of the real EdgeVox, which is on the path for as long as the tests of one module run."""
    before = set(sys.modules)
    sys.path.append(str(edgevox_path))
    try:
        yield importlib.import_module("edgevox.agents")
    finally:
        sys.path.remove(str(edgevox_path))
        for name in set(sys.modules) - before:
            if name.partition(".")[0] in ("edgevox", "huggingface_hub", "filelock"):
                del sys.modules[name]


@pytest.fixture(scope="session")
def minilm() -> Path:
    from edgemem.llama.models.catalog import find_model

    found = find_model("all-minilm-l6-v2")
    assert found is not None, "no embedder: run `edgemem models get all-minilm-l6-v2`"
    return found


class Demo(NamedTuple):
    """The demo as it was played once."""

    home: Path
    printed: str
    report: dict[str, Any]


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory, minilm: Path) -> Demo:
    """Play the demo once, in UTC, with the real vocabulary and embedder; no recall is late, however slow the machine is."""
    from edgemem.cli import demo
    from support.cli import run

    assert minilm
    home = home_of(tmp_path_factory.mktemp("kitchen") / "pip", "[recall]\ndeadline_ms = 60000\n")
    reports: list[dict[str, Any]] = []
    play = demo.play
    with pytest.MonkeyPatch.context() as patch, time_zone("UTC"):
        patch.setattr(demo, "play", lambda *args, **rest: reports.append(play(*args, **rest)) or reports[0])
        printed = run("demo", "--home", home).output
    return Demo(home, printed, reports[0])


def pytest_configure(config: pytest.Config) -> None:
    """Try few examples of each property in `make quick`, and see that it needs no model and no other process."""
    if config.getoption("markexpr") == "quick":
        settings.load_profile("quick")
        config.pluginmanager.register(selection.Watch())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> None:
    """Leave experiments to `make test-long`, and mark what `make quick` runs."""
    experiments = [] if LONG else [item for item in items if item.get_closest_marker("experiment")]
    config.hook.pytest_deselected(items=experiments)
    items[:] = [item for item in items if item not in experiments]
    for item in items:
        if selection.is_quick(item):
            item.add_marker(pytest.mark.quick)


def pytest_report_header() -> list[str]:
    """Print the versions that results depend on."""
    import llama_cpp
    import sqlite_vec

    return [
        f"sqlite {sqlite3.sqlite_version}, sqlite-vec {sqlite_vec.__version__}, llama-cpp-python {llama_cpp.__version__}"
    ]
