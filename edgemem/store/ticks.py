"""The ticks that a file holds: a clock must know the newest, so that whatever it hands out next is later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.errors import CorruptError
from edgemem.store.migrations import newest_tick

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.clock import Clock

_AHEAD_S = 366 * 86400.0


class Ticks:
    """The ticks of one file, as several connections see it.

    Args:
        connection: any of them, once the schema is there.
        path: of the file.
        derived: it is made from another file that was opened before, with the same clock: its ticks cannot be far ahead of
            that one's, unless the file is damaged; and whatever the clock takes from it, the other file would keep.
    """

    def __init__(self, connection: Any, clock: Clock, path: Path, *, derived: bool = False) -> None:
        tables = {row[0] for row in connection.execute("select name from sqlite_master")}
        self._sql = newest_tick(tables)
        self._clock = clock
        self._path = path
        self._derived = derived

    def newest(self, connection: Any) -> int:
        """Return the highest tick in the file; 0 if it holds none."""
        if not self._sql:
            return 0
        newest = connection.execute(self._sql).fetchone()[0]
        if not isinstance(newest, int) or (
            self._derived and newest > (self._clock.now() + _AHEAD_S) * 1_000_000
        ):
            raise CorruptError(
                f"{self._path} is damaged: {str(newest)[:40]!r} is no moment at which it was written."
            )
        return newest

    def look(self, connection: Any, version: int) -> int:
        """Tell the clock what others have written since this connection saw a version; return the one of now."""
        now = int(connection.execute("pragma data_version").fetchone()[0])
        if now != version:
            self._clock.witness(self.newest(connection))
        return now

    def keep(self, connection: Any, newest: int) -> None:
        """Keep a tick whose rows may be the ones that were erased."""
        if self._sql and self.newest(connection) < newest:
            connection.execute("insert or replace into meta values ('clock', ?)", (newest,))
