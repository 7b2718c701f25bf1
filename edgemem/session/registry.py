"""The registry: who is called at a point, in which order, and what happens when one fails.

Order is priority (highest first), then registration; each hook sees the payload that the one before it left,
and the first that ends the turn wins. A hook that raises is isolated and counted: a failing memory never stops
a reply. A hook that guards safety is registered with `fail_closed=True` and then ends the turn instead.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

import msgspec

from edgemem.errors import InvalidInputError
from edgemem.records import as_ours
from edgemem.session.points import ON_RUN_END, POINTS, Hook, HookResult, unknown_points

log = logging.getLogger("edgemem.hooks")

FAIL_CLOSED_REPLY = "Sorry, I cannot do that right now."


class HookFailure(msgspec.Struct, frozen=True):
    """One kind of failure: which hook, at which point, how often, and the newest message."""

    hook: str
    point: str
    count: int
    message: str


class HookTraits(msgspec.Struct, frozen=True):
    """What a hook says of itself, of any framework or file; what it does not say is as here."""

    points: frozenset[str] = frozenset()
    priority: int | None = None
    fail_closed: bool = False
    note_failure: Callable[[HookFailure], None] | None = None
    is_builtin: bool = False
    """Whether it calls a part of the session, which the door calls itself."""
    own_points: frozenset[str] = frozenset()
    """Points of ours at which it acts as well, and which other registries do not know."""
    failures: Callable[[], list[HookFailure]] | None = None
    """Returns failures that the hook counts itself."""


class HookEntry(msgspec.Struct, frozen=True):
    """A hook with its rank."""

    hook: Hook
    points: frozenset[str]
    priority: int
    fail_closed: bool
    note_failure: Callable[[HookFailure], None] | None = None
    """Is told of each failure of any hook."""
    is_builtin: bool = False


class HookRegistry:
    """Hooks in the order in which they act, each once."""

    def __init__(
        self, hooks: Iterable[Hook] = (), *, note_failure: Callable[[HookFailure], None] | None = None
    ) -> None:
        self._entries: list[HookEntry] = []
        """As they were registered, each with its second place behind it."""
        self._at: dict[str, tuple[HookEntry, ...]] = {}
        """Those of a point in the order in which they act: most hooks act at few, and each turn has eight points or more."""
        self._failures: dict[tuple[str, str], HookFailure] = {}
        self._note_failure = note_failure
        self._lock = threading.Lock()
        self.extend(hooks)

    def register(
        self, hook: Hook, *, priority: int | None = None, fail_closed: bool | None = None
    ) -> HookRegistry:
        """Add a hook, unless it is here already, and return the registry.

        Args:
            priority: default: the hook's own, or 0 where it has none, as hooks of EdgeVox.
            fail_closed: whether the turn ends when the hook fails; default: the hook's own `fail_closed`, or False.

        Raises:
            InvalidInputError: it is no hook, or names a point that does not exist.
        """
        traits = traits_of(hook)
        points = traits.points | traits.own_points
        if not callable(hook) or not traits.points:
            raise InvalidInputError(f"{hook_name(hook)} is no hook; it needs `points` and must be callable")
        if unknown := unknown_points(traits.points):
            raise InvalidInputError(f"{hook_name(hook)} names the {unknown}")
        if iscoroutinefunction(hook) or iscoroutinefunction(type(hook).__call__):
            raise InvalidInputError(
                f"{hook_name(hook)} is a coroutine; write a plain function, and await before or behind the turn's methods."
            )
        rank = int(traits.priority or 0) if priority is None else priority
        closed = bool(traits.fail_closed) if fail_closed is None else fail_closed
        entry = HookEntry(hook, points, rank, closed, traits.note_failure, bool(traits.is_builtin))
        with self._lock:
            if any(hook is known for known in self):
                return self
            self._entries = [*self._entries, entry]
            ranked = sorted(self._entries, key=lambda entry: -entry.priority)
            self._at = {point: tuple(entry for entry in ranked if point in entry.points) for point in POINTS}
        return self

    def extend(self, hooks: Iterable[Hook]) -> HookRegistry:
        """Add several hooks, and return the registry; those of another one keep the priority that they have there."""
        if isinstance(hooks, HookRegistry):
            for entry in hooks._entries:
                self.register(entry.hook, priority=entry.priority, fail_closed=entry.fail_closed)
        else:
            for hook in hooks:
                self.register(hook)
        return self

    def __contains__(self, point: object) -> bool:
        """Tell whether any hook acts at a point."""
        return isinstance(point, str) and bool(self._at.get(point))

    def __iter__(self) -> Iterator[Hook]:
        return iter([entry.hook for entry in sorted(self._entries, key=lambda entry: -entry.priority)])

    def __len__(self) -> int:
        return len(self._entries)

    def fire(self, point: str, ctx: Any, payload: Any) -> HookResult:
        """Call the hooks of a point and return what they agree on.

        The result's payload is the (possibly replaced) payload, or the reply when the turn ends. At
        `on_run_end` every hook is called whatever the others answer.

        Raises:
            InvalidInputError: there is no such point.
        """
        if point not in POINTS:
            raise InvalidInputError(f"There is no point {point!r}; there are: {', '.join(sorted(POINTS))}")
        return self._fire(self._at.get(point, ()), point, ctx, payload)

    def fire_own(self, point: str, ctx: Any, payload: Any) -> HookResult:
        """Call the hooks of a point that are none of edgemem's, as `fire` does: the door calls the parts itself."""
        entries = [entry for entry in self._at.get(point, ()) if not entry.is_builtin]
        return self._fire(entries, point, ctx, payload) if entries else HookResult("continue", payload)

    def fire_one(self, hook: Hook, point: str, ctx: Any, payload: Any) -> HookResult:
        """Call one hook alone, for a framework whose own registry keeps the order."""
        entries = [entry for entry in self._at.get(point, ()) if entry.hook is hook]
        return self._fire(entries, point, ctx, payload)

    def _fire(self, entries: Iterable[HookEntry], point: str, ctx: Any, payload: Any) -> HookResult:
        changed = False
        reasons: list[str] = []
        for entry in entries:
            try:
                answer = entry.hook(point, ctx, payload)
                if answer is None:  # as most do
                    continue
                result = HookResult.from_answer(answer, payload)
            except Exception as error:  # noqa: BLE001 - isolation is this method's work; the failure is counted and shown
                self.note(hook_name(entry.hook), point, error)
                if entry.fail_closed and point != ON_RUN_END:
                    return HookResult.end(FAIL_CLOSED_REPLY, reason=f"{hook_name(entry.hook)} failed")
                continue
            if result.is_end and point != ON_RUN_END:
                return result
            if result.is_modify:
                payload, changed = result.payload, True
                if result.reason:
                    reasons.append(result.reason)
        return HookResult("modify" if changed else "continue", payload, "; ".join(reasons))

    def failures(self) -> list[HookFailure]:
        """Return what went wrong so far, most frequent first."""
        with self._lock:
            counted = list(self._failures.values())
        for counts in dict.fromkeys(traits_of(entry.hook).failures for entry in self._entries):
            counted += counts() if counts is not None else ()
        return sorted(counted, key=lambda failure: -failure.count)

    def note(self, name: str, point: str, error: Exception) -> None:
        """Count a failure of a hook or of a step.

        Args:
            name: of the hook or step.
        """
        key = (name, point)
        message = f"{type(error).__name__}: {error}"
        with self._lock:
            before = self._failures.get(key)
            failure = self._failures[key] = HookFailure(*key, before.count + 1 if before else 1, message)
        listeners = [entry.note_failure for entry in self._entries]
        for note in (self._note_failure, *listeners):
            if note is not None:
                note(failure)
        if before is None:
            log.warning(
                "hook %s failed at %s: %s (further failures are only counted)", *key, message, exc_info=error
            )


