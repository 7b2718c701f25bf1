"""Opening: what a start must not wait for is made in idle time, and then no question waits for it either."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

import edgemem
from edgemem import preload
from edgemem.cli.options import truth_alone
from edgemem.errors import StoreError
from support.homes import BY_WORDS

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
    home = tmp_path_factory.mktemp("opening") / "home"
    home.mkdir()
    (home / "edgemem.toml").write_text('[llama]\nembedder = ""\n')
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
