"""Learning, killed with -9, beside another process, or while a person is forgotten: what is learnt is as if nothing had happened."""

import os
import random
import re
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import edgemem
from edgemem.config import BackupSettings, LearnSettings, LlamaSettings, Profile, TimeSettings
from edgemem.memory.users import Episode
from edgemem.records import Heard
from edgemem.thoughts import EdgeType
from lab.judge import SetClock
from support.homes import files_with, tell
from support.kills import start
from support.selection import LONG

KILLS = 300 if LONG else 12
DAYS = 24
UNTOLD = ("embedder", "backups", "erasing")  # there are none; it goes on in idle time
PROFILE = Profile(
    backup=BackupSettings(every_h=0.0),
    llama=LlamaSettings(embedder=""),
    time=TimeSettings(zone="UTC"),
    learn=LearnSettings(("chains", "routines", "regularities")),
)
FIRST = datetime.fromisoformat("2026-03-02T00:00:00+00:00")
ROOMS, WORD = ("in the cellar", "behind the shed", "in the hall", "on the roof", "by the door"), "quagga"
THINGS = (
    "ladder", "tent", "drill", "rake", "kite", "sledge", "barrow", "bucket", "lantern", "stove", "trunk", "basket", "crate",
)  # fmt: skip
PRIVATE = {"level": "private", "owner": "bob"}


def opened(home: Path, day: int) -> edgemem.Memory:
    clock = SetClock()
    clock.at = (FIRST + timedelta(days=day, hours=23)).timestamp()
    return edgemem.open(home, profile=PROFILE, clock=clock, worker=False, watch=False)


