"""Long results of tools: beginning and end stay, all of a turn's fit the window, and the operator has the whole."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemem import AgentLoop, JSONSessionStore, Memory, PersistSessionHook, ToolOutputTruncatorHook
from edgemem.config import ContextSettings, Profile, Settings
from edgemem.context.budget import Budget
from edgemem.errors import InvalidInputError
from edgemem.records import Reply, Session, ToolCall
from edgemem.session.points import AFTER_TOOL, ToolCallResult, TurnContext
from edgemem.session.tools import Tool
from edgemem.store.turns import read_output
from support.models import Model
from support.selection import cases
from support.tokenizers import WordTokenizer

pytestmark = pytest.mark.usefixtures("patient")

HOME_SETTINGS = "[hooks]\ntool_output_chars = 600\n"
PAGES = "\n".join(f"line {n} of the log: the pump ran" for n in range(1000))


class Robot:
    """A loop with a memory, whose tool `read` answers with pages."""

    def __init__(self, memory: Memory, *, session: str = "s") -> None:
        self.text = PAGES
        self.model = Model()
        read = Tool("read", "", {}, lambda: self.text)
        self.loop = AgentLoop(
            self.model, hooks=memory.hooks(session_id=session), tools=[read, *memory.tools()]
        )

    def read(self, *, speaker: str | None = "alice", **how: Any) -> str:
        self.model.answers = [Reply("", (ToolCall("read", {}),))]
        result = self.loop.run("look it up", speaker=speaker, **how)
        assert self.loop.hooks.failures() == []
        return str([m["content"] for m in result.handed[-1] if m["role"] == "tool"][-1])


@pytest.fixture(autouse=True)
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep 200 kB of results whole."""
    monkeypatch.setattr("edgemem.session.tools.KEPT_BYTES", 200_000)


@pytest.fixture
def robot(memory: Memory) -> Robot:
    return Robot(memory)


def name_in(shown: str) -> str:
    return shown.partition("kept as ")[2].partition(")")[0]


def test_a_long_result_keeps_beginning_and_end_and_the_operator_has_the_whole(memory: Memory) -> None:
    """The model reads both ends and how much is missing; the whole is kept under the name between them."""
    shown = Robot(memory).read()
    begin, _, rest = shown.partition("\n… (")
    assert len(shown) <= 600
    assert PAGES.startswith(begin)
    assert PAGES.endswith(rest.partition(") …\n")[2])
    output = read_output(memory.diagnostics.database, name_in(shown), length=10**6)
    assert output is not None
    assert output.text == PAGES
    assert any('"record":"output"' in line and "line 999" in line for line in memory.export())
    assert any("pump ran" in item.text for item in memory.recall("pump ran", kinds=["episode"]))


def test_forgetting_takes_the_text_along(memory: Memory) -> None:
    """It is erased with its person, its session, and the turn that was thrown away."""
    kept = "select count(*) from tool_outputs"
    Robot(memory, session="a").read()
    Robot(memory, session="b").read(speaker="bob")
    assert memory.diagnostics.database.query(kept) == [(2,)]
    memory.forget(person="bob")
    assert memory.diagnostics.database.query(kept) == [(1,)]
    memory.forget(session="a")
    assert memory.diagnostics.database.query(kept) == [(0,)]
    robot = Robot(memory, session="c")
    robot.model.answers = [Reply("", (ToolCall("read", {}),))]
    robot.loop.prepare("look it up", speaker="alice")
    robot.loop.abort()
    robot.loop.run("never mind", speaker="alice")
    assert memory.diagnostics.database.query(kept) == [(0,)]
    memory.diagnostics.database.checkpoint()
    assert b"line 999 of the log" not in memory.diagnostics.database.path.read_bytes()


def test_all_texts_together_stay_within_the_bound(memory: Memory, robot: Robot) -> None:
    """The oldest go first; one that is larger than all of the room is shortened without a name."""
    names = []
    for n in range(12):
        robot.text = f"{n} {PAGES}"
        names.append(name_in(robot.read()))
    total = memory.diagnostics.database.query(
        "select sum(length(cast(content as blob))), sum(bytes) from tool_outputs"
    )
    assert total[0][0] == total[0][1] <= 200_000
    found = [read_output(memory.diagnostics.database, name, length=10) is not None for name in names]
    assert found == sorted(found)
    assert 0 < sum(found) < 12
    robot.text = PAGES * 10
    shown = robot.read()
    assert "characters left out) …" in shown


