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

Agents that hand over to one another: attach to the `hooks` of the `AgentContext` that they run in, and the second goes on
where the first stopped. Attached to the first alone, memory keeps what the second answers, but tells it nothing.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from operator import is_
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from edgemem.context.bargein import Timed, heard_part, heard_speeches, keep_heard
from edgemem.context.messages import speeches_of, split_instructions
from edgemem.errors import InvalidInputError
from edgemem.hooks.persist import PersistSessionHook
from edgemem.hooks.shared import reader_of
from edgemem.hooks.written_calls import ResultsInWords, inward, outward, results_in_words
from edgemem.records import Message, Session, text_of
from edgemem.session.points import (
    AFTER_LLM,
    AFTER_TOOL,
    BEFORE_LLM,
    CLASSIC_POINTS,
    ON_ABORT,
    ON_IDLE,
    ON_INTERRUPT,
    ON_PARTIAL,
    ON_RUN_END,
    ON_RUN_START,
    ON_SPEECH_START,
    AgentResult,
    Hook,
    SecondPlace,
    TurnContext,
)
from edgemem.session.registry import HookFailure, HookRegistry, traits_of
from edgemem.session.tools import Tool, ToolTurn

if TYPE_CHECKING:
    from edgemem.llama.protocols import Tokenizer
    from edgemem.memory import Memory

INTERRUPT = "__interrupt__"
"""What EdgeVox calls the tool whose result says that the reply before was cut off."""

