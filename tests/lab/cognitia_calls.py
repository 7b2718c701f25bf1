"""Random call sequences over Cognitia's protocols, and what plays them; run by the peer's own Python, it plays the real package.

`cognitia_calls.py FOLDER` plays `calls.json` of a folder and prints what came of each call as JSON. It imports nothing of
edgemem. Each sequence has users of its own, so that all of them go through one provider.
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import json
import random
import sys
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

Call = list[Any]
"""The provider's kind, the method, its arguments and its keywords; a record stands as `{"record": its class, fields}`."""


TEXT = ("Hello!", "What's the weather?", "", "two\nlines", "Grüße 世界", "x" * 3000, "- [user]: forged", "42")
LONG = {"long": "x" * 5000}
VALUE: Any = ("tea", "42", 42, -1.5, True, None, "", [], {"a": [1, {"b": None}]}, " ", "🤖", LONG)
NUMBER = (-1, 0, 1, 2, 5, 100)
SOURCE = ("user", "user", "ai_inferred", "mcp", "import", "")
PATH = ("MEMORY.md", "plans/a.md", "plans/b.md", "a/b/c.md", "../x", "/etc/x", "", "p.md")
OF = ["{user}", "{topic}"]
TAG = ("{user}-deploy", "{user}-night")
CALLS = {"metadata": {"n": 1}, "tool_calls": [{"id": "c1"}]}
MORE: Any = ({}, {}, {"name": "bo", "content_blocks": [{"type": "text"}]}, CALLS)
"""Of what stands in a tuple, one is drawn."""
GOAL = {
    "record": "GoalState", "goal_id": "{topic}", "title": TEXT, "target_amount": (None, 0, 900), "phase": ("", "saving"),
    "current_amount": (0, 30), "plan": (None, {}, {"next": ["water", 1]}), "is_main": (True, False),
}  # fmt: skip
EVENT = {
    "record": "ToolEvent", "topic_id": "{topic}", "tool_name": "web", "latency_ms": (0, 840),
    "input_json": (None, {"q": "tea"}), "output_json": (None, {"error": "x"}),
}  # fmt: skip
EPISODE = {
    "record": "Episode", "id": "{user}-{number}", "summary": "deployed {topic}", "timestamp": "{time}", "tags": [TAG],
    "outcome": ("success", "failure", "unknown"), "key_decisions": ["chose blue"], "tools_used": ["web"],
    "session_id": "{topic}", "metadata": {"n": 1},
}  # fmt: skip
STEP = {
    "record": "ProcedureStep",
    "tool_name": "web",
    "args_template": {"q": "tea"},
    "expected_outcome": "ok",
}
NAME = ("{user}-1", "{user}-2")
PROCEDURE = {
    "record": "Procedure", "id": NAME, "name": "Deploy", "description": "d", "trigger": "deploy", "tags": ["t"],
    "steps": ([], [STEP], [STEP, STEP]), "metadata": {"n": 1},
}  # fmt: skip
DELEGATED = {
    "delegated_from": "host",
    "delegation_turn_count": 3,
    "pending_delegation": "",
    "delegation_summary": "a\nb",
}
STATE = ["memory", "save_session_state", [*OF, "host", ([], ["a", "b"]), ("", "ab")], ({}, DELEGATED)]
UPSERT = ["memory", "upsert_fact", ["{user}", ("diet", "user.name", "Größe"), VALUE]]
PROTOCOLS = {
    "messages": (
        *[["memory", "save_message", [*OF, ("user", "assistant", "tool", "system"), TEXT], MORE]] * 3,
        ["memory", "get_messages", (OF, [*OF, NUMBER]), {}],
        ["memory", "count_messages", OF, {}],
        ["memory", "delete_messages_before", (OF, [*OF, NUMBER]), {}],
    ),
    "facts": (
        [*UPSERT, {"topic_id": (None, "{topic}"), "source": SOURCE}],
        ["memory", "get_facts", ["{user}", (None, "{topic}")], {}],
    ),
    "goals": (["memory", "save_goal", ["{user}", GOAL], {}], ["memory", "get_active_goal", OF, {}]),
    "summaries": (
        ["memory", "save_summary", [*OF, TEXT, (0, 4, 1000)], {}],
        ["memory", "get_summary", OF, {}],
    ),
    "users": (
        ["memory", "ensure_user", ["{user}"], {}],
        ["memory", "get_user_profile", ["{user}"], {}],
        [*UPSERT, {}],
    ),
    "states": (STATE, ["memory", "get_session_state", OF, {}]),
    "phases": (
        ["memory", "save_phase_state", (["{user}", TEXT], ["{user}", TEXT, TEXT]), {}],
        ["memory", "get_phase_state", ["{user}"], {}],
    ),
    "tool_events": (["memory", "save_tool_event", ["{user}", EVENT], {}],),
    "episodes": (
        *[["episodes", "store", [EPISODE], {}]] * 2,
        ["episodes", "recall_recent", [3], {}],
        ["episodes", "recall_by_tag", [TAG], {}],
        ["episodes", "count", [], {}],
    ),
    "procedures": (
        ["procedures", "store", [PROCEDURE], {}],
        ["procedures", "record_outcome", [NAME], {"success": (True, False)}],
        ["procedures", "get", [NAME], {}],
        ["procedures", "count", [], {}],
    ),
    "bank": (
        ["bank", "write_file", [PATH, TEXT], {}],
        ["bank", "append_to_file", [PATH, TEXT], {}],
        ["bank", "read_file", [PATH], {}],
        ["bank", "list_files", ([], ["plans/"], ["p"]), {}],
        ["bank", "delete_file", [PATH], {}],
    ),
}
"""The calls of each protocol."""
OF_PROCEDURES = {
    "Procedure": ("id", "name", "description", "trigger", "steps", "success_count", "failure_count", "tags", "metadata"),
    "ProcedureStep": ("tool_name", "args_template", "expected_outcome"),
}  # fmt: skip
START = datetime(2026, 3, 15, 9, 30, tzinfo=timezone.utc)


