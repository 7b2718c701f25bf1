"""edgemem attached to the OpenAI Agents SDK."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    ModelRetrySettings,
    ModelSettings,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
    output_guardrail,
)
from agents.testing import ScriptedModel, assistant_message, function_call

from contract import DOCS, INSTRUCTIONS, SPEAKERS, Call, Contract, Robot, Stall, look
from edgemem.attach import openai_agents_loop
from edgemem.errors import InvalidInputError

QUIET = RunConfig(tracing_disabled=True)


class Model(ScriptedModel):
    """A model that follows a script, and stops at a `Stall`."""

    def __init__(self, robot: AgentsRobot, script: tuple[Any, ...]) -> None:
        super().__init__([self._items(step) for step in script if not isinstance(step, Stall)])
        self.robot, self.left = robot, list(script)

    @staticmethod
    def _items(step: Any) -> Any:
        if isinstance(step, Exception):
            return step
        is_call = isinstance(step, Call)
        return [
            function_call(step.name, step.arguments, call_id=step.id) if is_call else assistant_message(step)
        ]

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **how: Any) -> Any:  # noqa: A002
        assert system_instructions == INSTRUCTIONS
        self.robot.prompts.append([json.dumps(item) for item in input])
        if isinstance(self.left.pop(0), Stall):
            asyncio.current_task().cancel()
            await asyncio.sleep(0)
        return await super().get_response(system_instructions, input, *args, **how)


@output_guardrail
async def guard(*_: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(None, tripwire_triggered=True)


class AgentsRobot(Robot):
    page = DOCS / "openai-agents.md"

    def __init__(self, home: Any) -> None:
        super().__init__(home)
        self.sessions: dict[str, SQLiteSession] = {}
        self.loops: dict[str, Any] = {}
        self.speakers: Any = SPEAKERS

    def attach(self, *, session: str = "s", **how: Any) -> Any:
        self.speakers = how.pop("speakers", self.speakers)
        return openai_agents_loop.attach(
            self.opened, session_id=session, speakers=self.speakers, **{"run_config": QUIET, **how}
        )

    def model(self, *script: Any) -> Model:
        return Model(self, script)

    def agent(self, *script: Any, **how: Any) -> Agent[Any]:
        return Agent(name="kitchen", instructions=INSTRUCTIONS, model=self.model(*script), **how)

    def say(self, text: str, *script: Any, context: Any = "u17", session: str = "s", **how: Any) -> str:
        loop = self.loops.setdefault(session, self.attach(session=session))
        kept = self.sessions.setdefault(session, SQLiteSession(session))
        retry = ModelRetrySettings(max_retries=1, policy=lambda _: True) if how.get("retries") else None
        agent = self.agent(
            *script,
            tools=[function_tool(look), *loop.tools],
            output_guardrails=[guard] if how.get("guard") else [],
            model_settings=ModelSettings(retry=retry),
        )
        if not how.get("attach", True):
            loop.detach()
        return self.run(loop.run(agent, text, context=context, session=kept)).final_output

    def hand_over(self, text: str, reply: str) -> str:
        second = Agent(name="cook", instructions=INSTRUCTIONS, model=self.model(reply))
        first = self.agent(Call("h1", "transfer_to_cook"), handoffs=[second])
        return self.run(self.attach().run(first, text, context="u17")).final_output

    def own(self) -> str:
        return str([self.run(session.get_items()) for session in self.sessions.values()])


@pytest.fixture
def make() -> type[Robot]:
    return AgentsRobot


class TestOpenAIAgents(Contract):
    """The common cases."""

    @pytest.mark.parametrize(
        "setting",
        [
            {"call_model_input_filter": lambda data: data.model_data},
            {"session_input_callback": lambda history, new: history + new},
            {"nest_handoff_history": True},
            {"handoff_input_filter": lambda data: data},
            {"model_settings": ModelSettings(truncation="auto")},
            {"session_settings": {"limit": 3}},
        ],
        ids=lambda setting: next(iter(setting)),
    )
    def test_a_history_beside_memory_is_refused(self, robot: AgentsRobot, setting: dict[str, Any]) -> None:
        """At once, with the name of the setting."""
        with pytest.raises(InvalidInputError, match=next(iter(setting))):
            robot.attach(run_config=RunConfig(**setting))

    @pytest.mark.parametrize(
        "option",
        [{"conversation_id": "c"}, {"previous_response_id": "r"}, {"auto_previous_response_id": True}],
    )
    def test_a_history_that_a_server_holds_is_refused(
        self, robot: AgentsRobot, option: dict[str, Any]
    ) -> None:
        """Before anything is said."""
        with pytest.raises(InvalidInputError, match=next(iter(option))):
            robot.run(robot.attach().run(robot.agent("Yes."), "Hello.", **option))
        assert robot.turns() == []

    def test_a_run_of_ones_own_is_told_what_it_lacks(self, robot: AgentsRobot) -> None:
        """The hooks end the turn."""
        loop = robot.attach()
        with pytest.raises(InvalidInputError, match="hooks"):
            robot.run(Runner.run(robot.agent("Yes."), "Hello.", run_config=loop.run_config))

    @pytest.mark.parametrize("fails", [False, True])
    def test_a_streamed_run_is_kept(self, robot: AgentsRobot, fails: bool) -> None:
        """Within the attachment."""
        loop = robot.attach()

        class Streamed(ScriptedModel):
            pass

        async def talk() -> None:
            step: Any = RuntimeError("away") if fails else [assistant_message("Yes.")]
            agent = Agent(name="kitchen", instructions=INSTRUCTIONS, model=Streamed([step]))
            async with loop:
                run = Runner.run_streamed(
                    agent, "Is there milk?", context="u17", run_config=loop.run_config, hooks=loop.hooks
                )
                async for _ in run.stream_events():
                    pass

        if fails:
            with pytest.raises(RuntimeError, match="away"):
                robot.run(talk())
        else:
            robot.run(talk())
        said = ["Is there milk?"] if fails else ["Is there milk?", "Yes."]
        assert robot.turns() == [("alice", said, fails)]

    def test_a_run_waits_for_the_end_of_the_one_before(self, robot: AgentsRobot) -> None:
        """Where somebody interrupts, the newer words are not taken for the end of the older ones."""
        loop = robot.attach()

        async def talk() -> None:
            older = asyncio.ensure_future(
                loop.run(
                    robot.agent(Call("w1", "wait"), "Never.", tools=[function_tool(wait)]),
                    "I like tea.",
                    context="u17",
                )
            )
            await asyncio.sleep(0.2)
            older.cancel()
            await loop.run(robot.agent("Yes."), "Is there milk?", context="u18")

        robot.run(talk())
        assert [turn[0::2] for turn in robot.turns()] == [("alice", True), ("bob", False)]

    def test_a_run_within_a_run_is_refused(self, robot: AgentsRobot) -> None:
        """It would wait for itself."""
        loop = robot.attach()

        async def talk() -> None:
            async with loop:
                await loop.run(robot.agent("Yes."), "Is there milk?")

        with pytest.raises(InvalidInputError, match=r"Runner\.run"):
            robot.run(talk())
        assert robot.say("Is there milk?", "Yes.") == "Yes."

    def test_an_agent_in_a_tool_has_a_list_of_its_own(self, robot: AgentsRobot) -> None:
        """What it is asked was said by nobody."""
        inner = Agent(name="inner", instructions=INSTRUCTIONS, model=robot.model("Inner."))
        tool = inner.as_tool("ask", "Ask another one.")
        outer = robot.agent(Call("a1", "ask", {"input": "Is Ines allergic?"}), "Yes.", tools=[tool])
        robot.run(robot.attach().run(outer, QUESTION_OF_MILK, context="u17"))
        assert robot.turns() == [("alice", [QUESTION_OF_MILK, "Inner.", "Yes."], False)]


async def wait() -> str:
    """Wait."""
    await asyncio.sleep(60)
    return ""


QUESTION_OF_MILK = "Is there milk?"
