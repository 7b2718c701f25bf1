"""What several tools answer in one turn: shared out, so that all of it and an answer fit the window."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from word_tokenizer import WordTokenizer

import edgemem
from edgemem import AgentLoop, Memory, ToolOutputTruncatorHook
from edgemem.config import ContextSettings, LlamaSettings, Profile, Settings
from edgemem.context.budget import Budget
from edgemem.errors import ContextOverflowError
from edgemem.hooks.points import AFTER_LLM, AFTER_TOOL, BEFORE_LLM, ToolCallResult, TurnContext
from edgemem.llama.protocols import Tokenizer
from edgemem.llama.tokens.tokenizer import LlamaTokenizer
from edgemem.loop.toolbox import Tool
from edgemem.records import Message, Reply, Session, ToolCall

pytestmark = pytest.mark.usefixtures("patient")

PAGES = "\n".join(f"line {n} item {n * 7} costs {n} euro" for n in range(2000))
REPLY = 64


class Model:
    """Calls what it is told to, hop by hop, and refuses a prompt that leaves no room for its answer."""

    def __init__(self, tokenizer: Tokenizer, window: int) -> None:
        self.hops: list[int] = []
        self.sizes: list[int] = []
        self._tokenizer, self._window = tokenizer, window

    def complete(self, messages: Sequence[Message], *, tools: Sequence[dict[str, Any]], **_: Any) -> Reply:
        size = self._tokenizer.count(messages, tools=tools or None)
        self.sizes.append(size)
        if size > self._window - REPLY:
            raise ContextOverflowError(f"The prompt has {size} tokens")
        calls = self.hops.pop(0) if self.hops else 0
        return Reply("" if calls else "Done.", tuple(ToolCall("read", {"page": n}) for n in range(calls)))

    def cut(self, heard_text: str) -> None:
        """Nothing to forget."""


def robot(memory: Memory, tokenizer: Tokenizer, window: int, text: Any = PAGES, **how: Any) -> AgentLoop:
    """Return a loop with a tool that answers with pages, in a window of that size."""
    tool = Tool("read", "reads", {"type": "object", "properties": {}}, lambda page=0: text)
    hooks = memory.hooks(session_id="s", tokenizer=tokenizer)
    return AgentLoop(
        Model(tokenizer, window), hooks=hooks, tools=[tool], instructions="You are Pip.", max_hops=8, **how
    )


def profile(window: int, **more: Any) -> Profile:
    """Return a profile with such a window."""
    context = {
        "window_tokens": window,
        "reply_tokens": REPLY,
        "summary_tokens": 60,
        "block_tokens": 20,
        **more,
    }
    return Profile(context=msgspec.convert(context, ContextSettings), llama=LlamaSettings(embedder=""))


@pytest.mark.parametrize("hops", [[5], [1, 1, 1, 1, 1, 1], [3, 3], [12]])
def test_all_results_of_a_turn_fit_together(tmp_path: Path, vocabularies: Path, hops: list[int]) -> None:
    """With a real vocabulary and template, pages for each of many calls: there is an answer, and what was shown stays."""
    template = (vocabularies / "templates" / "Qwen-Qwen2.5-7B-Instruct.jinja").read_text()
    with (
        LlamaTokenizer(vocabularies / "ggml-vocab-qwen2.gguf", template=template) as tokenizer,
        edgemem.open(tmp_path, profile=profile(2048), worker=False) as memory,
    ):
        loop = robot(memory, tokenizer, 2048)
        model: Any = loop.model
        for _ in range(3):
            model.hops = list(hops)
            result = loop.run("list all of it")
            assert result.reply == "Done."
            shown = [message["content"] for message in result.handed[-1] if message["role"] == "tool"]
            assert len(shown) >= sum(hops)
            assert all("read_more" in text for text in shown)
            for before, after in zip(result.handed, result.handed[1:], strict=False):
                if len(after) > len(before):
                    assert after[: len(before)] == before
        assert max(model.sizes) <= 2048 - REPLY
        assert loop.hooks.failures() == []


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=6),
    st.integers(250, 900),
    st.sampled_from(["word " * 3, "word " * 120, "word " * 5000, "\n".join("a b c" for _ in range(999))]),
)
def test_whatever_is_called_there_is_an_answer(
    tmp_path_factory: pytest.TempPathFactory, hops: list[int], window: int, text: str
) -> None:
    """Small windows, many calls, results of every size: the model is never handed more than fits it."""
    tokenizer = WordTokenizer()
    home = tmp_path_factory.mktemp("home")
    with edgemem.open(home, profile=profile(window), worker=False) as memory:
        loop = robot(memory, tokenizer, window, text)
        model: Any = loop.model
        model.hops = list(hops)
        assert loop.run("Hello.").reply == "Done."
        assert loop.run("And now?").reply == "Done."
        assert loop.hooks.failures() == []


def fired(hook: ToolOutputTruncatorHook, ctx: TurnContext, name: str, result: Any) -> Any:
    """Return what a hook makes of a result."""
    done = hook(AFTER_TOOL, ctx, ToolCallResult(name, {}, result))
    return result if done is None else done.payload.result


def begun(hook: ToolOutputTruncatorHook, *names: str, words: int = 10) -> TurnContext:
    """Return a turn in which the model has asked for some tools, behind a prompt of so many words."""
    ctx = TurnContext(Session())
    messages: list[Message] = [{"role": "user", "content": "word " * words}]
    hook(BEFORE_LLM, ctx, {"messages": messages, "tools": None, "hop": 0})
    hook(AFTER_LLM, ctx, {"content": "", "tool_calls": tuple(ToolCall(name, {}) for name in names)})
    return ctx


def budget_of(room: int, tokenizer: WordTokenizer) -> Budget:
    """Return a budget that leaves a prompt so many tokens."""
    context = ContextSettings(
        window_tokens=room + 16, reply_tokens=16, block_tokens=0, summary_tokens=1, keep_last_turns=1
    )
    return Budget(Settings(Profile(context=context)), tokenizer)


def test_half_of_what_is_left_is_shared_by_the_calls_of_a_hop() -> None:
    """One call has the whole half, but never more than its share of the room; of five each has a fifth of it."""
    tokenizer, text = WordTokenizer(), "word " * 900

    def size(names: int, words: int) -> int:
        hook = ToolOutputTruncatorHook(4000, share=0.4, budget=budget_of(1000, tokenizer))
        shown = fired(hook, begun(hook, *["read"] * names, words=words), "read", text)
        return len(tokenizer.encode(shown))

    assert 380 < size(1, 10) <= 400
    assert 100 < size(1, 500) < 250
    assert 80 < size(5, 10) < 100


def test_a_result_that_would_not_fit_is_its_size_or_its_name_alone() -> None:
    """Where even the least is too much, the model is told that there is something, and a short result stays whole."""
    tokenizer = WordTokenizer()
    hook = ToolOutputTruncatorHook(4000, budget=budget_of(300, tokenizer))
    ctx = begun(hook, "read", "read", words=250)
    assert fired(hook, ctx, "read", "w " * 600) == "… (1,200 characters)"
    assert fired(hook, ctx, "read", "ok") == "ok"


def test_the_memorys_own_tools_are_cut_only_where_nothing_else_helps() -> None:
    """They know their bounds: a fair share does not shorten them, a window that is full does."""
    tokenizer, text = WordTokenizer(), "word " * 150
    hook = ToolOutputTruncatorHook(200, budget=budget_of(400, tokenizer))
    assert fired(hook, begun(hook, "read_more"), "read_more", text) == text
    cut = fired(hook, begun(hook, "read_more", words=250), "read_more", text)
    assert 50 < len(tokenizer.encode(cut)) < 130


def test_without_a_room_only_the_bounds_of_one_result_count() -> None:
    """A hook that was made by hand, as in EdgeVox, shortens as before."""
    hook = ToolOutputTruncatorHook(500)
    ctx = begun(hook, "read", words=5000)
    assert 400 < len(fired(hook, ctx, "read", PAGES)) <= 500


def test_why_a_tool_failed_is_shortened_too() -> None:
    """A traceback of pages fills a window as well as a result does; a short reason stays."""
    hook = ToolOutputTruncatorHook(500, budget=budget_of(1000, WordTokenizer()))
    ctx = begun(hook, "read", "read")
    done: Any = hook(AFTER_TOOL, ctx, ToolCallResult("read", {}, error=PAGES))
    assert 400 < len(done.payload.error) <= 500
    assert done.payload.result is None
    assert hook(AFTER_TOOL, ctx, ToolCallResult("read", {}, error="no such page")) is None