OUTERMOST = 1_000_000
"""The priority of the border: one side of it acts before all other hooks, the other behind them."""


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

    Attached to the same session again, an agent keeps what it has; attached to another one, it leaves the first. Agents
    that are attached to one session share it.

    Args:
        session_id: the conversation; one that exists is taken up where it was.
        speaker: who speaks; `Ears.speaker` changes it from turn to turn, None for an unknown voice.
        tokenizer: counts what the model will see; None takes the memory's own.
        memory_tools: offer the model tools of the memory, if this is an agent and has tools.

    Raises:
        InvalidInputError: the agent has no registry of hooks.
    """
    registry, ears = _registry_of(agent), _EARS.get((id(memory), session_id))
    if ears is not None and ears.memory is not memory:
        ears = None  # a memory that is gone had the same id
    links = _links_of(registry)
    for link in links:
        if link.ears is not ears and link.ears.memory is not None:
            link.on = False
    if ears is None:
        # Who speaks is said by `Ears` alone: hooks and tools with a speaker of their own would take a stranger for that person.
        ears = attach_hooks(agent, memory.hooks(session_id=session_id, tokenizer=tokenizer))
        ears.memory = memory
        _EARS[id(memory), session_id] = ears
    elif not any(link.ears is ears for link in links):
        Link(ears, registry).register(ears.hooks)
    ears.speaker = speaker
    if memory_tools and hasattr(agent, "tools"):
        attach_tools(agent, memory.tools(), ears)
    return ears


def attach_hooks(agent: Any, hooks: Iterable[Hook], *, speaker: str | None = None) -> Ears:
    """Register any hooks of edgemem with an EdgeVox agent or registry, beside those that it has already.

    Args:
        speaker: who speaks; None leaves it as it is, at first an unknown voice.

    Raises:
        InvalidInputError: the agent has no registry of hooks, or one of them keeps its session already.
    """
    registry = _registry_of(agent)
    links = _links_of(registry)
    ears = links[0].ears if links else Ears()
    before, together = list(ears.hooks), HookRegistry(ears.hooks).extend(hooks)
    keeping = [hook for hook in together if isinstance(hook, PersistSessionHook)]
    if len(keeping) > 1:
        raise InvalidInputError(
            f"This agent keeps the session {keeping[0].part.session_id!r} already; two hooks would store each word twice."
        )
    ears.hooks, ears.speaker = together, speaker or ears.speaker
    link = links[0] if links else Link(ears, registry)
    link.register(hook for hook in together if not any(hook is known for known in before))
    return ears


def attach_tools(agent: Any, tools: Iterable[Tool], ears: Ears | None = None) -> None:
    """Register tools of edgemem with an EdgeVox agent; those that want to know the turn are told by its `ears`."""
    ears = ears or attach_hooks(agent, ())
    theirs = importlib.import_module("edgevox.llm.tools").Tool
    for tool in tools:
        agent.tools.register(theirs(tool.name, tool.description, tool.parameters, _called(tool, ears)))


def _called(tool: Tool, ears: Ears) -> Callable[..., Any]:
    def call(**arguments: Any) -> Any:
        return tool.run(ears.turn, **arguments) if tool.wants_turn else tool.run(**arguments)

    return call


def _registry_of(agent: Any) -> Any:
    registry = getattr(agent, "hooks", agent)
    if not hasattr(registry, "register"):
        raise InvalidInputError(
            f"{type(agent).__name__} has no hook registry; pass an EdgeVox agent or registry."
        )
    return registry


def _links_of(registry: Any) -> list[Link]:
    """Return what ties hooks of ours to a registry of EdgeVox."""
    borders = [hook for hook in registry if isinstance(hook, Border)]
    return [border.link for border in borders if border.enters and border.link.on]


class Ears:
    """What EdgeVox has no hook points for: speech, barge-in, and quiet; and who speaks."""

    def __init__(self) -> None:
        self.hooks = HookRegistry()
        self.memory: Memory | None = None
        """Whose hooks they are; None: they were made by hand."""
        self.speaker: str | None = None
        """Who speaks the next utterance; None is a voice that nobody knows."""
        self.ctx: Any = TurnContext(Session())
        """The context of the newest turn, with a session of ours in the place of EdgeVox's."""
        self.turn: ToolTurn | None = None
        """What tools are told of it."""
        self.runs: list[Run] = []
        """The run of the newest turn, and those of agents that it was handed over to or that its tools called."""
        self._theirs: Any = None
        """EdgeVox's session of the newest turn."""
        self._is_cut = self._was_cut = False
        """Whether the hooks know that the newest reply was cut off, and the one before."""

    # -- what the owner tells ------------------------------------------------------------------------

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
        report = {name: value for name, value in named.items() if value is not None}
        fired = self.hooks.fire(ON_INTERRUPT, self.ctx, report or {"heard_text": _speech(messages)})
        self._is_cut = True
        # A hook that keeps the session knows how fast the robot speaks.
        kept = fired.payload.get("speeches") if fired.is_modify else None
        speeches = [text_of(messages[n]) for n in speeches_of(messages)]
        keep_heard(messages, heard_speeches(speeches, **named) if kept is None else kept)
        if self._theirs is not None and all(run.state is State.OVER for run in self.runs):
            self._give(self._theirs, messages)

    def abort(self) -> None:
        """Tell the hooks that the turn is thrown away."""
        self.hooks.fire(ON_ABORT, self.ctx, {})
        self._leave()

    def idle(self, seconds: float) -> None:
        """Tell the hooks that nobody speaks for so many seconds."""
        self.hooks.fire(ON_IDLE, self.ctx, {"seconds": seconds})

    def failures(self) -> list[HookFailure]:
        """Return what went wrong so far, most frequent first."""
        return self.hooks.failures()

    # -- what EdgeVox does ---------------------------------------------------------------------------

    def begin(self, ctx: Any, link: Link, task: str) -> None:
        """Note that a run begins: that of a new turn, or of an agent that has a part of one in a context of its own."""
        newest = self.runs[-1] if self.runs else None
        if newest is not None and newest.ctx is ctx and newest.link is not link and newest.state is State.NEW:
            return  # an agent and its context may have the same hooks
        others = [run for run in reversed(self.runs) if run.ctx is not ctx]
        giver = next((run for run in others if (run.target, run.task) == (ctx.agent_name, task)), None)
        caller = next((run for run in others if run.state is State.ACTING), None)
        if giver is not None:
            run = Run(ctx, link, giver.session, giver=giver)
            run.first_hop, run.is_begun = giver.hops, giver.is_begun
            giver.target = None
        elif caller is not None:
            session = Session(list(ctx.session.messages), ctx.session.state)
            run = Run(ctx, link, session, caller=caller)
        else:
            run = Run(ctx, link, self._take_up(ctx.session))
            self.ctx = Seen(ctx, run.session)
            self._was_cut, self._is_cut = self._is_cut, False
        run.unsubscribe = ctx.bus.subscribe_all(lambda event: self._follow(run, event))
        self.runs.append(run)

    def open_turn(self, ctx: Any, payload: dict[str, Any]) -> None:
        """Note who says what in a new turn, for tools that want to know."""
        n = self.turn.n + 1 if self.turn is not None else 1
        reader = reader_of(ctx, payload)
        utterance = str(payload.get("task") or "")
        self.turn = ToolTurn(
            utterance, reader, payload.get("heard"), bool(payload.get("private")), ctx.session, n
        )

    def enter(self, run: Run, payload: dict[str, Any]) -> dict[str, Any]:
        """Return what the model will be handed, with what was said as memory keeps it."""
        messages, is_first = payload["messages"], run.state is State.NEW
        if is_first and run.giver is not None:
            # All that was said stands there; other instructions take the place of the first ones.
            inner = _with_head(messages, run.session.messages)
        else:
            inner = run.kept(messages)
            without = [message for message in inner if message.get("tool_call_id") != INTERRUPT]
            run.session.messages = without
            if is_first and len(without) < len(inner) and not self._was_cut and run.caller is None:
                # A result without a call stands in no later prompt; that somebody was cut off is told by memory.
                report = {"heard_text": _speech(without[:-1]), "prepared": False}
                self.hooks.fire(ON_INTERRUPT, self.ctx, report)
            inner = without
        run.state, run.outcomes = State.THINKING, []
        run.hops = run.first_hop + payload["hop"] + 1
        self.runs = [other for other in self.runs if other.caller is not run]
        return {**payload, "messages": inner, "hop": run.hops - 1}

    def leave(self, run: Run, payload: dict[str, Any]) -> dict[str, Any]:
        """Return the same with what was said as EdgeVox's model can read it."""
        run.session.messages = list(payload["messages"])
        outer = outward(payload["messages"])
        hop = payload["hop"] - run.first_hop
        if hop == 0:
            run.prompt_length = len(outer)
        return {**payload, "messages": outer, "hop": hop}

    def end(self, run: Run, result: Any) -> None:
        """Note how a run ended, before the hooks are told."""
        run.session.messages = run.kept(run.ctx.session.messages)
        self._give(run.ctx.session, run.session.messages)
        if result.preempted and not self._is_cut and run.caller is None:
            report = {"heard_text": _speech(run.session.messages), "prepared": True}
            self.hooks.fire(ON_INTERRUPT, self.ctx, report)
            self._is_cut = True

    def over(self, run: Run) -> None:
        """Leave a run behind, and with it the ones that handed their turn over to it."""
        run.unsubscribe()
        if run.caller is not None:
            self.runs.remove(run)
        part: Run | None = run
        while part is not None:
            part.state, part = State.OVER, part.giver

    def _take_up(self, theirs: Any) -> Session:
        """Return our session for one of EdgeVox's; where a run broke off, EdgeVox's lacks what was said in it."""
        broken = next((run for run in self.runs[:1] if run.state is not State.OVER), None)
        if broken is not None and broken.is_begun:
            # EdgeVox tells no end of a run whose model fails.
            result = AgentResult("", broken.hops, error="the run broke off")
            self.hooks.fire(ON_RUN_END, Seen(broken.ctx, broken.session), result)
        self._leave()
        ours: Session = self.ctx.session
        if theirs is not self._theirs:
            ours, broken = Session(), None
        if broken is None or len(theirs.messages) < broken.length:
            ours.messages = inward(theirs.messages)
        ours.state, self._theirs = theirs.state, theirs
        return ours

    def _leave(self) -> None:
        for run in self.runs:
            run.unsubscribe()
        self.runs = []

    def _follow(self, run: Run, event: Any) -> None:
        """Follow a turn to the agent that it is handed over to: for the first one it has no end."""
        if event.agent_name != run.ctx.agent_name:
            return
        if event.kind == "agent_start":
            run.is_left = True  # it broke off, and another run has its context
        elif event.kind == "handoff":
            run.state, run.target = State.HANDED_OVER, event.payload["target"]
        elif event.kind == "agent_end" and event.payload.get("via_handoff"):
            if run.target is not None:  # none of our hooks acted in the other's run
                reply = event.payload["reply"]
                run.session.messages = run.kept(run.ctx.session.messages)
                if reply:
                    run.session.messages.append({"role": "assistant", "content": reply})
                if run.is_begun:
                    self.hooks.fire(ON_RUN_END, Seen(run.ctx, run.session), AgentResult(reply, run.hops))
            self.over(run)
            self._give(run.ctx.session, run.session.messages)

    def _give(self, theirs: Any, messages: Sequence[Message]) -> None:
        """Let a session of EdgeVox hold what was said; its instructions are its agent's."""
        theirs.messages[:] = outward(_with_head(theirs.messages, messages))