def live(home: Path, day: int) -> None:
    """Store what a day brings: a thing in another place, what somebody says each evening, talk, an episode, and a visit next week."""
    begin = FIRST + timedelta(days=day)
    said = [(f"it is {word} today", "alice", {}) for word in ("raining", "windy", "cold", "sunny")]
    said += [("lights off please", "bob", {}), ("feed the cat", "bob", PRIVATE)]
    if day % 3 == 0:
        thing = THINGS[day // 24]  # what is said of one too often is no chain
        said += [(f"the {thing} is {ROOMS[day % 5]}", "alice", {})]
        said += [(f"my {thing} is {ROOMS[day % 4]} of {WORD}", "bob", PRIVATE)]
    with opened(home, day) as memory:
        for n, (text, speaker, more) in enumerate(said):
            minute = 1320 if speaker == "bob" and "is" not in text else (day * 331 + n * 97) % 1200
            at = (begin + timedelta(minutes=minute)).timestamp()
            tell(memory, text, f"{day} {len(more)}", n, speaker=speaker, at=at, **more)
        outcome = ("success", "failure")[day % 2]
        memory.episodes.store(
            Episode(id=f"e{day}", summary="Swept", tools_used=("broom",), outcome=outcome, tags=("cleaning",))
        )
        visit = {"at": f"{begin + timedelta(days=7):%Y-%m-%d}"}
        memory.store.add_fact(f"visit.{day}", "a plumber", heard=Heard(speaker="alice"), metadata=visit)


def learn(home: Path, day: int, pipe: int) -> None:
    """Learn step by step, as idle time does; write a byte into a pipe after each step, and what is due."""
    with opened(home, day) as memory:
        memory.on_due(lambda coming: os.write(pipe, f"({coming.text})".encode()))
        while memory.learning.step(lambda: False):
            os.write(pipe, b".")
        memory.idle(60)


def learnt(home: Path, day: int) -> list[tuple[str, ...]]:
    """Return what was learnt, each with the numbers of the messages and episodes that it rests on, and what is still to come."""
    with opened(home, day) as memory:
        faults = [row for row in memory.check() if row.state != "ok" and row.name not in UNTOLD]
        assert not faults, faults
        ends: dict[str, list[str]] = {thought.thought_id: [] for thought in memory.learning.log(limit=1000)}
        for kind, table in (("turn", "messages"), ("episode", "episodes")):
            rows = memory.diagnostics.database.query(f"select id from {table} order by id")
            for n, (number,) in enumerate(rows):
                edges = memory.thoughts.get_edges(f"{kind}:{number}", direction="IN")
                for edge in (edge for edge in edges if edge.edge_type is EdgeType.CONSOLIDATED_FROM):
                    ends.setdefault(edge.from_thought_id, []).append(f"{kind} {n}")
        texts = {one: memory.thoughts.get_thought(one).content for one in ends}
        coming = [("coming", one.text) for one in memory.upcoming()]
        return sorted([*coming, *((texts[one], *of) for one, of in ends.items())])


def begin(work: Callable[..., object], *arguments: object) -> int:
    """Fork a process that does something and ends; return its id."""
    if child := os.fork():
        return child
    status = 1
    try:
        work(*arguments)
        status = 0
    except Exception:  # noqa: BLE001 - it is shown
        traceback.print_exc(file=sys.stdout)
    finally:
        sys.stdout.flush()
        os._exit(status)


def end(child: int) -> None:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def begin_to_learn(home: Path, day: int) -> tuple[int, int]:
    """Learn in a process of its own; return its id, and where to read a byte of each step."""
    begun, pipe = os.pipe()
    child = begin(learn, home, day, pipe)
    os.close(pipe)
    return child, begun


def read(begun: int, steps: int) -> str:
    return b"".join(os.read(begun, 1) for _ in range(steps)).decode()


def read_rest(begun: int) -> str:
    with os.fdopen(begun) as rest:
        return rest.read()


def learn_all(home: Path, day: int, processes: int = 1) -> str:
    """Have some processes learn at once until nothing is left; return what they wrote."""
    begun = [begin_to_learn(home, day) for _ in range(processes)]
    told = [read_rest(pipe) for _, pipe in begun]
    for child, _ in begun:
        end(child)
    return "".join(told)


def kill(home: Path, kills: int) -> None:
    """Let a home live a day and learn until it dies, again and again, and at last learn all; print what was due."""
    chance, due = random.Random(7), ""
    for day in range(kills):
        end(begin(live, home, day))
        child, begun = begin_to_learn(home, day)
        due += read(begun, chance.randrange(12 + day // 4))  # 0: it dies while it begins
        time.sleep(chance.uniform(0, 0.02))
        os.kill(child, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) in (0, -signal.SIGKILL)
        due += read_rest(begun)
        end(begin(learnt, home, day))
    sys.stdout.write(due + learn_all(home, kills))


def forget(home: Path, day: int, steps: int) -> None:
    """Forget a person while another process learns, after so many steps."""
    child, begun = begin_to_learn(home, day)
    read(begun, steps)
    with opened(home, day) as memory:
        memory.forget(person="bob")
    read_rest(begun)
    end(child)
    learn_all(home, day)


def run(call: str, *arguments: object) -> str:
    """Do something in a process of its own, which may fork; return what it printed."""
    given = ", ".join(map(repr, arguments))
    process = start(
        f"import test_learner_kill as robot\nfrom pathlib import PosixPath\nrobot.{call}({given})"
    )
    told, _ = process.communicate(timeout=3600)
    assert process.returncode == 0, told
    return told


@pytest.fixture(scope="module")
def lived(tmp_path_factory) -> Path:
    """Return a home that has lived and not learnt."""
    home = tmp_path_factory.mktemp("lived") / "home"
    for day in range(DAYS):
        live(home, day)
    return home


@pytest.fixture
def home(tmp_path, lived: Path) -> Path:
    return shutil.copytree(lived, tmp_path / "home")


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_killed_learner_learns_the_same_once(tmp_path) -> None:
    """Whenever it dies, the home opens and has no fault; in the end all is learnt as if it had not died, and nothing was due twice."""
    home, whole = tmp_path / "home", tmp_path / "whole"
    due = re.findall(r"\((.+?)\)", run("kill", home, KILLS))
    for day in range(KILLS):
        live(whole, day)
    run("learn_all", whole, KILLS)
    found = learnt(home, KILLS)
    assert found == learnt(whole, KILLS)
    for kind in ("ladder: ", "bob says ", "frequently used", "succeed", "plumber", WORD):
        assert any(kind in row[0] + row[1] for row in found), kind
    assert len(due) == len(set(due)) > 0


def test_two_processes_that_learn_at_once_learn_each_thing_once(home, lived, tmp_path) -> None:
    """Together the same as one alone."""
    alone = shutil.copytree(lived, tmp_path / "alone")
    run("learn_all", home, DAYS, 2)
    run("learn_all", alone, DAYS)
    assert learnt(home, DAYS) == learnt(alone, DAYS) != []


@pytest.mark.parametrize("steps", range(0, 32, 1 if LONG else 4))
def test_a_person_forgotten_while_a_step_runs_is_in_nothing_learnt(home, steps: int) -> None:
    """And no file of the home has a byte of what they alone said."""
    run("forget", home, DAYS, steps)
    with opened(home, DAYS) as memory:
        assert memory.idle(60), memory.diagnostics.eraser.pending()
    assert not [row for row in learnt(home, DAYS) if "bob" in row[0] or WORD in row[0]]
    assert files_with(home, WORD) == []
