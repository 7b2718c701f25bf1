"""The door of a turn for async loops: each method of a conversation and of its turns is awaited."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from contextlib import suppress
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from edgemem.aio.worker import Face, Same, Worker, asynchronous
from edgemem.errors import ClosedError, TurnEndedError
from edgemem.hooks.list_prompt import ListPrompt
from edgemem.records import Message
from edgemem.session.conversation import Conversation
from edgemem.session.points import HookFailure
from edgemem.session.speech import Upkeep
from edgemem.session.tools import Tool
from edgemem.session.turn import ENDED, OpenTurn, calling_turn
from edgemem.store.validation import checked_amount

P = ParamSpec("P")
R = TypeVar("R")


def _threaded(
    method: Callable[Concatenate[OpenTurn, P], R],
) -> Callable[Concatenate[AsyncTurn, P], Coroutine[Any, Any, R]]:
    """Return a method of a turn that runs on a thread of its own: tools take long, and may wait for the loop."""

    @wraps(method)
    async def call(self: AsyncTurn, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(method, self._opened(), *args, **kwargs)

    return call


class AsyncTurn(Face[OpenTurn]):
    """One turn; it begins when it is awaited or entered. A task cancelled before it has `messages` throws it away."""

    def __init__(self, worker: Worker, begin: Callable[[], OpenTurn]) -> None:
        super().__init__(worker, self._opened)
        self._begin = begin
        self._turn: OpenTurn | None = None
        self._is_read = self._is_aborted = False

    @classmethod
    def wrap(cls, worker: Worker, turn: OpenTurn) -> AsyncTurn:
        """Return the face of a turn that has begun."""
        face = cls(worker, lambda: turn)
        face._turn, face._is_read = turn, True
        return face

    add = asynchronous(OpenTurn.add)
    reply = asynchronous(OpenTurn.reply)
    call = _threaded(OpenTurn.call)
    run_tool = _threaded(OpenTurn.run_tool)
    commit = asynchronous(OpenTurn.commit)
    tools = Same(OpenTurn.tools)
    now = Same(OpenTurn.now)

    @property
    def messages(self) -> Awaitable[list[Message]]:
        """Return, awaited, what the model reads."""
        return self._read()

    @property
    def hook_reply(self) -> str | None:
        """Return the reply that a hook gave; None: none did."""
        return self._opened().hook_reply

    @property
    def display(self) -> tuple[str, ...]:
        """Return the lines for a screen that memory or its tools kept out of what the model reads."""
        return self._opened().display

    @property
    def is_off_the_record(self) -> bool:
        """Tell whether nothing of the turn is kept."""
        return self._opened().is_off_the_record

    @property
    def is_open(self) -> bool:
        """Tell whether it goes on."""
        return not self._is_aborted if self._turn is None else self._turn.is_open

    def abort(self) -> Awaitable[None]:
        """Throw the turn away without a trace; this is asked for at once, and done when it is awaited. May be repeated."""
        return asyncio.wrap_future(self._worker.submit("turn", self._abort, though_closed=True))

    async def _read(self) -> list[Message]:
        messages = await self._worker.run("turn", lambda: self._opened().messages, given_up=self._drop)
        self._is_read = True
        return messages

    def _opened(self) -> OpenTurn:
        if self._turn is None:
            raise TurnEndedError("This turn has not begun; await it, or enter it with `async with`.")
        return self._turn

    def _abort(self) -> None:
        self._is_aborted = True
        if self._turn is not None and self._turn.is_open:
            self._turn.abort()

    def _drop(self, _: bool = True) -> None:
        if not self._is_read:
            with suppress(ClosedError):
                self._worker.submit("turn", self._abort, though_closed=True)

    async def _began(self) -> AsyncTurn:
        def begin() -> None:
            if self._is_aborted:
                raise TurnEndedError(ENDED)
            self._turn = self._begin()

        if self._turn is None:
            await self._worker.run("turn", begin, given_up=self._drop)
        return self

    def __await__(self) -> Generator[None, None, AsyncTurn]:
        return self._began().__await__()

    async def __aenter__(self) -> AsyncTurn:
        return await self._began()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, asyncio.CancelledError) and not self._is_read:
            self._drop()
            return
        leave = partial(self._opened().__exit__, kind, error, trace)
        # A commit that has begun is finished, also where its task gives up waiting.
        await asyncio.shield(asyncio.wrap_future(self._worker.submit("turn", leave)))


def _beginning(
    method: Callable[Concatenate[Conversation, P], OpenTurn],
) -> Callable[Concatenate[AsyncConversation, P], AsyncTurn]:
    @wraps(method)
    def turn(self: AsyncConversation, /, *args: P.args, **kwargs: P.kwargs) -> AsyncTurn:
        # The tool in which this task runs is known here, and not on the thread of the turns.
        outer = calling_turn() if kwargs.get("within") is None else kwargs["within"]
        inner: Any = {**kwargs, "within": outer._opened() if isinstance(outer, AsyncTurn) else outer}
        return AsyncTurn(self._worker, lambda: method(self._conversation, *args, **inner))

    return turn


def _prompting(
    method: Callable[Concatenate[ListPrompt, P], list[Any]],
) -> Callable[Concatenate[AsyncConversation, P], Coroutine[Any, Any, list[Any]]]:
    @wraps(method)
    async def prompt(self: AsyncConversation, /, *args: P.args, **kwargs: P.kwargs) -> list[Any]:
        return await self._worker.run("turn", lambda: method(self._list, *args, **kwargs))

    return prompt


class AsyncConversation(Face[Conversation]):
    """One agent's side of a session, for programs that run on an event loop; its steps have one thread."""

    def __init__(self, worker: Worker, conversation: Conversation) -> None:
        super().__init__(worker, lambda: conversation)
        self._conversation = conversation
        self._list = ListPrompt(conversation)

    interrupt = asynchronous(Conversation.interrupt)
    result = asynchronous(Conversation.result)
    off_the_record = asynchronous(Conversation.off_the_record)
    partial = asynchronous(Conversation.partial)
    speech_start = asynchronous(Conversation.speech_start)
    end_turn = asynchronous(Conversation.end_turn)
    close = asynchronous(Conversation.close)
    instructions = Same(Conversation.instructions)
    speaker = Same(Conversation.speaker)
    tools = Same(Conversation.tools)
    hooks = Same(Conversation.hooks)
    """For hooks of your own: plain functions, which act on the thread of the turns."""
    ctx = Same(Conversation.ctx)

    def failures(self) -> list[HookFailure]:
        """Return what went wrong so far in steps and hooks, most frequent first."""
        return self._conversation.failures()

    turn = _beginning(Conversation.turn)

    prompt = _prompting(ListPrompt.make)

    @property
    def open_turn(self) -> AsyncTurn | None:
        """Return the open turn, such as `prompt` opens with a new user message; its `add`, `reply`, `commit` and `abort` end it."""
        turn = self._conversation.open_turn
        return None if turn is None else AsyncTurn.wrap(self._worker, turn)

    async def idle(self, seconds: float) -> None:
        """Tell that nobody speaks, as `Conversation.idle` does; upkeep has a thread of its own."""
        duration = checked_amount(seconds, "seconds")
        await self._worker.run("turn", lambda: self._conversation.idle(0.0))
        if (upkeep := self._conversation.upkeep) is not None:
            await run_upkeep(self._worker, upkeep, partial(upkeep.run, duration, yielding=True))

    async def __aenter__(self) -> AsyncConversation:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def run_upkeep(worker: Worker, upkeep: Upkeep, work: Callable[..., bool]) -> bool:
    """Return the result of `work(stop=…)`, which ends when nobody waits for it, somebody speaks or the memory is closed."""
    given_up = threading.Event()

    def give_up(_: bool) -> None:
        given_up.set()
        # Also a computation of a model at this moment.
        upkeep.hold(given_up)
        upkeep.release(given_up)

    def stop() -> bool:
        return given_up.is_set() or worker.closed

    return await worker.run("idle", partial(work, stop=stop), given_up=give_up)


def async_tools(worker: Worker, tools: Iterable[Tool]) -> list[Tool]:
    """Return tools whose `run` is a coroutine."""
    return [msgspec.structs.replace(tool, run=_awaited(worker, tool.run)) for tool in tools]


def _awaited(worker: Worker, run: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(run)
    async def call(*args: Any, **kwargs: Any) -> Any:
        return await worker.run("turn", partial(run, *args, **kwargs))

    return call