class State(Enum):
    """How far a run is."""

    NEW = 0
    THINKING = 1
    """Its model was called."""
    ACTING = 2
    """Its model asked for tools."""
    HANDED_OVER = 3
    """Another agent goes on with its turn."""
    OVER = 4


class Run:
    """One call of an agent's `run`, from its start to its end."""

    def __init__(
        self, ctx: Any, link: Link, session: Session, *, giver: Run | None = None, caller: Run | None = None
    ) -> None:
        """Note where it runs.

        Args:
            session: ours, which the hooks see.
            giver: the run whose turn this one goes on with.
            caller: the run whose tool this one is.
        """
        self.ctx, self.link, self.session = ctx, link, session
        self.giver, self.caller = giver, caller
        self.state = State.NEW
        self.is_begun = False
        """Whether our hooks know of its turn."""
        self.first_hop = self.hops = 0
        self.length = len(ctx.session.messages)
        """How many messages EdgeVox's session had at its start."""
        self.prompt_length: int | None = None
        """How many messages EdgeVox handed to its model first; what comes behind them was said by nobody."""
        self.outcomes: list[Any] = []
        """What the tools of the newest hop answered."""
        self.task = ""
        """What was said, as the last hook left it."""
        self.is_left = False
        """Whether its context has another run by now."""
        self.target: str | None = None
        """The agent that its turn is handed over to, until that begins."""
        self.unsubscribe: Callable[[], None] = lambda: None
        self._theirs: list[Message] = list(ctx.session.messages)
        """EdgeVox's session as it was left."""
        self._given: list[Message] | None = None
        """Ours, which it was made of."""

    def start(self, act: Callable[..., Any], payload: dict[str, Any]) -> Any:
        """Tell one hook that a turn begins; it may put what was said before into the session."""
        ears, theirs = self.link.ears, self.ctx.session.messages
        if not _same(theirs, self._theirs):  # another hook has changed it
            self.session.messages = inward(theirs)
        seen = Seen(self.ctx, self.session)
        if not self.is_begun and self.caller is None:
            ears.open_turn(seen, payload)
        self.is_begun = True
        fired = ears.hooks.fire_one(act, ON_RUN_START, seen, payload)
        messages = self.session.messages
        if messages and messages[0].get("role") != "system":
            # EdgeVox writes its instructions over whatever stands first.
            messages.insert(0, {"role": "system", "content": ""})
        if self._given is None or not _same(messages, self._given):
            theirs[:] = outward(messages)
            self._given, self._theirs, self.length = list(messages), list(theirs), len(theirs)
        return fired

    def kept(self, messages: Sequence[Message]) -> list[Message]:
        """Return its messages as memory keeps them; a user message behind the first ones tells what tools answered."""
        new_from = len(messages) if self.prompt_length is None or not self.outcomes else self.prompt_length
        return inward(
            results_in_words(self.outcomes, self.hops)
            if n >= new_from and message.get("role") == "user" and not isinstance(message, ResultsInWords)
            else message
            for n, message in enumerate(messages)
        )


