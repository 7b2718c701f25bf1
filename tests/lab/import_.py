"""Moving in from EdgeVox: whether every row arrives as it was, how long it takes, and whether twice is once."""

from __future__ import annotations

import hashlib
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import edgemem
from edgemem.bench.ground import Bar, at_most, median, quiet, report, say, scratch
from edgemem.takeover.edgevox import EdgevoxMemory, import_edgevox
from lab.edgevox_home import AGENTS, EdgevoxHome, edgevox_home

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.memory import Memory
    from edgemem.takeover.scratch import TakeoverReport

SECONDS = 5.0
NEAR_S = 1e-5
"""When something was learnt is a microsecond that no other row has, so it may lie a few behind EdgeVox's."""

TOLD = 5  # differences that are told in full

_TABLES = (
    "fact_keys",
    "facts",
    "doubts",
    "preferences",
    "episodes",
    "sessions",
    "turns",
    "messages",
    "epochs",
    "index_queue",
)


def run(
    *, facts: int = 1000, episodes: int = 500, sessions: int = 100, times: int = 3, home: Path | None = None
) -> dict[str, Any]:
    """Import a home of EdgeVox, as JSON and as databases, compare every row, and import it again."""
    old = edgevox_home(facts=facts, episodes=episodes, sessions=sessions)
    figures: dict[str, Any] = {
        "edgevox": {
            "facts": facts,
            "fact_rows": sum(map(len, old.facts.values())),
            "preferences": len(old.preferences[AGENTS[0]]),
            "episodes": episodes,
            "sessions": sessions,
            "messages": sum(len(session["messages"]) for session in old.sessions.values()),
        },
        "times": times,
    }
    bars: dict[str, Bar] = {}
    with scratch(home) as folder:
        for form, write in (("json", old.write_json), ("sqlite", old.write_sqlite)):
            source = folder / form
            write(source)
            taken = []
            for n in range(times):
                say(f"importing {form}, {n + 1} of {times} …")
                taken.append(_taken(folder / f"{form} {n}", source, old))
            first, second = (median(one[f"{which}_s"] for one in taken) for which in ("first", "second"))
            different = max((one["different"] for one in taken), key=len)
            changed = max((one["changed"] for one in taken), key=len)
            last = taken[-1]
            figures[form] = {
                "first_s": first,
                "second_s": second,
                "first_slowest_s": round(max(one["first_s"] for one in taken), 4),
                "added": last["added"],
                "known": last["known"],
                "rows_compared": last["compared"],
                "rows_different": different[:TOLD],
                "changed_by_the_second": changed,
            }
            bars |= {
                f"{form}_first_s": at_most(first, SECONDS),
                f"{form}_second_s": at_most(second, SECONDS),
                f"{form}_rows_different": at_most(len(different), 0),
                f"{form}_changed_by_the_second": at_most(len(changed), 0),
            }
    return report("import", figures, bars)


def _taken(home: Path, source: Path, old: EdgevoxHome) -> dict[str, Any]:
    files = _digests_of_files(source)
    with edgemem.open(home, profile=quiet(), worker=False) as memory:
        first_s, first = _import(memory, source)
        compared, different = _compare(memory, old)
        different += [*first.refused, *first.remarks]
        before = _digests(memory)
        second_s, second = _import(memory, source)
        after = _digests(memory)
    changed = [name for name in before if before[name] != after[name]]
    changed += [f"{count} {kind} added" for kind, count in second.added.items()]
    if _digests_of_files(source) != files:
        changed.append("the files of EdgeVox")
    return {
        "first_s": first_s,
        "second_s": second_s,
        "added": first.added,
        "known": second.known,
        "compared": compared,
        "different": different,
        "changed": changed,
    }


def _import(memory: Memory, source: Path) -> tuple[float, TakeoverReport]:
    started = perf_counter()
    done = import_edgevox(memory.diagnostics.database, memory.sessions, memory.notes, EdgevoxMemory(source))
    return perf_counter() - started, done


