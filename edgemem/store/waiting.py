"""A waiting step: what the outbox holds of each, how it stands in the pending file, and how it is written once.

A step that stands in a file has a mark. The transaction that writes the step writes the mark too, with the result, so
that a file which is read again after a crash brings nothing twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from operator import attrgetter
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from edgemem.errors import InvalidInputError
from edgemem.store.messages import to_json
from edgemem.store.open_file import OpenFile
from edgemem.store.pending_file import PendingFile
from edgemem.store.turn_steps import Accept, Companion, Step

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from edgemem.store.own_file import OwnFile
    from edgemem.store.transaction import Transaction

Also = Callable[[Any], Any]
"""A further write for the transaction of a step."""

MARK = "pending:"

_log = logging.getLogger(__name__)


class _Result(Future[Any]):
    """What a step will give, and which step that was."""

    id = 0


class _Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step as it stands in the file."""

    id: int
    step: Step
    also: tuple[Companion, ...] = ()
    of: int | None = None
    """The id of the step that has its turn's number."""
    known: int | None = None
    """That number, where it was known."""


class Waiting:
    """A step on its way.

    Args:
        number: tells it from the others of its outbox.
        also: further writes for the same transaction.
        of: the future of the step whose result this one needs.
        durable: as for `Database.submit`.
    """

    def __init__(
        self,
        number: int,
        step: Step,
        *,
        also: Sequence[Also] = (),
        of: Future[Any] | None = None,
        durable: bool = True,
    ) -> None:
        self.id = number
        self.step = step
        self.also = tuple(also)
        self.of = of
        self.durable = durable
        self.future = _Result()
        self.future.id = number
        self.late = False
        """Whether it was impossible once."""
        self.mark = ""
        """Under which name the truth says that it is done; empty: it stands in no file."""
        self._claimed = False

    def claim(self) -> bool:
        """Make it one that cannot be cancelled any more; return False if it was."""
        self._claimed = self._claimed or self.future.set_running_or_notify_cancel()
        return self._claimed

    def write(self, tx: Transaction) -> Any:
        """Do the step, unless its mark says that it is done."""
        if self.mark:
            done = tx.execute("select value from meta where key = ?", (self.mark,))
            if done:
                return done[0][0]
        result = self.step.run(tx, _number(self.of))
        for write in self.also:
            write(tx)
        if self.mark:
            tx.execute("insert into meta values (?, ?)", (self.mark, None if result is None else int(result)))
        return result

    def put_into(self, file: PendingFile) -> None:
        """Have it stand in a file too, if JSON can hold it; raise OSError where the disk refuses."""
        also = tuple(write for write in self.also if isinstance(write, get_args(Companion)))
        if len(also) < len(self.also):
            _log.warning(
                "A hook's own write waits in memory only; use the records of edgemem.store.turn_steps."
            )
        known = _number(self.of)
        of = self.of.id if known is None and isinstance(self.of, _Result) else None
        try:
            text = to_json(_Line(self.id, self.step, also, of, known), what="A turn")
        except InvalidInputError as error:
            _log.warning("%s It waits in memory only.", error)
            return
        file.append(text.encode())
        self.mark = _mark(file.own, self.id)


def left_behind(database: Path, ids: Iterator[int]) -> tuple[list[OwnFile], list[Waiting]]:
    """Take over what processes that are gone have left: their files, and the steps in them in the order of writing.

    Of a pending file that is damaged nothing is taken: its steps build on one another.

    Args:
        ids: the numbers that the steps get.
    """
    pending, still_open = PendingFile.left(database), OpenFile.left(database)
    steps = [step for file in pending for step in _waiting_in(file, ids)]
    accepted = [step for file in still_open for text in file.read() for step in _accepted_in(text, file)]
    # Behind what had ended, as turns stand in the order in which they end.
    steps += [Waiting(next(ids), step) for step in sorted(accepted, key=attrgetter("tick"))]
    return [*(file.own for file in pending), *(file.own for file in still_open)], steps


def _waiting_in(file: PendingFile, ids: Iterator[int]) -> list[Waiting]:
    try:
        lines = [msgspec.json.decode(text, type=_Line) for text in file.read()]
    except msgspec.DecodeError:
        file.own.damaged = True
        return []
    found: dict[int, Waiting] = {}
    for line in lines:
        of: Future[Any] | None = found[line.of].future if line.of in found else None
        if line.known is not None:
            of = Future()
            of.set_result(line.known)
        found[line.id] = waiting = Waiting(next(ids), line.step, also=line.also, of=of)
        waiting.mark, waiting.late = _mark(file.own, line.id), True
    return list(found.values())


def _accepted_in(text: bytes, file: OpenFile) -> list[Accept]:
    try:
        return [msgspec.json.decode(text, type=Accept)]
    except msgspec.DecodeError:
        file.own.damaged = True
        return []


def _number(written: Future[Any] | None) -> int | None:
    """Return the number that an earlier step gave a turn; None if that step failed, or never was."""
    if written is None or not written.done() or written.cancelled() or written.exception() is not None:
        return None
    number: int | None = written.result()
    return None if number is None else int(number)


def _mark(file: OwnFile, number: int) -> str:
    return f"{MARK}{file.path.name}:{number}"
