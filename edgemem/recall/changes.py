"""Changes: what was altered or erased in the truth after it was indexed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from edgemem.recall.docs import remove_doc, replace_doc
from edgemem.recall.sounds import drop_sounds
from edgemem.recall.sources import SOURCES, Doc, read_docs
from edgemem.recall.state import State, get_meta, set_meta

if TYPE_CHECKING:
    from collections.abc import Collection

    from edgemem.store.database import Database, Transaction

_KEEP_US = 7 * 86400 * 1_000_000  # a power cut may take the index back by a while; a week is plenty


class Changes(NamedTuple):
    """A piece of the truth's queue, looked up."""

    upto: int
    seen: int
    """How many rows of the queue that was."""
    erased: list[tuple[int, int]]
    """Kind and ref of docs that are not in the truth any more."""
    changed: list[Doc]


def read_changes(truth: Database, state: State, limit: int) -> Changes | None:
    """Return the next changes that the index has not seen; None if there are none."""
    rows = truth.query(
        "select id, kind, ref from index_queue where id > ? order by id limit ?", (state.queue, limit)
    )
    if not rows:
        return None
    changes = Changes(rows[-1][0], len(rows), [], [])
    for source in SOURCES:
        # Later rows are not indexed yet and will be read as they are then.
        refs = {ref for _, kind, ref in rows if kind == source.queued_as and ref <= state.reached(source)}
        if source.table == "facts":
            refs |= _origins(truth, refs)
        there = read_docs(truth, source, refs, truth.clock.now())
        changes.changed.extend(there.values())
        changes.erased.extend((source.kind, ref) for ref in refs - there.keys())
    return changes


def apply_changes(tx: Transaction, changes: Changes) -> None:
    """Bring the index in line with changes, unless another process has done so."""
    if get_meta(tx, "queue") >= changes.upto:
        return
    for kind, ref in changes.erased:
        remove_doc(tx, kind, ref)
    for doc in changes.changed:
        replace_doc(tx, doc)
    set_meta(tx, "queue", changes.upto)


def purge(tx: Transaction) -> None:
    """Leave no trace of docs that were taken out."""
    tx.execute("delete from people where name not in (select who from docs where who is not null)")
    drop_sounds(tx)
    # FTS5 only marks what is deleted, until its segments are merged.
    tx.execute("insert into words (words) values ('optimize')")


def shorten_queue(truth: Database, upto: int) -> None:
    """Drop old changes from the truth's queue, not waiting for it."""
    old = min(upto, int(truth.clock.now() * 1e6) - _KEEP_US)
    if truth.query("select 1 from index_queue where id <= ? limit 1", (old,)):
        truth.submit(lambda tx: tx.execute("delete from index_queue where id <= ?", (old,)), durable=False)


def _origins(truth: Database, refs: Collection[int]) -> set[int]:
    """Return the statements that pieces of facts belong to."""
    return {
        origin for ref in refs for (origin,) in truth.query("select origin from facts where id = ?", (ref,))
    }
