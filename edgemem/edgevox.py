"""Taking over what EdgeVox remembers: the same values, at the same times, as history.

All files are merged by time in a scratch truth, whose clock shows when EdgeVox wrote, and come from there into the
memory as an export does: in one transaction, and a second time without effect. EdgeVox has one time only, which
becomes both: when something was true, and when it was learnt.

Its faults are mended on the way, and told: where several values of a fact were active at once, the one written last
holds; where the clock had been set back, what was written later still replaces what was written before.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.clock import Clock
from edgemem.edgevox_files import Found, OldFact, OldSession, read_edgevox
from edgemem.errors import InvalidInputError
from edgemem.fence import storable
from edgemem.records import Heard, Session
from edgemem.store import facts, messages, preferences
from edgemem.store.db.database import Database
from edgemem.store.db.transaction import Transaction
from edgemem.store.episodes import append_episode
from edgemem.store.sessions import SQLiteSessionStore
from edgemem.store.transfer.export import export_lines
from edgemem.store.transfer.merge import LEAP_US, ImportReport, import_lines, take_notes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.store.notes import NotesFile


class EdgevoxReport(msgspec.Struct):
    """What was found, what came of it, and what was skipped or mended."""

    files: dict[str, dict[str, int]]
    """What each file holds."""
    added: dict[str, int]
    known: dict[str, int]
    refused: list[str]
    """What excludes what is here, which stays."""
    told: list[str]
    """What was skipped or mended, and why."""


class _Event(NamedTuple):
    """A fact was given a value, or None, at a moment."""

    at: float
    order: int
    fact: OldFact
    value: str | None
    valid_from: float


class _ThenClock(Clock):
    """Shows when EdgeVox wrote what is being taken over; ticks still never repeat.

    Args:
        latest: microseconds; what claims to be later has no time at all.
    """

    def __init__(self, latest: int) -> None:
        super().__init__()
        self._latest = latest
        self._shown = self._last = 0

    def show(self, at: float) -> None:
        """Set it to a moment."""
        self._shown = int(at * 1e6) if 0 < at * 1e6 <= self._latest else 0

    def rewind(self) -> None:
        """Begin again, for rows of another table."""
        self._shown = self._last = 0

    def now(self) -> float:
        """Return the moment that it shows."""
        return max(self._shown, self._last) / 1e6

    def tick(self, *, after: int = 0) -> int:
        """Return a tick of the moment that it shows, or the next one behind the last."""
        self._last = max(self._last + 1, after + 1, self._shown)
        return self._last

    def witness(self, tick: int) -> None:
        """Take no note: what it shows is the past."""


def import_edgevox(db: Database, sessions: SQLiteSessionStore, notes: NotesFile, path: Path) -> EdgevoxReport:
    """Take over a file of EdgeVox's, or the folder of its memory, which is only read."""
    found = read_edgevox(path.expanduser())
    known = ImportReport()
    fresh = [session for session in found.sessions if _is_new(session, sessions, known, found.told)]
    with tempfile.TemporaryDirectory(prefix=".edgevox-", dir=db.path.parent) as folder:
        then = _ThenClock(int(db.clock.now() * 1e6) + LEAP_US)
        with Database(Path(folder) / "scratch.db", clock=then, durable=False) as scratch:
            _write_facts(scratch, then, found)
            _write_life(scratch, then, found)
            _write_sessions(scratch, then, fresh, found.told)
            report = import_lines(db, (f"{line}\n".encode() for line in export_lines(scratch)))
    for text in found.notes:
        if text.strip():
            take_notes(notes, storable(text), report)
    for kind, count in known.known.items():
        report.count(kind, new=False, number=count)
    for kind, count in known.added.items():
        report.count(kind, new=True, number=count)
    return EdgevoxReport(found.files, report.added, report.known, known.refused + report.refused, found.told)


# Facts, preferences, episodes