def _compare(memory: Memory, old: EdgevoxHome) -> tuple[dict[str, int], list[str]]:
    """Hold every row of EdgeVox's against what is here; return how many of each kind, and what differs."""
    compared: dict[str, int] = {}
    different: list[str] = []
    for kind, name, was, now in _pairs(memory, old):
        compared[kind] = compared.get(kind, 0) + 1
        if was != now:
            different.append(f"{kind} {name!r:.60}: {was!r:.120} became {now!r:.120}")
    return compared, different


def _pairs(memory: Memory, old: EdgevoxHome) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield kind, name, what EdgeVox has and what is here; rows that only one of them has are pairs with None."""
    versions = [row for rows in old.facts.values() for row in rows]
    by_key: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in versions:
        by_key.setdefault((row["scope"], row["key"]), []).append(row)
    for (scope, key), rows in by_key.items():
        history = memory.store.fact_history(key, scope=scope)
        for row, fact, following in _side_by_side(rows, history, rows[1:]):
            was = row and (*_said(row), following is not None)
            here = fact and (fact.value, fact.source, fact.valid_from, fact.valid_to)
            now = here and (*here, _near(fact.recorded_at, fact.valid_from), fact.superseded_by is not None)
            yield "fact", key, was, now
    holding = {(row["scope"], row["key"]): row["value"] for row in versions if row["valid_to"] is None}
    yield "facts that hold", "all", holding, {(f.scope, f.key): f.value for f in memory.store.facts()}
    yield (
        "fact versions",
        "all",
        len(versions),
        _count(memory, "facts where id = origin and value is not null"),
    )

    newest = {row["key"]: row for agent in reversed(AGENTS) for row in old.preferences[agent]}
    kept = {preference.key: preference for preference in memory.store.preferences()}
    for key in newest.keys() | kept.keys():
        wish, here = newest.get(key), kept.get(key)
        was = wish and (wish["value"], True)
        now = here and (here.value, wish is not None and _near(here.updated_at, wish["updated_at"]))
        yield "preference", key, was, now

    lived = sorted((row for rows in old.episodes.values() for row in rows), key=lambda row: row["timestamp"])
    for row, episode, _ in _side_by_side(lived, memory.store.recent_episodes(len(lived) + 1), ()):
        was = row and tuple(row[part] for part in ("kind", "payload", "outcome", "agent", "timestamp"))
        here = episode and (episode.kind, episode.payload, episode.outcome, episode.agent)
        yield (
            "episode",
            str(was and was[-1]),
            was,
            here and (*here, episode.heard and episode.heard.event_time),
        )

    for name in old.sessions.keys() | set(memory.sessions.list_ids()):
        session = memory.sessions.load(name)
        yield (
            "session",
            name,
            old.sessions.get(name),
            session and {"messages": session.messages, "state": session.state},
        )
    written = "".join(old.notes[agent] for agent in sorted(old.notes))
    # How many empty lines part two files is no part of either.
    yield "notes", "NOTES.md", _lines(written), _lines(memory.notes.read())


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


def _side_by_side(*lists: Any) -> Iterator[tuple[Any, ...]]:
    longest = max(map(len, lists))
    for n in range(longest):
        yield tuple(rows[n] if n < len(rows) else None for rows in lists)


def _said(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return what must be here: value, source, both ends, and that it was learnt when it became true."""
    return row["value"], row["source"], row["valid_from"], row["valid_to"], True


def _near(recorded_at: float, given: float | None) -> bool:
    return given is not None and abs(recorded_at - given) <= NEAR_S


def _count(memory: Memory, what: str) -> int:
    return int(memory.diagnostics.database.query(f"select count(*) from {what}")[0][0])


def _digests(memory: Memory) -> dict[str, str]:
    found = {}
    for table in _TABLES:
        rows = memory.diagnostics.database.query(f"select * from {table} order by 1, 2")
        found[table] = hashlib.sha256(repr(rows).encode("utf-8", "backslashreplace")).hexdigest()
    found["notes"] = hashlib.sha256(memory.notes.read().encode()).hexdigest()
    return found


def _digests_of_files(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
