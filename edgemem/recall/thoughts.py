"""Thoughts: what other tables remember, shown as thoughts without a row of their own; and the reasons for a thing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.fence import clean
from edgemem.store.db.transaction import bound, in_batches, placeholders
from edgemem.store.edges import edges_of, find_ends, record_of
from edgemem.store.rights import LEVELS
from edgemem.store.thoughts import Mark, find_thoughts, read_marks, visibility_of
from edgemem.thoughts import (
    ESSENCE_CHARS,
    EdgeRecord,
    EdgeType,
    LifecycleStatus,
    Priority,
    ThoughtRecord,
    utc,
)

if TYPE_CHECKING:
    from edgemem.records import Reader
    from edgemem.store.db.transaction import Tables

MOST_DEPTH = 2
"""Edges between two things that are still said to be related."""


class Reasons(NamedTuple):
    """Why something is remembered, as far as a reader may know it."""

    thought: ThoughtRecord
    said: tuple[ThoughtRecord, ...]
    """The messages in which it was said, oldest first."""
    before: tuple[ThoughtRecord, ...]
    """What it took the place of, or was made of."""
    contested: tuple[ThoughtRecord, ...]
    """Doubts about it."""


def read_thoughts(
    db: Tables, ids: Collection[str], *, reader: Reader | None = None
) -> dict[str, ThoughtRecord]:
    """Return those thoughts, stored or shown, that are there and that a reader may read."""
    ends = find_ends(db, ids, reader=reader)
    numbers: dict[str, dict[int, str]] = {}
    names = []
    for thought_id in ends:
        if (record := record_of(thought_id)) is None:
            names.append(thought_id)
        else:
            numbers.setdefault(record[0], {})[record[1]] = thought_id
    thoughts: dict[str, ThoughtRecord] = {}
    for some in in_batches(names):
        stored = find_thoughts(db, f"name in ({placeholders(some)})", bound(some))
        thoughts |= {thought.thought_id: thought for thought in stored}
    marks = read_marks(db, [name for refs in numbers.values() for name in refs.values()])
    for kind, refs in numbers.items():
        for batch in in_batches([*refs]):
            rows = db.query(
                f"select * from shown_thoughts where kind = :kind and ref in ({placeholders(batch)})",  # noqa: S608 - our own
                {**bound(batch), "kind": kind},
            )
            for row in rows:
                name = refs[row[1]]
                thoughts[name] = _thought(name, row, marks.get(name, Mark()), now=db.now())
    return thoughts


def read_thought(db: Tables, thought_id: str, *, reader: Reader | None = None) -> ThoughtRecord | None:
    """Return a thought, stored or shown; None: there is none that the reader may read. A fact has its confirmations."""
    thought = read_thoughts(db, [thought_id], reader=reader).get(thought_id)
    if thought is None or not thought_id.startswith("fact:"):
        return thought
    heard = _evidence(db, edges_of(db, thought_id, direction="OUT", reader=reader))
    return thought.evolve(confirmation_count=max(len(heard) - 1, 0))


def related(
    db: Tables, thought_id: str, *, depth: int = 1, reader: Reader | None = None
) -> list[tuple[int, EdgeRecord]]:
    """Return the edges within a depth of a thought, nearest first, each with its distance, as far as a reader may read them."""
    seen, at = {thought_id}, [thought_id]
    found: dict[str, tuple[int, EdgeRecord]] = {}
    for distance in range(1, min(depth, MOST_DEPTH) + 1):
        edges = [edge for end in at for edge in edges_of(db, end, reader=reader)]
        for edge in edges:
            found.setdefault(edge.edge_id, (distance, edge))
        ends = dict.fromkeys(end for edge in edges for end in (edge.from_thought_id, edge.to_thought_id))
        at = [end for end in ends if end not in seen]
        seen.update(at)
    return list(found.values())


def reasons_for(db: Tables, thought_id: str, *, reader: Reader | None = None) -> Reasons | None:
    """Return why a thought is remembered; None: there is none that the reader may read."""
    thought = read_thought(db, thought_id, reader=reader)
    if thought is None:
        return None
    edges = edges_of(db, thought_id, direction="OUT", reader=reader)
    ends: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    for edge in edges:
        end = edge.to_thought_id
        if edge.edge_type is EdgeType.CONTESTED_BY:
            ends[None].append(end)
        elif edge.edge_type in (EdgeType.DERIVED_FROM, EdgeType.CONSOLIDATED_FROM, EdgeType.MESSAGE_OF):
            ends[end.startswith("turn:")].append(end)
    thoughts = read_thoughts(db, [end for some in ends.values() for end in some], reader=reader)
    said, before, contested = (
        tuple(thoughts[end] for end in dict.fromkeys(ends[key])) for key in (True, False, None)
    )
    return Reasons(thought, tuple(sorted(said, key=lambda told: told.created_at or "")), before, contested)


def _evidence(db: Tables, edges: Collection[EdgeRecord]) -> set[tuple[Any, ...]]:
    """Return by whom, and in which session, the messages at the ends of some edges were said."""
    messages = [
        record[1]
        for edge in edges
        if edge.edge_type is EdgeType.DERIVED_FROM
        and (record := record_of(edge.to_thought_id))
        and record[0] == "turn"
    ]
    heard: set[tuple[Any, ...]] = set()
    for some in in_batches(messages):
        heard |= set(
            db.query(
                "select t.speaker, t.session_id from messages m join turns t on t.session_id = m.session_id and t.n = m.turn"  # noqa: S608 - our own
                f" where m.id in ({placeholders(some)})",
                bound(some),
            )
        )
    return heard


def _thought(name: str, row: Sequence[Any], mark: Mark, *, now: float) -> ThoughtRecord:
    _, ref, kind, lifecycle, content, source, cycle, confidence, valid_from, valid_to, level, owner = row
    if lifecycle == LifecycleStatus.ACTIVE and valid_to is not None and valid_to <= now:
        lifecycle = LifecycleStatus.DONE
    return ThoughtRecord(
        thought_id=name,
        thought_type=kind,
        essence=clean(content, max_chars=ESSENCE_CHARS) or "…",
        content=content,
        priority=mark.priority or Priority.P3,
        lifecycle_status=lifecycle,
        source=source or "edgemem",
        created_cycle=cycle,
        updated_cycle=cycle,
        confidence=confidence,
        visibility=visibility_of(LEVELS[level], owner),
        owner=owner if level == LEVELS.index("private") else None,
        created_at=utc(ref / 1e6, "created_at"),
        expires_at=mark.expires_at,
        valid_from=utc(valid_from, "valid_from"),
        valid_until=utc(valid_to, "valid_until"),
        metadata=mark.metadata,
        pinned=mark.pinned,
        aloud=mark.aloud,
    )
