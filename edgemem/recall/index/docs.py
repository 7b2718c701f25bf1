"""Docs: the rows of the index, one for each thing that can be recalled, with their words; vectors come later, from a queue.

Each doc carries the number of the rules that made its words and annotations. When edgemem comes with other rules, idle time puts
what they make of each text into a table of its own, and all are swapped when all are there; questions go on with the old
words meanwhile. Vectors are of the text and not of its words: they stay, unless the text itself is told in other words. Of
two processes with different rules, those of the one that opened the file last count; what the other takes in meanwhile waits
like what is older.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import msgspec

from edgemem.recall.annotations import Annotations, annotate
from edgemem.recall.index.sources import TURN, Doc, digest_of
from edgemem.recall.index.state import (
    FIRST_OTHER,
    get_meta,
    note_removals,
    remove_all,
    set_meta,
    sound,
)
from edgemem.recall.index.table import Row
from edgemem.recall.index.vectors import dequeue, enqueue, move_vectors, remove_vectors
from edgemem.recall.people.names import called_in, names_in, sounds_with
from edgemem.recall.text.analyse import terms, words_version

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from edgemem.recall.index.sources import Originals
    from edgemem.recall.index.state import State
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Transaction


RULES_VERSION = "4"
"""Changes when `annotations`, `dates` or `phonetics` make something else of a text, or a record is told in other words."""


def rules_number() -> int:
    """Return the number of the rules that make a doc of its text, which changes with every rule and every stem; never 0."""
    return crc32(f"{RULES_VERSION}/{words_version()}".encode()) or 1


class ReadDoc(NamedTuple):
    """A doc with all that its text tells: to find that out takes twenty times as long as to write it down."""

    doc: Doc
    stems: str
    row: Row
    """Its columns, under no number yet."""
    digest: int
    sounds: frozenset[tuple[str, str]]
    """How the names sound that it tells, each with its name."""


def read_doc(doc: Doc) -> ReadDoc:
    """Find out what the text of a doc tells; .2 ms for a message of LoCoMo (one x86-64 core)."""
    row, stems = read_row(0, doc)
    names = names_in(doc.text)
    if doc.who:
        names.add(doc.who)
    if doc.subject:
        names.add(called_in(doc.text, doc.subject))
    return ReadDoc(doc, stems, row, digest_of(doc.text), sounds_with(names))


def add_docs(tx: Transaction, docs: Sequence[Doc]) -> None:
    """Take docs in, under the next numbers of their kind."""
    add_read(tx, [read_doc(doc) for doc in docs])


def add_read(tx: Transaction, read: Sequence[ReadDoc]) -> None:
    """Take docs in that were read before, so that whoever waits for this file waits for no text to be read."""
    message, other = get_meta(tx, "last_message"), get_meta(tx, "last_other", FIRST_OTHER - 1)
    messages = [doc for doc in read if doc.doc.kind == TURN]
    others = [doc for doc in read if doc.doc.kind != TURN]
    _insert(tx, [*enumerate(messages, message + 1), *enumerate(others, other + 1)])
    set_meta(tx, "last_message", message + len(messages))
    set_meta(tx, "last_other", other + len(others))


def remove_doc(tx: Transaction, kind: int, ref: int) -> int | None:
    """Take a doc out with its words and its vectors in all spaces; return the number that it had, if it was there."""
    rows = tx.execute("delete from docs where ref = ? and kind = ? returning id", (ref, kind))
    if not rows:
        return None
    number = int(rows[0][0])
    note_removals(tx, [number])
    dequeue(tx, [number])
    remove_vectors(tx, [number])
    return number


def replace_doc(tx: Transaction, doc: Doc) -> None:
    """Take a doc in as it is now, under the number that it had."""
    same = tx.execute(
        """
        select id, past from docs where ref = ? and kind = ? and level = ? and owner is ? and who is ? and digest = ?
        """,
        (doc.ref, doc.kind, doc.level, doc.owner, doc.who, digest_of(doc.text)),
    )
    if not same:
        number = remove_doc(tx, doc.kind, doc.ref)
        if number is None:
            add_docs(tx, [doc])
        else:
            _insert(tx, [(number, read_doc(doc))])
        return
    number, past = same[0]
    if bool(past) == doc.past:
        return
    tx.execute("update docs set past = ? where id = ?", (int(doc.past), number))
    note_removals(tx, [number])
    # What was embedded stays so, where it does not crowd out what holds now.
    dequeue(tx, [number])
    if not move_vectors(tx, number, past=doc.past):
        enqueue(tx, [(number, doc.past)])


def read_row(number: int, doc: Doc) -> tuple[Row, str]:
    """Return the columns of a doc under a number, and its stems with spaces between them."""
    flags, called, times = annotate(doc.text, doc.at) if doc.kind == TURN else Annotations()
    stems = terms(doc.text)
    row = Row(
        number, doc.kind, doc.ref, doc.level, doc.owner, doc.who, doc.session_id, doc.turn, doc.at, int(doc.past), doc.subject,
        doc.relation, flags, called or None, msgspec.json.encode(times).decode() if times else None, len(stems),
    )  # fmt: skip
    return row, " ".join(stems)


def _note_names(tx: Transaction, numbered: Sequence[tuple[int, ReadDoc]]) -> None:
    """Have found who says something in some docs, and who and what they are about."""
    people = {doc.doc.who for _, doc in numbered if doc.doc.who}
    tx.executemany("insert or ignore into people (name) values (?)", [(name,) for name in people])
    sounds = {pair for _, doc in numbered for pair in doc.sounds}
    named = {(number, name) for number, doc in numbered for _, name in doc.sounds}
    tx.executemany("insert or ignore into names (name) values (?)", sorted({(name,) for _, name in named}))
    tx.executemany(
        "insert or ignore into sounds (sound, name) select ?, id from names where name = ?", sorted(sounds)
    )
    tx.executemany(
        "insert or ignore into named (doc, name) select ?, id from names where name = ?", sorted(named)
    )


def _insert(tx: Transaction, numbered: Sequence[tuple[int, ReadDoc]]) -> None:
    rules = rules_number()
    tx.executemany(
        """
        insert into docs (id, kind, ref, level, owner, who, session_id, turn, at, past, subject, relation, flags, called,
          times, length, terms, rules, digest)
        values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        [(*doc.row._replace(id=number), doc.stems, rules, doc.digest) for number, doc in numbered],
    )
    if numbered and get_meta(tx, "rules") != rules:  # whoever opened the file last follows other rules
        set_meta(tx, "older", 1)
    enqueue(tx, [(number, doc.doc.past) for number, doc in numbered])
    _note_names(tx, numbered)


_AT_ONCE = 50  # docs in one transaction: 10 ms
_OLDER = "docs d where d.rules <> ? and not exists (select 1 from remade r where r.id = d.id)"
_COLUMNS = "subject, relation, flags, called, times, length, terms, digest"


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
        if doc is None:  # the truth has it no more
            remove_doc(tx, older.kind, older.ref)
            continue
        row = doc.row
        tx.execute(
            f"insert or replace into remade (id, {_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - ours
            (
                older.id, row.subject, row.relation, row.flags, row.called, row.times, row.length, doc.stems, doc.digest,
            ),
        )  # fmt: skip
        tx.execute("delete from named where doc = ?", (older.id,))
        kept.append((older.id, doc))
    _note_names(tx, kept)


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
    enqueue(tx, retold)
    tx.execute(
        f"update docs set rules = ?, ({_COLUMNS}) = (select {_COLUMNS} from remade r where r.id = docs.id)"  # noqa: S608 - ours
        " where id in (select id from remade)",
        (rules,),
    )
    tx.execute("delete from remade")
    remove_all(tx)
    set_meta(tx, "older", 0)
