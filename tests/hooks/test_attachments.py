"""The attachment for a plain llama-cpp-python program, with a real `Llama` of random weights."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from llama_cpp import Llama

from edgemem.hooks import HookResult, load
from edgemem.llama.protocols import Generation
from edgemem.loop.loop import AgentLoop
from edgemem.memory import Memory
from edgemem.session.points import BEFORE_LLM
from edgemem.session.tools import Tool

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("patient")


class Watch:
    """Keeps the prompts as the model gets them, rendered."""

    points = frozenset({BEFORE_LLM})
    priority = 0

    def __init__(self, robot: AgentLoop) -> None:
        self.prompts: list[str] = []
        self._render = robot.model.tokenizer.render  # type: ignore[attr-defined]
        robot.hooks.register(self)

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        self.prompts.append(self._render(payload["messages"], now=payload.get("now")).text)
        return None


@pytest.fixture
def llm(chat_model: Callable[[str], Path]) -> Iterator[Llama]:
    """Return a `Llama` as a user's program has it."""
    llm = Llama(str(chat_model("phi-3")), n_ctx=2048, n_threads=1, n_threads_batch=1, verbose=False)
    yield llm
    llm.close()


def attached(llm: Llama, memory: Memory, *, max_tokens: int = 12, **settings: Any) -> AgentLoop:
    """Attach in the documented way."""
    robot: AgentLoop = load("llama_cpp_loop").attach(llm, memory, session_id="kitchen", **settings)
    robot.model.max_tokens = max_tokens  # type: ignore[attr-defined]
    return robot


def last(robot: AgentLoop) -> Generation:
    """Return what the model did last."""
    generation: Generation = robot.model.chat.last  # type: ignore[attr-defined]
    return generation


def test_memory_tools_can_be_left_out(llm: Llama, memory: Memory) -> None:
    """`memory_tools=False` leaves a robot's own tools alone; with it, they stand behind those of the memory."""
    own = Tool("wave", "Wave a hand.", {"type": "object", "properties": {}}, lambda: "waved")
    assert list(attached(llm, memory, tools=[own], memory_tools=False).tools) == ["wave"]
    assert list(attached(llm, memory, tools=[own]).tools)[-1] == "wave"
    assert "search_memory" in attached(llm, memory).tools


def test_ten_turns_evaluate_only_what_is_new(llm: Llama, memory: Memory) -> None:
    """Memory reaches the model in the newest message, and no token is evaluated twice."""
    memory.store.add_fact("allergy", "hazelnuts", scope="household")
    memory.store.add_fact("bin.day", "Thursday", scope="household")
    robot = attached(llm, memory, speaker="alice")
    watch = Watch(robot)
    seen = 0
    for n in range(10):
        question = {3: "which allergy do we have?", 6: "which day is the bin day?"}.get(n, f"and {n} more?")
        robot.run(question)
        done = last(robot)
        new = done.prompt_tokens - seen
        assert 0 < new <= done.evaluated_tokens <= new + 1
        seen = done.prompt_tokens + len(done.ids)
    assert robot.hooks.failures() == []
    turns = memory.sessions.journal.read_turns("kitchen")
    assert [turn.n for turn in turns] == list(range(10))
    for n, word in ((3, "hazelnuts"), (6, "Thursday")):
        assert word in turns[n].block
        assert turns[n].block + turns[n].messages[0].content in watch.prompts[n]
        assert word not in watch.prompts[n - 1]
        assert word not in str(turns[n].messages)
        # Once shown, it stays where it was shown, and is not shown again.
        assert watch.prompts[9].count(turns[n].block) == 1
    head = "<|system|>\nYou are a helpful robot."
    assert all(prompt.startswith(head) for prompt in watch.prompts)
    assert all(
        later.startswith(earlier) for earlier, later in zip(watch.prompts, watch.prompts[1:], strict=False)
    )


