"""The eraser: forgets on behalf of a home, takes the bytes out of every file that may hold them, and tells where a name is left.

Forgetting is one transaction; from its commit on nobody recalls it. The bytes are taken out of each place afterwards, by the
thread that forgot, or in idle time, also by another process that opens the home later. Each step may be repeated. Mentions of a
person by others, in notes and in the bank are told and not erased: only a person can tell whether the Ann of a note is that Ann.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Protocol
from unicodedata import normalize

import msgspec

from edgemem.errors import BusyError, StoreError
from edgemem.records import Forgotten, Mention, Mentions, Turn
from edgemem.store.bank.files import BankFolder
from edgemem.store.declaration import WORDS, Kind
from edgemem.store.erase.copies import Erased
from edgemem.store.erase.delete_rows import (
    clear_blocks,
    erase_aged,
    erase_exchange,
    erase_fact,
    erase_person,
    erase_record,
    erase_said,
    erase_session,
    find_blocks,
)
from edgemem.store.kinds import KINDS
from edgemem.store.pending_erasures import (
    end_erasings,
    end_folder,
    erase_in_truth,
    last_forgotten,
    newest_erasing,
    pending_folders,
)
from edgemem.store.retention import AT_ONCE
from edgemem.store.rights import drop_unused, spellings, unused_names

if TYPE_CHECKING:
    from edgemem.store.bank.bank import MemoryBank
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Transaction
    from edgemem.store.declaration import Kind
    from edgemem.store.notes import NotesFile
    from edgemem.store.retention import AgedRecord

    Stop = Callable[[], bool]
    Work = Callable[[Transaction], tuple[dict[str, int], list[Erased]]]

MAX_QUOTED = 50
TEXT_CHARS = 200  # longer text is cut

_PAGE = 2000

_AGAIN_S = 0.02  # between two looks whether a reader is gone
_READ = "somebody reads it"
_LATER = "there was no time yet"


class Journal(Protocol):
    """Turns that wait to be written."""

    def settle(self, *, wait_s: float | None = None) -> None:
        """Write all of them, waiting at most so many seconds."""

    def open_turns(self) -> Iterable[Turn]:
        """Return the turns that go on, here or in another program."""


class Place(msgspec.Struct, frozen=True):
    """A file, or several of one kind, which may hold bytes of forgotten records."""

    name: str
    erase: Callable[[int, Stop], bool]
    """Takes out what was forgotten until a tick, without waiting; tells if no byte is left, or raises StoreError or OSError."""


class Eraser:
    """Forgets in one truth, and takes the bytes out of every place; safe to use from several threads and processes.

    Args:
        journal: its waiting turns are written before something is forgotten.
        places: copies of the truth.
        on_forgotten: told what finds the copies of a fact, for what running conversations will still say.
        on_deleted: told with which turn of a session its prompt goes on, where messages before that were deleted; whole turns
            that are gone are missed by the session's log itself, whoever erased them.
        wake: has idle time go on with the pending places.
        wait_s: how long a forgetting waits for the bytes to be gone.
    """

    def __init__(
        self,
        database: Database,
        journal: Journal,
        places: Sequence[Place],
        *,
        on_forgotten: Callable[[Erased], None],
        on_deleted: Callable[[str, int], None] = lambda _session, _turn: None,
        wake: Callable[[], None],
        wait_s: float,
    ) -> None:
        self._database, self._journal = database, journal
        # The truth says whose folder is removed, and a backup copies the pages of the truth.
        self._places = (
            Place("the bank", lambda _forgotten, _stop: self._remove_folders()),
            Place(
                self._database.path.name,
                lambda _forgotten, stop: erase_in_truth(self._database, alone=False, wait_s=0.0, stop=stop),
            ),
            *places,
        )
        self._on_forgotten, self._on_deleted = on_forgotten, on_deleted
        self._wake = wake
        self._wait_s = wait_s
        self._clean = 0
        """The newest forgetting of which no byte was left when this process looked."""
        self._done: dict[str, tuple[int, int]] = {}
        """Of which erasing and which forgetting this process left no byte in a place."""
        self.left: dict[str, str] = {}
        """Places in which this process last found bytes, and why they stayed."""
        self._lock = threading.Lock()

    def fact(self, key: str, *, scope: str, wait_s: float | None = None) -> Forgotten:
        """Erase a fact with its history, also from what running conversations will say.

        Waits at most `wait_s` seconds for turns that must be written before; None: also for the bytes to be gone.
        """
        return self._erase(lambda tx: _one("facts", erase_fact(tx, key, scope=scope)), wait_s)

    def record(self, kind: Kind, record_id: str, *, wait_s: float | None = None) -> Forgotten:
        """Erase one row of a kind, such as an episode by its id; `wait_s` is that of `fact`."""
        return self._erase(lambda tx: _one(kind.plural, erase_record(tx, kind, record_id)), wait_s)

    def turn(self, session_id: str, n: int, *, wait_s: float | None = None) -> Forgotten:
        """Erase turn `n` of a conversation; `wait_s` is that of `fact`. BusyError: it goes on, and its end would write it anew."""
        if any((turn.session, turn.n) == (session_id, n) for turn in self._journal.open_turns()):
            raise BusyError(f"Turn {n} of {session_id!r:.80} is open; try again when it has ended.")
        return self._erase(lambda tx: erase_exchange(tx, session_id, n), wait_s)

    def session(self, session_id: str) -> Forgotten:
        """Erase a conversation."""
        return self._erase(lambda tx: (erase_session(tx, session_id), []))

    def aged(self, records: Sequence[AgedRecord], stop: Stop, at_once: bool) -> Forgotten:
        """Erase what retention lets go, a few records in each transaction, until `stop`; with `at_once` wait for the bytes to be gone."""
        self._journal.settle()
        shown = {
            (kind, int(number))
            for record in records
            for kind, _, number in (ref.partition(":") for ref in record.subjects)
        }
        # First the copies: a kill leaves none of a record that is gone.
        blocks = find_blocks(self._database, shown | {record.key for record in records if record.key})
        for start in range(0, len(blocks), AT_ONCE):
            self._database.write(partial(clear_blocks, found=blocks[start : start + AT_ONCE]))
        counts: Counter[str] = Counter()
        for start in range(0, len(records), AT_ONCE):
            if stop():
                break
            some = records[start : start + AT_ONCE]
            erased, copies = self._database.write(partial(erase_aged, records=some))
            counts.update(erased)
            for gone in copies:
                self._on_forgotten(gone)
        for name in unused_names(self._database):
            self._database.write(partial(drop_unused, names=[name]))
        return self._forgotten(dict(counts), at_once=at_once and bool(counts))

    def _erase(self, work: Work, wait_s: float | None = None) -> Forgotten:
        self._journal.settle(wait_s=wait_s)
        erased, copies = self._database.write(work)
        for gone in copies:
            self._on_forgotten(gone)
        return self._forgotten(erased, at_once=wait_s is None and bool(erased))

    def messages(self, session_id: str, person: str, *, keep: int) -> int:
        """Erase what a person said in a conversation, but for the newest messages; return how many went."""
        self._journal.settle()
        count, first_turn = self._database.write(lambda tx: erase_said(tx, session_id, person, keep=keep))
        if count:
            self._on_deleted(session_id, first_turn)
        self._forgotten({"messages": count}, at_once=count > 0)
        return count

    def person(self, name: str, *, called: Collection[str], notes: NotesFile, bank: MemoryBank) -> Forgotten:
        """Erase the records that a person said or owns, and tell where others still write the name, or one they are called."""
        called = (name, *called)
        name = spellings(self._database, [name])[name]  # of one of their other names
        folders = bank.folder.folders_of(name)
        root = bank.folder.root if folders else None
        files = sum(path.is_file() for folder in folders for path in folder.rglob("*"))
        forgotten = self._erase(lambda tx: erase_person(tx, name, bank=root, files=files))
        beside = sorted(self._database.path.parent.iterdir())
        return msgspec.structs.replace(
            forgotten,
            mentions=find_mentions(self._database, (name, *called), notes=notes, bank=bank),
            files=tuple(str(path) for path in beside if ".aside-" in path.name or ".damaged" in path.name),
        )

    def work(self, stop: Stop = lambda: False, *, wait_s: float = -1) -> bool:
        """Remove forgotten bytes from every place that may still hold them; return whether anything was done.

        A place that somebody reads is left for the next call; another thread that does this is waited for (-1: for ever).
        """
        if not self._lock.acquire(timeout=wait_s):
            return False
        try:
            upto, forgotten = newest_erasing(self._database), last_forgotten(self._database)
            if self._database.read_only or (upto == 0 and forgotten == self._clean):
                return False
            for place in self._places:
                if self._done.get(place.name) != (upto, forgotten):
                    why = _erased_in(place, forgotten, stop)
                    if not why:
                        self._done[place.name] = upto, forgotten
                    elif not stop() or place.name not in self.left:
                        self.left[place.name] = why
            self.left = {
                name: why for name, why in self.left.items() if self._done.get(name) != (upto, forgotten)
            }
            if self.left:
                return False
            if upto:
                end_erasings(self._database, upto)
            self._clean = forgotten
            return upto > 0
        finally:
            self._lock.release()

    def pending(self) -> dict[str, str]:
        """Return the places that may hold bytes of forgotten records, and why; empty if all of it is gone."""
        if not newest_erasing(self._database):
            return {}
        return self.left or {place.name: "upkeep has not looked yet" for place in self._places}

    def _forgotten(self, erased: dict[str, int], *, at_once: bool) -> Forgotten:
        end = monotonic() + self._wait_s
        while at_once:
            self.work(lambda: monotonic() >= end, wait_s=max(0.0, end - monotonic()))
            if not self.pending() or monotonic() >= end:
                break
            sleep(_AGAIN_S)
        pending = self.pending() if at_once else {}
        if pending or not at_once:
            self._wake()
        return Forgotten(erased, pending)

    def _remove_folders(self) -> bool:
        for number, folder in pending_folders(self._database):
            BankFolder(Path(folder.root), clock=self._database.clock).erase_person(folder.name)
            # Before the truth's log is emptied: the name goes with it.
            self._database.write(partial(end_folder, number=number))
        return True


def _one(kind: str, copies: Erased | None) -> tuple[dict[str, int], list[Erased]]:
    return ({}, []) if copies is None else ({kind: 1}, [copies])


def _erased_in(place: Place, forgotten: int, stop: Stop) -> str:
    try:
        return "" if place.erase(forgotten, stop) else _LATER if stop() else _READ
    except OSError as error:
        return f"{error.filename}: {error.strerror}" if error.strerror else str(error)
    except StoreError as error:
        return str(error) or type(error).__name__


def find_mentions(
    db: Database, names: Iterable[str], *, notes: NotesFile | None = None, bank: MemoryBank | None = None
) -> Mentions:
    """Return the places in which any of a person's names is a word of its own: their number, and the first 50 quoted."""
    alternatives = "|".join(re.escape(normalize("NFC", name.strip())) for name in names if name.strip())
    if not alternatives:
        return Mentions()
    pattern = re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)", re.IGNORECASE)
    quoted: list[Mention] = []
    count = 0
    for kind, place, by, lead, texts in _texts(db, notes, bank):
        for text in (normalize("NFC", text) for text in texts):
            if (match := pattern.search(text)) is not None:
                count += 1
                if len(quoted) < MAX_QUOTED:
                    quote = _around(f"{lead}{text}", match.start() + len(lead))
                    quoted.append(Mention(kind, place, quote, by))
                break
    return Mentions(tuple(quoted), count)


