"""What EdgeVox wrote: its JSON and SQLite files and its notes, read as far as they can be read, never changed.

Layouts of EdgeVox 1.3: a memory is `{"facts": […], "preferences": […], "episodes": […]}` or a database with these
tables; a conversation is `<id>.json` with `{"messages": […], "state": {…}}` or a row of the table `sessions`; notes
are Markdown. Of JSON that was cut short, the whole records before the cut are read.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import EdgememError, InvalidInputError
from edgemem.store.db.database import read_foreign

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MAX_BYTES = 256 * 1024 * 1024

_SQLITE = b"SQLite format 3\x00"
_MEMORY = ("facts", "preferences", "episodes")
_BESIDE = ("-wal", "-shm", "-journal", ".lock")
"""Ends of names of files that belong to the one beside them."""


class OldFact(msgspec.Struct):
    """One row of EdgeVox's facts, in the order in which it was written."""

    key: str
    value: str
    scope: str
    source: str
    valid_from: float
    valid_to: float | None
    file: int
    """Which file it stands in."""


class OldSession(msgspec.Struct):
    """One conversation."""

    id: str
    messages: list[Any]
    state: dict[str, Any]
    updated_at: float


class Found(msgspec.Struct):
    """Everything that was read, and what was not."""

    facts: list[OldFact] = []
    preferences: dict[str, tuple[str, float]] = {}
    episodes: list[tuple[float, str, Any, str, str]] = []
    """Time, kind, payload, outcome, agent."""
    sessions: list[OldSession] = []
    notes: list[str] = []
    files: dict[str, dict[str, int]] = {}
    """What each file holds."""
    told: list[str] = []
    """What was skipped or mended, and why: one sentence each."""


def read_edgevox(path: Path) -> Found:
    """Read a file, or every file in a folder of EdgeVox's memory.

    Raises:
        InvalidInputError: there is nothing, or the one file holds nothing of EdgeVox's; in a folder such files are skipped.
    """
    if not path.exists():
        raise InvalidInputError(f"There is nothing at {path}; EdgeVox keeps its memory in ~/.edgevox/memory.")
    found = Found()
    if not path.is_dir():
        try:
            _read_file(found, path, path.name)
        except (EdgememError, OSError) as error:
            raise InvalidInputError(f"{path} was not taken in: {error}") from error
        return found
    for file in sorted(path.rglob("*")):
        if file.is_dir() or file.name.endswith(_BESIDE):
            continue
        try:
            _read_file(found, file, str(file.relative_to(path)))
        except (EdgememError, OSError) as error:
            found.told.append(f"{file} was skipped: {error}")
    return found


def _read_file(found: Found, file: Path, name: str) -> None:
    with file.open("rb") as opened:
        head = opened.read(len(_SQLITE))
    if head == _SQLITE:
        _read_database(found, file, name)
        return
    if file.stat().st_size > MAX_BYTES:
        raise InvalidInputError(f"it has more than {MAX_BYTES:,} bytes.")
    if file.suffix.lower() == ".tmp":
        raise InvalidInputError("EdgeVox had not finished writing it.")
    text = file.read_bytes().decode("utf-8-sig", "replace")
    if file.suffix.lower() in (".md", ".txt"):
        found.notes.append(text)
        found.files[name] = {"notes": 1}
    elif text.lstrip()[:1] == "{":
        _read_json(found, file, name, text)
    else:
        raise InvalidInputError("it is no memory, conversation or notes of EdgeVox.")


# JSON


def _read_json(found: Found, file: Path, name: str, text: str) -> None:
    if _is_export(text):
        raise InvalidInputError(f"it is an export of edgemem, which is taken in with: edgemem import {file}")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = _whole_records(text)
        count = sum(map(len, data.values()))
        found.told.append(f"{name} is damaged; of its records, those before the damage were read: {count}.")
    if isinstance(data.get("messages"), list):
        state = data.get("state", {})
        if not isinstance(state, dict):
            found.told.append(
                f"The state of the conversation {file.stem!r:.80} was skipped: it is no object."
            )
            state = {}
        updated_at = file.stat().st_mtime  # EdgeVox writes no time into it
        found.sessions.append(OldSession(file.stem, data["messages"], state, updated_at))
        found.files[name] = {"sessions": 1}
    elif any(isinstance(data.get(part), list) for part in _MEMORY):
        _read_memory(found, name, {part: _rows(found, name, part, data.get(part, [])) for part in _MEMORY})
    else:
        raise InvalidInputError("it holds neither a memory nor a conversation.")


def _is_export(text: str) -> bool:
    try:
        first = json.loads(text.lstrip().partition("\n")[0])
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and first.get("record") == "edgemem"


def _rows(found: Found, name: str, part: str, listed: Any) -> list[dict[str, Any]]:
    """Return the entries of a list that are objects, and tell of the others."""
    if not isinstance(listed, list):
        found.told.append(f"The {part} of {name} were skipped: they are no list.")
        return []
    for n, entry in enumerate(listed, 1):
        if not isinstance(entry, dict):
            found.told.append(f"Entry {n} of the {part} of {name} was skipped: it is no object.")
    return [entry for entry in listed if isinstance(entry, dict)]


