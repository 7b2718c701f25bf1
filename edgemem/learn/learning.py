"""Learning: what a learner is, how far each has come, and what they have learnt, to see and to undo.

A learner reads what is new since its cursor, an id of a row, makes something of it outside the writer's thread, and in one transaction
writes that and moves the cursor. A kill before is as if it had not begun, and of two processes only one moves the cursor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, get_args

from edgemem.config import LearnerName
from edgemem.errors import InvalidInputError, ThoughtNotFoundError
from edgemem.learn.reflections import SOURCE
from edgemem.store.facts import TALK, undo_fact
from edgemem.store.rights import reading_rule
from edgemem.store.thoughts import change_thought, put_mark, read_thoughts
from edgemem.store.validation import checked_text, item_count
from edgemem.thoughts import LifecycleStatus, ThoughtType

if TYPE_CHECKING:
    from edgemem.config import Settings
    from edgemem.learn.extraction import Extractor
    from edgemem.records import Reader
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Tables, Transaction
    from edgemem.thoughts import ThoughtRecord

UNDONE = "undone"
"""In the metadata of a fact's mark: somebody took it back, and it is not learnt again."""
_LOG = """
  select name from (
    select 'fact:' || id as name, id from facts where source = :talk and id = origin and value is not null and {rule}
    union all select name, id from stored_thoughts
      where type = 'REFLECTION' and lifecycle <> 'ARCHIVED' and source between :source and :source || '~' and {rule}
  ) order by id desc limit :limit
"""


class Learner(Protocol):
    """What makes something of what was said and done."""

    @property
    def name(self) -> str:
        """Return its name in the profile, or another one of your own."""
        ...

    def step(self, stop: Callable[[], bool]) -> bool:
        """Do a piece of at most 20 ms, unless `stop` is true; tell whether there was any."""
        ...


class Learning:
    """The learners of a memory, those that the profile names."""

    def __init__(
        self, database: Database, settings: Settings, learners: Sequence[Learner], extractors: list[Extractor]
    ) -> None:
        self._database, self._settings, self._learners = database, settings, [*learners]
        self.extractors = extractors
        """What finds facts in talk; none comes with edgemem: append yours."""

    def add(self, learner: Learner) -> None:
        """Let a learner of your own learn beside edgemem's, whatever the profile names."""
        if any(learner.name in (other.name, *get_args(LearnerName)) for other in self._learners):
            raise InvalidInputError(
                f"There is a learner {learner.name!r:.40} already; give yours another name."
            )
        self._learners.append(learner)

    def step(self, stop: Callable[[], bool]) -> bool:
        """Do one piece of learning; tell whether there was any. A learner that fails keeps no other from learning."""
        if self._database.read_only:
            return False
        off = {*get_args(LearnerName)}.difference(self._settings.now.learn.learners)
        fault: Exception | None = None
        for learner in (learner for learner in self._learners if learner.name not in off):
            try:
                if learner.step(stop):
                    return True
            except Exception as error:  # noqa: BLE001, PERF203 - of anybody's learner
                fault = error
        if fault is not None:
            raise fault
        return False

    def now(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Learn all that there is to learn, until `stop` is true."""
        while not stop() and self.step(stop):
            pass

    def log(self, *, reader: Reader | None = None, limit: int = 100) -> list[ThoughtRecord]:
        """Return what was learnt and not undone, the newest first: facts told by the way, and reflections.

        Args:
            reader: who asks, and who else hears it; None: the operator.
        """
        rule, values = reading_rule(reader)
        values |= {"talk": TALK, "source": SOURCE, "limit": item_count(limit, "limit")}
        names = [name for (name,) in self._database.query(_LOG.format(rule=rule), values)]
        thoughts = read_thoughts(self._database, names, reader=reader)
        return [
            thoughts[name] for name in names if name in thoughts and not thoughts[name].metadata.get(UNDONE)
        ]

    def undo(self, thought_id: str) -> None:
        """Take back what was learnt, by its id in the log; it is not learnt again, and a fact has the value again that it had before.

        Raises:
            ThoughtNotFoundError: nothing of this id was learnt.
        """
        checked_text(thought_id, "the id of what was learnt")
        self._database.write(partial(_undo, thought_id=thought_id))


def cursor_of(db: Tables, learner: str) -> int:
    """Return the id of the last row that a learner has read; 0: none."""
    rows = db.query("select value from meta where key = ?", (f"{SOURCE}{learner}",))
    return int(rows[0][0]) if rows else 0


def move_cursor(tx: Transaction, learner: str, *, before: int, after: int) -> bool:
    """Note that a learner has read until a row; False where another process moved the cursor, so that nothing may be written."""
    if cursor_of(tx, learner) != before:
        return False
    tx.execute("insert or replace into meta values (?, ?)", (f"{SOURCE}{learner}", after))
    return True


def _undo(tx: Transaction, thought_id: str) -> None:
    thought = read_thoughts(tx, [thought_id]).get(thought_id)
    if thought is None or not _is_learnt(tx, thought):
        raise ThoughtNotFoundError(
            f"Nothing was learnt under {thought_id!r:.80}; `edgemem learn log` lists the ids."
        )
    if thought.thought_type is ThoughtType.REFLECTION:
        # Pinned, so that retention does not collect it.
        change_thought(tx, thought_id, {"lifecycle_status": LifecycleStatus.ARCHIVED, "pinned": True})
        return
    undo_fact(tx, int(thought_id.partition(":")[2]))
    put_mark(tx, thought_id, metadata={**thought.metadata, UNDONE: True})


def _is_learnt(tx: Transaction, thought: ThoughtRecord) -> bool:
    kind, _, number = thought.thought_id.partition(":")
    if kind != "fact":
        return thought.source.startswith(SOURCE)
    return tx.query("select source from facts where id = ?", (int(number),)) == [(TALK,)]