def _around(text: str, at: int) -> str:
    begin = max(0, at - TEXT_CHARS // 2)
    end = begin + TEXT_CHARS
    return ("…" if begin else "") + " ".join(text[begin:end].split()) + ("…" if end < len(text) else "")


def _texts(
    db: Database, notes: NotesFile | None, bank: MemoryBank | None
) -> Iterator[tuple[str, str, str, str, list[str]]]:
    """Yield all texts by the place: kind, where it is, who said it, the text before its words, and its words."""
    for file, _, content in bank.texts() if bank is not None else ():
        for line in content.splitlines():
            yield "file", file.place, "", "", [line]
    for number, line in enumerate(notes.read().splitlines() if notes is not None else (), 1):
        yield "note", str(number), "", "", [line]
    for kind in KINDS:
        if kind.columns_of(*WORDS):
            for place, by, lead, *texts in _rows(db, kind):
                yield kind.label, place, by, lead, [text for text in texts if text]


def _rows(db: Database, kind: Kind) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a kind: place, who said it, the text before its words, and the columns with words."""
    keys = [f"r.{column}" for column in kind.primary]
    by = kind.by or next((f"r.{name}" for name in ("speaker", "owner") if name in kind.names), "''")
    words = [f"r.{column}" for column in kind.columns_of(*WORDS)]
    select = [*keys, kind.place_in_sql(), f"ifnull({by}, '')", f"ifnull({kind.lead or repr('')}, '')", *words]
    after: tuple[Any, ...] = (-1,) * len(keys)
    sql = (
        f"select {', '.join(select)} from {kind.table} r{kind.join()}"  # noqa: S608 - our own constants
        f" where ({', '.join(keys)}) > ({', '.join('?' * len(keys))}) and {kind.texts or '1'}"
        f" order by {', '.join(keys)} limit {_PAGE}"
    )
    while rows := db.query(sql, after):
        yield from (row[len(keys) :] for row in rows)
        after = rows[-1][: len(keys)]
