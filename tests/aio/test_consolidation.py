"""What an agent's episodes have in common becomes facts: Cognitia's page as written, bad extractors, and a home."""

import asyncio
import random
from types import SimpleNamespace

import pytest

import edgemem
import edgemem.aio
from edgemem.aio import (
    ConsolidationPipeline,
    ConsolidationResult,
    Episode,
    FactExtractor,
    InMemoryEpisodicMemory,
    KeywordFactExtractor,
)
from edgemem.errors import InvalidInputError
from edgemem.records import Heard, Reader
from edgemem.store.rights import readable
from support.loops import on_loop
from support.refusals import refusal

PAGE = (
    "Tool 'sandbox' is frequently used in successful tasks",
    "Tasks tagged 'deployment' succeed 3/3 times",
)


async def store_three(episodic):
    for name, summary in (
        ("ep-1", "Deployed to staging using sandbox"), ("ep-2", "Deployed to production using sandbox"),
        ("ep-3", "Ran data migration using sandbox"),
    ):  # fmt: skip
        await episodic.store(Episode(
            id=name, summary=summary,
            tools_used=("sandbox",), outcome="success", tags=("deployment",),
        ))  # fmt: skip


class Shelf(list):
    """A fact store of somebody's own; `awaited` tells whether it is."""

    def __init__(self, awaited):
        self.add_fact = self._later if awaited else self._now

    def _now(self, user_id, fact):
        self.append((user_id, fact))

    async def _later(self, user_id, fact):
        self._now(user_id, fact)


@pytest.mark.parametrize("awaited", [True, False])
@on_loop
async def test_the_page_runs_as_written(awaited):
    """Facts of three episodes, stored in anybody's fact store, and those of an extractor of one's own."""
    episodic = InMemoryEpisodicMemory()
    # Store several episodes over time...
    await store_three(episodic)
    # Run consolidation
    pipeline = ConsolidationPipeline(episodic=episodic)
    result = await pipeline.consolidate(min_episodes=3, max_episodes=50)
    assert result.new_facts == PAGE
    assert (result.episodes_processed, result.clusters_found) == (3, 2)
    assert (await pipeline.consolidate()).new_facts == ()

    my_fact_store, other = Shelf(awaited), InMemoryEpisodicMemory()
    await store_three(other)
    pipeline = ConsolidationPipeline(
        episodic=other,
        fact_store=my_fact_store,  # any object with async add_fact(user_id, fact)
    )
    result = await pipeline.consolidate()
    # New facts are automatically stored in the fact store
    assert my_fact_store == [("system", fact) for fact in PAGE]

    async def call_llm(prompt: str) -> str:
        assert prompt.endswith("\nDeployed to staging using sandbox")
        return "Deployments use the sandbox\n"

    class LlmFactExtractor:
        """Extract facts using an LLM for richer semantic understanding."""

        async def extract(self, episodes: list[Episode]) -> list[str]:
            summaries = "\n".join(ep.summary for ep in episodes)
            # Call your LLM to extract patterns
            response = await call_llm(f"Extract recurring patterns from these episodes:\n{summaries}")
            return response.split("\n")

    pipeline = ConsolidationPipeline(episodic=episodic, extractor=LlmFactExtractor())
    assert isinstance(LlmFactExtractor(), FactExtractor)
    assert (await pipeline.consolidate()).new_facts == ("Deployments use the sandbox",)
    assert (await pipeline.consolidate(min_episodes=4)).episodes_processed == 3


@on_loop
async def test_any_episodic_memory_is_consolidated():
    """One of somebody's own too."""
    ours = InMemoryEpisodicMemory()
    await store_three(ours)
    own = SimpleNamespace(recall_recent=ours.recall_recent)
    pipeline = ConsolidationPipeline(own, Shelf(awaited=False))
    assert [(await pipeline.consolidate()).new_facts for _ in range(2)] == [PAGE, ()]


