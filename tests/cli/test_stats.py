"""`edgemem stats`: right counts, quick in a large home, and a file that Prometheus can read."""

import re
import stat
from pathlib import Path

import pytest
from conftest import HandClock

import edgemem
from edgemem.cli.stats import render, write_textfile
from edgemem.errors import InvalidInputError
from edgemem.loop.loop import AgentLoop
from edgemem.memory.stats import COUNTS, gather
from edgemem.session.points import HookFailure
from support.cli import refused, run
from support.homes import opened
from support.models import Listener
from support.refusals import refusal

DAY = 86400.0
_SAMPLE = re.compile(r'(edgemem_[a-z_]+)\{home="([^"]*)"(?:,kind="([^"]*)")?\} (\S+)')


def parse(text: str) -> dict[tuple[str, str], float]:
    """Read the samples by name and kind; each name has its type before its first sample."""
    read: dict[tuple[str, str], float] = {}
    typed = ""
    for line in text.splitlines():
        if line.startswith("#"):
            typed = line.split()[2]
            continue
        match = _SAMPLE.fullmatch(line)
        assert match, line
        name, _home, kind, value = match.groups()
        assert name == typed
        assert (name, kind or "") not in read
        read[name, kind or ""] = float(value)
    return read


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    with opened(path) as memory:
        memory.store.add_fact("ann.tea", "green")
        memory.store.add_fact("ann.tea", "black")
        memory.store.add_fact("ann.car", "red", valid_from=0.0, valid_to=9.0)
        memory.store.retract_fact("ann.tea")
        memory.store.set_preference("volume", "low")
        memory.store.add_episode("tool", {"name": "oven"}, "ok")
        (path / "NOTES.md").write_text("# Notes\n\nThe stove is new.\n", encoding="utf-8")
        AgentLoop(Listener(), hooks=memory.hooks(session_id="hall", speaker="Ann")).run("Is my secret safe?")
    return path


def test_it_counts_everything(home: Path) -> None:
    """Facts by key and by version, and all else that is remembered."""
    with edgemem.open(home, worker=False) as memory:
        found = gather(memory.diagnostics)
    singles = dict.fromkeys(("preferences", "episodes", "sessions", "turns", "epochs"), 1)
    none = dict.fromkeys((*COUNTS, "bank_files"), 0)
    assert found.counts == {**none, "facts": 2, "fact_versions": 3, "messages": 2, "notes": 2, **singles}
    assert found.disk_bytes["truth"] > 10_000
    assert found.disk_bytes["notes"] == (home / "NOTES.md").stat().st_size
    assert found.last_turn is not None
    assert found.last_turn.hops == 1


def test_growth_and_lag_follow_the_clock(tmp_path: Path, hand: HandClock) -> None:
    """Growth is that of the last week, at least over a day; lag is the age of the oldest row that waits."""
    with edgemem.open(tmp_path, clock=hand.clock, worker=False) as memory:
        assert gather(memory.diagnostics).lag_s == 0.0
        for _ in range(4):
            memory.store.add_fact(f"key.{hand.wall:.0f}", "x")
            hand.advance(60.0)
        young = gather(memory.diagnostics)
        assert young.lag_s == pytest.approx(240.0, abs=1.0)
        assert young.waiting["text"] == 8  # each key begins with the nothing before it
        assert young.per_day["fact_rows"] == 8.0
        memory.idle(10.0)
        assert gather(memory.diagnostics).lag_s == 0.0
        hand.advance(30 * DAY)
        memory.store.add_fact("key.late", "x")
        old = gather(memory.diagnostics)
        assert old.per_day["fact_rows"] == pytest.approx(2 / 7, abs=0.01)
        assert 0 < old.per_day["bytes"] < young.per_day["bytes"]


def test_no_word_of_what_is_remembered_is_shown(home: Path) -> None:
    """Neither the table nor JSON nor the Prometheus file holds what was said, by whom, or under which key."""
    with edgemem.open(home, worker=False) as memory:
        secret = HookFailure("MyHook", "before_llm", 1, "ValueError: my secret is safe")
        memory.diagnostics.failures.note(secret)
    file, before = home / "edgemem.prom", (home / "db" / "memory.db").read_bytes()
    shown = [
        run("stats", "--home", home).stdout,
        run("stats", "--home", home, "--json", "--prometheus", file).stdout,
        file.read_text(),
    ]
    assert (home / "db" / "memory.db").read_bytes() == before
    for text in shown:
        assert "MyHook" in text
        assert not re.search("secret|safe|Ann|hall|tea|green|stove|oven", text)
    assert all(len(line) <= 80 for line in shown[0].splitlines())


def test_prometheus_reads_the_file(home: Path) -> None:
    """The file follows the published grammar, carries the figures in base units, and others may read it."""
    file = home.parent / "edgemem.prom"
    file.write_text("old")
    result = run("stats", "--home", home, "--prometheus", file)
    assert (result.exit_code, result.stdout) == (0, "")
    found = parse(file.read_text())
    assert found["edgemem_counts", "facts"] == 2
    assert found["edgemem_last_turn", "block_tokens"] >= 0
    with edgemem.open(home, worker=False) as memory:
        turn = memory.diagnostics.figures.read()
    assert turn is not None
    assert found["edgemem_last_turn", "hooks_ms"] == pytest.approx(turn.hooks_ms)
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert [path.name for path in home.parent.iterdir() if path.is_file()] == ["edgemem.prom"]


def test_labels_are_escaped() -> None:
    """Quotes, backslashes and line breaks of a label are escaped."""
    text = render({"failures": {'a"b\\c\n': 2}}, home="x")
    assert text.splitlines()[1] == r'edgemem_failures{home="x",kind="a\"b\\c\n"} 2'


@pytest.mark.parametrize(("name", "says"), [("x.txt", "end in .prom"), ("no/x.prom", "no folder")])
def test_a_file_that_cannot_be_read_or_written_is_one_sentence(home: Path, name: str, says: str) -> None:
    """node_exporter would pass over a file of another name in silence, so it is refused."""
    assert says in refused(run("stats", "--home", home, "--prometheus", home / name))
    refusal(InvalidInputError, write_textfile, home / name, "", match=says)
