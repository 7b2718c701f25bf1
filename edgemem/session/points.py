"""The points of a turn for hooks of the user's own, and the registry: who is called at one, and what happens when one fails.

The first six points, `HookResult` and the hook protocol are those of EdgeVox, so its hooks run here unchanged. Order is priority
(highest first), then registration; each hook sees the payload that the one before it left, and the first that ends the turn
wins. A hook that raises is isolated and counted: a failing memory never stops a reply. A hook that guards safety is registered
with `fail_closed=True` and then ends the turn instead.
"""

from __future__ import annotations

import copy
import json
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from inspect import iscoroutinefunction
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from edgemem.context.messages import call_arguments
from edgemem.errors import InvalidInputError
from edgemem.fence import storable
from edgemem.records import Heard, Session, as_ours, fields_of, has_methods
from edgemem.session.arguments import check_payload

log = logging.getLogger("edgemem.hooks")

STATE_KEY = "__edgemem"
"""The key of the log in a session's state; names that begin with two underscores are never stored."""

ON_RUN_START = "on_run_start"
"""Payload `{"task", "speaker", "heard"}`: somebody has finished speaking. Ending here skips the model."""
BEFORE_LLM = "before_llm"
"""Payload `{"messages", "hop", "tools"}`: what the model will be handed."""
AFTER_LLM = "after_llm"
"""Payload `{"content", "tool_calls", "hop", "tokens"}`: what the model said."""
BEFORE_TOOL = "before_tool"
"""Payload `ToolCallRequest`."""
AFTER_TOOL = "after_tool"
"""Payload `ToolCallResult`."""
ON_RUN_END = "on_run_end"
"""Payload `AgentResult`: always fires, also after an error."""
ON_SPEECH_START = "on_speech_start"
"""Payload `{"speaker"}`: somebody begins to speak; idle work yields, and recall is brought into memory."""
ON_PARTIAL = "on_partial"
"""Payload `{"text", "speaker", "audience"}`: all that has been heard of the sentence so far; recall begins with it. From any
thread, as often as the recogniser has something new; speaker and audience may be left out while they are not known."""
ON_INTERRUPT = "on_interrupt"
"""Payload `{"heard_text"}`, `{"heard_ms"}` or `{"words", "heard_ms"}`, as `context.bargein.heard_part` takes them: the robot was
cut off. The answer of the hook that keeps the session has `heard_text`, the beginning of the reply that a loop keeps in its
list, and `speeches`, the heard part of each message spoken in this turn, the reply last. A reply that is not in the loop's list
yet has no answer, and is cut when its turn ends. A loop that prepares the next turn while a reply still plays may say with
`"prepared": False` that the reply before was cut off."""
ON_ABORT = "on_abort"
"""Payload `{}`: the prepared turn is thrown away without a trace."""
ON_IDLE = "on_idle"
"""Payload `{"seconds"}`: nobody speaks; there is time for upkeep."""

CLASSIC_POINTS = frozenset({ON_RUN_START, BEFORE_LLM, AFTER_LLM, BEFORE_TOOL, AFTER_TOOL, ON_RUN_END})

POINTS = CLASSIC_POINTS | {ON_SPEECH_START, ON_PARTIAL, ON_INTERRUPT, ON_ABORT, ON_IDLE}

FAIL_CLOSED_REPLY = "Sorry, I cannot do that right now."


