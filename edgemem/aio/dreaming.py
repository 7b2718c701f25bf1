"""Dreaming, with Engrava's names: idle time's learning at once, and P1 for thoughts that are confirmed and used.

Its REFLECTIONs are those of `memory.learning`. A promotion is noted in the metadata of the thought, compares thoughts of one readership
alone, and never touches a priority that somebody set. All of it may be repeated: a second time in a cycle changes nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from typing_extensions import Self

from edgemem.aio.memory import AsyncThoughts
from edgemem.aio.providers import FileMemory, Provider
from edgemem.errors import InvalidInputError
from edgemem.learn.reflections import retire_orphans
from edgemem.memory.thoughts import Thoughts
from edgemem.store.thoughts import PROMOTED, change_thought, read_thoughts
from edgemem.store.validation import checked_amount, item_count
from edgemem.thoughts import EdgeType, Priority, ThoughtType

if TYPE_CHECKING:
    from edgemem.store.db.transaction import Transaction

_WEIGHTS: Mapping[str, float] = {
    "recency": 0.25, "staleness": 0.20, "confirmation": 0.20, "confidence": 0.15, "frequency": 0.20, "action_outcome": 0.15,
}  # fmt: skip
_SHARE = 20  # of so many stored thoughts of a readership, one may be P1 by promotion
_DECAY = 0.01  # of recency, a cycle
_OF_CYCLES, _POSITIVE = ("recency", "staleness"), ("schedule_every_n_cycles", "min_cluster_size")
# Each row ends with its signals, as Engrava has them; null: it has nothing to go by.
_THOUGHTS = f"""
  select level, owner, id, name, priority = 'P1', promoted, active, passes, passes and type = 'OBSERVATION' and (promoted or
    (priority = 'P3' and not noted)), max(:cycle - updated_cycle, 0), min((updated_cycle - created_cycle) / 100.0, 1),
    min(nullif(confirmations, 0) / 5.0, 1), confidence, min(nullif(accesses, 0) / 10.0, 1), (
      select avg(case when p.outcome in ('ok', 'success') then 1.0 when p.outcome in ('failed', 'failure') then 0.0 else 0.5 end)
      from stored_edges e join episodes p on p.id = cast(substr(e.target_id, 9) as integer)
      where e.source_id = t.name and e.target_id glob 'episode:*' and p.level = t.level and p.owner is t.owner)
  from (select *, lifecycle = 'ACTIVE' as active, ifnull(instr(metadata, '"{PROMOTED}":true'), 0) > 0 as promoted,
      ifnull(instr(metadata, '"{PROMOTED}":'), 0) > 0 as noted, :cycle - created_cycle >= :min_age_cycles
        and (:allow_zero_confirmation or confirmations >= :min_confirmations) as passes
    from stored_thoughts where ifnull(expires > :now, 1)) t
  order by id
"""  # noqa: S608 - our own constants
_MADE = """
  select t.name, count(*) from stored_thoughts t join stored_edges e on e.source_id = t.name and e.type = 'CONSOLIDATED_FROM'
  where t.type = 'REFLECTION' and t.source between 'learn:' and 'learn;' group by t.name
"""


class _Settings:
    """Settings of Engrava's that mean something here."""

    def __new__(cls, *_: object, **given: object) -> Self:
        """Make some; raise InvalidInputError for a name that is not there."""
        known: Mapping[str, Any] = cls.__dict__["__dataclass_fields__"]
        if unknown := sorted(given.keys() - known.keys()):
            raise InvalidInputError(
                f"{cls.__name__} has no {unknown[0]!r:.60}; it has {', '.join(known)}: see docs/engrava.md."
            )
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            default = type(self).__dict__.get(name)
            if isinstance(default, bool) and not isinstance(value, bool):
                raise InvalidInputError(f"{name} must be True or False, not {repr(value)[:40]}.")
            if type(default) is int and item_count(value, name) < (name in _POSITIVE):
                raise InvalidInputError(f"{name} must be 1 or more.")


@dataclass(frozen=True)
class DreamingGates(_Settings):
    """What a thought must have to be promoted, and a reflection to be counted."""

    min_age_cycles: int = 1
    min_confirmations: int = 2
    allow_zero_confirmation: bool = True
    """Whether `min_confirmations` is left aside."""
    min_cluster_size: int = 3
    """The members from which on a new reflection is counted; each learner has a bar of its own to make one."""


