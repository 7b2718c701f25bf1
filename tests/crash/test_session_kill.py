"""kill -9 in the middle of a conversation: what was acknowledged is there, row for row."""

from __future__ import annotations

import inspect
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from edgemem.records import StoredMessage, Turn
from edgemem.store.database import Database
from edgemem.store.turns import mark_unfinished, read_turns

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


# A robot that talks until it is killed: it accepts and commits turns, and prints each that was acknowledged.
TALKER = f"""
import sys
from edgemem.records import StoredMessage, Turn
from edgemem.store.database import Database
from edgemem.store.journal import TurnJournal
from edgemem.store.turns import mark_unfinished, next_turn

{inspect.getsource(turn_of)}

with Database(sys.argv[1]) as database:
    database.write(mark_unfinished)
    journal = TurnJournal(database)
    n = next_turn(database, "kitchen")
    while True:
        whole = turn_of(n)
        begun = journal.accept(Turn("kitchen", n, whole.messages[:2], "open", whole.block, whole.shown))
        journal.commit(whole, accepted=begun).result()
        print(n, flush=True)
        n += 1
"""


def said_in(turn: Turn) -> tuple[StoredMessage, ...]:
    """Return a turn's messages without the ids that the file gave them."""
    return tuple(StoredMessage(m.role, m.content, m.extra, m.tokens, m.unheard) for m in turn.messages)


def test_acknowledged_turns_survive_kill_9(tmp_path: Path) -> None:
    """Killed at random moments again and again, the file keeps every acknowledged turn and one open one at most."""
    path = tmp_path / "memory.db"
    chance = random.Random(7)
    acknowledged = -1
    for _ in range(ROUNDS):
        process = subprocess.Popen(
            [sys.executable, "-c", TALKER, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        acknowledged = max(acknowledged, int(process.stdout.readline()))
        time.sleep(chance.uniform(0.0, 0.15))
        process.send_signal(signal.SIGKILL)
        said = process.stdout.read()
        process.stdout.close()
        assert process.wait() == -signal.SIGKILL
        # The last line may have been cut off by the kill.
        numbers = [int(line) for line in said.splitlines(keepends=True) if line.endswith("\n")]
        acknowledged = max([acknowledged, *numbers])
        with Database(path) as database:
            assert database.quick_check() == []
            turns = read_turns(database, "kitchen")
            assert [turn.n for turn in turns] == list(range(len(turns)))
            assert len(turns) - 1 in (acknowledged, acknowledged + 1)
            still_open = [turn for turn in turns if turn.state == "open"]
            assert still_open in ([], turns[-1:])
            assert database.write(mark_unfinished) == len(still_open)
            for turn in turns:
                whole = turn_of(turn.n)
                if turn.state == "complete":
                    assert said_in(turn) == whole.messages
                    assert (turn.block, turn.shown) == (whole.block, whole.shown)
                else:
                    assert said_in(turn) == whole.messages[:2]
                    assert turn.n not in numbers
            # A turn that was cut off is history: the next process goes on behind it.
            acknowledged = len(turns) - 1
            orphans = "select count(*) from messages where turn not in (select n from turns)"
            assert database.query(orphans) == [(0,)]
    assert acknowledged > ROUNDS