class HookResult(msgspec.Struct, frozen=True):
    """A hook's wish: go on, go on with another payload, or end the turn with a reply."""

    action: Literal["continue", "modify", "end"] = "continue"
    payload: Any = None
    reason: str = ""

    @classmethod
    def cont(cls) -> HookResult:
        """Go on unchanged."""
        return cls()

    @classmethod
    def replace(cls, payload: Any, *, reason: str = "") -> HookResult:
        """Go on with another payload."""
        return cls("modify", payload, reason)

    @classmethod
    def end(cls, reply: str, *, reason: str = "") -> HookResult:
        """End the turn with this reply."""
        return cls("end", reply, reason)

    @classmethod
    def from_answer(cls, answer: Any, payload: Any) -> HookResult:
        """Return a hook's answer, of any framework, as ours; raise InvalidInputError if it or its payload is of another kind."""
        try:
            reason = str(answer.reason or "")
            if answer.is_end:
                if not isinstance(answer.payload, str):
                    raise InvalidInputError(
                        f"it ended the turn with {type(answer.payload).__name__}, which is no text"
                    )
                return cls("end", answer.payload, reason)
            if not answer.is_modify:
                return cls()
            changed = answer.payload
        except AttributeError as error:
            raise InvalidInputError(f"it answered {type(answer).__name__}, which is no HookResult") from error
        if isinstance(payload, dict):
            if not isinstance(changed, dict):
                raise InvalidInputError(f"it put {type(changed).__name__} in place of a dict as payload")
            # Hooks of EdgeVox hand back only changed keys; the loop needs the rest as well.
            changed = {**payload, **changed} if payload.keys() - changed.keys() else changed
        return cls("modify", changed, reason)

    is_continue = property(lambda self: self.action == "continue", doc="Tell whether nothing changes.")
    is_modify = property(lambda self: self.action == "modify", doc="Tell whether the payload was replaced.")
    is_end = property(lambda self: self.action == "end", doc="Tell whether the turn ends here.")


@runtime_checkable
class Hook(Protocol):
    """Anything that acts at some points of a turn."""

    points: frozenset[str]
    priority: int

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Act at a point; None means go on."""
        ...


class ToolCallRequest(msgspec.Struct):
    """A tool call that is about to run; a hook may rewrite it or answer in the tool's place."""

    name: str
    arguments: dict[str, Any]
    hop: int = 0
    id: str = ""
    skip_dispatch: bool = False
    synthetic_result: Any = None
    skip_reason: str = ""


class ToolCallResult(msgspec.Struct):
    """A tool call that ran."""

    name: str
    arguments: dict[str, Any]
    result: Any = None
    error: str | None = None
    hop: int = 0
    id: str = ""

    @property
    def ok(self) -> bool:
        """Tell whether the tool succeeded."""
        return self.error is None


class AgentResult(msgspec.Struct):
    """How a turn ended."""

    reply: str = ""
    hops: int = 0
    interrupted: bool = False
    error: str | None = None
    """Why the model could not answer; the utterance is kept all the same."""


class TurnContext(msgspec.Struct):
    """The context that edgemem's own loop passes to hooks."""

    session: Session
    hook_state: dict[Any, Any] = msgspec.field(default_factory=dict)
    agent_name: str = ""
    speaker: str | None = None
    heard: Heard | None = None
    llm: Any = None
    audience: tuple[str, ...] = ()
    private: bool = False


class HookFailure(msgspec.Struct, frozen=True):
    """One kind of failure: which hook, at which point, how often, and the newest message."""

    hook: str
    point: str
    count: int
    message: str


class HookTraits(msgspec.Struct, frozen=True):
    """What a hook says of itself, of any framework or file; with the defaults where it says nothing."""

    points: frozenset[str] = frozenset()
    priority: int | None = None
    fail_closed: bool = False
    note_failure: Callable[[HookFailure], None] | None = None
    is_builtin: bool = False
    """Whether it calls a part of the session, which the door calls itself."""
    own_points: frozenset[str] = frozenset()
    """Points of ours at which it acts as well, and which other registries do not know."""
    failures: Callable[[], list[HookFailure]] | None = None


class HookEntry(msgspec.Struct, frozen=True):
    """A hook with what holds of it here."""

    hook: Hook
    traits: HookTraits


