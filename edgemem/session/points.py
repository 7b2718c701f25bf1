"""The moments of a turn at which memory may act, what a hook looks like, and how what it is made with is checked.

The first six points, `HookResult` and the hook protocol are those of EdgeVox, so its hooks run here unchanged.
"""

from __future__ import annotations

import json
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from edgemem.errors import InvalidInputError
from edgemem.fence import storable
from edgemem.records import Heard, Session, has_methods

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
"""Payload `{"speaker"}`: somebody begins to speak; idle work yields, and what recall needs is brought into memory."""
ON_PARTIAL = "on_partial"
"""Payload `{"text", "speaker", "audience"}`: what has been heard of the sentence so far, all of it each time; recall begins
with it. From any thread, as often as the recogniser has something new; who speaks, and who else hears the answer, may be
left out while it is not known."""
ON_INTERRUPT = "on_interrupt"
"""Payload `{"heard_text"}`, `{"heard_ms"}` or `{"words", "heard_ms"}`, as `context.spoken.heard_part` takes them: the
robot was cut off. The answer of the hook that keeps the session has `heard_text`: the beginning of the reply that a loop
keeps in its own list; and `speeches`: the heard part of each message that was spoken in this turn, the reply last. A reply
that is not in the loop's list yet has no answer, and is cut when its turn ends. A loop that prepares the next turn while a
reply still plays may say with `"prepared": False` that it was the reply before which was cut off."""
ON_ABORT = "on_abort"
"""Payload `{}`: the prepared turn is thrown away without a trace."""
ON_IDLE = "on_idle"
"""Payload `{"seconds"}`: nobody speaks; there is time for upkeep."""

CLASSIC_POINTS = frozenset({ON_RUN_START, BEFORE_LLM, AFTER_LLM, BEFORE_TOOL, AFTER_TOOL, ON_RUN_END})
"""Those of EdgeVox."""

POINTS = CLASSIC_POINTS | {ON_SPEECH_START, ON_PARTIAL, ON_INTERRUPT, ON_ABORT, ON_IDLE}


class HookResult(msgspec.Struct, frozen=True):
    """What a hook wants: go on, go on with another payload, or end the turn with a reply."""

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
        """Return what a hook answered, in our words whatever its framework: a loop relies on the payload's kind.

        Raises:
            InvalidInputError: the answer is no result of a hook, or its payload is of another kind than the point's.
        """
        try:
            reason = str(answer.reason or "")
            if answer.is_end:
                return cls("end", answer.payload, reason)
            if not answer.is_modify:
                return cls()
            changed = answer.payload
        except AttributeError as error:
            raise InvalidInputError(f"it answered {type(answer).__name__}, which is no HookResult") from error
        if isinstance(payload, dict):
            if not isinstance(changed, dict):
                raise InvalidInputError(
                    f"it put {type(changed).__name__} in place of a payload that is a dict"
                )
            # Hooks of EdgeVox hand back what they changed; the loop needs the rest as well.
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


def attachable(hook: object) -> str:
    """Represent a hook by how an EdgeVox agent takes it; EdgeVox quotes that where it refuses one of ours."""
    call = "edgemem.hooks.load('edgevox_loop').attach_hooks(agent, hooks)"
    return f"<edgemem {type(hook).__name__}; for an EdgeVox agent: {call}>"


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
    """Say which point does not exist, and which do; empty if all of them do."""
    unknown = sorted(points - POINTS)
    return f"unknown point {unknown[0]!r}; there are: {', '.join(sorted(POINTS))}" if unknown else ""


def as_text(value: Any) -> str:
    """Return a value as the JSON that a model is shown."""
    return json.dumps(value, ensure_ascii=False, default=str)


def short_text(value: Any, max_chars: int) -> str:
    """Return text, or any other value as JSON, without what no store takes, and cut where it is longer."""
    text = storable(value if isinstance(value, str) else as_text(value))
    return text if len(text) <= max_chars else text[:max_chars] + "…"
