"""The ticks that a file holds: a clock must know the newest, so that whatever it hands out next is later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.store.migrations import newest_tick

if TYPE_CHECKING:
    from edgemem.clock import Clock


class Ticks:
    """The ticks of one file, as several connections see it.

    Args:
        connection: any of them, once the schema is there.
    """

    def __init__(self, connection: Any, clock: Clock) -> None:
        tables = {row[0] for row in connection.execute("select name from sqlite_master")}
        self._sql = newest_tick(tables)
        self._clock = clock

    def newest(self, connection: Any) -> int:
        """Return the highest tick in the file; 0 if it holds none."""
        return int(connection.execute(self._sql).fetchone()[0]) if self._sql else 0

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
