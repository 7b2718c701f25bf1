"""Long results of tools: shortened honestly, shared out so that all of them and an answer fit, and read on; failures are tried again, then given up."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import edgemem
from edgemem import (
    AgentLoop,
    JSONSessionStore,
    Memory,
    PersistSessionHook,
    ToolErrorRetryHook,
    ToolOutputTruncatorHook,
)
from edgemem.config import ContextSettings, LlamaSettings, Profile, Settings
from edgemem.context.budget import Budget
from edgemem.errors import ContextOverflowError, InvalidInputError
from edgemem.hooks.points import AFTER_LLM, AFTER_TOOL, BEFORE_LLM, ToolCallResult, TurnContext
from edgemem.hooks.tool_output import shorten
from edgemem.llama.protocols import Tokenizer
from edgemem.llama.tokens.tokenizer import LlamaTokenizer
from edgemem.loop.loop import TurnResult
from edgemem.loop.toolbox import Tool
from edgemem.records import Message, Reply, Session, ToolCall
from edgemem.store.turns import read_output
from support.homes import opened
from support.models import Model
from support.selection import cases
from support.tokenizers import WordTokenizer

pytestmark = pytest.mark.usefixtures("patient")

SHORT = "[hooks]\ntool_output_chars = 600\n"
PAGES = "\n".join(f"line {n} of the log: the pump ran" for n in range(1000))


class Robot:
    """A loop with a memory, whose tool `read` answers with pages."""

    def __init__(self, memory: Memory, *, session: str = "s", text: str = PAGES) -> None:
        self.text = text
        self.model = Model()
        read = Tool("read", "", {}, lambda: self.text)
        self.loop = AgentLoop(
            self.model, hooks=memory.hooks(session_id=session), tools=[read, *memory.tools()], max_hops=5
        )

    def turn(self, *calls: ToolCall, speaker: str | None = "alice", **how: Any) -> TurnResult:
        self.model.answers = [Reply("", (call,)) for call in calls]
        result = self.loop.run("look it up", speaker=speaker, **how)
        assert self.loop.hooks.failures() == []
        return result

    def told(self, *calls: ToolCall, **how: Any) -> list[str]:
        """Return what the tools of one turn told the model."""
        handed = self.turn(*calls, **how).handed[-1]
        return [m["content"] for m in handed if m["role"] == "tool"][-len(calls) :]


READ = ToolCall("read", {})


def more(pointer: str, start: int = 0) -> ToolCall:
    """Return the call that reads on."""
    return ToolCall("read_more", {"pointer": pointer, "start": start})


@pytest.fixture(autouse=True)
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep 200 kB of results whole."""
    monkeypatch.setattr("edgemem.hooks.tool_output.KEPT_BYTES", 200_000)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """Return an open memory."""
    with opened(tmp_path / "home", SHORT) as memory:
        yield memory


def pointer_in(shown: str) -> str:
    """Return the name that a shortened text says."""
    return shown.rpartition("read_more ")[2].strip('"}]')


def test_the_whole_text_can_be_read_in_pieces(memory: Memory) -> None:
    """In the very same turn and in later ones the model reads on, until it has all of it."""
    robot = Robot(memory)
    shown = robot.told(READ)[0]
    assert len(shown) <= 600
    assert PAGES.startswith(shown.partition("\n… (")[0])
    pointer = pointer_in(shown)
    whole, start = "", 0
    while start < len(PAGES):
        piece, _, note = robot.told(more(pointer, start))[0].rpartition("\n… (")
        whole += piece
        start = len(whole)
        assert note.startswith(f"characters {start - len(piece)} to {start} of {len(PAGES)}")
    assert whole == PAGES
    assert robot.told(more(pointer, len(PAGES)))[0] == f"There is no more: it has {len(PAGES):,} characters."
    both = robot.told(READ, more(pointer, 900))
    assert both[1].startswith(PAGES[900:1000])


def test_only_who_may_read_the_turn_may_read_the_text(memory: Memory) -> None:
    """A text is as private as its turn, and whatever quotes it becomes so too."""
    household = pointer_in(Robot(memory, session="b", text="b" + PAGES).told(READ)[0])
    private = pointer_in(Robot(memory, session="a").told(READ, private=True)[0])
    refused = "Nothing is kept under that name that this speaker may read."
    robot = Robot(memory, session="c")
    assert robot.told(more(private), speaker="bob") == [refused]
    assert robot.told(more(private), speaker="alice", audience=("bob",)) == [refused]
    assert robot.told(more(household), speaker=None) == [refused]
    assert robot.told(more(household), speaker="bob")[0].startswith("bline 0")
    assert robot.told(more(private), speaker="alice")[0].startswith("line 0")
    newest = memory.sessions.journal.read_turns("c")[-1]
    assert (newest.level, newest.owner) == ("private", "alice")
    assert robot.told(more("'; drop table turns"), speaker="alice") == [refused]


