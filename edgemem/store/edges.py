"""Edges: typed links between thoughts, those that are stored and those that other tables tell; and the reasons for a thing.

An end is the id of a stored thought, or `kind:id` of a record that is shown as one. An edge is read by whoever may read it and both
of its ends. What the tables tell needs no row: which doubt contests a fact, which value a fact took the place of, in which message it
was said, which utterance a reply answers, and which things one reflection was made of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from edgemem.errors import DuplicateEdgeError, InvalidInputError, ThoughtNotFoundError
from edgemem.store.db.transaction import bound, in_batches, placeholders
from edgemem.store.graph import STORED_EDGES, fields_of, put_row
from edgemem.store.rights import LEVELS, reading_rule, spell
from edgemem.store.thoughts import find_rows, read_thoughts, record_of
from edgemem.store.turns import current_cycle, lift_cycle
from edgemem.store.validation import MOST
from edgemem.thoughts import EdgeRecord, EdgeType, KnowledgeSource, ThoughtRecord, pass_filters, traits_of

if TYPE_CHECKING:
    from edgemem.records import Reader
    from edgemem.store.db.transaction import Tables, Transaction
    from edgemem.thoughts import Filters

Direction = Literal["BOTH", "IN", "OUT"]

MOST_DEPTH = 2
"""Edges between two things that are still said to be related."""

_ROW = ", ".join(STORED_EDGES.names)
_SHOWN_EDGES = """
  select source_kind, source_ref, target_kind, target_ref, type from shown_edges
    where source_kind = :kind and source_ref = :ref
  union select source_kind, source_ref, target_kind, target_ref, type from shown_edges
    where target_kind = :kind and target_ref = :ref and source_kind = 'turn'
  union select source_kind, source_ref, target_kind, target_ref, type from shown_edges
    where target_kind = :kind and target_ref = :ref and source_kind = 'fact'
      and source_ref between :begun and :end
"""
_MEMBERS_BESIDE = """
  select distinct b.target_id from stored_edges a join stored_thoughts r on r.name = a.source_id and r.type = 'REFLECTION'
    join stored_edges b on b.source_id = a.source_id and b.type = 'CONSOLIDATED_FROM' and b.target_id <> :at
  where a.target_id = :at and a.type = 'CONSOLIDATED_FROM' and a.source_type = 'DREAMING' and {rule} order by b.target_id
