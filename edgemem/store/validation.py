"""Arguments: what a caller hands to a store, looked at in one place, so that every store refuses the same with the same sentence.

How something was heard is six columns of every table that holds what came from speech.
"""

from __future__ import annotations

import json
import math
import numbers
import operator
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from edgemem.config import is_strange_link
from edgemem.errors import InvalidInputError
from edgemem.fence import storable
from edgemem.records import EARLIEST, LATEST, Heard, Session

_LONGEST_PART = 255 - len(".lock") - 1  # bytes; beside a file is its lock
_LONGEST_PATH = 4000

_NO_NAME = "\0"  # a text that no key and no scope holds

MOST = 2**62  # the largest number that is passed on; SQLite takes no larger ones

MAX_JSON_BYTES = 4096
_DEEPEST = 3  # levels of a structure that are said in words
NULL = msgspec.Raw(b"null")  # the null of JSON as a value; None is no value
HEARD = ", ".join(Heard.__struct_fields__)


def checked_text(text: str, what: str) -> str:
    """Return a text as a file can hold it; raise InvalidInputError if it is none."""
    if not isinstance(text, str):
        raise InvalidInputError(f"{what} must be text, not {type(text).__name__}; pass a string.")
    return storable(text)


def lookup(name: str, what: str = "a key") -> str:
    """Return a name to look something up by; one that no store can hold finds nothing, but it must be text."""
    return name if checked_text(name, what) == name else _NO_NAME


def checked_heard(heard: Heard | None) -> Heard | None:
    """Return how something was heard; raise InvalidInputError if that is no Heard."""
    if heard is None or isinstance(heard, Heard):
        return heard
    raise InvalidInputError(
        f"heard must be a Heard, not {type(heard).__name__}; write heard=Heard(speaker='alice')."
    )


def check_session(session: Session) -> None:
    """Raise InvalidInputError unless this has messages and a state, as a Session of edgemem or EdgeVox does."""
    if not isinstance(getattr(session, "messages", None), list) or not isinstance(
        getattr(session, "state", None), dict
    ):
        raise InvalidInputError(
            f"A session must be a Session with messages and a state, not {type(session).__name__}."
        )


def checked_path(path: str | Path, what: str) -> Path:
    """Return where a path leads, by links of our own too, so that none is replaced; raise InvalidInputError if no file can have it."""
    try:
        given = os.fspath(path)
        if not isinstance(given, str):
            raise TypeError(f"not {type(given).__name__}")
        real = Path(os.path.realpath(Path(given).expanduser()))  # Path.resolve fails on links in a circle
        sizes = [len(os.fsencode(part)) for part in real.parts]
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidInputError(f"{what} cannot be at {repr(path)[:80]} ({error}); give another.") from error
    if is_strange_link(Path(given).expanduser()):
        raise InvalidInputError(f"{what} cannot be at {given}, a link of somebody else's; remove it.")
    if max(sizes) > _LONGEST_PART or sum(sizes) + len(sizes) > _LONGEST_PATH:
        raise InvalidInputError(
            f"{what} cannot be at {str(path)[:80]}…: names in a path have at most {_LONGEST_PART} bytes and all of it"
            f" {_LONGEST_PATH:,}; give a shorter one."
        )
    return real


def whole_number(n: Any, what: str) -> int:
    """Return a whole number; raise InvalidInputError if it is none."""
    try:
        return int(n) if isinstance(n, float) and n.is_integer() else operator.index(n)
    except TypeError as error:
        raise InvalidInputError(f"{what} must be a whole number, not {repr(n)[:40]}.") from error


def checked_count(n: Any, what: str) -> int:
    """Return a number of records, 0 if it is negative; raise InvalidInputError if it is no whole number."""
    return min(max(whole_number(n, what), 0), MOST)


def item_count(n: Any, what: str) -> int:
    """Return a number of items, 0 or more; raise InvalidInputError for anything else."""
    count = whole_number(n, what)
    if count < 0:
        raise InvalidInputError(f"{what} must be 0 or more, not {count}.")
    return min(count, MOST)