def test_a_barge_in_from_another_thread_stops_within_a_token(llm: Llama, memory: Memory) -> None:
    """The answer ends at once; what was generated and not heard is kept apart."""
    robot = attached(llm, memory, max_tokens=200, speaker="alice")
    pieces: list[str] = []
    cut = 0

    def speak(piece: str) -> None:
        nonlocal cut
        pieces.append(piece)
        if len(pieces) == 6:
            other = threading.Thread(target=robot.interrupt, args=("".join(pieces[:3]),))
            other.start()
            other.join()
            cut = len(pieces)

    result = robot.run("tell me a long story", on_text=speak)
    assert result.interrupted
    assert cut <= len(pieces) <= cut + 1
    assert len(last(robot).ids) < 20
    heard = "".join(pieces[:3])
    (turn,) = memory.sessions.journal.read_turns("kitchen")
    reply = turn.messages[-1]
    assert (turn.state, reply.content) == ("interrupted", heard)
    assert heard + str(reply.unheard) == "".join(pieces)
    assert reply.tokens == last(robot).ids
    before = last(robot)
    robot.run("go on")
    assert last(robot).evaluated_tokens < last(robot).prompt_tokens - before.prompt_tokens
    assert robot.session.messages[1] == {"role": "assistant", "content": heard}
    assert robot.hooks.failures() == []


# Closes in some order, and goes on using what is closed; whatever happens, the process must end by itself.
CLOSING = """
import sys
import edgemem
from edgemem.errors import ClosedError
from edgemem.hooks import load
from llama_cpp import Llama

file, home, *order = sys.argv[1:]
llm = Llama(file, n_ctx=512, n_threads=1, n_threads_batch=1, verbose=False)
memory = edgemem.open(home)
robot = load("llama_cpp_loop").attach(llm, memory)
robot.model.max_tokens = 4
robot.run("hello")
for name in order:
    {"llm": llm, "memory": memory}[name].close()
    try:
        print(name, "answers", len(robot.run("are you there?").reply) > 0)
    except ClosedError as error:
        print(name, "says", error)
"""


SAYS = {
    "llm": "llm says The chat model was closed; open it again",
    "memory": "memory says The memory of this conversation is closed; open the home again with edgemem.open().",
}


@pytest.mark.parametrize("order", [["llm", "memory"], []])
def test_closing_ends_in_peace(chat_model: Callable[[str], Path], tmp_path: Path, order: list[str]) -> None:
    """The model first, or neither: no crash, and what is closed says so."""
    command = [sys.executable, "-c", CLOSING, chat_model("phi-3"), tmp_path / "home", *order]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [SAYS[name] for name in order]


def test_tools_stand_in_the_prefix_unchanged(chat_model: Callable[[str], Path], memory: Memory) -> None:
    """From turn to turn and speaker to speaker the prompt's head is the same, byte for byte, and evaluated once."""
    llm = Llama(str(chat_model("qwen2")), n_ctx=4096, n_threads=1, n_threads_batch=1, verbose=False)
    robot = attached(llm, memory, max_tokens=4)
    schemas = [tool.schema() for tool in memory.tools(speaker="bob")]
    heads = set()
    evaluated = []
    for who in ("alice", "bob", None, "alice"):
        result = robot.run("Good day to you.", speaker=who)
        prompt = robot.model.tokenizer.render(result.handed[0], tools=schemas).text  # type: ignore[attr-defined]
        heads.add(prompt[: prompt.index("<|im_start|>user")])
        evaluated.append(last(robot).evaluated_tokens)
        if who is not None:
            memory.store.add_fact("tea", f"for {who}", scope=f"user:{who}")
    llm.close()
    (head,) = heads
    assert all(name in head for name in robot.tools)
    assert list(robot.tools) == [schema["function"]["name"] for schema in schemas]
    assert evaluated[0] > 500
    assert max(evaluated[1:]) < evaluated[0] / 3
    assert robot.hooks.failures() == []
