"""Edges: typed links between thoughts, those that are stored and those that other tables tell.

An end is the id of a stored thought, or `kind:id` of a record that is shown as one. An edge is read by whoever may read it and both
of its ends. What the tables tell needs no row: which doubt contests a fact, which value a fact took the place of, in which message it
was said, and which utterance a reply answers.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from edgemem.errors import DuplicateEdgeError, InvalidInputError, ThoughtNotFoundError
from edgemem.store.db.transaction import bound, in_batches, placeholders
from edgemem.store.kinds import SHOWN
from edgemem.store.rights import LEVELS, reading_rule, spell
from edgemem.store.turns import current_cycle, lift_cycle
from edgemem.store.validation import MOST, as_text
from edgemem.thoughts import EdgeRecord, pass_filters, seconds, traits_of, utc

if TYPE_CHECKING:
    from edgemem.records import Reader
    from edgemem.store.db.transaction import Tables, Transaction
    from edgemem.thoughts import Filters

Direction = Literal["BOTH", "IN", "OUT"]

_ID = re.compile(rf"({'|'.join(SHOWN)}):(\d{{1,18}})")
_COLUMNS = (
    "e.name, e.source_id, e.target_id, e.type, e.weight, e.created_cycle, e.source_type, e.valid_from, e.valid_to, e.metadata,"
    " e.level, e.owner"
)
_SHOWN_EDGES = """
  select source_kind, source_ref, target_kind, target_ref, type from shown_edges
    where source_kind = :kind and source_ref = :ref
  union select source_kind, source_ref, target_kind, target_ref, type from shown_edges
    where target_kind = :kind and target_ref = :ref and source_kind = 'turn'
  union select source_kind, source_ref, target_kind, target_ref, type from shown_edges
    where target_kind = :kind and target_ref = :ref and source_kind = 'fact'
      and source_ref between :begun and :end
