"""Long results of tools: the beginning and the end stay, with how much is left out.

The whole text is kept with the turn where the session is kept in SQLite, for the operator and the export.
"""

from __future__ import annotations

import copy
import unicodedata
from typing import TYPE_CHECKING, Any

from edgemem.errors import InvalidInputError
from edgemem.records import MEMORY_TOOLS
from edgemem.session.log import Moment, SessionLog
from edgemem.session.points import as_text
from edgemem.store.turn_steps import KeepOutput
from edgemem.store.turns import pointer_to
from edgemem.store.validation import whole_number

if TYPE_CHECKING:
    from edgemem.context.budget import Budget
    from edgemem.llama.protocols import Tokenizer


KEPT_BYTES = 8_000_000
"""Bytes of shortened results that are kept whole, of all sessions together; the oldest are dropped."""

MIN_CHARS = 200
"""A smaller bound would hold little but the note about the rest."""

SHARE_OF_WINDOW = 0.5
"""Share of a prompt's room that all results of one turn may take; each gets half of what the ones before it have left."""

SHARE_OF_END = 0.25
"""Share of a shortened text that its end takes."""

_LONGEST_SIGN = 16
"""Characters that one sign may consist of."""


class ToolResults:
    """Shortens results of tools to a number of characters, and to what the window has room for."""

    name = "results"

    def __init__(
        self,
        max_chars: int = 2000,
        *,
        budget: Budget | None = None,
        keep_bytes: int = 0,
    ) -> None:
        """Make the part.

        Args:
            max_chars: the most characters of a result, its note about the rest included; at least 200.
            budget: says what a whole prompt may have; None: only `max_chars` bounds a result.
            keep_bytes: bytes of shortened results that are kept whole, of all sessions together, oldest dropped first;
                0: nothing. Only a session that is kept in SQLite keeps anything.

        Raises:
            InvalidInputError: `max_chars` is less than that.
        """
        if whole_number(max_chars, "max_chars") < MIN_CHARS:
            raise InvalidInputError(f"max_chars must be at least {MIN_CHARS}; it is {max_chars}.")
        self.max_chars = max_chars
        self.keep_bytes = keep_bytes
        self._budget = budget
        self._taken = 0
        """Tokens that results of the newest turn take."""

    def begin(self, moment: Moment) -> None:
        """Begin to count with a turn."""
        if moment.is_first_hop:
            self._taken = 0

    def shorten(self, moment: Moment) -> None:
        """Put a copy of the payload with less of its result in its place, where that is too long."""
        payload = moment.payload
        text = answer_text(payload)
        if text is None:
            return
        # The memory's own tools know their bounds, and can be asked again; only the window bounds them.
        room = len(text) if payload.name in MEMORY_TOOLS else self.max_chars
        if self._budget is not None:
            most = int(SHARE_OF_WINDOW * self._budget.plan.room - self._taken) // 2
            room = max(MIN_CHARS, fitting_chars(text[:room], most, self._budget.tokenizer))
            self._taken += max(0, min(most, byte_count(text[:room])))
        if len(text) <= room:
            return
        shown = shorten(text, room, self._keep(moment.log, text))
        # A copy: the payload of another framework is no record of ours, and others may hold it.
        shortened = copy.copy(payload)
        if payload.result is None:
            shortened.error = shown
        else:
            shortened.result = shown
        moment.payload = shortened

    def _keep(self, log: SessionLog, text: str) -> str:
        """Have the whole text written with its turn; return its name, or nothing if it cannot be kept."""
        if log.journal is None or byte_count(text) > self.keep_bytes:
            return ""
        pointer = pointer_to(log.prompt_log.session, text)
        step = KeepOutput(log.prompt_log.session, pointer, text, self.keep_bytes)
        if step not in log.turn_writes:
            log.turn_writes.append(step)
        return pointer


def answer_text(payload: Any) -> str | None:
    """Return what the model is told of a call: its result, or, where it failed, why."""
    if payload.result is None:
        return payload.error if isinstance(payload.error, str) else None
    return payload.result if isinstance(payload.result, str) else as_text(payload.result)


def byte_count(text: str) -> int:
    """Return the bytes of a text: no vocabulary takes more tokens for it than these."""
    return len(text.encode(errors="replace"))


def fitting_chars(text: str, most_tokens: int, tokenizer: Tokenizer) -> int:
    """Return how many characters of the beginning of a text take at most so many tokens."""
    room = len(text)
    while room > MIN_CHARS and byte_count(text[:room]) > most_tokens:
        tokens = len(tokenizer.encode(text[:room]))
        if tokens <= most_tokens:
            break
        room = max(MIN_CHARS, min(room * max(most_tokens, 0) // tokens, room - 1))
    return room


def shorten(text: str, max_chars: int, name: str = "") -> str:
    """Return the beginning and the end of a text, with a note between them that says how much is left out.

    Args:
        max_chars: of all of it.
        name: under which the operator finds the whole; empty: it is kept nowhere.
    """
    if len(text) <= max_chars:
        return text
    note = _note(len(text), len(text), name)
    room = max_chars - len(note)
    tail = int(room * SHARE_OF_END)
    begin = _whole_sign(text, room - tail)
    end = _whole_sign(text, len(text) - tail)
    end = end if end >= len(text) - tail else _next_sign(text, end)
    return f"{text[:begin].rstrip()}{_note(end - begin, len(text), name)}{text[end:].lstrip()}"


def _note(missing: int, total: int, name: str) -> str:
    kept = f", kept as {name}" if name else ""
    return f"\n… ({missing:,} of {total:,} characters left out{kept}) …\n"


def _whole_sign(text: str, at: int) -> int:
    """Return the nearest place at or before one that tears no sign apart."""
    for place in range(at, max(0, at - _LONGEST_SIGN), -1):
        if _begins_sign(text, place):
            return place
    return at


def _next_sign(text: str, at: int) -> int:
    """Return the nearest place behind one that tears no sign apart."""
    for place in range(at + 1, min(len(text), at + _LONGEST_SIGN)):
        if _begins_sign(text, place):
            return place
    return at


def _begins_sign(text: str, at: int) -> bool:
    if at >= len(text):
        return True
    joins = "\u200d" in text[max(0, at - 1) : at + 1]
    is_mark = unicodedata.category(text[at]).startswith("M") or "\U0001f3fb" <= text[at] <= "\U0001f3ff"
    return not joins and not is_mark
