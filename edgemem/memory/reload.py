"""Reload: changes of a home's profile and hook files while a memory is open.

They are read here, off the hot path; the memory takes them between two turns. An edit that cannot be read changes nothing:
the old settings stay, and the reason is kept for `check`. Models hold from the next start.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edgemem.config import Profile, load_profile
from edgemem.errors import ConfigError, EdgememError
from edgemem.hooks.loader import HookFile
from edgemem.memory.watch import Stamp, Watcher, stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

log = logging.getLogger("edgemem.watch")

START_S = 2.0
"""Seconds after the opening until files are watched: loading models, and the first turn, have the processor to themselves."""

DEBOUNCE_S = 0.3
"""Seconds without a further change until a file is read: editors write in several steps, some 50 ms apart."""

POLL_S = 10.0
"""Seconds between two looks where the system cannot report changes: a dozen file times, microseconds each."""

HELD = frozenset(
    {
        *("store.busy_timeout_s", "store.wal_limit_mb", "recall.rerank", "log.turn"),
        *("llama.embedder", "llama.embed_threads", "llama.embed_context"),
        *("llama.chat_threads", "llama.chat_gpu_layers"),
        *("hooks.tool_output_chars", "compaction.summarizer"),
        "context.window_tokens",  # the chat model's own window was opened with it
    }
)
"""What holds from the next start only, because something was opened or made with it."""


class Reload:
    """Follows the files of one home.

    Args:
        source: the file that the profile was read from; None: it is no file that could change.
        bank: tells which folders and files of the bank there are.
        wake: has idle time take the new settings.
    """

    def __init__(
        self,
        home: Path,
        profile: Profile,
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
        self.source = source
        self._home, self._notes, self._bank = home, notes, bank
        self._opened = self._newest = profile
        self._wake = wake
        self.hook_files = [HookFile(path) for path in self._hook_paths(profile)]
        self._named = [file.path for file in self.hook_files]
        self._taken: dict[Path, Stamp] = {}
        """The stamps of hooks when they were read: the watcher may tell of them once more."""
        self._profile: Profile | None = None
        self.watcher = Watcher(
            self._files,
            self.read_changes,
            never=home / "db",
            start_s=START_S,
            debounce_s=DEBOUNCE_S,
            poll_s=POLL_S,
        )

    def take_profile(self) -> Profile | None:
        """Return a new profile, once."""
        profile, self._profile = self._profile, None
        return profile

    def restart_note(self) -> str:
        """Return the changes that wait for the next start; empty if none does."""
        if not self.restart:
            return ""
        changed = "were changed and hold" if len(self.restart) > 1 else "was changed and holds"
        return f"{' and '.join(self.restart)} {changed} from the next start of edgemem."

    def close(self) -> None:
        """Stop following; a second call does nothing."""
        self.watcher.close()

    def _files(self) -> Iterator[Path]:
        yield self._notes
        yield from self._bank()
        if self.source is not None:
            yield self.source
        yield from self._named

    def read_changes(self, paths: frozenset[Path]) -> None:
        """Read changed files; where one is wrong, its last right version stays in use."""
        for path in sorted(paths - {self._notes}):  # the notes are read again where they are used
            self.problems.pop(path, None)
            try:
                self._take(path)
            except EdgememError as error:
                self.problems[path] = f"{str(error).rstrip('.')}. What held before stays in use."
                log.warning("%s", self.problems[path])
        self._wake()

    def _take(self, path: Path) -> None:
        files = {file.path: file for file in self.hook_files}
        now = stamp(path)
        if now is not None and now == self._taken.get(path):
            return
        if path in files:
            files[path].load()
            self._taken[path] = now
            log.info("The hook %s was loaded again; it acts from the next turn on.", path)
        elif self.source is not None and (path == self.source or path in self._named):
            # A hook that is named and not loaded kept the whole profile from being taken.
            self.problems.pop(self.source, None)
            self._take_settings(self.source, files)

    def _take_settings(self, path: Path, files: dict[Path, HookFile]) -> None:
        profile, restart = self._held(path, load_profile(path))
        self._named = self._hook_paths(profile)
        stamps = {file: stamp(file) for file in self._named if file not in files}
        self.hook_files = [files.get(file) or HookFile(file) for file in self._named]
        self._taken.update(stamps)
        changed = sorted(_differing(self._newest, profile))
        self._newest = self._profile = profile
        self.restart = restart
        # A key that is gone is no problem any more.
        counting = set(self._files())
        self.problems = {file: fault for file, fault in self.problems.items() if file in counting}
        if changed:
            log.info("%s: %s changed.", path.name, ", ".join(changed))
        if restart:
            log.warning("%s: %s", path.name, self.restart_note())

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
