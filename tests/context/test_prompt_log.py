"""The prompt log: what the model has written itself, and what it was shown, is seen in its prompt."""

from __future__ import annotations

import json
from typing import Any

from edgemem.context.prompt import Committed, PromptTurn
from edgemem.records import BlockLine, Recalled


def called(
    name: str, arguments: dict[str, Any], result: str = "ok", *, shown: tuple[BlockLine, ...] = ()
) -> PromptTurn:
    """Return a turn in which the model called a tool."""
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
