"""What hooks do about tools: long results are shortened honestly, failures are tried again and then given up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemem import ToolErrorRetryHook, ToolOutputTruncatorHook
from edgemem.errors import InvalidInputError
from edgemem.hooks.points import AFTER_TOOL, ToolCallResult, TurnContext
from edgemem.hooks.tool_output import shorten
from edgemem.loop.loop import AgentLoop
from edgemem.loop.toolbox import Tool
from edgemem.records import Message, Reply, Session, ToolCall


class Calling:
    """A model that calls one tool at every hop, and answers at the last."""

    def __init__(self, name: str, *, hops: int) -> None:
        self.name = name
        self.hops = hops
        self.handed: list[list[Message]] = []

    def complete(self, messages: Sequence[Message], **_: Any) -> Reply:
        self.handed.append(list(messages))
        done = len(self.handed) % self.hops == 0
        return Reply("done") if done else Reply("", (ToolCall(self.name, {"room": "kitchen"}),))

    def cut(self, heard_text: str) -> None:
        """Nothing to forget."""


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


def test_a_long_member_is_cut_and_short_ones_stay() -> None:
    """What a tool says beside its pages is not lost."""
    cut = truncated({"ok": True, "log": "word " * 1000, "code": 7, "rows": list(range(500))})
    assert (cut["ok"], cut["code"], list(cut)) == (True, 7, ["ok", "log", "code", "rows"])
    assert cut["log"].endswith("of 5,000 characters left out)")
    assert cut["rows"][-1].endswith("of 500 items left out)")
    assert len(json.dumps(cut, ensure_ascii=False)) <= 400


def test_text_that_is_json_stays_json() -> None:
    """A tool that hands over JSON as a string gets JSON back."""
    text = json.dumps({"rows": list(range(5000)), "total": 5000}, indent=2)
    cut = truncated(text)
    assert len(cut) <= 400
    assert json.loads(cut)["total"] == 5000
    broken = truncated("[1, 2, " * 500)
    assert broken.endswith("characters left out)")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=30), inner, max_size=10),
    max_leaves=60,
)


@settings(max_examples=150, deadline=None)
@given(JSON, st.integers(200, 3000))
def test_the_bound_holds_for_any_json(value: Any, max_chars: int) -> None:
    """Whatever a tool returns, the result is within the bound, and is JSON."""
    for given_value in (value, json.dumps(value)):
        out = shorten(given_value, max_chars) if len(str(given_value)) > max_chars else given_value
        text = out if isinstance(out, str) else json.dumps(out, ensure_ascii=False)
        if out is not given_value:
            assert len(text) <= max_chars
        if given_value is not value and given_value[:1] in "{[":
            json.loads(text)


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
        Calling("clean", hops=6),
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


def test_a_success_counts_anew() -> None:
    """Only failures one after the other use up the tries."""
    outcomes = iter([False, True, False, True, False])

    def flaky(room: str) -> str:
        if not next(outcomes):
            raise OSError("no answer")
        return '"done"'

    loop = AgentLoop(
        Calling("flaky", hops=6),
        hooks=[ToolErrorRetryHook(max_retries=1)],
        tools=[Tool("flaky", "", {}, flaky)],
        max_hops=9,
    )
    loop.run("go")
    said = told(loop)
    assert [each if isinstance(each, str) else each["retries_left"] for each in said] == [
        1,
        "done",
        1,
        "done",
        1,
    ]


def test_made_up_tools_have_an_end() -> None:
    """A model that makes up a hundred names is told to stop, and the memory of failures stays small."""
    hook = ToolErrorRetryHook()
    ctx = TurnContext(Session())
    for n in range(100):
        fired = hook(AFTER_TOOL, ctx, ToolCallResult(f"tool{n}", {}, error="there is no such tool"))
    assert fired is not None
    assert fired.payload.result["retries_exhausted"]
    assert len(ctx.hook_state[id(hook)]) == 64
