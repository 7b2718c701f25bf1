"""Transactions: tables that can be asked, one transaction with its time and ids, and many values in one statement."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from edgemem.errors import StoreError

if TYPE_CHECKING:
    from edgemem.clock import Clock

    T = TypeVar("T")

_BATCH = 500

Parameters = Sequence[Any] | Mapping[str, Any]


class Tables(Protocol):
    """What can be asked: the tables of a file, or in memory, after the last commit; or those that a transaction sees."""

    def query(self, sql: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a statement that only reads."""
        ...

    def now(self) -> float:
        """Return the clock's time."""
        ...


class Transaction:
    """One running transaction; rows that it writes become visible together, or not at all."""

    def __init__(self, connection: Any, clock: Clock, *, recorded: int | None = None) -> None:
        self._connection = connection
        self._clock = clock
        self._savepoints = 0
        self.open = True
        self.erased = False
        self.changes = 0
        self.recorded = self.newest = clock.tick() if recorded is None else recorded
        """When this transaction happened, in microseconds: later than every tick in the file."""

    @property
    def clock(self) -> Clock:
        """Return the clock that its ticks come from."""
        return self._clock

    def tick(self) -> int:
        """Return a fresh id for one row, larger than every id before."""
        self.newest = self._clock.tick(after=self.newest)
        return self.newest

    def now(self) -> float:
        """Return the time of this transaction, seconds since the epoch."""
        return self.recorded / 1e6

    def query(self, sql: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a statement that only reads."""
        rows: list[tuple[Any, ...]] = self._connection.execute(sql, parameters).fetchall()
        return rows

    def execute(self, sql: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows; `changes` then says how many it wrote."""
        self._check(sql)
        cursor = self._connection.execute(sql, parameters)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        self.changes = max(cursor.rowcount, 0)
        return rows

    def executemany(self, sql: str, rows: Iterable[Parameters]) -> None:
        """Run one statement for each row of values."""
        self._check(sql)
        self.changes = max(self._connection.executemany(sql, rows).rowcount, 0)

    def insert(self, into: str, values: Sequence[Any]) -> None:
        """Insert a row of values; `into` names the table and its columns."""
        self.execute(f"insert into {into} values ({', '.join('?' * len(values))})", values)  # noqa: S608 - our own

    def announce(self, table: str, rows: Iterable[int]) -> None:
        """Tell the index to look at rows of a table again: they changed, or are gone."""
        sql = "insert into index_queue (id, kind, ref) values (?, ?, ?)"
        self.executemany(sql, [(self.tick(), table, row) for row in rows])

    @contextmanager
    def atomic(self) -> Iterator[None]:
        """Undo what the block wrote if it raises, and leave the rest of the transaction as it is."""
        self._savepoints += 1
        name = f"s{self._savepoints}"
        self.execute(f"savepoint {name}")
        try:
            yield
        except BaseException:
            # On a full disk SQLite rolls everything back at once; then no savepoint is left.
            if self._connection.in_transaction:
                self.execute(f"rollback to {name}")
                self.execute(f"release {name}")
            raise
        else:
            self.execute(f"release {name}")
        finally:
            self._savepoints -= 1

    def _check(self, sql: str) -> None:
        if not self.open:
            raise StoreError("This transaction has ended; write inside of the function that was given it.")
        if sql.lstrip()[:6].lower() == "delete":
            self.erased = True


def in_batches(ids: Sequence[T]) -> Iterable[Sequence[T]]:
    """Yield ids, or other values, in numbers that SQLite binds in one statement."""
    return (ids[start : start + _BATCH] for start in range(0, len(ids), _BATCH))


def placeholders(ids: Sequence[Any]) -> str:
    """Return the names under which `bound` binds ids.

    Their number is rounded up, so that few statements are prepared: that takes longer (.2 ms for sixty ids) than to find them.
    """
    return _marks(_rounded(len(ids)))


def bound(ids: Sequence[Any]) -> dict[str, Any]:
    """Return ids under the names that `placeholders` writes; the last one fills the rest of them."""
    names = _names(_rounded(len(ids)))
    filled = [*ids, *[ids[-1]] * (len(names) - len(ids))] if ids else []
    return dict(zip(names, filled, strict=True))


def _rounded(n: int) -> int:
    """Return the next larger of 1, 2, 3, 4, 6, 8, 12, 16, 24, …; 0 of 0."""
    step = 1 << max(0, n.bit_length() - 2)
    return -(-n // step) * step


@functools.cache
def _names(n: int) -> tuple[str, ...]:
    return tuple(f"i{number}" for number in range(n))


@functools.cache
def _marks(n: int) -> str:
    return ",".join(f":{name}" for name in _names(n))
