"""What can go wrong: a class for each thing that a caller can act on; a message tells what happened, and what to do about it."""

from __future__ import annotations


class EdgememError(Exception):
    """Base of every error that edgemem raises on purpose."""


class InvalidInputError(EdgememError, ValueError):
    """An argument cannot be stored or used as it is; change it and call again."""


class InvalidTransitionError(InvalidInputError):
    """A thought's lifecycle does not go that way; take a step that it allows."""


class DuplicateEdgeError(InvalidInputError):
    """There is an edge of this type between these two already; update that one."""


class ThoughtNotFoundError(InvalidInputError):
    """Nothing has this id, or the reader may not know it; look it up anew."""


class MemoryBankViolation(InvalidInputError):  # noqa: N818 - Cognitia's name
    """A path that the bank does not take, or a file beyond its limits; name another, or shorten or delete files."""

    def __init__(self, text: str, *, path: str | None = None) -> None:
        super().__init__(text)
        self.path = path


class ConfigError(EdgememError):
    """A profile, a hook file, the notes or the bank's prompt cannot be read; mend the file."""


class ClosedError(EdgememError):
    """The object was closed; open it again."""


class TurnEndedError(EdgememError):
    """The turn was committed, aborted, or ended by the next one; begin another."""


class StoreError(EdgememError):
    """The database cannot do its work; base of the errors below."""


class BusyError(StoreError):
    """Another process holds the database for longer than the profile allows; try again."""


class ReadOnlyError(StoreError):
    """The disk or the file cannot be written; mend its rights or mount it read-write."""


class DiskFullError(StoreError):
    """No space is left; free some and try again. All that was stored before is intact."""


class DiskError(StoreError):
    """The disk could not be read or written; look at the card."""


class CorruptError(StoreError):
    """The file is damaged or not a database; restore a backup."""


class LostTruthError(CorruptError):
    """The memory that a home had is missing, empty or another one; restore a backup, or begin anew."""


class ReplacedError(CorruptError):
    """The file was replaced, removed or written by another program while it was open; open it again."""


class LostError(StoreError):
    """More turns wait to be written than the profile allows, so this one is lost; free the disk or the database."""


class ForeignError(StoreError):
    """The database belongs to another program; name another file."""


class NewerSchemaError(StoreError):
    """A newer edgemem wrote this database; update edgemem."""


class ModelError(EdgememError):
    """A model file is missing, damaged or of the wrong kind; fetch or name another."""


class DownloadError(ModelError):
    """A model could not be fetched or did not match its checksum; at most a beginning to go on with was kept."""


class TemplateError(ModelError):
    """A chat template cannot render these messages."""


class ServerError(ModelError):
    """The model's server cannot be reached, is stuck, went away or refuses; start it again."""

    def __init__(self, text: str, *, code: int = 0) -> None:
        super().__init__(text)
        self.code = code
        """The status that the server answered with; 0: it gave none."""


class ContextOverflowError(EdgememError):
    """The system message and the newest user message alone are larger than the context window."""


def count(n: int, noun: str) -> str:
    """Return a number with its noun, for a sentence: 1 turn, 2,000 turns."""
    return f"1 {noun}" if n == 1 else f"{n:,} {noun[:-1]}ies" if noun.endswith("ry") else f"{n:,} {noun}s"