@pytest.mark.parametrize("store", [object(), "store", InMemoryEpisodicMemory])
def test_a_store_that_cannot_be_told_a_fact_is_refused(store):
    """At once, and not when the first fact is there."""
    refusal(InvalidInputError, ConsolidationPipeline, None, store, match="add_fact")


def extractor(answer, after_s=0.0):
    async def extract(_episodes):
        await asyncio.sleep(after_s)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return type("Extractor", (), {"extract": staticmethod(extract)})()


@pytest.mark.parametrize(
    "bad",
    [
        extractor(RuntimeError("out of memory")), extractor([], after_s=3600), extractor(None), extractor(7),
        extractor("Deployed with the sandbox"),
    ],
)  # fmt: skip
@on_loop
async def test_an_extractor_that_fails_unlearns_nothing(bad):
    """Nor does one that hangs, or returns a text and no list."""
    async with InMemoryEpisodicMemory() as episodic:  # else the error of the table would keep it open
        await store_three(episodic)
        fine = ConsolidationPipeline(episodic, extractor=extractor(["Deployed with the sandbox"]))
        assert (await fine.consolidate()).new_facts == ("Deployed with the sandbox",)
        failing = ConsolidationPipeline(episodic, extractor=bad, deadline_s=0.05)
        assert await failing.consolidate() == ConsolidationResult((), 3, 0)
        assert (await fine.consolidate()).new_facts == ()


@on_loop
async def test_a_fact_that_its_episodes_do_not_hold_is_not_used():
    """Neither prose, nor a number or name that none of them has, nor what only one tells of."""
    episodic = InMemoryEpisodicMemory()
    await store_three(episodic)
    given = [
        "Sure! Here are some patterns I found:", "", 7, "sandbox " * 100, "Deployments with the sandbox fail 7 times",
        "Waldemar deploys with the sandbox", "Data was migrated", "Users love dark mode", "Deployed with the sandbox",
        "Deployed with the sandbox",
    ]  # fmt: skip
    result = await ConsolidationPipeline(episodic, extractor=extractor(given)).consolidate()
    assert (result.new_facts, result.clusters_found) == (("Deployed with the sandbox",), 1)


@on_loop
async def test_a_hundred_thousand_episodes_of_one_kind_are_one_fact_each_way():
    """Only as many as asked for are looked at."""
    episodes = [Episode(f"e{n}", "Watered the orchids", (), ("can",), "success") for n in range(100_000)]
    assert await KeywordFactExtractor().extract(episodes) == [PAGE[0].replace("sandbox", "can")]


@on_loop
async def test_episodes_of_two_people_are_never_counted_together(tmp_path):
    """What is found in those of one alone is told to the store as theirs; what only the operator reads is left out."""
    shelf = Shelf(awaited=True)
    async with edgemem.aio.open(tmp_path, worker=False) as memory:
        for n, owner in enumerate(("ines", "bo", "Ines", "bo", "ines")):
            whose = {"level": "private", "owner": owner, "tags": ("plants",)}
            await memory.store.add_episode("episode", {}, "success", summary="watered", **whose)
            await memory.episodes.store(Episode(f"e{n}", "Watered", tags=("lawn",), outcome="failure"))
        result = await ConsolidationPipeline(memory.episodes, shelf).consolidate()
    assert (shelf, result.episodes_processed) == ([("ines", "Tasks tagged 'plants' succeed 3/3 times")], 10)


def consolidate(memory, **options):
    return asyncio.run(ConsolidationPipeline(memory.episodes).consolidate(**options)).new_facts


def facts_of(memory, reader=None):
    return sorted(fact.value for fact in memory.store.facts(reader=reader))


def do(memory, outcome="success", *, name=None, tag="plants", **whose):
    described = {"summary": "watered the orchids", "tools": ("can",), "tags": (tag,), "name": name}
    memory.store.add_episode("episode", {}, outcome, **described, **whose)


