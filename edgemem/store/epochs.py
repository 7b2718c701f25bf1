"""Epochs: where a session's prompt began anew, and the summary that stands for what came before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from edgemem.fence import storable
from edgemem.records import Epoch
from edgemem.store.erase.copies import without_outcomes
from edgemem.store.summaries import note_newer
from edgemem.store.turns import ensure_session
from edgemem.store.validation import as_text

if TYPE_CHECKING:
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Transaction


def append_epoch(tx: Transaction, epoch: Epoch) -> Epoch:
    """Record that a session's prompt begins anew; return the epoch with its id."""
    session_id = ensure_session(tx, epoch.session)
    stored = msgspec.structs.replace(epoch, id=tx.tick(), summary=storable(epoch.summary))
    tx.execute(
        "insert into epochs (id, session_id, first_turn, summary, reason, started_at, head, carried)"
        " values (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            stored.id,
            session_id,
            stored.first_turn,
            stored.summary,
            storable(stored.reason),
            stored.started_at,
            stored.head or None,
            as_text(list(stored.carried)) if stored.carried else None,
        ),
    )
    if stored.summary:
        note_newer(tx, session_id, stored.id)
    return stored


def without_memory(epoch: Epoch) -> Epoch:
    """Return an epoch whose head repeats nothing of the memory: for when something was forgotten, and nobody knows what."""
    return msgspec.structs.replace(epoch, carried=(), summary=without_outcomes(epoch.summary))


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
        "select id, first_turn, summary, reason, started_at, head, carried from epochs"
        " where session_id = (select id from sessions where name = ?) order by id desc limit 1",
        (session,),
    )
    if not rows:
        return None
    number, first_turn, summary, reason, started_at, head, carried = rows[0]
    return Epoch(
        session,
        first_turn,
        summary,
        reason,
        started_at,
        number,
        head or "",
        tuple(msgspec.json.decode(carried, type=list[str])) if carried else (),
    )


def count_reasons(db: Database) -> dict[str, int]:
    """Return how many epochs began for each reason, those that a session began with aside."""
    return dict(
        db.query(
            "select reason, count(*) from epochs where reason <> 'begin' group by reason order by reason"
        )
    )
