"""Engrava's names over our memory: its page's example with another import, its signatures, filters, and what is refused."""

import inspect
import logging
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import edgemem.aio
from edgemem.aio import engrava
from edgemem.aio.engrava import (
    FieldOp,
    FieldPredicate,
    KnowledgeSource,
    LifecycleStatus,
    MetadataFilter,
    Priority,
    SqliteEngravaCore,
    ThoughtRecord,
    ThoughtType,
    ThoughtVisibility,
    VisibilityQueryFilter,
)
from edgemem.errors import ClosedError, InvalidInputError
from edgemem.memory import Memory
from support.homes import BY_WORDS, opened
from support.loops import on_loop
from support.thoughts import an_edge, thought

EQ, IN = FieldOp.EQ, FieldOp.IN
SIGNATURES = """
remember: text metadata deduplicate
recall: query top_k current_cycle recency_now recency_now_half_life filters visibility collapse_key collapse_max_per_unit include_archived
create_thought: thought expires_after_seconds deduplicate
get_or_create: thought expires_after_seconds
upsert_by_hash: thought expires_after_seconds
bulk_store: thoughts deduplicate
get_thought: thought_id
update_thought: thought_id changes
restore_thought: thought_id current_cycle
invalidate_thought: thought_id valid_until
delete_thought: thought_id
list_thoughts: priority lifecycle_status thought_type min_cycle max_cycle visibility exclude_visibility include_expired limit offset
count_thoughts: lifecycle_status thought_type priority include_expired
max_cycle:
thought_exists_by_source: source thought_type_value
create_edge: edge
update_edge: edge_id changes
invalidate_edge: edge_id valid_until
get_edges: thought_id direction limit
list_edges: edge_type source filters limit
delete_edge: edge_id
search_hybrid: query_text query_vector top_k fts_weight vector_weight recency_weight recency_half_life current_cycle recency_now recency_now_half_life fts_top_k vector_top_k priority_weight graph_weight graph_edge_decay include_reflections reflection_boost filters visibility collapse_key collapse_max_per_unit include_archived
search_fts: query top_k include_archived
search_reflections_only: query_text query_vector top_k current_cycle
cleanup_expired: now exclude_id
record_access: thought_id
consolidate: current_cycle
attach_dreaming_extension: extension
retire_orphan_reflections:
consolidated_member_ids: reflection_id
reflections_consolidated_from: source_id
ensure_schema:
close:
"""
"""Of 0.7.2, as `inspect` gives them."""


def store() -> SqliteEngravaCore:
    return SqliteEngravaCore(":memory:")


@on_loop
async def test_the_example_of_the_page_runs_with_another_import() -> None:
    """The record of its last block is made, stored, and found as it was given; a cycle lifts the counter."""
    observation = ThoughtRecord(
        thought_id=str(uuid.uuid4()),
        thought_type=ThoughtType.OBSERVATION,  # learned from the world
        essence="User prefers email over phone",  # prompt-facing one-liner
        content="The user said during onboarding that email is the best way to reach them.",
        priority=Priority.P2,
        lifecycle_status=LifecycleStatus.ACTIVE,
        created_cycle=12,  # your agent's logical clock, this turn
        updated_cycle=12,
        source="onboarding-flow",  # free-form origin id
        source_type=KnowledgeSource.EXPERIENCE,  # how it was obtained
        confidence=0.9,  # how sure you are
        visibility=ThoughtVisibility.SELECTIVE,  # inner/outer-speech boundary
    )
    async with store() as core:
        await core.ensure_schema()
        kept = await core.create_thought(observation)
        assert kept.evolve(created_at=None, updated_at=None) == observation
        assert await core.get_thought(observation.thought_id) == kept
        ((found, score),) = (await core.recall("how can I reach them by email")).results
        assert (found, 0 < score <= 1) == (observation.thought_id, True)
        assert await core.max_cycle() == 12


@pytest.mark.parametrize("line", SIGNATURES.strip().splitlines())
def test_a_method_takes_what_it_takes_there(line: str) -> None:
    """Its arguments have the names of 0.7.2, in their order; of ours, more may follow."""
    name, _, arguments = line.partition(":")
    own = [*inspect.signature(getattr(SqliteEngravaCore, name)).parameters][1:]
    assert [argument for argument in own if argument in arguments.split()] == arguments.split()


