"""The audit log: bounded, for its owner alone, and silent about what was said unless somebody asks for it."""

from __future__ import annotations

import json
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from edgemem import AuditLogHook
from edgemem.clock import Clock
from edgemem.errors import InvalidInputError, StoreError
from edgemem.hooks.points import (
    AFTER_TOOL,
    BEFORE_LLM,
    ON_RUN_END,
    AgentResult,
    ToolCallResult,
    TurnContext,
)
from edgemem.hooks.prompt import PromptLogHook
from edgemem.loop.loop import AgentLoop
from edgemem.loop.toolbox import Tool
from edgemem.records import Reply, Session, ToolCall
from edgemem.scopes import Level
from edgemem.store.erase.eraser import forget_in_log
from support.models import Model

SECRET = "the blue pills"
PILLS = f"You take {SECRET}."


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the log as a person with `jq` reads it."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def talk(path: Path, clock: Clock, *, text: Level | None = None, private: bool = False) -> AgentLoop:
    """Run a turn with one good tool call and one that fails, and return its loop."""
    calls = Reply("", (ToolCall("give", {"what": SECRET, f"made up {SECRET}": 1}), ToolCall("lock", {})))

    def lock() -> None:
        raise KeyError(SECRET)

    with AuditLogHook(path, text=text, clock=clock) as audit:
        loop = AgentLoop(
            Model(calls, otherwise=PILLS),
            hooks=[audit, PromptLogHook()],
            tools=[
                Tool("give", "", {"type": "object", "properties": {"what": {}, "n": {}}}, lambda **_: SECRET),
                Tool("lock", "", {}, lock),
            ],
            agent_name="pip",
        )
        loop.run(f"give me {SECRET}", speaker="alice", private=private)
    assert loop.hooks.failures() == []
    return loop


def test_a_turn_is_told_without_a_word_of_it(tmp_path: Path, clock: Clock) -> None:
    """Who, when, which tool and how it went; names that a model made up are not written either."""
    path = tmp_path / "logs" / "audit.jsonl"
    talk(path, clock)
    where = {"at": "2026-02-02T02:40:00.000Z", "session": "", "turn": 0, "speaker": "alice", "agent": "pip"}
    assert lines(path) == [
        {"event": "after_llm", **where, "hop": 0, "chars": 0, "tool_calls": 2},
        {"event": "after_tool", **where, "hop": 0, "tool": "give", "ok": True, "arguments": ["what", "?"]}
        | {"result_chars": len(SECRET)},
        {"event": "after_tool", **where, "hop": 0, "tool": "lock", "ok": False, "error": "KeyError"}
        | {"arguments": [], "result_chars": 4},
        {"event": "after_llm", **where, "hop": 1, "chars": 24, "tool_calls": 0},
        {"event": "on_run_end", **where, "hops": 2, "chars": 24, "interrupted": False},
    ]
    assert "pills" not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("text", "private", "quoted"),
    [
        ("household", False, True),
        ("household", True, False),
        ("shared", False, False),
        ("private", True, True),
        (None, False, False),
    ],
)
def test_words_are_written_up_to_the_level_that_was_asked_for(
    tmp_path: Path, clock: Clock, text: Level | None, private: bool, quoted: bool
) -> None:
    """A private turn is quoted only where the operator asked for private text."""
    path = tmp_path / "audit.jsonl"
    talk(path, clock, text=text, private=private)
    written = path.read_text()
    assert ("pills" in written) is quoted
    if quoted:
        call = lines(path)[1]
        assert json.loads(call["arguments"])["what"] == call["result"] == SECRET
        assert lines(path)[-1]["reply"] == f"You take {SECRET}."


def test_without_knowing_how_private_a_turn_is_nothing_is_quoted(tmp_path: Path, clock: Clock) -> None:
    """In a loop without a memory nobody can tell, so only `private` quotes."""
    for level in ("household", "private"):
        path = tmp_path / f"{level}.jsonl"
        with AuditLogHook(path, text=level, clock=clock) as audit:
            AgentLoop(Model(otherwise=PILLS), hooks=[audit]).run("hello")
        assert ("pills" in path.read_text()) is (level == "private")


def test_an_aborted_turn_leaves_no_trace_unless_a_tool_ran(tmp_path: Path, clock: Clock) -> None:
    """What a tool did happened in the world; what was only thought did not."""
    path = tmp_path / "audit.jsonl"
    with AuditLogHook(path, clock=clock) as audit:
        loop = AgentLoop(
            Model(Reply("one"), Reply("", (ToolCall("ring", {}),)), Reply("two")),
            hooks=[audit],
            tools=[Tool("ring", "", {}, lambda: "rang")],
        )
        loop.prepare("ring the")
        loop.abort()
        assert path.read_text() == ""
        loop.prepare("ring the bell")
        loop.abort()
        assert [entry["event"] for entry in lines(path)] == ["after_llm", "after_tool"]


def test_files_rotate_and_their_number_is_bounded(tmp_path: Path, clock: Clock) -> None:
    """The newest lines are in the file, older ones in .1 and .2, and the oldest are gone."""
    path = tmp_path / "audit.jsonl"
    with AuditLogHook(path, max_bytes=65_536, keep=2, text="private", clock=clock) as audit:
        ctx = TurnContext(Session())
        for n in range(150):
            audit(AFTER_TOOL, ctx, ToolCallResult("log", {"n": n}, "x" * 1_000_000))
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"]
    assert all(file.stat().st_size <= 65_536 for file in files)
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    numbers = [json.loads(entry["arguments"])["n"] for file in reversed(files) for entry in lines(file)]
    assert numbers == list(range(numbers[0], 150))
    assert 60 < len(numbers) < 100


