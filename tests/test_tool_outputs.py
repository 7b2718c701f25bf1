"""Results of tools that are too large: what the model is shown, and how it gets the rest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import edgemem
from edgemem import AgentLoop, JSONSessionStore, Memory, PersistSessionHook, ToolOutputTruncatorHook
from edgemem.errors import InvalidInputError
from edgemem.hooks.tool_output import shorten
from edgemem.loop.loop import TurnResult
from edgemem.loop.toolbox import Tool
from edgemem.records import Message, Reply, ToolCall
from edgemem.store.tool_outputs import read_output

pytestmark = pytest.mark.usefixtures("patient")

PAGES = "\n".join(f"line {n} of the log: the pump ran" for n in range(1000))

PROFILE = '[llama]\nembedder = ""\n[hooks]\ntool_output_chars = 600\n'


class Model:
    """Calls what it is told to, and then answers."""

    def __init__(self) -> None:
        self.calls: list[ToolCall] = []
        self.handed: list[list[Message]] = []

    def complete(self, messages: Sequence[Message], **_: Any) -> Reply:
        self.handed.append(list(messages))
        return Reply("", (self.calls.pop(0),)) if self.calls else Reply("ok")

    def cut(self, heard_text: str) -> None:
        """Nothing to forget."""


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
        self.model.calls = list(calls)
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


def opened(home: Path) -> Memory:
    """Open the home with a small bound."""
    home.mkdir(exist_ok=True)
    (home / "edgemem.toml").write_text(PROFILE)
    return edgemem.open(home, worker=False)


@pytest.fixture(autouse=True)
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep 200 kB of results whole."""
    monkeypatch.setattr("edgemem.hooks.tool_output.KEPT_BYTES", 200_000)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """Return an open memory."""
    with opened(tmp_path / "home") as memory:
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


def test_a_text_of_the_running_turn_is_read_before_it_is_written(memory: Memory) -> None:
    """The second hop reads on in what the first one was told."""
    robot = Robot(memory, text="x" + PAGES)
    model = robot.model

    def ask(messages: Sequence[Message], **_: Any) -> Reply:
        model.handed.append(list(messages))
        last = messages[-1]
        if last["role"] == "user":
            return Reply("", (READ,))
        return Reply("", (more(pointer_in(last["content"]), 700),)) if last["name"] == "read" else Reply("ok")

    model.complete = ask  # type: ignore[method-assign]
    handed = robot.turn().handed[-1]
    assert handed[-1]["content"].startswith(PAGES[699:800])


def test_the_prompt_keeps_what_was_shown_byte_for_byte(tmp_path: Path) -> None:
    """Shortened results stay as they were over turns and after the session was taken up again."""
    with opened(tmp_path / "home") as memory:
        robot = Robot(memory)
        first = robot.turn(READ).handed[-1]
        second = robot.turn(READ).handed[-1]
        assert second[: len(first)] == first
    with opened(tmp_path / "home") as memory:
        robot = Robot(memory)
        third = robot.turn().handed[0]
        names = ("role", "content")
        assert [[m.get(name) for name in names] for m in third[: len(second)]] == [
            [m.get(name) for name in names] for m in second
        ]
        pointer = pointer_in(next(m["content"] for m in third if m["role"] == "tool"))
        assert robot.told(more(pointer, 10_000))[0].startswith(PAGES[10_000:10_100])


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
    assert memory.database.query(kept) == [(2,)]
    memory.forget_person("bob")
    assert memory.database.query(kept) == [(1,)]
    memory.forget_session("a")
    assert memory.database.query(kept) == [(0,)]
    robot = Robot(memory, session="c")
    robot.model.calls = [READ]
    robot.loop.prepare("look it up", speaker="alice")
    robot.loop.abort()
    robot.turn()
    assert memory.database.query(kept) == [(0,)]
    memory.database.checkpoint()
    assert b"line 999 of the log" not in memory.database.path.read_bytes()


def test_all_texts_together_stay_within_the_bound(memory: Memory) -> None:
    """The oldest go first; one that is larger than all of the room is shortened without a name."""
    robot = Robot(memory)
    pointers = []
    for n in range(12):
        robot.text = f"{n} {PAGES}"
        pointers.append(pointer_in(robot.told(READ)[0]))
    total = memory.database.query("select sum(length(cast(content as blob))), sum(bytes) from tool_outputs")
    assert total[0][0] == total[0][1] <= 200_000
    found = [read_output(memory.database, pointer, length=10) is not None for pointer in pointers]
    assert found == sorted(found)
    assert 0 < sum(found) < 12
    robot.text = PAGES * 10
    shown = robot.told(READ)[0]
    assert "characters left out" in shown
    assert "read_more" not in shown


def test_the_name_is_the_same_whenever_the_same_is_said(tmp_path: Path) -> None:
    """Nothing of the clock or of chance is in it, so a conversation that is played again has the same prompt."""
    shown = []
    for name in ("a", "b"):
        with opened(tmp_path / name) as memory:
            shown.append(Robot(memory).told(READ)[0])
    assert shown[0] == shown[1]


def test_a_text_of_many_tokens_is_cut_earlier(memory: Memory) -> None:
    """A script with a token a letter may not take more of the window than its share."""

    class Letters:
        def encode(self, text: str) -> list[int]:
            return list(range(len(text)))

    hook = ToolOutputTruncatorHook(2000, max_tokens=500, tokenizer=Letters())  # type: ignore[arg-type]
    loop = AgentLoop(Model(), hooks=[hook], tools=[Tool("read", "", {}, lambda: "漢字" * 900)])
    loop.model.calls = [READ]  # type: ignore[attr-defined]
    loop.run("look it up")
    (shown,) = (m["content"] for m in loop.session.messages if m["role"] == "tool")
    assert 300 < len(shown) <= 500


def test_no_name_is_told_where_nothing_is_kept(tmp_path: Path) -> None:
    """A store of JSON files keeps only what was shown, so the model is not sent looking."""
    store = JSONSessionStore(tmp_path / "sessions")
    hooks = [PersistSessionHook(store, session_id="s"), ToolOutputTruncatorHook(600, keep_bytes=10**6)]
    loop = AgentLoop(Model(), hooks=hooks, tools=[Tool("read", "", {}, lambda: PAGES)])
    loop.model.calls = [READ]  # type: ignore[attr-defined]
    loop.run("look it up")
    assert "read_more" not in str(loop.session.messages)


def test_the_tool_is_offered_only_where_results_are_shortened(tmp_path: Path) -> None:
    """Every schema is paid for in every prompt."""
    with opened(tmp_path / "home") as memory:
        assert "read_more" in {tool.name for tool in memory.tools()}
        assert [tool.name for tool in memory.tools(include=["read_more"])] == ["read_more"]
        assert "read_more" not in {tool.name for tool in memory.tools(include=["recall_fact"])}
        (tool,) = memory.tools(include=["read_more"], speaker="alice")
        with pytest.raises(InvalidInputError, match="number"):
            tool.run(pointer="0011223344", start="soon")
    (tmp_path / "home" / "edgemem.toml").write_text(PROFILE.replace("600", "0"))
    with edgemem.open(tmp_path / "home", worker=False) as memory:
        assert "read_more" not in {tool.name for tool in memory.tools()}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=30), inner, max_size=10),
    max_leaves=60,
)


@settings(max_examples=60, deadline=None)
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