@on_loop
async def test_a_file_keeps_what_a_store_was_told(tmp_path: Path) -> None:
    """Stores at one path are one file, which stays; a closed one takes nothing, and another program's connection is refused."""
    async with (
        SqliteEngravaCore(tmp_path / "agent.db") as core,
        SqliteEngravaCore(tmp_path / "agent.db") as other,
    ):
        kept = await core.remember("SQLite needs no server", metadata={"room": "hall"})
        assert await other.get_thought(kept.thought_id) == kept
    with pytest.raises(ClosedError):
        await core.max_cycle()
    async with SqliteEngravaCore(str(tmp_path / "agent.db")) as core:
        assert await core.list_thoughts() == [kept]
    with pytest.raises(InvalidInputError, match="takes no connection"):
        SqliteEngravaCore(object())  # type: ignore[arg-type]


@on_loop
async def test_an_open_home_is_a_store(tmp_path: Path) -> None:
    """What a robot's memory holds is found under Engrava's names, and the home stays open when the store is closed."""
    with opened(tmp_path / "home") as memory:
        memory.store.add_fact("gate.colour", "green", scope="household")
        async with SqliteEngravaCore(memory) as core:
            ((found, _),) = (await core.search_hybrid("which colour has the gate")).results
            shown = await core.get_thought(found)
            assert shown is not None
            assert (shown.thought_type, shown.essence) == ("OBSERVATION", "gate.colour: green")
        assert memory.thoughts.get_thought(found) == shown
    async with edgemem.aio.open(tmp_path / "home", profile=BY_WORDS) as other:
        async with SqliteEngravaCore(other) as core:
            assert (await core.get_thought(found)) == shown
        assert await other.thoughts.get_thought(found) == shown


@on_loop
async def test_searches_read_as_the_household_does() -> None:
    """What is somebody's own is found by a filter alone, what is private by none; the operator's view lists all."""
    mine = {"private": "private", "selective": "selective", "public": "public"}
    async with store() as core:
        for name, visibility in mine.items():
            await core.create_thought(
                thought(name, content=f"The {name} teapot leaks.", visibility=visibility)
            )
        await core.create_thought(thought("hers", content="Her own teapot leaks.", owner="Ines"))

        async def found(*allowed: str, owner: str | None = None) -> set[str]:
            asked = VisibilityQueryFilter(allowed, owner) if allowed or owner else None
            return {name for name, _ in (await core.recall("teapot", visibility=asked)).results}

        assert await found() == {"selective", "public"}
        assert await found("public") == {"public"}
        assert await found("private") == set()
        assert await found("selective") == {"selective"}
        assert await found("public", owner="user:ines") == {"public", "hers"}
        assert {name for name, _ in await core.search_fts("teapot")} == {"selective", "public"}
        assert await core.count_thoughts() == 4
        assert [one.thought_id for one in await core.list_thoughts(visibility="private")] == ["private"]


@on_loop
async def test_reflections_are_found_alone_or_left_out(memory: Memory) -> None:
    """They are found as all thoughts are, by themselves, or not at all."""
    lines = memory.thoughts.create_thought(thought("note", content="teapot lore"))
    memory.diagnostics.database.write(
        lambda tx: tx.execute(
            "update stored_thoughts set type = 'REFLECTION' where name = ?", (lines.thought_id,)
        )
    )
    memory.thoughts.create_thought(thought("plain", content="the teapot leaks"))
    async with SqliteEngravaCore(memory) as core:
        assert [name for name, _ in (await core.search_reflections_only("teapot")).results] == ["note"]
        without = await core.search_hybrid("teapot", include_reflections=False)
        assert [name for name, _ in without.results] == ["plain"]
        assert {name for name, _ in (await core.search_hybrid("teapot")).results} == {"note", "plain"}


@on_loop
async def test_weights_are_checked_and_ignored_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """One ranking finds everything; what no weight can be is refused as there."""
    async with store() as core:
        await core.remember("the teapot leaks")
        with caplog.at_level(logging.WARNING):
            plain = await core.search_hybrid("teapot")
            assert caplog.records == []
            assert await core.search_hybrid("teapot", fts_weight=0.0, vector_weight=2.0) == plain
            assert await core.search_hybrid("teapot", [0.5], current_cycle=3, recency_half_life=9) == plain
        assert len(caplog.records) == 1
        for wrong in (
            {"fts_weight": -1}, {"recency_half_life": 0}, {"recency_now": "soon"}, {"fts_top_k": -1}, {"current_cycle": "x"},
            {"current_cycle": 1, "recency_now": "2026-01-01"}, {"collapse_key": "$.room"},
        ):  # fmt: skip
            with pytest.raises(engrava.EngravaError):
                await core.search_hybrid("teapot", **wrong)  # type: ignore[arg-type]