class HookRegistry:
    """Hooks in the order in which they act, each once."""

    def __init__(
        self, hooks: Iterable[Hook] = (), *, note_failure: Callable[[HookFailure], None] | None = None
    ) -> None:
        self._entries: list[HookEntry] = []
        self._at: dict[str, tuple[HookEntry, ...]] = {}
        """The hooks of a point in the order in which they act: most hooks act at few, and each turn has eight points or more."""
        self.own: dict[str, tuple[HookEntry, ...]] = {}
        """Those of them that are none of edgemem's, at points that have any."""
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
        here = msgspec.structs.replace(traits, points=points, priority=rank, fail_closed=closed)
        with self._lock:
            if any(hook is known for known in self):
                return self
            self._entries = sorted([*self._entries, HookEntry(hook, here)], key=_rank)
            for point in points:
                acting = tuple(entry for entry in self._entries if point in entry.traits.points)
                self._at[point] = acting
                if own := tuple(entry for entry in acting if not entry.traits.is_builtin):
                    self.own[point] = own
        return self

    def extend(self, hooks: Iterable[Hook]) -> HookRegistry:
        """Add several hooks, and return the registry; those of another registry keep their priority."""
        if isinstance(hooks, HookRegistry):
            for entry in hooks._entries:
                self.register(
                    entry.hook, priority=entry.traits.priority, fail_closed=entry.traits.fail_closed
                )
        else:
            for hook in hooks:
                self.register(hook)
        return self

    def __contains__(self, point: object) -> bool:
        return isinstance(point, str) and bool(self._at.get(point))

    def __iter__(self) -> Iterator[Hook]:
        return iter([entry.hook for entry in self._entries])

    def __len__(self) -> int:
        return len(self._entries)

    def fire(self, point: str, ctx: Any, payload: Any) -> HookResult:
        """Call the hooks of a point and return what they agree on, with the present payload, or the reply when the turn ends.

        At `on_run_end` every hook is called whatever the others answer. InvalidInputError: there is no such point.
        """
        if point not in POINTS:
            raise InvalidInputError(f"There is no point {point!r}; there are: {', '.join(sorted(POINTS))}")
        return self._fire(self._at.get(point, ()), point, ctx, payload)

    def fire_own(self, point: str, ctx: Any, payload: Any) -> HookResult:
        """Call the hooks of a point that are none of edgemem's, as `fire` does: the door calls the parts itself.

        A hook that puts something of another kind into the payload counts as failed, and the payload stays.
        """
        return self._fire(self.own.get(point, ()), point, ctx, payload, is_of_door=True)

    def _fire(
        self, entries: Iterable[HookEntry], point: str, ctx: Any, payload: Any, *, is_of_door: bool = False
    ) -> HookResult:
        changed = False
        reasons: list[str] = []
        for entry in entries:
            before = _snapshot(payload) if is_of_door else None
            try:
                answer = entry.hook(point, ctx, payload)
                result = HookResult() if answer is None else HookResult.from_answer(answer, payload)
                if before is not None and not result.is_end:
                    result = _left_by(result, payload, before)
            except Exception as error:  # noqa: BLE001 - isolation is this method's work; the failure is counted and shown
                if before is not None:
                    payload = _put_back(payload, before)
                self.note(hook_name(entry.hook), point, error, ctx)
                if entry.traits.fail_closed and point != ON_RUN_END:
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
        """Return the failures, most frequent first."""
        with self._lock:
            counted = list(self._failures.values())
        for counts in dict.fromkeys(traits_of(entry.hook).failures for entry in self._entries):
            counted += counts() if counts is not None else ()
        return sorted(counted, key=lambda failure: -failure.count)

    def note(self, name: str, point: str, error: Exception, ctx: Any = None) -> None:
        """Count a failure of a hook or of a step, by its name; its message may quote no turn of `ctx` that is off the record."""
        key, is_quiet = (name, point), _is_quiet(ctx)
        message = type(error).__name__ if is_quiet else f"{type(error).__name__}: {error}"
        with self._lock:
            before = self._failures.get(key)
            failure = self._failures[key] = HookFailure(*key, before.count + 1 if before else 1, message)
        for note in (self._note_failure, *[entry.traits.note_failure for entry in self._entries]):
            if note is not None:
                note(failure)
        if before is None:
            told = None if is_quiet else error
            log.warning(
                "hook %s failed at %s: %s (further failures are only counted)", *key, message, exc_info=told
            )


def _is_quiet(ctx: Any) -> bool:
    with suppress(AttributeError):  # the context of another framework, or none
        log = ctx.session.state.get(STATE_KEY)
        return log is not None and bool(log.is_quiet)
    return False


def _rank(entry: HookEntry) -> int:
    return -(entry.traits.priority or 0)


