"""Turns stay whole, every tool call has exactly one result, and what the model wrote or was shown is seen in its prompt."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from edgemem.context.messages import repair_orphans, split_turns, tool_calls
from edgemem.context.prompt import Committed, PromptTurn
from edgemem.records import BlockLine, Recalled

SYSTEM = {"role": "system", "content": "You help in the kitchen."}
USER = {"role": "user", "content": "What is the weather?"}
REPLY = {"role": "assistant", "content": "Sunny."}


def call(*ids: str, name: str = "weather") -> dict[str, Any]:
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


def called(name: str, arguments: dict[str, Any], result: str = "ok", *, shown: Any = ()) -> PromptTurn:
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    calls = [{"id": "c", "type": "function", "function": function}]
    said: list[dict[str, Any]] = [
        {"role": "user", "content": "Do it."},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c", "name": name, "content": result},
        {"role": "assistant", "content": "Done."},
    ]
    return PromptTurn(0, said, shown=shown)


def fact(key: str, value: str) -> Recalled:
    return Recalled("fact", "7", f"{key}: {value}", 0.5, key=key, value=value, scope="household")


def test_note_that_the_model_wrote_is_seen() -> None:
    """A note stands in the call that wrote it, whatever quotes and letters it has; another one does not."""
    seen = Committed([called("note", {"text": 'Anna said "später"'})])
    assert seen.holds_note('Anna said "später"')
    assert not seen.holds_note("Anna said nothing")


def test_fact_is_seen_until_a_block_says_otherwise() -> None:
    """The model's own call tells what holds, unless a later block gave the fact another value."""
    call = called("remember_fact", {"key": "bin.day", "value": "Thursday"})
    later = PromptTurn(1, [{"role": "user", "content": "When?"}], shown=(
        BlockLine("fact:9", "- bin.day: Friday", fact=("household", "bin.day"), value="Friday"),
    ))  # fmt: skip
    assert Committed([call]).holds(fact("bin.day", "Thursday"))
    assert not Committed([call]).holds(fact("bin.day", "Monday"))
    assert not Committed([call, later]).holds(fact("bin.day", "Thursday"))
    assert Committed([later, call]).holds(fact("bin.day", "Thursday"))
    again = called("remember_fact", {"key": "bin.day", "value": "Monday"})
    assert Committed([call, again]).holds(fact("bin.day", "Monday"))
    assert not Committed([call, again]).holds(fact("bin.day", "Thursday"))
    both = called("remember_fact", {"key": "bin.day", "value": "Thursday"})
    both.messages[1]["tool_calls"] += again.messages[1]["tool_calls"]
    assert Committed([both]).holds(fact("bin.day", "Monday"))


def test_arguments_that_cannot_be_read_are_not_seen() -> None:
    """A model that writes broken JSON costs a repeated line, and no turn."""
    turn = called("note", {"text": "x"})
    turn.messages[1]["tool_calls"][0]["function"]["arguments"] = '{"text": "the door'
    assert not Committed([turn]).holds_note("the door")
    assert not Committed([turn]).holds(fact("a", "b"))
