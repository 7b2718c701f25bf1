"""Procedures in the block: one that worked before is proposed for a request that fits it, and its outcome is counted."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from edgemem.context.size import TokenCache
from edgemem.fence import CLOSE, OPEN, clean
from edgemem.records import BlockLine, Procedure
from edgemem.session.log import Moment, SessionLog
from edgemem.session.points import short_text
from edgemem.store.turn_steps import CountOutcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.context.budget import Budget
    from edgemem.store.db.database import Database
    from edgemem.store.procedures import Procedures

LEAST = 0.5
"""How relevant a procedure must be, 0 to 1, to be proposed unasked: likelier to be wanted than not."""
LINE_CHARS = 480
"""A procedure that takes more characters is not proposed: half of it would mislead."""
_VALUE_CHARS = 80
_DEADLINE_S = 0.05
"""The question was embedded for recall a moment ago, so this is only spent where that came late."""

_SECTION = "procedure"


class Proposals:
    """Proposes at most one procedure a turn, in the newest user message, within what the memory block leaves of its budget.

    It fits only if all its tools are offered. Its outcome is counted with the turn: a success if its steps ran in order and
    each worked in the end, a failure if one of them failed, and nothing where the model did something else.
    """

    name = "procedures"

    def __init__(
        self,
        procedures: Procedures,
        database: Database,
        *,
        exist: Callable[[], bool],
        budget: Budget,
        sizes: TokenCache,
    ) -> None:
        """Make the part.

        Args:
            database: keeps the procedures; outcomes are counted where it keeps the session too.
            exist: tells whether there are any, and costs nothing.
            budget: says how many tokens the memory block may take.
            sizes: counts them.
        """
        self._procedures = procedures
        self._database = database
        self._exist = exist
        self._budget = budget
        self._sizes = sizes
        self._proposed: Procedure | None = None
        self._runs: list[tuple[str, bool]] = []
        self._lock = threading.Lock()

    def propose(self, moment: Moment) -> None:
        """Propose before the first call of the model."""
        if not moment.is_first_hop or moment.log.is_detached:
            return
        self._proposed, self._runs = None, []
        line = self._chosen(moment.log, moment.payload.get("tools")) if self._exist() else None
        if line is not None:
            moment.log.prompt_log.put(_SECTION, [line], tokens=self._sizes.tokens(f"{line.line}\n"))

    def note(self, moment: Moment) -> None:
        """Note how a tool went."""
        self._note(moment.log, str(moment.payload.name), ok=moment.payload.error is None)

    def _chosen(self, log: SessionLog, tools: Any) -> BlockLine | None:
        """Choose a procedure; return the line that tells of it, unless the prompt holds that already."""
        prompt_log = log.prompt_log
        offered = {str(tool.get("function", tool).get("name")) for tool in tools or ()}
        if not offered or not prompt_log.utterance.strip():
            return None
        visible = prompt_log.committed().visible
        for row, procedure in self._procedures.fitting(
            prompt_log.utterance,
            reader=prompt_log.reader,
            tools=offered,
            least=LEAST,
            deadline_s=_DEADLINE_S,
        ):
            name = f"procedure:{row}"
            text = told_text(procedure)
            if not procedure.steps or len(text) > LINE_CHARS:
                continue
            line = BlockLine(name, f"- {text}", procedure.level or "household", procedure.owner)
            if name in visible or self._has_room(prompt_log.sections, line):
                self._proposed = procedure
                return None if name in visible else line
        return None

    def _has_room(self, sections: Any, line: BlockLine) -> bool:
        memory, count = sections.get("memory"), self._sizes.tokens
        taken = memory.tokens if memory is not None and memory.lines else count(f"{OPEN}\n") + count(CLOSE)
        return taken + count(f"{line.line}\n") <= self._budget.plan["memory"]

    def _note(self, log: SessionLog, tool: str, *, ok: bool) -> None:
        proposed = self._proposed
        if proposed is None or not log.is_kept_in(self._database):
            return
        with self._lock:  # some frameworks run several tools at once, each in a thread
            self._runs.append((tool, ok))
            success = went_well(proposed, self._runs)
            log.turn_writes[:] = [step for step in log.turn_writes if not isinstance(step, CountOutcome)]
            if success is not None:
                log.turn_writes.append(CountOutcome(proposed.id, success))


def went_well(procedure: Procedure, runs: Sequence[tuple[str, bool]]) -> bool | None:
    """Tell from the tools that ran whether a procedure succeeded; None: it was not followed, or not to its end.

    A step that failed and worked when it was tried again has worked.
    """
    left = [step.tool_name for step in procedure.steps]
    tools, failed = set(left), False
    for tool, ok in runs:
        if left and tool == left[0] and ok:
            del left[0]
        failed = failed or (tool in tools and not ok)
    return True if not left else False if failed else None


def told_text(procedure: Procedure) -> str:
    """Return what a model is told of a procedure, on one line."""
    steps = []
    for step in procedure.steps:
        given = (f"{name}: {short_text(value, _VALUE_CHARS)}" for name, value in step.args_template.items())
        steps.append(f"{step.tool_name}({', '.join(given)})")
    uses = procedure.total_uses
    worked = f"worked {procedure.success_count} of {uses} times" if uses else "not tried yet"
    text = f"a way to {procedure.trigger or procedure.name}: {', then '.join(steps)} ({worked})"
    return clean(text, max_chars=LINE_CHARS + 1)
