"""The hooks and tools of an async memory: what an async loop awaits at each point of a turn, and what it may leave unawaited."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial, wraps
from inspect import iscoroutinefunction
from typing import Any

import msgspec

from edgemem.aio.worker import Worker
from edgemem.errors import ClosedError, InvalidInputError
from edgemem.hooks.builtin import UpkeepHook
from edgemem.hooks.shared import task_of
from edgemem.records import Session
from edgemem.session import registry
from edgemem.session.points import (
    BEFORE_LLM,
    ON_ABORT,
    ON_IDLE,
    ON_PARTIAL,
    ON_RUN_END,
    ON_RUN_START,
    Hook,
    HookResult,
)
from edgemem.session.registry import HookFailure, hook_name
from edgemem.session.tools import Tool
from edgemem.session.upkeep import Upkeep


class HookRegistry:
    """The hooks of one session for an async loop: they act one after the other on the thread of the memory's turns.

    While a point is awaited, its context and payload belong to the hooks: let nothing else change them. Hooks are plain
    functions; what a loop has to await itself stands before or behind its `fire`. To cancel a turn before the model is
    called is to abort it (`fire` tells more).
    """

    def __init__(self, worker: Worker, hooks: Iterable[Hook] = ()) -> None:
        self._worker = worker
        self._hooks = registry.HookRegistry()
        self._lock = threading.Lock()
        self._partial: list[tuple[Any, Any]] | None = None
        """The newest half-heard sentence, while it waits and nothing was fired behind it."""
        self.extend(hooks)

    def register(
        self, hook: Hook, *, priority: int | None = None, fail_closed: bool | None = None
    ) -> HookRegistry:
        """Add a hook, as the registry of a synchronous loop does.

        Raises:
            InvalidInputError: it is no hook, or a coroutine.
        """
        if iscoroutinefunction(hook) or iscoroutinefunction(type(hook).__call__):
            raise InvalidInputError(
                f"{hook_name(hook)} is a coroutine, and hooks run on the memory's own thread; write a plain function,"
                " and await before or behind fire()."
            )
        self._hooks.register(hook, priority=priority, fail_closed=fail_closed)
        return self

    def extend(self, hooks: Iterable[Hook]) -> HookRegistry:
        """Add several hooks, and return the registry; those of another one keep the priority that they have there."""
        if isinstance(hooks, (HookRegistry, registry.HookRegistry)):
            self._hooks.extend(hooks._hooks if isinstance(hooks, HookRegistry) else hooks)
        else:
            for hook in hooks:
                self.register(hook)
        return self

    def __contains__(self, point: object) -> bool:
        """Tell whether any hook acts at a point."""
        return point in self._hooks

    def __iter__(self) -> Iterator[Hook]:
        return iter(self._hooks)

    def __len__(self) -> int:
        return len(self._hooks)

    def failures(self) -> list[HookFailure]:
        """Return what went wrong so far, most frequent first."""
        return self._hooks.failures()

    async def fire(self, point: str, ctx: Any, payload: Any) -> HookResult:
        """Call the hooks of a point and return what they agree on.

        A task that is cancelled while it waits here for `before_llm`, or a begun `on_run_start`, aborts its turn, as `abort` does,
        once the hooks have returned. At the other points the hooks go on.

        At `on_idle` upkeep has the payload's `seconds` on its own thread; other hooks have none.

        Raises:
            InvalidInputError: there is no such point.
            ClosedError: the memory is closed.
        """
        self._partial = None

        def give_up(begun: bool) -> None:
            if point == BEFORE_LLM or (point == ON_RUN_START and begun):
                self.abort(ctx)

        result = await self._worker.run("turn", partial(self._act, point, ctx, payload), given_up=give_up)
        if point == ON_IDLE:
            for hook in self._hooks:
                if isinstance(hook, UpkeepHook):
                    work = partial(hook.part.upkeep.run, float(payload.get("seconds", 0.0)), yielding=True)
                    await run_upkeep(self._worker, hook.part.upkeep, work)
        return result

    def post(self, point: str, ctx: Any, payload: Any) -> None:
        """Have the hooks of a point called, behind all that was asked for before, and return at once.

        Call it from any thread, such as that of a recogniser. Of half-heard sentences (`on_partial`) that come faster than
        they are taken, only the newest waits. `on_idle` just tells that nobody speaks.

        Raises:
            ClosedError: the memory is closed.
        """
        if point != ON_PARTIAL:
            self._partial = None
            self._worker.submit("turn", partial(self._act, point, ctx, payload))
            return
        with self._lock:
            waiting = self._partial
            if waiting:
                waiting[0] = (ctx, payload)
                return
            newest = [(ctx, payload)]
            self._worker.submit("turn", partial(self._hear, newest))
            self._partial = newest

    def _hear(self, waiting: list[tuple[Any, Any]]) -> None:
        with self._lock:
            newest = waiting.pop()
        self._act(ON_PARTIAL, *newest)

    def abort(self, ctx: Any) -> None:
        """Throw the prepared turn away without a trace, and return at once.

        What the loop has put into its session since `on_run_start` is taken out of it. Nothing happens where the turn has
        ended, or the memory is closed.
        """
        session = session_of(ctx)
        turn = session.messages[session.state.get(_OPEN, len(session.messages)) :]

        def discard() -> None:
            if _OPEN not in session.state:
                return
            self._act(ON_ABORT, ctx, {})
            for message in turn:  # one by one, for the loop may have gone on meanwhile
                at = next((n for n, kept in enumerate(session.messages) if kept is message), None)
                if at is not None:
                    del session.messages[at]

        with suppress(ClosedError):
            self._worker.submit("turn", discard, though_closed=True)

    def _act(self, point: str, ctx: Any, payload: Any) -> HookResult:
        session = session_of(ctx)
        if point == ON_RUN_START:
            session.state[_OPEN] = heard_before(session, payload)
        elif point == ON_IDLE:
            payload = {**payload, "seconds": 0.0, "stop": lambda: True}
        elif point == BEFORE_LLM:
            session.state.setdefault(_OPEN, len(session.messages))
        result = self._hooks.fire(point, ctx, payload)
        if point == ON_RUN_START:  # a hook may have taken the session up
            session.state[_OPEN] = heard_before(session, payload)
        elif point in (ON_RUN_END, ON_ABORT):
            session.state.pop(_OPEN, None)
        return result


_OPEN = "__aio_before"
"""Where a session's state keeps how many messages came before the prepared turn; such names are never stored."""


