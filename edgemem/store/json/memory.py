"""`JSONMemoryStore`: memory in one JSON file that a person can read and edit.

The engine is that of `SQLiteMemoryStore`, over tables in memory. A change is in the tables at once and in the file half
a second later, and on `flush` and `close`; the memory tools and the hooks that hold this store flush it as well, the
hooks when a turn ends. The file is replaced in one step. What another process or a person wrote into it meanwhile shows
with the next call, and what was not written yet is done again on top.
"""

from __future__ import annotations

import json
import logging
import threading
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.clock import Clock
from edgemem.errors import ClosedError, EdgememError
from edgemem.scopes import not_mistyped
from edgemem.store.db.database import MemoryDatabase
from edgemem.store.episodes import checked_payload
from edgemem.store.erase.records import erase_episode, erase_fact, erase_preference
from edgemem.store.facts import checked_fact, find_key
from edgemem.store.json.files import JsonFile, copy_aside, meaningful
from edgemem.store.json.records import (
    TABLES,
    EpisodeEntry,
    MemoryFile,
    add_episode,
    file_of,
    fill,
    forget_statements,
    state_fact,
)
from edgemem.store.memory_store import MemoryQuestions
from edgemem.store.preferences import put_preference
from edgemem.store.rights import level_of_episode
from edgemem.store.validation import checked_count, checked_heard, checked_value, lookup

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from edgemem.records import Heard
    from edgemem.scopes import Level
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Transaction

    Change = Callable[[Transaction], bool]

_TELLING = 4  # characters of a text that tells a copy which holds it from one that does not

_log = logging.getLogger(__name__)


