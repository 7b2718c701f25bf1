"""Everything that edgemem has, open at once: what `bench footprint` and `bench turn` measure a second time.

Beside a memory with its default hooks: its watcher, a SQLite, a JSON and a vector store and two session stores in files
of their own, the audit log, truncation of tool output, tool retry, timing, the turn log in a file, and all memory tools.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from edgemem.errors import EdgememError
from edgemem.hooks.audit_log import AuditLogHook
from edgemem.hooks.points import Hook
from edgemem.hooks.tool_output import ToolOutputTruncatorHook
from edgemem.hooks.tool_retry import ToolErrorRetryHook
from edgemem.hooks.turn_log import TimingHook, log
from edgemem.loop.memory_tools import NAMES, memory_tools
from edgemem.recall.vector_store import VectorMemoryStore
from edgemem.records import Message, Session
from edgemem.store.json.memory import JSONMemoryStore
from edgemem.store.json.sessions import JSONSessionStore
from edgemem.store.memory_store import SQLiteMemoryStore
from edgemem.store.sessions import SQLiteSessionStore

if TYPE_CHECKING:
    from edgemem.bench.corpus import Known
    from edgemem.llama.protocols import Embedder
    from edgemem.memory import Memory

WATCH_S = 10.0
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Stores(NamedTuple):
    """Stores in files of their own."""

    plain: SQLiteMemoryStore
    json: JSONMemoryStore
    vectors: VectorMemoryStore
    sessions: tuple[SQLiteSessionStore, JSONSessionStore]


@contextmanager
def stores_in(folder: Path, embedder: Embedder | None) -> Iterator[Stores]:
    """Open every kind of store in a folder, making it if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        closing(SQLiteMemoryStore(folder / "plain.db")) as plain,
        closing(JSONMemoryStore(folder / "facts.json")) as json,
        closing(VectorMemoryStore(folder / "vectors.db", embed_fn=embedder or by_letters)) as vectors,
        closing(SQLiteSessionStore(folder / "sessions.db")) as rows,
    ):
        yield Stores(plain, json, vectors, (rows, JSONSessionStore(folder / "sessions")))


@contextmanager
def everything(memory: Memory, folder: Path) -> Iterator[tuple[Stores, list[Hook]]]:
    """Open the stores and all tools beside a memory, and return the hooks that a session gets in addition."""
    logged = logging.FileHandler(folder / "turns.log")
    level = log.level
    log.addHandler(logged)
    log.setLevel(logging.INFO)
    try:
        with stores_in(folder, memory.diagnostics.embedder) as stores:
            for store in (stores.plain, stores.json, stores.vectors):
                memory_tools(store, include=NAMES[:-1], speaker="mara")
            for sessions in stores.sessions:
                sessions.load("before")
            audit = AuditLogHook(folder / "audit.jsonl", text="household")
            yield stores, [audit, ToolOutputTruncatorHook(), ToolErrorRetryHook(), TimingHook()]
    finally:
        log.setLevel(level)
        log.removeHandler(logged)
        logged.close()


def await_watcher(memory: Memory) -> None:
    """Start what watches the files of a home, and wait until it does."""
    watcher = memory.diagnostics.reload.watcher
    watcher.start()
    until = time.monotonic() + WATCH_S
    while watcher.state == "waiting":
        if time.monotonic() > until:
            raise EdgememError(f"The watcher does not work after {WATCH_S:.0f} s.")
        time.sleep(0.01)


def fill(folder: Path, facts: Sequence[Known], *, embedder: Embedder | None) -> None:
    """Store the same facts in all three stores, and embed them."""
    # Not above: a process whose memory is measured imports this module, and needs none of that.
    from edgemem.bench.ground import store_facts

    with stores_in(folder, embedder) as stores:
        for store in (stores.plain, stores.vectors):
            store_facts(store.database, facts)
        for fact in facts:
            stores.json.add_fact(fact.key, fact.value, scope=fact.scope, source="said")
        while stores.vectors.embed_pending():
            pass
        messages: list[Message] = [{"role": "user", "content": fact.question} for fact in facts[:50]]
        for sessions in stores.sessions:
            sessions.save("before", Session(messages))


def by_letters(text: str) -> list[float]:
    """Embed without a model: how often each letter occurs, which means nothing and costs the same."""
    return [1.0 + text.count(letter) for letter in _LETTERS]
