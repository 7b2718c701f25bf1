"""Rules of the bank: which paths and names it takes, how much it holds, and what a file of it is."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from edgemem.errors import InvalidInputError, MemoryBankViolation
from edgemem.fence import check_key
from edgemem.scopes import name_key, person_of, scope_of

if TYPE_CHECKING:
    Make = Callable[["Held | None", Sequence["BankFile"]], "str | None"]
    """Gets a file's text and the bank's other files; returns its new text, or None to delete it. The same text changes nothing."""

HOUSEHOLD, SHARED = "household", "shared"
MEMORY_FILE = "MEMORY.md"  # the file that a model is shown by itself
PROMPT_FILE = "PROMPT.md"  # beside all banks: the operator's own text for the instructions
_LONGEST_NAME = 240  # bytes; beside a file is its next version while it is written
_UNSAFE = re.compile(r"[%/\\\x00-\x1f\x7f-\x9f]|^\.|^\s|\s$")


@dataclass(frozen=True)
class MemoryBankConfig:
    """What a bank holds at most, as Cognitia has it; a profile sets the bounds in `[bank]`."""

    enabled: bool = False
    backend: Literal["filesystem", "database"] = "filesystem"
    root_path: Path | None = None
    prompt_path: Path | None = None
    max_file_size_bytes: int = 100 * 1024
    max_total_size_bytes: int = 1024 * 1024
    max_entries: int = 200
    max_depth: int = 2
    retention_days: int | None = None
    auto_load_on_turn: bool = True
    auto_load_max_lines: int = 200
    default_folders: list[str] = field(default_factory=["plans", "reports", "notes"].copy)
    """Made in a folder with the first file of its bank, so that a person sees what goes where."""
    tiered_enabled: bool = False


def validate_memory_path(path: str, *, max_depth: int = 2) -> None:
    """Raise MemoryBankViolation unless this is a path below a bank, of `max_depth` names at most, such as `plans/feature.md`."""
    names = split_path(path)
    if len(names) > max_depth:
        raise MemoryBankViolation(
            f"{path!r:.100} has {len(names)} names one below the other; the bank takes {max_depth}, so shorten it.",
            path=path,
        )


def split_path(path: str) -> list[str]:
    """Return the names of a path, however many; raise MemoryBankViolation for one that could lead out of the bank."""
    if not isinstance(path, str) or not path.strip():
        raise MemoryBankViolation(
            "A path of the bank is a text such as 'plans/feature.md'; give one.", path=path
        )
    why = ""
    names = path.split("/")
    if path.startswith("/"):
        why = "is absolute"
    elif ".." in names:
        why = "leads upwards"
    elif "\\" in path or any(unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") for sign in path):
        why = "holds a backslash or a control character"
    elif any(not name.strip() or name.startswith(".") for name in names):
        why = "has an empty name, or one that begins with a dot"
    elif max(len(name.encode()) for name in names) > _LONGEST_NAME:
        why = f"has a name of more than {_LONGEST_NAME} bytes"
    if why:
        raise MemoryBankViolation(f"{path!r:.100} {why}; write one such as 'plans/feature.md'.", path=path)
    return names


def path_key(path: str) -> str:
    """Return what paths have in common that are one file: those that differ in case or Unicode form alone."""
    return "/".join(map(name_key, path.split("/")))


def scope_of_user(user: str) -> str:
    """Return the scope of a person's bank; raise InvalidInputError for a name that cannot be one here."""
    check_key(user, what="a name")
    if name_key(user) in (HOUSEHOLD, SHARED):
        raise InvalidInputError(
            f"{user!r} is no name of a person in the bank: it names the files of the household or of anyone."
        )
    return scope_of(user)


def folders_of(scope: str, topic: str) -> list[str]:
    """Return the folders in which a bank is, below the one of all banks; a name that is no safe one is quoted with %."""
    person = person_of(scope)
    return [scope] if person is None else [_encoded(person), *([_encoded(topic)] if topic else [])]


def _encoded(name: str) -> str:
    text = name.encode("utf-8", "replace").decode()
    safe = _UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), text)
    if len(safe.encode()) > _LONGEST_NAME:
        raise MemoryBankViolation(f"{name[:40]!r}… is too long for a bank's folder; shorten it.", path=name)
    return safe


class BankFile(NamedTuple):
    """A file of the bank."""

    scope: str  # `user:NAME`, `household` or `shared`
    topic: str  # of a person's bank; else empty
    path: str
    size: int  # bytes
    modified: float  # seconds since the epoch

    @property
    def place(self) -> str:
        """Return its path below all banks."""
        return "/".join(filter(None, (person_of(self.scope) or self.scope, self.topic, self.path)))


class Held(NamedTuple):
    """What a file holds."""

    text: str
    modified: float
    sound: bool = True  # False: more than was read, or bytes that are not UTF-8, read as well as they can be
