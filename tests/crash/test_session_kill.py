"""kill -9 in the middle of a conversation: what was acknowledged is there, row for row."""

from __future__ import annotations

import inspect
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from edgemem.records import StoredMessage, Turn
from edgemem.store.db.database import Database
from edgemem.store.journal import TurnJournal
from edgemem.store.spool import look_into, spool_paths

ROUNDS = 8


def turn_of(n: int) -> Turn:
    """Return turn `n`, the same in every process."""
    said = (
        StoredMessage("user", f"question {n} " + "x" * (n % 700)),
        StoredMessage("assistant", None, {"tool_calls": [{"id": str(n)}]}, tuple(range(n % 50))),
        StoredMessage("tool", f"result {n}", {"tool_call_id": str(n)}),
        StoredMessage("assistant", f"answer {n} ✓", tokens=(n,)),
    )
    return Turn("kitchen", n, said, block=f"<memory>\n- fact {n}\n</memory>\n", shown=(f"fact:{n}",))


# A robot that talks until it is killed: it accepts and commits turns, and prints what was acknowledged.
TALKER = f"""
import sys, time
from edgemem.records import StoredMessage, Turn
from edgemem.store.db.database import Database
from edgemem.store.journal import TurnJournal
from edgemem.store.turns import last_number

{inspect.getsource(turn_of)}

with Database(sys.argv[1]) as database:
    journal = TurnJournal(database)
    journal.mark_unfinished("kitchen")
    n = last_number(database, "kitchen") + 1
    while True:
        whole = turn_of(n)
        begun = journal.accept(Turn("kitchen", n, whole.messages[:2], "open", whole.block, whole.shown))
        begun.result()
        print("accepted", n, flush=True)
        time.sleep((n % 3 + 1) * 0.02)
        journal.commit(whole, accepted=begun).result()
        print("committed", n, flush=True)
        n += 1
"""


def said_in(turn: Turn) -> tuple[StoredMessage, ...]:
    """Return a turn's messages without the ids that the file gave them."""
    return tuple(StoredMessage(m.role, m.content, m.extra, m.tokens, m.unheard) for m in turn.messages)


def test_acknowledged_turns_survive_kill_9(tmp_path: Path) -> None:
    """Killed at random moments again and again, the file keeps every acknowledged turn once, and one open one at most."""
    path = tmp_path / "memory.db"
    chance = random.Random(7)
    unfinished: set[int] = set()
    committed: set[int] = set()
    for round_ in range(ROUNDS):
        process = subprocess.Popen(
            [sys.executable, "-c", TALKER, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        # A few turns at least, however slow the disk is.
        said = "".join(process.stdout.readline() for _ in range(chance.randint(4, 9)))
        if round_ % 2:
            # Every other time the kill comes between accept and commit.
            while not re.search(r"accepted \d+\n$", said):
                said += process.stdout.readline()
        else:
            time.sleep(chance.uniform(0.0, 0.15))
        process.send_signal(signal.SIGKILL)
        said += process.stdout.read()
        process.stdout.close()
        assert process.wait() == -signal.SIGKILL
        # The last line may have been cut off by the kill.
        told = [line.split() for line in said.splitlines(keepends=True) if line.endswith("\n")]
        accepted = {int(n) for kind, n in told if kind == "accepted"}
        committed |= {int(n) for kind, n in told if kind == "committed"}
        with Database(path) as database:
            assert database.quick_check() == []
            journal = TurnJournal(database)
            assert not any(look_into(spool)[0] for spool in spool_paths(path))
            turns = journal.read_turns("kitchen")
            assert [turn.n for turn in turns] == list(range(len(turns)))
            states = {turn.n: turn.state for turn in turns}
            assert accepted | committed <= states.keys()
            assert {states[n] for n in committed} <= {"complete"}
            assert "open" not in [turn.state for turn in turns[:-1]]
            unfinished |= {n for n, state in states.items() if state == "open"}
            assert {n for n, state in states.items() if state != "complete"} == unfinished
            for turn in turns:
                whole = turn_of(turn.n)
                messages = whole.messages[:2] if turn.n in unfinished else whole.messages
                assert said_in(turn) == messages
                assert (turn.block, turn.shown) == (whole.block, whole.shown)
            orphans = "select count(*) from messages where turn not in (select n from turns)"
            assert database.query(orphans) == [(0,)]
            journal.close()
    assert len(committed) > ROUNDS
    assert unfinished, "no kill came between accept and commit"