def test_a_home_keeps_one_fact_of_a_regularity(tmp_path):
    """Its count changes in place, a restart repeats nothing, and it goes when it is true no more; its episodes are its reasons."""
    with edgemem.open(tmp_path, worker=False) as memory:
        for _ in range(3):
            do(memory)
        assert consolidate(memory) == (
            PAGE[0].replace("sandbox", "can"),
            "Tasks tagged 'plants' succeed 3/3 times",
        )
    with edgemem.open(tmp_path, worker=False) as memory:
        assert consolidate(memory) == ()
        do(memory, "failure")
        counted = ("Tasks tagged 'plants' succeed 3/4 times",)
        assert consolidate(memory) == counted
        (fact,) = [fact for fact in memory.store.facts() if fact.value == counted[0]]
        assert (fact.trust, fact.source, memory.store.fact_history(fact.key)) == (1, "consolidation", [fact])
        assert {told.source for told in memory.why(f"fact:{fact.id}").before} == {"edgemem"}
        edges = memory.thoughts.get_edges(f"fact:{fact.id}", direction="OUT")
        assert [edge.edge_type for edge in edges] == ["CONSOLIDATED_FROM"] * 4
        memory.thoughts.update_thought(f"fact:{fact.id}", aloud=False)
        do(memory, "failure")
        assert consolidate(memory) == ("Tasks tagged 'plants' succeed 3/5 times",)
        assert not memory.thoughts.get_thought(f"fact:{fact.id}").aloud
        for _ in range(4):
            do(memory, "failure", tag="trees")
        assert consolidate(memory, max_episodes=5) == ()
        assert facts_of(memory) == []


@pytest.mark.parametrize("by", ["name", "person"])
def test_what_came_of_a_forgotten_episode_goes_with_it(by, tmp_path):
    """At once; what the others still tell is counted anew."""
    with edgemem.open(tmp_path, worker=False) as memory:
        for n in range(4):
            do(memory, name=f"e{n}", heard=Heard(speaker="ines" if n == 3 else "bo"))
        consolidate(memory)
        assert facts_of(memory)[0] == "Tasks tagged 'plants' succeed 4/4 times"
        if by == "person":
            memory.forget(person="ines")
        else:
            memory.store.forget_episode(memory.store.episodes(n=1)[0].id)
        assert facts_of(memory) == []
        assert len(consolidate(memory)) == 2
        assert facts_of(memory)[0] == "Tasks tagged 'plants' succeed 3/3 times"


def test_what_somebody_corrected_is_not_learnt_again(tmp_path):
    """Whether they retracted it, or said another thing."""
    with edgemem.open(tmp_path, worker=False) as memory:
        for _ in range(3):
            do(memory)
        consolidate(memory)
        first, second = memory.store.facts()
        memory.store.retract_fact(first.key)
        memory.store.add_fact(second.key, "no")
        assert (consolidate(memory), facts_of(memory)) == ((), ["no"])


@pytest.mark.parametrize("seed", range(5))
def test_each_reader_is_told_what_their_own_episodes_tell(seed, tmp_path):
    """As if those that they may not read had never been stored; nobody is told of a private one of nobody's."""
    chance, readers = random.Random(seed), (Reader("ines"), Reader("bo"), Reader(None))
    levels = (
        {"level": "shared"},
        {"level": "household"},
        *({"level": "private", "owner": name} for name in ("ines", "Ines", "bo")),
    )
    episodes = [
        (chance.choice(["success", "failure"]), {"tag": chance.choice("ab"), **chance.choice(levels)})
        for _ in range(60)
    ]
    with edgemem.open(tmp_path / "all", worker=False) as memory:
        for outcome, whose in episodes:
            do(memory, outcome, **whose)
        consolidate(memory, max_episodes=9)
        told = [facts_of(memory, reader) for reader in readers]
    for n, reader in enumerate(readers):
        with edgemem.open(tmp_path / str(n), worker=False) as memory:
            for outcome, whose in episodes:
                owner = whose.get("owner")
                if readable(reader, whose["level"], owner):
                    do(memory, outcome, **whose)
            consolidate(memory, max_episodes=9)
            assert told[n] == facts_of(memory) != []
