"""The bank in a folder: `bank/NAME/TOPIC/…`, `bank/household/…` and `bank/shared/…`, to read and edit.

Every folder is opened from the one above it and never through a link, so the checked folder is the one in use. A file is replaced
in one step, under one lock for all writers. What begins with a dot is the bank's own.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from edgemem.config import open_file
from edgemem.errors import MemoryBankViolation
from edgemem.fence import storable
from edgemem.scopes import name_key, scope_of
from edgemem.store.bank.rules import HOUSEHOLD, SHARED, BankFile, Held, folders_of, path_key, split_path
from edgemem.store.db.files import locked_beside, sync, to_store_error, write_all

if TYPE_CHECKING:
    from edgemem.clock import Clock
    from edgemem.store.bank.rules import Make

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST = 16 << 20  # bytes that are read of a file
_TICK_NS = 50_000_000  # more than a tick of any system's clock
_NO_PLACE = (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)


class BankFolder:
    """All banks of a home in one folder, which the first file makes; safe to use from several threads and processes."""

    def __init__(self, root: Path, *, clock: Clock, default_folders: Sequence[str] = ()) -> None:
        self.root = root
        self._clock = clock
        self._default_folders = default_folders
        self._known, self._looked = [str(root)], list[tuple[int, ...]]()
        """Folders and files, and how they looked: as long as they look so, there are no others."""
        self._state: tuple[str, list[str]] = ("", [])

    def state(self) -> tuple[str, list[str]]:
        """Return what changes whenever a file does, empty where there is none, and the names that folders of people have."""
        looked = [_look(place) for place in self._known]
        if looked != self._looked:
            places = list(self.places())
            self._known = [str(place) for place in places] or [str(self.root)]
            looked = [_look(place) for place in self._known]
            inner = [place.relative_to(self.root).parts for place in places]
            people = sorted({unquote(names[0]) for names in inner if len(names) > 1})
            digest = blake2b(
                repr((self._known, looked)).encode("utf-8", "replace"), digest_size=16
            ).hexdigest()
            self._state = (digest, people) if people else ("", [])
            # A file made within the same tick of the system's clock leaves a folder's time as it is.
            newest = max((look[0] for look in looked if look), default=0)
            self._looked = looked if time.time_ns() - newest > _TICK_NS else []
        return self._state

    def list_files(self, scope: str | None = None, topic: str | None = None) -> list[BankFile]:
        """Return the files of one bank, or of all, in order."""
        files = []
        for place in self.places():
            names = place.relative_to(self.root).parts
            with suppress(OSError):  # it may be gone by now
                status = place.lstat()
                if len(names) > 1 and stat.S_ISREG(status.st_mode):
                    files.append(BankFile(*_place_of(names), status.st_size, status.st_mtime))
        if scope is not None:
            key = name_key(scope)
            files = [file for file in files if name_key(file.scope) == key and file.topic == topic]
        return sorted(files)

    def read(self, scope: str, topic: str, path: str) -> Held | None:
        """Return what a file holds; bytes that are not UTF-8 are read as well as they can be."""
        bank, (*folders, name) = folders_of(scope, topic), split_path(path)
        with _within(path, self.root), suppress(FileNotFoundError), self._opened(bank, folders) as folder:
            return _read(folder, name)
        return None

    def change(self, scope: str, topic: str, path: str, make: Make, at: float | None = None) -> bool:
        """Replace a file by what `make` returns, or delete it for None, as one step; return whether anything was done."""
        bank, (*folders, name) = folders_of(scope, topic), split_path(path)
        with locked_beside(self.root / "files"), _within(path, self.root):
            held = None
            with suppress(FileNotFoundError), self._opened(bank, folders) as folder:
                _drop_empty(folder, name)
                held = _read(folder, name)
            key = path_key(path)
            others = [file for file in self.list_files(scope, topic) if path_key(file.path) != key]
            text = make(held, others)
            if text is (None if held is None else held.text):
                return False
            if text is None:
                with self._opened(bank, folders) as folder:
                    os.unlink(_entry(folder, name, str), dir_fd=folder)
                    os.fsync(folder)
                while folders:
                    left = folders.pop()
                    with self._opened(bank, folders) as folder:
                        _drop_empty(folder, left)
                return True
            if held is not None and not held.sound:
                raise MemoryBankViolation(
                    f"{path!r:.100} holds bytes that are no UTF-8, or more than 16 MB; mend it, or delete it.",
                    path=path,
                )
            with self._opened(bank, folders, make=True) as folder:
                _replace(folder, name, text, self._clock.now() if at is None else at)
            for default in () if held is not None or others else self._default_folders:
                with suppress(OSError), self._opened(bank, [default], make=True):
                    pass
            return True

    def places(self) -> Iterator[Path]:
        """Yield the folders, the root first, and their files; our own ones, and those without text, are left out."""
        for folder, folders, names in os.walk(self.root) if not self.root.is_symlink() else ():
            yield Path(folder)
            folders[:] = filter(_is_shown, folders)
            yield from (Path(folder, name) for name in filter(_is_shown, names))

    def folders_of(self, person: str) -> list[Path]:
        """Return the folders of a person, in whatever spelling."""
        with suppress(OSError):
            key = name_key(person)
            theirs = (entry for entry in self.root.iterdir() if name_key(unquote(entry.name)) == key)
            return [] if key in (HOUSEHOLD, SHARED) or self.root.is_symlink() else sorted(theirs)
        return []

    def erase_person(self, name: str) -> None:
        """Remove all files in the folders of a person; raise StoreError where it cannot be."""
        if folders := self.folders_of(name):
            with locked_beside(self.root / "files"), _within(name, self.root):
                for folder in folders:
                    if folder.is_dir() and not folder.is_symlink():
                        from shutil import rmtree  # here: not what a memory opens with

                        rmtree(folder)
                    else:
                        folder.unlink()

    def person_moves(self, old: str, new: str) -> list[tuple[str, str]]:
        """Return what is in the folders of a person, and where in another's it will be: paths below the folder of all banks.

        A topic that both have gets the old name behind its own.
        """
        home = next(iter(self.folders_of(new)), self.root / folders_of(scope_of(new), "")[0])
        moves = []
        for folder in filter(Path.is_dir, self.folders_of(old)):
            for place in filter(lambda place: _is_shown(place.name), sorted(folder.iterdir())):
                target = home / place.name
                while target.exists():
                    target = target.with_name(f"{target.name}.{folder.name}")
                moves.append((str(place.relative_to(self.root)), str(target.relative_to(self.root))))
        return moves

    def move(self, moves: Iterable[tuple[str, str]]) -> None:
        """Move what is in people's folders; what was moved before, or has something in its way, is left out."""
        with locked_beside(self.root / "files"), _within("the bank", self.root):
            for source, target in ((self.root / old, self.root / new) for old, new in moves):
                linked = source.parent.is_symlink() or target.parent.is_symlink()
                if not linked and source.exists() and not target.exists():
                    target.parent.mkdir(mode=0o700, exist_ok=True)
                    source.rename(target)
                    sync(target.parent)
                    sync(source.parent)
                    with suppress(OSError):  # another topic is in it
                        source.parent.rmdir()

    @contextmanager
    def _opened(
        self, bank: Sequence[str], folders: Sequence[str] = (), *, make: bool = False
    ) -> Iterator[int]:
        """Open a folder of a bank; raise FileNotFoundError where it is missing and not made. Only a topic's spelling is exact."""
        with ExitStack() as stack:
            folder = os.open(self.root, _FOLDER)
            stack.callback(os.close, folder)
            for n, name in enumerate([*bank, *folders]):
                if n == 0 or n >= len(bank):
                    name = _entry(folder, name, unquote if n == 0 else str)  # noqa: PLW2901
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(name, 0o700, dir_fd=folder)
                        os.fsync(folder)
                folder = os.open(name, _FOLDER, dir_fd=folder)
                stack.callback(os.close, folder)
            yield folder


