"""Attach edgemem to an EdgeVox agent.

    import edgemem
    from edgemem.hooks import load
    from edgevox.agents import LLMAgent

    agent = LLMAgent(name="kitchen", description="…", instructions="You help in the kitchen.")
    with edgemem.open("~/.edgemem/kitchen") as memory:
        ears = load("edgevox_loop").attach(agent, memory, session_id="kitchen", speaker="alice")
        ears.partial("What did I say about")    # half-heard: recall begins
        agent.run("What did I say about peanuts?")
        ears.interrupt("You said that")         # somebody cut the robot off; this much was heard

EdgeVox knows six points of a turn; what else edgemem wants to know (somebody begins to speak, a half-heard
sentence, a barge-in, an aborted turn, quiet) its owner tells `ears`. The model is offered tools to remember, look up and
forget (`memory_tools=False` leaves them out), within the rights of `ears.speaker` when the turn began. EdgeVox renders
its prompts itself, so nothing of its model's state is kept over a restart (`[chat] keep_state`). Leave EdgeVox's own
memory, notes, budget, compaction and persistence hooks out: two memories would both put their lines into the prompt.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from edgemem.context.spoken import Timed, heard_part, heard_speeches, keep_heard, speeches_of
from edgemem.errors import InvalidInputError
from edgemem.hooks.conversation import reader_of
from edgemem.hooks.points import (
    AFTER_LLM,
    AFTER_TOOL,
    BEFORE_LLM,
    BEFORE_TOOL,
    ON_ABORT,
    ON_IDLE,
    ON_INTERRUPT,
    ON_PARTIAL,
    ON_RUN_END,
    ON_RUN_START,
    ON_SPEECH_START,
    Hook,
    TurnContext,
)
from edgemem.hooks.registry import HookFailure, HookRegistry
from edgemem.llama.template import text_of
from edgemem.records import Session
from edgemem.toolbox import Tool, ToolTurn

if TYPE_CHECKING:
    from edgemem.llama.protocols import Tokenizer
    from edgemem.memory import Memory

POINTS = frozenset({ON_RUN_START, BEFORE_LLM, AFTER_LLM, BEFORE_TOOL, AFTER_TOOL, ON_RUN_END})
"""What EdgeVox's registry knows; it refuses a hook that names any other."""


def attach(
    agent: Any,
    memory: Memory,
    *,
    session_id: str = "default",
    speaker: str | None = None,
    tokenizer: Tokenizer | None = None,
    memory_tools: bool = True,
) -> Ears:
    """Register the memory's hooks and tools with an EdgeVox agent, or its hooks with a registry of EdgeVox.

    Args:
        session_id: the conversation; one that exists is taken up where it was.
        speaker: who speaks; `Ears.speaker` changes it from turn to turn, None for an unknown voice.
        tokenizer: counts what the model will see; None takes the memory's own.
        memory_tools: offer the model tools of the memory, if this is an agent and has tools.

    Raises:
        InvalidInputError: the agent has no registry of hooks.
    """
    # Who speaks is said by `Ears` alone: hooks and tools with a speaker of their own would take a stranger for that person.
    hooks = memory.hooks(session_id=session_id, tokenizer=tokenizer)
    ears = attach_hooks(agent, hooks, speaker=speaker)
    if memory_tools and hasattr(agent, "tools"):
        attach_tools(agent, memory.tools(), ears)
    return ears


def attach_hooks(agent: Any, hooks: Iterable[Hook], *, speaker: str | None = None) -> Ears:
    """Register any hooks of edgemem with an EdgeVox agent or registry."""
    registry = getattr(agent, "hooks", agent)
    if not hasattr(registry, "register"):
        raise InvalidInputError(
            f"{type(agent).__name__} has no hook registry; pass an EdgeVox agent or registry."
        )
    ears = Ears(hooks, speaker)
    results = importlib.import_module("edgevox.agents.hooks").HookResult
    first = {point: next(iter(ears.hooks.at(point)), None) for point in (ON_RUN_START, BEFORE_LLM)}
    for hook in ears.hooks:
        if hook.points & POINTS:
            leads = frozenset(point for point in first if first[point] is hook)
            registry.register(Wrapped(hook, ears, results, leads), priority=hook.priority)
    return ears


def attach_tools(agent: Any, tools: Iterable[Tool], ears: Ears) -> None:
    """Register tools of edgemem with an EdgeVox agent; those that want to know the turn are told by `ears`."""
    theirs = importlib.import_module("edgevox.llm.tools").Tool
    for tool in tools:
        agent.tools.register(theirs(tool.name, tool.description, tool.parameters, _called(tool, ears)))


def _called(tool: Tool, ears: Ears) -> Callable[..., Any]:
    def call(**arguments: Any) -> Any:
        return tool.run(ears.turn, **arguments) if tool.wants_turn else tool.run(**arguments)

    return call