def _snapshot(payload: Any) -> Any:
    is_record = isinstance(payload, msgspec.Struct)
    fields = msgspec.structs.asdict(payload) if is_record else payload
    kept = {key: copy.copy(part) if isinstance(part, (list, dict)) else part for key, part in fields.items()}
    return type(payload)(**kept) if is_record else kept


def _put_back(payload: Any, before: Any) -> Any:
    """Return a payload as it was before a hook that failed; it may have changed it in place."""
    if isinstance(payload, msgspec.Struct):
        for name, value in msgspec.structs.asdict(before).items():
            setattr(payload, name, value)
        return payload
    return before


def _left_by(result: HookResult, payload: Any, before: Any) -> HookResult:
    """Return what a hook of any framework left of a payload; a record of ours stays the same object.

    Raises:
        InvalidInputError, msgspec.ValidationError: it has put something of another kind in place.
    """
    left = result.payload if result.is_modify else payload
    if isinstance(before, dict):
        check_payload(before, left)
    elif isinstance(before, msgspec.Struct):
        fields = fields_of(left, type(before))
        if before.__struct_fields__[0] not in fields:
            raise InvalidInputError(f"it put {type(left).__name__} in place of {type(before).__name__}")
        kept = {**msgspec.structs.asdict(before), **fields}
        if isinstance(kept.get("arguments"), str):  # as some frameworks have them
            kept["arguments"] = call_arguments(kept)
        _put_back(payload, msgspec.convert(kept, type(before)))
        left = payload
    return HookResult("modify" if result.is_modify else "continue", left, result.reason)


def traits_of(hook: Any) -> HookTraits:
    """Return what any hook says of itself; raise InvalidInputError where its points are no names."""
    traits = as_ours(hook, HookTraits)
    points, own = _point_names(hook, traits.points), _point_names(hook, traits.own_points)
    return msgspec.structs.replace(traits, points=points, own_points=own)


def _point_names(hook: Any, points: Any) -> frozenset[str]:
    names: list[Any] = [None] if isinstance(points, str) or not isinstance(points, Iterable) else list(points)
    if not all(isinstance(name, str) for name in names):
        raise InvalidInputError(
            f"{hook_name(hook)} is no hook; its `points` must be a set of names, not {points!r:.80}"
        )
    return frozenset(names)


def hook_name(hook: Any) -> str:
    """Return the name under which a hook is counted."""
    return getattr(hook, "name", None) or getattr(hook, "__name__", None) or type(hook).__name__


def needs(hook: object, given: Any, *methods: str, what: str) -> None:
    """Raise InvalidInputError unless the object is `what` a hook needs, such as `a memory store`, with these methods."""
    if not has_methods(given, *methods):
        kind = "a class" if isinstance(given, type) else type(given).__name__
        raise InvalidInputError(f"{type(hook).__name__} needs {what}, not {kind}; open one and pass it.")


def given_store(hook: object, store: Any, memory_store: Any) -> Any:
    """Return the memory store that a hook was given under one of its two names; EdgeVox calls it `memory_store`."""
    if store is not None and memory_store is not None:
        raise InvalidInputError(
            f"{type(hook).__name__} takes one memory store: as store= or as memory_store=, not both."
        )
    return memory_store if store is None else store


def header_line(hook: object, header: Any) -> str:
    """Return the line that opens a block; raise InvalidInputError if it is no text."""
    if not isinstance(header, str):
        raise InvalidInputError(
            f"The header of {type(hook).__name__} must be text, not {type(header).__name__}; '' leaves it out."
        )
    return header.strip()


def unknown_points(points: frozenset[str]) -> str:
    """Return a sentence on a point that does not exist, and on those that do; empty if all do."""
    unknown = sorted(points - POINTS)
    return f"unknown point {unknown[0]!r}; there are: {', '.join(sorted(POINTS))}" if unknown else ""


def as_text(value: Any) -> str:
    """Return a value as the JSON that a model is shown."""
    return json.dumps(value, ensure_ascii=False, default=str)


def short_text(value: Any, max_chars: int) -> str:
    """Return text, or any other value as JSON, without signs that no store takes, and cut where it is longer."""
    text = storable(value if isinstance(value, str) else as_text(value))
    return text if len(text) <= max_chars else text[:max_chars] + "…"