async def run_upkeep(worker: Worker, upkeep: Upkeep, work: Callable[..., bool]) -> bool:
    """Return what `work(stop=…)` returns, which ends when nobody waits for it, somebody speaks or the memory is closed."""
    given_up = threading.Event()

    def give_up(_: bool) -> None:
        given_up.set()
        # Also what a model computes at this moment.
        upkeep.hold(given_up)
        upkeep.release(given_up)

    def stop() -> bool:
        return given_up.is_set() or worker.closed

    return await worker.run("idle", partial(work, stop=stop), given_up=give_up)


def session_of(ctx: Any) -> Session:
    """Return a loop's session; an empty one where a loop has none for hooks to look at."""
    try:
        session: Session = ctx.session
    except AttributeError:
        return Session()
    return session


def heard_before(session: Session, payload: Any) -> int:
    """Return how many messages come before a turn that begins; some loops note its utterance before they tell of it."""
    messages = session.messages
    return len(messages) - (messages[-1:] == [{"role": "user", "content": task_of(payload)}])


def async_tools(worker: Worker, tools: Iterable[Tool]) -> list[Tool]:
    """Return tools whose `run` is a coroutine."""
    return [msgspec.structs.replace(tool, run=_awaited(worker, tool.run)) for tool in tools]


def _awaited(worker: Worker, run: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(run)
    async def call(*args: Any, **kwargs: Any) -> Any:
        return await worker.run("turn", partial(run, *args, **kwargs))

    return call
