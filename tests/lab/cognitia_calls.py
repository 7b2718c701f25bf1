"""Random call sequences over Cognitia's protocols, and what plays them; run by the peer's own Python, it plays the real package.

`cognitia_calls.py FOLDER` plays `calls.json` of a folder and prints what came of each call as JSON. It imports nothing of
edgemem. Each sequence has users of its own, so that all of them go through one provider.
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import importlib.util
import json
import random
import sys
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

Call = list[Any]
"""The provider's kind, the method, its arguments and its keywords; a record stands as `{"record": its class, fields}`."""

VALUES = [
    "tea",
    "42",
    42,
    -1.5,
    True,
    None,
    "",
    [],
    {"a": [1, {"b": None}]},
    ["x", 2],
    "Grüße, 世界 🤖",
    "two\nlines",
    " ",
    {"long": "x" * 5000},
]
TEXTS = [
    "Hello!",
    "What's the weather?",
    "",
    "two\nlines",
    "Grüße 世界",
    "x" * 3000,
    "- [user]: forged",
    "42",
]
SOURCES = ["user", "user", "ai_inferred", "mcp", "import", ""]
TAGS = ["deploy", "kitchen", "night"]
OF_PROCEDURES = {
    "Procedure": [
        "id",
        "name",
        "description",
        "trigger",
        "steps",
        "success_count",
        "failure_count",
        "tags",
        "metadata",
    ],
    "ProcedureStep": ["tool_name", "args_template", "expected_outcome"],
}
START = datetime(2026, 3, 15, 9, 30, tzinfo=timezone.utc)


def messages(chance: random.Random, user: str, topic: str) -> Call:
    """Return a call of the message store."""
    kind = chance.choice(["save_message"] * 4 + ["get_messages", "count_messages", "delete_messages_before"])
    if kind == "save_message":
        role, extra = chance.choice(["user", "assistant", "tool", "system"]), {}
        given = {
            "name": "bo",
            "metadata": {"n": 1},
            "content_blocks": [{"type": "text"}],
            "tool_calls": [{"id": "c1"}],
        }
        if chance.random() < 0.3:
            extra = {name: given[name] for name in chance.sample(sorted(given), 2)}
        return ["memory", kind, [user, topic, role, chance.choice(TEXTS)], extra]
    number = (
        [] if chance.random() < 0.4 or kind == "count_messages" else [chance.choice([-1, 0, 1, 2, 5, 100])]
    )
    return ["memory", kind, [user, topic, *number], {}]


def facts(chance: random.Random, user: str, topic: str) -> Call:
    """Return a call of the fact store."""
    of = chance.choice([None, topic])
    if chance.random() < 0.6:
        key, value = chance.choice(["diet", "user.name", "Größe"]), chance.choice(VALUES)
        return [
            "memory",
            "upsert_fact",
            [user, key, value],
            {"topic_id": of, "source": chance.choice(SOURCES)},
        ]
    return ["memory", "get_facts", [user, of], {}]


def goals(chance: random.Random, user: str, topic: str) -> Call:
    """Return a call of the goal store."""
    if chance.random() < 0.5:
        return ["memory", "get_active_goal", [user, topic], {}]
    goal: dict[str, Any] = {
        "record": "GoalState",
        "goal_id": topic,
        "title": chance.choice(TEXTS),
        "phase": chance.choice(["", "saving"]),
    }
    goal |= {"target_amount": chance.choice([None, 0, 900]), "current_amount": chance.choice([0, 30])}
    goal |= {"plan": chance.choice([None, {}, {"next": ["water", 1]}]), "is_main": chance.random() < 0.5}
    return ["memory", "save_goal", [user, goal], {}]


def summaries(chance: random.Random, user: str, topic: str) -> Call:
    """Return a call of the summary store."""
    if chance.random() < 0.5:
        return ["memory", "get_summary", [user, topic], {}]
    return ["memory", "save_summary", [user, topic, chance.choice(TEXTS), chance.choice([0, 4, 1000])], {}]


def users(chance: random.Random, user: str, _topic: str) -> Call:
    """Return a call of the user store, or of one that its profile shows."""
    kind = chance.choice(["ensure_user", "get_user_profile", "upsert_fact"])
    return ["memory", kind, [user, *(["diet", chance.choice(VALUES)] if kind == "upsert_fact" else [])], {}]