class Link:
    """Our hooks at one registry of EdgeVox."""

    def __init__(self, ears: Ears, registry: Any) -> None:
        self.ears = ears
        self.on = True
        """False: they were left for those of another session."""
        self._registry = registry
        self._results = importlib.import_module("edgevox.agents.hooks").HookResult
        for enters in (True, False):
            border = Border(self, self._results, enters=enters)
            registry.register(border, priority=OUTERMOST if enters else -OUTERMOST)

    def register(self, hooks: Iterable[Hook]) -> None:
        """Register hooks; those that act only at points of ours are told by `Ears`."""
        for hook in hooks:
            second = traits_of(hook).second_place
            places = [SecondPlace(hook.points, hook.priority, hook), *([second] if second else ())]
            for place in places:
                if place.points & CLASSIC_POINTS:
                    wrapped = Wrapped(type(hook).__name__, place, self, self._results)
                    self._registry.register(wrapped, priority=place.priority)

    def run_in(self, ctx: Any) -> Run | None:
        """Return the run that goes on in a context, if our hooks at this registry act in it."""
        for run in self.ears.runs if self.on else ():
            if run.ctx is ctx and run.link is self and not run.is_left and run.state is not State.OVER:
                return run
        return None


class Border:
    """Where a run of EdgeVox comes in and goes out: between its two sides, messages are as memory keeps them."""

    points = CLASSIC_POINTS

    def __init__(self, link: Link, results: Any, *, enters: bool) -> None:
        self.link = link
        self.name = "edgemem.Border"
        self._results = results
        self.enters = enters

    def __call__(self, point: str, ctx: Any, payload: Any) -> Any:
        """Follow the run, and translate what the model is handed."""
        link = self.link
        if point == ON_RUN_START and self.enters and link.on:
            link.ears.begin(ctx, link, payload["task"])
        run = link.run_in(ctx)
        if run is None:
            return None
        if point == ON_RUN_START:
            run.task = payload["task"]
        if point == BEFORE_LLM:
            step = link.ears.enter if self.enters else link.ears.leave
            return self._results.replace(step(run, payload))
        if point == AFTER_LLM and not self.enters and payload["tool_calls"]:
            run.state = State.ACTING
        elif point == AFTER_TOOL and not self.enters:
            run.outcomes.append(payload)
        elif point == ON_RUN_END:
            if self.enters:
                link.ears.end(run, payload)
            else:
                link.ears.over(run)
        return None


