"""Ageing that is cut off: at any moment nothing is half there and nothing pinned is gone; in the end no byte is left."""

import random
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from edgemem.clock import Clock
from edgemem.memory import Memory
from edgemem.records import Episode, Heard, StoredMessage, Turn
from edgemem.store.db.transaction import Transaction
from edgemem.store.edges import put_edge
from edgemem.store.episodes import append_episode
from edgemem.store.thoughts import put_mark, put_thought
from edgemem.store.turns import commit_turn
from edgemem.thoughts import utc
from support.homes import files_with, opened
from support.kills import kill_after, select, start
from support.selection import LONG
from support.thoughts import an_edge, thought

WORD, KEPT = "quixotry", "keepsake"
PROFILE = "[retention]\nmax_days = 10\ncollect_days = 10\n"
LATER_S = 20 * 86400.0
COLLECT = """
import sys
from pathlib import Path
from test_gc_kill import open_later

with open_later(Path(sys.argv[1])) as memory:
    plan = memory.retention.plan()
    print(len(plan), flush=True)
    memory.retention.erase(plan)
    print("done", flush=True)
"""
HALVES = {
    "turns without all of their messages": """
      select count(*) from turns t where 2 <> (select count(*) from messages m where m.id between t.first_message
        and t.last_message and m.session_id = t.session_id and m.turn = t.n)""",
    "messages without a turn": """
      select count(*) from messages m where not exists (select 1 from turns t where t.session_id = m.session_id and t.n = m.turn)""",
    "edges without an end": """
      with ends as (select name as id from stored_thoughts union all select 'turn:' || id from messages)
      select count(*) from stored_edges where source_id not in ends or target_id not in ends""",
    "marks of nothing": "select count(*) from marks where substr(subject, 6) not in (select id from messages)",
}
LEFT = "select (select count(*) from messages) + (select count(*) from stored_thoughts) + (select count(*) from episodes)"


def open_later(home: Path) -> Memory:
    """Open a home some weeks after it was filled."""
    return opened(home, PROFILE, clock=Clock(wall=lambda: time.time() + LATER_S))


def fill(tx: Transaction, begin: int) -> None:
    """Store 100 things that will all be old: 50 turns, 25 thoughts with edges, 25 episodes; pin a turn and a thought of them."""
    archived = utc(tx.now(), "archived_at")
    for n in range(begin // 2, begin // 2 + 50):
        word = WORD if n % 50 else KEPT
        said = StoredMessage("user", f"{word} {n}"), StoredMessage("assistant", f"I heard {word} {n}.")
        commit_turn(tx, Turn(f"s{n // 250}", n, said, heard=Heard(speaker="Zebedee")))
        message = tx.query("select max(id) from messages")[0][0]
        if word == KEPT:
            put_mark(tx, f"turn:{message}", pinned=True)
        if n % 2:
            append_episode(tx, Episode("game", {WORD: n}, "ok", heard=Heard(speaker="Zebedee")), keep=0)
        elif word == KEPT:
            put_thought(tx, thought(f"t{n}", content=f"{KEPT} {n}", pinned=True))
        else:
            old = {"lifecycle_status": "ARCHIVED", "archived_at": archived}
            put_thought(tx, thought(f"t{n}", content=f"{WORD} {n}", **old))
            put_edge(tx, an_edge(f"e{n}", f"t{n}", f"t{n - 2}"))
            put_edge(tx, an_edge(f"m{n}", f"t{n}", f"turn:{message}"))


@pytest.mark.long
def test_kills_inside_ageing_leave_nothing_half(tmp_path: Path) -> None:
    """Killed at any moment, whole records are there or gone, and all that is pinned; finished later, no byte is left."""
    dice, (kills, things) = random.Random(31), (50, 100_000) if LONG else (5, 2_000)
    home = tmp_path / "home"
    with opened(home, PROFILE) as memory:
        for begin in range(0, things, 100):
            memory.diagnostics.database.write(partial(fill, begin=begin))
        assert memory.idle(600)
        memory.diagnostics.backups.make()
    pinned = f"select (select count(*) from messages where content like '%{KEPT}%'), count(*) from stored_thoughts where pinned"
    kept = select(home, pinned)
    assert kept == [(things // 50, things // 100)]
    left = [select(home, LEFT)[0][0]]
    for _ in range(kills):
        kill_after(start(COLLECT, home), 1, pause_s=dice.uniform(0, 5e-4 * things / kills))
        assert {what: select(home, sql) for what, sql in HALVES.items()} == {what: [(0,)] for what in HALVES}
        assert select(home, pinned) == kept
        left.append(select(home, LEFT)[0][0])
    with open_later(home) as memory:
        memory.retention.erase(memory.retention.plan())
        assert memory.idle(600)
        assert files_with(home, WORD) == [] == memory.retention.plan()
        assert memory.diagnostics.database.quick_check() == []
        assert len(memory.recall(KEPT, k=3)) == 3
    assert select(home, pinned) == kept
    assert left[0] > left[-1]
    sys.stdout.write(f"{things:,} things, {kills} kills, {len(set(left)) - 1} of them within; left {left}\n")