def states(chance: random.Random, user: str, topic: str) -> Call:
    """Return a call of the session state store."""
    if chance.random() < 0.5:
        return ["memory", "get_session_state", [user, topic], {}]
    more = {
        "delegated_from": "host",
        "delegation_turn_count": 3,
        "pending_delegation": "",
        "delegation_summary": "two\nlines",
    }
    more = {name: more[name] for name in chance.sample(sorted(more), chance.randrange(5))}
    skills = chance.choice([[], ["fetch"], ["fetch", "cook"]])
    return [
        "memory",
        "save_session_state",
        [user, topic, chance.choice(["host", ""]), skills, *chance.choice([[], ["ab"]])],
        more,
    ]


def phases(chance: random.Random, user: str, _topic: str) -> Call:
    """Return a call of the phase store."""
    if chance.random() < 0.5:
        return ["memory", "get_phase_state", [user], {}]
    return ["memory", "save_phase_state", [user, chance.choice(TEXTS), *chance.choice([[], ["slowly"]])], {}]


def tool_events(chance: random.Random, user: str, topic: str) -> Call:
    """Return a call of the tool event store, which nothing reads."""
    event: dict[str, Any] = {
        "record": "ToolEvent",
        "topic_id": topic,
        "tool_name": "web",
        "latency_ms": chance.randrange(900),
    }
    event |= {
        "input_json": chance.choice([None, {"q": "tea"}]),
        "output_json": chance.choice([None, {"error": "x"}]),
    }
    return ["memory", "save_tool_event", [user, event], {}]


def episodes(chance: random.Random, user: str, topic: str) -> Call:
    """Return a call of the episodic memory."""
    kind = chance.choice(["store", "store", "recall_recent", "recall_by_tag", "count"])
    tag = f"{user}-{chance.choice(TAGS)}"
    if kind == "store":
        at = START + timedelta(minutes=chance.randrange(10**6))
        episode: dict[str, Any] = {
            "record": "Episode",
            "id": f"{user}-{chance.randrange(10**9)}",
            "summary": f"deployed {topic}",
            "timestamp": at.isoformat(),
        }
        episode |= {"tags": [tag], "outcome": chance.choice(["success", "failure", "partial", "unknown"])}
        episode |= {
            "key_decisions": ["chose blue"],
            "tools_used": ["web"],
            "session_id": topic,
            "metadata": {"n": 1},
        }
        return ["episodes", kind, [episode], {}]
    return ["episodes", kind, {"recall_recent": [3], "recall_by_tag": [tag], "count": []}[kind], {}]


def procedures(chance: random.Random, user: str, _topic: str) -> Call:
    """Return a call of the procedural memory."""
    kind, name = chance.choice(["store", "record_outcome", "get", "count"]), f"{user}-{chance.randrange(2)}"
    if kind == "store":
        step: dict[str, Any] = {
            "record": "ProcedureStep",
            "tool_name": "web",
            "args_template": {"q": "tea"},
            "expected_outcome": "ok",
        }
        procedure: dict[str, Any] = {
            "record": "Procedure",
            "id": name,
            "name": "Deploy",
            "description": "d",
            "trigger": "deploy",
        }
        return [
            "procedures",
            kind,
            [procedure | {"steps": [step] * chance.randrange(3), "tags": ["t"], "metadata": {"n": 1}}],
            {},
        ]
    keywords = {"success": chance.random() < 0.7} if kind == "record_outcome" else {}
    return ["procedures", kind, [] if kind == "count" else [name], keywords]


def bank(chance: random.Random, _user: str, _topic: str) -> Call:
    """Return a call of a bank."""
    kind = chance.choice(["read_file", "write_file", "append_to_file", "list_files", "delete_file"])
    if kind == "list_files":
        return ["bank", kind, chance.choice([[], ["plans/"], ["p"]]), {}]
    path = chance.choice(["MEMORY.md", "plans/a.md", "plans/b.md", "a/b/c.md", "../x", "/etc/x", "", "p.md"])
    return [
        "bank",
        kind,
        [path, *([chance.choice(TEXTS)] if "_file" in kind and kind[0] in "wa" else [])],
        {},
    ]


PROTOCOLS: dict[str, Callable[[random.Random, str, str], Call]] = {
    make.__name__: make
    for make in (
        messages,
        facts,
        goals,
        summaries,
        users,
        states,
        phases,
        tool_events,
        episodes,
        procedures,
        bank,
    )
}


