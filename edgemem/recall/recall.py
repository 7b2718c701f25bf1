"""Recall: what is remembered about something, best first."""

from __future__ import annotations

import threading
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING

import msgspec

from edgemem.clock import Clock
from edgemem.config import RecallSettings
from edgemem.errors import ClosedError, StoreError
from edgemem.recall.candidates import Filter, make_filter
from edgemem.recall.found import fetch
from edgemem.recall.fusion import Weights
from edgemem.recall.linear import shipped_models
from edgemem.recall.search import Limits, RecallStats, Search
from edgemem.recall.sources import KINDS
from edgemem.recall.tail import Tail

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.llama.protocols import Embedder
    from edgemem.recall.index import Index
    from edgemem.recall.scoring import Hit, Ranking
    from edgemem.records import Kind, Reader, Recalled
    from edgemem.store.database import Database
    from edgemem.store.notes import NotesFile

_SPARE = 4  # read beyond k at once, since something may have vanished since it was indexed


class Recall:
    """Finds facts, episodes, messages and notes; safe to use from several threads.

    Args:
        truth: what is remembered; every result is read from there.
        index: what makes it quick; recall works without its help, too.
        embedder: for meaning; None: words only.
        notes: the file whose lines are recalled.
        settings: how much of everything.
    """

    def __init__(
        self,
        truth: Database,
        index: Index,
        *,
        embedder: Embedder | None = None,
        notes: NotesFile | None = None,
        clock: Clock | None = None,
        settings: RecallSettings | None = None,
    ) -> None:
        self._truth = truth
        self._index = index
        self._embedder = embedder
        self._notes = notes
        self._clock = clock or truth.clock
        self.use(settings or RecallSettings())
        self._tail = Tail(truth, index, notes)
        self._tail_lock = threading.Lock()
        self.last = RecallStats()
        """How the newest recall of any thread went."""

    def use(self, settings: RecallSettings) -> None:
        """Go on with other settings."""
        self._settings = settings
        self._weights = Weights(
            words=settings.words_weight,
            meaning=settings.meaning_weight,
        )

    def adopt(self, embedder: Embedder) -> None:
        """Find by meaning from now on, with an embedder that the index has adopted."""
        self._embedder = embedder

    def pending(self) -> dict[str, int]:
        """Return how many rows and docs wait for idle time."""
        return self._index.pending()

    def recall(
        self,
        query: str,
        *,
        reader: Reader | None,
        k: int = 5,
        kinds: Collection[Kind] | None = None,
        apart: Sequence[Collection[Kind]] = (),
        min_score: float = 0.0,
        deadline_s: float | None = None,
        exclude: Collection[str] = (),
        known: Collection[str] = (),
        skip_turns: tuple[str, Collection[int]] | None = None,
        names: Collection[str] = (),
        called: Mapping[str, str] | None = None,
        include_past: bool = False,
    ) -> list[Recalled]:
        """Return at most k items, best first; with `apart`, at most k of each group, group after group.

        Args:
            query: anything that somebody said or asked.
            reader: who is going to hear it; None is the operator, who reads everything.
            kinds: only these.
            apart: groups of kinds that compete only among themselves: turns are many, and would leave facts no place.
            min_score: only what reaches this, 0 to 1.
            deadline_s: answer after this many seconds with what there is; None: take the time it needs.
            exclude: items to leave out, as `kind:id`.
            known: items that the reader has before them: they are returned, and take nobody's place among the k.
            skip_turns: a session, and turns of it that the reader's prompt holds anyway.
            names: further names of people who speak here.
            called: the same, with the speaker that each name means.
            include_past: also facts that do not hold any more.
        """
        begin = monotonic()
        limits = Limits(
            candidates=self._settings.candidates,
            embed_s=self._settings.query_embed_ms / 1e3,
            deadline=None if deadline_s is None else begin + deadline_s,
        )
        session, turns = skip_turns or ("", ())
        allowed = make_filter(
            reader, kinds=kinds, session_id=self._session_id(session), turns=turns, past=include_past
        )
        people = {**{name: name for name in names}, **(called or {})}
        try:
            search, ranking = self._search(query, reader, people, allowed, limits)
        except (StoreError, ClosedError) as error:
            # The index is made again, and no reply waits for that; if the truth is broken, it raises once more.
            search, ranking = self._search(query, reader, people, allowed, limits, indexed=False)
            self._index.blame(error)
        unwanted = frozenset(exclude)
        found = []
        for group in apart or (KINDS.values(),):
            hits = ranking.best([kind for kind, name in KINDS.items() if name in group], least=min_score)
            if unwanted:
                hits = (hit for hit in hits if hit.name not in unwanted)
            found += self._fetch(ranking, hits, reader, k, known=known, past=include_past)
        self.last = RecallStats(
            embed_ms=search.embed_s * 1e3,
            search_ms=(monotonic() - begin - search.embed_s) * 1e3,
            signals=search.signals,
            late=search.late,
            candidates=len(ranking),
        )
        return found

    def signals_of(
        self, query: str, *, reader: Reader | None
    ) -> tuple[list[str], NDArray[np.float32], float]:
        """Return the ids of the messages that were considered for a question, their signals, and `View.known`."""
        allowed = make_filter(reader, kinds={"turn"})
        limits = Limits(candidates=self._settings.candidates)
        _, ranking = self._search(query, reader, {}, allowed, limits)
        return list(map(str, ranking.refs[: ranking.turns].tolist())), ranking.signals, ranking.known

    def _search(
        self,
        query: str,
        reader: Reader | None,
        names: Mapping[str, str],
        allowed: Filter,
        limits: Limits,
        *,
        indexed: bool = True,
    ) -> tuple[Search, Ranking]:
        with self._tail_lock:
            # Read here: who has an older one than the tail would take the same text from both.
            state = self._index.state() if indexed else None
            search = Search(
                self._index,
                state,
                self._embedder,
                allowed,
                limits,
                self._weights,
                shipped_models(),
                now=self._clock.now(),
            )
            self._tail.refresh(state)
            question, view = search.look_up_words(
                query, self._tail, names=names, reader=reader.speaker if reader else None
            )
        return search, search.run(question, view)

    def _session_id(self, session: str) -> int | None:
        if not session:
            return None
        rows = self._truth.query("select id from sessions where name = ?", (session,))
        return rows[0][0] if rows else None

    def _fetch(
        self,
        ranking: Ranking,
        hits: Iterator[Hit],
        reader: Reader | None,
        k: int,
        *,
        known: Collection[str],
        past: bool,
    ) -> list[Recalled]:
        """Read the best from the truth, and go on to the next ones where something is gone."""
        found: list[Recalled] = []
        left = k
        now = self._clock.now()
        while left > 0 and (some := list(islice(hits, k + _SPARE))):
            refs = [(hit.kind, hit.ref) for hit in some]
            there = fetch(self._truth, self._notes, refs, reader=reader, now=now, include_past=past)
            for hit in some:
                item = there.get((hit.kind, hit.ref))
                if item is not None and left > 0:
                    left -= hit.name not in known
                    found.append(msgspec.structs.replace(item, score=hit.score, why=ranking.why(hit)))
        return found
