"""A process that dies while it stores what it lived through: what was acknowledged is whole, and nothing is half there."""

import random
from functools import partial
from pathlib import Path

from msgspec.structs import replace

import edgemem
from edgemem.aio import GoalState
from edgemem.config import BankSettings
from edgemem.records import Procedure, ProcedureStep
from support.homes import BY_WORDS
from support.kills import kill_after, start
from support.selection import cases

PROGRAM = """
import itertools, sys
from test_lived_kill import opened, writes
with opened(sys.argv[1]) as memory:
    for n in itertools.count():
        for write in writes(memory, n):
            write()
            print(n, flush=True)
"""
ANN = ("Ann", "boats")
opened = partial(edgemem.open, profile=replace(BY_WORDS, bank=BankSettings(backend="database")), worker=False)


def writes(memory: edgemem.Memory, n: int) -> list[partial[object]]:
    users, text = memory.users, f"begin {n} " * 200
    return [
        partial(memory.store.add_episode, "task", {"n": n}, "ok", summary=text, tags=["all", f"t{n}"]),
        partial(memory.procedures.store, Procedure("p", text, "", "go", (ProcedureStep("a", {"n": n}),) * 9)),
        partial(memory.procedures.record_outcome, "p", success=True),
        partial(users.save_goal, "Ann", GoalState("boats", text, plan={"n": n})),
        partial(users.save_phase_state, "Ann", text, f"notes {n}"),
        partial(users.save_session_state, *ANN, text, [str(n)]),
        partial(users.save_summary, *ANN, text, n),
        partial(users.save_message, *ANN, "user", text),
        partial(users.save_message, *ANN, "assistant", text),
        partial(users.upsert_fact, "Ann", "tea", {"n": [n, text]}, "boats"),
        partial(memory.bank.for_person(*ANN).write_file, "MEMORY.md", text),
    ]


def read(memory: edgemem.Memory) -> list[object]:
    users, procedures = memory.users, memory.procedures.list()
    messages = users.get_messages(*ANN, 10**6)
    return [
        [(it.summary, it.payload, it.tags) for it in memory.store.episodes(tag="all", n=500)],
        [(it.name, it.steps) for it in procedures], [it.success_count for it in procedures],
        users.get_active_goal(*ANN), users.get_phase_state("Ann"), users.get_session_state(*ANN),
        users.get_summary(*ANN),
        *([it.content for it in messages if it.role == role] for role in ("user", "assistant")),
        users.get_facts(*ANN), memory.bank.for_person(*ANN).read_file("MEMORY.md"),
    ]  # fmt: skip


def test_what_was_acknowledged_is_whole(tmp_path: Path) -> None:
    """Behind each door stands what was stored last, or was being stored, as in a home where nobody dies."""
    for seed in range(cases(40)):
        dice, home, other = random.Random(seed), tmp_path / str(seed), tmp_path / f"other{seed}"
        acknowledged = kill_after(start(PROGRAM, home), dice.randrange(11, 120))
        n, finished = divmod(len(acknowledged), 11)
        states = []
        with opened(home) as memory, opened(other) as whole:
            for number in range(n + 1):
                for write in writes(whole, number):
                    write()
                states.append(read(whole))
            for place, (value, now, before) in enumerate(zip(read(memory), *states[:-3:-1], strict=True)):
                assert value in [now] * (place <= finished) + [before] * (place >= finished), place
