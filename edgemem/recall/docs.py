"""Docs: the rows of the index, one for each thing that can be recalled, with their words.

Functions that take a transaction; vectors come later, from the queue of what has none.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec

from edgemem.recall.columns import Row
from edgemem.recall.originals import digest_of
from edgemem.recall.relations import note_relations
from edgemem.recall.removals import note_removals
from edgemem.recall.rules import note_rules, rules_number
from edgemem.recall.sounds import called_in, names_in, note_sounds
from edgemem.recall.sources import TURN, Doc
from edgemem.recall.spaces import dequeue, enqueue, spaces_without
from edgemem.recall.state import FIRST_OTHER, get_meta, set_meta, tally_docs
from edgemem.recall.traits import Traits, traits_of
from edgemem.recall.vectors import move_vectors, remove_vectors
from edgemem.recall.words import terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.store.database import Transaction


def add_docs(tx: Transaction, docs: Sequence[Doc]) -> None:
    """Take docs in, under the next numbers of their kind."""
    message, other = get_meta(tx, "last_message"), get_meta(tx, "last_other", FIRST_OTHER - 1)
    numbered: list[tuple[int, Doc]] = []
    for doc in docs:
        if doc.kind == TURN:
            message += 1
        else:
            other += 1
        numbered.append((message if doc.kind == TURN else other, doc))
    _insert(tx, numbered)
    set_meta(tx, "last_message", message)
    set_meta(tx, "last_other", other)


def remove_doc(tx: Transaction, kind: int, ref: int) -> int | None:
    """Take a doc out with its words and its vectors in all spaces; return the number that it had, if it was there."""
    found = tx.execute("select id, terms, level, owner from docs where ref = ? and kind = ?", (ref, kind))
    if not found:
        return None
    number, stems, level, owner = found[0]
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
        select id, past from docs where ref = ? and kind = ? and level = ? and owner is ?
          and (digest = ? or (digest is null and terms = ?))
        """,
        (doc.ref, doc.kind, doc.level, doc.owner, digest_of(doc.text), stems_of(doc)),
    )
    if not same:
        number = remove_doc(tx, doc.kind, doc.ref)
        if number is None:
            add_docs(tx, [doc])
        else:
            _insert(tx, [(number, doc)])
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


def note_names(tx: Transaction, docs: Sequence[Doc]) -> None:
    """Have found who says something in some docs, and who and what they are about."""
    note_relations(tx, {doc.relation for doc in docs if doc.relation})
    people = {doc.who for doc in docs if doc.who}
    tx.executemany("insert or ignore into people (name) values (?)", [(name,) for name in people])
    spoken_of = {name for doc in docs for name in names_in(doc.text)}
    subjects = {called_in(doc.text, doc.subject) for doc in docs if doc.subject}
    note_sounds(tx, people | spoken_of | subjects)


def _insert(tx: Transaction, numbered: Sequence[tuple[int, Doc]]) -> None:
    stems = {number: stems_of(doc) for number, doc in numbered}
    rules = rules_number()
    tx.executemany(
        """
        insert into docs (id, kind, ref, level, owner, who, session_id, turn, at, past, subject, relation, marks, called,
          times, length, terms, rules, digest)
        values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        [
            (
                *row_of(number, doc, length_of(stems[number])),
                stems[number],
                rules,
                digest_of(doc.text),
            )
            for number, doc in numbered
        ],
    )
    tx.executemany("insert into words (rowid, terms) values (?, ?)", list(stems.items()))
    note_rules(tx, stems)
    enqueue(tx, [number for number, doc in numbered if not doc.past])
    enqueue(tx, [number for number, doc in numbered if doc.past], past=True)
    note_names(tx, [doc for _, doc in numbered])
    sizes: dict[tuple[int, str | None], list[int]] = defaultdict(list)
    for number, doc in numbered:
        sizes[doc.level, doc.owner].append(length_of(stems[number]))
    for (level, owner), lengths in sizes.items():
        tally_docs(tx, level, owner, docs=len(lengths), terms=sum(lengths))
