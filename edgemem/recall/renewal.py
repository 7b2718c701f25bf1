"""Renewal: docs that older rules made get the words and traits of today, in place.

From the newest to the oldest, a slice in each transaction, which notes how far it came: whoever is killed goes on there,
and of two processes at the same slice one finds it done. Vectors stay, unless the text itself is another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from edgemem.recall.docs import length_of, note_names, replace_doc, row_of, stems_of
from edgemem.recall.originals import digest_of
from edgemem.recall.rules import is_todays, rules_number
from edgemem.recall.sounds import drop_sounds
from edgemem.recall.state import get_meta, set_meta, tally_docs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.recall.originals import Originals
    from edgemem.recall.sources import Doc
    from edgemem.recall.state import State
    from edgemem.store.database import Database, Transaction

_AT_ONCE = 50  # docs in one transaction: 10 ms


class _Older(NamedTuple):
    """A doc that other rules made, as it stands in the file."""

    id: int
    kind: int
    ref: int
    rules: int


class _Known(NamedTuple):
    """The same as its transaction finds it."""

    level: int
    owner: str | None
    relation: str | None
    digest: int | None
    terms: str


def renew_some(database: Database, originals: Originals, state: State, limit: int) -> int:
    """Renew at most `limit` docs; return how many, 0 once none is left."""
    if state.older_left <= 0 or not is_todays(state.rules):
        return 0
    limit = min(limit, _AT_ONCE)
    rows = database.query(
        "select id, kind, ref, rules from docs where id <= ? and rules <> ? order by id desc limit ?",
        (state.older_left, rules_number(), limit + 1),
    )
    older = [_Older(*row) for row in rows[:limit]]
    docs = originals.read([(each.kind, each.ref) for each in older])
    todo = [(each, docs[name]) for each in older if (name := (each.kind, each.ref)) in docs]
    left = rows[limit][0] if len(rows) > limit else 0
    database.write(lambda tx: _renew(tx, todo, left))
    return max(1, len(older))


def count_older(database: Database, state: State) -> int:
    """Return how many docs older rules have made; looks at all of them while there may be any."""
    if state.older_left <= 0:
        return 0
    sql = "select count(*) from docs where id <= ? and rules <> ?"
    return int(database.query(sql, (state.older_left, rules_number()))[0][0])


def _renew(tx: Transaction, todo: Sequence[tuple[_Older, Doc]], left: int) -> None:
    if not is_todays(get_meta(tx, "rules")):
        return  # somebody opened the file meanwhile who follows other rules
    for older, doc in todo:
        known = tx.execute(
            "select level, owner, relation, digest, terms from docs where id = ? and kind = ? and ref = ? and rules = ?",
            older,
        )
        if known:
            _renew_doc(tx, older.id, _Known(*known[0]), doc)
    note_names(tx, [doc for _, doc in todo])
    if left < get_meta(tx, "older_left"):
        set_meta(tx, "older_left", left)
        if not left:
            drop_sounds(tx)
            set_meta(tx, "merged", 0)  # the words of before stand in its segments until they are merged


def _renew_doc(tx: Transaction, number: int, known: _Known, doc: Doc) -> None:
    digest, stems = digest_of(doc.text), stems_of(doc)
    if known.digest not in (None, digest):
        replace_doc(tx, doc)  # told in other words now: another text, whose vector is made anew
        return
    row = row_of(number, doc, length_of(stems))
    if stems != known.terms:
        tx.execute("insert into words (words, rowid, terms) values ('delete', ?, ?)", (number, known.terms))
    tx.execute(
        """
        update docs set subject = ?, relation = ?, marks = ?, called = ?, times = ?, length = ?, terms = ?, rules = ?, digest = ?
          where id = ?
        """,
        (
            row.subject, row.relation, row.marks, row.called, row.times, row.length, stems, rules_number(), digest, number,
        ),
    )  # fmt: skip
    if stems != known.terms:
        tx.execute("insert into words (rowid, terms) values (?, ?)", (number, stems))
        tally_docs(tx, known.level, known.owner, docs=0, terms=row.length - length_of(known.terms))
