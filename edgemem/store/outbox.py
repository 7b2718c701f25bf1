"""The outbox: steps of the journal on their way into the database, in order, each exactly once.

Usually a step is written at once, on the writer thread. Where that is impossible (another program holds the database, the disk
is full or broken), it waits, and everything that comes later waits behind it: in the spool, on the disk; what that cannot
take waits in memory alone, and is counted. The spool holds what waits from its oldest on, without a gap. Whatever is tried
next tries the oldest first.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from edgemem.errors import CorruptError, InvalidInputError, LostError, StoreError
from edgemem.store.db.files import meaning_of, sync
from edgemem.store.later import LATER
from edgemem.store.messages import to_json
from edgemem.store.spool import ROOM, Record, Spool, look_into, spool_paths
from edgemem.store.turn_steps import Accept, Commit, Companion, Step

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.records import Turn
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Transaction

Also = Callable[[Any], Any]
"""A further write for the transaction of a step."""

_LATER = (*LATER, CorruptError)
"""A damaged or replaced file is no reason to give up what was said, as it is for a write whose caller is told."""

_REFUSED = (OSError, StoreError)

_LOOK_S = 0.02  # how soon somebody who begins to speak is served

_MARK = "spool:"
"""With the name of a file, the key under which the truth says up to which record of it all is done."""

_log = logging.getLogger(__name__)


class Backlog(msgspec.Struct, frozen=True):
    """Turns that wait to be written."""

    turns: int
    unkept: int
    """How many of them wait in memory alone, and are lost with their process."""
    fault: str = ""
    """Why they wait."""

    def __str__(self) -> str:
        unkept = f", {self.unkept} of them only in memory" if self.unkept else ""
        return f"{self.turns} turns wait to be written{unkept}: {self.fault}"


class _Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step as it stands in the spool."""

    id: int
    """Larger than that of every step before."""
    step: Step
    also: tuple[Companion, ...] = ()


@dataclass(eq=False)
class OpenTurn:
    """An accepted turn, and where it stands."""

    turn: Turn
    tick: int
    record: Record | None = None
    kept: Turn | None = None
    """What of it stands in the record."""
    stored: Future[Any] | None = None
    """Its number in the database, if it has to stand there."""
    n: int | None = None
    """That number, once it is known."""
    ended: bool = False

    def erase(self) -> None:
        """Take it out of the spool."""
        if self.record is not None:
            self.record.erase()
            self.record = None


class Result(Future[Any]):
    """What a step will give, and the tick of its turn."""

    tick: int | None = None


@dataclass(eq=False)
class Entry:
    """A step on its way."""

    step: Step
    also: tuple[Also, ...] = ()
    """Further writes for the same transaction."""
    open: OpenTurn | None = None
    """The turn that it ends, or stores as an open one."""
    id: int = 0
    record: Record | None = None
    future: Result = field(default_factory=Result)

    def __post_init__(self) -> None:
        self.future.tick = self.step.tick
        self.future.set_running_or_notify_cancel()

    @property
    def kept(self) -> bool:
        """Tell whether it survives its process."""
        if self.record is None and isinstance(self.step, Accept) and self.open is not None:
            return self.open.ended or self.open.record is not None
        return self.record is not None


