"""Proposals: a way to do a task that worked before, a warning of one that keeps failing, and how the ways of a turn went."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgemem.context.block.render import HERE, Today, day_of
from edgemem.context.budget import TokenCache
from edgemem.fence import BULLET, CLOSE, OPEN, clean
from edgemem.recall.text.analyse import language_in
from edgemem.records import BlockLine, Episode, Procedure, ProcedureStep, Reader
from edgemem.scopes import most_private
from edgemem.session.log import Moment, SessionLog
from edgemem.session.memory_block import beside_budget
from edgemem.session.points import ToolCallResult, short_text
from edgemem.store.episodes import TOOL_CALL, happened_at, recent_episodes
from edgemem.store.turn_steps import CountOutcome

if TYPE_CHECKING:
    from edgemem.context.budget import Budget
    from edgemem.context.prompt import PromptLog
    from edgemem.store.db.database import Database
    from edgemem.store.procedures import Procedures

LEAST = 0.2
"""How relevant a procedure must be, 0 to 1, to be told of unasked; outcomes are counted of all that fit."""
FAILURES = 3
"""Failures in a row after which a procedure is no way any more: one or two may be chance."""
PROCEDURE_CHARS = 480  # a longer procedure is not proposed: half of it would mislead
_VALUE_CHARS = 80  # of an argument, or of an error
_MOST_NEWS = 3  # lines beside the way
_CALLS = 64  # newest calls of tools, among which the last failure of a procedure is looked for
_DEADLINE_S = 0.05
"""The question was embedded for recall a moment ago, so this is only spent where that came late."""
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class Proposals:
    """Tells in the newest user message of at most one way a turn, within what the memory block leaves of its budget.

    A way fits only if all its tools are offered. One that keeps failing is told as a warning instead. What the prompt holds is told
    again once it is no longer so, as where an untried way was tried.

    Args:
        database: keeps the procedures; outcomes are counted where it keeps the session too.
        exist: tells whether there are any, and costs nothing.
        today: tells what day it is, and where.
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
        today: Callable[[], Today],
    ) -> None:
        self._procedures = procedures
        self._database = database
        self._exist = exist
        self._budget = budget
        self._sizes = sizes
        self._today = today
        self._fitting: list[Procedure] = []
        self._calls: list[ToolCallResult] = []
        self._lock = threading.Lock()

    def propose(self, moment: Moment) -> None:
        """Propose and warn before the first call of the model."""
        if moment.prompt.hop > 0 or moment.log.is_detached:
            return
        self._fitting, self._calls = [], []
        lines = self._lines(moment.log, moment.prompt.tools) if self._exist() else []
        if lines:
            tokens = sum(self._sizes.tokens(f"{line.line}\n") for line in lines if line.line)
            moment.log.prompt_log.put("procedure", lines, tokens=tokens)

    def note(self, moment: Moment) -> None:
        """Note how a tool went, and count how each procedure that fits has gone so far."""
        log, payload = moment.log, moment.payload
        if not self._fitting or not log.is_kept_in(self._database):
            return
        with self._lock:  # some frameworks run several tools at once, each in a thread
            self._calls.append(ToolCallResult(str(payload.name), payload.arguments, error=payload.error))
            log.turn_writes[:] = [step for step in log.turn_writes if not isinstance(step, CountOutcome)]
            for procedure in self._fitting:
                success = went_well(procedure.steps, self._calls)
                if success is not None:
                    log.turn_writes.append(CountOutcome(procedure.id, success, log.prompt_log.session))

    def _lines(self, log: SessionLog, tools: Any) -> list[BlockLine]:
        """Return the lines that are new to the prompt; the way comes last, where a model heeds it most."""
        prompt_log = log.prompt_log
        offered = {str(tool.get("function", tool).get("name")) for tool in tools or ()}
        if not offered or not prompt_log.utterance.strip():
            return []
        found = self._procedures.fitting(
            prompt_log.utterance, reader=prompt_log.reader, tools=offered, deadline_s=_DEADLINE_S
        )
        self._fitting = [procedure for _, _, procedure in found if procedure.steps]
        visible, room = prompt_log.committed().visible, self._room(prompt_log.sections)
        news, way, way_is_new = list[BlockLine](), list[BlockLine](), False
        for relevance, row, procedure in found:
            before, state = visible.get(f"procedure:{row}"), state_of(procedure)
            is_new = before is None or before.value != state
            is_way = not way and state != "fails" and relevance >= LEAST
            is_news = is_new and (before is not None or (state == "fails" and relevance >= LEAST))
            if not procedure.steps or not (is_way or (is_news and len(news) < _MOST_NEWS)):
                continue
            lines = self._told(row, procedure, state, prompt_log)
            tokens = self._sizes.tokens(f"{lines[0].line}\n")
            if len(lines[0].line) > len(BULLET) + PROCEDURE_CHARS or tokens > room:
                continue
            room -= tokens
            if is_way:
                way, way_is_new = lines, is_new
            else:
                news += lines
        return [*news, *way] if news or way_is_new else []

    def _told(self, row: int, procedure: Procedure, state: str, prompt_log: PromptLog) -> list[BlockLine]:
        """Return the line about a procedure, and with it the episode from which a warning has its words."""
        level, owner = procedure.level or "household", procedure.owner
        failure = self._last_failure(procedure, prompt_log.reader) if state == "fails" else None
        if failure is not None:
            level, owner = most_private(level, failure.level or "household"), failure.owner or owner
        today = self._today()._replace(language=language_in(prompt_log.utterance))
        text = BULLET + told_text(procedure, failure, today)
        line = BlockLine(f"procedure:{row}", text, level, owner, value=state)
        return [line] if failure is None else [line, BlockLine(f"episode:{failure.id}", "", level, owner)]

    def _last_failure(self, procedure: Procedure, reader: Reader | None) -> Episode | None:
        """Return the newest call that failed as a step of a procedure, of those that the reader may read."""
        calls = recent_episodes(self._database, _CALLS, kind=TOOL_CALL, reader=reader, keep=0)
        for call in reversed(calls):
            made = call.payload.get("name"), call.payload.get("args")
            if call.outcome == "failed" and any(
                _taken(step, *made, {}) is not None for step in procedure.steps
            ):
                return call
        return None

    def _room(self, sections: Any) -> int:
        memory, count = sections.get("memory"), self._sizes.tokens
        taken, room = count(f"{OPEN}\n") + count(CLOSE), self._budget.plan["memory"]
        if memory is not None and memory.lines:
            taken, room = memory.tokens, room + beside_budget(memory.shown, count)
        return int(room - taken)


