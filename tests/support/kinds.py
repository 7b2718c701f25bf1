"""Rows of kinds, made from what their declarations say: a kind that is added later is among them."""

from typing import Any

from edgemem.store.db.transaction import Transaction
from edgemem.store.declaration import Kind
from edgemem.store.kinds import KINDS

_ZERO: dict[str, Any] = {"integer": 1, "real": 0.0, "text": "x", "blob": b""}


def sample_row(kind: Kind, /, **given: Any) -> dict[str, Any]:
    """Return the values of a row that holds no more than it must, and what is given."""
    row: dict[str, Any] = {}
    for column in kind.columns:
        if "primary key" in column.sql or ("not null" in column.sql and "default" not in column.sql):
            row[column.name] = "{}" if column.role == "json" else _ZERO[column.sql.split()[0]]
    return {**row, **given}


def add_row(tx: Transaction, kind: Kind, /, **given: Any) -> dict[str, Any]:
    """Write such a row, with the rows that it belongs to."""
    parent = next((other for other in KINDS if kind.parent and other.table == kind.parent.table), None)
    for above in (parent, _turns() if "turn" in kind.names and parent else None):
        if above is not None:
            row = sample_row(above)
            marks = ", ".join(f":{name}" for name in row)
            tx.execute(f"insert or ignore into {above.table} ({', '.join(row)}) values ({marks})", row)
    row = sample_row(kind, **given)
    marks = ", ".join(f":{name}" for name in row)
    tx.execute(f"insert or replace into {kind.table} ({', '.join(row)}) values ({marks})", row)
    return row


def _turns() -> Kind:
    return next(kind for kind in KINDS if kind.table == "turns")
