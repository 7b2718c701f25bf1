"""Random calls of Engrava's store, and what plays them: the peer's own Python runs this file too.

`engrava_calls.py FOLDER` plays the sequences of `job.json` through the real package, or puts its frozen questions to it, and writes
what came of each to `came.json`. It imports nothing of edgemem. Each sequence has a database of its own.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import random
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import datetime, timedelta, timezone
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

# Of what stands in a tuple, one is drawn, and seldom one of `odd`; a name with ? may be left out, and a "record" becomes one.


def odd(usual: Any, *values: Any) -> dict[str, Any]:
    """Return a part that is mostly usual."""
    return {"usual": usual, "odd": values}


WORDS = ("teapot", "ladder", "violin", "granite", "harbour", "lantern", "pepper", "saddle")
CONTENT: Any = odd(
    ("teapot ladder", "violin granite", "harbour lantern", "pepper saddle teapot", "ladder granite lantern"),
    "Teapot, ladder!", "Grüße 世界 🤖", "two\nlines", "x" * 3000, "", " ", 7,
)  # fmt: skip
ID: Any = odd(tuple("aaabbbccddeefgh"), "new0", "new1", "nobody", "", "fact:1", "x" * 300, 7)
TIME = odd(
    ("2019-01-01T00:00:00+00:00", "2020-06-01", "2033-01-01T00:00:00Z", "2034-05-05T10:00:00+02:00"),
    "soon",
    "",
)
METADATA: Any = odd(
    ({}, {"room": "hall"}, {"room": "kitchen", "floor": 2}, {"a": {"b": True}}),
    {"n": float("nan")},
    {"l": [1]},
)
TYPE = odd(("TASK", "OBSERVATION", "BELIEF", "OUTPUT_DRAFT", "NOTE"), "REFLECTION", "IDEA")
PRIORITY = odd(("P1", "P2", "P3", "P4"), "P5")
STATUS = odd(("CREATED", *["ACTIVE"] * 4, "DONE", "ARCHIVED"), "active")
SHARE, CYCLE = odd((0.0, 0.5, 1.0), 2, -0.1), odd((1, 2, 3, 9), -1)
VISIBILITY, KNOWN = (
    ("private", "selective", "public"),
    ("EXPERIENCE", "SEEDED_LLM", "DISTILLED_LLM", "DREAMING"),
)
THOUGHT = {
    "record": "ThoughtRecord", "thought_id": ID, "thought_type": TYPE, "essence": odd(CONTENT, "", "x" * 201),
    "content": CONTENT, "priority": PRIORITY, "lifecycle_status": STATUS, "source": odd(("ingest", "human"), ""),
    "created_cycle?": CYCLE, "confidence?": SHARE, "source_type?": KNOWN, "visibility?": VISIBILITY, "metadata?": METADATA,
    "expires_at?": TIME, "valid_from?": TIME, "valid_until?": TIME, "pinned?": True, "confirmation_count?": (0, 3),
    "consolidated_from?": (["a", "b"],),
}  # fmt: skip
EDGE_ID = ("e1", "e2", "e3")
TYPES = odd(("ASSOCIATED", "DEPENDS_ON", "DERIVED_FROM", "CONTESTED_BY", "BRIDGE"), "LIKES")
EDGE = {
    "record": "EdgeRecord", "edge_id": EDGE_ID, "from_thought_id": ID, "to_thought_id": ID, "edge_type": TYPES, "weight": SHARE,
    "created_cycle": odd((0, 1, 2, 9), -1), "source?": KNOWN, "valid_from?": TIME, "valid_until?": TIME, "metadata?": METADATA,
}  # fmt: skip
CHANGES = {
    "essence?": THOUGHT["essence"], "content?": CONTENT, "priority?": PRIORITY, "lifecycle_status?": STATUS,
    "updated_cycle?": CYCLE, "confidence?": SHARE, "visibility?": VISIBILITY, "metadata?": METADATA, "pinned?": (True, False),
    "expires_at?": TIME, "valid_until?": TIME, "thought_type?": TYPE,
}  # fmt: skip
SEARCH = {"top_k": 100, "include_archived?": True}
CALLS: tuple[tuple[str, list[Any], dict[str, Any]], ...] = (
    ("remember", [CONTENT], {"metadata?": METADATA, "deduplicate?": True}),
    *[("create_thought", [THOUGHT], {"expires_after_seconds?": (3600, -5), "deduplicate?": True})] * 5,
    ("get_or_create", [THOUGHT], {}),
    ("upsert_by_hash", [THOUGHT], {}),
    ("bulk_store", [([THOUGHT, THOUGHT], [])], {"deduplicate?": True}),
    ("get_thought", [ID], {}),
    *[("update_thought", [ID], CHANGES)] * 2,
    ("restore_thought", [ID], {"current_cycle?": (4, 30)}),
    ("invalidate_thought", [ID, TIME], {}),
    ("delete_thought", [ID], {}),
    ("list_thoughts", [], {
        "priority?": "P2", "lifecycle_status?": "ACTIVE", "thought_type?": "NOTE", "min_cycle?": 2, "max_cycle?": 3,
        "visibility?": "selective", "exclude_visibility?": "private", "include_expired?": True, "limit?": (1, 2, 50), "offset?": 1,
    }),
    ("count_thoughts", [], {"lifecycle_status?": "ACTIVE", "thought_type?": "NOTE", "priority?": "P2", "include_expired?": True}),
    ("max_cycle", [], {}),
    ("thought_exists_by_source", [], {"source": ("ingest", "no"), "thought_type_value": "NOTE"}),
    *[("create_edge", [EDGE], {})] * 3,
    ("update_edge", [EDGE_ID], {"weight?": SHARE, "valid_until?": TIME, "metadata?": METADATA, "source?": KNOWN}),
    ("invalidate_edge", [EDGE_ID, TIME], {}),
    ("get_edges", [ID], {"direction?": odd(("IN", "OUT", "BOTH"), "UP")}),
    ("list_edges", [], {"edge_type?": "ASSOCIATED", "source?": "EXPERIENCE"}),
    ("delete_edge", [EDGE_ID], {}),
    *[("search_hybrid", [WORDS], {**SEARCH, "include_reflections?": False})] * 2,
    ("search_fts", [WORDS], SEARCH),
    ("search_reflections_only", [WORDS], {"top_k": 100}),
    ("cleanup_expired", [], {"now?": ("2025-01-01T00:00:00+00:00", "2033-06-01"), "exclude_id?": ID}),
    ("record_access", [ID], {}),
)  # fmt: skip
"""The calls: method, arguments, and keywords, of which those with ? may be left out."""
DROPPED = {
    "embedding_ref", "action_outcome_score", "provenance", "owner", "aloud", "decay_multiplier", "level", "last_accessed_at",
    "access_count", "timestamp",
}  # fmt: skip
"""Fields that only one of both has, or that a moment tells."""
CYCLES = ("created_cycle?", "updated_cycle?", "current_cycle?")
ODD, SHARE_GIVEN = 0.01, 0.2
UUID_CHARS = 36
ENUMS = {
    "edge_type": "EdgeType", "source": "KnowledgeSource", "lifecycle_status": "LifecycleStatus", "priority": "Priority",
    "thought_type": "ThoughtType",
}  # fmt: skip


class Call(NamedTuple):
    method: str
    arguments: list[Any]
    keywords: dict[str, Any]


Sequence = list[Call]


def sequences(count: int, seed: int) -> list[Sequence]:
    """Return random sequences of 1 to 30 calls; in half of them, no thought has a cycle of its own."""
    chance = random.Random(seed)

    def drawn(part: Any, without: Collection[str]) -> Any:
        if isinstance(part, dict) and "usual" in part:
            return drawn(part["odd" if chance.random() < ODD else "usual"], without)
        if isinstance(part, tuple):
            return drawn(chance.choice(part), without)
        if isinstance(part, list):
            return [drawn(value, without) for value in part]
        if not isinstance(part, dict):
            return part
        return {
            name.rstrip("?"): drawn(value, without)
            for name, value in part.items()
            if name not in without and (name[-1] != "?" or chance.random() < SHARE_GIVEN)
        }

    def one() -> Sequence:
        without = CYCLES if chance.random() < 0.5 else ()
        begun: list[tuple[Any, Any, Any]] = [
            (CALLS[1][0], [{**THOUGHT, "thought_id": name}], {}) for name in "ab"
        ]
        some = [*begun, *(chance.choice(CALLS) for _ in range(chance.randint(1, 28)))]
        return [
            Call(method, drawn(given, without), drawn(keywords, without)) for method, given, keywords in some
        ]

    return [one() for _ in range(count)]


def plain(value: Any, ids: Mapping[str, str]) -> Any:
    """Return a result as JSON has it: what is of this day as `now`, ids that were drawn by their names here."""
    if hasattr(value, "model_dump"):
        return plain(dict(value), ids)
    if hasattr(value, "__struct_fields__"):
        return plain({name: getattr(value, name) for name in value.__struct_fields__}, ids)
    if hasattr(value, "results"):
        return [name for name, _ in plain(value.results, ids)]
    if hasattr(value, "_asdict") or hasattr(value, "__dataclass_fields__"):
        fields = value._asdict() if hasattr(value, "_asdict") else vars(value)
        return plain(dict(fields), ids)
    if isinstance(value, dict):
        given = {str(name): plain(part, ids) for name, part in value.items() if name not in DROPPED}
        return {**given, **({"consolidated_from": given["consolidated_from"] or []} if "consolidated_from" in given else {})}  # fmt: skip
    if isinstance(value, (list, tuple)):
        return [plain(part, ids) for part in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str):
        return ids.get(value, "now" if _is_now(value) else value)
    return value if value is None or isinstance(value, bool) else repr(value)


def _is_now(text: str) -> bool:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return False
    return moment.tzinfo is not None and abs(moment - datetime.now(timezone.utc)) < timedelta(days=1)


async def outcome(store: Any, call: Call, names: Mapping[str, Any], ids: dict[str, str]) -> Any:
    """Return what came of a call; of one that raised, the class of the error and its message. `ids` learns new ones."""
    real = {shown: name for name, shown in ids.items()}

    def given(value: Any) -> Any:
        if isinstance(value, list):
            return [given(part) for part in value]
        if isinstance(value, dict):
            values = {name: given(part) for name, part in value.items()}
            return names[values.pop("record")](**values) if "record" in values else values
        return real.get(value, value) if isinstance(value, str) else value

    try:
        arguments, keywords = given(call.arguments), given(call.keywords)
        if call.method == "list_edges":
            keywords = {name: names[ENUMS[name]](value) for name, value in keywords.items()}
        result = await getattr(store, call.method)(*arguments, **keywords)
        if call.method == "remember" and len(result.thought_id) == UUID_CHARS:
            ids.setdefault(result.thought_id, f"new{len(ids)}")
        came = plain(result, ids)
    except Exception as error:  # noqa: BLE001 - it is what came of it
        return {"raised": type(error).__name__, "message": str(error)[:300]}
    if call.method.startswith("search_") and isinstance(came, list):
        ranked = [one[0] if isinstance(one, list) else one for one in came]
        stored = await store.list_thoughts(include_expired=True, limit=1000)
        return {"ranked": ranked, "stored": {one["thought_id"]: one for one in plain(stored, ids)}}
    return came


async def play(
    some: Mapping[int, Sequence],
    open_: Callable[[], Awaitable[tuple[Any, Callable[[], Awaitable[object]]]]],
    names: Mapping[str, Any],
    without: Mapping[int, list[int]],
) -> dict[int, list[Any]]:
    """Return what came of each call of sequences by their numbers; calls that are left out are not played."""
    results: dict[int, list[Any]] = {}
    for n, calls in some.items():
        store, close = await open_()
        ids: dict[str, str] = {}
        played = [call if m not in without.get(n, ()) else None for m, call in enumerate(calls)]
        results[n] = [call and await outcome(store, Call(*call), names, ids) for call in played]
        await close()
    return results


async def ask(
    store: Any, conversations: list[Any], names: Mapping[str, Any], ready: Callable[[], Awaitable[object]]
) -> list[list[list[str]]]:
    """Tell the store the turns of conversations, and return for each question the turns expected and the five found, by their ids."""
    cycle, answers = 0, []
    expected: dict[str, list[str]] = {}
    for n, one in enumerate(conversations):
        for turn in one["turns"]:
            cycle += 1
            text, fact = turn["text"], turn["fact_id"]
            name = f"turn {n} {turn['turn_index']}"
            await store.create_thought(
                names["ThoughtRecord"](
                    thought_id=name, thought_type="OBSERVATION", essence=text[:200], content=text, priority="P3",
                    lifecycle_status="ACTIVE", created_cycle=cycle, updated_cycle=cycle, source="synthetic-benchmark", confidence=0.9,
                )
            )  # fmt: skip
            if fact is not None:
                expected.setdefault(fact, []).append(name)
        await ready()
        for question in one["questions"]:
            found = await store.search_hybrid(question["question_text"], top_k=5)
            turns = [name for fact in question["expected_fact_ids"] for name in expected.get(fact, [])]
            answers.append([turns, [name for name, _ in found.results]])
    return answers


def frozen() -> list[Any]:
    """Return the conversations of Engrava's frozen set, which is in its package."""
    files = importlib.import_module("importlib.resources").files("engrava.benchmarks.synthetic.datasets")
    return list(json.loads((files / "synthetic-v1.json").read_text(encoding="utf-8")))