@dataclass(frozen=True)
class DreamingConfig(_Settings):
    """The schedule of dreaming, and the bar of a promotion."""

    enabled: bool = False
    schedule_every_n_cycles: int = 100
    promote_threshold: float = 0.7
    signals: Mapping[str, float] = field(default_factory=lambda: dict(_WEIGHTS))
    """The weight of each signal; one that no thought has anything for leaves its weight to the others."""
    gates: DreamingGates = field(default_factory=DreamingGates)

    def __post_init__(self) -> None:
        super().__post_init__()
        if checked_amount(self.promote_threshold, "promote_threshold") > 1:
            raise InvalidInputError("promote_threshold must be from 0 to 1.")
        if not isinstance(self.gates, DreamingGates):
            raise InvalidInputError(f"gates must be DreamingGates, not {type(self.gates).__name__}.")
        if not isinstance(self.signals, Mapping) or not _WEIGHTS.keys() >= self.signals.keys():
            raise InvalidInputError(f"signals must be a dict of weights by some of {', '.join(_WEIGHTS)}.")
        for name, weight in self.signals.items():
            checked_amount(weight, f"the weight of {name}")


@dataclass(frozen=True)
class ConsolidationResult:
    """What came of one consolidation."""

    candidates_evaluated: int
    promoted_count: int
    promoted_ids: list[str] = field(default_factory=list)
    skipped_gate_count: int = 0
    scores: dict[str, float] = field(default_factory=dict)
    edges_created: int = 0
    """Those of new reflections to their members."""
    reflections_created: int = 0
    promotion_capped: bool = False
    p1_fraction_after: float = 0.0
    orphans_retired: int = 0
    active_signal_weights: dict[str, float] = field(default_factory=dict)
    """Of the readership with the most thoughts: each is scored by itself."""
    flat_signals: list[str] = field(default_factory=list)


class DreamingExtension:
    """Consolidates a store, at once or when its cycle is due."""

    def __init__(self, config: DreamingConfig) -> None:
        if not isinstance(config, DreamingConfig):
            raise InvalidInputError(f"config must be a DreamingConfig, not {type(config).__name__}.")
        self.config = config

    def is_due(self, current_cycle: int) -> bool:
        """Tell whether it is enabled, and a cycle is a multiple of the schedule's."""
        cycle = item_count(current_cycle, "current_cycle")
        return self.config.enabled and cycle > 0 and cycle % self.config.schedule_every_n_cycles == 0

    async def run_if_due(self, store: DreamingStore, current_cycle: int) -> ConsolidationResult | None:
        """Consolidate where a cycle is due; None where it is not."""
        return await self.run_consolidation(store, current_cycle) if self.is_due(current_cycle) else None

    async def run_consolidation(self, store: DreamingStore, current_cycle: int) -> ConsolidationResult:
        """Learn what there is, promote thoughts that are confirmed and used, and retire reflections of nothing that is active."""
        cycle = item_count(current_cycle, "current_cycle")
        return await store._worker.run("long", lambda: _consolidate(store._file, self.config, cycle))


class DreamingStore(Provider[Thoughts], AsyncThoughts):
    """What dreaming does to a store."""

    _dreaming = DreamingExtension(DreamingConfig())

    def attach_dreaming_extension(self, extension: DreamingExtension) -> None:
        """Have `consolidate` go by other settings than the defaults."""
        self._dreaming = extension

    async def consolidate(self, *, current_cycle: int | None = None) -> ConsolidationResult:
        """Consolidate now, whether it is due or not; without a cycle, as of the counter's."""
        cycle = await self.max_cycle() if current_cycle is None else current_cycle
        return await self._dreaming.run_consolidation(self, cycle)

    async def retire_orphan_reflections(self) -> int:
        """Retire reflections none of whose members is active, but for pinned ones and P1; return how many."""
        return await self._worker.run("long", lambda: retire_orphans(self._file.opened().database))

    async def consolidated_member_ids(self, reflection_id: str) -> list[str]:
        """Return the ids of what a reflection was made of."""
        edges = await self.get_edges(reflection_id, direction="OUT")
        return [edge.to_thought_id for edge in edges if edge.edge_type is EdgeType.CONSOLIDATED_FROM]

    async def reflections_consolidated_from(self, source_id: str) -> list[str]:
        """Return the ids of reflections that were made of something."""
        edges = await self.get_edges(source_id, direction="IN")
        ends = [edge.from_thought_id for edge in edges if edge.edge_type is EdgeType.CONSOLIDATED_FROM]
        found = [await self.get_thought(end) for end in ends]
        return [one.thought_id for one in found if one and one.thought_type is ThoughtType.REFLECTION]


