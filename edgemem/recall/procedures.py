"""Procedures: what was learnt of how things are done, suggested for a task, best first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.store import procedures
from edgemem.store.validation import checked_text, item_count

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from edgemem.recall.recall import Recall
    from edgemem.records import Procedure, Reader
    from edgemem.store.db.database import Database
    from edgemem.store.erase.eraser import Forgotten

LEAST = 0.2
"""How relevant a procedure must be, 0 to 1, or it is not suggested, however often it succeeded."""
_CONSIDERED = 32
"""The most relevant ones, among which those that succeed more come first."""


class Procedures:
    """The procedures of a memory. Without a reader, its methods are the operator's view.

    Args:
        recall: finds them.
        forget: erases one by its id.
    """

    def __init__(self, database: Database, recall: Recall, *, forget: Callable[[str], Forgotten]) -> None:
        self._database = database
        self._recall = recall
        self._forget = forget

    def store(self, procedure: Procedure) -> None:
        """Store a procedure in place of an older one of its id.

        Its counts never shrink by that: of each, the higher one stays. Without a level, the household may read what a
        recognised speaker taught (`heard`), and anybody the rest.

        Raises:
            InvalidInputError: it is none, has too many steps, or a part of it is too long.
        """
        self._database.write(lambda tx: procedures.put_procedure(tx, procedure))

    def suggest(
        self,
        query: str,
        *,
        top_k: int = 3,
        reader: Reader | None = None,
        tools: Collection[str] | None = None,
    ) -> list[Procedure]:
        """Return at most `top_k` procedures for a task, best first: by relevance times how likely they are to succeed.

        Args:
            query: what shall be done.
            reader: who will hear of them; None: the operator.
            tools: the names of those that there are; who needs another one is left out. None: all that is needed is there.
        """
        fitting = self.fitting(query, reader=reader, tools=tools, least=LEAST)
        return [procedure for _, procedure in fitting][: item_count(top_k, "top_k")]

    def fitting(
        self,
        query: str,
        *,
        reader: Reader | None,
        tools: Collection[str] | None,
        least: float,
        deadline_s: float | None = None,
    ) -> list[tuple[int, Procedure]]:
        """Return the procedures for a task, best first, each with the id of its row.

        Args:
            least: how relevant it must be, 0 to 1.
            deadline_s: answer after this many seconds with what there is.
        """
        items = self._recall.recall(
            checked_text(query, "the query"),
            reader=reader,
            k=_CONSIDERED,
            kinds={"procedure"},
            min_score=least,
            deadline_s=deadline_s,
        )
        known = procedures.read_rows(self._database, [int(item.id) for item in items], reader=reader)
        fitting = [
            (item.score * known[row].expected_success, item.score, row)
            for item in items
            if (row := int(item.id)) in known
            and (tools is None or {step.tool_name for step in known[row].steps}.issubset(tools))
        ]
        return [(row, known[row]) for _, _, row in sorted(fitting, reverse=True)]

    def exist(self) -> bool:
        """Tell whether the newest recall saw any procedure; asks nothing."""
        return self._recall.holds("procedures")

    def record_outcome(self, proc_id: str, *, success: bool) -> bool:
        """Count a success or a failure; tell whether there is a procedure of this id."""
        return self._database.write(lambda tx: procedures.record_outcome(tx, proc_id, success=bool(success)))

    def get(self, proc_id: str, *, reader: Reader | None = None) -> Procedure | None:
        """Return a procedure by its id; None: there is none that the reader may read."""
        return procedures.read_procedure(self._database, proc_id, reader=reader)

    def list(self, n: int = 100, *, reader: Reader | None = None) -> list[Procedure]:
        """Return those that were stored last, newest first."""
        return procedures.list_procedures(self._database, n, reader=reader)

    def count(self, *, reader: Reader | None = None) -> int:
        """Return how many there are."""
        return procedures.count_procedures(self._database, reader=reader)

    def forget(self, proc_id: str) -> Forgotten:
        """Erase a procedure, from every file too; what is returned is true if there was one, as of `Memory.forget`."""
        return self._forget(proc_id)