async def open_real(names: Mapping[str, Any], **settings: Any) -> tuple[Any, Callable[[], Awaitable[object]]]:
    """Open the real store in memory."""
    aiosqlite = importlib.import_module("aiosqlite")
    connection = await aiosqlite.connect(":memory:")
    connection.row_factory = aiosqlite.Row
    store = names["SqliteEngravaCore"](connection, **settings)
    await store.ensure_schema()
    return store, connection.close


async def main(folder: Path) -> Any:
    """Do a job with the real package: give its frozen set, put that to it, or play sequences."""
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    names = vars(importlib.import_module("engrava"))
    if job["do"] == "frozen":
        return frozen()
    if job["do"] == "ask":
        settings = {}
        if vectors := job["vectors"]:
            given = names["CallbackProvider"](
                vectors.__getitem__, model_name="same", dimension=len(next(iter(vectors.values())))
            )
            settings = {"embedding_provider": given, "auto_embed": True}
        answers = []
        for conversations in job["stores"]:
            store, close = await open_real(names, **settings)
            answers += await ask(store, conversations, names, lambda: asyncio.sleep(0))
            await close()
        return answers
    some = {int(n): [Call(*call) for call in calls] for n, calls in job["sequences"].items()}
    without = {int(n): left_out for n, left_out in job["without"].items()}
    return await play(some, lambda: open_real(names), names, without)


if __name__ == "__main__":
    came = asyncio.run(main(Path(sys.argv[1])))
    (Path(sys.argv[1]) / "came.json").write_text(json.dumps(came), encoding="utf-8")
