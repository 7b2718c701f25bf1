"""A home of EdgeVox made up from a seed, with texts that break parsers, and written as EdgeVox 1.3 writes it: as JSON or databases."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.bench.corpus import household_facts, sentences
from edgemem.bench.session import conversation
from edgemem.store.db.connection import Schema
from edgemem.store.db.database import Database

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.store.db.transaction import Transaction

AGENTS = ("kitchen", "hall")
SCOPES = ("global", "user", "user:mara", "user:ilja", "household", "env:kitchen")
ODD = (
    "", " ", "null", "0", "-1e308", '{"a": [1, "2"]}', "'; drop table facts; --", "\\\"'`$(rm -rf /)\\",
    "two\nlines\r\nand\ta tab", "## Memory\n- pins: 1234", "</memory><|im_end|>\n<|im_start|>system", "[INST] <<SYS>>",
    "e\u0301 is not \u00e9", "שלום \u202eabc\u202c", "مرحبا 🤖 👩‍👩‍👧 🇻🇳", "Phở bò đặc biệt", "花生过敏", "\u200b\u200d\ufeff",
    "\u2028\u2029\x85", "\x1b[31mred\x07", "x" * 16_000, "ⅷ ½ ﬁ Å", "None", "…" * 40,
)  # fmt: skip

_START = 1_760_000_000.25
_STEP_S = 611.3
_TABLES = (
    """
    create table facts (id text primary key, key text not null, value text not null, scope text not null,
      source text not null default '', updated_at real not null, valid_from real not null, valid_to real,
      invalidated_at real, supersedes text)
    """,
    "create index facts_scope_key on facts(scope, key)",
    "create index facts_active on facts(scope, key) where valid_to is null",
    "create table preferences (key text primary key, value text not null, updated_at real not null)",
    """
    create table episodes (id integer primary key autoincrement, kind text not null, payload_json text not null,
      outcome text not null, timestamp real not null, agent text not null default '')
    """,
)
_SESSIONS = """
    create table sessions (session_id text primary key, messages text not null, state text not null,
      updated_at real not null)
    """

Row = dict[str, Any]


class EdgevoxHome(msgspec.Struct, frozen=True):
    """What it remembers, each row as EdgeVox's `asdict` gives it; facts, preferences and episodes by agent."""

    facts: dict[str, list[Row]]
    preferences: dict[str, list[Row]]
    episodes: dict[str, list[Row]]
    sessions: dict[str, Row]
    notes: dict[str, str]

    def write_json(self, folder: Path) -> None:
        (folder / "sessions").mkdir(parents=True)
        for agent in AGENTS:
            memory = {
                "facts": self.facts[agent],
                "preferences": self.preferences[agent],
                "episodes": self.episodes[agent],
            }
            (folder / f"{agent}.json").write_text(json.dumps(memory, indent=2), encoding="utf-8")
        for name, session in self.sessions.items():
            (folder / "sessions" / f"{name}.json").write_text(json.dumps(session, indent=2), encoding="utf-8")
        self._write_notes(folder)

    def write_sqlite(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        # Without migrations of ours a database is an empty file with a log: what EdgeVox makes of it, too.
        for agent in AGENTS:
            with Database(folder / f"{agent}.db", schema=Schema((), {}), durable=False, page_size=4096) as db:
                db.write(lambda tx, agent=agent: self._insert_memory(tx, agent))  # type: ignore[misc]
        with Database(folder / "sessions.db", schema=Schema((), {}), durable=False, page_size=4096) as db:
            db.write(self._insert_sessions)
        self._write_notes(folder)

    def _insert_memory(self, tx: Transaction, agent: str) -> None:
        for statement in _TABLES:
            tx.execute(statement)
        tx.executemany(
            "insert into facts values (:id, :key, :value, :scope, :source, :updated_at, :valid_from, :valid_to,"
            " :invalidated_at, :supersedes)",
            self.facts[agent],
        )
        tx.executemany("insert into preferences values (:key, :value, :updated_at)", self.preferences[agent])
        tx.executemany(
            "insert into episodes (kind, payload_json, outcome, timestamp, agent)"
            " values (:kind, :payload_json, :outcome, :timestamp, :agent)",
            [{**row, "payload_json": json.dumps(row["payload"])} for row in self.episodes[agent]],
        )

    def _insert_sessions(self, tx: Transaction) -> None:
        tx.execute(_SESSIONS)
        for n, (name, session) in enumerate(self.sessions.items()):
            row = name, json.dumps(session["messages"]), json.dumps(session["state"]), _START + n * _STEP_S
            tx.execute("insert into sessions values (?, ?, ?, ?)", row)

    def _write_notes(self, folder: Path) -> None:
        for agent, text in self.notes.items():
            (folder / f"{agent}-notes.md").write_text(text, encoding="utf-8")


def edgevox_home(*, facts: int, episodes: int, sessions: int, seed: int = 7) -> EdgevoxHome:
    """Return a home with so many facts that each have one or more versions, episodes and conversations."""
    rng = random.Random(seed)
    rows = _versions(rng, facts)
    lived = _episodes(rng, episodes)
    wishes = [("tone", "short"), ("lingua", "italiano"), *((f"odd {n}", text) for n, text in enumerate(ODD))]
    preferences: list[Row] = [
        {"key": key, "value": value, "updated_at": _START + n * _STEP_S}
        for n, (key, value) in enumerate(wishes)
    ]
    return EdgevoxHome(
        {agent: [row for row in rows if _agent_of(row) == agent] for agent in AGENTS},
        # Preferences have no scope there: what both agents have, the newer one holds.
        {
            "kitchen": preferences,
            "hall": [{**row, "updated_at": row["updated_at"] - 1} for row in preferences[:2]],
        },
        {agent: lived[i :: len(AGENTS)] for i, agent in enumerate(AGENTS)},
        {f"{AGENTS[n % 2]}-{n:012x}": _session(rng, n) for n in range(sessions)},
        {agent: _notes(agent) for agent in AGENTS},
    )


def _agent_of(row: Row) -> str:
    return AGENTS[len(row["key"]) % len(AGENTS)]


def _versions(rng: random.Random, keys: int) -> list[Row]:
    """Return the rows of facts as they were written, in the order in which they were."""
    subjects = household_facts(keys)
    order = [n for n in range(keys) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    rng.shuffle(order)
    rows: list[Row] = []
    active: dict[int, Row] = {}
    for number, n in enumerate(order):
        at, before = _START + number * _STEP_S, active.get(n)
        if before is not None:
            before["valid_to"] = before["invalidated_at"] = at
        active[n] = {
            "key": subjects[n].key if n % 50 else f"Schlüssel {n}: 花's \"name\"",
            # Two versions in a row never say the same: EdgeVox then only touches the old one.
            "value": f"{ODD[number % len(ODD)]}{number}" if number % 9 == 0 else f"{subjects[n].value} {number}",
            "scope": SCOPES[n % len(SCOPES)],
            # The same said again only touches this.
            "updated_at": at + (_STEP_S / 2 if number % 11 == 0 else 0.0),
            "source": rng.choice(("user", "llm", "", "tool:calendar")),
            "id": f"f_{number:010x}",
            "valid_from": at,
            "valid_to": None,
            "invalidated_at": None,
            "supersedes": before["id"] if before is not None else None,
        }  # fmt: skip
        rows.append(active[n])
    end = _START + len(order) * _STEP_S
    for n in range(0, keys, 25):  # forgotten, which is an end there and no erasure
        active[n]["valid_to"] = active[n]["invalidated_at"] = end + n
    return rows


def _episodes(rng: random.Random, n: int) -> list[Row]:
    rows = []
    for i in range(n):
        arguments = {
            "on": bool(i % 2),
            "level": rng.random(),
            "text": ODD[i % len(ODD)],
            "rooms": ["hall", None],
        }
        failed = i % 7 == 0
        payload = {
            "name": rng.choice(("set_light", "find_item", "navigate_to")),
            "args": arguments,
            "result": None if failed else {"ok": True, "n": i},
            "error": "ValueError: no such lamp" if failed else None,
        }
        rows.append(
            {
                "kind": "tool_call",
                "payload": payload,
                "outcome": "failed" if failed else "ok",
                "timestamp": _START + i * _STEP_S / 7,
                "agent": AGENTS[i % len(AGENTS)],
            }
        )
    return rows


def _session(rng: random.Random, n: int) -> Row:
    system = "You are a robot that helps in a house."
    said: list[Row] = [{"role": "system", "content": f"{system}\n\n## Memory\n- tone: short"}]
    for i, line in enumerate(conversation(1 + n % 6, seed=n)):
        said.append({"role": "user", "content": line.say if i % 4 else f"{ODD[n % len(ODD)]} {line.say}"})
        if rng.random() < 0.5:
            call = {"name": line.tools[0].name, "arguments": json.dumps(line.tools[0].arguments)}
            said += [
                {
                    "role": "assistant",
                    "content": None if i % 2 else "",
                    "tool_calls": [{"id": f"call_{n}_{i}", "type": "function", "function": call}],
                },
                {"role": "tool", "tool_call_id": f"call_{n}_{i}", "name": call["name"], "content": "kept"},
            ]
        said.append({"role": "assistant", "content": line.reply})
    return {"messages": said, "state": {"mood": rng.random(), "rooms": {"now": "hall"}, "n": n}}


def _notes(agent: str) -> str:
    lines: Sequence[str] = sentences(20, seed=len(agent))
    return "".join(f"\n## {agent} (2026-01-{n:02d} 10:00)\n{line}\n" for n, line in enumerate(lines, start=1))
