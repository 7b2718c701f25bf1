"""Turns with tools: their events and episode, the procedure that is proposed in them, and how it went."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

import edgemem
from edgemem import AgentLoop, Heard, Procedure, ProcedureStep, Tool
from edgemem.inspect.replay import Line, ScriptedCall, ScriptedModel
from edgemem.loop.loop import TurnResult
from edgemem.store.episodes import tool_stats
from support.homes import BY_WORDS, at_day
from support.loops import Robot

STEPS = (ProcedureStep("drive", {"to": "kitchen"}), ProcedureStep("grip", {"what": "red cup"}))
FETCH = Procedure("fetch", "Fetch", "", "bring me the red cup", STEPS)
DONE, CUP, BROKEN = {"to": "kitchen"}, {"what": "red cup"}, {"what": "red cup", "how": "broken"}
ASK = "Please bring me the red cup."


def run(**given: Any) -> str:
    """Do what a tool is asked for, unless that is broken."""
    for value in given.values():
        if "broken" in str(value):
            raise RuntimeError(value)
    return "done"


TOOLS = [
    Tool(name, f"{name} there", {"type": "object", "properties": {argument: {"type": "string"}}}, run)
    for name, argument in (("drive", "to"), ("grip", "what"), ("sing", "song"))
]


def expect(robot: Robot, *calls: tuple[str, dict[str, str]], say: str = ASK) -> None:
    """Have the model call some tools in its next turn."""
    scripted = tuple(ScriptedCall(name, given) for name, given in calls)
    robot.model.expect(Line(say=say, reply="ok", at=1_770_000_000.0, session="kitchen", tools=scripted))


def ask(robot: Robot, *calls: tuple[str, dict[str, str]], say: str = ASK, **how: Any) -> TurnResult:
    """Run a turn in which the model calls some tools, one after the other."""
    expect(robot, *calls, say=say)
    result = robot.loop.run(say, **{"speaker": "alice", **how})
    assert robot.loop.hooks.failures() == []
    return result


def shown(result: TurnResult) -> str:
    return str(result.handed[0][-1]["content"])


def counts(memory: edgemem.Memory) -> tuple[int, int]:
    procedure = memory.procedures.get("fetch")
    assert procedure is not None
    return procedure.success_count, procedure.failure_count


@pytest.fixture
def robot(memory: edgemem.Memory) -> Robot:
    return Robot(memory, tools=TOOLS)


def test_a_turn_with_several_calls_is_one_episode_more(memory: edgemem.Memory, robot: Robot) -> None:
    """It tells what was asked, which tools ran and how; it knows its turn, and is as private as that, as each call does."""
    ask(robot, ("drive", DONE), ("grip", BROKEN), ("grip", BROKEN))
    ask(robot, say="And how are you?")
    ask(robot, ("sing", {"song": "broken"}), say="Sing!", private=True)
    private, first, *calls = memory.store.episodes()
    assert [(call.kind, call.turn, call.level) for call in calls] == [("tool_call", 0, "household")] * 3
    assert first.summary == "Please bring me the red cup. (drive worked, grip failed 2 times)"
    assert (first.outcome, first.tools) == ("partial", ("drive", "grip"))
    assert (first.session, first.turn) == ("kitchen", 0)
    assert (first.level, first.heard) == ("household", Heard(speaker="alice"))
    assert (private.outcome, private.level, private.owner, private.turn) == ("failed", "private", "alice", 2)
    assert [(of.tool, of.calls, of.failures) for of in tool_stats(memory.diagnostics.database)] == [
        ("grip", 2, 2),
        ("drive", 1, 0),
        ("sing", 1, 1),
    ]
    assert all(of.p99_ms is not None for of in tool_stats(memory.diagnostics.database))
    assert memory.forget(session="kitchen")
    assert memory.store.episodes() == []


def test_a_call_in_which_another_agent_runs_is_timed(memory: edgemem.Memory) -> None:
    """The end of the inner agent's turn, with the same hooks, is not the end of the call."""
    helper: list[AgentLoop] = []
    given = {"type": "object", "properties": {"to": {"type": "string"}}}
    robot = Robot(memory, tools=[Tool("drive", "Drives.", given, lambda to: helper[0].run(to).reply)])
    model = ScriptedModel()
    model.expect(Line(say="kitchen", reply="there", at=1_770_000_000.0, session="kitchen"))
    helper.append(AgentLoop(model, hooks=robot.loop.hooks))
    ask(robot, ("drive", DONE))
    (call,) = memory.store.episodes()
    assert call.latency_ms is not None


