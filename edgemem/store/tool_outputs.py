"""What tools answered in full, where a conversation holds only the beginning of it.

A text belongs to its turn: whoever may read the turn may read it, and it is erased with the turn (a trigger in the
schema). All of them together stay within a bound; the oldest go first.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from edgemem.fence import storable
from edgemem.store.rights import reading_rule

if TYPE_CHECKING:
    from edgemem.records import Reader
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Transaction


class ToolOutput(NamedTuple):
    """A part of a text, and whose turn it is from."""

    text: str
    start: int
    of: int
    """Characters of the whole."""
    level: int
    owner: str | None
    session: str = ""
    turn: int | None = None


def pointer_to(session: str, text: str) -> str:
    """Return the name of a text: ten letters and digits, the same whenever the same is said in a session."""
    return blake2b(f"{session}\0{text}".encode(errors="replace"), digest_size=5).hexdigest()


def keep_output(tx: Transaction, session: str, pointer: str, text: str, *, most_bytes: int) -> None:
    """Keep a text with the newest turn of a session; what is over the bound goes, oldest first.

    Args:
        most_bytes: of all texts together.
    """
    content = storable(text).encode()
    tx.execute(
        "insert into tool_outputs (session_id, turn, pointer, bytes, content)"
        " select session_id, max(n), :pointer, :bytes, :content from turns"
        " where session_id = (select id from sessions where name = :session) group by session_id",
        {"session": session, "pointer": pointer, "bytes": len(content), "content": content.decode()},
    )
    # The sizes stand before the texts, so that this reads few pages of them.
    sizes = tx.execute("select id, bytes from tool_outputs order by id desc")
    total = 0
    for n, (_, size) in enumerate(sizes):
        total += size
        if total > most_bytes:
            tx.execute("delete from tool_outputs where id <= ?", (sizes[n][0],))
            return


def read_output(
    db: Database, pointer: str, *, start: int = 0, length: int, reader: Reader | None = None
) -> ToolOutput | None:
    """Return some characters of a text from `start` on; None where there is none that the reader may read."""
    rule, values = reading_rule(reader, "t.")
    rows = db.query(
        "select substr(o.content, :start + 1, :length), length(o.content), t.level, t.owner, s.name, t.n"  # noqa: S608 - our own
        " from tool_outputs o join turns t on t.session_id = o.session_id and t.n = o.turn"
        " join sessions s on s.id = t.session_id"
        f" where o.pointer = :pointer and {rule} order by o.id desc limit 1",
        {"pointer": storable(pointer), "start": start, "length": length, **values},
    )
    return ToolOutput(rows[0][0], start, *rows[0][1:]) if rows else None
