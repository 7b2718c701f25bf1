"""AuditLogHook: what the robot was asked to do and did, one JSON object a line, in files of bounded size.

An audit log is a copy of what happened: forgetting a person or a conversation takes its lines out, but a single fact or
episode is not looked for in what was said. So by default it says who, when, which
tool and how it went, and nothing of what was said; names of tools and arguments are written only where the model was
offered them, because one that it made up may say anything. `text` says
up to which level words are written as well: `"household"` leaves out whatever only one person may know.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import threading
import weakref
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem.clock import Clock
from edgemem.context.level import values_in
from edgemem.errors import ClosedError, DiskFullError, InvalidInputError, StoreError
from edgemem.hooks.conversation import STATE_KEY, Conversation
from edgemem.hooks.points import (
    AFTER_LLM,
    AFTER_TOOL,
    BEFORE_LLM,
    ON_ABORT,
    ON_RUN_END,
    HookResult,
    as_text,
    attachable,
    short_text,
)
from edgemem.store.db.files import create_private

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Self

    from edgemem.scopes import Level

TEXT_CHARS = 2000
"""Longer text is cut in the log."""

LEAST_BYTES = 65_536
"""The smallest file worth rotating; the longest line is shorter."""

UNKNOWN_TOOL = "(unknown tool)"
"""Stands for the name of a tool that the model was not offered."""

_RANK: dict[Level | None, int] = {None: -1, "shared": 0, "household": 1, "private": 2}
_NAME = re.compile(r"[A-Za-z_][\w.-]{0,63}", re.ASCII)


class AuditLogHook:
    """Append a line for each answer of the model, each tool call and each end of a turn."""

    points = frozenset({BEFORE_LLM, AFTER_LLM, AFTER_TOOL, ON_RUN_END, ON_ABORT})
    # Behind all others: what is logged is what really went on.
    priority = 0
    __repr__ = attachable

    def __init__(
        self,
        path: str | Path,
        *,
        max_bytes: int = 1_000_000,
        keep: int = 3,
        text: Level | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Open the log, for its owner alone (0600).

        Args:
            max_bytes: size at which the file becomes `path.1`, that one `path.2`, and so on.
            keep: how many old files are kept; the log takes at most `(keep + 1) * max_bytes` bytes.
            text: the most private level whose words are written; None: no words at all.
            clock: stamps the lines.

        Raises:
            InvalidInputError: a bound that cannot be kept, or an unknown level.
            StoreError: the file cannot be written.
        """
        if not isinstance(path, (str, Path)):
            raise InvalidInputError(f"AuditLogHook needs the path of a file, not {type(path).__name__}.")
        if max_bytes < LEAST_BYTES or keep < 0:
            raise InvalidInputError(
                f"max_bytes must be at least {LEAST_BYTES:,} and keep at least 0; they are {max_bytes:,} and {keep}."
            )
        if text not in _RANK:
            raise InvalidInputError(f"text must be None, 'shared', 'household' or 'private', not {text!r}.")
        self.path = Path(path).expanduser()
        self.text = text
        self._max_bytes = max_bytes
        self._keep = keep
        self._clock = clock or Clock()
        self._lock = threading.Lock()
        self._torn = False
        self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Write a line, or hold it until it is known that the turn is kept."""
        if point == BEFORE_LLM:
            ctx.hook_state[id(self), "offered"] = _offered(payload.get("tools"))
            return None
        # A turn that is aborted leaves no trace, unless a tool has run: that happened in the world.
        held: list[dict[str, Any]] = ctx.hook_state.setdefault(id(self), [])
        if point == ON_ABORT:
            held.clear()
            return None
        entry = {"at": self._now(), "event": point, **_where(ctx)}
        if point == AFTER_LLM:
            held.append(entry | self._answer(payload))
            return None
        # Only now it is known what was said, and so who may read it.
        given = values_in(payload.arguments) if point == AFTER_TOOL else ()
        allowed = self._may_quote(ctx, [*(answer.get("content", "") for answer in held), *given])
        if not allowed:
            for answer in held:
                answer.pop("content", None)
        if point == AFTER_TOOL:
            entry |= self._call(payload, allowed, ctx.hook_state.get((id(self), "offered"), {}))
        else:
            entry |= self._end(payload, allowed)
        lines, held[:] = [*held, entry], []
        self._write(lines)
        return None

    def close(self) -> None:
        """Close the file; closing twice is allowed."""
        with self._lock:
            self._close_file()

    # -- what is said about an event -------------------------------------------------------------------

    def _answer(self, payload: dict[str, Any]) -> dict[str, Any]:
        content, calls = payload.get("content") or "", payload.get("tool_calls") or ()
        figures = {"hop": payload.get("hop", 0), "chars": len(content), "tool_calls": len(calls)}
        return figures if self.text is None else {**figures, "content": short_text(content, TEXT_CHARS)}

    def _call(self, payload: Any, allowed: bool, offered: dict[str, frozenset[str]]) -> dict[str, Any]:
        known = offered.get(payload.name)
        name = UNKNOWN_TOOL if known is None else _name(payload.name)
        done = {"hop": getattr(payload, "hop", 0), "tool": name, "ok": payload.error is None}
        if payload.error is not None:
            # "KeyError: 'pills'": the class tells what kind of thing went wrong, what follows may quote anything.
            done["error"] = (
                short_text(payload.error, TEXT_CHARS)
                if allowed
                else _name(str(payload.error).partition(":")[0])
            )
        if allowed:
            done["arguments"], done["result"] = (
                short_text(payload.arguments, TEXT_CHARS),
                short_text(payload.result, TEXT_CHARS),
            )
        else:
            given = list(_arguments(payload.arguments))[:16]
            done["arguments"] = [_name(key) if key in (known or ()) else "?" for key in given]
            done["result_chars"] = len(
                payload.result if isinstance(payload.result, str) else as_text(payload.result)
            )
        return done

    def _end(self, payload: Any, allowed: bool) -> dict[str, Any]:
        reply, error = str(getattr(payload, "reply", "") or ""), getattr(payload, "error", None)
        ended = {
            "hops": getattr(payload, "hops", 0),
            "chars": len(reply),
            "interrupted": bool(getattr(payload, "interrupted", False)),
        }
        if error is not None:
            ended["error"] = short_text(error, TEXT_CHARS) if allowed else _name(str(error).partition(":")[0])
        return {**ended, "reply": short_text(reply, TEXT_CHARS)} if allowed else ended

    def _may_quote(self, ctx: Any, speeches: Iterable[str]) -> bool:
        """Tell whether words of this turn may be written; where nobody says how private it is, it is private.

        Args:
            speeches: what the model said that its session may not have yet.
        """
        if self.text is None:
            return False
        conversation = ctx.session.state.get(STATE_KEY)
        if not isinstance(conversation, Conversation):
            return self.text == "private"
        layout = conversation.layout
        if layout.running is not None:
            level = layout.level_of(layout.running, *speeches)[0]
        elif layout.turns:
            # The turn's end comes after its session was kept: the newest turn is the one that has just ended.
            level = layout.turns[-1].level
        else:
            return self.text == "private"
        return _RANK[level] <= _RANK[self.text]

    def _now(self) -> str:
        moment = datetime.fromtimestamp(self._clock.now(), timezone.utc)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    # -- the file ----------------------------------------------------------------------------------------

    def _write(self, entries: list[dict[str, Any]]) -> None:
        data = b"".join(
            json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace") + b"\n" for entry in entries
        )
        with self._lock:
            if not self._close_file.alive:
                raise ClosedError(f"The audit log {self.path} was closed; make a new AuditLogHook.")
            try:
                self._hold(len(data))
                try:
                    data = b"\n" + data if self._torn else data
                    # One write for all: lines of two processes in one file do not mix.
                    written = os.write(self._file, data)
                finally:
                    fcntl.flock(self._file, fcntl.LOCK_UN)
            except OSError as error:
                raise StoreError(f"The audit log {self.path} cannot be written: {error.strerror}.") from error
            self._torn = data[:written][-1:] != b"\n"
            if written < len(data):
                raise DiskFullError(f"The audit log {self.path} lacks a line: no space is left; free some.")

    def _hold(self, size: int) -> None:
        """Have the file that is to be written, and keep `forget` from taking it away before that is done."""
        while True:
            fcntl.flock(self._file, fcntl.LOCK_SH)
            status = os.fstat(self._file)
            current = self._is_current(status)
            if current and (status.st_size == 0 or status.st_size + size <= self._max_bytes):
                return
            # Full, or moved away by somebody: closing the old one lets its lock go.
            if current:
                self._shift()
            self._close_file()
            self._open()

    def _is_current(self, status: os.stat_result) -> bool:
        try:
            return os.path.samestat(os.stat(self.path), status)  # noqa: PTH116 - twice as fast, at each line
        except FileNotFoundError:
            return False

    def _open(self) -> None:
        try:
            create_private(self.path)
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        except OSError as error:
            raise StoreError(f"The audit log {self.path} cannot be opened: {error.strerror}.") from error
        # A program of the seed never closes its hooks; then this happens with the hook's own end.
        self._close_file = weakref.finalize(self, os.close, self._file)
        # A plug that was pulled while a line was written leaves half of it. So does, for a moment, another process that
        # writes; only while nobody does can the two be told apart.
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            size = os.fstat(self._file).st_size
            self._torn = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _shift(self) -> None:
        names = [self.path, *(Path(f"{self.path}.{n}") for n in range(1, self._keep + 1))]
        for older, newer in zip(reversed(names[1:]), reversed(names[:-1]), strict=True):
            with suppress(FileNotFoundError):
                newer.replace(older)
        if self._keep == 0:
            self.path.unlink()


def _where(ctx: Any) -> dict[str, Any]:
    """Return who spoke in which session and turn, as far as the context knows."""
    conversation = ctx.session.state.get(STATE_KEY)
    where: dict[str, Any] = {}
    speaker = getattr(ctx, "speaker", None)
    if isinstance(conversation, Conversation):
        layout = conversation.layout
        turn = layout.running or (layout.turns[-1] if layout.turns else None)
        where = {"session": layout.session, "turn": turn.n if turn is not None else None}
        speaker = layout.reader.speaker if layout.reader is not None else speaker
    if speaker:
        where["speaker"] = speaker
    if getattr(ctx, "agent_name", ""):
        where["agent"] = ctx.agent_name
    return where


def _arguments(given: Any) -> dict[str, Any]:
    """Return arguments as an object; EdgeVox hands them on as the model wrote them, which is text."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            return {}
    return given if isinstance(given, dict) else {}


def _offered(schemas: Any) -> dict[str, frozenset[str]]:
    """Return the tools that a model was offered, with the names of their arguments."""
    functions = [schema.get("function") or {} for schema in schemas or () if isinstance(schema, dict)]
    return {
        str(function.get("name")): frozenset((function.get("parameters") or {}).get("properties") or {})
        for function in functions
    }


def _name(text: Any) -> str:
    """Return a name as programs have it."""
    name = str(text)
    return name if _NAME.fullmatch(name) else "?"
