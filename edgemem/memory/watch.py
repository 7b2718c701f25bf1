"""Watching: notices that files were changed by somebody else, cheaply enough to do it all day.

Events only wake the watcher; what counts is whether size, time or inode of a file differ. So it does not matter how an
editor saves (most write another file and rename it), how many events that makes, or whether some were lost. Folders
are watched, never files and never `db/`: a commit there wakes nobody. Where the system's limits for watches are
reached, the same comparison is made every few seconds.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent
    from watchdog.observers.api import BaseObserver, ObservedWatch

log = logging.getLogger("edgemem.watch")

Stamp = tuple[int, int, int] | None
"""Time, size and inode of a file; None: it is not there."""

_PATIENCE = 40
"""Looks at a file that keeps changing; after them it is read as it is, and again when it changes once more."""

_ADVICE = {
    errno.ENOSPC: "raise fs.inotify.max_user_watches with sysctl",
    errno.EMFILE: "raise fs.inotify.max_user_instances with sysctl, or the limit of open files (ulimit -n)",
}

_KINDS = "FileClosed FileCreated FileDeleted FileMoved DirCreated DirDeleted DirMoved"
"""Events of the kernel that wake us: neither reading nor a change of rights."""


class Watcher:
    """Calls back, in a thread of its own, when files have changed and are quiet again.

    Args:
        files: tells which files count now; asked again after every change. In folders that count, all files do.
        changed: gets those that were written, made or removed, and those that began to count and are there.
        never: a folder that is not watched whatever `files` says.
        start_s: seconds after `start` until anything is watched.
        debounce_s: seconds without a further change until `changed` is called.
        poll_s: seconds between two looks where folders cannot be watched.
    """

    def __init__(
        self,
        files: Callable[[], Iterable[Path]],
        changed: Callable[[frozenset[Path]], None],
        *,
        never: Path | None = None,
        start_s: float = 1.0,
        debounce_s: float = 0.3,
        poll_s: float = 10.0,
    ) -> None:
        self.state: Literal["waiting", "watching", "polling", "closed"] = "waiting"
        self.fault = ""
        """Why folders cannot be watched, and what to do; empty if they can."""
        self.wakes = 0
        """How many events the system has reported, of whatever file."""
        self._files, self._changed, self._never = files, changed, never
        self._start_s, self._debounce_s, self._poll_s = start_s, debounce_s, poll_s
        self._woken, self._closed = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._observer: BaseObserver | None = None
        # By folder and its inode: one that was made anew needs a new watch.
        self._watches: dict[tuple[str, int], ObservedWatch] = {}
        self._names: frozenset[str] = frozenset()
        self._folders: frozenset[str] = frozenset()
        self._gone: set[str] = set()
        # A child made by fork has this object, but neither the thread nor the right to the parent's watches.
        self._process = os.getpid()
        self._known = self._stamps()

    def start(self) -> None:
        """Start the thread, once; what changes from the making of this object on is noticed."""
        if self._thread is None and not self._closed.is_set():
            self._thread = threading.Thread(target=self._run, name="edgemem-watch", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop watching, and wait for a callback that runs; a second call does nothing."""
        if self._process != os.getpid():
            return
        self._closed.set()
        self._woken.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self.state = "closed"

    def dispatch(self, event: FileSystemEvent) -> None:
        """Take an event; it wakes the watcher if it is about one of the files, in a folder that counts, or a folder above one."""
        self.wakes += 1
        if event.is_directory and event.event_type == "deleted":
            # Its watch is dead, although a folder made in its place may have the same inode.
            self._gone.add(os.fsdecode(event.src_path))
        paths = {os.fsdecode(event.src_path), os.fsdecode(event.dest_path or "")}
        if paths & self._names or {os.path.dirname(path) for path in paths} & self._folders:  # noqa: PTH120 - all day long
            self._woken.set()

    def _run(self) -> None:
        try:
            if self._closed.wait(self._start_s):
                return
            while not self._closed.is_set():
                self._watch_folders()
                if self._look():
                    continue  # other files may count now, in other folders
                self._woken.wait(self._poll_s if self.state == "polling" else None)
                self._woken.clear()
        finally:
            self._stop_observer()

    def _look(self) -> bool:
        """Call back if anything differs, as soon as it is quiet; return whether it did."""
        now = self._stamps()
        for _ in range(_PATIENCE):
            if now == self._known or self._closed.wait(self._debounce_s):
                return False
            before, now = now, self._stamps()
            if now == before:
                break
        changed = frozenset(path for path, known in self._known.items() if now.get(path, known) != known)
        if changed:
            try:
                self._changed(changed)
            except Exception:
                # Whatever one file did wrong, the next change must be noticed.
                log.exception("A change of %s could not be taken", ", ".join(sorted(map(str, changed))))
        # Which files count may have changed with them; what begins to count is told next, if it is there.
        self._known = {path: now.get(path) for path in self._files()}
        return bool(changed)

    def _stamps(self) -> dict[Path, Stamp]:
        return {path: stamp(path) for path in self._files()}

    def _watch_folders(self) -> None:
        """Watch the folders of the files; of one that is not there, the nearest one above it."""
        # The target of a link lies elsewhere, and may be changed there.
        places = {place for path in self._known for place in (path, Path(os.path.realpath(path)))}
        self._names = frozenset(str(name) for place in places for name in (place, *place.parents))
        folders = {place for place in places if place.is_dir()}
        self._folders = frozenset(map(str, folders))
        if self.state == "polling":
            return
        try:
            watched = folders | {place.parent for place in places}
            self._watch({_folder(place) for place in watched if place != self._never})
            self.state = "watching"
        except FileNotFoundError:
            # A folder went while it was about to be watched; look again what there is.
            self._closed.wait(self._debounce_s)
            self._woken.set()
        except (OSError, ImportError, RuntimeError) as error:  # a limit, no watchdog, no further thread
            self._stop_observer()
            self.state, self.fault = "polling", fault_of(error)
            log.warning("%s Until then they are looked at every %g seconds.", self.fault, self._poll_s)

    def _watch(self, folders: set[tuple[str, int]]) -> None:
        from watchdog.observers import Observer

        if self._observer is None:
            self._observer = Observer()
            self._observer.start()
        gone, self._gone = self._gone, set()
        for folder in [folder for folder in self._watches if folder not in folders or folder[0] in gone]:
            with suppress(KeyError):  # a folder that was deleted has taken its watch along
                self._observer.unschedule(self._watches.pop(folder))
        for folder in folders - self._watches.keys():
            self._watches[folder] = _schedule(self._observer, self, folder[0])

    def _stop_observer(self) -> None:
        observer, self._observer = self._observer, None
        self._watches = {}
        if observer is not None and observer.is_alive():
            observer.stop()
            observer.join()


