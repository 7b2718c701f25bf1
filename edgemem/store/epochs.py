"""Epochs: where a session's prompt began anew, and the summary of what came before, with the level of who may read it.

The newest summary of a session replaces all before it, since it was made from them. A planner makes it of what the household
reads, so it is private to nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from edgemem.fence import storable
from edgemem.records import Epoch
from edgemem.store.rights import LEVELS
from edgemem.store.turns import ensure_session
from edgemem.store.validation import as_text

if TYPE_CHECKING:
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Transaction


SUMMARIES = """
  (select e.id, e.session_id, e.first_turn, e.summary, e.reason, e.level, null as owner
  from epochs e where e.summary <> '' and not exists (
    select 1 from epochs n where n.session_id = e.session_id and n.id > e.id and n.summary <> ''))
"""
"""The newest summary of each session as rows with level and owner, to be read like a table."""


def append_epoch(tx: Transaction, epoch: Epoch) -> Epoch:
    """Record that a session's prompt begins anew; return the epoch with its id."""
    session_id = ensure_session(tx, epoch.session)
    stored = msgspec.structs.replace(epoch, id=tx.tick(), summary=storable(epoch.summary))
    tx.execute(
        "insert into epochs (id, session_id, first_turn, summary, reason, started_at, head, carried, level)"
        " values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            stored.id,
            session_id,
            stored.first_turn,
            stored.summary,
            storable(stored.reason),
            stored.started_at,
            stored.head or None,
            as_text(list(stored.carried)) if stored.carried else None,
            LEVELS.index(stored.level),
        ),
    )
    if stored.summary:
        note_newer(tx, session_id, stored.id)
    return stored


def note_newer(tx: Transaction, session_id: int, number: int) -> None:
    """Tell the index that the summary before an epoch's is not the newest of its session any more, or is once more."""
    older = tx.execute(
        "select id from epochs where session_id = ? and id < ? and summary <> '' order by id desc limit 1",
        (session_id, number),
    )
    tx.announce("epochs", (other for (other,) in older))


def change_summary(tx: Transaction, number: int, summary: str) -> None:
    """Give an epoch another summary."""
    rows = tx.execute("update epochs set summary = ? where id = ? returning session_id", (summary, number))
    tx.announce("epochs", [number])
    for (session_id,) in rows:
        note_newer(tx, session_id, number)


def erase_epochs(tx: Transaction, session_id: int) -> None:
    """Erase all epochs of a session, with their summaries."""
    gone = tx.execute("delete from epochs where session_id = ? returning id, summary", (session_id,))
    tx.announce("epochs", (number for number, summary in gone if summary))


def keep_head(tx: Transaction, session: str, head: str) -> None:
    """Note the instructions and tools before the epoch that a session is in; nothing is written where they are known."""
    tx.execute(
        "update epochs set head = :head where head is not :head and id = (select max(id) from epochs"
        " where session_id = (select id from sessions where name = :session))",
        {"head": head, "session": session},
    )


def latest_epoch(db: Database, session: str) -> Epoch | None:
    """Return the epoch that a session is in, or None if its prompt never began anew."""
    rows = db.query(
        "select id, first_turn, summary, reason, started_at, head, carried, level from epochs"
        " where session_id = (select id from sessions where name = ?) order by id desc limit 1",
        (session,),
    )
    if not rows:
        return None
    number, first_turn, summary, reason, started_at, head, carried, level = rows[0]
    return Epoch(
        session,
        first_turn,
        summary,
        reason,
        started_at,
        number,
        head or "",
        tuple(msgspec.json.decode(carried, type=list[str])) if carried else (),
        LEVELS[level],
    )


def count_reasons(db: Database) -> dict[str, int]:
    """Return how many epochs began for each reason, those that a session began with aside."""
    return dict(
        db.query(
            "select reason, count(*) from epochs where reason <> 'begin' group by reason order by reason"
        )
    )
