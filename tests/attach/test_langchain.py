"""edgemem attached to LangChain, for agents that are awaited and for others."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ContextEditingMiddleware,
    HumanInTheLoopMiddleware,
    ModelRetryMiddleware,
    SummarizationMiddleware,
)
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command

import edgemem
from contract import BY_WORDS, DOCS, INSTRUCTIONS, QUESTION, SPEAKERS, Call, Contract, Robot, Stall, look
from edgemem.attach import langchain_loop
from edgemem.errors import InvalidInputError


class Model(GenericFakeChatModel):
    """A model that follows a script, and stops at a `Stall`."""

    robot: Any

    def bind_tools(self, *args: Any, **how: Any) -> Any:
        return self

    def _step(self, messages: Any) -> AIMessage:
        assert messages[0].content == INSTRUCTIONS
        self.robot.prompts.append([json.dumps([item.type, item.content, str(item.id)]) for item in messages])
        step = next(self.messages)
        if isinstance(step, Exception):
            raise step
        if isinstance(step, Stall):
            return self.robot.stall()
        if isinstance(step, Call):
            return AIMessage("", tool_calls=[{"id": step.id, "name": step.name, "args": step.arguments}])
        return AIMessage(step)

    def _generate(self, messages: Any, *args: Any, **how: Any) -> Any:
        return ChatResult(generations=[ChatGeneration(message=self._step(messages))])

    async def _agenerate(self, messages: Any, *args: Any, **how: Any) -> Any:
        made = self._generate(messages, *args, **how)
        await asyncio.sleep(0)  # where it is cancelled
        return made


class Guard(AgentMiddleware):
    """A guardrail around the model."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        handler(request)
        raise PermissionError("guarded")

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        await handler(request)
        raise PermissionError("guarded")


@tool
def transfer() -> Command:
    """Hand over to the cook."""
    return Command(goto="cook", graph=Command.PARENT, update={"messages": []})


class AwaitedRobot(Robot):
    page = DOCS / "langchain.md"

    def __init__(self, home: Any) -> None:
        super().__init__(home)
        self.saver = InMemorySaver()
        self.speakers: Any = SPEAKERS

    def attach(self, **how: Any) -> Any:
        self.speakers = how.pop("speakers", self.speakers)
        return langchain_loop.attach(self.opened, speakers=self.speakers, **how)

    def stall(self) -> AIMessage:
        self.task.cancel()
        return AIMessage("Never heard.")

    def model(self, *script: Any) -> Model:
        return Model(messages=iter(script), robot=self)

    def agent(
        self,
        *script: Any,
        loop: Any = None,
        tools: tuple[Any, ...] = (look,),
        saver: bool = True,
        name: str = "kitchen",
    ) -> Any:
        return create_agent(
            self.model(*script), list(tools), system_prompt=INSTRUCTIONS, name=name,
            middleware=(loop or self.attach()).middleware, checkpointer=self.saver if saver else None, context_schema=str,
        )  # fmt: skip

    def ask(self, agent: Any, asked: Any, context: Any = "u17", session: str = "s") -> Any:
        async def run() -> Any:
            self.task = asyncio.current_task()
            return await agent.ainvoke(asked, {"configurable": {"thread_id": session}}, context=context)

        return self.run(run())

    def say(self, text: str, *script: Any, context: Any = "u17", session: str = "s", **how: Any) -> str:
        others = (
            [ModelRetryMiddleware(initial_delay=0)]
            if how.get("retries")
            else [Guard()]
            if how.get("guard")
            else []
        )
        loop = self.attach(middleware=others)
        agent = self.agent(*script, loop=loop)
        if not how.get("attach", True):
            loop.detach()
        return str(self.ask(agent, {"messages": [("user", text)]}, context, session)["messages"][-1].text)

    def hand_over(self, text: str, reply: str) -> str:
        graph = StateGraph(AgentState, context_schema=str)
        graph.add_node("kitchen", self.agent(Call("h1", "transfer"), tools=(transfer,), saver=False))
        graph.add_node("cook", self.agent(reply, saver=False, name="cook"))
        graph.add_edge(START, "kitchen")
        made = self.ask(graph.compile(checkpointer=self.saver), {"messages": [("user", text)]})
        return str(made["messages"][-1].text)

    def own(self) -> str:
        return str([saved.checkpoint for saved in self.saver.list(None)])


class PlainRobot(AwaitedRobot):
    """With a memory that is not awaited, and agents that are not either."""

    async def _open(self) -> Any:
        return edgemem.open(self.home, profile=BY_WORDS, worker=False)

    def stall(self) -> AIMessage:
        raise KeyboardInterrupt

    def ask(self, agent: Any, asked: Any, context: Any = "u17", session: str = "s") -> Any:
        return agent.invoke(asked, {"configurable": {"thread_id": session}}, context=context)

    def close(self) -> None:
        self.opened.close()
        self.events.close()


@pytest.fixture(params=[AwaitedRobot, PlainRobot])
def make(request: pytest.FixtureRequest) -> type[Robot]:
    return request.param


class TestLangChain(Contract):
    """The common cases."""

    @pytest.mark.parametrize("other", [SummarizationMiddleware, ContextEditingMiddleware])
    def test_a_middleware_that_cuts_the_list_is_refused(self, robot: AwaitedRobot, other: Any) -> None:
        """At once, with its name."""
        made = other(robot.model()) if other is SummarizationMiddleware else other()
        with pytest.raises(InvalidInputError, match=other.__name__):
            robot.attach(middleware=[made])

    def test_a_memory_that_is_awaited_wants_an_agent_that_is(self, robot: AwaitedRobot) -> None:
        """It is told in a sentence."""
        if isinstance(robot.opened, edgemem.Memory):
            assert robot.say("Hello.", "Hello.") == "Hello."
            return
        with pytest.raises(InvalidInputError, match="Await"):
            robot.agent("Yes.").invoke(
                {"messages": [("user", "Hello.")]}, {"configurable": {"thread_id": "s"}}, context="u17"
            )

    def test_a_pause_for_a_person_goes_on_with_the_turn(self, robot: AwaitedRobot) -> None:
        """It is one turn, however long it takes."""
        loop = robot.attach(middleware=[HumanInTheLoopMiddleware(interrupt_on={"look": True})])
        agent = robot.agent(Call("p1"), "Found.", loop=loop)
        paused = robot.ask(agent, {"messages": [("user", QUESTION)]})
        assert paused["__interrupt__"]
        assert robot.turns() == [] or robot.turns()[0][2]
        robot.ask(agent, Command(resume={"decisions": [{"type": "approve"}]}))
        assert robot.turns() == [("alice", [QUESTION, "found it", "Found."], False)]

    def test_a_tool_that_falls_ends_the_turn(self, robot: AwaitedRobot) -> None:
        """As an error of the model does."""

        def fall() -> str:
            """Fail."""
            raise RuntimeError("fell over")

        with pytest.raises(RuntimeError, match="fell over"):
            robot.ask(robot.agent(Call("f1", "fall"), tools=(fall,)), {"messages": [("user", "I like tea.")]})
        ((speaker, texts, unfinished),) = robot.turns()
        assert (speaker, texts[0], unfinished) == ("alice", "I like tea.", True)
