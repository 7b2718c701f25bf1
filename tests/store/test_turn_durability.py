"""Accepted and durable: when a turn is kept, how it is taken back, and loops that share a home."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import edgemem
from edgemem.memory import Memory
from support.homes import home_with, told, turns_of
from support.loops import loop_of, python, robot


@pytest.fixture
def hurried(tmp_path: Path) -> Iterator[Memory]:
    with edgemem.open(home_with(tmp_path / "hurried", wait=0), worker=False) as opened:
        yield opened


class SlowDisk:
    """Lets every write of a memory wait."""

    def __init__(self, memory: Memory) -> None:
        self._written = threading.Event()
        self._future = memory.diagnostics.database.submit(lambda tx: self._written.wait(60))

    def goes_on(self) -> None:
        self._written.set()
        assert self._future.result()


WHOLE = [("user", "a timer"), ("assistant", "One moment."), ("tool", "set"), ("assistant", "You said: set")]


def test_closing_writes_what_the_disk_owes(hurried: Memory) -> None:
    """A memory that is closed while writes wait loses none of them, a barge-in included."""
    disk = SlowDisk(hurried)
    loop = loop_of(hurried)
    loop.run("a timer")
    loop.interrupt("You said")
    threading.Timer(0.1, disk.goes_on).start()
    hurried.close()
    with edgemem.open(hurried.home, worker=False) as again:
        (turn,) = turns_of(again)
        assert turn.state == "interrupted"
        assert told(turn) == [*WHOLE[:3], ("assistant", "You said")]
        assert turn.messages[-1].unheard == ": set"


def test_a_write_that_fails_is_told(hurried: Memory) -> None:
    """A commit that fails behind the talk is counted as a failure of its hook, and the talk goes on."""
    loop = loop_of(hurried)
    loop.run("one")
    hurried.diagnostics.database.flush()
    stuck = "create trigger stuck before insert on turns begin select raise(abort, 'worn out'); end"
    hurried.diagnostics.database.write(lambda tx: tx.execute(stuck))
    for text in ("two", "three"):
        assert loop.run(text).reply == f"You said: {text}"
    hurried.diagnostics.database.write(lambda tx: tx.execute("drop trigger stuck"))
    assert loop.run("four").reply == "You said: four"
    hurried.diagnostics.database.flush()
    assert [told(turn)[0][1] for turn in turns_of(hurried)] == ["one", "four"]
    assert {(f.hook, "worn out" in f.message) for f in loop.hooks.failures()} == {("session", True)}


def test_two_processes_in_one_session_lose_nothing(tmp_path: Path) -> None:
    """Where both want a number one gets the next; every turn is there once, with its own barge-in."""
    home = home_with(tmp_path / "home", wait=60)
    talk = robot(
        """
        loop = loop_of(memory)
        loop.run(f"{sys.argv[2]} begins")
        for n in range(30):
            if n % 5 == 0:
                print("ready", flush=True)
                sys.stdin.readline()
            loop.run(f"{sys.argv[2]} {n}" + (" timer" if n % 2 else ""))
            if n % 5 == 0:
                loop.interrupt("You said")
        print(loop.hooks.failures())
        """
    )
    talks = [python(talk, home, name) for name in ("anna", "bert")]
    for _ in range(6):  # neither is done before the other begins, however the processor is shared
        for talk_ in talks:
            assert talk_.stdout.readline() == "ready\n"
        for talk_ in talks:
            talk_.stdin.write("go\n")
            talk_.stdin.flush()
    assert [talk_.communicate(timeout=60)[0] for talk_ in talks] == ["[]\n"] * 2
    with edgemem.open(home, worker=False) as memory:
        assert memory.diagnostics.database.quick_check() == []
        turns = turns_of(memory)
        assert len(turns) == 62
        assert all(a.n < b.n for a, b in itertools.pairwise(turns))
        assert all(a.messages[-1].id < b.messages[0].id for a, b in itertools.pairwise(turns))
        for name in ("anna", "bert"):
            mine = [turn for turn in turns if str(turn.messages[0].content).startswith(name)]
            said = [f"{name} {n}" + (" timer" if n % 2 else "") for n in range(30)]
            assert [turn.messages[0].content for turn in mine] == [f"{name} begins", *said]
            for n, turn in enumerate(mine[1:]):
                assert len(turn.messages) == (4 if n % 2 else 2)
                reply = turn.messages[-1]
                if n % 5:
                    assert (turn.state, reply.unheard) == ("complete", None)
                else:
                    assert (turn.state, reply.content) == ("interrupted", "You said")
                    assert reply.unheard == (": set" if n % 2 else f": {name} {n}")
        names = [str(turn.messages[0].content)[:4] for turn in turns]
        assert sum(a != b for a, b in itertools.pairwise(names)) > 4, "they did not talk at the same time"
        assert memory.diagnostics.database.query("select count(*) from messages") == [(2 * 62 + 2 * 30,)]