def checked_number(number: float, what: str) -> float:
    """Return a number, also one without end; raise InvalidInputError for anything else."""
    if isinstance(number, numbers.Real) and not isinstance(number, bool) and not math.isnan(number):
        return float(number)
    raise InvalidInputError(f"{what} must be a number, not {repr(number)[:40]}.")


def checked_amount(amount: float, what: str) -> float:
    """Return a number of 0 or more, also one without end; raise InvalidInputError for anything else."""
    if (number := checked_number(amount, what)) < 0:
        raise InvalidInputError(f"{what} must be 0 or more, not {amount:g}.")
    return number


def checked_time(seconds: float, what: str) -> float:
    """Return seconds since the epoch; raise InvalidInputError for others, also a text: "2026" would be a moment in 1970."""
    try:
        value = math.nan if isinstance(seconds, (str, bytes, bytearray, bool)) else float(seconds)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise InvalidInputError(
            f"{what} must be seconds since the epoch, not {repr(seconds)[:40]}; of a date, give its timestamp()."
        )
    return value


def checked_moment(seconds: float, what: str) -> float:
    """Return a time that a calendar can name; raise InvalidInputError for any other."""
    value = checked_time(seconds, what)
    if not EARLIEST <= value <= LATEST:
        raise InvalidInputError(
            f"{what} must be a time of the years 1 to 9999, not {value:g}; give seconds since the epoch, not milliseconds."
        )
    return value


def checked_tick(seconds: float, what: str) -> int:
    """Return a moment as microseconds since the epoch, as the file has it; a moment further away is the end of time."""
    return round(max(-MOST, min(checked_time(seconds, what) * 1e6, MOST)))


def json_text(value: Any, what: str) -> str:
    """Return a value as JSON that gives the same back; raise InvalidInputError for NaN, bytes, and keys that are no text."""
    try:
        text = "null" if value is NULL else json.dumps(value, allow_nan=False, ensure_ascii=False)
        if value is not NULL and json.loads(text) != value:
            raise ValueError("keys must be text, and sequences lists")
    except (TypeError, ValueError, RecursionError) as error:
        kind = type(value).__name__
        raise InvalidInputError(f"{what} must be text or JSON, and this {kind} is not: {error}.") from error
    return storable(text)


def checked_json(value: Any, what: str, max_bytes: int = MAX_JSON_BYTES) -> tuple[str, str]:
    """Return a value that is no text in words, and as JSON; raise InvalidInputError if JSON cannot hold it, or at length."""
    text = json_text(value, what)
    if len(text.encode()) > max_bytes:
        raise InvalidInputError(
            f"{what} has {len(text.encode()):,} bytes as JSON; at most {max_bytes:,} are kept, so shorten it."
        )
    return storable(words_of(json.loads(text))), text


def checked_object(value: dict[str, Any], what: str, max_bytes: int) -> dict[str, Any]:
    """Return a dict as a file can hold it; raise InvalidInputError as `checked_json` does, or if it is none."""
    if not isinstance(value, dict):
        raise InvalidInputError(f"{what} must be a dict, not {type(value).__name__}.")
    return dict(json.loads(checked_json(value, what, max_bytes)[1]))


def words_of(value: Any, depth: int = 0) -> str:
    """Return a value of JSON as a prompt says it: `key: value` of a structure, with nested ones in parentheses."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if not isinstance(value, (dict, list)):
        return str(value)
    if not value or depth >= _DEEPEST:
        return "…" if value else "none"
    parts = [("", item) for item in value]
    if isinstance(value, dict):
        parts = [(f"{key}: ", item) for key, item in value.items()]
    words = ", ".join(name + words_of(item, depth + 1) for name, item in parts)
    return f"({words})" if depth else words


def as_text(value: Any) -> str:
    """Return a value as the JSON text of a column."""
    return msgspec.json.encode(value).decode()


def heard_columns(heard: Heard | None) -> tuple[Any, ...]:
    """Return the values of the columns, in their order."""
    return msgspec.structs.astuple(heard or Heard())


def heard_of(columns: Sequence[Any]) -> Heard | None:
    """Return what the columns say, or None if nothing is known."""
    return None if all(column is None for column in columns) else Heard(*columns)
