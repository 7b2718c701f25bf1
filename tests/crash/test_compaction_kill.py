"""kill -9 at each step of a compaction: the session goes on wholly in the old epoch or wholly in the new one."""

import json
import random
import signal
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

import edgemem
from edgemem.bench.ground import KEEP_PLAN, Robot
from edgemem.config import ContextSettings, IdleSettings, StoreSettings
from edgemem.context.messages import repair_orphans
from edgemem.inspect.replay import Line, ScriptedCall
from support.homes import BY_WORDS
from support.kills import TRUTH, rows, start
from support.selection import LONG
from support.tokenizers import WordTokenizer

CUT_OFF = {"role": "assistant", "content": "…"}  # stands for the answer before which a turn was cut off
STEPS = ("planning", "summarising", "switching", "writing", "written")

TALKER = """
import json, sys, time
from test_compaction_kill import line, open_home, robot_of
import edgemem.context.compaction.planner
from edgemem.context.compaction.planner import EpochPlanner
edgemem.context.compaction.planner.HIGH_WATER = 0.7
from edgemem.context.prompt import PromptLog
from edgemem.context.compaction.extractive import ExtractiveSummarizer
from edgemem.session.log import log_of
from edgemem.store import turn_steps

home, step, turns = sys.argv[1], sys.argv[2], int(sys.argv[3])

def hold(at):
    if at == step:
        print("held", flush=True)
        time.sleep(600)

def watched(owner, name, at, before=False, happened=lambda result: True):
    plain = getattr(owner, name)
    def call(*arguments, **options):
        if before:
            hold(at)
        result = plain(*arguments, **options)
        if not before and happened(result):
            hold(at)
        return result
    setattr(owner, name, call)

watched(EpochPlanner, "plan", "planning", happened=lambda first: first is not None)
watched(ExtractiveSummarizer, "_best_of", "summarising", before=True)
watched(PromptLog, "switch", "switching")
watched(turn_steps, "append_epoch", "writing", happened=lambda epoch: epoch.first_turn > 0)

with open_home(home, worker=step == "random") as memory:
    robot = robot_of(memory)
    epochs = 1
    for n in range(turns):
        handed = robot.turn(line(robot)).handed[0]
        prompt_log = log_of(robot.loop.ctx).prompt_log
        print(json.dumps([prompt_log.next_n, prompt_log.epoch.first_turn, handed]), flush=True)
        if step == "random":
            time.sleep(0.003)
            continue
        memory.idle(60)
        found = memory.diagnostics.database.query("select count(*) from epochs")[0][0]
        if found > max(epochs, 1):
            hold("written")
        epochs = found
"""


def line(robot: Robot) -> Line:
    n = len(robot.loop.session.messages)
    call = ScriptedCall("keep_plan", {"text": f"plan {n}", "who": "mara"}, f"kept plan {n}")
    text = f"The {n}th cup stands in drawer {n}, behind the old kettle."
    return Line(text, speaker="mara", reply=f"Cup {n} it is.", tools=(call,) if n % 2 else ())


@pytest.fixture(autouse=True)
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgemem.context.compaction.planner.HIGH_WATER", 0.7)


def open_home(home: Path | str, *, worker: bool = False) -> edgemem.Memory:
    profile = msgspec.structs.replace(
        BY_WORDS,
        store=StoreSettings(commit_wait_s=60.0),
        idle=IdleSettings(settle_s=0.0),
        context=ContextSettings(window_tokens=500, reply_tokens=50, block_tokens=20, summary_tokens=60),
    )
    return edgemem.open(home, profile=profile, tokenizer=WordTokenizer(), worker=worker)


def robot_of(memory: edgemem.Memory) -> Robot:
    return Robot(memory.hooks(session_id="kitchen", speaker="mara"), tools=[KEEP_PLAN])


def taken_over(home: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of the truth, with the turn that was accepted when its process was killed."""
    open_home(home).close()
    return rows(home)


def check_resumed(home: Path, before: dict[str, list[tuple[Any, ...]]], told: str) -> int:
    """Reopen, and check that the session goes on in one epoch with all that was said; return the epoch's first turn."""
    turns, began, shown = json.loads(told)  # how many there were, the first of the epoch, the newest prompt
    with open_home(home) as memory:
        assert memory.diagnostics.database.quick_check() == []
        journal = memory.sessions.journal
        epoch = journal.latest_epoch("kitchen")
        stands = journal.read_turns("kitchen", from_n=epoch.first_turn)
        robot = robot_of(memory)
        handed = robot.turn(line(robot)).handed[0]
        robot.check()
        said = [message.as_message() for turn in stands for message in turn.messages]
        past = handed[1:-1]
        if past and past[-1] == CUT_OFF:
            past = past[:-1]
        assert [message["role"] for message in past] == [message["role"] for message in repair_orphans(said)]
        # In the same epoch the prompt goes on where it was, byte for byte; a later one was begun by the turn that was cut.
        assert epoch.first_turn == began or (epoch.first_turn > began and len(before["turns"]) > turns)
        if epoch.first_turn == began:
            assert handed[: len(shown)] == shown
        # Every call stands before its result, and the summary, if there is one, in front of the epoch's first words.
        assert repair_orphans(past) == past
        first = handed[1]
        assert first["role"] == "user"
        assert ("Earlier in this conversation:" in first["content"]) == bool(epoch.summary)
        assert bool(epoch.summary) == (epoch.first_turn > 0)
        # What left the prompt is still there, and is found.
        memory.idle(60)
        found = [item.text for item in memory.recall("the 0th cup stands in drawer 0", kinds=("turn",))]
        assert "The 0th cup stands in drawer 0, behind the old kettle." in found
        assert WordTokenizer().count(handed) < 500
    after = rows(home)
    for table in TRUTH:
        kept = {row[0]: row for row in after[table]}
        if table not in ("turns", "sessions"):  # an open turn is marked unfinished
            assert all(kept[row[0]] == row for row in before[table]), table
    assert len(after["turns"]) == len(before["turns"]) + 1
    return epoch.first_turn


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_a_step(tmp_path: Path, step: str) -> None:
    """Held at a named step of the first compaction and killed, the robot finds what was committed, row for row."""
    home = tmp_path / "home"
    process = start(TALKER, home, step, 60)
    with process.stdout as told:
        lines = list(iter(told.readline, "held\n"))
        before = rows(home)
        process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert rows(home) == before
    first = check_resumed(home, taken_over(home), lines[-1])
    # Before the transaction is over the old epoch holds, behind it the new one.
    assert (first > 0) == (step == "written")


@pytest.mark.long
def test_killed_at_random_moments(tmp_path: Path) -> None:
    """With the idle worker compacting all the while, each kill leaves one epoch and every acknowledged turn."""
    home = tmp_path / "home"
    chance = random.Random(5)
    first = 0
    for _ in range(5 if LONG else 2):
        process = start(TALKER, home, "random", 1000)
        with process.stdout as told:
            acknowledged = [told.readline()]
            # However slow the machine is, it comes to compact.
            while json.loads(acknowledged[-1])[1] <= first:
                acknowledged.append(told.readline())
            time.sleep(chance.uniform(0.0, 0.4))
            process.send_signal(signal.SIGKILL)
            acknowledged += [one for one in told.read().splitlines(keepends=True) if one.endswith("\n")]
        assert process.wait() == -signal.SIGKILL
        newest = check_resumed(home, taken_over(home), acknowledged[-1])
        assert newest >= first
        first = newest
    assert first > 0
    assert len(rows(home)["epochs"]) > (3 if LONG else 1)