class JSONMemoryStore(MemoryQuestions):
    """Memory in one JSON file, for prototypes and for people who want to look; safe to use from several threads.

    Args:
        path: made, with its folders, by the first change.
        autoload: read the file now; if not, `load` does, or the first time that something is written.
        clock: tells the time.
        max_episodes: how many of the newest episodes are kept; 0 keeps all.
        flush_after_s: a change is in the file after this many seconds; 0: when the call returns.
        doubtful_below: a recogniser's confidence below which a fact does not replace one that was heard well, until
            it is heard again; 0: every fact is believed at once.
    """

    _max_episodes = 500

    def __init__(
        self,
        path: str | Path,
        *,
        autoload: bool = True,
        clock: Clock | None = None,
        max_episodes: int | None = None,
        flush_after_s: float = 0.5,
        doubtful_below: float = 0.5,
    ) -> None:
        if max_episodes is not None:
            self._max_episodes = checked_count(max_episodes, "max_episodes")
        self.doubtful_below = doubtful_below
        self._keeper = _Keeper(
            path, clock or Clock(), flush_after_s=flush_after_s, doubtful_below=doubtful_below
        )
        if autoload:
            self.load()

    @property
    def path(self) -> Path:
        """Return the file."""
        return self._keeper.file.path

    @property
    def max_episodes(self) -> int:
        """Return how many of the newest episodes are kept; 0 keeps all."""
        return self._max_episodes

    def load(self) -> None:
        """Read the file, and do on top of it what is not written yet; hand edits show from now on."""
        self._keeper.load()

    def _records(self) -> Database:
        return self._keeper.followed()

    # Facts

    def add_fact(
        self,
        key: str,
        value: str,
        *,
        scope: str = "global",
        source: str = "",
        valid_from: float | None = None,
        valid_to: float | None = None,
        heard: Heard | None = None,
        level: Level | None = None,
        owner: str | None = None,
    ) -> None:
        """Store a value as `SQLiteMemoryStore.add_fact` does, with the same arguments."""
        scope, value = not_mistyped(scope), checked_value(value, f"the value of {key!r:.80}")

        def add(tx: Transaction) -> bool:
            statement = checked_fact(
                key,
                value,
                scope=scope,
                source=source,
                valid_from=tx.recorded / 1e6 if valid_from is None else valid_from,
                valid_to=valid_to,
                heard=heard,
                level=level,
                owner=owner,
            )
            now = valid_from is None
            return state_fact(tx, scope, key, statement, doubtful_below=self.doubtful_below, now=now).changed

        self._keeper.change(add)

    def facts_version(self) -> tuple[int, ...]:
        """Return numbers that change when something is written or erased, and every half a minute: facts also end."""
        now = self._records().now()
        return self._keeper.changes, int(now // 30)

    def retract_fact(self, key: str, *, scope: str = "global", valid_from: float | None = None) -> bool:
        """Note that a fact has no value from `valid_from` (now) on; its history stays. Tell whether it had one."""
        had = False

        def retract(tx: Transaction) -> bool:
            nonlocal had
            begin = tx.recorded / 1e6 if valid_from is None else valid_from
            statement = checked_fact(key, None, scope=scope, valid_from=begin, level="shared")
            if find_key(tx, scope, key) is None:
                return False
            outcome = state_fact(tx, scope, key, statement, doubtful_below=self.doubtful_below)
            had = outcome.news
            return outcome.changed

        return self._keeper.change(retract) and had

    def forget_fact(self, key: str, *, scope: str = "global") -> bool:
        """Erase a fact with every version of it, from the file too; tell whether there was one."""
        texts = {lookup(key), *(fact.value for fact in self.fact_history(key, scope=scope))}

        def forget(tx: Transaction) -> bool:
            forget_statements(tx, scope, key)
            return erase_fact(tx, key, scope=scope)

        return self._erased(self._keeper.change(forget), texts)

    # Preferences

    def set_preference(self, key: str, value: str, *, scope: str = "global") -> None:
        """Store a lasting wish in place of an older one."""
        scope = not_mistyped(scope)

        def put(tx: Transaction) -> bool:
            put_preference(tx, key, value, scope=scope)
            return True

        self._keeper.change(put)

    def forget_preference(self, key: str, *, scope: str = "global") -> bool:
        """Erase a preference, from the file too; tell whether there was one."""
        texts = {lookup(key), *(wish.value for wish in self.preferences(scope=scope) if wish.key == key)}
        return self._erased(self._keeper.change(lambda tx: erase_preference(tx, key, scope=scope)), texts)

    # Episodes

    def add_episode(
        self,
        kind: str,
        payload: dict[str, Any],
        outcome: str,
        *,
        agent: str = "",
        heard: Heard | None = None,
        level: Level | None = None,
        owner: str | None = None,
    ) -> None:
        """Store what the robot did or lived through, and how it ended.

        The household may read what a recognised speaker caused (`heard`), and anyone the rest, where no level says so.
        """
        entry = EpisodeEntry(
            kind=kind,
            payload=msgspec.json.decode(
                checked_payload(payload)
            ),  # as it is now, whatever the caller does with it
            outcome=outcome,
            agent=agent,
            level=level_of_episode(level, checked_heard(heard)),
            owner=owner,
            heard=heard,
        )
        keep = self._max_episodes

        def add(tx: Transaction) -> bool:
            add_episode(tx, entry, keep=keep)
            return True

        self._keeper.change(add)

    def forget_episode(self, id: str) -> bool:  # noqa: A002 - as an episode names it
        """Erase one episode, from the file too; tell whether there was one."""
        episode = self.get_episode(id)
        if episode is None:
            return False
        texts = {text for text in _texts_in(episode.payload) if len(text) >= _TELLING}
        return self._erased(self._keeper.change(lambda tx: erase_episode(tx, id) is not None), texts)

    # All of it

    def flush(self) -> None:
        """Write what is not in the file yet, durably."""
        self._keeper.flush()

    def close(self) -> None:
        """Write what is not in the file yet; may be called twice."""
        self._keeper.close()

    def _erased(self, erased: bool, texts: set[str]) -> bool:
        """Have it leave the file and the copies that were set aside as well: erased is erased."""
        if erased:
            self.flush()
            for copy in self._keeper.erase_aside(texts):
                _log.warning("%s held what was just forgotten, and was erased with it.", copy)
        return erased


class _Keeper:
    """Tables in memory and their file, kept in step: a change is written a moment later, and nobody's change is lost.

    Args:
        flush_after_s: a change is in the file after this many seconds; 0: when `change` returns.
        doubtful_below: a recogniser's confidence below which a contradiction is a doubt.
    """

    def __init__(
        self, path: str | Path, clock: Clock, *, flush_after_s: float, doubtful_below: float
    ) -> None:
        self.file = JsonFile(path, MemoryFile)
        self.changes = 0
        """How often the tables have changed, also by another hand."""
        self._clock = clock
        self._flush_after_s = flush_after_s
        self._doubtful_below = doubtful_below
        self._database = MemoryDatabase(self.file.path, migrations=TABLES, clock=clock)
        self._unsaved: list[tuple[int, Change]] = []
        """Changes, each with the tick at which it happened."""
        self._spoiled = False
        """Whether the file holds what could not be understood, and would be lost."""
        self._following = False
        """Whether the file was read; before, it does not show."""
        self._timer: threading.Timer | None = None
        self._closed = False
        self._lock = threading.Lock()
        self._writing = threading.RLock()  # always taken before the other one

    def followed(self) -> Database:
        """Return the tables as the file has them; it is read if a person or another process has written it."""
        if self._following and not self._closed and self.file.changed():
            with self._writing:
                if self.file.changed():
                    self.load()
        return self._database

    def change(self, change: Change) -> bool:
        """Change the tables at once and the file a moment later; return whether anything changed.

        Args:
            change: tells whether it changed anything. It can be done again, in tables that somebody else has changed.
        """
        tick = self._clock.tick()
        self.followed()
        with self._lock:
            self._require_open()
            if not self._database.write(change, recorded=tick):
                return False
            self._unsaved.append((tick, change))
            self.changes += 1
            self._write_soon()
        if self._flush_after_s <= 0:
            self.flush()
        return True

    def load(self) -> None:
        """Read the file, and do on top of it what is not written yet; without a file, what is known stays."""
        with self._writing, self._lock:
            self._require_open()
            self._following = True
            file = self.file.read()
            if file is None:
                if self.file.damaged and self.changes:
                    # What is known stands in no file any more.
                    self._unsaved.append((self._clock.tick(), _nothing))
                    self._write_soon()
                return
            problems = self._database.write(lambda tx: self._take_in(tx, file))
            self._spoiled = bool(problems)
            if problems:
                _log.warning(
                    "Not all of %s could be understood: %s. Mend it; a copy is set aside before it is written.",
                    self.file.path,
                    "; ".join(problems[:5]),
                )
            self.changes += 1

    def flush(self) -> None:
        """Write what is not in the file yet, durably."""
        with self._writing:
            with self._lock:
                if self._timer is not None:
                    self._timer.cancel()
                    self._timer = None
                if not self._unsaved:
                    return
            with self.file.locked():
                written = self._write()
                while not written:  # somebody else has written the file
                    self.load()
                    written = self._write()

    def close(self) -> None:
        """Write what is not in the file yet; may be called twice."""
        if not self._closed:
            self.flush()
            self._closed = True
            self._database.close()

    def erase_aside(self, texts: Collection[str]) -> list[Path]:
        """Erase the copies that were set aside and hold one of these texts; return where they were."""
        forms = {form for text in texts if text for form in _forms(text)}
        gone = [path for path in self.file.set_aside() if any(form in path.read_bytes() for form in forms)]
        with meaningful(self.file.path):
            for path in gone:
                path.unlink()
        return gone

    def _take_in(self, tx: Transaction, file: MemoryFile) -> list[str]:
        problems = fill(tx, file, self._clock, doubtful_below=self._doubtful_below)
        for tick, change in self._unsaved:
            tx.recorded = tick
            change(tx)
        return problems

    def _write_soon(self) -> None:
        if self._flush_after_s > 0 and self._timer is None:
            # Not a daemon: a process that ends without closing the store still writes.
            self._timer = threading.Timer(self._flush_after_s, self._flush_later)
            self._timer.start()

    def _write(self) -> bool:
        with self._lock:
            file, count = file_of(self._database), len(self._unsaved)
        if self._spoiled:
            copy = copy_aside(self.file.path)
            self._spoiled = False
            _log.warning("%s is written anew; what stood there is in %s.", self.file.path, copy.name)
        if not self.file.write(file):
            return False
        with self._lock:
            del self._unsaved[:count]
        self._following = True
        return True

    def _flush_later(self) -> None:
        try:
            self.flush()
        except EdgememError as error:
            _log.warning("Memory is not in its file yet: %s It is tried again with the next change.", error)

    def _require_open(self) -> None:
        if self._closed:
            raise ClosedError("The memory was closed; open it again.")


def _nothing(_tx: Transaction) -> bool:
    """Change nothing, and have it written."""
    return True


def _forms(text: str) -> tuple[bytes, ...]:
    """Return a text as it stands in JSON, of us and of editors that write ASCII."""
    return tuple(json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode() for ascii_only in (False, True))


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _texts_in(item)
    elif isinstance(value, str):
        yield value