class _Row(NamedTuple):
    level: int
    owner: str | None
    id: int
    name: str
    is_first: bool
    """Whether it is P1,"""
    is_promoted: bool
    """by promotion."""
    is_active: bool
    passes_gates: bool
    may_be_first: bool
    """Whether it passes, is an observation, and nobody has set its priority: P3 is what nobody set."""
    signals: dict[str, float | None]

    def score(self, weights: Mapping[str, float]) -> float:
        """Return the weighted sum of its signals."""
        values = {**self.signals, "confidence": 0.5} if self.signals["confidence"] is None else self.signals
        return sum(weight * (values[name] or 0.0) for name, weight in weights.items())


def _weights(rows: list[_Row], given: Mapping[str, float]) -> dict[str, float]:
    """Return the weights of signals, of 1 in all, without those that no thought has anything for."""
    known = {
        name for name in given if name in _OF_CYCLES or any(row.signals[name] is not None for row in rows)
    }
    whole = sum(given[name] for name in known) or 1.0
    return {name: given[name] / whole * (name in known) for name in given}


def _consolidate(file: FileMemory, config: DreamingConfig, cycle: int) -> ConsolidationResult:
    database = file.opened().database
    before = dict(database.query(_MADE))
    file.learn(lambda: file.worker.closed)
    new = [count for name, count in database.query(_MADE) if name not in before]
    retired = retire_orphans(database)
    rows, homes = list[_Row](), defaultdict[tuple[int, str | None], list[_Row]](list)
    values = {"now": database.now(), "cycle": cycle, **asdict(config.gates)}
    for cells in database.query(_THOUGHTS, values):
        *more, age = cells[: -len(_WEIGHTS) + 1]
        signals = (math.exp(-_DECAY * age), *cells[-len(_WEIGHTS) + 1 :])
        rows.append(_Row._make((*more, dict(zip(_WEIGHTS, signals, strict=True)))))
        homes[rows[-1].level, rows[-1].owner].append(rows[-1])
    scores, told, changes, is_capped = dict[str, float](), dict[str, float](), list[_Row](), False
    for some in sorted(homes.values(), key=len):
        active = [row for row in some if row.is_active]
        told = _weights(active, config.signals)
        scores |= {row.name: row.score(told) for row in active}
        passing = [
            row
            for row in active
            if row.may_be_first and (row.is_promoted or scores[row.name] > config.promote_threshold)
        ]
        # A promoted one keeps its place until a better one needs it.
        passing.sort(key=lambda row: (-scores[row.name], not row.is_promoted, row.name))
        chosen = {row.name for row in passing[: len(some) // _SHARE]}
        is_capped |= len(passing) > len(chosen)
        changes += [row for row in some if row.is_promoted != (row.name in chosen)]
    done = database.write(partial(_promote, rows=changes)) if changes else []
    promoted = [row.name for row in done if not row.is_promoted]
    first = sum(row.is_first for row in rows) + 2 * len(promoted) - len(done)
    return ConsolidationResult(
        candidates_evaluated=len(scores),
        promoted_count=len(promoted),
        promoted_ids=promoted,
        skipped_gate_count=sum(row.is_active and not row.passes_gates for row in rows),
        scores=scores,
        edges_created=sum(new),
        reflections_created=sum(count >= config.gates.min_cluster_size for count in new),
        promotion_capped=is_capped,
        p1_fraction_after=first / max(1, len(rows)),
        orphans_retired=retired,
        active_signal_weights=told,
        flat_signals=sorted(name for name, weight in told.items() if not weight),
    )


def _promote(tx: Transaction, rows: list[_Row]) -> list[_Row]:
    """Promote thoughts, or take their promotion back, unless they have changed meanwhile; return those that were written."""
    done = []
    for row in rows:
        thought = read_thoughts(tx, [row.name]).get(row.name)
        if thought is None or not tx.query("select 1 from stored_thoughts where id = ?", (row.id,)):
            continue
        metadata = {name: value for name, value in thought.metadata.items() if name != PROMOTED}
        if not row.is_promoted:
            metadata[PROMOTED] = True
        with suppress(InvalidInputError):  # metadata that has no room for the note
            priority = Priority.P3 if row.is_promoted else Priority.P1
            # Its cycle stays, or it would seem to be newer.
            stay = {"updated_cycle": thought.updated_cycle}
            change_thought(tx, row.name, {"priority": priority, "metadata": metadata, **stay})
            done.append(row)
    return done
