"""kill -9 while turns are accepted, replaced, committed, amended and discarded, on a disk that is full or held at random."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from edgemem.records import Turn
from edgemem.store.journal import TurnJournal
from edgemem.store.kinds import open_truth
from edgemem.store.spool import read_foreign_spool, spool_paths
from support.selection import cases

ROOT = Path(__file__).parents[2]
LIVES = 12
"""Kills that one database survives before the next begins."""


TURNS = 10_000
"""More than a robot comes to before it is killed."""


class Told(NamedTuple):
    """What a robot told of one turn."""

    session: str
    states: list[str]
    """Those that a kill may leave it in."""


def read_told(lines: list[str], told: dict[int, Told], order: list[int]) -> None:
    """Take in what a robot printed: after `ok`, only the newest state of each turn is possible."""
    pending: set[int] = set()
    for line in lines:
        if line == "ok":
            for n in pending:
                del told[n].states[:-1]
            pending.clear()
        elif line.startswith("do"):
            _, number, state, session = line.split()
            told.setdefault(int(number), Told(session, ["gone"])).states.append(state)
            pending.add(int(number))
            if state == "complete":
                order.append(int(number))


def number_of(turn: Turn) -> int:
    return int(str(turn.messages[0].content).split()[1])


def check(turns: list[Turn], told: dict[int, Told], order: list[int], session: str) -> None:
    """Check one session: nothing that was acknowledged is lost, nothing is there twice, out of order, or behind a gap."""
    numbers = [number_of(turn) for turn in turns]
    assert len(numbers) == len(set(numbers)), numbers
    states = {number_of(turn): turn.state.replace("unfinished", "open") for turn in turns}
    expected = {n: each.states for n, each in told.items() if each.session == session}
    wrong = {n: (states.get(n, "gone"), of) for n, of in expected.items() if states.get(n, "gone") not in of}
    assert not wrong, wrong
    assert set(numbers) <= set(expected)
    ended = [n for n in numbers if states[n] != "open"]
    assert ended == [n for n in order if n in set(ended)], "out of order"
    for turn in turns:
        reply = str(turn.messages[-1].content)
        if states[number_of(turn)] == "complete":
            assert reply.startswith(f"answer {number_of(turn)} ")
        elif states[number_of(turn)] == "interrupted":
            assert reply == "answer"
            assert str(turn.messages[-1].unheard).startswith(f" {number_of(turn)} ")


def hold(path: Path, chance: random.Random, done: threading.Event) -> None:
    """Hold the database at random moments, as another program does."""
    while not done.wait(chance.uniform(0.0, 0.1)):
        with closing(sqlite3.connect(path, isolation_level=None, timeout=0.0)) as other:
            try:
                other.execute("begin immediate")
            except sqlite3.OperationalError:
                continue
            done.wait(chance.uniform(0.0, 0.15))
            other.execute("rollback")


@pytest.mark.long
def test_no_kill_loses_repeats_or_reorders_a_turn(tmp_path: Path) -> None:
    """Whatever the disk does: what was acknowledged is there once and in order, and the kept ones leave no gap."""
    told: dict[int, Told] = {}
    order: list[int] = []
    waited = 0
    for kill in range(cases(240)):
        chance = random.Random(kill)
        if kill % LIVES == 0:
            path = tmp_path / f"{kill}" / "x.db"
            open_truth(path).close()
            told, order = {}, []
        robot = subprocess.Popen(
            [sys.executable, *map(str, (Path(__file__).parent / "spool_robot.py", path, kill, kill * TURNS))],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        lines = [robot.stdout.readline()]
        done = threading.Event()
        holder = threading.Thread(target=hold, args=(path, chance, done))
        if kill % 3:
            holder.start()
        time.sleep(chance.uniform(0.0, 0.5))
        robot.send_signal(signal.SIGKILL)
        lines += robot.stdout.read().splitlines(keepends=True)
        robot.stdout.close()
        assert robot.wait() == -signal.SIGKILL
        done.set()
        if kill % 3:
            holder.join()
        texts = (text for spool in spool_paths(path) for text in read_foreign_spool(spool)[0])
        waited += any(b'"commit"' in text for text in texts)
        # The kill may have cut the last line off.
        read_told([line.strip() for line in lines if line.endswith("\n")], told, order)
        for _ in range(2):
            with open_truth(path) as database:
                assert database.quick_check() == []
                journal = TurnJournal(database)
                kept = set()
                for session in ("kitchen", "hall"):
                    turns = journal.read_turns(session)
                    check(turns, told, order, session)
                    kept |= {number_of(turn) for turn in turns}
                newest = [n in kept for n in order if n > kill * TURNS]
                assert newest == sorted(newest, reverse=True), "a gap"
                assert not any(read_foreign_spool(spool)[0] for spool in spool_paths(path))
                journal.close()
    assert waited > cases(240) // 20, "turns hardly ever waited when the kill came"
