"""Summaries: what stands in an epoch for the turns before it, who may read it, and what the index is told of it.

The newest summary of a session stands for all before it, since it was made from them. It is as open as the turns that it
stands for, but never more than the household: with private talk among them it is read by whoever owns all of that, and
where that is several people, by nobody. A planner leaves private turns out of what it has summarised, but a record does
not say who wrote it, so it is closed by what it may hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from edgemem.store.db.transaction import Transaction

_PRIVATE = "from turns t indexed by turns_private where t.session_id = e.session_id and t.n < e.first_turn and t.level = 2"

SUMMARIES = f"""
  (select e.id, e.session_id, e.first_turn, e.summary, e.reason,
    case when exists (select 1 {_PRIVATE}) then 2 else 1 end as level,
    (select case when count(distinct t.owner) = 1 and count(*) = count(t.owner) then max(t.owner) end {_PRIVATE}) as owner
  from epochs e where e.summary <> '' and not exists (
    select 1 from epochs n where n.session_id = e.session_id and n.id > e.id and n.summary <> ''))
"""  # noqa: S608 - our own constants
"""The newest summary of each session as rows with level and owner, to be read like a table."""


def enqueue_summaries(tx: Transaction, numbers: Iterable[int]) -> None:
    """Tell the index to look at the summaries of epochs again: they changed, are gone, or are not the newest any more."""
    tx.executemany(
        "insert into index_queue (id, kind, ref) values (?, 'summary', ?)",
        [(tx.tick(), number) for number in numbers],
    )


def note_newer(tx: Transaction, session_id: int, number: int) -> None:
    """Tell the index that the summary before an epoch's is not the newest of its session any more, or is once more."""
    older = tx.execute(
        "select id from epochs where session_id = ? and id < ? and summary <> '' order by id desc limit 1",
        (session_id, number),
    )
    enqueue_summaries(tx, (other for (other,) in older))


def change_summary(tx: Transaction, number: int, summary: str) -> None:
    """Give an epoch another summary."""
    rows = tx.execute("update epochs set summary = ? where id = ? returning session_id", (summary, number))
    enqueue_summaries(tx, [number])
    for (session_id,) in rows:
        note_newer(tx, session_id, number)


def erase_epochs(tx: Transaction, session_id: int) -> None:
    """Erase all epochs of a session, with their summaries."""
    gone = tx.execute("delete from epochs where session_id = ? returning id, summary", (session_id,))
    enqueue_summaries(tx, (number for number, summary in gone if summary))
