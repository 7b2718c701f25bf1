"""Mentions: the places in which a name is written, in the words of others, in notes and in the bank.

Forgetting a person tells of these and erases none: what somebody else said is theirs, and only a person can tell whether the
Ann of a note is that Ann.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

from edgemem.records import Mention, Mentions
from edgemem.store.declaration import WORDS, Kind
from edgemem.store.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from edgemem.store.bank.bank import MemoryBank
    from edgemem.store.db.database import Database
    from edgemem.store.notes import NotesFile

MAX_QUOTED = 50
TEXT_CHARS = 200
"""Longer text is cut."""

_PAGE = 2000


def find_mentions(
    db: Database, names: Iterable[str], *, notes: NotesFile | None = None, bank: MemoryBank | None = None
) -> Mentions:
    """Return the places in which any of a person's names is a word of its own: their number, and the first 50 quoted."""
    alternatives = "|".join(re.escape(normalize("NFC", name.strip())) for name in names if name.strip())
    if not alternatives:
        return Mentions()
    pattern = re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)", re.IGNORECASE)
    quoted: list[Mention] = []
    count = 0
    for kind, place, by, lead, texts in _texts(db, notes, bank):
        for text in map(_composed, texts):
            if (match := pattern.search(text)) is not None:
                count += 1
                if len(quoted) < MAX_QUOTED:
                    quote = _around(f"{lead}{text}", match.start() + len(lead))
                    quoted.append(Mention(kind, place, quote, by))
                break
    return Mentions(tuple(quoted), count)


def _composed(text: str) -> str:
    return normalize("NFC", text)


def _around(text: str, at: int) -> str:
    begin = max(0, at - TEXT_CHARS // 2)
    end = begin + TEXT_CHARS
    return ("…" if begin else "") + " ".join(text[begin:end].split()) + ("…" if end < len(text) else "")


def _texts(
    db: Database, notes: NotesFile | None, bank: MemoryBank | None
) -> Iterator[tuple[str, str, str, str, list[str]]]:
    """Yield all texts by the place: kind, where it is, who said it, the text before its words, and its words."""
    for file, _, content in bank.texts() if bank is not None else ():
        for line in content.splitlines():
            yield "file", file.place, "", "", [line]
    for number, line in enumerate(notes.read().splitlines() if notes is not None else (), 1):
        yield "note", str(number), "", "", [line]
    for kind in KINDS:
        if kind.columns_of(*WORDS):
            for place, by, lead, *texts in _rows(db, kind):
                yield kind.label, place, by, lead, [text for text in texts if text]


def _rows(db: Database, kind: Kind) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a kind: place, who said it, the text before its words, and the columns with words."""
    keys = [f"r.{column}" for column in kind.primary]
    by = kind.by or next((f"r.{name}" for name in ("speaker", "owner") if name in kind.names), "''")
    words = [f"r.{column}" for column in kind.columns_of(*WORDS)]
    select = [*keys, kind.place_in_sql(), f"ifnull({by}, '')", f"ifnull({kind.lead or repr('')}, '')", *words]
    after: tuple[Any, ...] = (-1,) * len(keys)
    sql = (
        f"select {', '.join(select)} from {kind.table} r{kind.join()}"  # noqa: S608 - our own constants
        f" where ({', '.join(keys)}) > ({', '.join('?' * len(keys))}) and {kind.texts or '1'}"
        f" order by {', '.join(keys)} limit {_PAGE}"
    )
    while rows := db.query(sql, after):
        yield from (row[len(keys) :] for row in rows)
        after = rows[-1][: len(keys)]
