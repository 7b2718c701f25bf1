"""Sounds in the index: whom the names of people and subjects may be misheard for, looked up by how they sound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.recall.phonetic import sounds_alike, sounds_of
from edgemem.recall.question import hear, strange_words
from edgemem.recall.sources import bound, marks
from edgemem.recall.words import plain_words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from edgemem.store.database import Database, Transaction


_MOST_CHARS = 120  # nobody calls a name longer than that, and each of its words would be kept with all of it


def note_sounds(tx: Transaction, names: Iterable[str]) -> None:
    """Have names be found by how they sound, each by any of its words."""
    tx.executemany(
        "insert or ignore into sounds (sound, name) values (?, ?)",
        [
            (sound, name)
            for name in names
            if len(name) <= _MOST_CHARS
            for word in plain_words(name)
            for sound in sounds_of(word)
        ],
    )


def with_names(
    query: str, unknown: Collection[str], *, names: Iterable[str], database: Database | None
) -> str:
    """Return a question in which words that mean nothing are replaced by the names that they sound like.

    Args:
        unknown: stems of its words that stand nowhere in the memory; no other word is touched.
        names: people and subjects that the index may not know yet.
        database: the index; None: do without it.
    """
    strange = strange_words(query, unknown)
    if not strange:
        return query
    known = {*names, *(names_sounding_like(database, strange) if database is not None else ())}
    words = {word for name in known for word in plain_words(name)}
    return hear(query, {word: name for word in strange if (name := sounds_alike(word, words))})


def names_sounding_like(database: Database, words: Iterable[str]) -> set[str]:
    """Return the names of which a word sounds like one of some."""
    sounds = sorted({sound for word in words for sound in sounds_of(word)})
    if not sounds:
        return set()
    rows = database.query(
        f"select distinct name from sounds where sound in ({marks(sounds)}) limit 64",  # noqa: S608 - ours
        bound(sounds),
    )
    return {name for (name,) in rows}


def drop_sounds(tx: Transaction) -> None:
    """Leave no trace of names that are not in the index any more."""
    tx.execute(
        "delete from sounds where name not in (select name from people)"
        " and name not in (select subject from docs where subject is not null)"
    )
