"""The prompt log: what the model sees only grows, and what was thrown away was never shown."""

from __future__ import annotations

import json
from typing import Any

from edgemem.context.prompt import Committed, PromptLog, PromptTurn
from edgemem.records import BlockLine, Epoch, Reader, Recalled, text_of
from edgemem.store.messages import stored_message as stored

SYSTEM = {"role": "system", "content": "You are Pip."}
ALICE, BOB, STRANGER = Reader("alice"), Reader("bob"), Reader()


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def robot(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def turn(
    prompt_log: PromptLog,
    said: list[dict[str, Any]],
    text: str,
    *,
    reader: Reader = ALICE,
    lines: tuple[BlockLine, ...] = (),
) -> list[Any]:
    """Run one turn and return what the model saw."""
    running = prompt_log.begin(reader)
    prompt_log.instruct([SYSTEM])
    said.append(user(text))
    running.append(said[-1])
    prompt_log.put("memory", lines)
    view = prompt_log.view()
    said.append(robot(f"re {text}"))
    running.append(said[-1])
    prompt_log.commit()
    return view


def test_content_lists_get_their_block_as_a_part() -> None:
    """A message with an image keeps its parts behind the block, and its text is what is stored."""
    prompt_log = PromptLog("kitchen")
    parts = [{"type": "text", "text": "what is this?"}, {"type": "image_url", "image_url": "x"}]
    message = {"role": "user", "content": parts}
    prompt_log.begin(ALICE).append(message)
    prompt_log.put("memory", (BlockLine("fact:1", "- a"),))
    content = prompt_log.view()[0]["content"]
    assert content[0]["text"].startswith("<memory>a</memory>")
    assert content[1:] == message["content"]
    assert stored(message).content == "what is this?"
    assert stored(message).as_message() == message


def test_what_changes_while_a_turn_is_prepared_is_in_its_next_view() -> None:
    """A barge-in into the turn before, another epoch and another reader are seen at once, though the prompt was laid before."""
    prompt_log, said = PromptLog("kitchen"), []
    for n in range(3):
        turn(prompt_log, said, f"q{n}", lines=(BlockLine(f"fact:{n}", f"- line {n}"),))
    prompt_log.begin(ALICE).append(user("now"))
    before = prompt_log.view()
    assert prompt_log.view() == before
    assert [text_of(message) for message in before][-2:] == ["re q2", "now"]
    prompt_log.cut_replies(prompt_log.turns[2], {1: "re"})
    assert [text_of(message) for message in prompt_log.view()][-2:] == ["re", "now"]
    prompt_log.cut_replies(prompt_log.turns[1], {1: "r"})
    assert [text_of(message) for message in prompt_log.view()][-4] == "r"
    assert len(prompt_log.committed().visible) == 3
    prompt_log.switch(Epoch("kitchen", 2, "They asked."))
    view = [text_of(message) for message in prompt_log.view()]
    assert len(view) == 4
    assert "They asked." in view[1]
    assert set(prompt_log.committed().visible) == {"fact:2"}
    prompt_log.begin(STRANGER).append(user("now"))
    assert [text_of(message) for message in prompt_log.view()][1:] == ["now"]
    assert not prompt_log.committed().visible


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
