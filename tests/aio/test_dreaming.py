"""Dreaming under Engrava's names: what is promoted, and what never is, that a second time changes nothing, and its reflections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from edgemem.aio.engrava import (
    DreamingConfig,
    DreamingExtension,
    DreamingGates,
    EngravaError,
    SqliteEngravaCore,
)
from edgemem.learn.reflections import Readership, Reflection, put_reflection
from edgemem.memory import Memory
from support.homes import tell
from support.loops import on_loop
from support.thoughts import an_edge, thought

SCORES = {"t000": 0.5392093545089899, "t001": 0.46051245843729205, "t002": 0.325}
WEIGHTS = {
    "recency": 0.25, "staleness": 0.2, "confirmation": 0.2, "confidence": 0.15, "frequency": 0.2, "action_outcome": 0.0,
}  # fmt: skip
DREAMS = DreamingExtension(DreamingConfig(enabled=True, promote_threshold=0.4))


def a_thought(n: int, **fields: Any) -> Any:
    """Return one of many observations, the first of which were confirmed most."""
    stated = {"priority": "P3", "created_cycle": 1, "updated_cycle": 1, "confirmation_count": max(0, 5 - n)}
    return thought(f"t{n:03}", **{**stated, "content": f"number {n}", **fields})


async def filled(core: SqliteEngravaCore, count: int = 60) -> None:
    await core.bulk_store([a_thought(n) for n in range(count)])


async def firsts(core: SqliteEngravaCore) -> list[str]:
    return sorted(one.thought_id for one in await core.list_thoughts(priority="P1", limit=1000))


async def used(core: SqliteEngravaCore, *names: str) -> None:
    for name in names * 10:
        await core.record_access(name)


@on_loop
async def test_scores_are_those_of_the_real_package() -> None:
    """Of four thoughts at cycle 40 its 0.7.2 returns these; nothing has an outcome, so its weight goes to the others."""
    stated: tuple[dict[str, Any], ...] = (
        {"created_cycle": 1, "updated_cycle": 30, "confirmation_count": 3, "confidence": 0.9},
        {"created_cycle": 10, "updated_cycle": 39},
        {"created_cycle": 40, "updated_cycle": 40, "thought_type": "NOTE"},
        {"created_cycle": 1, "updated_cycle": 1, "confirmation_count": 9, "lifecycle_status": "DONE"},
    )
    async with SqliteEngravaCore(":memory:") as core:
        await core.bulk_store(
            [a_thought(n, **{"confirmation_count": 0, **one}) for n, one in enumerate(stated)]
        )
        for _ in range(4):
            await core.record_access("t001")
        result = await core.consolidate(current_cycle=40)
    assert result.scores == pytest.approx(SCORES, abs=1e-9)
    assert result.active_signal_weights == pytest.approx(WEIGHTS, abs=1e-9)
    assert (result.candidates_evaluated, result.skipped_gate_count) == (3, 1)
    assert result.flat_signals == ["action_outcome"]


@on_loop
async def test_one_of_twenty_is_promoted_and_a_second_time_changes_nothing() -> None:
    """Those that were confirmed most; the cycle, the times and the other thoughts stay."""
    async with SqliteEngravaCore(":memory:") as core:
        await filled(core)
        result = await DREAMS.run_consolidation(core, 3)
        assert await firsts(core) == sorted(result.promoted_ids) == ["t000", "t001", "t002"]
        assert (result.promotion_capped, result.p1_fraction_after) == (True, 0.05)
        after = await core.list_thoughts(limit=1000)
        again = await DREAMS.run_consolidation(core, 3)
        assert (again.promoted_ids, again.scores, again.p1_fraction_after) == ([], result.scores, 0.05)
        assert await core.list_thoughts(limit=1000) == after


@on_loop
async def test_what_others_pass_is_promoted_no_longer() -> None:
    """A promoted thought gives its place to one that is used more, and has the metadata again that it was given."""
    async with SqliteEngravaCore(":memory:") as core:
        await core.bulk_store([a_thought(n, metadata={"room": "hall"}) for n in range(20)])
        await DREAMS.run_consolidation(core, 3)
        assert await firsts(core) == ["t000"]
        await used(core, "t001")
        await DREAMS.run_consolidation(core, 4)
        assert await firsts(core) == ["t001"]
        passed = await core.get_thought("t000")
        assert passed is not None
        assert (passed.priority, passed.metadata) == ("P3", {"room": "hall"})
        await core.update_thought("t001", lifecycle_status="ARCHIVED")
        await DREAMS.run_consolidation(core, 5)
        assert await firsts(core) == ["t000"]


@pytest.mark.parametrize("priority", ["P1", "P2", "P4"])
@on_loop
async def test_a_priority_that_somebody_set_stays(priority: str) -> None:
    """From the beginning, or since a promotion; and what was set to P3 after one is not promoted again."""
    async with SqliteEngravaCore(":memory:") as core:
        await core.bulk_store([a_thought(n, **({"priority": priority} if n < 2 else {})) for n in range(40)])
        await DREAMS.run_consolidation(core, 3)
        assert [await priority_of(core, f"t00{n}") for n in (0, 1, 2, 3)] == [priority] * 2 + ["P1"] * 2
        await core.update_thought("t002", priority=priority)
        await core.update_thought("t003", priority="P3", metadata={"room": "hall"})
        await used(core, *(f"t{n:03}" for n in range(2, 8)))
        await DREAMS.run_consolidation(core, 4)
        await DREAMS.run_consolidation(core, 5)
        assert [await priority_of(core, f"t00{n}") for n in (2, 3, 4, 5)] == [priority, "P3", "P1", "P1"]


async def priority_of(core: SqliteEngravaCore, name: str) -> str:
    one = await core.get_thought(name)
    assert one is not None
    return one.priority


@pytest.mark.parametrize(
    ("gates", "names", "skipped"),
    [
        ({}, ["t000", "t001"], 0),
        ({"min_age_cycles": 3}, [], 40),
        ({"allow_zero_confirmation": False, "min_confirmations": 5}, ["t000"], 39),
        ({"allow_zero_confirmation": False, "min_confirmations": 9}, [], 40),
    ],
)
@on_loop
async def test_gates_hold(gates: dict[str, Any], names: list[str], skipped: int) -> None:
    """Of age in cycles, and of confirmations."""
    dreams = DreamingExtension(DreamingConfig(promote_threshold=0.1, gates=DreamingGates(**gates)))
    async with SqliteEngravaCore(":memory:") as core:
        await filled(core, 40)
        result = await dreams.run_consolidation(core, 3)
        assert (await firsts(core), result.skipped_gate_count) == (names, skipped)


@on_loop
async def test_what_is_private_changes_nothing_for_others(memory: Memory) -> None:
    """Thoughts are compared within one readership: neither places nor weights come from what another may not read."""
    async with SqliteEngravaCore(memory) as core:
        await filled(core)
        secret = [
            thought(f"s{n}", priority="P3", confirmation_count=9, confidence=1.0, owner="Ines")
            for n in range(100)
        ]
        await core.bulk_store(secret)
        await used(core, "s1", "s2")
        result = await DREAMS.run_consolidation(core, 3)
        assert [name for name in await firsts(core) if name[0] == "t"] == ["t000", "t001", "t002"]
        await core.delete_thought("s1")
        without = await DREAMS.run_consolidation(core, 3)
        assert all(without.scores[f"t{n:03}"] == result.scores[f"t{n:03}"] for n in range(60))


@on_loop
async def test_what_came_of_a_thought_is_a_signal(memory: Memory) -> None:
    """The episodes that an edge leads to, by their outcomes; without any, it is flat."""
    memory.store.add_episode("tool_call", {"name": "drive"}, "ok", level="household")
    (episode,) = memory.diagnostics.database.query("select id from episodes")[0]
    async with SqliteEngravaCore(memory) as core:
        await filled(core, 2)
        assert "action_outcome" in (await core.consolidate(current_cycle=3)).flat_signals
        await core.create_edge(an_edge("e", "t001", f"episode:{episode}"))
        result = await core.consolidate(current_cycle=3)
        assert result.active_signal_weights["action_outcome"] > 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: DreamingConfig(candidates_limit=5), lambda: DreamingGates(cluster_algorithm="lpa"),  # type: ignore[call-arg]
        lambda: DreamingConfig(signals={"mood": 1.0}), lambda: DreamingConfig(signals={"recency": -1.0}),
        lambda: DreamingConfig(promote_threshold=2.0), lambda: DreamingConfig(schedule_every_n_cycles=0),
        lambda: DreamingConfig(enabled=1), lambda: DreamingGates(min_age_cycles=-1), lambda: DreamingGates(min_cluster_size=0),  # type: ignore[arg-type]
        lambda: DreamingConfig(gates={}), lambda: DreamingExtension(None), lambda: DREAMS.is_due(-1),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_settings_that_mean_nothing_are_refused(make: Callable[[], object]) -> None:
    """Each when it is made, in a sentence."""
    with pytest.raises(EngravaError, match=r"must be|has no"):
        make()


@on_loop
async def test_it_is_run_when_its_cycle_is_due() -> None:
    """Each hundredth cycle, by default, where it is enabled; the first is none."""
    assert [cycle for cycle in range(301) if DREAMS.is_due(cycle)] == [100, 200, 300]
    assert not DreamingExtension(DreamingConfig()).is_due(100)
    async with SqliteEngravaCore(":memory:") as core:
        await filled(core, 40)
        assert await DREAMS.run_if_due(core, 99) is None
        core.attach_dreaming_extension(DREAMS)
        assert (await core.consolidate()).promoted_count == 0
        result = await DREAMS.run_if_due(core, 100)
        assert result is not None
        assert result.candidates_evaluated == 40


class Counter:
    """Learns one reflection of all that was said."""

    name = "counter"

    def __init__(self, memory: Memory) -> None:
        self.database = memory.diagnostics.database

    def step(self, _stop: Callable[[], bool]) -> bool:
        rows = self.database.query("select first_message from turns order by 1 desc")
        found = Reflection("all", f"said {len(rows)} times", tuple(f"turn:{n}" for (n,) in rows), 0.0, {})
        return self.database.write(lambda tx: put_reflection(tx, self.name, Readership(1, None), found))


@on_loop
async def test_reflections_are_what_the_learners_make(memory: Memory) -> None:
    """They are learnt at once, counted from so many members on, found by either end; members are shown as associated."""
    memory.learning.add(Counter(memory))
    for n in range(3):
        tell(memory, "Good morning, everybody.", "s", n)
    async with SqliteEngravaCore(memory) as core:
        first = await core.consolidate(current_cycle=3)
        assert (first.reflections_created, first.edges_created) == (1, 3)
        again = await core.consolidate(current_cycle=3)
        assert (again.reflections_created, again.edges_created, again.orphans_retired) == (0, 0, 0)
        (found,) = await core.list_thoughts(thought_type="REFLECTION")
        assert found.essence == "said 3 times"
        members = await core.consolidated_member_ids(found.thought_id)
        assert sorted(members) == sorted(found.consolidated_from)
        assert await core.reflections_consolidated_from(members[0]) == [found.thought_id]
        beside = [edge for edge in await core.get_edges(members[0]) if edge.edge_type == "ASSOCIATED"]
        assert {end for edge in beside for end in edge.ends} == set(members)
        assert ((await core.search_reflections_only("how often said")).results)[0][0] == found.thought_id


@pytest.mark.parametrize("pinned", [False, True])
@on_loop
async def test_a_reflection_of_nothing_active_is_retired(memory: Memory, pinned: bool) -> None:
    """What learning made goes, unless it is pinned."""
    async with SqliteEngravaCore(memory) as core:
        await filled(core, 2)
        found = Reflection("both", "both are numbers", ("t000", "t001"), 0.0, {})
        memory.diagnostics.database.write(lambda tx: put_reflection(tx, "pairs", Readership(1, None), found))
        (made,) = await core.list_thoughts(thought_type="REFLECTION")
        await core.update_thought(made.thought_id, pinned=pinned)
        await core.update_thought("t000", lifecycle_status="ARCHIVED")
        assert await core.retire_orphan_reflections() == 0
        await core.update_thought("t001", lifecycle_status="DONE")
        assert (await core.consolidate(current_cycle=3)).orphans_retired == (not pinned)
        assert (await core.get_thought(made.thought_id) is not None) == pinned
