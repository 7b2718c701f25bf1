"""The model in use: its own window counts, and `check` and `inspect` tell of it, in this process and on a server."""

import json
from pathlib import Path
from typing import Any

import pytest

import edgemem
from edgemem.errors import ContextOverflowError
from edgemem.hooks import load
from edgemem.llama.chat import LlamaChat
from edgemem.llama.server.chat import HttpLlama
from edgemem.loop.loop import AgentLoop
from edgemem.loop.replies import ChatReplies
from edgemem.memory import Memory
from support.cli import run
from support.homes import opened
from support.models import write_llama_gguf
from support.servers import RunningServer, free_port

APPENDS, REWRITES = "Qwen-Qwen2.5-7B-Instruct", "openai-gpt-oss-120b"
SAID = "What did I say about hazelnuts, and about all of the many other things? " * 2


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, vocabularies: Path) -> dict[str, Path]:
    """Return a real model of random weights for each of two templates, made for 2,048 tokens."""
    folder = tmp_path_factory.mktemp("models")
    return {
        template: write_llama_gguf(
            folder / f"{n}.gguf",
            vocabularies=vocabularies,
            template=template,
            layers=1,
            width=32,
            context=2048,
        )
        for n, template in enumerate((APPENDS, REWRITES))
    }


def told(memory: Memory, name: str) -> Any:
    """Return one line of `check`."""
    return next(found for found in memory.check() if found.name == name)


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
        found = told(memory, "window")
        assert (found.state, found.detail) == (
            "warn",
            "the model's has 1,024 tokens and the profile says 4,096: the model's counts",
        )


def test_a_window_below_the_instructions_is_refused(memory: Memory, models: dict[str, Path]) -> None:
    """In `hooks` and in `attach`, in one sentence with the window of the model; what fits is taken."""
    from llama_cpp import Llama

    llm = Llama(str(models[APPENDS]), n_ctx=512, n_threads=1, n_threads_batch=1, verbose=False)
    attach = load("llama_cpp_loop").attach
    try:
        orders = "Be nice to people. " * 100
        with pytest.raises(
            ContextOverflowError, match=r"opened with has 512: .* at least [\d,]+ \(n_ctx"
        ) as caught:
            attach(llm, memory, instructions=orders, memory_tools=False)
        assert "\n" not in str(caught.value)
        with pytest.raises(
            ContextOverflowError, match=r"The instructions and the tools take .*offer fewer tools\.$"
        ):
            attach(llm, memory, instructions="You are Pip.")
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
            with pytest.raises(ContextOverflowError) as caught:
                chat.stream(list(messages), max_tokens=4)
            return str(caught.value)

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
            loop = AgentLoop(
                ChatReplies(model, max_tokens=4),
                hooks=memory.hooks(session_id="s", tokenizer=model.tokenizer),
            )
            for n in range(18):
                loop.run(f"{n}: {SAID}")
                assert model.last.prompt_tokens <= 1024 - 256
            assert loop.hooks.failures() == []
            assert "the model's has 1,024 tokens" in told(memory, "window").detail
            with pytest.raises(ContextOverflowError, match=r"opened with has 1,024"):
                memory.hooks(model=model, instructions="Be nice to people. " * 300)
            with pytest.raises(
                ContextOverflowError, match=r"alone take .* start the server with a larger window"
            ):
                model.stream(
                    [{"role": "system", "content": "Be nice. " * 900}, {"role": "user", "content": "?"}],
                    max_tokens=1,
                )
            found = told(memory, "compaction")
            assert found.state == "warn"
            assert found.detail.startswith(
                "summaries are made of sentences that were said: no session has a chat model"
            )

        home = ("--home", memory.home)
        text = run("check", "--server", server.url, *home).stdout
        assert "the model's has 1,024 tokens" in " ".join(text.split())
        assert "the chat template only appends" in " ".join(text.split())
        found = json.loads(
            run("inspect", "prompt", "Hello?", "--server", server.url, "--no-tools", "--json", *home).stdout
        )
        assert found["window_tokens"] == 1024
        assert found["exact"]
        assert found["tokens"] + found["free_tokens"] == 1024


def test_the_commands_take_a_model(models: dict[str, Path], tmp_path: Path) -> None:
    """`check --llm` tells what a template costs, `inspect --llm` divides the model's window; two models are refused."""
    home = tmp_path / "other"
    home.mkdir()
    (home / "edgemem.toml").write_text('[llama]\nembedder = ""\n')
    with edgemem.open(home, worker=False) as memory:
        memory.store.add_fact("allergy", "hazelnuts")
    lines = {
        one["name"]: one
        for one in json.loads(run("check", "--llm", models[REWRITES], "--json", "--home", home).stdout)
    }
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
        assert both.exit_code == 1
        assert "not both" in both.stderr
        gone = run(*command, "--server", f"http://127.0.0.1:{free_port()}", "--home", home)
        assert gone.exit_code == 1
        assert "No server answers" in gone.stderr
        assert gone.stderr.count("\n") == 1


def test_chat_loads_no_larger_window_than_the_models(models: dict[str, Path], tmp_path: Path) -> None:
    """The talk goes on in that of the model."""
    options = ("--no-tools", "--max-tokens", "2", "--home", tmp_path / "home")
    done = run("chat", "--llm", models[APPENDS], *options, input="hello\n")
    assert done.exit_code == 0, done.output
