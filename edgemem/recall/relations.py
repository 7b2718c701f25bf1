"""Relations: what a fact says of its subject, without the subject.

"What does Helene do for a living?" is near to every fact about Helene, because her name is most of what such a
sentence means to an embedder. The question without her name, compared with the relations alone (`job`, `shoe size`,
`lent to`), tells which of them is asked for. Measured on 300 questions of `edgemem.bench.corpus` among 10,000 facts:
the fact that answers comes first in .80 of them instead of .64, and is among the first five in .97 instead of .90.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.recall.sources import bound, in_batches, marks

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.store.database import Database, Transaction

    Vector = NDArray[np.float32]


def note_relations(tx: Transaction, relations: Collection[str]) -> None:
    """Have relations wait for a vector, if they are new."""
    tx.executemany(
        "insert or ignore into relations (relation) values (?)", [(relation,) for relation in relations]
    )


def waiting_relations(database: Database, limit: int) -> list[str]:
    """Return some relations that have no vector yet."""
    rows = database.query("select relation from relations where vector is null limit ?", (limit,))
    return [relation for (relation,) in rows]


def keep_relations(tx: Transaction, relations: Sequence[str], made: Sequence[Vector]) -> None:
    """Store the vectors of relations, unless they were dropped meanwhile."""
    tx.executemany(
        "update relations set vector = ? where relation = ?",
        [
            (vector.astype("float16").tobytes(), relation)
            for relation, vector in zip(relations, made, strict=True)
        ],
    )


def clear_relations(tx: Transaction) -> None:
    """Have all relations wait for a vector of another model."""
    tx.execute("update relations set vector = null")


def drop_unused(tx: Transaction) -> None:
    """Leave no trace of relations that no fact has any more."""
    tx.execute(
        "delete from relations where relation not in (select relation from docs where relation is not null)"
    )


def relation_cosines(database: Database, query: Vector, relations: Collection[str]) -> dict[str, float]:
    """Return how near a question without its subject is to those relations that have a vector."""
    import numpy as np

    found: dict[str, float] = {}
    for some in in_batches(sorted(relations)):
        rows = database.query(
            f"select relation, vector from relations where relation in ({marks(some)})"  # noqa: S608 - ours
            " and length(vector) = :bytes",
            {**bound(some), "bytes": 2 * len(query)},
        )
        if rows:
            matrix = np.frombuffer(b"".join(row[1] for row in rows), np.float16).reshape(len(rows), -1)
            cosines = matrix.astype(np.float32) @ query
            found.update((row[0], float(cosine)) for row, cosine in zip(rows, cosines, strict=True))
    return found
