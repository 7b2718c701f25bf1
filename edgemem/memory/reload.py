"""Reload: changes of a home's profile, notes, bank and hook files while a memory is open.

Events of watchdog only wake a thread; it compares size, time and inode of some dozen files, so neither an editor's way of saving
nor a lost event matters. A changed profile or hook is read in that thread; the memory takes it between two turns. An edit
that cannot be read changes nothing, and `check` tells why. Folders are watched, never `db/`: a commit wakes nobody.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edgemem.config import Profile, Settings, load_profile, read_file
from edgemem.errors import ConfigError
from edgemem.hooks.loader import HookFile
from edgemem.store.bank.rules import PROMPT_FILE

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent
    from watchdog.observers.api import BaseObserver

    Stamp = tuple[int, int, int] | None

START_S = 2.0
"""Seconds after the opening until files are watched: loading models, and the first turn, have the processor to themselves."""

QUIET_S = 0.3
"""Seconds between two looks at a file that changes. It is read once they see the same: editors write in several steps."""

POLL_S = 10.0
"""Seconds between two looks where the system cannot report changes: microseconds each."""

ADVICE = {
    errno.ENOSPC: "raise fs.inotify.max_user_watches with sysctl",
    errno.EMFILE: "raise fs.inotify.max_user_instances with sysctl, or the limit of open files (ulimit -n)",
}

KINDS = "FileClosed FileCreated FileDeleted FileMoved DirCreated DirDeleted DirMoved"
"""Events of the kernel that wake the thread: neither reading nor a change of rights."""

HELD = frozenset(
    {
        *("store.busy_timeout_s", "store.wal_limit_mb", "log.turn"),
        *("llama.embedder", "llama.embed_threads", "llama.embed_context"),
        *("llama.chat_threads", "llama.chat_gpu_layers"),
        *("hooks.tool_output_chars", "compaction.summarizer"),
        "context.window_tokens",  # the chat model's own window was opened with it
    }
)
"""What holds from the next start only, because something was opened or made with it."""

_log = logging.getLogger("edgemem.reload")


class Reload:
    """Follows the files of one home; `source` is that of its profile (None: no file), `bank` lists those of the bank."""

    def __init__(
        self,
        home: Path,
        settings: Settings,
        *,
        source: Path | None,
        notes: Path,
        bank: Callable[[], Iterable[Path]],
        wake: Callable[[], None],
    ) -> None:
        self.problems: dict[Path, str] = {}
        """Faults of the files of now; their last right versions stay in use."""
        self.restart: tuple[str, ...] = ()
        """Keys of the profile whose new value holds from the next start."""
        self._source, self._home, self._notes, self._bank, self._wake = source, home, notes, bank, wake
        self._settings, profile = settings, settings.now
        self._opened = self._newest = profile
        self.runs_hooks = True
        """False where somebody only looks at the home: nothing of it is run then."""
        self._hook_files: list[HookFile] | None = None
        self._named = self._hook_paths(profile)
        # As they were taken, and as they were at the last look.
        self._taken = {path: _stamp(path) for path in self._files()}
        self._seen = dict(self._taken)
        self.looks = 0
        self.fault = ""
        """Why the system reports no changes, and what to do; empty if it does."""
        self._closed, self._woken = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._observer: BaseObserver | None = None

    def hook_files(self) -> list[HookFile]:
        """Return the hook files that the profile names, loaded when they are first asked for; raise ConfigError."""
        if self._hook_files is None and self.runs_hooks:
            self._hook_files = [HookFile(path, self._home) for path in self._named]
        return self._hook_files or []

    def start(self) -> None:
        """Start the thread that looks, once; changes since this object was made are noticed."""
        if self._thread is None and not self._closed.is_set():
            self._thread = threading.Thread(target=self._run, name="edgemem-reload", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop looking, and wait for a file that is being read; a second call does nothing."""
        self._closed.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join()

    def dispatch(self, _event: FileSystemEvent) -> None:
        """Take an event of a watched folder."""
        self._woken.set()

    def _run(self) -> None:
        if self._closed.wait(START_S):
            return
        try:
            while not self._closed.is_set():
                self._woken.clear()
                self._watch()
                if self.look():  # other files may count now, in other folders
                    self._closed.wait(QUIET_S)
                else:
                    self._woken.wait(POLL_S if self.fault else None)
        finally:
            if self._observer is not None:
                self._observer.stop()
                self._observer.join()

    def _watch(self) -> None:
        """Watch the folders of the files; of a folder that is not there, the nearest one above it."""
        from watchdog import events
        from watchdog.observers import Observer

        if self.fault:
            return
        # The target of a link lies elsewhere, and may be changed there.
        places = {place for path in self._files() for place in (path, Path(os.path.realpath(path)))}
        folders = {place for place in places if place.is_dir()}
        folders |= {next(above for above in place.parents if above.is_dir()) for place in places}
        kinds = [vars(events)[f"{kind}Event"] for kind in KINDS.split()]
        try:
            if self._observer is None:
                observer = Observer()
                observer.start()
                self._observer = observer
            # The watch of a folder that was deleted is dead, although one made in its place may have the same inode.
            self._observer.unschedule_all()
            for folder in folders - {self._home / "db"}:
                self._observer.schedule(self, str(folder), recursive=False, event_filter=kinds)  # type: ignore[arg-type]  # it only calls dispatch
        except FileNotFoundError:
            self._woken.set()  # a folder went meanwhile; look again what there is
        except (OSError, RuntimeError) as error:  # a limit, no further thread
            code = error.errno if isinstance(error, OSError) else None
            why = os.strerror(code) if code else str(error)
            advice = ADVICE.get(code or 0, "mend that")
            self.fault = (
                f"The system does not report changed files ({why}); {advice} and open the home again."
            )
            _log.warning("%s Until then they are looked at every %g seconds.", self.fault, POLL_S)

    def look(self) -> bool:
        """Take files that have changed and are as they were at the look before; return whether any differs from the one taken."""
        self.looks += 1
        before, counting = self._seen, set(self._files())
        self._seen = {path: _stamp(path) for path in counting | self._taken.keys()}
        differing = [path for path, now in sorted(self._seen.items()) if now != self._taken.get(path)]
        changed = [path for path in differing if self._seen[path] == before.get(path)]
        for path in changed:
            self._taken[path] = self._seen[path]
            self.problems.pop(path, None)
            try:
                self._take(path)
            except Exception as error:  # noqa: BLE001 - whatever one file did wrong, the next change must be noticed
                self.problems[path] = f"{str(error).rstrip('.')}. What held before stays in use."
                _log.warning("%s", self.problems[path])
            if self._taken[path] is None and path not in counting:
                del self._taken[path]
        if changed:
            self._wake()
        return bool(differing)

    def restart_note(self) -> str:
        """Return the changes that wait for the next start; empty if none does."""
        if not self.restart:
            return ""
        changed = "were changed and hold" if len(self.restart) > 1 else "was changed and holds"
        return f"{' and '.join(self.restart)} {changed} from the next start of edgemem."

    def unread(self) -> list[str]:
        """Return why files that tell the robot what to do are not read, and which of them a group may write."""
        prompt = self._home / "bank" / PROMPT_FILE
        paths = filter(None, (self._source, self._notes, prompt, *self._named))
        return list(filter(None, map(self._fault, paths)))

    def _fault(self, path: Path) -> str:
        followed = path in (self._source, self._notes)
        try:
            read_file(path, newest=path == self._notes, links=followed, home=self._home)
            shared = next((p for p in (path, path.parent) if p.stat().st_mode & stat.S_IWGRP), None)
        except ConfigError as error:
            return str(error)
        except OSError as error:
            missing = isinstance(error, FileNotFoundError) and path not in self._named
            return "" if missing else f"{path} is not read: {error.strerror}."
        return f"The group of {shared} may write it; chmod g-w {shared}" if shared else ""

    def _files(self) -> Iterator[Path]:
        yield self._notes
        yield from self._bank()
        if self._source is not None:
            yield self._source
        yield from self._named

    def _take(self, path: Path) -> None:
        hooks = {file.path: file for file in self._hook_files or ()}
        if path in hooks:
            hooks[path].load()
            _log.info("The hook %s was loaded again; it acts from the next turn on.", path)
        elif self._source is not None and (path == self._source or path in self._named):
            # A hook that is named and not loaded kept the whole profile from being taken.
            self.problems.pop(self._source, None)
            self._take_settings(self._source, hooks)

    def _take_settings(self, source: Path, hooks: dict[Path, HookFile]) -> None:
        profile, restart = self._held(source, load_profile(source))
        self._named = self._hook_paths(profile)
        self._taken |= {file: _stamp(file) for file in self._named if file not in hooks}
        self._hook_files = [hooks.get(file) or HookFile(file, self._home) for file in self._named]
        changed = sorted(_differing(self._newest, profile))
        self._newest = self._settings.next = profile
        self.restart = restart
        # A key that is gone is no problem any more.
        counting = set(self._files())
        self.problems = {file: fault for file, fault in self.problems.items() if file in counting}
        if changed:
            _log.info("%s: %s changed.", source.name, ", ".join(changed))
        if restart:
            _log.warning("%s: %s", source.name, self.restart_note())

    def _held(self, path: Path, read: Profile) -> tuple[Profile, tuple[str, ...]]:
        """Return a profile with the old values of what cannot change now, and the names of these."""
        restart = tuple(sorted(HELD & _differing(self._opened, read)))
        values, opened = msgspec.to_builtins(read), msgspec.to_builtins(self._opened)
        for section, _, key in (name.partition(".") for name in restart):
            values[section][key] = opened[section][key]
        try:
            return msgspec.convert(values, Profile), restart
        except msgspec.ValidationError as error:
            raise ConfigError(
                f"{path}: {error}, and {', '.join(restart)} holds from the next start only; restart edgemem."
            ) from error

    def _hook_paths(self, profile: Profile) -> list[Path]:
        return [self._home / "hooks" / Path(name).expanduser() for name in profile.hooks.files]


def _differing(profile: Profile, other: Profile) -> set[str]:
    """Return the keys in which two profiles differ, as `section.key`."""
    before, after = msgspec.to_builtins(profile), msgspec.to_builtins(other)
    return {
        f"{section}.{key}"
        for section in before
        for key in before[section].keys() | after[section].keys()
        if before[section].get(key) != after[section].get(key)
    }


def _stamp(path: Path) -> Stamp:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
