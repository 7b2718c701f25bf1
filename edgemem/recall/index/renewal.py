"""Renewal: docs that other rules made are made anew from their texts, beside the old ones, and swapped when all are there.

Each doc carries the number of the rules that made its words and traits. When edgemem comes with other rules, idle time puts
what they make of each text into a table of its own; questions go on with the old words. Vectors are of the text and not of its
words: they stay, unless the text itself is told in other words. Whoever is killed goes on where it was.

Of two processes with different rules, those of the one that opened the file last count; what the other takes in meanwhile
waits like what is older.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from edgemem.recall.index.docs import ReadDoc, note_names, read_doc, rules_number
from edgemem.recall.index.spaces import dequeue, enqueue
from edgemem.recall.index.state import get_meta, remove_all, set_meta, sound, tally_anew
from edgemem.recall.index.vectors import remove_vectors
from edgemem.recall.people.names import drop_sounds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from edgemem.recall.index.sources import Originals
    from edgemem.recall.index.state import State
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Transaction

_AT_ONCE = 50  # docs in one transaction: 10 ms
_OLDER = "docs d where d.rules <> ? and not exists (select 1 from remade r where r.id = d.id)"
_COLUMNS = "subject, relation, marks, called, times, length, terms, digest"


class _Older(NamedTuple):
    """A doc that other rules made, as it stands in the file."""

    id: int
    kind: int
    ref: int
    digest: int


def follow_rules(tx: Transaction) -> None:
    """Have all docs that other rules made wait to be made anew."""
    if get_meta(tx, "rules") != rules_number():
        set_meta(tx, "rules", rules_number())
        tx.execute("delete from remade")
        set_meta(tx, "older", int(bool(tx.execute("select 1 from docs limit 1"))))


def renew_some(database: Database, originals: Originals, state: State, limit: int) -> int:
    """Make at most `limit` docs anew, or swap them all; return how many docs that was, 0 once nothing is left to do."""
    if not state.older or state.rules != rules_number():
        return 0
    older = _older(database, min(limit, _AT_ONCE))
    if not older:
        database.write(_swap)
        return 1
    texts = originals.read([(doc.kind, doc.ref) for doc in older])
    remade = [
        (doc, read_doc(texts[doc.kind, doc.ref]) if (doc.kind, doc.ref) in texts else None) for doc in older
    ]
    database.write(lambda tx: _put_beside(tx, remade))
    return len(older)


def count_older(database: Database, state: State) -> int:
    """Return how many docs wait to be made anew, or 1 while the swap does."""
    if not state.older:
        return 0
    count = database.query(f"select count(*) from {_OLDER}", (state.rules,))[0][0]  # noqa: S608 - our own text
    return max(1, int(count))


def _older(database: Database, limit: int) -> list[_Older]:
    """Return the next docs to be made anew: in the order of their numbers, and at last what came in behind."""
    sql = f"select d.id, d.kind, d.ref, d.digest from {_OLDER} and d.id > ? order by d.id limit ?"  # noqa: S608 - ours
    reached = database.query("select coalesce(max(id), 0) from remade")[0][0]
    rows: list[tuple[Any, ...]] = database.query(sql, (rules_number(), reached, limit))
    rows = rows or database.query(sql, (rules_number(), -1, limit))
    return [sound(row, _Older, "a doc") for row in rows]


def _put_beside(tx: Transaction, remade: Sequence[tuple[_Older, ReadDoc | None]]) -> None:
    if get_meta(tx, "rules") != rules_number():
        return  # somebody opened the file meanwhile who follows other rules
    kept = []
    for older, doc in remade:
        # Meanwhile it may have been taken out, or have got another text.
        if not tx.execute("select 1 from docs where id = ? and kind = ? and ref = ? and digest = ?", older):
            continue
        if doc is None:  # the truth has it no more, and its removal waits to be seen
            tx.execute(
                f"insert or replace into remade (id, {_COLUMNS}) select id, {_COLUMNS} from docs where id = ?",  # noqa: S608 - ours
                (older.id,),
            )
            continue
        row = doc.row
        tx.execute(
            f"insert or replace into remade (id, {_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - ours
            (
                older.id, row.subject, row.relation, row.marks, row.called, row.times, row.length, doc.stems, doc.digest,
            ),
        )  # fmt: skip
        kept.append(doc)
    note_names(tx, kept)


def _swap(tx: Transaction) -> None:
    rules = rules_number()
    if get_meta(tx, "rules") != rules or tx.execute(f"select 1 from {_OLDER} limit 1", (rules,)):  # noqa: S608 - ours
        return
    retold = tx.execute(
        "select d.id, d.past from remade r join docs d on d.id = r.id where d.digest <> r.digest"
    )
    docs = [doc for doc, _ in retold]
    remove_vectors(tx, docs)
    dequeue(tx, docs)
    for side in (False, True):
        enqueue(tx, [doc for doc, past in retold if bool(past) == side], past=side)
    tx.execute(
        f"update docs set rules = ?, ({_COLUMNS}) = (select {_COLUMNS} from remade r where r.id = docs.id)"  # noqa: S608 - ours
        " where id in (select id from remade)",
        (rules,),
    )
    tx.execute("insert into words (words) values ('rebuild')")
    tx.execute("delete from remade")
    tally_anew(tx)
    drop_sounds(tx)
    remove_all(tx)
    set_meta(tx, "older", 0)
