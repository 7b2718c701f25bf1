"""Engrava's names: its store over a file or an open home, its records, enums, filters and errors, with its signatures.

from edgemem.aio.engrava import SqliteEngravaCore, ThoughtRecord, …       # instead of: from engrava import …

All of it is translation: the work is that of `memory.thoughts`. `docs/engrava.md` lists what differs from the package, and why.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from edgemem.aio.dreaming import (
    ConsolidationResult,
    DreamingConfig,
    DreamingExtension,
    DreamingGates,
    DreamingStore,
)
from edgemem.aio.memory import AsyncMemory
from edgemem.aio.providers import FileMemory
from edgemem.errors import (
    BusyError,
    DuplicateEdgeError,
    EdgememError,
    InvalidInputError,
    InvalidTransitionError,
    NewerSchemaError,
    ReadOnlyError,
    ThoughtNotFoundError,
)
from edgemem.memory.memory import Memory
from edgemem.memory.thoughts import CleanupResult
from edgemem.recall.people.hints import SOMEBODY_HERE
from edgemem.records import Reader
from edgemem.scopes import name_key, person_of
from edgemem.store.validation import checked_amount, checked_text, item_count, whole_number
from edgemem.thoughts import (
    EdgeRecord,
    EdgeType,
    KnowledgeSource,
    LifecycleStatus,
    Priority,
    ThoughtRecord,
    ThoughtType,
    ThoughtVisibility,
    named,
    utc,
)

EngravaError = EdgememError
InvalidFilterError = InvalidFilterPathError = InvalidInputError
InvalidRecencyArgumentError = RecencyModeConflictError = InvalidInputError
ReferentialIntegrityError = SourceThoughtNotFoundError = ThoughtNotFoundError
StaleDataError = WriteContentionError = WriteLockTimeoutError = BusyError
ReadOnlyViolationError = ReadOnlyError
SchemaVersionError = NewerSchemaError

__all__ = [
    "CleanupResult", "ConsolidationResult", "DreamingConfig", "DreamingExtension", "DreamingGates", "DuplicateEdgeError", "EdgeRecord", "EdgeType", "EngravaError", "FieldOp", "FieldPredicate",
    "HybridSearchResult", "InvalidFilterError", "InvalidFilterPathError", "InvalidRecencyArgumentError",
    "InvalidTransitionError", "KnowledgeSource", "LifecycleStatus", "MetadataFilter", "Priority", "ReadOnlyViolationError",
    "RecencyModeConflictError", "ReferentialIntegrityError", "SchemaVersionError", "SourceThoughtNotFoundError",
    "SqliteEngravaCore", "StaleDataError", "ThoughtNotFoundError", "ThoughtRecord", "ThoughtType", "ThoughtVisibility",
    "VisibilityQueryFilter", "WriteContentionError", "WriteLockTimeoutError",
]  # fmt: skip

Scalar = str | int | float | bool | None

_PATH = re.compile(r"\$(\.[A-Za-z0-9_]+)+")
_WIDER = 4  # times as many are looked for where some that were found do not pass

_log = logging.getLogger(__name__)


class FieldOp(Enum):
    """How a value of metadata is compared."""

    EQ = "EQ"
    IN = "IN"


@dataclass(frozen=True)
class FieldPredicate:
    """A condition on one value of metadata; IN takes a collection of values."""

    path: str
    op: FieldOp
    value: Scalar | Iterable[Scalar]

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not _PATH.fullmatch(self.path):
            raise InvalidInputError(
                f"A path of metadata is a text such as $.place.room, not {self.path!r:.60}."
            )
        if not isinstance(self.op, FieldOp):
            raise InvalidInputError(f"A filter compares with FieldOp.EQ or FieldOp.IN, not {self.op!r:.60}.")
        is_list = isinstance(self.value, Iterable) and not isinstance(self.value, (str, bytes))
        if is_list != (self.op is FieldOp.IN):
            raise InvalidInputError("FieldOp.EQ takes one value, and FieldOp.IN a collection of them.")
        if is_list:
            object.__setattr__(self, "value", tuple(self.value))  # type: ignore[arg-type]


@dataclass(frozen=True)
class MetadataFilter:
    """Conditions that all hold; none is no filter."""

    predicates: Sequence[FieldPredicate] = ()

    def __post_init__(self) -> None:
        given = self.predicates
        if not isinstance(given, Iterable) or not all(isinstance(one, FieldPredicate) for one in given):
            raise InvalidInputError("A MetadataFilter is made of FieldPredicates.")
        object.__setattr__(self, "predicates", tuple(given))

    def values(self) -> dict[str, list[Scalar]]:
        """Return the values that each path may have."""
        found: dict[str, list[Scalar]] = {}
        for one in self.predicates:
            given: list[Any] = [*one.value] if one.op is FieldOp.IN else [one.value]  # type: ignore[misc]
            seen = found.get(one.path)
            # True, 1 and 1.0 are equal in Python.
            both = given if seen is None else [value for value in given if repr(value) in map(repr, seen)]
            found[one.path] = both
        return found


@dataclass(frozen=True)
class VisibilityQueryFilter:
    """Whose and how visible thoughts are that may be found: some visibilities, or what one person alone may read."""

    allowed: Collection[str]
    owner: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.allowed, (str, bytes)) or not isinstance(self.allowed, Iterable):
            raise InvalidInputError("allowed is a collection such as {'public', 'selective'}.")
        if self.owner is not None:
            owner = checked_text(self.owner, "the owner")
            object.__setattr__(self, "owner", person_of(owner) or owner)
        object.__setattr__(
            self, "allowed", frozenset(named(ThoughtVisibility, value) for value in self.allowed)
        )
        if not self.allowed and self.owner is None:
            raise InvalidInputError("A filter without a visibility and an owner finds nothing; give one.")

    def reader(self) -> Reader:
        """Return somebody who may read all that it lets through; no search finds what is private."""
        if self.owner is not None:
            return Reader(self.owner)
        return SOMEBODY_HERE if ThoughtVisibility.SELECTIVE in self.allowed else Reader(None)

    def passes(self, thought: ThoughtRecord) -> bool:
        """Tell whether it lets a thought through."""
        if thought.owner is None:
            return thought.visibility in self.allowed
        return self.owner is not None and name_key(thought.owner) == name_key(self.owner)


@dataclass(frozen=True)
class HybridSearchResult:
    """Ids with the scores of `recall`, best first; by words, and by meaning where the home has a model for it."""

    results: list[tuple[str, float]]
    backends_used: frozenset[str] = frozenset()
    reflections_evicted: int = 0


class _OpenHome(FileMemory):
    """An open home in the place of a file; its owner closes it."""

    def __init__(self, home: Memory | AsyncMemory) -> None:
        super().__init__(None)
        self.providers = 1
        self._memory: Callable[[], Memory] = home._opened if isinstance(home, AsyncMemory) else lambda: home

    def opened(self) -> FileMemory:
        memory = self._memory()
        self.thoughts, self.database, self.learn = (
            memory.thoughts,
            memory.diagnostics.database,
            memory.learning.now,
        )
        self.backends = frozenset(("fts5", "vector")[: 2 if memory.diagnostics.embedder else 1])
        return self

    searched = opened


class SqliteEngravaCore(DreamingStore):
    """Engrava's store: over the file at a path, `":memory:"`, or an open `edgemem.Memory` or async memory.

    Its searches read as somebody of the household does: what is one person's own is found by a `VisibilityQueryFilter` with that
    owner, what is private by none. `get_thought`, `list_thoughts` and `count_thoughts` see everything.
    """

    def __init__(self, db: str | Path | Memory | AsyncMemory) -> None:
        file = _OpenHome(db) if isinstance(db, (Memory, AsyncMemory)) else FileMemory.shared(db)
        super().__init__(file, lambda file: file.searched().thoughts)
        self._has_warned = False

    async def ensure_schema(self) -> None:
        """Open the file, making it if there is none."""
        await self._worker.run("store", self._file.opened)

    async def list_edges(  # type: ignore[override]
        self,
        *,
        edge_type: EdgeType | None = None,
        source: KnowledgeSource | None = None,
        filters: MetadataFilter | None = None,
        limit: int = 5000,
    ) -> list[EdgeRecord]:
        """Return stored edges, the newest first."""
        return await super().list_edges(edge_type=edge_type, source=source, limit=limit, **_filters(filters))

    async def recall(
        self,
        query: str,
        *,
        top_k: int = 10,
        current_cycle: int | None = None,
        recency_now: str | None = None,
        recency_now_half_life: int | None = None,
        filters: MetadataFilter | None = None,
        visibility: VisibilityQueryFilter | None = None,
        collapse_key: str | Sequence[str] | None = None,
        collapse_max_per_unit: int | None = None,
        include_archived: bool = False,
    ) -> HybridSearchResult:
        """Return ids of thoughts, stored or shown, with their scores, best first; see `search_hybrid`."""
        return await self.search_hybrid(
            query,
            top_k=top_k,
            current_cycle=current_cycle,
            recency_now=recency_now,
            recency_now_half_life=recency_now_half_life,
            filters=filters,
            visibility=visibility,
            collapse_key=collapse_key,
            collapse_max_per_unit=collapse_max_per_unit,
            include_archived=include_archived,
        )

    async def search_hybrid(
        self,
        query_text: str,
        query_vector: list[float] | None = None,
        *,
        top_k: int = 10,
        fts_weight: float | None = None,
        vector_weight: float | None = None,
        recency_weight: float | None = None,
        recency_half_life: int | None = None,
        current_cycle: int | None = None,
        recency_now: str | None = None,
        recency_now_half_life: int | None = None,
        fts_top_k: int = 50,
        vector_top_k: int = 50,
        priority_weight: float | None = None,
        graph_weight: float | None = None,
        graph_edge_decay: float | None = None,
        include_reflections: bool = True,
        reflection_boost: float | None = None,
        filters: MetadataFilter | None = None,
        visibility: VisibilityQueryFilter | None = None,
        collapse_key: str | Sequence[str] | None = None,
        collapse_max_per_unit: int | None = None,
        include_archived: bool = False,
    ) -> HybridSearchResult:
        """Return ids of thoughts, stored or shown, with the scores of `recall`, best first.

        One ranking finds everything here: weights, half-lives, a vector and the sizes of pools are checked, and ignored, of which
        the first call that gives any warns.
        """
        weights = {
            "fts_weight": fts_weight, "vector_weight": vector_weight, "recency_weight": recency_weight,
            "priority_weight": priority_weight, "graph_weight": graph_weight, "graph_edge_decay": graph_edge_decay,
            "reflection_boost": reflection_boost, "recency_half_life": recency_half_life,
            "recency_now_half_life": recency_now_half_life,
        }  # fmt: skip
        if current_cycle is not None and recency_now is not None:
            raise InvalidInputError("Give current_cycle or recency_now, not both.")
        _check_signals(weights, query_vector, current_cycle, recency_now)
        item_count(fts_top_k, "fts_top_k")
        item_count(vector_top_k, "vector_top_k")
        given = query_vector is not None or any(value is not None for value in weights.values())
        if given and not self._has_warned:
            self._has_warned = True
            _log.warning("Weights, half-lives and vectors of a search are ignored: edgemem has one ranking.")
        if collapse_key is not None or collapse_max_per_unit is not None:
            raise InvalidInputError("Nothing is collapsed here: the same words are told once anyway.")
        how = {
            "top_k": top_k,
            "reflections": None if include_reflections else False,
            "include_archived": include_archived,
            **_filters(filters),
        }
        return await self._found(query_text, how, visibility)

    async def search_fts(
        self, query: str, top_k: int = 10, *, include_archived: bool = False
    ) -> list[tuple[str, float]]:
        """Return what `search_hybrid` finds: there is one search."""
        return (await self._found(query, {"top_k": top_k, "include_archived": include_archived})).results

    async def search_reflections_only(
        self,
        query_text: str,
        query_vector: list[float] | None = None,
        *,
        top_k: int = 10,
        current_cycle: int | None = None,
    ) -> HybridSearchResult:
        """Return reflections alone."""
        _check_signals({}, query_vector, current_cycle, None)
        return await self._found(query_text, {"top_k": top_k, "reflections": True})

    async def _found(
        self, query: str, how: Mapping[str, Any], visibility: VisibilityQueryFilter | None = None
    ) -> HybridSearchResult:
        """Search, and wider where some of what was found is not of a visibility that is asked for."""
        most = item_count(how["top_k"], "top_k")
        if not isinstance(visibility, (VisibilityQueryFilter, type(None))):
            raise InvalidInputError(
                f"visibility must be a VisibilityQueryFilter, not {type(visibility).__name__}."
            )

        def search() -> HybridSearchResult:
            thoughts, wide = self._of(), most
            reader = SOMEBODY_HERE if visibility is None else visibility.reader()
            while True:
                found = kept = thoughts.search(query, **{**how, "top_k": wide}, reader=reader)
                if visibility is not None:
                    records = [thoughts.get_thought(name) for name, _ in found]
                    pairs = zip(found, records, strict=True)
                    kept = [one for one, record in pairs if record and visibility.passes(record)]
                if len(kept) >= most or len(found) < wide:
                    return HybridSearchResult(kept[:most], self._file.backends)
                wide *= _WIDER

        return await self._worker.run("turn", search)


def _filters(filters: MetadataFilter | None) -> dict[str, Any]:
    """Return a filter as our search takes it; one without conditions is none."""
    if not isinstance(filters, (MetadataFilter, type(None))):
        raise InvalidInputError(f"filters must be a MetadataFilter, not {type(filters).__name__}.")
    return {"filters": filters.values()} if filters is not None and filters.predicates else {}


def _check_signals(
    weights: Mapping[str, float | None], vector: object, cycle: int | None, moment: str | None
) -> None:
    for name, value in weights.items():
        if value is not None and not checked_amount(value, name) and "half_life" in name:
            raise InvalidInputError(f"{name} must be more than 0.")
    if vector is not None and not isinstance(vector, Sequence):
        raise InvalidInputError(f"A vector is a list of numbers, not {type(vector).__name__}.")
    if cycle is not None:
        whole_number(cycle, "current_cycle")
    utc(moment, "recency_now")
