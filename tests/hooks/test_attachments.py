"""The attachment for a plain llama-cpp-python program, with a real `Llama`; the window of the model in use counts."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from llama_cpp import Llama

import edgemem
from edgemem.errors import ContextOverflowError
from edgemem.hooks import HookResult, load
from edgemem.llama.chat import LlamaChat
from edgemem.llama.protocols import Generation
from edgemem.llama.server.chat import HttpLlama
from edgemem.loop.loop import AgentLoop
from edgemem.loop.replies import ChatReplies
from edgemem.memory import Memory
from edgemem.session.points import BEFORE_LLM
from edgemem.session.tools import Tool
from support.cli import refused, run
from support.homes import check_of, home_of, opened, warning_of
from support.models import write_llama_gguf
from support.refusals import refusal
from support.servers import RunningServer, free_port

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
    assert all(later.startswith(earlier) for earlier, later in pairwise(watch.prompts))


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


APPENDS, REWRITES = "Qwen-Qwen2.5-7B-Instruct", "openai-gpt-oss-120b"
SAID = "What did I say about hazelnuts, and about all of the many other things? " * 2


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, vocabularies: Path) -> dict[str, Path]:
    """Return a real model of random weights for each of two templates, made for 2,048 tokens."""
    folder = tmp_path_factory.mktemp("models")
    how: dict[str, Any] = {"vocabularies": vocabularies, "layers": 1, "width": 32, "context": 2048}
    return {
        template: write_llama_gguf(folder / f"{n}.gguf", template=template, **how)
        for n, template in enumerate((APPENDS, REWRITES))
    }


@pytest.mark.parametrize("idle", [False, True])
def test_a_window_below_the_profiles_is_kept(memory: Memory, models: dict[str, Path], idle: bool) -> None:
    """Twenty turns with a model of 1,024 tokens: none overflows, with time for upkeep between them and without."""
    with LlamaChat(models[APPENDS], n_ctx=1024, threads=1) as chat:
        hooks = memory.hooks(session_id="s", model=chat, instructions="You are Pip.")
        loop = AgentLoop(ChatReplies(chat, max_tokens=8), hooks=hooks, instructions="You are Pip.")
        for n in range(20):
            loop.run(f"{n}: {SAID}")
            assert chat.last.prompt_tokens <= 1024 - 256
            if idle:
                memory.idle(0.5)
        assert loop.hooks.failures() == []
        counts = "the model's has 1,024 tokens and the profile says 4,096: the model's counts"
        assert warning_of(memory, "window") == counts


def test_a_window_below_the_instructions_is_refused(memory: Memory, models: dict[str, Path]) -> None:
    """In `hooks` and in `attach`, in one sentence with the window of the model; what fits is taken."""
    llm = Llama(str(models[APPENDS]), n_ctx=512, n_threads=1, n_threads_batch=1, verbose=False)
    attach = load("llama_cpp_loop").attach
    try:
        orders = "Be nice to people. " * 100
        least = r"opened with has 512: .* at least [\d,]+ \(n_ctx"
        refusal(
            ContextOverflowError, attach, llm, memory, match=least, instructions=orders, memory_tools=False
        )
        fewer = r"The instructions and the tools take .*offer fewer tools\.$"
        refusal(ContextOverflowError, attach, llm, memory, match=fewer, instructions="You are Pip.")
        robot = attach(llm, memory, instructions="You are Pip.", memory_tools=False)
        robot.model.max_tokens = 4
        assert robot.run("Hello.").reply
        with LlamaChat.wrap(llm) as chat, pytest.raises(ContextOverflowError, match="opened with has 512"):
            memory.hooks(model=chat, instructions=orders)
    finally:
        llm.close()


def test_what_is_too_large_is_what_is_told(models: dict[str, Path]) -> None:
    """Instructions, an utterance, a conversation: each has its own way out."""
    with LlamaChat(models[APPENDS], n_ctx=256, threads=1) as chat:
        said = {"role": "user", "content": "Hello."}
        long = "Be nice to people. " * 100

        def ask(*messages: dict[str, Any]) -> str:
            return refusal(ContextOverflowError, chat.stream, list(messages), max_tokens=4)

        text = ask({"role": "system", "content": long}, said)
        assert "the instructions alone take" in text
        assert "compact" not in text
        assert "shorten them, or open the model with a larger n_ctx" in text
        assert "say it shorter" in ask({"role": "user", "content": long})
        talk = [{"role": role, "content": "Be nice to people. " * 20} for role in ("user", "assistant")] * 3
        assert "compact the conversation" in ask(*talk, said)


def test_a_server_with_a_smaller_window(models: dict[str, Path], llama_server: Path, tmp_path: Path) -> None:
    """The tokenizer of a server knows its window, so that the README's few lines never overflow."""
    with (
        opened(tmp_path / "home", '[compaction]\nsummarizer = "model"\n') as memory,
        RunningServer(llama_server, models[APPENDS], tmp_path / "server", n_ctx=1024) as server,
    ):
        with HttpLlama(server.url) as model:
            hooks = memory.hooks(session_id="s", tokenizer=model.tokenizer)
            loop = AgentLoop(ChatReplies(model, max_tokens=4), hooks=hooks)
            for n in range(18):
                loop.run(f"{n}: {SAID}")
                assert model.last.prompt_tokens <= 1024 - 256
            assert loop.hooks.failures() == []
            assert "the model's has 1,024 tokens" in check_of(memory, "window").detail
            with pytest.raises(ContextOverflowError, match=r"opened with has 1,024"):
                memory.hooks(model=model, instructions="Be nice to people. " * 300)
            much = [{"role": "system", "content": "Be nice. " * 900}, {"role": "user", "content": "?"}]
            larger = r"alone take .* start the server with a larger window"
            refusal(ContextOverflowError, model.stream, much, match=larger, max_tokens=1)
            without = "summaries are made of sentences that were said: no session has a chat model"
            assert warning_of(memory, "compaction").startswith(without)

        home = ("--home", memory.home)
        text = run("check", "--server", server.url, *home).stdout
        assert "the model's has 1,024 tokens" in " ".join(text.split())
        assert "the chat template only appends" in " ".join(text.split())
        looked = run("inspect", "prompt", "Hello?", "--server", server.url, "--no-tools", "--json", *home)
        found = json.loads(looked.stdout)
        assert found["window_tokens"] == 1024
        assert found["exact"]
        assert found["tokens"] + found["free_tokens"] == 1024


