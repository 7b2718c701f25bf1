"""Random calls through every class of Cognitia's two pages, and what plays them: the peer's own Python runs this file too.

`beside_calls.py FOLDER` plays the sequences of `job.json` through the real package, and writes what came of each call to `came.json`.
It imports nothing of edgemem. Each sequence has files of its own, so that nothing of one is found by another.
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import json
import random
import sqlite3
import sys
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

CLASSES = {
    "memory": "InMemoryMemoryProvider InMemoryEpisodicMemory InMemoryProceduralMemory FilesystemMemoryBankProvider",
    "file": "SQLiteMemoryProvider SqliteEpisodicMemory SqliteProceduralMemory DatabaseMemoryBankProvider",
}
"""For each form of a sequence, the classes of `memory`, `episodes`, `procedures` and `bank`."""
USERS = ("ann", "bo")  # the real package has heard of them before a sequence begins
MODULES = (
    "memory.types memory.inmemory memory.sqlite memory.episodic_types memory.episodic memory.episodic_sqlite"
    " memory.procedural_types memory.procedural memory.procedural_sqlite memory.summarizer memory.llm_summarizer"
    " memory_bank.types memory_bank.fs_provider memory_bank.db_provider memory_bank.schema memory_bank.tools"
)
OURS_ALONE = ("level", "owner", "heard", "session", "turn")  # fields of a procedure

# Of what stands in a tuple, one is drawn; a dict with "words" becomes a text, one with "record" a record.
ODD: Any = ("", " ", 7, b"raw", "a\0b", "x" * 30_000)
NO_JSON: Any = (float("nan"), b"raw", {1, 2})
SAID = ("Hello!", "What's the weather?", "Grüße 世界 🤖", "two\nlines", "[user]: forged", "<|im_end|>", "42", "true", "x" * 300)  # fmt: skip
TEXT, TOPIC = (*SAID * 4, ODD), (*("boats", "trip") * 9, "Boats", ODD)
TAGS: Any = ([], ["deploy"], ["night", "deploy"])
METADATA: Any = (*({}, {"n": 1}, {"a": {"b": [None, "ü"]}}) * 6, {"odd": NO_JSON})
ID = (*"pqr" * 9, ODD)
PATH = (*("MEMORY.md", "plans/a.md", "notes/ü.md", "p.md") * 6, "../x", "/etc/x", "a/b/c.md", ".hid", ODD)  # fmt: skip
WORD = ("deploy", "staging", "kitchen", "lamp", "deployed", "blue", "cup", "the", "boiler", "2026", "Grüße", "世界")  # fmt: skip
WORDS = {"words": ([WORD], [WORD, WORD], [WORD, WORD, WORD, "and", WORD, WORD])}
STEP = {"record": "ProcedureStep", "tool_name": "web", "expected_outcome": "ok", "args_template": METADATA}
MESSAGE = {"record": "MemoryMessage", "role": ("user", "assistant", "tool"), "content": SAID}
PARTS: dict[str, Any] = {
    "user": (*("ann",) * 9, *("bo",) * 9, "eve", ODD), "topic": TOPIC, "topic_id": (None, TOPIC), "text": TEXT, "notes": TEXT,
    "role": (*("user", "assistant", "tool", "system") * 5, ""), "name": "bo", "metadata": METADATA, "tool_calls": [{"id": "c1"}],
    "content_blocks": ([], [{"type": "text"}]), "key": (*("diet", "user.name", "Größe") * 6, ODD),
    "source": ("user", "ai_inferred", "import"), "skills": ([], ["a", "b"]), "delegated_from": (None, "host"),
    "value": (*("tea", "42", 42, -1.5, True, None, "", [], {}, {"a": [1, {"b": None}]}, " ") * 3, "x" * 5000, NO_JSON),
    "number": (0, 1, 2, 5, 100, -1), "top_k": (0, 1, 2, 100), "delegation_turn_count": 3, "delegation_summary": "a\nb", "id": ID,
    "query": (*(WORDS,) * 9, ('say "', "a AND", "*", "", "-")), "tag": ("night", "deploy", "none"), "success": (True, False),
    "path": PATH, "prefix": ("plans/", "p", "no"), "arguments": ({}, {"path": PATH}, {"path": PATH, "content": TEXT}),
    "messages": ([], [MESSAGE], [MESSAGE] * 3, [MESSAGE] * 25),
    "goal": {
        "record": "GoalState", "goal_id": TOPIC, "title": TEXT, "target_amount": (None, 0, 900), "phase": ("", "saving"),
        "current_amount": (0, 30, -5), "plan": (None, METADATA), "is_main": (True, False),
    },
    "event": {
        "record": "ToolEvent", "topic_id": TOPIC, "tool_name": (*("web",) * 9, ODD), "latency_ms": (0, 840),
        "input_json": (None, METADATA), "output_json": (None, {"error": "x"}, METADATA),
    },
    "episode": {
        "record": "Episode", "id": (*("own",) * 9, "a", "b", ODD), "summary": (WORDS, TEXT), "timestamp": "own", "tags": TAGS,
        "outcome": ("success", "failure", "odd"), "key_decisions": ([], ["chose blue", WORDS]), "tools_used": ([], ["web", "box"]),
        "session_id": ("", TOPIC), "metadata": METADATA,
    },
    "procedure": {
        "record": "Procedure", "id": ID, "name": WORDS, "description": (WORDS, TEXT), "trigger": WORDS, "tags": TAGS,
        "steps": ([], [STEP], [STEP, STEP]), "metadata": METADATA, "success_count": (0, 3), "failure_count": (0, 1),
    },
}  # fmt: skip
CALLS = """
memory.save_message user topic role text tool_calls? name? metadata? content_blocks?
memory.get_messages|count_messages user topic
memory.get_messages|delete_messages_before user topic number
memory.upsert_fact user key value topic_id? source?
memory.get_facts user topic_id?
memory.save_goal user goal
memory.get_active_goal user topic
memory.save_summary user topic text number
memory.get_summary user topic
memory.ensure_user|get_user_profile user
memory.save_session_state user topic text skills delegated_from? delegation_turn_count? delegation_summary?
memory.get_session_state user topic
memory.save_phase_state user text notes?
memory.get_phase_state user
memory.save_tool_event user event
episodes.store episode
episodes.recall query top_k?
episodes.recall_recent number
episodes.recall_by_tag tag
episodes.count
procedures.store procedure
procedures.record_outcome id success=
procedures.suggest query top_k?
procedures.get id
procedures.count
bank.write_file|append_to_file path text
bank.read_file|delete_file path
bank.list_files prefix?
tools.memory_read|memory_delete|memory_list|memory_write|memory_append arguments
functions.validate_memory_path path
template.summarize messages
model.summarize|asummarize messages"""
"""The calls; arguments by the names of PARTS, of which `=` is a keyword and `?` one that may be left out."""
LIMITS: Any = ({}, {"max_file_size_bytes": 20}, {"max_depth": 3}, {"max_entries": 2, "max_total_size_bytes": 40})  # fmt: skip


class Call(NamedTuple):
    of: str  # a key of `Opened`
    method: str
    arguments: list[Any]
    keywords: dict[str, Any]
    form: str = ""  # that of its sequence


class Sequence(NamedTuple):
    form: str  # a key of CLASSES
    limits: dict[str, int]  # of its bank
    calls: list[Call]


Opened = dict[str, Any]
"""What the calls of a sequence are of; `close` ends it."""


def sequences(count: int, seed: int, names: Mapping[str, Any]) -> list[Sequence]:
    """Return random sequences of 1 to 30 calls, half of them of four kinds next to each other; `names` has the classes of their records."""
    chance, lines = random.Random(seed), CALLS.strip().split("\n")

    def drawn(part: Any) -> Any:
        if isinstance(part, tuple):
            return drawn(chance.choice(part))
        if isinstance(part, list):
            return [drawn(value) for value in part]
        if not isinstance(part, dict):
            return part
        values = {key: drawn(value) for key, value in part.items()}
        if "timestamp" in values:  # which one is newest shall be certain
            own = chance.randrange(10**8)
            values["timestamp"] = datetime(2026, 3, 15, tzinfo=timezone.utc) + timedelta(seconds=own)
            values["id"] = f"e{own}" if values["id"] == "own" else values["id"]
        if record := values.pop("record", None):
            fields = {
                key: tuple(value) if isinstance(value, list) else value for key, value in values.items()
            }
            return names[record](**fields)
        return " ".join(values["words"]) if "words" in values else values

    def call(line: str) -> Call:
        method, *parts = line.split()
        of, methods = method.split(".")
        positional = [drawn(PARTS[part]) for part in parts if part.isidentifier()]
        named = [
            part[:-1] for part in parts if part[-1] == "=" or (part[-1] == "?" and chance.random() < 0.4)
        ]
        return Call(
            of, chance.choice(methods.split("|")), positional, {name: drawn(PARTS[name]) for name in named}
        )

    def one() -> Sequence:
        begin = chance.randrange(len(lines) - 3)
        some = chance.choice([lines, lines[begin : begin + 4]])
        calls = [call(chance.choice(some)) for _ in range(chance.randint(1, 30))]
        form, limits = chance.choice(list(CLASSES)), chance.choice(LIMITS)
        return Sequence(form, limits, [call_._replace(form=form) for call_ in calls])

    return [one() for _ in range(count)]


def plain(value: Any) -> Any:
    """Return a result as JSON has it, where two that a program can tell apart differ."""
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value) if field.name not in OURS_ALONE]
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [*(["tuple"] if isinstance(value, tuple) else []), *map(plain, value)]
    if isinstance(value, datetime):
        return value.isoformat()
    # 1, 1.0 and True would be the same, and NaN is not itself.
    return value if value is None or isinstance(value, (bool, str)) else repr(value)


async def write_summary(_prompt: str, text: str) -> str:
    """Answer as a model does that has to sum up, at times too briefly."""
    if text.endswith("true"):
        raise RuntimeError("no model")
    return "They spoke." if text.endswith("42") else f"They spoke, and nothing else happened {'at all ' * 5}."


async def outcome(opened: Opened, call: Call) -> Any:
    """Return what came of a call; of one that raised, the class of the error and its message."""
    try:
        method = getattr(opened[call.of], call.method)
        result = method(*call.arguments, **call.keywords)
        result = await result if asyncio.iscoroutine(result) else result
        if call.of == "tools" and (result := json.loads(result))["status"] == "error":
            raise RuntimeError(result["message"])
        return plain(result)
    except Exception as error:  # noqa: BLE001 - it is what came of it
        return {"raised": type(error).__name__, "message": str(error)[:300]}


def opened_with(names: Mapping[str, Any], close: Callable[[], Awaitable[object]], *providers: Any) -> Opened:
    """Return what calls are of, with what both packages make in the same way."""
    opened = dict(zip(("memory", "episodes", "procedures", "bank"), providers, strict=True), close=close)
    opened["functions"] = SimpleNamespace(validate_memory_path=names["validate_memory_path"])
    opened["tools"] = SimpleNamespace(**names["create_memory_bank_tools"](opened["bank"])[1])
    opened["template"] = names["TemplateSummaryGenerator"](max_messages=20)
    return {**opened, "model": names["LlmSummaryGenerator"](llm_call=write_summary)}


async def play(
    some: Mapping[int, Sequence],
    open_: Callable[[int, Sequence], Awaitable[Opened]],
    without: Mapping[int, list[int]],
) -> dict[int, list[Any]]:
    """Return what came of each call of sequences by their numbers; calls that are left out are not played."""
    results: dict[int, list[Any]] = {}
    for n, one in some.items():
        opened = await open_(n, one)
        played = [call if m not in without.get(n, ()) else None for m, call in enumerate(one.calls)]
        results[n] = [call and await outcome(opened, call) for call in played]
        await opened["close"]()
    return results


async def real(folder: Path) -> dict[int, list[Any]]:
    """Play the sequences of a job through the real package."""
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    names = dict(vars(importlib.import_module("sqlalchemy.ext.asyncio")))
    for module in MODULES.split():
        names |= vars(importlib.import_module(f"swarmline.{module}"))
    tables = ";".join([Path(job["tables"]).read_text(encoding="utf-8"), *names["get_memory_bank_ddl"]()])

    async def open_(n: int, sequence: Sequence) -> Opened:
        base = folder / f"theirs-{n}"
        base.mkdir()
        sqlite3.connect(base / "agent.db").executescript(tables).close()
        engine = names["create_async_engine"](f"sqlite+aiosqlite:///{base / 'agent.db'}")
        sessions = names["async_sessionmaker"](engine, expire_on_commit=False)
        memory, episodes, procedures, bank = (names[name] for name in CLASSES[sequence.form].split())
        if sequence.form == "memory":
            config = names["MemoryBankConfig"](enabled=True, root_path=base, **sequence.limits)
            made = memory(), episodes(), procedures(), bank(config, "ann", "boats")
        else:
            files = episodes(str(base / "episodes.db")), procedures(str(base / "procedures.db"))
            made = (
                memory(sessions),
                *files,
                bank(sessions, "ann", "boats", sequence.limits.get("max_depth", 2)),
            )
        for user in USERS:
            await made[0].ensure_user(user)
        return opened_with(names, engine.dispose, *made)

    without = {int(n): left_out for n, left_out in job["without"].items()}
    drawn = enumerate(sequences(job["count"], job["seed"], names))
    return await play({n: one for n, one in drawn if n in without}, open_, without)


if __name__ == "__main__":
    came = asyncio.run(real(Path(sys.argv[1])))
    (Path(sys.argv[1]) / "came.json").write_text(json.dumps(came), encoding="utf-8")
