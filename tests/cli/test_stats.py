"""`edgemem stats`: right counts, quick in a large home, and a file that Prometheus can read."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest
from conftest import HandClock
from hypothesis import given
from hypothesis import strategies as st

import edgemem
from edgemem.cli.stats import render, write_textfile
from edgemem.errors import InvalidInputError
from edgemem.loop.loop import AgentLoop
from edgemem.session.registry import HookFailure
from support.cli import run
from support.models import Listener

DAY = 86400.0

Sample = tuple[str, tuple[tuple[str, str], ...]]


_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\n"])*)"')
_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?[ \t]+(\S+)(?:[ \t]+(-?\d+))?")
_UNESCAPED = {"\\\\": "\\", "\\n": "\n", '\\"': '"'}


def parse(text: str) -> dict[Sample, float]:
    """Read the text format as its published grammar has it; whatever breaks a rule of it fails."""
    assert text.endswith("\n")
    read: dict[Sample, float] = {}
    heads: dict[str, list[str]] = {}
    names: list[str] = []
    for line in text.splitlines():
        if line.startswith("#"):
            kind, name, rest = line[1:].strip().split(" ", 2)
            assert re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]*", name)
            assert (
                rest in ("counter", "gauge") if kind == "TYPE" else "\\" not in re.sub(r"\\[\\n]", "", rest)
            )
            heads.setdefault(name, []).append(kind)
        else:
            match = _SAMPLE.fullmatch(line)
            assert match, line
            name, labels, value, _stamp = match.groups()
            assert re.fullmatch(f"(?:{_LABEL.pattern},?)*", labels or ""), labels
            pairs = _LABEL.findall(labels or "")
            named = [(key, re.sub(r'\\[\\n"]', lambda m: _UNESCAPED[m[0]], value)) for key, value in pairs]
            key = (name, tuple(sorted(named)))
            assert key not in read, "each sample is unique"
            assert sorted(heads[name]) == ["HELP", "TYPE"], "one of each, before its first sample"
            read[key] = float(value)
        names += [name] if names[-1:] != [name] else []
    assert len(names) == len(set(names)), "the lines of one metric stand together"
    return read


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home with some of everything, and one turn that was talked."""
    path = tmp_path / "home"
    path.mkdir()
    (path / "edgemem.toml").write_text(
        '[llama]\nembedder = ""\n', encoding="utf-8"
    )  # a model would only take time
    with edgemem.open(path, worker=False) as memory:
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
        found = memory.diagnostics.stats()
    singles = dict.fromkeys(("preferences", "episodes", "sessions", "turns", "epochs"), 1)
    none = dict.fromkeys(("procedures", "goals", "bank_files"), 0)
    assert found.counts == {"facts": 2, "fact_versions": 3, "messages": 2, "notes": 2, **singles, **none}
    assert found.disk_bytes["truth"] > 10_000
    assert found.disk_bytes["notes"] == (home / "NOTES.md").stat().st_size
    assert found.last_turn is not None
    assert found.last_turn.hops == 1


def test_growth_and_lag_follow_the_clock(tmp_path: Path, hand: HandClock) -> None:
    """Growth is that of the last week, at least over a day; lag is the age of the oldest row that waits."""
    with edgemem.open(tmp_path, clock=hand.clock, worker=False) as memory:
        assert memory.diagnostics.stats().lag_s == 0.0
        for _ in range(4):
            memory.store.add_fact(f"key.{hand.wall:.0f}", "x")
            hand.advance(60.0)
        young = memory.diagnostics.stats()
        assert young.lag_s == pytest.approx(240.0, abs=1.0)
        assert young.waiting["text"] == 8  # each key begins with the nothing before it
        assert young.per_day["fact_rows"] == 8.0
        memory.idle(10.0)
        assert memory.diagnostics.stats().lag_s == 0.0
        hand.advance(30 * DAY)
        memory.store.add_fact("key.late", "x")
        old = memory.diagnostics.stats()
        assert old.per_day["fact_rows"] == pytest.approx(2 / 7, abs=0.01)
        assert 0 < old.per_day["bytes"] < young.per_day["bytes"]


def test_no_word_of_what_is_remembered_is_shown(home: Path) -> None:
    """Neither the table nor JSON nor the Prometheus file holds what was said, by whom, or under which key."""
    with edgemem.open(home, worker=False) as memory:
        memory.diagnostics.failures.note(
            HookFailure("MyHook", "before_llm", 1, "ValueError: my secret is safe")
        )
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
    assert result.exit_code == 0
    assert result.stdout == ""
    found = parse(file.read_text())
    assert found["edgemem_records", (("home", str(home)), ("kind", "facts"))] == 2
    assert found["edgemem_last_turn_tokens", (("home", str(home)), ("kind", "block"))] >= 0
    with edgemem.open(home, worker=False) as memory:
        turn = memory.diagnostics.figures.read()
    assert turn is not None
    assert found["edgemem_last_turn_seconds", (("home", str(home)), ("stage", "hooks"))] == pytest.approx(
        turn.hooks_ms / 1e3
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert [path.name for path in home.parent.iterdir() if path.is_file()] == ["edgemem.prom"]


@given(
    names=st.lists(st.text(max_size=20), min_size=1, max_size=5, unique=True),
    told=st.text(max_size=40).map(
        lambda text: " ".join(re.sub(r"[\r\x0b-\x1f\x85\u2028\u2029]", "", text).split(" "))
    ),
    value=st.floats(allow_nan=False, allow_infinity=False, width=32),
)
def test_any_label_and_help_survive(names: list[str], told: str, value: float) -> None:
    """Quotes, backslashes and line breaks are escaped: what is read is what was meant."""
    clean = [re.sub(r"[\r\x0b-\x1f\x85\u2028\u2029]", "", name) for name in names]
    samples = [({"hook": name}, value) for name in dict.fromkeys(clean)]
    found = parse(render([("edgemem_x", "gauge", f"x{told}", samples)]))
    assert {labels[0][1] for _, labels in found} == set(clean)
    assert all(read == pytest.approx(value) for read in found.values())


@pytest.mark.parametrize(("name", "says"), [("x.txt", "end in .prom"), ("no/x.prom", "no folder")])
def test_a_file_that_cannot_be_read_or_written_is_one_sentence(home: Path, name: str, says: str) -> None:
    """node_exporter would pass over a file of another name in silence, so it is refused."""
    result = run("stats", "--home", home, "--prometheus", home / name)
    assert result.exit_code == 1
    assert says in result.stderr
    assert result.stderr.count("\n") == 1
    with pytest.raises(InvalidInputError, match=says):
        write_textfile(home / name, "")
