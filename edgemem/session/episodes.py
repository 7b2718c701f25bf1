"""Episodes of tools: what each call did and how it went, in the transaction of its turn."""

from __future__ import annotations

import threading
import time
from typing import Any

import msgspec

from edgemem.context.messages import call_arguments, call_name
from edgemem.records import MEMORY_TOOLS, as_ours
from edgemem.session.log import Moment, SessionLog
from edgemem.session.points import TurnContext, short_text
from edgemem.store.episodes import TOOL_CALL
from edgemem.store.memory_store import TableMemoryStore
from edgemem.store.protocols import MemoryStore, abilities_of
from edgemem.store.spool import DeferredWrites
from edgemem.store.turn_steps import AddEpisode, RetellTurn

RESULT_CHARS = 500
"""A longer result or argument is cut in the episode; the session keeps the whole of it."""

MOST_ARGUMENTS = 16
"""Arguments that an episode keeps; with their longest names and values they stay below what a payload may have."""

NAME_CHARS = 64


class ToolEpisodes:
    """Logs the outcome of every tool call; in the turn's own transaction where the session is kept in SQLite.

    Where the session is kept in the same SQLite file they are written in the turn's own transaction, and a turn with several
    calls has one episode more that tells of all of them. Any other store that cannot be written now keeps no turn waiting:
    its episodes are written as soon as that is possible.
    """

    name = "episodes"

    def __init__(
        self,
        store: MemoryStore,
        agent_name: str = "",
    ) -> None:
        self.store = store
        self.agent_name = agent_name
        self._database = abilities_of(store).database
        self._later = DeferredWrites(store)
        self._begun: dict[str, float] = {}
        """When the calls began that run now; some frameworks run several at once, each in a thread."""
        self._lock = threading.Lock()

    def begin(self, moment: Moment) -> None:
        """Take the time at which a tool begins."""
        self._begun[_call(moment.payload)] = time.perf_counter()

    def end(self, moment: Moment) -> None:
        """Have all written that the store has not written yet."""
        if moment.log.is_kept_in(self._database):
            self._begun.clear()  # not at the end of an agent within a tool, whose conversation nobody keeps
            return
        ended, moment.log.ended = moment.log.ended, []
        self._later.retry()
        for step in ended:
            self._keep(step)
        self._later.settle(moment.log.commit_wait_s)

    def _keep(self, step: AddEpisode) -> None:
        """Write an episode into a store that does not keep the session."""
        level, owner = step.level, step.owner
        if level == "private" and not owner:
            return  # an unknown voice in private: no store keeps what nobody could ever be told
        store, of = self.store, (step.kind, step.payload, step.outcome)
        if isinstance(store, TableMemoryStore):
            whose: dict[str, Any] = {"heard": step.heard, "level": level, "owner": owner}
            # Nobody waits for a disk here; what is waited for at the end of the turn has a bound.
            self._later.write(
                lambda: store.add_episode(*of, agent=step.agent, latency_ms=step.latency_ms, **whose)
            )
        elif level != "private":
            # Such a store shows an episode to the whole household.
            store.add_episode(*of, agent=step.agent)

    def note(self, moment: Moment) -> None:
        """Keep the outcome of one call."""
        log, payload = moment.log, moment.payload
        now, begun = time.perf_counter(), self._begun.pop(_call(payload), None)
        latency_ms = None if begun is None else round((now - begun) * 1e3, 1)
        if payload.name in MEMORY_TOOLS:  # what they did is a fact already, and need not be an episode too
            return
        agent = self.agent_name or as_ours(moment.ctx, TurnContext).agent_name or ""
        outcome = "ok" if payload.error is None else "failed"
        record = {"name": payload.name[:NAME_CHARS], "args": _short_arguments(payload.arguments)}
        if payload.error is None:
            record["result"] = short_text(payload.result, RESULT_CHARS)
        else:
            record["error"] = short_text(payload.error, RESULT_CHARS)
        turn = log.prompt_log.running
        heard = turn.heard if turn is not None else None
        most = abilities_of(self.store).max_episodes
        step = AddEpisode(
            TOOL_CALL,
            record,
            outcome,
            agent=agent,
            heard=heard,
            keep=500 if most is None else most,
            session=log.prompt_log.session,
            latency_ms=latency_ms,
        )
        if turn is None:
            self._keep(msgspec.structs.replace(step, level="household"))
            return
        with self._lock:
            if log.is_kept_in(self._database):
                log.turn_writes.append(step)
                _retell(log, step)
            else:
                log.done.append(step)

    def keep_result(self, moment: Moment) -> None:
        """Keep the outcome of a call that answered after its turn."""
        late = moment.payload
        name, arguments = call_name(late.call), call_arguments(late.call)
        if name in MEMORY_TOOLS or (late.turn.answer == "private" and late.turn.owner is None):
            return
        record: dict[str, Any] = {"name": name[:NAME_CHARS], "result": short_text(late.text, RESULT_CHARS)}
        record["args"] = _short_arguments(arguments) if isinstance(arguments, dict) else {}
        agent = self.agent_name or as_ours(moment.ctx, TurnContext).agent_name or ""
        if isinstance(self.store, TableMemoryStore):
            whose: dict[str, Any] = {
                "heard": late.turn.heard,
                "level": late.turn.answer,
                "owner": late.turn.owner,
            }
            self._later.write(lambda: self.store.add_episode(TOOL_CALL, record, "ok", agent=agent, **whose))
            self._later.settle(moment.log.commit_wait_s)


class _Call(msgspec.Struct, frozen=True):
    id: str = ""


def _call(payload: Any) -> str:
    """Return what tells a call from others that run now; frameworks without ids run both points in its thread."""
    return as_ours(payload, _Call).id or str(threading.get_ident())


def _retell(log: SessionLog, of: AddEpisode) -> None:
    """Have the turn retold by one episode, once it has a second call."""
    calls = [step for step in log.turn_writes if isinstance(step, AddEpisode) and step.kind == TOOL_CALL]
    if len(calls) > 1:
        log.turn_writes[:] = [step for step in log.turn_writes if not isinstance(step, RetellTurn)]
        runs = [(step.payload["name"], step.outcome == "ok") for step in calls]
        log.turn_writes.append(RetellTurn(of.session, runs, of.agent, of.keep))


def _short_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with long values cut: a payload that is refused would take its turn with it."""
    kept: dict[str, Any] = {}
    for name, value in list(arguments.items())[:MOST_ARGUMENTS]:
        text = short_text(value, RESULT_CHARS)
        kept[str(name)[:NAME_CHARS]] = value if len(text) <= RESULT_CHARS else text
    return kept
