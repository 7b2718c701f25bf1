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

EdgeVox knows six points of a turn; of the others (somebody begins to speak, a half-heard sentence, a barge-in, an aborted turn,
quiet) its owner tells `ears`. The model is offered tools to remember, look up and forget (`memory_tools=False` leaves them out),
within the rights of `ears.speaker` when the turn began. EdgeVox renders its prompts itself, so no state of its model is kept
over a restart (`[chat] keep_state`). Leave out EdgeVox's own memory, notes, budget, compaction and persistence hooks: two
memories would both put their lines into the prompt.

Agents that hand over to one another: attach to the `hooks` of the `AgentContext` that they run in, and the second goes on
where the first stopped. Attached to the first alone, memory keeps what the second answers, but tells it nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from edgemem.errors import InvalidInputError
from edgemem.hooks.builtin import PartHook
from edgemem.session.points import BEFORE_LLM, CLASSIC_POINTS, Hook, HookFailure

if TYPE_CHECKING:
    from edgemem.context.bargein import Timed
    from edgemem.llama.protocols import Tokenizer
    from edgemem.memory import Memory

INTERRUPT = "__interrupt__"  # the tool in whose result EdgeVox says that the reply before was cut off


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

    Attached to the same session again, an agent keeps what it has; attached to another one, it leaves the first. Agents that are
    attached to one session share it, and one that exists is taken up where it was. `Ears.speaker` changes the speaker from turn
    to turn, None is an unknown voice. `tokenizer` counts what the model will see; None takes the memory's own. Raises
    InvalidInputError where the agent has no registry of hooks.
    """
    registry, ears = getattr(agent, "hooks", agent), _EARS.get((id(memory), session_id))
    if not hasattr(registry, "register"):
        raise InvalidInputError(f"{type(agent).__name__} has no hook registry; pass an agent or registry.")
    if ears is None or ears.memory is not memory:  # a memory that is gone had the same id
        # Who speaks is said by `Ears` alone: hooks and tools with a speaker of their own would take a stranger for that person.
        ears = _EARS[id(memory), session_id] = Ears(
            memory, memory.hooks(session_id=session_id, tokenizer=tokenizer)
        )
    links = [hook for hook in registry if isinstance(hook, Link)]
    for link in links:
        link.is_on = link.ears is ears
    if not any(link.is_on for link in links):
        registry.register(Link(ears))
    ears.speaker = speaker
    if memory_tools and hasattr(agent, "tools"):
        agent.tools.register(*memory.tools())
    return ears


class Ears:
    """What EdgeVox has no hook points for: speech, barge-in, and quiet; and who speaks."""

    def __init__(self, memory: Memory, hooks: Sequence[Hook]) -> None:
        parts = [hook for hook in hooks if isinstance(hook, PartHook)]
        self.memory = memory
        self.adapter = next(hook.adapter for hook in parts if hook.adapter is not None)
        self.adapter.join(*parts)
        # Those of the home's hook files act behind edgemem's own steps, at all eleven points.
        self.adapter.registry.extend(hook for hook in hooks if not isinstance(hook, PartHook))
        self.theirs: Any = None  # EdgeVox's session of the newest turn

    @property
    def speaker(self) -> str | None:
        """Return who speaks the next utterance; None is a voice that nobody knows."""
        return self.adapter.conversation.speaker

    @speaker.setter
    def speaker(self, name: str | None) -> None:
        self.adapter.conversation.speaker = name

    def speech_start(self) -> None:
        """Tell the hooks that somebody begins to speak."""
        self.adapter.conversation.speech_start()

    def partial(self, text: str) -> None:
        """Tell the hooks what has been heard of the sentence so far, all of it; from any thread, however often."""
        self.adapter.conversation.partial(text)

    def interrupt(
        self,
        heard_text: str | None = None,
        *,
        heard_ms: float | None = None,
        words: Iterable[Timed] | None = None,
    ) -> None:
        """Tell the hooks that the robot was cut off, as `Conversation.interrupt` takes it."""
        heard = self.adapter.conversation.interrupt(heard_text, heard_ms=heard_ms, words=words)
        self.adapter.state.is_cut = True
        newest = self.theirs.messages[-1] if self.theirs is not None and self.theirs.messages else {}
        if heard is not None and newest.get("role") == "assistant" and self.adapter.turn is None:
            self.theirs.messages[-1] = {**newest, "content": heard}

    def abort(self) -> None:
        """Tell the hooks that the turn is thrown away."""
        self.adapter.abort()

    def idle(self, seconds: float) -> None:
        """Tell the hooks that nobody speaks for so many seconds."""
        self.adapter.conversation.idle(seconds)

    def failures(self) -> list[HookFailure]:
        """Return what went wrong so far, most frequent first."""
        return self.adapter.registry.failures()


class Link:
    """The memory of a session, as a registry of EdgeVox calls it."""

    points = CLASSIC_POINTS
    priority = 80

    def __init__(self, ears: Ears) -> None:
        self.ears = ears
        self.is_on = True  # False: the agent was attached to another session

    def __call__(self, point: str, ctx: Any, payload: Any) -> Any:
        """Take the steps of a point."""
        if not self.is_on:
            return None
        adapter = self.ears.adapter
        self.ears.theirs = ctx.session
        try:
            is_first = point == BEFORE_LLM and payload["hop"] == 0 and adapter.turn is None
            calls = (message.get("tool_call_id") for message in payload["messages"]) if is_first else ()
            if INTERRUPT in calls and not adapter.state.is_cut:
                adapter.conversation.interrupt(prepared=False)
            result = adapter.act(point, ctx, payload)
        except Exception as error:  # noqa: BLE001 - EdgeVox would swallow it; it is counted
            adapter.registry.note("edgemem", point, error)
            return None
        if result is not None and result.is_end:  # it takes an end of its own class alone
            return importlib.import_module("edgevox.agents.hooks").HookResult.end(result.payload)
        return result


_EARS: WeakValueDictionary[tuple[int, str], Ears] = WeakValueDictionary()  # by memory and session