def test_a_filter_is_a_value_for_each_path() -> None:
    """Conditions on one path must all hold; True and 1 are two values."""
    both = [
        FieldPredicate("$.n", IN, (1, 2, True)),
        FieldPredicate("$.n", IN, [2, True]),
        FieldPredicate("$.a.b", EQ, "x"),
    ]
    assert MetadataFilter(both).values() == {"$.n": [2, True], "$.a.b": ["x"]}
    assert MetadataFilter().values() == {}


@on_loop
async def test_a_filter_holds_before_anything_is_ranked() -> None:
    """Thoughts and edges that lack a value are not found, however well they fit; an empty filter is none."""
    hall, told = FieldPredicate("$.room", EQ, "hall"), FieldPredicate("$.why", EQ, "told")
    async with store() as core:
        for n in range(30):
            metadata = {"room": "barn"} if n % 10 else {"room": "hall", "n": n}
            await core.create_thought(thought(f"t{n}", content=f"teapot number {n}", metadata=metadata))
        await core.create_edge(an_edge("e", "t0", "t1", metadata={"why": "told"}))
        await core.create_edge(an_edge("f", "t0", "t2"))
        for predicates, names in (
            ([hall], {"t0", "t10", "t20"}), ([hall, FieldPredicate("$.n", IN, [10, 20, 5])], {"t10", "t20"}),
            ([hall, FieldPredicate("$.n", EQ, "10")], set()), ([], {f"t{n}" for n in range(30)}),
        ):  # fmt: skip
            found = await core.recall("teapot", top_k=30, filters=MetadataFilter(predicates))
            assert {name for name, _ in found.results} == names
        assert [edge.edge_id for edge in await core.list_edges(filters=MetadataFilter([told]))] == ["e"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: FieldPredicate("room", EQ, 1), lambda: FieldPredicate("$", EQ, 1), lambda: FieldPredicate("$.a", "EQ", 1),
        lambda: FieldPredicate("$.a", EQ, [1]), lambda: FieldPredicate("$.a", IN, "abc"), lambda: MetadataFilter([1]),
        lambda: VisibilityQueryFilter("public"), lambda: VisibilityQueryFilter({"secret"}), lambda: VisibilityQueryFilter(()),
        lambda: VisibilityQueryFilter(1),
    ],
)  # fmt: skip
def test_a_filter_that_means_nothing_is_refused(make: Callable[[], object]) -> None:
    """Each is refused when it is made, in a sentence."""
    with pytest.raises(engrava.InvalidFilterError):
        make()


@pytest.mark.parametrize("given", [{"filters": {"room": "hall"}}, {"visibility": {"public"}}])
@on_loop
async def test_a_filter_of_another_type_is_refused(given: dict[str, Any]) -> None:
    """In a sentence that names the type."""
    async with store() as core:
        with pytest.raises(engrava.InvalidFilterError, match="must be a"):
            await core.recall("teapot", **given)


@on_loop
async def test_ten_thousand_equal_observations_are_one() -> None:
    """Each counts as a confirmation of the first where that is asked."""
    async with store() as core:
        first = await core.create_thought(thought("first"))
        same = [thought(f"t{n}") for n in range(10_000)]
        await core.bulk_store(same[:9_999], deduplicate=True)
        last = await core.create_thought(same[-1], deduplicate=True)
        assert (last.thought_id, last.confirmation_count) == (first.thought_id, 10_000)
        assert await core.count_thoughts() == 1


@on_loop
async def test_a_clock_may_jump_over_an_expiry(memory: Memory, hand: Any) -> None:
    """What expired by a jump is left out, and there again when the clock comes back; a clean-up keeps one that is named."""
    begun = hand.wall
    async with SqliteEngravaCore(memory) as core:
        await core.create_thought(thought("a"), expires_after_seconds=3600)
        await core.create_thought(thought("b", content="the other mug"), expires_after_seconds=3600)
        hand.wall = begun + 9000.0
        assert (await core.recall("mug")).results == []
        assert await core.count_thoughts() == 0
        hand.wall = begun
        assert len((await core.recall("mug")).results) == 2
        hand.wall = begun + 9000.0
        await core.update_thought("b", pinned=True)
        result = await core.cleanup_expired(exclude_id="b")
        assert (result.expired_count, result.pinned_kept_count) == (1, 0)
        kept = await core.list_thoughts(lifecycle_status="ACTIVE", include_expired=True)
        assert [one.thought_id for one in kept] == ["b"]