class Outbox:
    """The steps of one journal, and its spool; safe to use from several threads.

    Args:
        most: how many turns may wait; a further one is refused, and lost.
        room: how many bytes are reserved for what waits.
    """

    def __init__(self, database: Database, *, most: int = 500, room: int = ROOM) -> None:
        self.database = database
        self.most = most
        self.room = room
        self.fault: StoreError | None = None
        """Why what waits could not be written; None: nothing waits, or it was not tried yet."""
        self.lock = threading.RLock()
        self._queue: deque[Entry] = deque()
        self._try: Future[None] | None = None
        self._draining = False
        self._own: Spool | None = None
        self._spools: list[Spool] = []
        """Those that this process holds: its own, and what others have left; written on the writer thread only."""

    def submit(self, entry: Entry) -> Future[Any]:
        """Queue a step without waiting; the result is known once it is written."""
        with self.lock:
            self._queue.append(entry)
        try:
            self.begin()
        except BaseException:
            with self.lock:
                self._queue.remove(entry)
            raise
        return entry.future

    def store(self, turn: OpenTurn) -> None:
        """Have an open turn stand in the database."""
        turn.stored = self.submit(Entry(Accept(turn.turn, turn.tick, turn.n), open=turn))

    def begin(self) -> Future[None]:
        """Try what waits, on the writer thread."""
        with self.lock:
            # One try that has not begun yet serves for all that came meanwhile.
            if self._try is None or self._try.running() or self._try.done():
                self._try = self.database.enqueue(self._drain)
            return self._try

    def retry(self, stop: Callable[[], bool] = lambda: False) -> bool:
        """Try again what could not be written, until `stop` says that somebody speaks; return whether it worked.

        Raises:
            StoreError: it is still impossible.
        """
        if self.fault is None:
            return False
        tried = self.begin()
        while not tried.done() and not stop():
            wait([tried], _LOOK_S)
        if tried.done() and self.fault is not None:
            raise self.fault
        return tried.done()

    def backlog(self) -> Backlog:
        """Return what waits because it could not be written."""
        with self.lock:
            entries = [] if self.fault is None else list(self._queue)
        # A turn and its barge-in are one.
        unkept = {entry.step.tick for entry in entries if not entry.kept}
        return Backlog(len({entry.step.tick for entry in entries}), len(unkept), str(self.fault or ""))

    def backlog_of_others(self) -> Backlog:
        """Return what waits in other programs, as far as their files tell."""
        turns = unkept = 0
        for path in self._others():
            texts, more = look_into(path)
            steps = [line.step for line in map(_line_of, texts) if line is not None]
            waiting = {step.tick for step in steps if not isinstance(step, Accept)}
            turns, unkept = turns + len(waiting) + more, unkept + more
        return Backlog(turns, unkept, "another program could not write them yet")

    def take_over(self) -> None:
        """Take in what processes that are gone have left, and write all that waits; on the writer thread."""
        try:
            left = Spool.left(self.database.path)
        except _REFUSED as error:
            left = []
            _log.warning("What an earlier run may have left cannot be read: %s", error)
        entries: list[Entry] = []
        for spool in left:
            self._spools.append(spool)
            entries += _entries_in(spool)
            if self._own is None and spool.reusable:
                self._own = spool
        if left:
            self._witness()
        # What had ended comes first, as turns stand in the order in which they end.
        entries.sort(key=lambda entry: (entry.open is not None, entry.open.tick if entry.open else entry.id))
        with self.lock:
            self._queue.extend(entries)
        self._drain()

    def reserve(self) -> None:
        """Have room for what must wait, while the disk has it; on the writer thread."""
        try:
            self._spool()
        except _REFUSED as error:
            _log.warning("No room could be reserved for turns that have to wait: %s", error)

    def keep(self, turn: OpenTurn) -> int:
        """Have an open turn stand in the spool, in place of what stands of it there; return its tick.

        On the writer thread.

        Raises:
            StoreError: there is no room, or something that came before it has none.
        """
        with self.lock:
            words, stored = turn.turn, turn.stored
            if turn.ended or turn.kept is words or (stored is not None and stored.done()):
                return turn.tick
            if self.fault is not None and not all(entry.kept for entry in self._queue):
                raise self.fault  # what was said before it would not come back
        try:
            record = self._put(Accept(words, turn.tick))[1]
        except OSError as error:
            raise meaning_of(error, self.database.path) from error
        turn.erase()
        turn.record, turn.kept = record, words
        return turn.tick

    def sync(self) -> None:
        """Have the disk forget what was taken out of the spools, also of other processes; raise StoreError."""
        try:
            for path in spool_paths(self.database.path):
                with suppress(FileNotFoundError):  # its process has ended
                    sync(path)
        except OSError as error:
            raise meaning_of(error, self.database.path) from error

    def give_up(self) -> None:
        """Leave what waits to the next opening; raise StoreError where the spool does not have all of it."""
        backlog = self.backlog()
        with self.lock:
            self._queue.clear()
        self.fault = None
        if self._own is not None and self._own.empty:
            self.database.enqueue(partial(self._let_go, self._own)).result()
        if backlog.unkept:
            raise StoreError(
                f"{backlog.unkept} turns could not be written, nor kept in a file, and are lost: {backlog.fault}"
            )
        if backlog.turns:
            _log.error(
                "%d turns could not be written: %s They stand in %s and are taken in when this memory is opened again.",
                backlog.turns,
                backlog.fault,
                ", ".join(str(spool.path) for spool in self._spools),
            )

    def close(self) -> None:
        """Let go of the files; may be called twice, and in a process that was forked."""
        for spool in self._spools:
            spool.close()
        self._spools = []

    # Writing, on the writer thread

    def _drain(self) -> None:
        """Write what waits, oldest first, until nothing does or it is impossible."""
        if self._draining:  # called when a step's result was known
            return
        self._draining = True
        try:
            while self._queue:
                entry = self._queue[0]
                durable = not isinstance(entry.step, Accept)
                try:
                    result = self.database.submit(partial(self._write, entry), durable=durable).result()
                    if isinstance(entry.step, Accept) and entry.open is not None:
                        entry.open.n = result
                except _LATER as error:
                    self._keep_all(error)
                    return
                except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
                    self._end(entry, error)
                    entry.future.set_exception(error)
                else:
                    self._end(entry, None)
                    entry.future.set_result(result)
            self._tidy()
        finally:
            self._draining = False

    def _write(self, entry: Entry, tx: Transaction) -> Any:
        """Do a step, unless the truth says that its record is done."""
        if entry.record is not None:
            mark = _MARK + entry.record.spool.path.name
            if tx.execute("select 1 from meta where key = ? and value >= ?", (mark, entry.id)):
                return None
            tx.execute("insert or replace into meta values (?, ?)", (mark, entry.id))
        result = entry.step.run(tx)
        for write in entry.also:
            write(tx)
        return result

    def _end(self, entry: Entry, error: BaseException | None) -> None:
        """Take a step that is over out of the queue and the spool, and its open turn with it."""
        with self.lock:
            self._queue.remove(entry)
        if entry.record is not None:
            entry.record.erase()
        turn = entry.open
        if turn is None:
            return
        if error is None or isinstance(error, LostError) or (isinstance(entry.step, Accept) and turn.ended):
            turn.erase()
        elif isinstance(entry.step, Commit) and turn.stored is None:
            self.store(turn)  # the whole turn is refused for what it is; what was accepted of it is kept

    def _keep_all(self, error: StoreError) -> None:
        """Have what waits stand in the spool too, from its oldest on, so that it survives this process."""
        if self.fault is None:
            _log.warning("Turns wait to be written, and are tried again: %s", error)
        self.fault = error
        with self.lock:
            self._refuse()
            entries = [entry for entry in self._queue if not entry.kept]
        try:
            try:
                for entry in entries:
                    self._keep(entry)
            finally:
                if self._own is not None:
                    self._own.sync()
        except _REFUSED as fault:
            _log.warning("Turns that wait are kept in memory only: %s", fault)
        for entry in entries:
            if entry.record is not None and entry.open is not None:
                entry.open.erase()
        self._note()

    def _refuse(self) -> None:
        """Give up what is beyond the bound: the newest, so that what is kept stays without a gap."""
        commits = [entry for entry in self._queue if isinstance(entry.step, Commit)]
        for entry in commits[self.most :]:
            if entry.record is None:
                error = LostError(f"This turn is lost: {self.most:,} turns wait already. {self.fault}")
                self._end(entry, error)
                entry.future.set_exception(error)

    def _keep(self, entry: Entry) -> None:
        also = tuple(write for write in entry.also if isinstance(write, get_args(Companion)))
        if len(also) < len(entry.also):
            _log.warning(
                "A hook's own write waits in memory only; use the records of edgemem.store.turn_steps."
            )
        try:
            entry.id, entry.record = self._put(entry.step, also)
        except InvalidInputError as error:
            _log.warning("%s It waits in memory only.", error)

    def _put(self, step: Step, also: tuple[Companion, ...] = ()) -> tuple[int, Record]:
        number = self.database.clock.tick()
        line = _Line(number, step, also)
        try:
            text = msgspec.json.encode(line)
        except (TypeError, ValueError, RecursionError):
            # Half of a sign, or what JSON has not: it is made plain, or refused.
            text = to_json(line, what="A turn").encode()
        return number, self._spool().put(text)

    # The files, on the writer thread

    def _spool(self) -> Spool:
        """Return this process's spool; raise StoreError where there can be none."""
        if self._own is None:
            self._witness()
            self._own = Spool.create(self.database.path, self.room)
            self._spools.append(self._own)
        self._own.reserve(self.room)
        return self._own

    def _witness(self) -> None:
        """Have the clock know all that was ever put into a spool, so that what is put from now on is newer."""
        sql = "select coalesce(max(value), 0) from meta where key >= 'spool:' and key < 'spool;'"
        self.database.clock.witness(int(self.database.query(sql)[0][0]))

    def _tidy(self) -> None:
        """Let go of the files that others have left: all that stood in them is written."""
        if self.fault is not None:
            _log.warning("All turns that had to wait are written.")
            self.fault = None
        self._note()
        for spool in self._spools:
            if spool is not self._own:
                self._let_go(spool)
        self._spools = [] if self._own is None else [self._own]

    def _let_go(self, spool: Spool) -> None:
        """Close a file in which nothing stands any more, and remove it unless its room is kept for the next process."""
        try:
            if not spool.stays:
                aside = f"{self.database.path.name}.damaged-{self.database.clock.tick():020d}"
                spool.remove(spool.path.with_name(aside))
        except _REFUSED as error:
            _log.warning("A file whose turns are all written could not be removed: %s", error)
        spool.close()

    def _note(self) -> None:
        """Let other processes know how many turns are only in memory."""
        if self._own is not None:
            self._own.note(self.backlog().unkept)

    def _others(self) -> list[Path]:
        mine = {spool.path for spool in self._spools}
        return [path for path in spool_paths(self.database.path) if path not in mine]


def _entries_in(spool: Spool) -> list[Entry]:
    """Return the steps that a process which is gone has left; of an open turn that stands there twice, the newer one."""
    lines: list[tuple[_Line, Record]] = []
    for record in spool.read():
        if (line := _line_of(record.text)) is None:
            spool.damaged = True
        else:
            lines.append((line, record))
    steps: list[Entry] = []
    opened: dict[int, OpenTurn] = {}
    for line, record in sorted(lines, key=lambda pair: pair[0].id):
        if not isinstance(line.step, Accept) or line.step.tick is None:
            steps.append(Entry(line.step, line.also, id=line.id, record=record))
            continue
        turn = OpenTurn(line.step.turn, line.step.tick, record, ended=True)
        if turn.tick in opened:
            opened[turn.tick].erase()
        opened[turn.tick] = turn
    return [*steps, *(Entry(Accept(turn.turn, turn.tick), open=turn) for turn in opened.values())]


def _line_of(text: bytes) -> _Line | None:
    """Return what a record says; an earlier version kept open turns without a line around them. None: it is damaged."""
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(text, type=_Line)
    with suppress(msgspec.DecodeError):
        accept = msgspec.json.decode(text, type=Accept)
        return _Line(accept.tick or 0, accept)
    return None
