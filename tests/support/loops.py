"""Loops of tests: reference loops with tools, a loop of one's own, EdgeVox's agents, async loops and robots of other processes."""

import asyncio
import copy
import importlib
import inspect
import json
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from itertools import pairwise
from pathlib import Path
from typing import Any

import edgemem
import edgemem.aio
from edgemem.aio import AsyncConversation, AsyncMemory, AsyncTurn
from edgemem.hooks import BEFORE_LLM, ON_RUN_END, ON_RUN_START, AgentResult, HookRegistry, TurnContext
from edgemem.inspect.replay import Line, ScriptedCall, ScriptedModel
from edgemem.loop.loop import AgentLoop, TurnResult
from edgemem.memory import Memory
from edgemem.records import Message, Reader, Reply, Session, ToolCall
from edgemem.session.tools import Tool, ToolTurn
from support.homes import BY_WORDS
from support.homes import opened as open_home
from support.models import Caller, Listener, Model

ROOT = Path(__file__).parents[2]
Said = str | dict[str, Any] | Exception | Callable[[list[dict[str, Any]]], Any]
"""What a model answers: text, a whole message, a failure, or what a function makes of the prompt."""
CALL: Message = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
ASK: Message = {"role": "assistant", "content": None, "tool_calls": [CALL]}


def loop_of(memory: Memory, *, session: str = "kitchen", run: Any = lambda minutes: "set") -> Any:
    """Return a loop with all default hooks and one tool."""
    timer = Tool("timer", "Set a timer.", {"type": "object", "properties": {}}, run)
    return AgentLoop(Caller(), hooks=memory.hooks(session_id=session, speaker="alice"), tools=[timer])


def side_by_side(*work: Callable[[], object]) -> None:
    """Run functions in threads of their own, wait for all, and raise what one of them raised."""
    with ThreadPoolExecutor(len(work)) as pool:
        for done in [pool.submit(each) for each in work]:
            done.result()


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a Python process that runs `code`."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        cwd=ROOT,
    )  # fmt: skip


def robot(body: str) -> str:
    """Return a program with the caller of this file, a memory `memory` and the function `loop_of`."""
    return "\n".join(
        (
            "from __future__ import annotations", "import json, sys, time",
            "from typing import Any, Callable", "import edgemem",
            "from edgemem.loop.loop import AgentLoop, Reply", "from edgemem.records import ToolCall",
            "from edgemem.session.tools import Tool", inspect.getsource(Caller), inspect.getsource(loop_of),
            "with edgemem.open(sys.argv[1], worker=False) as memory:",
            *(f"    {line}" for line in inspect.cleandoc(body).splitlines()),
        )
    )  # fmt: skip


IN_A_TOOL = """
def run(minutes):
    memory.diagnostics.database.enqueue(lambda: None).result()  # the turn is accepted
    print("running", flush=True)
    sys.stdin.readline()
    return "set"

loop = loop_of(memory, run=run)
loop.run("good morning")
if "backed up" in sys.argv:
    memory.diagnostics.backups.make()
loop.run("a timer, zebra")
print("ended", flush=True)
sys.stdin.readline()
"""
"""A robot that stands still in the tool of its second turn."""


def start_in_a_tool(home: Path, *more: str) -> subprocess.Popen[str]:
    """Start that robot, and wait until it stands in its tool; "backed up" has it make a backup before."""
    process = python(robot(IN_A_TOOL), home, *more)
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    return process


def speak(conversation: Any, text: Any, reply: str, *calls: Any, **how: Any) -> list[Message]:
    """Tell a whole turn, with the calls of tools in it; return what the model was handed first."""
    with conversation.turn(text, **how) as turn:
        messages: list[Message] = turn.messages
        for call in calls:
            turn.call(call)
        turn.reply(reply)
    return messages


def look_late(
    kitchen: Any, text: str = "Look for it.", call_id: str = "c1", *, speaker: str = "alice", **more: Any
) -> None:
    """Tell a turn whose tool has not answered."""
    with kitchen.turn(text, speaker=speaker, **more) as turn:
        assert turn.messages
        turn.add({**ASK, "tool_calls": [{**CALL, "id": call_id}]})
        turn.reply("I am looking.")


def block_before(memory: Memory, text: str, speaker: str, session: str = "") -> str:
    """Return what memory puts before what somebody says in a session, or in a new one."""
    hooks = memory.hooks(session_id=session or f"{speaker} {text}", speaker=speaker)
    loop = AgentLoop(Listener(), hooks=hooks, speaker=speaker)
    content: str = loop.prepare(text).handed[0][-1]["content"]
    loop.abort()
    assert loop.hooks.failures() == []
    return content.removesuffix(text)