"""
_BEGUN = "select t.recorded from messages m join turns t on t.session_id = m.session_id and t.n = m.turn where m.id = ?"
# A tool tells a fact while its turn is open: the bounds keep this from reading all facts.


def record_of(thought_id: str) -> tuple[str, int] | None:
    """Return kind and number of a record that is shown as a thought, by its id; None of any other id."""
    match = _ID.fullmatch(thought_id)
    return None if match is None else (match[1], int(match[2]))


def find_ends(
    db: Tables, ids: Collection[str], *, reader: Reader | None = None
) -> dict[str, tuple[int, str | None]]:
    """Return level and owner of those thoughts, stored or shown, that are there and that a reader may read."""
    numbers: dict[str, list[int]] = defaultdict(list)
    names = []
    for thought_id in ids:
        if (record := record_of(thought_id)) is None:
            names.append(thought_id)
        else:
            numbers[record[0]].append(record[1])
    ends: dict[str, tuple[int, str | None]] = {}
    rule, values = reading_rule(reader)
    for some in in_batches(names):
        sql = (
            f"select name, level, owner from stored_thoughts where name in ({placeholders(some)}) and {rule}"  # noqa: S608 - our own
        )
        ends |= {name: (level, owner) for name, level, owner in db.query(sql, {**bound(some), **values})}
    for kind, refs in numbers.items():
        for batch in in_batches(refs):
            rows = db.query(
                "select ref, level, owner from shown_thoughts"  # noqa: S608 - our own constants
                f" where kind = :kind and ref in ({placeholders(batch)}) and {rule}",
                {**bound(batch), **values, "kind": kind},
            )
            ends |= {f"{kind}:{ref}": (level, owner) for ref, level, owner in rows}
    return ends


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
    _write(tx, edge, level, owner)
    return read_edge(tx, edge.edge_id)


def change_edge(tx: Transaction, edge_id: str, changes: dict[str, Any]) -> EdgeRecord:
    """Change what an edge says; its id, its ends and its type stay."""
    before = read_edge(tx, edge_id)
    after = before.evolve(**changes)
    if _identity(after) != _identity(before):
        raise InvalidInputError(
            "An edge keeps its id, its ends and its type; delete it and store another one."
        )
    _write(tx, after, *_rights_of(tx, after))
    return read_edge(tx, edge_id)


def delete_edge(tx: Transaction, edge_id: str) -> bool:
    """Delete an edge; tell whether there was one."""
    tx.execute("delete from stored_edges where name = ?", (edge_id,))
    return tx.changes > 0


def read_edge(db: Tables, edge_id: str) -> EdgeRecord:
    """Return a stored edge; raise ThoughtNotFoundError where there is none."""
    rows = db.query(f"select {_COLUMNS} from stored_edges e where e.name = ?", (edge_id,))  # noqa: S608 - our own
    if not rows:
        raise ThoughtNotFoundError(f"There is no edge {edge_id!r:.80}.")
    return _edge_of(rows[0])


def edges_of(
    db: Tables, thought_id: str, *, direction: Direction = "BOTH", reader: Reader | None = None
) -> list[EdgeRecord]:
    """Return the edges at a thought that a reader may read, stored ones first, each in the order of writing."""
    rule, values = reading_rule(reader, "e.")
    rows = db.query(
        f"select {_COLUMNS} from stored_edges e where (e.source_id = :at or e.target_id = :at) and {rule} order by e.id",  # noqa: S608 - our own
        {"at": thought_id, **values},
    )
    edges = [*map(_edge_of, rows), *_derived(db, thought_id)]
    if direction not in ("BOTH", "IN", "OUT"):
        raise InvalidInputError(f"direction must be BOTH, IN or OUT, not {repr(direction)[:40]}.")
    chosen = [edge for edge in edges if direction == "BOTH" or _ends(edge)[direction == "IN"] == thought_id]
    return readable_edges(db, chosen, reader)


def list_edges(
    db: Tables, where: str, values: dict[str, Any], *, filters: Filters, limit: int, reader: Reader | None
) -> list[EdgeRecord]:
    """Return stored edges by a condition of ours and by their metadata, the newest first."""
    rule, more = reading_rule(reader, "e.")
    rows = db.query(
        f"select {_COLUMNS} from stored_edges e where {where} and {rule} order by e.id desc limit :limit",  # noqa: S608 - our own
        {**values, **more, "limit": -1 if filters else limit},
    )
    passing = (edge for edge in map(_edge_of, rows) if pass_filters(traits_of(edge.metadata), filters))
    return readable_edges(db, islice(passing, limit), reader)


def readable_edges(db: Tables, edges: Iterable[EdgeRecord], reader: Reader | None) -> list[EdgeRecord]:
    """Return those edges both ends of which are there, and are read by a reader."""
    edges = list(edges)
    there = find_ends(db, sorted({end for edge in edges for end in _ends(edge)}), reader=reader)
    return [edge for edge in edges if there.keys() >= set(_ends(edge))]


def _ends(edge: EdgeRecord) -> tuple[str, str]:
    return edge.from_thought_id, edge.to_thought_id


def _identity(edge: EdgeRecord) -> tuple[str, ...]:
    return edge.edge_id, *_ends(edge), edge.edge_type


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


def _rights_of(tx: Transaction, edge: EdgeRecord) -> tuple[int, str | None]:
    """Return level and owner of an edge that is at least as private as its ends; of two owners it is the operator's."""
    ends = find_ends(tx, _ends(edge))
    if (missing := next((end for end in _ends(edge) if end not in ends), None)) is not None:
        raise ThoughtNotFoundError(
            f"There is no thought {missing!r:.80} for an edge to end at; store it first."
        )
    rights = list(ends.values())
    if edge.level is not None:
        rights.append((LEVELS.index(edge.level), None if edge.owner is None else spell(tx, edge.owner)))
    level = max(number for number, _ in rights)
    owners = {owner for number, owner in rights if number == LEVELS.index("private")}
    return level, owners.pop() if len(owners) == 1 else None


def _write(tx: Transaction, edge: EdgeRecord, level: int, owner: str | None) -> None:
    tx.execute(
        "insert into stored_edges (id, name, source_id, target_id, type, weight, created_cycle, source_type, valid_from,"
        " valid_to, metadata, level, owner) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (name) do update set"
        " id = excluded.id, weight = excluded.weight, source_type = excluded.source_type, valid_from = excluded.valid_from,"
        " valid_to = excluded.valid_to, metadata = excluded.metadata, level = excluded.level, owner = excluded.owner",
        (
            tx.tick(), *_identity(edge)[:3], edge.edge_type, edge.weight, edge.created_cycle, edge.source,
            seconds(edge.valid_from), seconds(edge.valid_until), as_text(edge.metadata) if edge.metadata else None,
            level, owner,
        ),
    )  # fmt: skip


def _edge_of(row: tuple[Any, ...]) -> EdgeRecord:
    name, source_id, target_id, edge_type, weight, cycle, source, *times, metadata, level, owner = row
    return EdgeRecord(
        edge_id=name, from_thought_id=source_id, to_thought_id=target_id, edge_type=edge_type, weight=weight,
        created_cycle=cycle, source=source, valid_from=utc(times[0], "valid_from"),
        valid_until=utc(times[1], "valid_until"), metadata=msgspec.json.decode(metadata) if metadata else {},
        level=LEVELS[level], owner=owner,
    )  # fmt: skip
