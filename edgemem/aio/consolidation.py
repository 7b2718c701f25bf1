"""Consolidation: what recurs in an agent's episodes becomes facts, with Cognitia's names."""

from __future__ import annotations

import asyncio
import inspect
import logging
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from edgemem.aio.memory import AsyncEpisodes, AsyncStore
from edgemem.errors import InvalidInputError
from edgemem.learn.regularities import Regularity, check_facts, count_regularities
from edgemem.memory.users import Episode, EpisodicMemory
from edgemem.records import has_methods
from edgemem.scopes import person_of
from edgemem.store.memory_store import TableMemoryStore
from edgemem.store.validation import item_count

_NO_STORE = "fact_store needs add_fact(user_id, fact); an edgemem store takes a key, so leave it out."

_log = logging.getLogger(__name__)


@runtime_checkable
class FactExtractor(Protocol):
    """What finds facts in episodes."""

    async def extract(self, episodes: list[Episode]) -> list[str]:
        """Return a sentence for each."""
        ...


class KeywordFactExtractor:
    """Counts tools and tags, of at least `min_frequency` episodes each."""

    def __init__(self, min_frequency: int = 2) -> None:
        self.min_frequency = min_frequency

    async def extract(self, episodes: list[Episode]) -> list[str]:
        """Return the sentences of `count_regularities`."""
        found = await asyncio.to_thread(count_regularities, episodes, self.min_frequency)
        return [regularity.text for regularity in found]


@dataclass
class ConsolidationResult:
    """What came of one consolidation."""

    new_facts: tuple[str, ...]
    episodes_processed: int
    clusters_found: int
    """Facts that were found, new or not."""


class ConsolidationPipeline:
    """Makes facts of the newest episodes; edgemem keeps them beside its episodes, one for each regularity, and tells each once.

    Args:
        fact_store: has `add_fact(user_id, fact)`, awaited or not, for what is new; the user is who alone may read the episodes, or
            `system`.
        deadline_s: for an extractor. One that takes longer, raises or returns no list finds nothing, and nothing is unlearnt.
    """

    def __init__(
        self, episodic: Any, fact_store: Any = None, extractor: Any = None, *, deadline_s: float = 60.0
    ) -> None:
        keyed = isinstance(fact_store, (AsyncStore, TableMemoryStore))
        if fact_store is not None and (keyed or not has_methods(fact_store, "add_fact")):
            raise InvalidInputError(_NO_STORE)
        self._episodic, self._store, self._deadline_s = episodic, fact_store, deadline_s
        self._extractor: FactExtractor = extractor or KeywordFactExtractor()
        self._kind = "counted" if type(self._extractor) is KeywordFactExtractor else "extracted"
        self._known: set[str] = set()

    async def consolidate(self, *, min_episodes: int = 3, max_episodes: int = 50) -> ConsolidationResult:
        """Find what recurs in the newest episodes, of each readership by itself; of fewer than `min_episodes`, nothing does."""
        least, most = item_count(min_episodes, "min_episodes"), item_count(max_episodes, "max_episodes")
        ours = isinstance(self._episodic, (AsyncEpisodes, EpisodicMemory))
        newest = self._episodic.by_readers if ours else self._episodic.recall_recent
        recent = await _result(newest(n=most))
        recent = recent if ours else [("", recent)]
        news, clusters = list[str](), 0
        for scope, episodes in recent:
            found = await self._find(episodes) if len(episodes) >= least else []
            if found is None:
                continue
            clusters += len(found)
            if ours:
                new = await _result(self._episodic.keep_learnt(scope, found, kind=self._kind))
            else:
                new = [fact.text for fact in found if fact.text not in self._known]
                self._known.update(new)
            news += new
            if self._store is not None:
                for fact in new:
                    await _result(self._store.add_fact(person_of(scope) or "system", fact))
        return ConsolidationResult(tuple(news), sum(len(episodes) for _, episodes in recent), clusters)

    async def _find(self, episodes: list[Episode]) -> list[Regularity] | None:
        """Return what recurs in some episodes; None where the extractor failed."""
        if type(self._extractor) is KeywordFactExtractor:
            return await asyncio.to_thread(count_regularities, episodes, self._extractor.min_frequency)
        try:
            given = await asyncio.wait_for(_result(self._extractor.extract(episodes)), self._deadline_s)
            if isinstance(given, str):
                raise InvalidInputError("it returned a text and no list.")
            found, faults = await asyncio.to_thread(check_facts, given, episodes)
        except Exception as error:  # noqa: BLE001 - of anybody's extractor
            found, faults = None, [str(error) or type(error).__name__]
        if faults:
            _log.warning("An extractor's facts are not all used: %s", " ".join(faults[:3]))
        return found


async def _result(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