class Wrapped:
    """One of our hooks as EdgeVox calls it: only at points that it knows, answering with its own results."""

    def __init__(self, name: str, place: SecondPlace, link: Link, results: Any) -> None:
        """Wrap what a hook does in one of its places; `results` is EdgeVox's class of results."""
        self.points = place.points & CLASSIC_POINTS
        self.priority = place.priority
        self.name = f"edgemem.{name}"
        self._act = place.act
        self._link = link
        self._results = results

    def __call__(self, point: str, ctx: Any, payload: Any) -> Any:
        """Call our hook, isolated and counted by our registry, which also lets a safety hook fail closed."""
        ears, run = self._link.ears, self._link.run_in(ctx)
        if run is None or (run.giver is not None and point == ON_RUN_START):
            return None
        if point == ON_RUN_START:
            fired = run.start(self._act, {"speaker": ears.speaker, **payload})
        elif point == ON_RUN_END:
            if not run.is_begun:
                return None  # another hook ended it before ours knew of it
            # What EdgeVox answers in the place of a turn that was stopped was not said in it.
            reply = _speech(run.session.messages) if payload.preempted else payload.reply
            result = AgentResult(reply, run.hops, payload.preempted)
            fired = ears.hooks.fire_one(self._act, point, Seen(ctx, run.session), result)
            if fired.is_modify:
                changed = dataclasses.replace(payload, reply=fired.payload.reply)
                return self._results.replace(changed, reason=fired.reason)
        else:
            fired = ears.hooks.fire_one(self._act, point, Seen(ctx, run.session), payload)
        if fired.is_end:
            return self._results.end(fired.payload, reason=fired.reason)
        if fired.is_modify:
            return self._results.replace(fired.payload, reason=fired.reason)
        return None


class Seen:
    """A context as our hooks see it: EdgeVox gives its own session the new messages only at the end of a run."""

    def __init__(self, ctx: Any, session: Session) -> None:
        self.session = session
        self._ctx = ctx

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)


def _speech(messages: Sequence[Message]) -> str:
    """Return what was said aloud in the newest turn."""
    return " ".join(text_of(messages[n]) for n in speeches_of(messages))


def _with_head(head: Sequence[Message], messages: Sequence[Message]) -> list[Message]:
    """Return what was said behind the instructions that another list begins with."""
    return [*split_instructions(head)[0], *split_instructions(messages)[1]]


def _same(some: Sequence[Message], others: Sequence[Message]) -> bool:
    """Tell whether two lists hold the very same messages."""
    return len(some) == len(others) and all(map(is_, some, others))


_EARS: WeakValueDictionary[tuple[int, str], Ears] = WeakValueDictionary()
"""By memory and session: agents that are attached to the same one share its hooks."""