def _write_facts(scratch: Database, then: _ThenClock, found: Found) -> None:
    then.rewind()
    for event in sorted(_events(found), key=lambda event: event[:2]):
        fact = event.fact
        then.show(event.at)
        try:
            scratch.write(
                lambda tx, event=event, fact=fact: facts.assert_fact(  # type: ignore[misc]
                    tx,
                    fact.key,
                    event.value,
                    scope=fact.scope,
                    source=fact.source if event.value is not None else "",
                    valid_from=event.valid_from,
                )
            )
        except InvalidInputError as error:
            if event.value is not None:  # the end of a value that was skipped is no entry of its own
                found.told.append(f"The fact {fact.key!r:.80} ({fact.scope!r:.80}) was skipped: {error}")


def _events(found: Found) -> Iterator[_Event]:
    """Yield what happened to facts: rows of one key in the order in which they were written, whatever the clock said."""
    by_key: dict[tuple[int, str, str], list[OldFact]] = defaultdict(list)
    for row in found.facts:
        by_key[row.file, row.scope, row.key].append(row)
    order = 0
    for (_, scope, key), versions in by_key.items():
        newest = 0.0
        active = sum(row.valid_to is None for row in versions)
        if active > 1:
            found.told.append(f"The fact {key!r} ({scope}) had {active} values at once; the last one holds.")
        if any(row.valid_to is not None and row.valid_to < row.valid_from for row in versions):
            found.told.append(
                f"A value of {key!r} ({scope}) ended before it began (the clock had been set back); it is history."
            )
        for row, following in zip(versions, [*versions[1:], None], strict=True):
            newest, order = max(newest, row.valid_from), order + 1
            yield _Event(newest, order, row, row.value, row.valid_from)
            if row.valid_to is not None and (following is None or following.valid_from > row.valid_to):
                # Nothing followed at once: it was forgotten, which for EdgeVox is an end, not an erasure.
                newest, order = max(newest, row.valid_to), order + 1
                yield _Event(newest, order, row, None, row.valid_to)


def _write_life(scratch: Database, then: _ThenClock, found: Found) -> None:
    then.rewind()
    for key, (value, at) in sorted(found.preferences.items(), key=lambda item: (item[1][1], item[0])):
        then.show(at)
        try:
            scratch.write(lambda tx, key=key, value=value: preferences.put_preference(tx, key, value))  # type: ignore[misc]
        except InvalidInputError as error:
            found.told.append(f"The preference {key!r:.80} was skipped: {error}")
    then.rewind()  # before the transaction takes its first tick
    scratch.write(lambda tx: _write_episodes(tx, then, found))


def _write_episodes(tx: Transaction, then: _ThenClock, found: Found) -> None:
    for at, kind, payload, outcome, agent in sorted(found.episodes, key=lambda episode: episode[0]):
        then.show(at)
        given: dict[str, Any] = payload if isinstance(payload, dict) else {"value": payload}
        try:
            append_episode(
                tx, kind, given, outcome, agent=agent, heard=Heard(event_time=at), level="household", keep=0
            )
        except InvalidInputError as error:
            found.told.append(f"An episode of kind {kind!r:.80} was skipped: {error}")


# Conversations


def _is_new(session: OldSession, sessions: SQLiteSessionStore, report: ImportReport, told: list[str]) -> bool:
    """Tell whether a conversation is not here; one that has grown since it was taken over goes on here."""
    try:
        here = sessions.load(session.id)
        given = [messages.row_of(messages.stored_message(message)) for message in session.messages]
    except InvalidInputError as error:
        told.append(f"The conversation {session.id!r:.80} was skipped: {error}")
        return False
    if here is None:
        return True
    stored = [messages.row_of(messages.stored_message(message)) for message in here.messages]
    if stored[: len(given)] == given:
        report.count("sessions", new=False)
    elif given[: len(stored)] == stored:
        sessions.save(session.id, Session(session.messages, session.state))
        report.count("sessions", new=True)
    else:
        report.refused.append(f"The conversation {session.id!r} is another one here, which stays.")
    return False


def _write_sessions(scratch: Database, then: _ThenClock, fresh: list[OldSession], told: list[str]) -> None:
    then.rewind()
    store = SQLiteSessionStore(scratch)
    for session in sorted(fresh, key=lambda session: (session.updated_at, session.id)):
        then.show(session.updated_at)
        try:
            store.save(session.id, Session(session.messages, session.state))
        except InvalidInputError as error:
            told.append(f"The conversation {session.id!r:.80} was skipped: {error}")
