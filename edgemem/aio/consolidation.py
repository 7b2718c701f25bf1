"""Consolidation: what recurs in an agent's episodes becomes facts, with Cognitia's names."""

from __future__ import annotations

import asyncio
import inspect
import logging
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from edgemem.aio.memory import AsyncEpisodes, AsyncStore
from edgemem.errors import InvalidInputError
from edgemem.learn.regularities import check_facts, count_regularities
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
        self._least = min_frequency

    async def extract(self, episodes: list[Episode]) -> list[str]:
        """Return the sentences of `count_regularities`."""
        return await asyncio.to_thread(count_regularities, episodes, self._least)


@dataclass
class ConsolidationResult:
    """What came of one consolidation."""

    new_facts: tuple[str, ...]
    episodes_processed: int
    clusters_found: int
    """Facts that were found, new or not."""


class ConsolidationPipeline:
    """Makes facts of the newest episodes, and tells each once.

    Args:
        fact_store: has `add_fact(user_id, fact)`, awaited or not; the user is who alone may read the episodes, or `system`.
        deadline_s: for an extractor. One that takes longer, raises or returns no list finds nothing.
    """

    def __init__(
        self, episodic: Any, fact_store: Any = None, extractor: Any = None, *, deadline_s: float = 60.0
    ) -> None:
        keyed = isinstance(fact_store, (AsyncStore, TableMemoryStore))
        if fact_store is not None and (keyed or not has_methods(fact_store, "add_fact")):
            raise InvalidInputError(_NO_STORE)
        self._episodic, self._store, self._deadline_s = episodic, fact_store, deadline_s
        self._extractor: FactExtractor = extractor or KeywordFactExtractor()
        self._known: set[tuple[str, str]] = set()

    async def consolidate(self, *, min_episodes: int = 3, max_episodes: int = 50) -> ConsolidationResult:
        """Find what recurs in the newest episodes, of each readership by itself; of fewer than `min_episodes`, nothing does."""
        least, most = item_count(min_episodes, "min_episodes"), item_count(max_episodes, "max_episodes")
        if isinstance(self._episodic, (AsyncEpisodes, EpisodicMemory)):
            recent = await _result(self._episodic.by_readers(most))
        else:
            recent = [("", await _result(self._episodic.recall_recent(n=most)))]
        news, clusters = list[str](), 0
        for scope, episodes in recent:
            found = await self._find(episodes) if len(episodes) >= least else []
            clusters += len(found)
            for fact in found:
                if (scope, fact) in self._known:
                    continue
                if self._store is not None:
                    await _result(self._store.add_fact(person_of(scope) or "system", fact))
                self._known.add((scope, fact))
                news.append(fact)
        return ConsolidationResult(tuple(news), sum(len(episodes) for _, episodes in recent), clusters)

    async def _find(self, episodes: list[Episode]) -> list[str]:
        try:
            given = await asyncio.wait_for(_result(self._extractor.extract(episodes)), self._deadline_s)
            if type(self._extractor) is KeywordFactExtractor:
                return list(given)
            if isinstance(given, str):
                raise InvalidInputError("it returned a text and no list.")
            found, faults = await asyncio.to_thread(check_facts, given, episodes)
        except Exception as error:  # noqa: BLE001 - of anybody's extractor
            found, faults = [], [str(error) or type(error).__name__]
        if faults:
            _log.warning("An extractor's facts are not all used: %s", " ".join(faults[:3]))
        return found


async def _result(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
