"""Docs: the rows of the index, one for each thing that can be recalled, with their words.

Vectors come later, from the queue of what has none.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import msgspec

from edgemem.recall.index.sources import TURN, Doc, digest_of
from edgemem.recall.index.spaces import dequeue, enqueue, spaces_without
from edgemem.recall.index.state import FIRST_OTHER, get_meta, note_removals, set_meta, tally_docs
from edgemem.recall.index.vectors import move_vectors, remove_vectors
from edgemem.recall.people.names import called_in, names_in, note_sounds, sounds_with
from edgemem.recall.search.table import Row
from edgemem.recall.text.analyse import terms, words_version
from edgemem.recall.traits import Traits, traits_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.store.db.transaction import Transaction


RULES_VERSION = "4"
"""Changes when `traits`, `dates` or `phonetic` make something else of a text, or a record is told in other words."""


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
    stems = stems_of(doc)
    return ReadDoc(
        doc,
        stems,
        row_of(0, doc, length_of(stems)),
        digest_of(doc.text),
        sounds_with(_names_of(doc)),
    )


def add_docs(tx: Transaction, docs: Sequence[Doc]) -> None:
    """Take docs in, under the next numbers of their kind."""
    add_read(tx, [read_doc(doc) for doc in docs])


def add_read(tx: Transaction, read: Sequence[ReadDoc]) -> None:
    """Take docs in that were read before, so that whoever waits for this file waits for no text to be read."""
    message, other = get_meta(tx, "last_message"), get_meta(tx, "last_other", FIRST_OTHER - 1)
    numbered: list[tuple[int, ReadDoc]] = []
    for doc in read:
        if doc.doc.kind == TURN:
            message += 1
        else:
            other += 1
        numbered.append((message if doc.doc.kind == TURN else other, doc))
    _insert(tx, numbered)
    set_meta(tx, "last_message", message)
    set_meta(tx, "last_other", other)


def remove_doc(tx: Transaction, kind: int, ref: int) -> int | None:
    """Take a doc out with its words and its vectors in all spaces; return the number that it had, if it was there."""
    rows = tx.execute("select id, terms, level, owner from docs where ref = ? and kind = ?", (ref, kind))
    if not rows:
        return None
    number, stems, level, owner = rows[0]
    tx.execute("insert into words (words, rowid, terms) values ('delete', ?, ?)", (number, stems))
    tx.execute("delete from docs where id = ?", (number,))
    note_removals(tx, [number])
    dequeue(tx, [number])
    remove_vectors(tx, [number])
    tally_docs(tx, level, owner, docs=-1, terms=-length_of(stems))
    return int(number)


def replace_doc(tx: Transaction, doc: Doc) -> None:
    """Take a doc in as it is now, under the number that it had."""
    same = tx.execute(
        """
        select id, past from docs where ref = ? and kind = ? and level = ? and owner is ? and digest = ?
        """,
        (doc.ref, doc.kind, doc.level, doc.owner, digest_of(doc.text)),
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
    moved = move_vectors(tx, number, past=doc.past)
    dequeue(tx, [number])
    for space in spaces_without(tx, moved):
        enqueue(tx, [number], space=space, past=doc.past)


def row_of(number: int, doc: Doc, length: int) -> Row:
    """Return the columns of a doc, given its number and how many stems it has."""
    marks, called, times = traits_of(doc.text, doc.at) if doc.kind == TURN else Traits()
    return Row(
        number, doc.kind, doc.ref, doc.level, doc.owner, doc.who, doc.session_id, doc.turn, doc.at, int(doc.past), doc.subject,
        doc.relation, marks, called or None, msgspec.json.encode(times).decode() if times else None, length,
    )  # fmt: skip


def stems_of(doc: Doc) -> str:
    """Return the stems of a doc's text, with spaces between them."""
    return " ".join(terms(doc.text))


def length_of(stems: str) -> int:
    """Return how many stems there are."""
    return stems.count(" ") + 1 if stems else 0


def note_names(tx: Transaction, read: Sequence[ReadDoc]) -> None:
    """Have found who says something in some docs, and who and what they are about."""
    people = {doc.doc.who for doc in read if doc.doc.who}
    tx.executemany("insert or ignore into people (name) values (?)", [(name,) for name in people])
    note_sounds(tx, {sound for doc in read for sound in doc.sounds})


def _names_of(doc: Doc) -> set[str]:
    """Return who says something in a doc, and who and what it is about."""
    names = names_in(doc.text)
    if doc.who:
        names.add(doc.who)
    if doc.subject:
        names.add(called_in(doc.text, doc.subject))
    return names


def _insert(tx: Transaction, numbered: Sequence[tuple[int, ReadDoc]]) -> None:
    rules = rules_number()
    tx.executemany(
        """
        insert into docs (id, kind, ref, level, owner, who, session_id, turn, at, past, subject, relation, marks, called,
          times, length, terms, rules, digest)
        values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        [(*doc.row._replace(id=number), doc.stems, rules, doc.digest) for number, doc in numbered],
    )
    tx.executemany(
        "insert into words (rowid, terms) values (?, ?)", [(number, doc.stems) for number, doc in numbered]
    )
    if numbered and get_meta(tx, "rules") != rules:  # whoever opened the file last follows other rules
        set_meta(tx, "older", 1)
    for past in (False, True):
        enqueue(tx, [number for number, doc in numbered if doc.doc.past == past], past=past)
    note_names(tx, [doc for _, doc in numbered])
    sizes: dict[tuple[int, str | None], list[int]] = defaultdict(list)
    for _, doc in numbered:
        sizes[doc.doc.level, doc.doc.owner].append(doc.row.length)
    for (level, owner), lengths in sizes.items():
        tally_docs(tx, level, owner, docs=len(lengths), terms=sum(lengths))