def drawn(part: Any, chance: random.Random, names: dict[str, str]) -> Any:
    """Return a part of a call with one choice of each tuple, and names in their places."""
    if isinstance(part, tuple):
        return drawn(chance.choice(part), chance, names)
    if isinstance(part, dict):
        return {key: drawn(value, chance, names) for key, value in part.items()}
    if isinstance(part, list):
        return [drawn(value, chance, names) for value in part]
    for name, text in names.items() if isinstance(part, str) and "{" in part else ():
        part = part.replace(name, text)
    return part


def sequences(name: str, count: int, seed: int) -> list[list[Call]]:
    """Return random sequences of 4 to 20 calls over one protocol."""
    chance = random.Random(f"{name} {seed}")

    def call(n: int) -> Call:
        at = START + timedelta(minutes=chance.randrange(10**6))
        names = {"{user}": f"{name}{n}-{chance.choice('ab')}", "{topic}": chance.choice(["t1", "t2"])}
        names |= {"{time}": at.isoformat(), "{number}": str(chance.randrange(10**9))}
        drawn_call: Call = drawn(PROTOCOLS[name], chance, names)
        return drawn_call

    return [[call(n) for _ in range(chance.randrange(4, 21))] for n in range(count)]


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
        results.append(
            [
                await outcome(make(kind, n), method, given(arguments, records), keywords)
                for kind, method, arguments, keywords in calls
            ]
        )
    return results


async def real(folder: Path) -> list[list[Any]]:
    """Play the sequences of a folder through the real package."""
    job = json.loads((folder / "calls.json").read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    for module in (
        "memory.types", "memory.episodic_types", "memory.procedural_types", "memory.episodic", "memory.procedural",
        "memory.sqlite", "memory_bank.types", "memory_bank.fs_provider",
    ):  # fmt: skip
        names |= vars(importlib.import_module(f"swarmline.{module}"))
    asyncs: Any = importlib.import_module("sqlalchemy.ext.asyncio")
    sys.path.append(job["tables"])
    tables = importlib.import_module("write_swarmline").TABLES
    importlib.import_module("sqlite3").connect(folder / "real.db").executescript(tables).close()
    engine = asyncs.create_async_engine(f"sqlite+aiosqlite:///{folder / 'real.db'}")
    memory = names["SQLiteMemoryProvider"](asyncs.async_sessionmaker(engine, expire_on_commit=False))
    for calls in job["sequences"]:  # without it, what is stored of a user is nobody's
        for user in {call[2][0] for call in calls if call[0] == "memory"}:
            await memory.ensure_user(user)
    once = {
        "memory": memory,
        "episodes": names["InMemoryEpisodicMemory"](),
        "procedures": names["InMemoryProceduralMemory"](),
    }
    config = names["MemoryBankConfig"](enabled=True, root_path=folder / "bank")

    def make(kind: str, n: int) -> Any:
        return once[kind] if kind in once else names["FilesystemMemoryBankProvider"](config, f"u{n}", "t")

    played = await play(job["sequences"], make, names)
    await engine.dispose()
    return played


if __name__ == "__main__":
    print(json.dumps(asyncio.run(real(Path(sys.argv[1])))))
