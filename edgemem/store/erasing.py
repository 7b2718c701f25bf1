"""Erasing: a fact, or all that one person said or owns, with the blocks that carried it before a model.

Erased is gone from the file; the caller empties the log and the index behind it. What others said stays, and so does
the shape of history: where a person's version of a fact stood among those of others, no value stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.fence import storable
from edgemem.store import facts, messages, rows

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from edgemem.store.database import Transaction

_THEIRS = "(owner = :name or speaker = :name)"


def erase_fact(tx: Transaction, key: str, *, scope: str = "global") -> bool:
    """Erase a fact with every version, also where it was shown to a model; tell whether there was one."""
    _erase_blocks(tx, [(scope, key)])
    return facts.forget_fact(tx, key, scope=scope)


def erase_person(tx: Transaction, name: str) -> dict[str, int]:
    """Erase what a person said or owns; return how much of each kind that was.

    Summaries and the loop's state of the conversations that they took part in go with it.
    """
    bound = {"name": storable(name)}
    erased = {
        "facts": _erase_facts(tx, bound),
        "doubts": _delete(tx, f"doubts where {_THEIRS}", bound),
        "preferences": _delete(tx, "preferences where owner = :name or scope = 'user:' || :name", bound),
        "episodes": _erase_episodes(tx, bound),
        "turns": _erase_turns(tx, bound),
    }
    return {kind: number for kind, number in erased.items() if number}


def _erase_facts(tx: Transaction, bound: dict[str, Any]) -> int:
    keys = tx.execute(
        "select k.id, k.scope, k.key, k.scope = 'user:' || :name from fact_keys k"  # noqa: S608 - our own constants
        f" where k.scope = 'user:' || :name or k.id in (select key_id from facts where {_THEIRS})",
        bound,
    )
    _erase_blocks(tx, [(scope, key) for _, scope, key, _ in keys])
    for key_id, scope, key, whole in keys:
        if not whole:
            _empty(tx, key_id, bound)
        left = tx.execute("select 1 from facts where key_id = ? and value is not null limit 1", (key_id,))
        if whole or not left:
            facts.forget_fact(tx, key, scope=scope)
    return len(keys)


def _empty(tx: Transaction, key_id: int, bound: dict[str, Any]) -> None:
    """Leave of a person's versions their place in both times."""
    columns = "id, key_id, valid_from, valid_to, recorded, known_to, version, node, origin"
    theirs = tx.execute(
        f"select {columns} from facts where key_id = :key and {_THEIRS} order by id",  # noqa: S608 - our own constants
        {**bound, "key": key_id},
    )
    for row in theirs:
        # No version may be changed, so it is erased and an empty one put there.
        tx.execute("delete from facts where id = ?", (row[0],))
        tx.execute(f"insert into facts ({columns}, level) values ({', '.join('?' * 9)}, 0)", row)  # noqa: S608 - ours
    _announce(tx, "fact", [row[0] for row in theirs])


def _erase_episodes(tx: Transaction, bound: dict[str, Any]) -> int:
    found = tx.execute(f"select id from episodes where {_THEIRS}", bound)  # noqa: S608 - our own constants
    _announce(tx, "episode", [number for (number,) in found])
    return _delete(tx, f"episodes where {_THEIRS}", bound)


def _erase_turns(tx: Transaction, bound: dict[str, Any]) -> int:
    turns = tx.execute(f"select session_id, n from turns where {_THEIRS}", bound)  # noqa: S608 - our own constants
    for session_id, n in turns:
        _erase_messages(tx, "session_id = ? and turn = ?", (session_id, n))
        tx.execute("delete from turns where session_id = ? and n = ?", (session_id, n))
    for session_id in {session_id for session_id, _ in turns}:
        _erase_messages(tx, "session_id = ? and dropped is not null", (session_id,))
        tx.execute("delete from epochs where session_id = ?", (session_id,))
        tx.execute("update sessions set state = '{}' where id = ?", (session_id,))
        tx.execute(
            "delete from sessions where id = ? and not exists (select 1 from turns where session_id = sessions.id)",
            (session_id,),
        )
    return len(turns)


def _erase_messages(tx: Transaction, where: str, values: Sequence[Any]) -> None:
    # A session's id is a tick: all of its messages have larger ones.
    found = tx.execute(f"select id from messages where id > ? and {where}", (values[0], *values))  # noqa: S608 - ours
    tx.executemany("delete from messages where id = ?", found)
    messages.enqueue(tx, [number for (number,) in found])


def _erase_blocks(tx: Transaction, keys: Collection[tuple[str, str]]) -> None:
    """Erase the blocks that showed facts; a session that is taken up again then shows what still holds."""
    # An entry is JSON within JSON: {"fact":["global","door"],…} as a text in a list.
    pairs = [rows.as_text(rows.as_text(pair))[1:-1] for pair in keys]
    for session_id, n, shown in tx.execute("select session_id, n, shown from turns where shown is not null"):
        if any(pair in shown for pair in pairs):
            tx.execute(
                "update turns set block = null, shown = null where session_id = ? and n = ?", (session_id, n)
            )


def _delete(tx: Transaction, what: str, bound: dict[str, Any]) -> int:
    tx.execute(f"delete from {what}", bound)  # noqa: S608 - our own constants
    return tx.changes


def _announce(tx: Transaction, kind: str, refs: Sequence[int]) -> None:
    tx.executemany(
        "insert into index_queue (id, kind, ref) values (?, ?, ?)", [(tx.tick(), kind, ref) for ref in refs]
    )
