"""The bank before a model: its tools within the rights of whoever speaks, MEMORY.md once an epoch, and the operator's text."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgemem import AgentLoop
from edgemem.fence import CLOSE
from edgemem.memory import Memory
from edgemem.records import BANK_TOOLS, Reply, ToolCall
from support.homes import opened
from support.models import Model

pytestmark = pytest.mark.usefixtures("patient")
ON = '[bank]\nbackend = "{}"\n'


@pytest.fixture(params=["files", "database"])
def memory(request: Any, tmp_path: Path) -> Iterator[Memory]:
    """Return an open memory whose models are offered the bank, of each kind."""
    with opened(tmp_path / "home", ON.format(request.param)) as memory:
        yield memory


def answer(memory: Memory, tool: str, call: dict[str, str], *, session: str = "s", **how: Any) -> Any:
    """Return what a tool answers in a turn: why not, which files, or else its status."""
    model = Model(Reply("", (ToolCall(tool, call),)))
    loop = AgentLoop(model, hooks=memory.hooks(session_id=session), tools=memory.tools())
    loop.run(f"Look at the files: {' '.join(call.values())}.", **how)
    assert loop.hooks.failures() == []
    answered = json.loads([m["content"] for m in loop.session.messages if m["role"] == "tool"][-1])
    return next(answered[key] for key in ("message", "files", "status") if key in answered)


def prompt(memory: Memory, text: str = "Good morning.", *, session: str = "s", **how: Any) -> str:
    """Return what the model is handed last in a turn, as one text."""
    model = Model()
    AgentLoop(model, hooks=memory.hooks(session_id=session), instructions="Be kind.").run(text, **how)
    return "\n".join(str(message["content"]) for message in model.handed[-1])


def test_each_speaker_has_their_own_files_and_those_of_all(memory: Memory) -> None:
    """A path is the speaker's own in this session; household/ and shared/ are for all here, and for anyone."""
    files = ["a.md", "household/b.md", "shared/c.md"]
    for path in files:
        assert answer(memory, "memory_write", {"path": path, "content": "x"}, speaker="ann") == "ok"
    assert memory.bank.for_person("Ann", "s").read_file("a.md") == "x"
    assert memory.bank.household.list_files() == ["b.md"]
    assert answer(memory, "memory_list", {}, speaker="ann") == files
    assert answer(memory, "memory_list", {}, session="t", speaker="ben") == files[1:]
    assert answer(memory, "memory_list", {}, session="u") == files[2:]
    for path in files[:2]:
        assert "nobody knows who" in answer(memory, "memory_read", {"path": path}, session="u")
    listened = answer(memory, "memory_read", {"path": "a.md"}, speaker="ann", audience={"ben"})
    assert "others are listening" in listened


def test_what_is_private_is_not_written_where_others_read(memory: Memory) -> None:
    """Neither from a private turn nor what one repeats goes into a file of the household."""
    memory.bank.for_person("Ann", "s").write_file("gift.md", "Ben gets a xylophone.")
    read = Reply("", (ToolCall("memory_read", {"path": "gift.md"}),))
    gift = {"path": "household/g.md", "content": "Ben gets a xylophone."}
    write = Reply("", (ToolCall("memory_write", gift),))
    loop = AgentLoop(Model(read, write), hooks=memory.hooks(session_id="s"), tools=memory.tools())
    loop.run("What does Ben get? Tell all.", speaker="ann")
    assert memory.bank.household.list_files() == []
    assert "xylophone" not in prompt(memory, "What did Ann want?", speaker="ben")


def test_memory_md_is_told_once_and_then_what_changed(memory: Memory) -> None:
    """The speaker's own file of this session, the household's and anyone's stand once in an epoch, then their new lines."""
    memory.bank.for_person("Ann", "s").write_file("MEMORY.md", "# Plans\n- the loft first")
    memory.bank.household.write_file("MEMORY.md", "Bins go out on Monday.")
    memory.bank.shared.write_file("MEMORY.md", "The shop opens at nine.")
    memory.bank.for_person("Ann", "t").write_file("MEMORY.md", "another topic")
    first = prompt(memory, speaker="ann")
    assert [line for line in first.splitlines() if line.startswith("- ")] == [
        "- Plans", "- the loft first", "- Bins go out on Monday.", "- The shop opens at nine.",
    ]  # fmt: skip
    memory.bank.for_person("Ann", "s").append_to_file("MEMORY.md", "- then the cellar")
    second = prompt(memory, "And now?", speaker="ann")
    assert second.startswith(first)
    assert "the loft" not in second.removeprefix(first)
    assert "then the cellar" in second.removeprefix(first)
    stranger = prompt(memory, "Hello.", session="u")
    assert "The shop opens" in stranger
    assert "Bins" not in stranger


def test_memory_md_stays_within_the_tokens_of_notes(tmp_path: Path) -> None:
    """Notes and MEMORY.md together take no more than their part of the window, and the notes come first."""
    more = ON.format("files") + "[context]\nnotes_tokens = 40\n"
    with opened(tmp_path / "home", more) as memory:
        memory.notes.append("The oven runs hot.")
        memory.bank.shared.write_file("MEMORY.md", "\n".join(f"Line {n} of many." for n in range(50)))
        hooks = memory.hooks(session_id="s")
        model = Model()
        AgentLoop(model, hooks=hooks).run("Hello.", speaker="ann")
        block = str(model.handed[0][-1]["content"]).partition(CLOSE)[0]
        lines = [line for line in block.splitlines() if line.startswith("- ")]
        assert lines[:2] == ["- The oven runs hot.", "- Line 0 of many."]
        tokenizer = memory.diagnostics.tokenizer
        taken = sum(len(tokenizer.encode(f"{line}\n")) for line in ("Notes:", *lines))
        assert taken <= 40 < taken + len(tokenizer.encode(f"- Line {len(lines)} of many.\n"))


def test_the_operators_text_follows_the_instructions(memory: Memory) -> None:
    """PROMPT.md stands behind the instructions, the same in each turn, with instructions and without."""
    (memory.home / "bank" / "PROMPT.md").write_text("Keep plans in the bank.\n")
    model = Model()
    loop = AgentLoop(model, hooks=memory.hooks(session_id="s"), instructions="Be kind.")
    bare = AgentLoop(Model(), hooks=memory.hooks(session_id="b"))
    for _ in range(2):
        loop.run("Hello.")
        bare.run("Hello.")
    assert {str(handed[0]["content"]) for handed in model.handed} == {"Be kind.\n\nKeep plans in the bank."}
    assert [handed[0]["content"] for handed in bare.model.handed] == ["Keep plans in the bank."] * 2


def test_where_it_is_off_no_prompt_changes(tmp_path: Path) -> None:
    """Without the profile's word a model is offered nothing, though the files are recalled."""
    prompts = []
    for name in ("with", "without"):
        with opened(tmp_path / name) as memory:
            if name == "with":
                (memory.home / "bank" / "PROMPT.md").write_text("Keep plans in the bank.")
                memory.bank.for_person("Ann", "s").write_file("MEMORY.md", "the loft first")
            prompts.append(prompt(memory, speaker="ann"))
            assert not {tool.name for tool in memory.tools()} & set(BANK_TOOLS)
            assert [tool.name for tool in memory.tools(include=["memory_read"])] == ["memory_read"]
    assert prompts[0] == prompts[1]