def test_a_file_that_was_moved_away_is_begun_anew(tmp_path: Path, clock: Clock) -> None:
    """Whoever cleans up takes the old lines along, and what comes then stands in a new file."""
    path = tmp_path / "audit.jsonl"
    with AuditLogHook(path, clock=clock) as audit:
        ctx = TurnContext(Session())
        for _ in range(5):
            audit(ON_RUN_END, ctx, AgentResult("ok"))
        path.rename(tmp_path / "moved")
        audit(ON_RUN_END, ctx, AgentResult("ok"))
    assert (len(lines(path)), len(lines(tmp_path / "moved"))) == (1, 5)


def test_two_logs_of_one_file_do_not_mix_lines(tmp_path: Path, clock: Clock) -> None:
    """Two processes that log into one file rotate it together."""
    path = tmp_path / "audit.jsonl"
    with (
        AuditLogHook(path, max_bytes=65_536, text="private", clock=clock) as one,
        AuditLogHook(path, max_bytes=65_536, text="private", clock=clock) as two,
    ):
        for n in range(60):
            for audit in (one, two):
                audit(AFTER_TOOL, TurnContext(Session()), ToolCallResult("log", {"n": n}, "y" * 1500))
    kept = [entry for file in tmp_path.iterdir() for entry in lines(file)]
    assert sorted(json.loads(entry["arguments"])["n"] for entry in kept) == sorted([*range(60), *range(60)])


def test_no_line_is_lost_while_somebody_is_forgotten(tmp_path: Path, clock: Clock) -> None:
    """A robot that goes on writing finds the new file, however often a person's lines are taken out of the old one."""
    path = tmp_path / "audit.jsonl"
    ended = AgentResult("Fine.")

    def write(speaker: str, audit: AuditLogHook) -> None:
        audit(ON_RUN_END, TurnContext(Session(), speaker=speaker), ended)

    def talk_on() -> None:
        for _ in range(400):
            write("bo", busy)

    with AuditLogHook(path, clock=clock) as busy, AuditLogHook(path, clock=clock) as other:
        talking = threading.Thread(target=talk_on)
        talking.start()
        while talking.is_alive():
            write("ann", other)
            assert forget_in_log(path, "speaker", "ann") == 1
        talking.join()
    assert [line["speaker"] for line in lines(path)] == ["bo"] * 400


def test_half_a_line_spoils_no_other(tmp_path: Path, clock: Clock) -> None:
    """After a pulled plug the next line begins at a line's start."""
    path = tmp_path / "audit.jsonl"
    path.write_text('{"at": "2026-01-')
    with AuditLogHook(path, clock=clock) as audit:
        audit(ON_RUN_END, TurnContext(Session()), AgentResult("ok"))
    torn, whole = path.read_text().splitlines()
    assert torn == '{"at": "2026-01-'
    assert json.loads(whole)["event"] == "on_run_end"


@pytest.mark.parametrize(
    "given", [json.dumps({"what": SECRET, "n": 1}), SECRET, f"[{SECRET}]", '["pills"]', ""]
)
def test_arguments_that_are_text_are_not_spelt_out(tmp_path: Path, clock: Clock, given: str) -> None:
    """EdgeVox hands arguments on as the model wrote them: their names are written, never their letters."""
    path = tmp_path / "audit.jsonl"
    with AuditLogHook(path, clock=clock) as audit:
        ctx, done = TurnContext(Session()), ToolCallResult("give", given, SECRET)  # type: ignore[arg-type]
        give = Tool("give", "", {"properties": {"what": {}, "n": {}}}, print).schema()
        audit(BEFORE_LLM, ctx, {"messages": [], "tools": [give]})
        audit(AFTER_TOOL, ctx, done)
    (line,) = lines(path)
    assert line["arguments"] == (["what", "n"] if given.startswith("{") else [])


def test_a_tool_that_was_not_offered_has_no_name(tmp_path: Path, clock: Clock) -> None:
    """A model that makes up a tool may tell a secret by its name, and by those of its arguments."""
    path = tmp_path / "audit.jsonl"
    told = ToolCall("tell_bob_that_alice_is_pregnant", {"alice_is_pregnant": True, "what": 1})
    with AuditLogHook(path, clock=clock) as audit:
        give = Tool("give", "", {"properties": {"what": {}}}, lambda **_: "ok")
        loop = AgentLoop(Model(Reply("", (told,))), hooks=[audit], tools=[give])
        loop.run("psst", speaker="alice", private=True)
    assert "pregnant" not in path.read_text()
    (call,) = [line for line in lines(path) if line["event"] == "after_tool"]
    assert (call["tool"], call["arguments"]) == ("(unknown tool)", ["?", "?"])


def test_a_log_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    """A folder in the file's place, silly bounds, an unknown level: one sentence each."""
    with pytest.raises(StoreError, match=r"audit log .* cannot be opened: Is a directory"):
        AuditLogHook(tmp_path)
    with pytest.raises(InvalidInputError, match="max_bytes must be at least 65,536"):
        AuditLogHook(tmp_path / "a", max_bytes=10)
    with pytest.raises(InvalidInputError, match="not 'everything'"):
        AuditLogHook(tmp_path / "a", text="everything")  # type: ignore[arg-type]