"""
_BEGUN = "select t.recorded from messages m join turns t on t.session_id = m.session_id and t.n = m.turn where m.id = ?"
# A tool tells a fact while its turn is open: the bounds keep this from reading all facts.


class Reasons(NamedTuple):
    """Why something is remembered, as far as a reader may know it."""

    thought: ThoughtRecord
    said: tuple[ThoughtRecord, ...]
    """The messages in which it was said, oldest first."""
    before: tuple[ThoughtRecord, ...]
    """What it took the place of, or was made of."""
    contested: tuple[ThoughtRecord, ...]
    """Doubts about it."""


def put_edge(tx: Transaction, edge: EdgeRecord) -> EdgeRecord:
    """Store a new edge and return it as it is stored: at least as private as its ends.

    Raises:
        ThoughtNotFoundError: an end is not there.
        DuplicateEdgeError: there is one of this type, or of this id.
    """
    level, owner = _rights_of(tx, edge)
    taken = tx.execute(
        "select name from stored_edges where name = ? or (source_id = ? and target_id = ? and type = ?)",
        (edge.edge_id, edge.from_thought_id, edge.to_thought_id, edge.edge_type),
    )
    if taken:
        raise DuplicateEdgeError(
            f"There is an edge {taken[0][0]!r:.80} of this id, or of type {edge.edge_type} between these two, already;"
            " update that one."
        )
    if edge.created_cycle > current_cycle(tx):
        lift_cycle(tx, edge.created_cycle)
    put_row(tx, STORED_EDGES, edge, level=level, owner=owner)
    return read_edge(tx, edge.edge_id)


def change_edge(tx: Transaction, edge_id: str, changes: dict[str, Any]) -> EdgeRecord:
    """Change what an edge says; its id, its ends and its type stay."""
    before = read_edge(tx, edge_id)
    after = before.evolve(**changes)
    if _identity(after) != _identity(before):
        raise InvalidInputError(
            "An edge keeps its id, its ends and its type; delete it and store another one."
        )
    level, owner = _rights_of(tx, after)
    put_row(tx, STORED_EDGES, after, level=level, owner=owner)
    return read_edge(tx, edge_id)


def delete_edge(tx: Transaction, edge_id: str) -> bool:
    """Delete an edge; tell whether there was one."""
    tx.execute("delete from stored_edges where name = ?", (edge_id,))
    return tx.changes > 0


def read_edge(db: Tables, edge_id: str) -> EdgeRecord:
    """Return a stored edge; raise ThoughtNotFoundError where there is none."""
    rows = db.query(f"select {_ROW} from stored_edges where name = ?", (edge_id,))  # noqa: S608 - our own
    if not rows:
        raise ThoughtNotFoundError(f"There is no edge {edge_id!r:.80}.")
    return _edge_of(rows[0])


def edges_of(
    db: Tables, thought_id: str, *, direction: Direction = "BOTH", reader: Reader | None = None
) -> list[EdgeRecord]:
    """Return the edges at a thought that a reader may read, stored ones first, each in the order of writing."""
    rule, values = reading_rule(reader)
    rows = db.query(
        f"select {_ROW} from stored_edges where (source_id = :at or target_id = :at) and {rule} order by id",  # noqa: S608 - our own
        {"at": thought_id, **values},
    )
    edges = [*map(_edge_of, rows), *_derived(db, thought_id), *_associated(db, thought_id, reader)]
    if direction not in ("BOTH", "IN", "OUT"):
        raise InvalidInputError(f"direction must be BOTH, IN or OUT, not {repr(direction)[:40]}.")
    chosen = [edge for edge in edges if direction == "BOTH" or edge.ends[direction == "IN"] == thought_id]
    return readable_edges(db, chosen, reader)


def list_edges(
    db: Tables, where: str, values: dict[str, Any], *, filters: Filters, limit: int, reader: Reader | None
) -> list[EdgeRecord]:
    """Return stored edges by a condition of ours and by their metadata, the newest first."""
    rule, more = reading_rule(reader)
    rows = db.query(
        f"select {_ROW} from stored_edges where {where} and {rule} order by id desc limit :limit",  # noqa: S608 - our own
        {**values, **more, "limit": -1 if filters else limit},
    )
    passing = (edge for edge in map(_edge_of, rows) if pass_filters(traits_of(edge.metadata), filters))
    return readable_edges(db, islice(passing, limit), reader)


def readable_edges(db: Tables, edges: Iterable[EdgeRecord], reader: Reader | None) -> list[EdgeRecord]:
    """Return those edges both ends of which are there, and are read by a reader."""
    edges = list(edges)
    there = find_rows(db, sorted({end for edge in edges for end in edge.ends}), reader=reader)
    return [edge for edge in edges if there.keys() >= set(edge.ends)]


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
        ends = dict.fromkeys(end for edge in edges for end in edge.ends)
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


def _identity(edge: EdgeRecord) -> tuple[str, ...]:
    return edge.edge_id, *edge.ends, edge.edge_type


def _derived(db: Tables, thought_id: str) -> list[EdgeRecord]:
    """Return the edges that other tables tell of a record."""
    if (record := record_of(thought_id)) is None:
        return []
    kind, ref = record
    begun = db.query(_BEGUN, (ref,)) if kind == "turn" else []
    bounds = {"begun": begun[0][0], "end": ref} if begun else {"begun": 0, "end": MOST}
    rows = db.query(_SHOWN_EDGES, {"kind": kind, "ref": ref, **bounds})
    return [
        EdgeRecord(
            edge_id=f"{source}:{number}>{target}:{other}",
            from_thought_id=f"{source}:{number}",
            to_thought_id=f"{target}:{other}",
            edge_type=edge_type,
        )
        for source, number, target, other, edge_type in rows
        if other is not None
    ]


def _associated(db: Tables, thought_id: str, reader: Reader | None) -> list[EdgeRecord]:
    """Return an edge to each thing that learning has told of in one sentence with this."""
    rule, values = reading_rule(reader, "a.")
    pairs = [
        sorted((thought_id, other))
        for (other,) in db.query(_MEMBERS_BESIDE.format(rule=rule), {"at": thought_id, **values})
    ]
    return [
        EdgeRecord(
            edge_id=f"{first}~{second}",
            from_thought_id=first,
            to_thought_id=second,
            edge_type=EdgeType.ASSOCIATED,
            source=KnowledgeSource.DREAMING,
        )
        for first, second in pairs
    ]


def _rights_of(tx: Transaction, edge: EdgeRecord) -> tuple[int, str | None]:
    """Return level and owner of an edge that is at least as private as its ends; of two owners it is the operator's."""
    ends = find_rows(tx, edge.ends)
    if (missing := next((end for end in edge.ends if end not in ends), None)) is not None:
        raise ThoughtNotFoundError(
            f"There is no thought {missing!r:.80} for an edge to end at; store it first."
        )
    rights = [(row["level"], row["owner"]) for row in ends.values()]
    if edge.level is not None:
        rights.append((LEVELS.index(edge.level), None if edge.owner is None else spell(tx, edge.owner)))
    level = max(number for number, _ in rights)
    owners = {owner for number, owner in rights if number == LEVELS.index("private")}
    return level, owners.pop() if len(owners) == 1 else None


def _edge_of(values: tuple[Any, ...]) -> EdgeRecord:
    row = dict(zip(STORED_EDGES.names, values, strict=True))
    return EdgeRecord(**fields_of(STORED_EDGES, row), level=LEVELS[row["level"]], owner=row["owner"])
