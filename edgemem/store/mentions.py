"""Mentions: where a name stands in what others said, and in notes. Forgetting a person tells of these and erases none.

What somebody else said is theirs, and only a person can tell whether the Ann of a note is that Ann.

Logs of JSON lines, such as the audit log's: the lines of a person or session are taken out of all its files. A program that is
writing meanwhile finds another file under the name and goes on there; one that takes a shared `flock` around each write, as the
audit log's hook does, loses no line.
"""

from __future__ import annotations

import fcntl
import glob
import json
import os
import re
from typing import TYPE_CHECKING, Literal
from unicodedata import normalize

import msgspec

from edgemem.errors import StoreError
from edgemem.scopes import name_key
from edgemem.store.db.files import write_private

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from edgemem.store.db.database import Database
    from edgemem.store.notes import NotesFile


Where = Literal["note", "fact", "preference", "turn", "summary", "episode"]

TEXT_CHARS = 200
"""Longer text is cut."""

_ROWS_AT_ONCE = 2000


class Mention(msgspec.Struct, frozen=True):
    """One place where a name stands."""

    kind: Where
    where: str
    """A line's number in NOTES.md, a scope, or a conversation and its turn."""
    text: str
    by: str = ""
    """Who said it, where that is known."""


class Mentions(msgspec.Struct, frozen=True):
    """The first of them, and how many there are."""

    quoted: tuple[Mention, ...] = msgspec.field(default=(), name="found")  # its name in JSON
    count: int = 0


_PLACES: dict[Where, str] = {
    "fact": """
      select f.id, k.scope, k.key || ': ' || f.value, f.speaker
      from facts f join fact_keys k on k.id = f.key_id
      where f.id > ? and f.known_to is null and f.value is not null order by f.id limit ?
    """,
    "turn": """
      select m.id, s.name || ' ' || m.turn, m.content, case m.role when 'user' then t.speaker else m.role end
      from messages m join sessions s on s.id = m.session_id
        left join turns t on t.session_id = m.session_id and t.n = m.turn
      where m.id > ? and m.content is not null order by m.id limit ?
    """,
    "episode": "select id, kind, payload || ' ' || outcome, speaker from episodes where id > ? order by id limit ?",
    "summary": """
      select e.id, s.name, e.summary, '' from epochs e join sessions s on s.id = e.session_id
      where e.id > ? and e.summary <> '' order by e.id limit ?
    """,
}


def find_mentions(
    db: Database, names: Iterable[str], *, notes: NotesFile | None = None, most: int = 50
) -> Mentions:
    """Return where any of these names stands as a word of its own.

    Args:
        names: a person's name, and what else they are called.
        most: how many are quoted; all are counted.
    """
    alternatives = "|".join(re.escape(normalize("NFC", name.strip())) for name in names if name.strip())
    if not alternatives:
        return Mentions()
    pattern = re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)", re.IGNORECASE)
    quoted: list[Mention] = []
    count = 0
    for mention in _everything(db, notes):
        text = normalize("NFC", mention.text)
        if (match := pattern.search(text)) is not None:
            count += 1
            if len(quoted) < most:
                begin = max(0, match.start() - TEXT_CHARS // 2)
                end = begin + TEXT_CHARS
                around = " ".join(text[begin:end].split())
                cut = ("…" if begin else "") + around + ("…" if end < len(text) else "")
                quoted.append(msgspec.structs.replace(mention, text=cut))
    return Mentions(tuple(quoted), count)


def _everything(db: Database, notes: NotesFile | None) -> Iterator[Mention]:
    if notes is not None:
        for n, text in enumerate(notes.read().splitlines(), 1):
            yield Mention("note", str(n), text)
    for scope, key, value in db.query("select scope, key, value from preferences"):
        yield Mention("preference", scope, f"{key}: {value}")
    for kind, sql in _PLACES.items():
        last = 0
        while rows := db.query(sql, (last, _ROWS_AT_ONCE)):
            last = rows[-1][0]
            for _, where, text, by in rows:
                yield Mention(kind, where, text, by or "")


def forget_in_log(path: Path, field: str, name: str) -> int:
    """Erase the lines that bear a name in a field from a log and its older files (`path.1`, …); return how many.

    Raises:
        StoreError: a file cannot be read or replaced; the others are done.
    """
    erased, count = 0, 1
    while count:  # a log that was shifted meanwhile has a file under a name that was looked at before
        older = path.parent.glob(f"{glob.escape(path.name)}.*")
        faults: list[str] = []
        count = 0
        for file in (path, *sorted(file for file in older if file.name[len(path.name) + 1 :].isdigit())):
            count += _erase_in(file, field, name, faults)
        erased += count
    if faults:
        raise StoreError(f"Lines of {name} could not be erased from {', '.join(faults)}.")
    return erased


def _erase_in(path: Path, field: str, name: str, faults: list[str]) -> int:
    try:
        return _rewrite(path, field, name)
    except FileNotFoundError:
        return 0
    except OSError as error:
        faults.append(f"{path} ({error.strerror})")
        return 0


def _rewrite(path: Path, field: str, name: str) -> int:
    with path.open("rb") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        if not os.path.samestat(path.stat(), os.fstat(log.fileno())):
            return _rewrite(path, field, name)  # it was shifted while we waited
        lines = log.read().splitlines(keepends=True)
        kept = [line for line in lines if not _is_of(line, field, name)]
        if len(kept) < len(lines):
            write_private(path, b"".join(kept), part=path.with_name(f".{path.name}.part"))
    return len(lines) - len(kept)


def _is_of(line: bytes, field: str, name: str) -> bool:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return False
    value = entry.get(field) if isinstance(entry, dict) else None
    return value == name or (field == "speaker" and bool(value) and name_key(str(value)) == name_key(name))
