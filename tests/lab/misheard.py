"""What a speech recogniser's mistakes cost recall, by full text alone or with the default embedder."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import edgemem
from edgemem.bench.ground import quiet, real_embedder, scratch
from edgemem.bench.report import at_most, report, say
from edgemem.clock import Clock
from edgemem.records import Heard, StoredMessage, Turn
from edgemem.store.turns import commit_turn
from lab.noise import noisy
from lab.weeks import weeks
from lab.weeks_world import FormSet

if TYPE_CHECKING:
    from edgemem.memory import Memory
    from edgemem.records import Kind
    from lab.weeks import Weeks

TURNS: tuple[Kind, ...] = ("turn",)
RATES = (0.0, 0.1, 0.2)
BARS = {0.1: 0.05, 0.2: 0.1}


def run(
    *,
    forms: str = "unseen",
    k: int = 5,
    meaning: bool = False,
    robot: bool = False,
    asked: int = 1000,
    seed: int = 1,
    home: Path | None = None,
) -> dict[str, Any]:
    """Tell the weeks as a recogniser writes them, ask as it writes the questions, and compare with what was really said.

    Args:
        forms: `learnt`, which weights are fitted to, or `unseen`, which figures are reported on.
        k: how many items are looked at.
        meaning: whether the default embedder takes part.
        robot: whether what the robot says passed through the recogniser, too.
        asked: at most so many questions.
        seed: of the mistakes.
        home: where scratch files go; default: the temporary files.
    """
    chosen: FormSet = "learnt" if forms == "learnt" else "unseen"
    clean = weeks(1, chosen)
    # Written as it was said: with capitals, punctuation and no mistake.
    told: dict[float | None, Weeks] = {
        None: clean,
        **{rate: noisy(clean, rate, seed, robot=robot) for rate in RATES},
    }
    found: dict[float | None, float] = {}
    with scratch(home) as folder:
        for rate, each in told.items():
            say("as it was written …" if rate is None else f"{rate:.0%} of the words wrong …")
            found[rate] = recall_at(folder / str(rate), each, k, asked=asked, meaning=meaning)
    losses = {rate: round(found[None] - found[rate], 4) for rate in BARS}
    figures = {
        "forms": chosen, "k": k, "meaning": meaning, "robot": robot, "questions": asked,
        "recall_as_written": round(found[None], 4),
        **{f"recall_at_{rate:.0%}".rstrip("%"): round(found[rate], 4) for rate in RATES},
    }  # fmt: skip
    bars = {f"loss_at_{100 * rate:.0f}": at_most(losses[rate], bar) for rate, bar in BARS.items()}
    return report("misheard", figures, bars)


def recall_at(home: Path, told: Weeks, k: int, *, asked: int, meaning: bool) -> float:
    """Return the mean share of each question's evidence among the first k of what is recalled."""
    moment = [float(told.turns[0].at)]
    clock = Clock(wall=lambda: moment[0], monotonic=lambda: moment[0])
    options: dict[str, Any] = {"embedder": real_embedder()} if meaning else {"profile": quiet()}
    with edgemem.open(home, clock=clock, worker=False, **options) as memory:
        ids = _store(memory, told, moment)
        memory.idle(3600)
        shares = []
        for question in [one for one in told.questions if one.evidence][:asked]:
            moment[0] = max(moment[0], float(question.at))
            items = memory.recall(question.text, k=k, kinds=TURNS)
            there = {ids.get((item.session, item.turn)) for item in items}
            shares.append(len(there & set(question.evidence)) / len(set(question.evidence)))
    return sum(shares) / len(shares)


def _store(memory: Memory, told: Weeks, moment: list[float]) -> dict[tuple[str | None, int | None], str]:
    """Store each message of the weeks as a turn of its own; return their ids by session and turn."""
    ids: dict[tuple[str | None, int | None], str] = {}
    for number, said in enumerate(told.turns):
        if said.role == "tool":
            continue
        moment[0] = max(moment[0], float(said.at))
        message = StoredMessage(said.role, said.text)
        turn = Turn(said.session, number, (message,), heard=Heard(speaker=said.speaker), level="household")
        memory.diagnostics.database.submit(partial(commit_turn, turn=turn), durable=False)
        ids[said.session, number] = said.id
    memory.diagnostics.database.flush()
    return ids