class Ears:
    """What EdgeVox has no hook points for: speech, barge-in, and quiet; and who speaks."""

    def __init__(self, hooks: Iterable[Hook], speaker: str | None) -> None:
        self.hooks = HookRegistry(hooks)
        self.speaker = speaker
        """Who speaks the next utterance; None is a voice that nobody knows."""
        self.ctx: Any = TurnContext(Session())
        """The context of the newest turn."""
        self.turn: ToolTurn | None = None
        """What tools are told of it."""
        self.messages: list[dict[str, Any]] | None = None
        """The list that the agent appends to while a turn runs."""

    def begin(self, ctx: Any, payload: dict[str, Any]) -> None:
        """Note who says what; the first hook of a turn calls this."""
        self.messages = None
        n = self.turn.n + 1 if self.turn is not None else 1
        reader = reader_of(ctx, {"speaker": self.speaker, **payload})
        said = str(payload.get("task") or "")
        self.turn = ToolTurn(said, reader, payload.get("heard"), bool(payload.get("private")), ctx.session, n)

    def speech_start(self) -> None:
        """Tell the hooks that somebody begins to speak."""
        self.hooks.fire(ON_SPEECH_START, self.ctx, {"speaker": self.speaker})

    def partial(self, text: str) -> None:
        """Tell the hooks what has been heard of the sentence so far, all of it; from any thread, however often."""
        self.hooks.fire(ON_PARTIAL, self.ctx, {"text": text, "speaker": self.speaker})

    def interrupt(
        self,
        heard_text: str | None = None,
        *,
        heard_ms: float | None = None,
        words: Iterable[Timed] | None = None,
    ) -> None:
        """Tell the hooks that the robot was cut off; only what was heard in this turn becomes history.

        Args:
            heard_text: what was played, as written or as the voice spelled it; nothing told at all: all of it.
            heard_ms: milliseconds that the voice had spoken for; without `words`, an estimate is made of it.
            words: when each word was played: (word, start_ms, end_ms).

        Raises:
            InvalidInputError: one of them is no text, no number, or no word with its times.
        """
        timed = None if words is None else tuple(words)
        named: dict[str, Any] = {"heard_text": heard_text, "heard_ms": heard_ms, "words": timed}
        heard_part("", **named)  # what makes no sense is refused before anything is changed
        messages = self.ctx.session.messages
        said = [text_of(messages[n]) for n in speeches_of(messages)]
        told = {name: value for name, value in named.items() if value is not None}
        fired = self.hooks.fire(ON_INTERRUPT, self.ctx, told or {"heard_text": " ".join(said)})
        # A hook that keeps the session knows how fast the robot speaks.
        kept = fired.payload.get("speeches") if fired.is_modify else None
        keep_heard(messages, heard_speeches(said, **named) if kept is None else kept)

    def abort(self) -> None:
        """Tell the hooks that the turn is thrown away."""
        self.hooks.fire(ON_ABORT, self.ctx, {})

    def idle(self, seconds: float) -> None:
        """Tell the hooks that nobody speaks for so many seconds."""
        self.hooks.fire(ON_IDLE, self.ctx, {"seconds": seconds})

    def failures(self) -> list[HookFailure]:
        """Return what went wrong so far, most frequent first."""
        return self.hooks.failures()


class Wrapped:
    """One of our hooks as EdgeVox calls it: only at points that it knows, answering with its own results."""

    def __init__(self, hook: Hook, ears: Ears, results: Any, leads: frozenset[str]) -> None:
        """Wrap a hook.

        Args:
            results: EdgeVox's class of results.
            leads: points at which it acts before all others of ours.
        """
        self.points = frozenset(hook.points & POINTS)
        self.priority = hook.priority
        self.name = f"edgemem.{type(hook).__name__}"
        self._hook = hook
        self._ears = ears
        self._results = results
        self._leads = leads

    def __call__(self, point: str, ctx: Any, payload: Any) -> Any:
        """Call our hook, isolated and counted by our registry, which also lets a safety hook fail closed."""
        self._ears.ctx = ctx
        if point == ON_RUN_START:
            payload = {"speaker": self._ears.speaker, **payload}
            if point in self._leads:
                self._ears.begin(ctx, payload)
        elif point == BEFORE_LLM and point in self._leads:
            self._ears.messages = payload["messages"]
        within = point in (AFTER_LLM, BEFORE_TOOL, AFTER_TOOL) and self._ears.messages is not None
        seen = _InTurn(ctx, self._ears.messages or []) if within else ctx
        fired = self._ears.hooks.fire_one(self._hook, point, seen, payload)
        if point == ON_RUN_START:
            _keep_first(ctx.session.messages)
        if fired.is_end:
            return self._results.end(fired.payload, reason=fired.reason)
        if fired.is_modify:
            return self._results.replace(fired.payload, reason=fired.reason)
        return None


class _InTurn:
    """A context as it is in the middle of a turn: EdgeVox gives its session the new messages only at the end."""

    def __init__(self, ctx: Any, messages: list[dict[str, Any]]) -> None:
        self.session = Session(messages, ctx.session.state)
        self._ctx = ctx

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)


def _keep_first(messages: list[dict[str, Any]]) -> None:
    """Give a resumed session a place for the instructions: EdgeVox writes them over whatever stands first."""
    if messages and messages[0].get("role") != "system":
        messages.insert(0, {"role": "system", "content": ""})
