"""Truth on disk: one database, and the stores on top of it."""

from __future__ import annotations

from edgemem.store.db.database import Database
from edgemem.store.db.transaction import Transaction
from edgemem.store.kinds import open_truth
from edgemem.store.memory_store import SQLiteMemoryStore
from edgemem.store.protocols import MemoryStore, SessionStore

__all__ = ["Database", "MemoryStore", "SQLiteMemoryStore", "SessionStore", "Transaction", "open_truth"]
