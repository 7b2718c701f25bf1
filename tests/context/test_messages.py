"""Turns stay whole, and every tool call has exactly one result."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from edgemem.context.messages import repair_orphans, split_turns, tool_calls

SYSTEM = {"role": "system", "content": "You help in the kitchen."}
USER = {"role": "user", "content": "What is the weather?"}
REPLY = {"role": "assistant", "content": "Sunny."}


def call(*ids: str, name: str = "weather") -> dict[str, Any]:
    """Return an assistant message that calls a tool once for each id."""
    calls = [{"id": i, "type": "function", "function": {"name": name, "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def result(call_id: str, content: str = "18 degrees") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "name": "weather", "content": content}


messages = st.lists(
    st.one_of(
        st.sampled_from([SYSTEM, USER, REPLY, {"role": "tool", "content": "?"}, {"role": "developer"}]),
        st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=3).map(lambda ids: call(*ids)),
        st.sampled_from(["a", "b", "c", "d"]).map(result),
    ),
    max_size=14,
)


@given(messages)
def test_every_call_gets_one_result_and_every_result_has_a_call(conversation: list[dict[str, Any]]) -> None:
    """After a repair, calls and results balance within each turn, and repairing again changes nothing."""
    repaired = repair_orphans(conversation)
    for turn in split_turns(repaired)[1]:
        assert sum(len(tool_calls(m)) for m in turn) == sum(m["role"] == "tool" for m in turn)
    assert repair_orphans(repaired) == repaired


@given(messages)
def test_splitting_loses_nothing(conversation: list[dict[str, Any]]) -> None:
    """Instructions and turns together hold each message once, and each turn but the first starts at a user message."""
    head, turns = split_turns(conversation)
    assert all(message["role"] in ("system", "developer") for message in head)
    for n, turn in enumerate(turns):
        roles = [message["role"] for message in turn]
        assert roles.count("user") == (roles[0] == "user") >= (n > 0)
    parts = [id(m) for m in head] + [id(m) for turn in turns for m in turn]
    assert sorted(parts) == sorted(map(id, conversation))


def test_results_without_ids_are_matched_by_name_and_order() -> None:
    """Small models leave ids out, in the nested spelling and in the flat one."""
    flat = {"role": "assistant", "content": None, "tool_calls": [{"name": "timer"}, {"name": "weather"}]}
    results = {"role": "tool", "name": "weather", "content": "sunny"}, {"role": "tool", "content": "set"}
    conversation = [USER, flat, *results]
    assert repair_orphans(conversation) == conversation


def test_malformed_calls_are_no_calls() -> None:
    """Whatever a broken model wrote as tool calls, nothing raises and no result is expected."""
    for odd in (None, "weather", {"name": "weather"}, ["weather", 7], 3):
        message = {"role": "assistant", "content": "?", "tool_calls": odd}
        assert repair_orphans([USER, message]) == [USER, message]