class OwnLoop:
    """The loop of the README: it fires the points, and keeps a list of what was said."""

    def __init__(self, hooks: Any, session: Session | None = None) -> None:
        self.hooks = HookRegistry(hooks)
        self.ctx = TurnContext(session or Session())

    @property
    def said(self) -> list[Message]:
        return self.ctx.session.messages

    def begin(self, text: str, speaker: str | None, *, private: bool = False) -> None:
        """Tell the hooks who said what."""
        self.hooks.fire(ON_RUN_START, self.ctx, {"task": text, "speaker": speaker, "private": private})

    def ask(self, hop: int = 0) -> list[Message]:
        """Return what the model is handed."""
        asked = {"messages": self.said, "hop": hop, "tools": []}
        handed: list[Message] = self.hooks.fire(BEFORE_LLM, self.ctx, asked).payload["messages"]
        return [dict(message) for message in handed]

    def fail(self, text: str, speaker: str | None, *, private: bool = False) -> list[Message]:
        """Live a turn whose model raises, of which the hooks are told nothing; return what the model was handed."""
        self.begin(text, speaker, private=private)
        self.said.append({"role": "user", "content": text})
        return self.ask()

    def end(self, reply: str = "Fine.") -> None:
        """Keep the reply, and tell the hooks that the turn is over."""
        self.said.append({"role": "assistant", "content": reply})
        self.hooks.fire(ON_RUN_END, self.ctx, AgentResult(reply))

    def run(self, text: str, speaker: str | None, *, private: bool = False) -> list[Message]:
        """Live a whole turn; return what the model was handed."""
        handed = self.fail(text, speaker, private=private)
        self.end()
        return handed


class Household:
    """A home with one agent in it, whose model answers what a test says."""

    def __init__(self, home: Path, more: str = "", *, session: str = "kitchen") -> None:
        self.home, self.more, self.session = home, more, session
        self.open()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: object) -> None:
        self.memory.close()

    def open(self) -> None:
        """Switch it on."""
        self.memory = open_home(self.home, self.more)
        self.model = Model(otherwise="Fine.")
        self.loop = self.agent(self.session)

    def restart(self) -> None:
        """Switch it off and on again."""
        self.memory.close()
        self.open()

    def agent(self, session: str) -> AgentLoop:
        return AgentLoop(self.model, hooks=self.memory.hooks(session_id=session), instructions="You are Pip.")

    def hear(
        self, text: str, *replies: str | ToolCall, speaker: str | None = "alice", **how: Any
    ) -> list[Message]:
        """Have somebody say something, and the model answer in turn; return its first prompt."""
        self.model.answers = [
            Reply("", (reply,)) if isinstance(reply, ToolCall) else Reply(reply) for reply in replies
        ]
        handed = self.loop.run(text, speaker=speaker, **how).handed[0]
        assert self.loop.hooks.failures() == []
        return handed

    def query(self, sql: str) -> list[Any]:
        """Ask the truth."""
        return self.memory.diagnostics.database.query(sql)


class Robot:
    """A loop with all hooks and tools, whose model calls what a test says."""

    def __init__(
        self, memory: Memory, *, speaker: str | None = None, tools: Any = None, session: str = "kitchen"
    ) -> None:
        self.model = ScriptedModel()
        self.loop = AgentLoop(
            self.model,
            hooks=memory.hooks(session_id=session, speaker=speaker),
            tools=memory.tools(speaker=speaker) if tools is None else tools,
        )

    def turn(self, say: str, name: str, /, *, speaker: str | None = "alice", **rest: Any) -> TurnResult:
        """Run a turn in which the model calls one tool with the remaining arguments."""
        how = {key: rest.pop(key) for key in ("heard", "private", "audience") if key in rest}
        call = ScriptedCall(name, rest)
        self.model.expect(Line(say=say, reply="ok", at=1_770_000_000.0, session="kitchen", tools=(call,)))
        return self.loop.run(say, speaker=speaker, **how)

    def answer(self, say: str, name: str, /, **rest: Any) -> str:
        """Return what the tool of such a turn told the model."""
        (result,) = self.turn(say, name, **rest).tools
        assert result.error is None, result.error
        return result.result

    def forget(self, say: str, key: str, /, **rest: Any) -> str:
        """Return what the model is told of a forgetting after a yes; the first answer, if the tool does not ask."""
        answer = self.answer(say, "forget_fact", key=key, **rest)
        if answer.startswith("Not erased yet"):
            answer = self.answer("Yes, please.", "forget_fact", key=key, **rest)
        return answer


def tool_named(tools: list[Tool], name: str) -> Tool:
    return next(tool for tool in tools if tool.name == name)


def after_a_yes(tool: Tool, /, *, speaker: str | None = None, **arguments: Any) -> str:
    """Return what a tool answers in the turn in which the same speaker says yes; its first answer, if it does not ask."""
    session = Session()
    for n, utterance in enumerate(("Forget that, please.", "Yes.")):
        turn = ToolTurn(utterance, Reader(speaker), session=session, n=n)
        answer = str(tool.run(turn, **arguments))
        if not answer.startswith("Not erased yet"):
            break
    return answer


