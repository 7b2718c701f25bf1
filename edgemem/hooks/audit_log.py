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
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem.clock import Clock
from edgemem.context.level import values_in
from edgemem.errors import DiskFullError, InvalidInputError, StoreError
from edgemem.hooks.conversation import STATE_KEY, Conversation
from edgemem.hooks.points import (
    AFTER_LLM,
    AFTER_TOOL,
    BEFORE_LLM,
    ON_ABORT,
    ON_RUN_END,
    AgentResult,
    ToolCallResult,
    TurnContext,
    as_text,
    attachable,
    short_text,
)
from edgemem.records import as_ours
from edgemem.store.db.files import create_private

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Self

    from edgemem.context.prompt.log import PromptLog
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
        """Name the log, a file for its owner alone (0600).

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
        self._names = [self.path, *(Path(f"{self.path}.{n}") for n in range(1, keep + 1))]
        self._clock = clock or Clock()
        self._write([])

    def __enter__(self) -> Self:
        """Return the hook; its file is open only while a line is written, so there is nothing to close."""
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def __call__(self, point: str, ctx: Any, payload: Any) -> None:
        """Write a line, or hold it until it is known that the turn is kept."""
        if point == BEFORE_LLM:
            ctx.hook_state[id(self), "offered"] = _offered(payload.get("tools"))
            return
        # A turn that is aborted leaves no trace, unless a tool has run: that happened in the world.
        held: list[dict[str, Any]] = ctx.hook_state.setdefault(id(self), [])
        if point == ON_ABORT:
            held.clear()
            return
        prompt_log = _prompt_log_of(ctx)
        moment = datetime.fromtimestamp(self._clock.now(), timezone.utc).isoformat(timespec="milliseconds")
        entry = {"at": moment.replace("+00:00", "Z"), "event": point, **_where(ctx, prompt_log)}
        if point == AFTER_LLM:
            content, calls = payload.get("content") or "", payload.get("tool_calls") or ()
            entry |= {"hop": payload.get("hop", 0), "chars": len(content), "tool_calls": len(calls)}
            held.append(entry | {"content": _short(content)})
            return
        # Only now it is known what was said, and so who may read it.
        given = values_in(payload.arguments) if point == AFTER_TOOL else ()
        allowed = self._may_quote(prompt_log, [*(answer["content"] for answer in held), *given])
        if not allowed:
            for answer in held:
                del answer["content"]
        if point == AFTER_TOOL:
            entry |= _call(payload, allowed, ctx.hook_state.get((id(self), "offered"), {}))
        else:
            entry |= _end(payload, allowed)
        lines, held[:] = [*held, entry], []
        self._write(lines)

    def _may_quote(self, prompt_log: PromptLog | None, speeches: Iterable[str]) -> bool:
        """Tell whether words of this turn may be written; where nobody says how private it is, it is private.

        Args:
            speeches: what the model said that its session may not have yet.
        """
        if self.text is None:
            return False
        level: Level = "private"
        if prompt_log is not None and prompt_log.running is not None:
            level = prompt_log.level_of(prompt_log.running, *speeches)[0]
        elif prompt_log is not None and prompt_log.turns:
            # The turn's end comes after its session was kept: the newest turn is the one that has just ended.
            level = prompt_log.turns[-1].level
        return _RANK[level] <= _RANK[self.text]

    def _write(self, entries: list[dict[str, Any]]) -> None:
        """Append the lines of a turn to the file, or to a new one where it is full."""
        data = b"".join(json.dumps(e, ensure_ascii=False).encode("utf-8", "replace") + b"\n" for e in entries)
        try:
            while not self._append(data):
                pass
        except OSError as error:
            raise StoreError(f"The audit log {self.path} cannot be opened: {error.strerror}.") from error

    def _append(self, data: bytes) -> bool:
        """Append to the file, unless it is full or was moved away by somebody; return whether that was done."""
        create_private(self.path)
        with self.path.open("a+b", buffering=0) as file:
            # Lines of two processes do not mix, and `forget` takes no file away before its line is written.
            fcntl.flock(file, fcntl.LOCK_EX)
            status = os.fstat(file.fileno())
            if not self.path.exists() or not os.path.samestat(self.path.stat(), status):
                return False
            if status.st_size and status.st_size + len(data) > self._max_bytes:
                for older, newer in zip(self._names[:0:-1], self._names[-2::-1], strict=True):
                    if newer.exists():
                        newer.replace(older)
                self.path.unlink(missing_ok=True)
                return False
            # A plug that was pulled while a line was written leaves half of it.
            if data and status.st_size and os.pread(file.fileno(), 1, status.st_size - 1) != b"\n":
                data = b"\n" + data
            if file.write(data) < len(data):
                raise DiskFullError(f"The audit log {self.path} lacks a line: no space is left; free some.")
        return True


def _call(payload: Any, allowed: bool, offered: dict[str, frozenset[str]]) -> dict[str, Any]:
    """Return what is written of a tool call."""
    known = offered.get(payload.name)
    hop = as_ours(payload, ToolCallResult).hop
    done = {"hop": hop, "tool": UNKNOWN_TOOL if known is None else _name(payload.name)}
    done |= {"ok": payload.error is None, **_error(payload.error, allowed)}
    if allowed:
        return {**done, "arguments": _short(payload.arguments), "result": _short(payload.result)}
    given = list(_arguments(payload.arguments))[:16]
    result = payload.result if isinstance(payload.result, str) else as_text(payload.result)
    names = [_name(key) if key in (known or ()) else "?" for key in given]
    return {**done, "arguments": names, "result_chars": len(result)}


def _end(payload: Any, allowed: bool) -> dict[str, Any]:
    """Return what is written of a turn's end."""
    ended = as_ours(payload, AgentResult)
    reply = str(ended.reply or "")
    figures = {"hops": ended.hops, "chars": len(reply), "interrupted": ended.interrupted}
    return {**figures, **_error(ended.error, allowed), **({"reply": _short(reply)} if allowed else {})}


def _error(error: Any, allowed: bool) -> dict[str, str]:
    """Return an error; "KeyError: 'pills'": the class tells what kind of thing went wrong, what follows may quote anything."""
    if error is None:
        return {}
    return {"error": _short(error) if allowed else _name(str(error).partition(":")[0])}


def _prompt_log_of(ctx: Any) -> PromptLog | None:
    conversation = ctx.session.state.get(STATE_KEY)
    return conversation.prompt_log if isinstance(conversation, Conversation) else None


def _where(ctx: Any, prompt_log: PromptLog | None) -> dict[str, Any]:
    """Return who spoke in which session and turn, as far as the context knows."""
    where: dict[str, Any] = {}
    known = as_ours(ctx, TurnContext)
    speaker = known.speaker
    if prompt_log is not None:
        turn = prompt_log.running or (prompt_log.turns[-1] if prompt_log.turns else None)
        where = {"session": prompt_log.session, "turn": turn.n if turn is not None else None}
        speaker = prompt_log.reader.speaker if prompt_log.reader is not None else speaker
    names = {"speaker": speaker, "agent": known.agent_name}
    return {**where, **{key: name for key, name in names.items() if name}}


def _arguments(given: Any) -> dict[str, Any]:
    """Return arguments as an object; EdgeVox hands them on as the model wrote them, which is text."""
    if isinstance(given, str):
        with suppress(ValueError, RecursionError):
            given = json.loads(given)
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
    return str(text) if _NAME.fullmatch(str(text)) else "?"


def _short(value: Any) -> str:
    return short_text(value, TEXT_CHARS)