def test_forgetting_takes_the_text_along(memory: Memory) -> None:
    """It is erased with its person, its session, and the turn that was thrown away."""
    kept = "select count(*) from tool_outputs"
    Robot(memory, session="a").turn(READ)
    Robot(memory, session="b").turn(READ, speaker="bob")
    assert memory.diagnostics.database.query(kept) == [(2,)]
    memory.forget(person="bob")
    assert memory.diagnostics.database.query(kept) == [(1,)]
    memory.forget(session="a")
    assert memory.diagnostics.database.query(kept) == [(0,)]
    robot = Robot(memory, session="c")
    robot.model.answers = [Reply("", (READ,))]
    robot.loop.prepare("look it up", speaker="alice")
    robot.loop.abort()
    robot.turn()
    assert memory.diagnostics.database.query(kept) == [(0,)]
    memory.diagnostics.database.checkpoint()
    assert b"line 999 of the log" not in memory.diagnostics.database.path.read_bytes()


def test_all_texts_together_stay_within_the_bound(memory: Memory) -> None:
    """The oldest go first; one that is larger than all of the room is shortened without a name."""
    robot = Robot(memory)
    pointers = []
    for n in range(12):
        robot.text = f"{n} {PAGES}"
        pointers.append(pointer_in(robot.told(READ)[0]))
    total = memory.diagnostics.database.query(
        "select sum(length(cast(content as blob))), sum(bytes) from tool_outputs"
    )
    assert total[0][0] == total[0][1] <= 200_000
    found = [read_output(memory.diagnostics.database, pointer, length=10) is not None for pointer in pointers]
    assert found == sorted(found)
    assert 0 < sum(found) < 12
    robot.text = PAGES * 10
    shown = robot.told(READ)[0]
    assert "characters left out" in shown
    assert "read_more" not in shown


def test_no_name_is_told_where_nothing_is_kept(tmp_path: Path) -> None:
    """A store of JSON files keeps only what was shown, so the model is not sent looking."""
    store = JSONSessionStore(tmp_path / "sessions")
    hooks = [PersistSessionHook(store, session_id="s"), ToolOutputTruncatorHook(600, keep_bytes=10**6)]
    loop = AgentLoop(Model(Reply("", (READ,))), hooks=hooks, tools=[Tool("read", "", {}, lambda: PAGES)])
    loop.run("look it up")
    assert "read_more" not in str(loop.session.messages)


def test_the_tool_is_offered_only_where_results_are_shortened(tmp_path: Path) -> None:
    """Every schema is paid for in every prompt."""
    with opened(tmp_path / "home", SHORT) as memory:
        assert "read_more" in {tool.name for tool in memory.tools()}
        assert [tool.name for tool in memory.tools(include=["read_more"])] == ["read_more"]
        assert "read_more" not in {tool.name for tool in memory.tools(include=["recall_fact"])}
        (tool,) = memory.tools(include=["read_more"], speaker="alice")
        with pytest.raises(InvalidInputError, match="number"):
            tool.run(pointer="0011223344", start="soon")
    with opened(tmp_path / "home", SHORT.replace("600", "0")) as memory:
        assert "read_more" not in {tool.name for tool in memory.tools()}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=30), inner, max_size=10),
    max_leaves=60,
)


@settings(max_examples=cases(600), deadline=None)
@given(JSON, st.integers(200, 3000))
def test_the_bound_holds_with_a_name_for_any_json(value: Any, max_chars: int) -> None:
    """Whatever a tool returns, the result with the name in it is within the bound, and JSON stays JSON."""
    for original in (value, json.dumps(value)):
        text = original if isinstance(original, str) else json.dumps(original, ensure_ascii=False)
        if len(text) <= max_chars:
            continue
        out = shorten(original, max_chars, pointer="0123456789")
        told = out if isinstance(out, str) else json.dumps(out, ensure_ascii=False)
        assert len(told) <= max_chars
        assert pointer_in(told) == "0123456789"
        if text.lstrip()[:1] in ("{", "["):
            json.loads(told)


def calls(name: str) -> Reply:
    """Return a reply that calls a tool."""
    return Reply("", (ToolCall(name, {"room": "kitchen"}),))


def told(loop: AgentLoop) -> list[Any]:
    """Return what the model was told by its tools."""
    return [json.loads(m["content"]) for m in loop.session.messages if m["role"] == "tool"]


def truncated(result: Any, max_chars: int = 400) -> Any:
    """Return what the hook leaves of a result."""
    given = ToolCallResult("read", {}, result)
    fired = ToolOutputTruncatorHook(max_chars)(AFTER_TOOL, TurnContext(Session()), given)
    if fired is None:
        return result
    assert given.result is result
    return fired.payload.result


def test_a_short_result_stays_as_it_is() -> None:
    """What fits is not touched, whatever its kind."""
    for result in ("x" * 400, {"a": [1, 2, 3]}, None, 7, True):
        assert truncated(result) is result


def test_text_is_cut_at_a_line_and_says_how_much_is_missing() -> None:
    """The model sees whole lines, and knows that there is more."""
    text = "\n".join(f"line {n} of the log" for n in range(100))
    cut = truncated(text)
    head, _, note = cut.rpartition("\n")
    assert len(cut) <= 400
    assert text.startswith(head + "\n")
    assert note == f"… ({len(text) - len(head):,} of {len(text):,} characters left out)"


