"""Listing: what a store has to say that no recall looks through, by the words of the utterance.

EdgeVox puts the newest of everything before the model. So does this, but what shares a word with the utterance, or
means something like it where the store can tell, comes first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from edgemem.context.block.delta import value_as_recalled
from edgemem.records import Episode, Fact, Preference, Reader, Recalled
from edgemem.store.own_records import as_ours
from edgemem.store.rights import readable

if TYPE_CHECKING:
    from edgemem.store.protocols import MemoryStore

_WORD = re.compile(r"\w{3,}")


class Listing:
    """Lists a store's facts, preferences and episodes; not thread-safe, it belongs to the loop's thread."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._version: tuple[int, ...] | None = None
        self._facts: list[Recalled] = []
        """The newest first, as of that version."""
        self._words: dict[str, frozenset[str]] = {}

    def look(
        self, utterance: str, reader: Reader | None, *, max_facts: int, max_episodes: int
    ) -> list[Recalled]:
        """Return at most so many facts and episodes that a reader may know, best first, and all preferences."""
        facts = self._near(utterance, reader, max_facts)
        there = {fact.id for fact in facts}
        facts += [fact for fact in self._by_words(utterance, reader) if fact.id not in there]
        wishes = [value_as_recalled(as_ours(one, Preference)) for one in self._store.preferences()]
        return [
            *facts[:max_facts],
            *(wish for wish in wishes if readable(reader, wish.level, wish.owner)),
            *(self._episodes(reader, max_episodes) if max_episodes > 0 else ()),
        ]

    def _near(self, utterance: str, reader: Reader | None, most: int) -> list[Recalled]:
        """Return what the store itself finds by words and meaning, if it can."""
        recall = getattr(self._store, "recall_facts", None)
        found: Sequence[Recalled] = recall(utterance, k=most, reader=reader) if recall is not None else ()
        # Their order is what counts: all are said that have room, as in EdgeVox.
        return [msgspec.structs.replace(fact, score=0.5) for fact in found]

    def _by_words(self, utterance: str, reader: Reader | None) -> list[Recalled]:
        """Return all facts that a reader may know: what shares most words with the utterance first, then the newest."""
        self.follow()
        asked = frozenset(_WORD.findall(utterance.lower()))
        known = [fact for fact in self._facts if readable(reader, fact.level, fact.owner)]
        known.sort(key=lambda fact: -len(asked & self._words[fact.text]))
        return known

    def follow(self) -> None:
        """Read the facts if any was written since, or the store cannot tell; what did not change keeps its words."""
        version = getattr(self._store, "facts_version", None)
        now = version() if version is not None else None
        if now is not None and now == self._version:
            return
        facts = [value_as_recalled(as_ours(fact, Fact)) for fact in self._store.facts()]
        self._facts = sorted(facts, key=lambda fact: -fact.recorded_at)
        before = self._words
        self._words = {
            fact.text: before.get(fact.text) or frozenset(_WORD.findall(fact.text.lower())) for fact in facts
        }
        self._version = now

    def _episodes(self, reader: Reader | None, most: int) -> list[Recalled]:
        told = [as_ours(one, Episode) for one in self._store.recent_episodes(most)]
        return [
            Recalled(
                "episode",
                f"{one.timestamp}",
                f"{one.kind} {one.payload.get('name', '')}: {one.outcome}",
                0.4,
                recorded_at=one.timestamp,
                level=one.level,
                owner=one.owner,
            )
            for one in told
            if readable(reader, one.level, one.owner)
        ]
