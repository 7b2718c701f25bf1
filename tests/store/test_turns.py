"""Turns and epochs: one transaction a turn, read by whom they are meant for."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from edgemem.errors import InvalidInputError
from edgemem.records import Epoch, Reader, Session, StoredMessage, Turn, TurnState
from edgemem.scopes import Level
from edgemem.store import turns
from edgemem.store.db.database import Database
from edgemem.store.db.transaction import Transaction
from edgemem.store.sessions import SQLiteSessionStore


def turn(n: int, *, reply: str = "Hello.", state: TurnState = "complete", **more: Any) -> Turn:
    answer = StoredMessage("assistant", reply, tokens=(1, 2, 2**31 - 1))
    said = (StoredMessage("user", f"utterance {n}"), answer)
    return Turn("kitchen", n, said, state, **more)


def test_a_turn_is_written_once(truth: Database) -> None:
    """A number that is taken, an empty turn and bad token ids are refused, and nothing is lost."""
    truth.write(lambda tx: turns.commit_turn(tx, turn(0)))
    truth.write(lambda tx: turns.commit_turn(tx, turn(1)))
    for wrong in (turn(1, reply="other"), turn(0), Turn("kitchen", 2, ()), turn(2, state="open")):
        with pytest.raises(InvalidInputError):
            truth.write(lambda tx, wrong=wrong: turns.commit_turn(tx, wrong))
    bad = Turn("kitchen", 2, (StoredMessage("assistant", "x", tokens=(2**40,)),))
    with pytest.raises(InvalidInputError, match="Token ids"):
        truth.write(lambda tx: turns.commit_turn(tx, bad))
    assert [t.n for t in turns.read_turns(truth, "kitchen")] == [0, 1]
    assert (turns.last_number(truth, "kitchen"), turns.last_number(truth, "nobody")) == (1, -1)
    assert turns.read_turns(truth, "nobody") == []


def test_a_reader_gets_only_what_is_meant_for_them(truth: Database) -> None:
    """The reading rule decides in SQL which turns come back."""
    levels: tuple[tuple[Level, str | None], ...] = (
        ("shared", None), ("household", None), ("private", "alice"), ("private", "bob"),
    )  # fmt: skip
    for n, (level, owner) in enumerate(levels):
        kept = turn(n, level=level, owner=owner)
        truth.write(lambda tx, kept=kept: turns.commit_turn(tx, kept))
    for reader, numbers in (
        (None, [0, 1, 2, 3]),
        (Reader(None), [0]),
        (Reader("bob"), [0, 1, 3]),
        (Reader("alice"), [0, 1, 2]),
        (Reader("alice", frozenset({"alice", "bob"})), [0, 1]),
    ):
        assert [t.n for t in turns.read_turns(truth, "kitchen", reader=reader)] == numbers
        later = turns.read_turns(truth, "kitchen", reader=reader, from_n=2)
        assert [t.n for t in later] == [n for n in numbers if n > 1]


def test_nothing_is_scanned(truth: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every statement of turns, epochs and sessions finds its rows through a key; only names are all listed."""
    run: list[tuple[str, Any]] = []
    execute, query, many = Transaction.execute, Database.query, Transaction.executemany

    def note_many(tx: Transaction, sql: str, rows: Any) -> None:
        rows = list(rows)
        run.extend((sql, row) for row in rows[:1])
        many(tx, sql, rows)

    monkeypatch.setattr(
        Transaction, "execute", lambda tx, sql, p=(): (run.append((sql, p)), execute(tx, sql, p))[1]
    )
    monkeypatch.setattr(Transaction, "executemany", note_many)
    monkeypatch.setattr(Database, "query", lambda d, sql, p=(): (run.append((sql, p)), query(d, sql, p))[1])
    truth.write(lambda tx: turns.commit_turn(tx, turn(0, reply="x")))
    truth.write(lambda tx: turns.amend_turn(tx, "kitchen", 0, ["H"]))
    truth.write(lambda tx: turns.commit_turn(tx, turn(1)))
    truth.write(lambda tx: turns.erase_turn(tx, "kitchen", 1))
    turns.last_number(truth, "kitchen")
    turns.read_turns(truth, "kitchen", from_n=1, reader=Reader("alice"))
    truth.write(lambda tx: turns.append_epoch(tx, Epoch("kitchen", 0)))
    turns.latest_epoch(truth, "kitchen")
    store = SQLiteSessionStore(truth)
    session = store.load("kitchen")
    store.save("kitchen", Session([session.messages[0], {"role": "user", "content": "new"}], {"a": 1}))
    store.save("kitchen", Session([session.messages[0]]))
    monkeypatch.undo()
    store.delete("kitchen")  # forgetting looks at the blocks of all turns, and waits for nobody
    with sqlite3.connect(f"file:{truth.path}?mode=ro", uri=True) as plans:
        for sql, values in run:
            if sql.startswith(("savepoint", "release", "rollback", "pragma")):
                continue
            for *_, step in plans.execute(f"explain query plan {sql}", values):
                assert "SCAN" not in step.removeprefix("SCAN s").removeprefix("SCAN CONSTANT"), (sql, step)
    plans.close()
    assert len(run) > 30
