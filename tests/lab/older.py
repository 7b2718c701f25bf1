"""An older tree beside this one: what both find first, and what a recall costs.

A tree is a checkout with its own environment (`.venv`) and models. The older one runs this file too, which uses doors that both have.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import thread_time
from typing import Any

import msgspec

import edgemem
from edgemem.bench.ground import report, scratch
from edgemem.config import Profile
from edgemem.errors import InvalidInputError
from lab.bootstrap import gains, interval
from lab.judge import SetClock
from lab.recall_cases import LEFT_OUT, Case, ids, joined, read_cases, tell_case, weeks_case
from lab.weeks import weeks

HERE = Path(__file__).parents[2]
_CUTS = (1, 5, 10)
_IDLE_S = 3600.0
_LATE_MS = 10_000.0  # a slow machine must not turn figures of meaning into those of words


def run(
    *,
    tree: Path = HERE,
    data: str = "weeks",
    together: bool = False,
    rounds: int = 3,
    case: Path | None = None,
    home: Path | None = None,
) -> dict[str, Any]:
    """Ask an older tree and this one the same in turns: what is found first, and the CPU of a recall without the embedding.

    Args:
        tree: the older one.
        data: `weeks`: 2,299 messages of our own corpus; `judged`: what `judged_en.toml` asks of messages; or a file of LoCoMo's form.
        together: all conversations of a file in one home, of 2,760 messages in LoCoMo's open half.
        rounds: how often each is asked, in a fresh process; the CPU is the median of the medians of all rounds.
        case: ask this tree alone what this file holds, in a home that is filled if it is new; what each round runs.
    """
    if case is not None and home is not None:
        return _answers(msgspec.json.decode(case.read_bytes(), type=Case), home)
    scores: dict[str, dict[str, dict[str, float]]] = {"older": {}, "here": {}}
    cpu: dict[str, list[float]] = {"older": [], "here": []}
    with scratch(home) as folder:
        for each in _cases(data, together=together):
            (folder / "case").write_bytes(msgspec.json.encode(each))
            for name, where in [("older", tree), ("here", HERE)] * rounds:
                answers = _run(where, folder / "case", folder / f"{each.name} {name}")
                cpu[name].append(median(answers["cpu_ms"]))
                for one, found in zip(each.asked, answers["found"], strict=True):
                    there = {k: len({*one.evidence}.intersection(found[:k])) for k in _CUTS}
                    scores[name][one.id] = {f"recall@{k}": n / len(one.evidence) for k, n in there.items()}
    sides = {
        name: {side: interval([one[name] for one in scores[side].values()]).mean for side in scores}
        for name in (f"recall@{k}" for k in _CUTS)
    } | {"cpu_ms": {side: median(cpu[side]) for side in cpu}}
    quotient = median(cpu["here"]) / median(cpu["older"])
    above = msgspec.to_builtins(gains(scores["older"], scores["here"]))
    return report("older", {"side_by_side": sides, "cpu_quotient": quotient, "here_above": above}, {})


def _cases(data: str, *, together: bool) -> list[Case]:
    # Late: an older tree cannot import it.
    from lab.judged import case_of, household

    if data in ("weeks", "judged"):
        cases = [weeks_case(weeks(1, "unseen")) if data == "weeks" else case_of(household("en"))]
    else:
        cases = read_cases(Path(data))[1]
    if together:
        cases = [joined(cases)]
    asked = ([one for one in case.asked if one.evidence and one.category not in LEFT_OUT] for case in cases)
    return [msgspec.structs.replace(case, asked=tuple(some)) for case, some in zip(cases, asked, strict=True)]


def _run(tree: Path, case: Path, home: Path) -> dict[str, Any]:
    job = ["-m", "lab", "older", "--case", str(case), "--home", str(home), "--json"]
    environment = {**os.environ, "PYTHONPATH": str(HERE / "tests"), "OPENBLAS_NUM_THREADS": "1"}
    python = sys.executable if tree == HERE else tree.absolute() / ".venv/bin/python"
    ran = subprocess.run([python, *job], capture_output=True, cwd=tree, env=environment, check=False)
    if ran.returncode:
        raise InvalidInputError(
            f"{tree} cannot be asked ({ran.stderr.decode()[-300:]}); name a checkout with its .venv and models."
        )
    answers: dict[str, Any] = json.loads(ran.stdout)
    return answers


def _answers(case: Case, home: Path) -> dict[str, Any]:
    """Return what is found for each question, best first, and the CPU of each recall in ms: an embedding has a thread of its own."""
    clock, profile, is_new = SetClock(), Profile(), not home.exists()
    clock.at = case.said[0].at
    recall = msgspec.structs.replace(profile.recall, deadline_ms=_LATE_MS, query_embed_ms=_LATE_MS)
    profile = msgspec.structs.replace(profile, recall=recall)
    found, cpu_ms = [], []
    with edgemem.open(home, profile=profile, clock=clock, worker=False, watch=False) as memory:
        if is_new:
            tell_case(memory, clock, case)
        clock.at = max(one.at for one in case.said) + 1
        memory.idle(_IDLE_S)
        names = dict(ids(memory, case.said))
        memory.recall("Is somebody there?")
        for one in case.asked:
            clock.at = one.at
            asker = msgspec.UNSET if one.asker is None else one.asker
            begun = thread_time()
            items = memory.recall(one.text, speaker=asker, k=_CUTS[-1], kinds={"turn"}, min_score=0.0)
            cpu_ms.append((thread_time() - begun) * 1e3)
            found.append([names[item.id] for item in items])
    return {"found": found, "cpu_ms": cpu_ms}