def fault_of(error: Exception) -> str:
    """Tell why folders cannot be watched, and what to do."""
    code = error.errno if isinstance(error, OSError) else None
    advice = _ADVICE.get(code or 0, "mend that")
    why = os.strerror(code) if code else str(error)
    return f"The system does not report changed files ({why}); {advice} and open the home again."


def fault_of_watching(folder: Path) -> str:
    """Try for a moment whether a folder can be watched; return why not, or nothing."""
    from watchdog.events import FileSystemEventHandler
    from watchdog.observers import Observer

    observer = Observer()
    try:
        observer.start()
        _schedule(observer, FileSystemEventHandler(), str(folder))
    except OSError as error:
        return fault_of(error)
    finally:
        if observer.is_alive():
            observer.stop()
            observer.join()
    return ""


def _schedule(observer: BaseObserver, handler: Any, folder: str) -> ObservedWatch:
    from watchdog import events

    kinds = [vars(events)[f"{kind}Event"] for kind in _KINDS.split()]
    return observer.schedule(handler, folder, recursive=False, event_filter=kinds)


def stamp(path: Path) -> Stamp:
    """Return what tells two states of a file apart."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _folder(path: Path) -> tuple[str, int]:
    """Return the nearest folder that is there, and its inode."""
    for place in (path, *path.parents):
        with suppress(OSError):
            if place.is_dir():
                return str(place), place.stat().st_ino
    return os.sep, 0