def test_what_was_aborted_left_nothing(memory: edgemem.Memory, robot: Robot) -> None:
    """No episode and no outcome of a turn that never was."""
    memory.procedures.store(FETCH)
    expect(robot, ("grip", BROKEN))
    robot.loop.prepare(ASK, speaker="alice")
    robot.loop.abort()
    assert memory.store.episodes() == tool_stats(memory.diagnostics.database) == []
    assert counts(memory) == (0, 0)


def test_a_procedure_is_proposed_once_and_late(memory: edgemem.Memory, robot: Robot) -> None:
    """In the newest user message, behind an unchanged history; the next turn has it before it already."""
    memory.procedures.store(FETCH)
    first = ask(robot, say="How old are you?")
    second = ask(robot)
    line = "a way to bring me the red cup: drive(to: kitchen), then grip(what: red cup) (not tried yet)"
    assert shown(first) == "How old are you?"
    assert shown(second) == f"<memory>{line}</memory>\n{ASK}"
    third = ask(robot)
    assert shown(third) == ASK
    for before, after in ((first, second), (second, third)):
        assert after.handed[0][: len(before.handed[0])] == before.handed[0]


def test_without_a_procedure_that_fits_no_prompt_changes(memory: edgemem.Memory, tmp_path: Path) -> None:
    """One of another thing, of somebody else, without its tool, or too long for the budget is not told."""
    small = msgspec.structs.replace(
        BY_WORDS, context=msgspec.structs.replace(BY_WORDS.context, block_tokens=30)
    )
    others = [
        (BY_WORDS, TOOLS, Procedure("water", "Water", "", "water the plants", STEPS)),
        (BY_WORDS, TOOLS, replace(FETCH, level="private", owner="Ben")),
        (BY_WORDS, TOOLS[1:], FETCH),
        (BY_WORDS, TOOLS, replace(FETCH, steps=STEPS * 20)),
        (small, TOOLS, FETCH),
    ]
    for n, (profile, tools, procedure) in enumerate(others):
        with edgemem.open(tmp_path / str(n), profile=profile, worker=False) as opened:
            opened.procedures.store(procedure)
            assert shown(ask(Robot(opened, tools=tools))) == ASK


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([("drive", DONE), ("grip", CUP)], (1, 0)),
        ([("drive", DONE), ("sing", {"song": "la"}), ("grip", CUP)], (1, 0)),
        ([("drive", DONE), ("grip", BROKEN), ("grip", CUP)], (1, 0)),
        ([("drive", DONE), ("grip", CUP)] * 3, (1, 0)), ([("drive", DONE), *[("grip", BROKEN)] * 3], (0, 1)),
        ([("grip", CUP), ("drive", DONE)], (0, 0)), ([("grip", BROKEN)], (0, 0)),
        ([("drive", {"to": "hall"}), ("grip", CUP)], (0, 0)), ([("drive", DONE), ("grip", {"what": "cup"})], (0, 0)),
        ([("drive", {"to": "broken"})], (0, 0)), ([("sing", {"song": "broken"})], (0, 0)), ([], (0, 0)),
    ],
)  # fmt: skip
def test_its_outcome_is_counted_from_the_tools_that_ran(
    memory: edgemem.Memory, robot: Robot, calls: list[tuple[str, dict[str, str]]], expected: tuple[int, int]
) -> None:
    """All steps in order, with their arguments: a success; the next one failed: a failure; a repetition or something else: nothing."""
    memory.procedures.store(FETCH)
    ask(robot, *calls)
    assert counts(memory) == expected
    ask(robot, *calls)  # it stands in the prompt now
    assert counts(memory) == (2 * expected[0], 2 * expected[1])


def test_a_turn_on_something_else_counts_no_outcome(memory: edgemem.Memory, robot: Robot) -> None:
    """The same tools may serve another end."""
    memory.procedures.store(FETCH)
    ask(robot, ("drive", DONE), ("grip", {"what": "pen"}), say="Give Ann a pen!")
    assert counts(memory) == (0, 0)


FAILED = ("drive", DONE), ("grip", BROKEN)
OTHER = replace(FETCH, id="other", steps=(ProcedureStep("sing", {"song": "come"}),))


def told(memory: edgemem.Memory, session: str, *calls: tuple[str, dict[str, str]], **how: Any) -> str:
    """Return what the model is shown in a turn of some session."""
    return shown(ask(Robot(memory, tools=TOOLS, session=session), *calls, **how))