def test_no_name_is_told_where_nothing_is_kept(tmp_path: Path) -> None:
    """A store of JSON files keeps only what was shown."""
    store = JSONSessionStore(tmp_path / "sessions")
    hooks = [PersistSessionHook(store, session_id="s"), ToolOutputTruncatorHook(600, keep_bytes=10**6)]
    calls = Model(Reply("", (ToolCall("read", {}),)))
    loop = AgentLoop(calls, hooks=hooks, tools=[Tool("read", "", {}, lambda: PAGES)])
    loop.run("look it up")
    assert "left out" in str(loop.session.messages)
    assert "kept as" not in str(loop.session.messages)


def truncated(result: Any, max_chars: int = 400) -> Any:
    payload = ToolCallResult("read", {}, result)
    fired = ToolOutputTruncatorHook(max_chars)(AFTER_TOOL, TurnContext(Session()), payload)
    if fired is None:
        return result
    assert payload.result is result
    return fired.payload.result


def test_a_short_result_stays_as_it_is() -> None:
    """What fits is not touched, whatever its kind."""
    for result in ("x" * 400, {"a": [1, 2, 3]}, None, 7, True):
        assert truncated(result) is result


@pytest.mark.parametrize("sign", ["e\u0301", "👩\u200d👩\u200d👧", "👍\U0001f3fd", "❤\ufe0f", "กั้"])
def test_no_sign_is_torn_apart(sign: str) -> None:
    """A cut stands between what a reader sees as characters, at both ends."""
    for shift in range(8):
        begin, _, rest = truncated("x" * shift + sign * 500).partition("\n… (")
        body, end = begin[shift:], rest.partition(") …\n")[2]
        assert body == sign * (len(body) // len(sign))
        assert end == sign * (len(end) // len(sign))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=30), inner, max_size=10),
    max_leaves=60,
)


@settings(max_examples=cases(300), deadline=None)
@given(JSON, st.integers(200, 3000))
def test_the_bound_holds_for_any_json(value: Any, max_chars: int) -> None:
    """Whatever a tool returns, what the model is shown is within the bound."""
    out = truncated(value, max_chars)
    shown = out if isinstance(out, str) else json.dumps(out, ensure_ascii=False)
    assert len(shown) <= max_chars


def test_odd_results_are_shortened_too() -> None:
    """Objects that are no JSON, lone surrogates, and a megabyte: within the bound."""
    for odd in (b"x" * 5000, {"\ud800" * 900: object()}, "x" * 1_000_000, [{"k" * 900: 1}] * 9):
        assert len(truncated(odd)) <= 400


def test_limits_that_cannot_work_are_refused() -> None:
    """The error names the argument."""
    with pytest.raises(InvalidInputError, match="max_chars must be at least 200"):
        ToolOutputTruncatorHook(0)


def test_all_results_of_a_turn_take_at_most_half_of_the_window() -> None:
    """Each gets half of what the ones before it have left, down to the least bound; why a tool failed is shortened too."""
    counts = WordTokenizer()
    context = ContextSettings(
        window_tokens=1016, reply_tokens=16, block_tokens=0, summary_tokens=1, keep_last_turns=1
    )
    hook = ToolOutputTruncatorHook(4000, budget=Budget(Settings(Profile(context=context)), counts))
    ctx = TurnContext(Session())
    sizes = []
    for n in range(6):
        given = ToolCallResult("read", {}, **{"result" if n % 2 else "error": "w " * 5000})
        done: Any = hook(AFTER_TOOL, ctx, given).payload  # type: ignore[union-attr]
        sizes.append(len(counts.encode(done.result or done.error)))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] <= 250
    assert sum(sizes) <= 500 + 6 * 100
    assert hook(AFTER_TOOL, ctx, ToolCallResult("read", {}, error="no such page")) is None