@pytest.mark.parametrize("sign", ["e\u0301", "👩\u200d👩\u200d👧", "👍\U0001f3fd", "❤\ufe0f", "กั้"])
def test_no_sign_is_torn_apart(sign: str) -> None:
    """A cut stands between what a reader sees as characters."""
    for shift in range(8):
        cut = truncated("x" * shift + sign * 500)
        body = cut.rpartition("… (")[0][shift:]
        assert body == sign * (len(body) // len(sign))


def test_a_list_keeps_its_first_items() -> None:
    """JSON stays JSON: items are whole, and the rest is counted."""
    rows = [{"n": n, "name": f"cup {n}"} for n in range(200)]
    cut = truncated(rows)
    assert cut[:-1] == rows[: len(cut) - 1]
    assert cut[-1] == f"… ({200 - len(cut) + 1} of 200 items left out)"
    assert 5 < len(cut) < 20


def test_odd_results_are_shortened_too() -> None:
    """Objects that are no JSON, lone surrogates, depth and a megabyte: within the bound, quickly."""
    deep: Any = "leaf" * 500
    for _ in range(300):
        deep = [deep]
    for odd in (
        b"x" * 5000,
        {"\ud800" * 900: object()},
        deep,
        "x" * 1_000_000,
        [{"k" * 900: 1}] * 9,
        10**3000,
    ):
        cut = truncated(odd)
        assert len(cut if isinstance(cut, str) else json.dumps(cut, ensure_ascii=False)) <= 400


def test_limits_that_cannot_work_are_refused() -> None:
    """The errors name the argument."""
    with pytest.raises(InvalidInputError, match="max_chars must be at least 200"):
        ToolOutputTruncatorHook(0)
    with pytest.raises(InvalidInputError, match="max_retries must be at least 0"):
        ToolErrorRetryHook(-1)


def test_a_failed_tool_is_tried_again_and_then_refused() -> None:
    """The model hears how many tries are left; when none are, the tool is not called any more."""
    called = []

    def clean(room: str) -> str:
        called.append(room)
        raise OSError("the brush is stuck")

    loop = AgentLoop(
        Model(*[calls("clean")] * 5, "done", *[calls("clean")] * 5),
        hooks=[ToolErrorRetryHook(max_retries=2)],
        tools=[Tool("clean", "", {}, clean)],
        max_hops=9,
    )
    result = loop.run("clean the kitchen")
    assert len(called) == 3
    error = "OSError: the brush is stuck"
    first, second, third, fourth, fifth = told(loop)
    assert first == {
        "error": error,
        "retries_exhausted": False,
        "retries_left": 2,
        "advice": "correct the arguments and call it again",
    }
    assert (second["retries_left"], third["retries_exhausted"], third["error"]) == (1, True, error)
    assert fourth == fifth == {**third, "error": "not called: it failed 3 times"}
    assert [tool.ok for tool in result.tools] == [False] * 5
    loop.run("try again")
    assert len(called) == 6


PRICES = "\n".join(f"line {n} item {n * 7} costs {n} euro" for n in range(2000))
REPLY = 64


class Counting:
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


def pricing(memory: Memory, tokenizer: Tokenizer, window: int, text: Any = PRICES, **how: Any) -> AgentLoop:
    """Return a loop with a tool that answers with pages, in a window of that size."""
    tool = Tool("read", "reads", {"type": "object", "properties": {}}, lambda page=0: text)
    hooks = memory.hooks(session_id="s", tokenizer=tokenizer)
    return AgentLoop(
        Counting(tokenizer, window), hooks=hooks, tools=[tool], instructions="You are Pip.", max_hops=8, **how
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


@pytest.mark.parametrize("hops", [[1, 1, 1, 1, 1, 1], [3, 3], [12]])
def test_all_results_of_a_turn_fit_together(tmp_path: Path, vocabularies: Path, hops: list[int]) -> None:
    """With a real vocabulary and template, pages for each of many calls: there is an answer, and what was shown stays."""
    template = (vocabularies / "templates" / "Qwen-Qwen2.5-7B-Instruct.jinja").read_text()
    with (
        LlamaTokenizer(vocabularies / "ggml-vocab-qwen2.gguf", template=template) as tokenizer,
        edgemem.open(tmp_path, profile=profile(2048), worker=False) as memory,
    ):
        loop = pricing(memory, tokenizer, 2048)
        model: Any = loop.model
        for _ in range(2):
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


@settings(max_examples=cases(200), deadline=None)
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
        loop = pricing(memory, tokenizer, window, text)
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


def test_why_a_tool_failed_is_shortened_too() -> None:
    """A traceback of pages fills a window as well as a result does; a short reason stays."""
    hook = ToolOutputTruncatorHook(500, budget=budget_of(1000, WordTokenizer()))
    ctx = begun(hook, "read", "read")
    done: Any = hook(AFTER_TOOL, ctx, ToolCallResult("read", {}, error=PRICES))
    assert 400 < len(done.payload.error) <= 500
    assert done.payload.result is None
    assert hook(AFTER_TOOL, ctx, ToolCallResult("read", {}, error="no such page")) is None