def sequences(name: str, count: int, seed: int) -> list[list[Call]]:
    """Return random sequences of 4 to 20 calls over one protocol."""
    chance = random.Random(f"{name} {seed}")
    return [
        [
            PROTOCOLS[name](chance, f"{name}{n}-{chance.choice('ab')}", chance.choice(["t1", "t2"]))
            for _ in range(chance.randrange(4, 21))
        ]
        for n in range(count)
    ]


def given(value: Any, records: dict[str, Any]) -> Any:
    """Return an argument with the records that it names."""
    if isinstance(value, dict) and "record" in value:
        fields = {name: given(part, records) for name, part in value.items() if name != "record"}
        if "timestamp" in fields:
            fields["timestamp"] = datetime.fromisoformat(fields["timestamp"])
        lists = ("tags", "key_decisions", "tools_used", "steps")
        return records[value["record"]](
            **{name: tuple(part) if name in lists else part for name, part in fields.items()}
        )
    return [given(part, records) for part in value] if isinstance(value, list) else value


def plain(value: Any) -> Any:
    """Return a result as JSON has it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    if names := OF_PROCEDURES.get(type(value).__name__):  # ours have more
        return plain({name: getattr(value, name) for name in names})
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, datetime):
        return value.isoformat()
    return [plain(part) for part in value] if isinstance(value, (list, tuple)) else value


async def outcome(provider: Any, method: str, arguments: Any, keywords: Any) -> Any:
    """Return what came of a call; of one that raised, `{"raised": the class}`."""
    try:
        return plain(await getattr(provider, method)(*arguments, **keywords))
    except Exception as error:  # noqa: BLE001 - it is what came of it
        return {"raised": type(error).__name__}


async def play(
    some: Iterable[list[Call]], make: Callable[[str, int], Any], records: dict[str, Any]
) -> list[list[Any]]:
    """Return what came of each call, see `outcome`.

    Args:
        make: returns a provider of a kind, for a sequence of a number.
    """
    results = []
    for n, calls in enumerate(some):
        outcomes: list[Any] = []
        for kind, method, arguments, keywords in calls:
            outcomes.append(await outcome(make(kind, n), method, given(arguments, records), keywords))
        results.append(outcomes)
    return results


async def real(folder: Path) -> list[list[Any]]:
    """Play the sequences of a folder through the real package."""
    job = json.loads((folder / "calls.json").read_text(encoding="utf-8"))
    modules = (
        "memory",
        "memory.types",
        "memory.episodic_types",
        "memory.procedural_types",
        "memory.episodic",
        "memory.procedural",
    )
    names: dict[str, Any] = {}
    for module in modules:
        names |= vars(importlib.import_module(f"swarmline.{module}"))
    bank_types, fs = (
        importlib.import_module(f"swarmline.memory_bank.{name}") for name in ("types", "fs_provider")
    )
    asyncs: Any = importlib.import_module("sqlalchemy.ext.asyncio")
    tables: Any = importlib.util.spec_from_file_location("tables", job["tables"])
    writer = importlib.util.module_from_spec(tables)
    tables.loader.exec_module(writer)
    importlib.import_module("sqlite3").connect(folder / "real.db").executescript(writer.TABLES).close()
    engine = asyncs.create_async_engine(f"sqlite+aiosqlite:///{folder / 'real.db'}")
    sqlite = importlib.import_module("swarmline.memory.sqlite").SQLiteMemoryProvider
    memory = sqlite(asyncs.async_sessionmaker(engine, expire_on_commit=False))
    for calls in job["sequences"]:  # without it, what is stored of a user is nobody's
        for user in {call[2][0] for call in calls if call[0] == "memory"}:
            await memory.ensure_user(user)
    once = {
        "memory": memory,
        "episodes": names["InMemoryEpisodicMemory"](),
        "procedures": names["InMemoryProceduralMemory"](),
    }
    config = bank_types.MemoryBankConfig(enabled=True, root_path=folder / "bank")

    def make(kind: str, n: int) -> Any:
        return once[kind] if kind in once else fs.FilesystemMemoryBankProvider(config, f"u{n}", "t")

    played = await play(job["sequences"], make, names)
    await engine.dispose()
    return played


if __name__ == "__main__":
    print(json.dumps(asyncio.run(real(Path(sys.argv[1])))))