def test_what_keeps_failing_is_a_warning_until_it_works(memory: edgemem.Memory, hand: Any) -> None:
    """It says how often it failed, when last and why, once a session; the way beside it stands last."""
    memory.procedures.store(FETCH)
    for n in range(3):
        hand.wall = at_day(f"2026-11-0{n + 4}") + 3600
        assert "a way to" in told(memory, f"day {n}", *FAILED)
    hand.wall += 86_400
    way = "bring me the red cup: drive(to: kitchen), then grip(what: red cup)"
    warning = f"a warning for {way} failed 3 times, last on 6 Nov: RuntimeError: broken"
    assert told(memory, "new") == f"<memory>{warning}</memory>\n{ASK}"
    assert told(memory, "new") == ASK
    memory.procedures.store(OTHER)
    both = told(memory, "both")
    assert both.index(warning) < both.index("sing(song: come) (not tried yet)")
    told(memory, "both", ("drive", DONE), ("grip", CUP))
    assert f"a way to {way} (worked 1 of 4 times)" in told(memory, "both")


def test_an_untried_way_is_so_until_it_is_tried(memory: edgemem.Memory) -> None:
    """In the same session, also where another way is proposed by then; one that was counted 0 of 3 elsewhere is no way."""
    memory.procedures.store(FETCH)
    assert "(not tried yet)" in told(memory, "one", *FAILED)
    memory.procedures.store(OTHER)
    block = told(memory, "one")
    assert block.index("(worked 0 of 1 times)") < block.index("sing(song: come) (not tried yet)")
    assert told(memory, "one") == ASK
    memory.procedures.store(replace(FETCH, failure_count=3))
    assert "(worked 0 of" not in told(memory, "new")


def test_a_private_failure_is_nobody_elses(memory: edgemem.Memory) -> None:
    """It is counted of no way that others have, told to its speaker alone, and gone with its conversation."""
    memory.procedures.store(FETCH)
    for n in range(3):
        told(memory, f"day {n}", *FAILED, speaker="bob")
    told(memory, "secret", ("drive", DONE), ("grip", CUP | {"how": "broken present"}), private=True)
    assert counts(memory) == (0, 3)
    assert "broken present" in told(memory, "hers")
    assert "Error: broken</memory>" in told(memory, "his", speaker="bob")
    (turn,) = memory.sessions.journal.read_turns("hers")
    assert (turn.answer, turn.owner) == ("private", "alice")
    assert memory.forget(session="secret")
    (turn,) = memory.sessions.journal.read_turns("hers")
    assert "present" not in turn.block


@pytest.mark.parametrize(
    ("template", "calls", "expected"),
    [
        ("{room}", ("hall", "hall"), 1), ("{room}", ("hall", "attic"), 0), ("{room}", ("hall", "attic", "attic"), 1),
        ("{room}", (3, 3), 1), ("{room}", (3, True), 0), (1, (1, 1), 1), (1, (True, True), 0),
        ("the {size} {room}", ("the big hall", "the big hall"), 1), ("the {size} {room}", ("the hall", "the hall"), 0),
        ("{room} door", ("hall door", "hall door"), 1), ("{room} door", ("hall", "hall"), 0), ("{room} door", (1, 1), 0),
        (["{room}", {"by": "{room}"}], (["a", {"by": "a"}], ["a", {"by": "a", "at": 2}]), 1),
        (["{room}", {"by": "{room}"}], (["a", {"by": "b"}], ["a", {"by": "b"}]), 0),
        (["a"], (["a", "b"], ["a", "b"]), 0), ({"by": 1}, ("by", None), 0),
    ],
)  # fmt: skip
def test_a_template_is_filled_the_same_in_all_steps(
    memory: edgemem.Memory, robot: Robot, template: Any, calls: tuple[Any, ...], expected: int
) -> None:
    """A placeholder stands for any value, and all else for itself."""
    memory.procedures.store(replace(FETCH, steps=(ProcedureStep("sing", {"song": template}),) * 2))
    ask(robot, *(("sing", {"song": value}) for value in calls))
    assert counts(memory) == (expected, 0)


def test_a_private_procedure_keeps_its_answer_private(memory: edgemem.Memory, robot: Robot) -> None:
    """What it told is in the block of that turn."""
    memory.procedures.store(replace(FETCH, level="private", owner="alice"))
    assert "a way to" in shown(ask(robot))
    (turn,) = memory.sessions.journal.read_turns("kitchen")
    assert (turn.answer, turn.owner) == ("private", "alice")
    assert memory.procedures.forget("fetch")
    (turn,) = memory.sessions.journal.read_turns("kitchen")
    assert turn.block == ""
