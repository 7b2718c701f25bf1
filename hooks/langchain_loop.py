"""Attach edgemem to agents of LangChain.

    import edgemem
    from edgemem.attach import langchain_loop
    from langchain.agents import create_agent

    with edgemem.open("~/.edgemem/kitchen") as memory:
        loop = langchain_loop.attach(memory, speakers={"u17": "alice"})
        agent = create_agent(model, system_prompt="You help in the kitchen.", middleware=loop.middleware, context_schema=str)
        agent.invoke({"messages": [("user", "What may I eat?")]}, {"configurable": {"thread_id": "kitchen"}}, context="u17")

A memory of `edgemem.aio.open` is for `ainvoke` and `astream`. A thread of the agent is a session. `speakers` has the names of
runtime contexts, or is a function from one to a name; who is not in it is an unknown voice. The state of the agent, and so its
checkpoints, stay as they are: memory goes into what the model reads alone. The memory's tools come with the middleware.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from contextlib import suppress
from inspect import isawaitable
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from langchain.agents.middleware import AgentMiddleware, ContextEditingMiddleware, SummarizationMiddleware
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool
from langgraph.errors import GraphBubbleUp

from edgemem.errors import EdgememError, InvalidInputError
from edgemem.hooks.framework import HISTORY, NO_TURN, Speakers, error_text, refuse, speaker_of
from edgemem.hooks.list_prompt import ListPrompt
from edgemem.memory.memory import Memory
from edgemem.memory.session import default_tools
from edgemem.records import ToolCall
from edgemem.session.conversation import Conversation
from edgemem.session.points import BEFORE_LLM
from edgemem.session.tools import Tool, result_text

if TYPE_CHECKING:
    from edgemem.aio.memory import AsyncMemory


def attach(
    memory: Memory | AsyncMemory,
    *,
    session_id: str = "default",
    speakers: Speakers | None = None,
    middleware: Iterable[AgentMiddleware[Any, Any, Any]] = (),
) -> Loop:
    """Return the memory of all threads of agents; the same again, with the newer arguments, where it is attached.

    Args:
        memory: one that is open; of `edgemem.aio.open`, for agents that are awaited.
        session_id: the session of runs without a `thread_id`.
        middleware: your own, behind that of the memory: what it retries is one call of the model.

    Raises:
        InvalidInputError: a middleware would change the list beside memory.
    """
    others = [each for each in middleware if not isinstance(each, Loop)]
    cutters = (SummarizationMiddleware, ContextEditingMiddleware)
    refuse({type(each).__name__: isinstance(each, cutters) for each in others}, HISTORY)
    loop = _LOOPS.get(id(memory))
    if loop is None or loop.memory is not memory:  # a memory that is gone had the same id
        loop = _LOOPS[id(memory)] = Loop(memory)
    loop.session_id, loop.speakers, loop.middleware = session_id, speakers or {}, [loop, *others]
    return loop


class Loop(AgentMiddleware[Any, Any, Any]):
    """Memory around each call of a model; each step is written once, for agents that are awaited and for others."""

    name = "edgemem"

    def __init__(self, memory: Memory | AsyncMemory) -> None:
        self.memory: Any = memory
        self.session_id, self.is_on = "", True
        self.speakers: Speakers = {}
        self.middleware: list[AgentMiddleware[Any, Any, Any]] = []
        """For `create_agent(middleware=…)`."""
        self._offered = default_tools(memory.diagnostics, include=None, speaker=None)
        self.tools = [self._tool(tool) for tool in self._offered]
        """The memory's tools, with the rights of the turn's speaker; an agent has them of the middleware."""
        self._doors: dict[str, tuple[Any, Any]] = {}  # by session: makes prompts, and the conversation

    def detach(self) -> None:
        """Leave runs alone from now on; a turn that is open goes to its end."""
        self.is_on = False
        _LOOPS.pop(id(self.memory), None)

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        """Have the model read what memory makes of its list."""
        return self._finished(self.awrap_model_call(request, handler))

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        """Have the model read what memory makes of its list; instructions count in the window as well."""
        if not self.is_on:
            return await _result(handler(request))
        name, instructions = self._session_of(request.runtime), request.system_message
        if name not in self._doors:
            talk = await _result(self.memory.session(name, tools=self._offered))
            self._doors[name] = ListPrompt(talk).make if isinstance(talk, Conversation) else talk.prompt, talk
        prompt, talk = self._doors[name]
        head = [] if instructions is None else [instructions]
        speaker = speaker_of(self.speakers, request.runtime.context)

        async def ask(request: Any) -> Any:
            try:
                made = await _result(prompt([*head, *request.messages], form="langchain", speaker=speaker))
                request = request.override(messages=[item for item in made if item is not instructions])
            except EdgememError as error:  # the reply never fails
                talk.hooks.note(self.name, BEFORE_LLM, error)
            return await _result(handler(request))

        return await self.awrap_tool_call(request, ask)

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        """End the turn where a tool raises."""
        return self._finished(self.awrap_tool_call(request, handler))

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """End the turn where a tool raises, or the model, or where they are cancelled; a pause for a person goes on with it."""
        try:
            return await _result(handler(request))
        except GraphBubbleUp:
            raise
        except BaseException as error:
            await self._end(request.runtime, error=error_text(error))
            raise

    def after_agent(self, state: Any, runtime: Any) -> None:
        """End the turn with the reply."""
        self._finished(self.aafter_agent(state, runtime))

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        """End the turn with the reply."""
        newest = state["messages"][-1]
        is_reply = isinstance(newest, AIMessage) and not newest.tool_calls
        await self._end(runtime, newest.text if is_reply else "")

    async def _end(self, runtime: Any, reply: str = "", error: str | None = None) -> None:
        door = self._doors.get(self._session_of(runtime))
        if door is not None:
            with suppress(EdgememError):  # the run has its reply, or its error
                await _result(door[1].end_turn(reply, error=error))

    def _finished(self, step: Coroutine[Any, Any, Any]) -> Any:
        """Return the result of a step in which nothing has to be waited for."""
        try:
            if isinstance(self.memory, Memory):
                step.send(None)
        except StopIteration as done:
            return done.value
        step.close()
        raise InvalidInputError("Await the agent (`ainvoke`), or open its memory with `edgemem.open`.")

    def _session_of(self, runtime: Any) -> Any:
        info = runtime.execution_info
        return (None if info is None else info.thread_id) or self.session_id

    def _tool(self, tool: Tool) -> StructuredTool:
        async def call(config: RunnableConfig, **arguments: Any) -> Any:
            door = self._doors.get(config.get("configurable", {}).get("thread_id") or self.session_id)
            turn = None if door is None else door[1].open_turn
            if turn is None:
                return NO_TURN
            return result_text(await _result(turn.run_tool(ToolCall(tool.name, arguments))))

        def run(config: RunnableConfig, **arguments: Any) -> Any:
            return self._finished(call(config, **arguments))

        shown: Any = {"name": tool.name, "description": tool.description, "args_schema": tool.parameters}
        return StructuredTool(**shown, func=run, coroutine=call)


async def _result(value: Any) -> Any:
    return await value if isawaitable(value) else value


_LOOPS: WeakValueDictionary[int, Loop] = WeakValueDictionary()  # by memory