def test_the_commands_take_a_model(models: dict[str, Path], tmp_path: Path) -> None:
    """`check --llm` tells what a template costs, `inspect --llm` divides the model's window; two models are refused."""
    home = home_of(tmp_path / "other", '[llama]\nembedder = ""\n')
    with edgemem.open(home, worker=False) as memory:
        memory.store.add_fact("allergy", "hazelnuts")
    checked = run("check", "--llm", models[REWRITES], "--json", "--home", home).stdout
    lines = {one["name"]: one for one in json.loads(checked)}
    assert "is read again each turn" in lines["tokenizer"]["detail"]
    assert "the model's has 2,048 tokens and the profile says 4,096" in lines["window"]["detail"]
    looked = ("inspect", "prompt", "--llm", models[APPENDS], "--home", home)
    text = run(*looked, "What about my allergy?").stdout
    assert "of 2,048 tokens" in text
    found = json.loads(run(*looked, "--json", "--no-tools", "What about my allergy? " * 600).stdout)
    assert found["over_tokens"] == 0, "an utterance is bounded by the window"
    assert found["tokens"] + 256 <= 2048
    assert " -" not in text.partition("The window")[2].partition("recall")[0]
    for command in (("check",), ("inspect", "prompt", "Hello?")):
        both = run(*command, "--llm", models[APPENDS], "--server", "http://127.0.0.1:1", "--home", home)
        assert "not both" in refused(both)
        gone = run(*command, "--server", f"http://127.0.0.1:{free_port()}", "--home", home)
        assert "No server answers" in refused(gone)


def test_chat_loads_no_larger_window_than_the_models(models: dict[str, Path], tmp_path: Path) -> None:
    """The talk goes on in that of the model."""
    options = ("--no-tools", "--max-tokens", "2", "--home", tmp_path / "home")
    done = run("chat", "--llm", models[APPENDS], *options, input="hello\n")
    assert done.exit_code == 0, done.output
