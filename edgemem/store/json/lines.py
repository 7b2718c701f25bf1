"""Lines beside a JSON file: what came since it was written, one save a line, so that a long conversation costs no more.

The first line says which writing of the file the others follow. A line counts once it ends: half of one was promised to
nobody, and the next takes its place.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.store.db.files import sync
from edgemem.store.json.files import look, meaningful

if TYPE_CHECKING:
    from pathlib import Path


class Head(msgspec.Struct, forbid_unknown_fields=True):
    """The first line."""

    follows: float
    """The `updated_at` of the file as it was when the second line came."""


class Save(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """One save: what stays, what follows it, and what changed of the state."""

    after: int
    """How many messages stay."""
    messages: list[dict[str, Any]] = []
    state: dict[str, Any] = {}
    """Parts that are new or other ones."""
    longer: dict[str, list[Any]] = {}
    """Parts that are lists, with what was added at their ends."""
    gone: list[str] = []
    """Parts that there are no more."""

    @classmethod
    def between(
        cls, after: int, messages: list[dict[str, Any]], old: dict[str, Any], new: dict[str, Any]
    ) -> Save:
        """Return what a save writes where messages follow the first `after`, and one state another."""
        save = cls(after, messages, {}, {}, [name for name in old if name not in new])
        for name, value in new.items():
            before = old.get(name)
            if isinstance(value, list) and isinstance(before, list) and before == value[: len(before)]:
                if len(before) < len(value):
                    save.longer[name] = value[len(before) :]
            elif name not in old or not _same(value, before):
                save.state[name] = value
        return save

    @property
    def empty(self) -> bool:
        """Tell whether it says nothing but how many messages stay."""
        return not (self.messages or self.state or self.longer or self.gone)

    def apply(self, messages: list[dict[str, Any]], state: dict[str, Any]) -> str:
        """Do to a conversation what was saved; where that does not fit, change nothing and return why."""
        if not 0 <= self.after <= len(messages):
            return f"it follows {self.after} messages, and there are {len(messages)}"
        if any(not isinstance(state.get(name), list) for name in self.longer):
            return "it makes a list longer that there is not"
        messages[self.after :] = self.messages
        for name in self.gone:
            state.pop(name, None)
        state.update(self.state)
        for name, added in self.longer.items():
            state[name] = [*state[name], *added]
        return ""


class Line(NamedTuple):
    """A line that can be read."""

    save: Save
    end: int
    """Where the next one begins, bytes."""


class Lines(NamedTuple):
    """What a file of lines holds."""

    follows: float | None
    """Which writing of the file; None: nothing here counts."""
    begin: int
    """Where the first line behind the head begins, bytes."""
    read: list[Line]
    fault: str = ""
    """What is wrong with the line that follows; empty where nothing is."""


class LinesFile:
    """One such file, for its owner alone; whoever writes holds the lock of the folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def look(self) -> tuple[int, int, int] | None:
        """Return what tells one state of it from another; None: there is none."""
        return look(self.path)

    def read(self) -> Lines:
        """Return what stands in it, up to the first line that cannot be read."""
        with meaningful(self.path):
            try:
                data = self.path.read_bytes()
            except FileNotFoundError:
                return Lines(None, 0, [])
        begin = data.find(b"\n") + 1
        try:
            follows = msgspec.json.decode(data[:begin], type=Head).follows if begin else None
        except ValueError as error:
            return Lines(None, 0, [], f"line 1: {error}")
        read: list[Line] = []
        at = begin
        while (end := data.find(b"\n", at) + 1) > 0:
            try:
                read.append(Line(msgspec.json.decode(data[at:end], type=Save), end))
            except (ValueError, RecursionError) as error:
                return Lines(follows, begin, read, f"line {len(read) + 2}: {error}")
            at = end
        return Lines(follows, begin, read)

    def append(self, save: Save, *, end: int, follows: float) -> int:
        """Write a line, durably; return where the next one begins.

        Args:
            end: where it begins; what stands there is the half of a line.
            follows: which writing of the file it follows, for the first line.
        """
        data = msgspec.json.encode(save) + b"\n"
        if end == 0:
            data = msgspec.json.encode(Head(follows)) + b"\n" + data
        with meaningful(self.path):
            fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.ftruncate(fd, end)
                os.lseek(fd, end, os.SEEK_SET)
                try:
                    left = data
                    while left:
                        left = left[os.write(fd, left) :]
                    os.fsync(fd)
                except OSError:
                    os.ftruncate(fd, end)  # a full disk leaves half of the line
                    raise
            finally:
                os.close(fd)
            if end == 0:
                sync(self.path.parent)
        return end + len(data)

    def cut(self, end: int) -> None:
        """Keep what stands before a place; with 0, remove the file."""
        with meaningful(self.path):
            if end:
                os.truncate(self.path, end)
                sync(self.path)
            else:
                self.path.unlink(missing_ok=True)
                sync(self.path.parent)


def _same(value: Any, other: Any) -> bool:
    """Tell whether two values are the same JSON: 1, 1.0 and true are not."""
    return msgspec.json.encode(value, order="sorted") == msgspec.json.encode(other, order="sorted")