def traits_of(hook: Any) -> HookTraits:
    """Return what any hook says of itself."""
    return as_ours(hook, HookTraits)


def hook_name(hook: Any) -> str:
    """Return the name under which a hook is counted."""
    return getattr(hook, "name", None) or getattr(hook, "__name__", None) or type(hook).__name__


class FailureLog:
    """Keeps what hooks and upkeep failed at in a file of the home, for `edgemem check` in another process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[tuple[str, str], HookFailure] | None = None

    def note(self, failure: HookFailure) -> None:
        """Keep a failure; a frequent one is written ever more rarely, to spare the disk."""
        if failure.count & (failure.count - 1):
            return
        if self._known is None:
            self._known = {(kept.hook, kept.point): kept for kept in self.read()}
        self._known[failure.hook, failure.point] = failure
        # Often the disk itself is what failed; the reply goes on, and the loop's registry has the failure too.
        replace_file(self.path, msgspec.json.format(msgspec.json.encode(list(self._known.values()))))

    def read(self) -> list[HookFailure]:
        """Return the failures of the file."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=list[HookFailure])
        except (FileNotFoundError, msgspec.DecodeError):
            return []


def replace_file(path: Path, data: bytes) -> bool:
    """Replace a file (0600) that is for looking only, and return whether that was possible: a full disk is no failure.

    Unlike `write_private` it waits for no disk, since hooks write it within a turn.
    """
    part = path.with_suffix(".part")
    try:
        part.write_bytes(data)
        part.chmod(0o600)
        part.replace(path)
    except OSError as error:
        log.warning("%s could not be kept: %s", path, error.strerror)
        with suppress(OSError):
            part.unlink(missing_ok=True)
        return False
    return True
