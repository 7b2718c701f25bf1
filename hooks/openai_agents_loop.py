"""Attach edgemem to agents of the OpenAI Agents SDK.

    import edgemem.aio
    from agents import Agent, SQLiteSession
    from edgemem.attach import openai_agents_loop

    async with edgemem.aio.open("~/.edgemem/kitchen") as memory:
        loop = openai_agents_loop.attach(memory, session_id="kitchen", speakers={"u17": "alice"})
        agent = Agent(name="Kitchen", instructions="You help in the kitchen.", tools=loop.tools)
        result = await loop.run(agent, "What may I eat?", context="u17", session=SQLiteSession("kitchen"))

`loop.run` is `Runner.run`. Where you start the runner yourself, as for streaming, give it `loop.run_config` and `loop.hooks`, and
do so within `async with loop:`. Its end is that of the turn: the SDK tells hooks nothing of errors, cancels and guardrails.
`speakers` has the names of run contexts, or is a function from one to a name; who is not in it is an unknown voice. The SDK's
session keeps its list as it is: memory goes into what the model reads alone.
"""

from __future__ import annotations

import asyncio
import dataclasses
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from agents import Agent, FunctionTool, RunConfig, RunHooks, Runner, RunResult
from agents.memory import OpenAIResponsesCompactionSession
from agents.run import CallModelData, ModelInputData

from edgemem.errors import EdgememError
from edgemem.hooks.framework import HISTORY, NO_TURN, Speakers, error_text, refuse, speaker_of
from edgemem.memory.session import default_tools
from edgemem.session.points import BEFORE_LLM
from edgemem.session.tools import Tool, result_text

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from edgemem.aio.conversation import AsyncConversation
    from edgemem.aio.memory import AsyncMemory


def attach(
    memory: AsyncMemory,
    *,
    session_id: str = "default",
    speakers: Speakers | None = None,
    run_config: RunConfig | None = None,
) -> Loop:
    """Return the memory of one session for runs of agents; the same again, with the newer `speakers`, where it is attached.

    Args:
        memory: one of `edgemem.aio.open`, which is open.
        run_config: what else your runs are configured with.

    Raises:
        InvalidInputError: a setting of `run_config` would change the list beside memory.
    """
    loop = _LOOPS.get((id(memory), session_id))
    if loop is None or loop.memory is not memory:  # a memory that is gone had the same id
        loop = _LOOPS[id(memory), session_id] = Loop(memory, session_id)
    config = run_config or loop.run_config
    given, settings = config.call_model_input_filter, config.model_settings
    refuse(
        {
            "call_model_input_filter": given is not None and given != loop.prompt,
            "session_input_callback": config.session_input_callback,
            "session_settings": config.session_settings,
            "nest_handoff_history": config.nest_handoff_history,
            "handoff_input_filter": config.handoff_input_filter,
            "model_settings.truncation": settings is not None and settings.truncation == "auto",
        },
        HISTORY,
    )
    loop.speakers = speakers or {}
    loop.run_config = dataclasses.replace(config, call_model_input_filter=loop.prompt)
    return loop


class Loop(RunHooks[Any]):
    """One session's memory beside a runner; as a context manager it ends the turn of the run within."""

    def __init__(self, memory: AsyncMemory, session_id: str) -> None:
        self.memory, self.session_id = memory, session_id
        self.is_on = True
        self.hooks = self
        """For `Runner.run(hooks=…)`; hooks of your own go to `Agent(hooks=…)`."""
        self.run_config = RunConfig(call_model_input_filter=self.prompt)
        """For `Runner.run(run_config=…)`."""
        self._offered = default_tools(memory.diagnostics, include=None, speaker=None)
        self.tools = [self._tool(tool) for tool in self._offered]
        """For `Agent(tools=…)`: the memory's, with the rights of the turn's speaker."""
        self.speakers: Speakers = {}
        self._agent: Any = None  # the one that runs; another is an agent in a tool of it
        self._output: Any = None  # its answer, which a guardrail may still stop
        self._lock = asyncio.Lock()
        """A session has one run at a time: a newer one waits for the end of a cancelled one."""
        self._conversation: AsyncConversation | None = None

    def detach(self) -> None:
        """Leave runs alone from now on; a turn that is open goes to its end."""
        self.is_on = False
        _LOOPS.pop((id(self.memory), self.session_id), None)

    async def run(self, agent: Agent[Any], input: Any, **options: Any) -> RunResult:  # noqa: A002 - as the SDK's
        """Run an agent as `Runner.run` does, with its options; raise InvalidInputError where one keeps a history elsewhere."""
        asked = ("conversation_id", "previous_response_id", "auto_previous_response_id")
        refuse({name: options.get(name) for name in asked}, "a history that a server holds cannot be read")
        compacts = isinstance(options.get("session"), OpenAIResponsesCompactionSession)
        refuse({"OpenAIResponsesCompactionSession": compacts}, HISTORY)
        async with self:
            return await Runner.run(agent, input, hooks=self.hooks, run_config=self.run_config, **options)

    async def __aenter__(self) -> Self:
        refuse({"loop.run": _RUNNING.get() is self}, "in a tool of its own, an agent runs by `Runner.run`")
        await self._lock.acquire()
        _RUNNING.set(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        reply, failed = ("", error_text(error)) if error is not None else (str(self._output or ""), None)
        self._agent = self._output = None
        _RUNNING.set(None)
        try:
            if self._conversation is not None:
                with suppress(EdgememError):  # the run has its reply, or its error
                    await self._conversation.end_turn(reply, error=failed)
        finally:
            self._lock.release()

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        """Note which agent answers."""
        self._agent = agent

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        """Note what it has answered."""
        self._output = output

    async def prompt(self, data: CallModelData[Any]) -> ModelInputData:
        """Return what the model reads; instructions count in the window as well."""
        model_data = data.model_data
        is_whole = self._lock.locked() and self._agent is not None
        refuse({"run_config": not is_whole}, "`hooks=loop.hooks` comes with it, within `async with loop:`")
        if not self.is_on or data.agent is not self._agent:
            return model_data
        if self._conversation is None:
            self._conversation = await self.memory.session(self.session_id, tools=self._offered)
        head = [{"role": "system", "content": model_data.instructions}] if model_data.instructions else []
        speaker = speaker_of(self.speakers, data.context)
        try:
            made = await self._conversation.prompt(
                [*head, *model_data.input], form="responses", speaker=speaker
            )
        except EdgememError as error:  # the reply never fails
            self._conversation.hooks.note("edgemem", BEFORE_LLM, error)
            return model_data
        return ModelInputData([item for item in made if item not in head], model_data.instructions)

    def _tool(self, tool: Tool) -> FunctionTool:
        async def invoke(_: Any, arguments: str) -> str:
            turn = None if self._conversation is None else self._conversation.open_turn
            if turn is None:
                return NO_TURN
            return result_text(await turn.run_tool({"function": {"name": tool.name, "arguments": arguments}}))

        return FunctionTool(tool.name, tool.description, tool.parameters, invoke, strict_json_schema=False)


_RUNNING: ContextVar[Loop | None] = ContextVar("edgemem_agents", default=None)
_LOOPS: WeakValueDictionary[tuple[int, str], Loop] = WeakValueDictionary()  # by memory and session