class EdgeVoxModel:
    """Answers in the place of EdgeVox's model, one after the other, and keeps every prompt; then it says `ok`."""

    _language = "en"  # EdgeVox reads it from its own model

    def __init__(self, *said: Said) -> None:
        self.said = list(said)
        self.handed: list[list[dict[str, Any]]] = []

    def complete(self, messages: list[dict[str, Any]], **_: Any) -> dict[str, Any]:
        """Answer as llama-cpp-python does."""
        self.handed.append(copy.deepcopy(messages))
        answer: Any = self.said.pop(0) if self.said else "ok"
        if callable(answer):
            answer = answer(messages)
        if isinstance(answer, Exception):
            raise answer
        message = answer if isinstance(answer, dict) else {"role": "assistant", "content": answer}
        return {"choices": [{"message": message}]}


def calls(name: str, saying: str = "", **arguments: Any) -> dict[str, Any]:
    """Return a message of a model that calls a tool as its chat template wants it."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": f"id-{name}", "function": function}
    return {"role": "assistant", "content": saying, "tool_calls": [call]}


def calls_in_words(name: str, saying: str = "", **arguments: Any) -> str:
    """Return a reply of a model that writes its call as text, as most small ones do."""
    return f"{saying}<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def hands_over(name: str) -> dict[str, Any]:
    return calls(f"handoff_to_{name}")


def make_agent(*said: Said, name: str = "kitchen", **how: Any) -> tuple[Any, EdgeVoxModel]:
    """Return an agent of EdgeVox and its model."""
    agents = importlib.import_module("edgevox.agents")
    model = EdgeVoxModel(*said)
    agent = agents.LLMAgent(name, f"helps in the {name}", f"You help in the {name}.", llm=model, **how)
    return agent, model


def tool(name: str, run: Callable[..., Any], **parameters: str) -> Any:
    """Return a tool of EdgeVox; `parameters` are types by name."""
    properties = {key: {"type": kind} for key, kind in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return importlib.import_module("edgevox.llm.tools").Tool(name, f"To {name}.", schema, run)


def new_context(**how: Any) -> Any:
    """Return a context of EdgeVox, which keeps one conversation from run to run."""
    return importlib.import_module("edgevox.agents").AgentContext(**how)


def grows(handed: Iterable[list[dict[str, Any]]]) -> bool:
    """Tell whether each prompt begins with the whole of the one before it, so that a model reads only what is new."""
    return all(later[: len(earlier)] == earlier for earlier, later in pairwise(handed))


def words(message: dict[str, Any]) -> str:
    """Return the text of a message of a prompt without the memory that was put before it."""
    return str(message["content"]).rpartition("</memory>\n")[2]


def on_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on an event loop of its own."""

    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


def opened(home: Path) -> AsyncMemory:
    """Open a home that finds by words, without threads of its own."""
    return edgemem.aio.open(home, profile=BY_WORDS, worker=False)


async def until(event: threading.Event) -> None:
    """Wait for another thread."""
    assert await asyncio.to_thread(event.wait, 60)


async def raised(*waited: Awaitable[Any]) -> list[type]:
    """Return the classes of what awaits raise or return."""
    return [type(outcome) for outcome in await asyncio.gather(*waited, return_exceptions=True)]


class Gate:
    """A hook that holds up the thread of the turns at some points, until it is opened, and keeps what it saw."""

    def __init__(self, *points: str) -> None:
        self.points, self.priority = frozenset(points), 1000
        self.reached, self.opened = threading.Event(), threading.Event()
        self.seen: list[Any] = []

    def __call__(self, point: str, ctx: Any, payload: Any) -> None:
        self.seen.append(payload)
        self.reached.set()
        assert self.opened.wait(60)


class Loop:
    """An agent loop whose model says what it heard; a turn whose task is cancelled is aborted. Without a door, it has no memory."""

    speaker = "Ann"

    def __init__(self, door: AsyncConversation | None) -> None:
        self.door = door

    @property
    def messages(self) -> list[Any]:
        """Return what was said."""
        return [] if self.door is None else self.door.ctx.session.messages

    async def turn(self, text: str, *, tool: bool = False) -> None:
        """Answer an utterance, or nothing of it was ever said."""
        if self.door is None:
            await self.ask(None)
            return
        async with self.door.turn(text, speaker=self.speaker) as turn:
            try:
                await self.ask(turn)
                if tool:
                    await turn.call(ToolCall("remember_fact", {"key": text, "value": "yes"}, "1"))
                    await self.ask(turn)
                await turn.reply(f"You said {text}.")
            except asyncio.CancelledError:
                turn.abort()
                raise

    async def ask(self, turn: AsyncTurn | None) -> None:
        """Wait for the memory, then for a model."""
        if turn is not None:
            await turn.messages
        await asyncio.sleep(0)