def state_of(procedure: Procedure) -> str:
    """Return what a prompt says of a procedure: `untried`, `works` or `fails`."""
    if not procedure.total_uses:
        return "untried"
    return "fails" if procedure.failures_in_a_row >= FAILURES else "works"


def went_well(steps: Sequence[ProcedureStep], calls: Sequence[ToolCallResult]) -> bool | None:
    """Tell whether the calls of a turn took all steps in order, repeated ones included; None: they took other ways.

    It failed if the last call of the step that was due failed. Other values of its placeholders begin it anew.
    """
    done, names, failed = 0, dict[str, Any](), False
    for call in calls:
        made = call.name, call.arguments
        first = _taken(steps[0], *made, {})
        if first is not None and any(name in names and names[name] != first[name] for name in first):
            done, names = 0, {}
        values = _taken(steps[done], *made, names)
        if values is None:
            continue
        failed = not call.ok
        if call.ok:
            done, names = done + 1, values
            if done == len(steps):
                return True
    return False if failed else None


def _taken(step: ProcedureStep, tool: Any, given: Any, names: Mapping[str, Any]) -> dict[str, Any] | None:
    return _filled(step.args_template, given, names) if step.tool_name == tool else None


def _filled(template: Any, given: Any, names: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the values of placeholders (`{room}`), `names` included, by which a template gives this value; None: by none.

    All else must be equal. An object may have more keys than its template.
    """
    values: dict[str, Any] | None = dict(names)
    if isinstance(template, str) and _PLACEHOLDER.search(template):
        found = _values_in(template, given)
        for name, value in found or ():
            values = values if values is not None and values.setdefault(name, value) == value else None
        return values if found else None
    pairs: list[tuple[Any, Any]] = []
    if isinstance(template, dict) and isinstance(given, Mapping) and template.keys() <= given.keys():
        pairs = [(part, given[key]) for key, part in template.items()]
    elif isinstance(template, list) and isinstance(given, list) and len(template) == len(given):
        pairs = list(zip(template, given, strict=True))
    elif template != given or isinstance(template, bool) != isinstance(given, bool):
        return None
    for part, value in pairs:
        values = None if values is None else _filled(part, value, values)
    return values


def _values_in(template: str, given: Any) -> list[tuple[str, Any]]:
    """Return what the placeholders of a text stand for; nothing where it is another text. One alone means any value."""
    begin, *rest = _PLACEHOLDER.split(template)
    if (begin, *rest[1:]) == ("", ""):
        return [(rest[0], given)]
    if not isinstance(given, str) or not given.startswith(begin):
        return []
    values, left = [], given[len(begin) :]
    for name, between in zip(rest[::2], rest[1::2], strict=True):
        value, found, left = left.partition(between) if between else (left, "", "")
        if not value or found != between:
            return []
        values.append((name, value))
    return values if not left else []


def told_text(procedure: Procedure, failure: Episode | None = None, today: Today = HERE) -> str:
    """Return the one line about a procedure for a model; one that keeps failing is a warning, with its last failure."""
    steps = []
    for step in procedure.steps:
        given = (f"{name}: {short_text(value, _VALUE_CHARS)}" for name, value in step.args_template.items())
        steps.append(f"{step.tool_name}({', '.join(given)})")
    way, goal, uses = ", then ".join(steps), procedure.trigger or procedure.name, procedure.total_uses
    if state_of(procedure) == "fails":
        text = f"a warning for {goal}: {way} failed {procedure.failures_in_a_row} times"
        if failure is not None:
            error = clean(short_text(failure.payload.get("error"), _VALUE_CHARS), max_chars=_VALUE_CHARS)
            text += f", last on {day_of(happened_at(failure), today, text=goal)}: {error}"
        return clean(text, max_chars=PROCEDURE_CHARS)
    worked = f"worked {procedure.success_count} of {uses} times" if uses else "not tried yet"
    return clean(f"a way to {goal}: {way} ({worked})", max_chars=PROCEDURE_CHARS + 1)
