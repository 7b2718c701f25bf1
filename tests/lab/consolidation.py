"""Consolidation beside Cognitia: facts of the same random sets of episodes, by the real package and by ours."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import edgemem.aio
from edgemem.bench.ground import at_most, report, scratch
from lab.consolidation_calls import Step, play, sets
from lab.peers import PEERS
from lab.side_by_side import PeerScript

ONCE = "a tool or tag counts once an episode"
SELDOM = "a tool of fewer than min_frequency successes is not used frequently"
STANDS = "a fact that stands is not told again after a restart, and one that comes back is"


def reasons(steps: Sequence[Step], ours: Any, drawn: Any, single: Any) -> set[str] | None:
    """Return why ours differs from theirs, of episodes as drawn and with each tool and tag once; None: nobody knows."""
    why, before = {ONCE} if drawn != single else set[str](), list[str]()
    for n, ((new, found, *counts), (told, facts, processed, _)) in enumerate(zip(ours, single, strict=True)):
        uses = uses_of(steps[: n + 1])
        seldom = {name_of(tool) for tool, count in uses.items() if count < steps[n].least}
        if found != [fact for fact in facts if fact not in seldom] or counts != [processed, len(found)]:
            return None
        if new != [fact for fact in found if fact not in before]:
            return None
        why |= {SELDOM} if found != facts else {STANDS} if new != told else set()
        before = found
    return why


def uses_of(steps: Sequence[Step]) -> Counter[str]:
    """Return how many of the newest successes used each tool."""
    stored = sorted((one for step in steps for one in step.stored), key=lambda one: one["timestamp"])
    recent = stored[-steps[-1].window["max_episodes"] :]
    successes = (set(one["tools_used"]) for one in recent if one["outcome"] == "success")
    return Counter(tool for tools in successes for tool in tools)


def name_of(tool: str) -> str:
    """Return what is told of a tool."""
    return f"Tool '{tool}' is frequently used in successful tasks"


def run(
    *, count: int = 500, seed: int = 1, python: Path | None = None, home: Path | None = None
) -> dict[str, Any]:
    """Consolidate random sets of episodes with Cognitia (swarmline 1.6.10) and with ours, and compare what came of each.

    Args:
        count: of sets.
        seed: of chance.
        python: one that has the package; default: an environment in the cache, made by pip.
        home: where scratch files go; default: the temporary files.
    """
    drawn = sets(count, seed)
    with scratch(home) as folder:
        theirs = PeerScript("consolidation_calls.py", PEERS["swarmline"], python, folder)(
            count=count, seed=seed
        )
    ours = asyncio.run(play(drawn, vars(edgemem.aio)))
    kinds, listed, differences = Counter[str](), Counter[str](), []
    for steps, (mine, _), (as_drawn, single) in zip(drawn, ours, theirs, strict=True):
        why = reasons(steps, mine, as_drawn, single)
        kinds["different" if why is None else "listed" if why else "equal"] += 1
        listed.update(why or ())
        differences += [f"{steps} ours {mine} theirs {as_drawn}"[:3000]] if why is None else []
    figures = {kind: kinds[kind] for kind in ("equal", "listed", "different")}
    shown = {"list": dict(listed.most_common()), "differences": differences[:5]}
    return report("consolidation", figures | shown, {"different": at_most(figures["different"], 0)})
