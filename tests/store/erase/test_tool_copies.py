"""Tests of copies that the memory's own tools make: forgetting takes them out of every conversation."""

import json
from pathlib import Path
from typing import Any

import pytest

import edgemem
from edgemem.fence import clean
from edgemem.loop.loop import AgentLoop
from edgemem.memory import Memory
from edgemem.records import Epoch, Reply, StoredMessage, ToolCall
from edgemem.store.erase.copies import ERASED, Erased, summary_without, without_copies
from edgemem.store.turns import append_epoch
from support.cli import run
from support.homes import BY_WORDS, files_with
from support.models import Listener

SECRET, SAID = "TOOLX77", 'say "hi"\nnow'


class Model(Listener):
    def calls(self, name: str, **arguments: Any) -> None:
        self.replies = [Reply("", (ToolCall(name, arguments),), tokens=(7, 8, 9)), Reply("ok", tokens=(1, 2))]


def _remembered(memory: Memory) -> tuple[AgentLoop, Model]:
    """Return a loop whose model has remembered a pin, looked it up and listed it."""
    model = Model()
    loop = AgentLoop(model, hooks=memory.hooks(session_id="k"), tools=memory.tools())
    for name, arguments in (
        ("remember_fact", {"key": "pin", "value": "OLDER" + SECRET}),
        ("remember_fact", {"key": "pin", "value": SECRET}),
        ("recall_fact", {"key": "pin"}),
        ("list_facts", {}),
        ("search_memory", {"query": f"pin {SECRET}"}),
    ):
        model.calls(name, **arguments)
        loop.run("my pin, please", speaker="alice")
    return loop, model


@pytest.mark.parametrize("way", ["tool", "command line"])
def test_a_forgotten_value_is_in_no_file(tmp_path: Path, way: str) -> None:
    """What the tools were told and answered is erased, however one forgets, also where the loop goes on talking."""
    home = tmp_path / "home"
    with edgemem.open(home, worker=False) as memory:
        loop, model = _remembered(memory)
        assert "memory.db" in "".join(files_with(home, SECRET))
        if way == "tool":
            for say in ("forget my pin", "yes"):
                model.calls("forget_fact", key="pin")
                result = loop.run(say, speaker="alice")
            assert SECRET in result.tools[0].result  # whoever asked hears it once
            loop.run("thanks", speaker="alice")
            memory.idle(5)
            memory.diagnostics.database.checkpoint()
            assert files_with(home, SECRET) == []
            said = memory.sessions.load("k")
            assert sum(ERASED in json.dumps(message) for message in said.messages) >= 6
            assert "my pin, please" in json.dumps(said.messages)
    if way == "command line":
        ran = run("facts", "forget", "pin", "--yes", "--home", home)
        assert ran.exit_code == 0, ran.output
    assert files_with(home, SECRET) == []


def test_the_ids_of_an_erased_call_go_with_it(tmp_path: Path) -> None:
    """The ids that the model generated for a call would spell the value out."""
    with edgemem.open(tmp_path / "home", profile=BY_WORDS, worker=False) as memory:
        _remembered(memory)
        memory.forget("pin", scope="household")
        calls = "select tokens, extra from messages where extra like '%tool_calls%'"
        rows = memory.diagnostics.database.query(calls)
        assert [tokens for tokens, extra in rows if "remember_fact" in extra] == [None, None]
        assert any(tokens for tokens, extra in rows if "list_facts" in extra)


def test_what_a_person_said_stays(tmp_path: Path) -> None:
    """A turn in a person's own words is theirs to be forgotten, and no copy of ours; so is another tool's result."""
    with edgemem.open(tmp_path / "home", profile=BY_WORDS, worker=False) as memory:
        loop, model = _remembered(memory)
        model.calls("open_door", pin=SECRET)
        loop.run(f"my pin is {SECRET}", speaker="alice")
        memory.forget("pin", scope="household")
        said = memory.sessions.load("k")
        left = [message for message in said.messages if SECRET in json.dumps(message)]
        assert [message["role"] for message in left] == ["user", "assistant"]


def test_a_summary_does_not_bring_it_back(tmp_path: Path) -> None:
    """Lines of the memory's tools leave stored summaries, and those that a running conversation still makes."""
    summary = f"Alice: Good morning.\nremember_fact -> Remembered: pin: {SECRET}.\nlights -> on"
    with edgemem.open(tmp_path / "home", profile=BY_WORDS, worker=False) as memory:
        loop, _ = _remembered(memory)
        memory.diagnostics.database.write(lambda tx: append_epoch(tx, Epoch("k", 1, summary)))
        memory.forget("pin", scope="household")
        kept = memory.diagnostics.database.query("select summary from epochs where first_turn = 1")
        assert kept == [("Alice: Good morning.\nlights -> on",)]
        loop.session.messages.clear()
    gone = [Erased.with_values("household", "pin", [SECRET])]
    assert summary_without(summary, gone) == "Alice: Good morning.\nlights -> on"


@pytest.mark.parametrize(
    ("value", "arguments", "content"),
    [
        ("milk, eggs", {"key": "list", "value": ["milk", "eggs"]}, "Remembered: list: milk, eggs."),
        ("4711", {"key": "list", "value": 4711}, "- list: 4711 (household)"),
        ("5", {"key": "list", "value": "5"}, "Remembered: list: 5."),
        (SAID, {"key": "list", "value": SAID}, "Remembered: list: " + clean(SAID, max_chars=50)),
        ("word " * 200, {"key": "list", "value": "word " * 200}, f"Remembered: list: {'word ' * 90}wo…"),
    ],
)
def test_values_are_found_as_tools_write_them(value: str, arguments: dict[str, Any], content: str) -> None:
    """Lists, numbers, short, quoted, broken and cut values are found in calls and in results."""
    function = {"name": "remember_fact", "arguments": json.dumps(arguments)}
    calls = {"tool_calls": [{"id": "c", "type": "function", "function": function}]}
    said = [StoredMessage("assistant", None, calls), StoredMessage("tool", content, {"tool_call_id": "c"})]
    call, result = without_copies(said, [Erased.with_values("global", "list", [value])])
    left = json.loads(call.extra["tool_calls"][0]["function"]["arguments"])
    assert left == {"key": "list", "value": ERASED}
    assert value.split(maxsplit=1)[0] not in (result.content or "")
    assert "list" in (result.content or "")


def test_other_results_keep_their_words() -> None:
    """A short value is no reason to touch what is told of something else, nor is a part of a word."""
    gone = [Erased.with_values("global", "sugar", ["no"]), Erased.with_values("global", "tea", ["black"])]
    said = [
        StoredMessage("tool", "- coriander: no", {"name": "recall_fact"}),
        StoredMessage("tool", "- berry: blackberry", {"name": "recall_fact"}),
        StoredMessage("tool", "tea: black", {"name": "kettle"}),
    ]
    assert all(after is before for before, after in zip(said, without_copies(said, gone), strict=True))
