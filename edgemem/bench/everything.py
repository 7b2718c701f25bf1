"""Everything that edgemem has, open at once: what `bench footprint` and `bench turn` measure a second time.

Beside a memory with its default hooks: its watcher, a SQLite, a JSON and a vector store and two session stores in files
of their own, the audit log, truncation of tool output, tool retry, timing, the turn log in a file, and all memory tools.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edgemem.errors import EdgememError
from edgemem.hooks.audit_log import AuditLogHook
from edgemem.hooks.points import Hook
from edgemem.hooks.tool_output import ToolOutputTruncatorHook
from edgemem.hooks.tool_retry import ToolErrorRetryHook
from edgemem.hooks.turn_log import TimingHook, log
from edgemem.loop.memory_tools import NAMES, memory_tools
from edgemem.recall.vector_store import VectorMemoryStore
from edgemem.records import Message, Session
from edgemem.store.facts import assert_fact
from edgemem.store.json.memory import JSONMemoryStore
from edgemem.store.json.sessions import JSONSessionStore
from edgemem.store.memory_store import SQLiteMemoryStore
from edgemem.store.sessions import SQLiteSessionStore

if TYPE_CHECKING:
    from edgemem.bench.corpus import Known
    from edgemem.llama.protocols import Embedder
    from edgemem.loop.toolbox import Tool
    from edgemem.memory import Memory
    from edgemem.store.db.transaction import Transaction

WATCH_S = 10.0
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Everything(msgspec.Struct):
    """What a session of a loop is given in addition."""

    hooks: list[Hook]
    tools: list[Tool]
    vectors: VectorMemoryStore
    ready: float
    """When all of it was open, by `time.perf_counter`; the watcher works some time later, and nobody waits for it."""


@contextmanager
def everything(memory: Memory, folder: Path) -> Iterator[Everything]:
    """Open it all in a folder, wait until the watcher works, and close it again."""
    logged = logging.FileHandler(folder / "turns.log")
    level = log.level
    with ExitStack() as stack:
        stack.callback(logged.close)
        stack.callback(log.setLevel, level)
        stack.callback(log.removeHandler, logged)
        log.addHandler(logged)
        log.setLevel(logging.INFO)
        plain, json, vectors = _stores(stack, folder, memory.embedder)
        tools = memory.tools()
        for store in (plain, json, vectors):
            memory_tools(store, include=NAMES[:-1], speaker="mara")
        _sessions(stack, folder)
        audit = AuditLogHook(folder / "audit.jsonl", text="household")
        ready = time.perf_counter()
        _await_watcher(memory)
        hooks: list[Hook] = [audit, ToolOutputTruncatorHook(), ToolErrorRetryHook(), TimingHook()]
        yield Everything(hooks, tools, vectors, ready)


def fill(folder: Path, facts: Sequence[Known], *, embedder: Embedder | None) -> None:
    """Store the same facts in all three stores, and embed them."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        plain, json, vectors = _stores(stack, folder, embedder)
        for store in (plain, vectors):
            store.database.write(partial(_add, facts=facts))
        for fact in facts:
            json.add_fact(fact.key, fact.value, scope=fact.scope, source="said")
        while vectors.embed_pending():
            pass
        messages: list[Message] = [{"role": "user", "content": fact.question} for fact in facts[:50]]
        for sessions in _sessions(stack, folder):
            sessions.save("before", Session(messages))


def _stores(
    stack: ExitStack, folder: Path, embedder: Embedder | None
) -> tuple[SQLiteMemoryStore, JSONMemoryStore, VectorMemoryStore]:
    plain = SQLiteMemoryStore(folder / "plain.db")
    stack.callback(plain.close)
    json = JSONMemoryStore(folder / "facts.json")
    stack.callback(json.close)
    vectors = VectorMemoryStore(folder / "vectors.db", embed_fn=embedder or by_letters)
    stack.callback(vectors.close)
    return plain, json, vectors


def _sessions(stack: ExitStack, folder: Path) -> tuple[SQLiteSessionStore, JSONSessionStore]:
    rows, files = SQLiteSessionStore(folder / "sessions.db"), JSONSessionStore(folder / "sessions")
    stack.callback(rows.close)
    for store in (rows, files):
        store.load("before")
    return rows, files


def _add(tx: Transaction, facts: Sequence[Known]) -> None:
    for fact in facts:
        assert_fact(tx, fact.key, fact.value, scope=fact.scope, source="said")


def by_letters(text: str) -> list[float]:
    """Embed without a model: how often each letter occurs, which means nothing and costs the same."""
    return [1.0 + text.count(letter) for letter in _LETTERS]


def _await_watcher(memory: Memory) -> None:
    watcher = memory.reload.watcher
    until = time.monotonic() + WATCH_S
    while watcher.state == "waiting":
        if time.monotonic() > until:
            raise EdgememError(f"The watcher does not work after {WATCH_S:.0f} s; is it started?")
        time.sleep(0.01)