def _whole_records(text: str) -> dict[str, list[Any]]:
    """Return the lists of records of JSON that cannot be read to its end."""
    decode = json.JSONDecoder().raw_decode
    records: dict[str, list[Any]] = {}
    at = 0
    for part in ("messages", *_MEMORY):
        begin = re.compile(rf'(?<!\\)"{part}"\s*:\s*\[').search(text, at)
        if begin is None:
            continue
        at = begin.end()
        records[part] = []
        while next_one := re.compile(r"[\s,]*(?=\{)").match(text, at):
            try:
                record, at = decode(text, next_one.end())
            except (ValueError, RecursionError):
                break
            records[part].append(record)
    return records


# SQLite


def _read_database(found: Found, file: Path, name: str) -> None:
    with read_foreign(file) as select:
        tables = {row["name"] for row in select("select name from sqlite_master where type = 'table'")}
        if "migrations" in tables:
            raise InvalidInputError("edgemem wrote it; open its home instead.")
        if not tables & {"facts", "sessions"}:
            raise InvalidInputError("it is no database of EdgeVox.")
        if "facts" in tables:
            rows = {
                part: select(f"select * from {part} order by rowid")  # noqa: S608 - our own constants
                for part in _MEMORY
                if part in tables
            }
            _read_memory(found, name, rows)
        if "sessions" in tables:
            _read_sessions(found, name, select)


def _read_sessions(found: Found, name: str, select: Callable[[str], list[dict[str, Any]]]) -> None:
    count = 0
    for row in select("select * from sessions order by updated_at, rowid"):
        try:
            messages, state = json.loads(row["messages"]), json.loads(row["state"])
        except (ValueError, TypeError, RecursionError):
            found.told.append(f"The conversation {row['session_id']!r} of {name} was skipped: it is damaged.")
            continue
        if not isinstance(messages, list):
            found.told.append(
                f"The conversation {row['session_id']!r} of {name} was skipped: it is no list of messages."
            )
            continue
        if not isinstance(state, dict):
            found.told.append(f"The state of the conversation {row['session_id']!r} of {name} was skipped.")
            state = {}
        count += 1
        found.sessions.append(
            OldSession(str(row["session_id"]), messages, state, _time(row.get("updated_at")) or 0.0)
        )
    found.files.setdefault(name, {})["sessions"] = count


# Rows of both


def _read_memory(found: Found, name: str, rows: dict[str, list[dict[str, Any]]]) -> None:
    before = len(found.facts), len(found.episodes)
    for row in rows.get("facts", ()):
        if row.get("key") is None or row.get("value") is None:
            found.told.append(f"A fact of {name} was skipped: it has no key or no value.")
            continue
        found.facts.append(
            OldFact(
                key=_text(row["key"]),
                value=_text(row["value"]),
                scope=_text(row.get("scope") or "global"),
                source=_text(row.get("source") or ""),
                valid_from=_time(row.get("valid_from")) or _time(row.get("updated_at")) or 0.0,
                # A fact that was invalidated is over, also where an older EdgeVox kept no end.
                valid_to=next(
                    (
                        end
                        for end in map(_time, (row.get("valid_to"), row.get("invalidated_at")))
                        if end is not None
                    ),
                    None,
                ),
                file=len(found.files),
            )
        )
    preferences = rows.get("preferences", ())
    for row in preferences:
        if row.get("key") is None or row.get("value") is None:
            found.told.append(f"A preference of {name} was skipped: it has no key or no value.")
            continue
        key, value, at = _text(row["key"]), _text(row["value"]), _time(row.get("updated_at")) or 0.0
        earlier, earlier_at = found.preferences.get(key, (value, at))
        if earlier != value:
            found.told.append(f"The preference {key!r:.80} stands there twice; the newer value was taken.")
        if earlier_at <= at:
            found.preferences[key] = (value, at)
    for row in rows.get("episodes", ()):
        if row.get("kind") is None:
            found.told.append(f"An episode of {name} was skipped: it has no kind.")
            continue
        payload = row.get("payload")
        if "payload_json" in row:
            try:
                payload = json.loads(row["payload_json"])
            except (ValueError, TypeError, RecursionError):
                found.told.append(f"The payload of an episode of {name} is damaged; it is kept as text.")
                payload = {"text": _text(row["payload_json"])}
        found.episodes.append(
            (
                _time(row.get("timestamp")) or 0.0,
                _text(row.get("kind")),
                payload,
                _text(row.get("outcome") or ""),
                _text(row.get("agent") or ""),
            )
        )
    facts, episodes = len(found.facts) - before[0], len(found.episodes) - before[1]
    found.files[name] = {"facts": facts, "preferences": len(preferences), "episodes": episodes}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _time(value: Any) -> float | None:
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return seconds if math.isfinite(seconds) else None
