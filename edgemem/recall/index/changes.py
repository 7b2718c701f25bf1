"""Changes: rows of the truth become docs of the index, and what was changed or erased there is so here.

Texts are read before the transaction, which holds the file for the writing alone. Several processes may take in the same
rows: each sees in its transaction how far the index has come, and only the first of them writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.recall.index.docs import ReadDoc, add_docs, add_read, read_doc, remove_doc, replace_doc
from edgemem.recall.index.sources import SOURCES, Doc, Source, Written, newest_id, read_between, read_docs
from edgemem.recall.index.state import State, get_meta, set_meta, trim_removals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Transaction

_KEEP_US = 7 * 86400 * 1_000_000  # a power cut may take the index back by a while; a week is plenty


def is_due(truth: Database, state: State, sources: Sequence[Source], *, least: int, wait_s: float) -> bool:
    """Tell whether a fact waits, or enough else, or one row for long enough; ids are the microseconds of writing."""
    if least <= 0:
        return True
    waiting, oldest = 0, []
    for source in sources:
        rows = truth.query(
            f"select count(*), min(id) from (select id from {source.table} where id > ? order by id limit ?)",  # noqa: S608 - our own constants
            (state.reached(source.table), least),
        )
        if rows[0][0]:
            waiting += least if source.table == "facts" else rows[0][0]
            oldest.append(rows[0][1])
    late = bool(oldest) and truth.clock.now() - min(oldest) / 1e6 > wait_s
    return waiting >= least or late


def take_rows(
    database: Database,
    truth: Database,
    state: State,
    sources: Sequence[Source],
    limit: int,
    stop: Callable[[], bool] | None = None,
) -> int:
    """Take at most `limit` rows of the truth in; return how many.

    Args:
        stop: asked after each text; the texts that were read until then are taken in.
    """
    now = truth.clock.now()
    pieces: list[tuple[Source, int, list[ReadDoc]]] = []
    """The new docs of each source, up to an id."""
    for source in sources:
        reached, last = state.reached(source.table), newest_id(truth, source)
        if last > reached and limit > 0:
            docs = read_between(truth, source, reached, last, limit, now)
            read = _read_until(docs, stop)
            cut = len(read) < len(docs)
            pieces.append((source, read[-1].doc.ref if cut or len(docs) == limit else last, read))
            limit = 0 if cut else limit - len(docs)

    def work(tx: Transaction) -> None:
        # Another process may have been faster, or have seen a change of these rows before they were in.
        if get_meta(tx, "queue") != state.queue or any(
            get_meta(tx, source.table) != state.reached(source.table) for source, _, _ in pieces
        ):
            return
        add_read(tx, [doc for _, _, read in pieces for doc in read])
        for source, upto, _ in pieces:
            set_meta(tx, source.table, upto)

    # One transaction for all sources: each writes the last pages of the same tables.
    if pieces:
        database.write(work)
    return sum(len(read) for _, _, read in pieces)


def take_texts(database: Database, texts: Written, state: State) -> int:
    """Bring the docs of texts that are no rows in line with them; return how many came or went."""
    stamp = texts.stamp()
    if state.stamp(texts.stamped_as) == stamp:
        return 0
    docs = texts.docs()

    def work(tx: Transaction) -> tuple[int, int]:
        known = {ref for (ref,) in tx.execute("select ref from docs where kind = ?", (texts.kind,))}
        gone = known - docs.keys()
        for ref in gone:
            remove_doc(tx, texts.kind, ref)
        if gone:
            purge(tx)
        new = [doc for ref, doc in docs.items() if ref not in known]
        add_docs(tx, new)
        set_meta(tx, texts.stamped_as, stamp)
        return len(gone), len(new)

    gone, new = database.write(work)
    if gone:
        database.checkpoint()
    return gone + new


def _read_until(docs: Iterable[Doc], stop: Callable[[], bool] | None) -> list[ReadDoc]:
    """Read docs until somebody is waiting, and the first one in any case."""
    read: list[ReadDoc] = []
    for doc in docs:
        read.append(read_doc(doc))
        if stop and stop():
            break
    return read


def take_changes(database: Database, truth: Database, state: State, limit: int) -> tuple[int, bool]:
    """Bring the index in line with the next rows of the truth's queue; return how many, and whether anything was erased."""
    rows = truth.query(
        "select id, kind, ref from index_queue where id > ? order by id limit ?", (state.queue, limit)
    )
    if not rows:
        return 0, False
    upto = rows[-1][0]
    changed: list[Doc] = []
    erased: list[tuple[int, int]] = []
    for source in SOURCES:
        # Later rows are not indexed yet and will be read as they are then.
        refs = {ref for _, kind, ref in rows if kind == source.table and ref <= state.reached(source.table)}
        if source.table == "facts":  # the statements that pieces of facts belong to
            sql = "select origin from facts where id = ?"
            refs |= {origin for ref in refs for (origin,) in truth.query(sql, (ref,))}
        docs = read_docs(truth, source, refs, truth.clock.now())
        changed.extend(docs.values())
        erased.extend((source.kind, ref) for ref in refs - docs.keys())

    def work(tx: Transaction) -> None:
        if get_meta(tx, "queue") >= upto:
            return  # another process was faster
        for kind, ref in erased:
            remove_doc(tx, kind, ref)
        for doc in changed:
            replace_doc(tx, doc)
        trim_removals(tx)
        set_meta(tx, "queue", upto)

    database.write(work)
    _shorten_queue(truth, upto)
    return len(rows), bool(erased)


def purge(tx: Transaction) -> None:
    """Leave no trace of the people who spoke in docs that were taken out."""
    tx.execute("delete from people where name not in (select who from docs where who is not null)")


def _shorten_queue(truth: Database, upto: int) -> None:
    """Drop old changes from the truth's queue, not waiting for it."""
    old = min(upto, int(truth.clock.now() * 1e6) - _KEEP_US)
    if truth.query("select 1 from index_queue where id <= ? limit 1", (old,)):
        truth.submit(lambda tx: tx.execute("delete from index_queue where id <= ?", (old,)), durable=False)