def _is_shown(name: str) -> bool:
    return not name.startswith(".") and name == storable(name)


def _look(place: str) -> tuple[int, ...]:
    try:
        status = os.lstat(place)
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_size, status.st_ino


def _place_of(names: Sequence[str]) -> tuple[str, str, str]:
    """Return scope, topic and path of a file by its names below the root; one beside the topics has none."""
    top = unquote(names[0])
    if (key := name_key(top)) in (HOUSEHOLD, SHARED):
        return key, "", "/".join(names[1:])
    topic = unquote(names[1]) if len(names) > 2 else ""
    return scope_of(top), topic, "/".join(names[2 if topic else 1 :])


def _entry(folder: int, name: str, read: Callable[[str], str]) -> str:
    """Return the name in a folder that means this one: itself, or one that differs in case or Unicode form alone."""
    names = os.listdir(folder)
    if name in names:
        return name
    key = name_key(read(name))
    return min((other for other in names if name_key(read(other)) == key), default=name)


def _read(folder: int, name: str) -> Held:
    with open_file(_entry(folder, name, str), links=False, folder=folder) as file:
        status, data = os.fstat(file.fileno()), file.read(_MOST)
    text = storable(data.decode("utf-8", "replace"))
    return Held(text, status.st_mtime, text.encode() == data and status.st_size == len(data))


def _replace(folder: int, name: str, text: str, at: float) -> None:
    name = _entry(folder, name, str)
    part = f".{name}.part"
    with suppress(FileNotFoundError):
        os.unlink(part, dir_fd=folder)
    try:
        file = os.open(part, _WRITE, 0o600, dir_fd=folder)
        try:
            write_all(file, text.encode())
            os.utime(file, (at, at))
        finally:
            os.close(file)
        os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
    finally:
        with suppress(OSError):
            os.unlink(part, dir_fd=folder)


def _drop_empty(folder: int, name: str) -> None:
    """Remove an empty folder: no file is one, and a file may have its name."""
    with suppress(OSError):
        os.rmdir(_entry(folder, name, str), dir_fd=folder)


@contextmanager
def _within(path: str, root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _NO_PLACE:
            raise MemoryBankViolation(
                f"{path!r:.100} leads through a link, or is no file ({error.strerror}); name another, or move that away.",
                path=path,
            ) from error
        raise to_store_error(error, root) from error
