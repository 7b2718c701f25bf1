"""EdgeVox's ways: several agents run for one utterance, and a model may write its calls of tools as text.

EdgeVox tells a hook nothing of its workflows and handoffs, so the stack of the thread is read: the outermost frame that runs
agents is the run of the utterance. One agent alone ends with its own run, others with the event that EdgeVox sends then.
It tells the model the results of calls written as text in the person's name. Nobody said that, so memory keeps calls and results
(`inward`). Templates may have no role for them: every later prompt has them in the user's place, word for word (`outward`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import Any

from edgemem.context.messages import tool_calls
from edgemem.records import Message, ToolCall, text_of
from edgemem.session.arguments import calling
from edgemem.session.points import as_text

IN_WORDS = "in-words-"  # how the ids of calls written as text begin

_CALLER: Message = {"role": "assistant", "content": ""}

_AGENTS = "edgevox.agents."
_RUNS = frozenset(("run", "_run_child", "body", "run_one"))
"""Functions of EdgeVox in which agents run: its own, and those that it hands to other threads."""
_SILENT = frozenset(("Retry", "Timeout"))  # workflows of one agent, which send no event at their end


class OuterRun:
    """One run of what somebody said, as seen from an agent's run within it."""

    def __init__(self, frame: FrameType, depth: int) -> None:
        """Look at the outermost run by its frame; `depth` runs are within it, 0: it is the agent's own."""
        self.frame, self.depth = frame, depth
        self.ctx: Any = frame.f_locals["ctx"]
        workflow = frame.f_locals.get("self")
        self.name = "" if workflow is None else str(workflow.name)
        """The name in its event; empty: that of none of its agents."""
        self.is_silent = type(workflow).__name__ in _SILENT
        self.agents: set[str] = set()
        self.stop: Callable[[], None] = lambda: None  # stops listening for its end

    def holds(self, other: OuterRun) -> bool:
        """Tell whether another run is a part of this one."""
        beside = not self.name and not other.name and self.ctx is other.ctx  # in threads of one workflow
        return other.depth > 0 and (self.frame is other.frame or beside)

    def listen(self, close: Callable[[str], None]) -> None:
        """Call `close` with the reply when the run is over."""

        def follow(event: Any) -> None:
            is_other = event.agent_name not in self.agents if not self.name else event.agent_name == self.name
            if event.kind == "agent_end" and is_other:
                self.stop()
                close(str(event.payload.get("reply") or "") if isinstance(event.payload, dict) else "")

        self.stop = self.ctx.bus.subscribe_all(follow)


def outer_run() -> OuterRun | None:
    """Return the outermost run of EdgeVox in this thread; None where it runs none."""
    frame: FrameType | None = sys._getframe(1)
    outermost, depth = None, -1
    while frame is not None:
        if frame.f_code.co_name in _RUNS and str(frame.f_globals.get("__name__", "")).startswith(_AGENTS):
            outermost, depth = frame, depth + 1
        frame = frame.f_back
    return None if outermost is None else OuterRun(outermost, depth)


class ResultsInWords(dict[str, Any]):
    """A message that tells a model the results of its calls, and knows them."""

    def __init__(self, calls: list[Any], results: list[Message]) -> None:
        lines = [f"{result.get('name') or 'tool'} -> {text_of(result)}" for result in results]
        super().__init__(role="user", content="\n".join(["<tool_response>", *lines, "</tool_response>"]))
        self.calls, self.results = calls, results


def results_in_words(outcomes: Sequence[Any], hop: int) -> ResultsInWords:
    """Return the message for what the tools of a hop answered."""
    calls, results = [], []
    for n, outcome in enumerate(outcomes):
        name = f"{IN_WORDS}{hop}-{n}"
        calls.append(calling(ToolCall(outcome.name, outcome.arguments, name)))
        answer = {"result": outcome.result} if outcome.ok else {"error": outcome.error}
        result = {"role": "tool", "tool_call_id": name, "name": outcome.name}
        results.append({**result, "content": as_text({"ok": outcome.ok, **answer})})
    return ResultsInWords(calls, results)


def inward(messages: Iterable[Message]) -> list[Message]:
    """Return messages of a loop as memory keeps them."""
    inner: list[Message] = []
    for message in messages:
        if isinstance(message, ResultsInWords):
            caller = inner.pop() if inner and inner[-1].get("role") == "assistant" else _CALLER
            inner += [{**caller, "tool_calls": message.calls}, *message.results]
        else:
            inner.append(message)
    return inner


def outward(messages: Iterable[Message]) -> list[Message]:
    """Return messages as such a model can read them."""
    outer: list[Message] = []
    calls: list[Any] = []
    results: list[Message] = []
    for message in messages:
        if calls and message.get("role") == "tool":
            results.append(message)
            continue
        if results:
            outer.append(ResultsInWords(calls, results))
        message_calls = tool_calls(message)
        in_words = message_calls and all(str(call.get("id")).startswith(IN_WORDS) for call in message_calls)
        calls, results = list(message_calls) if in_words else [], []
        outer.append(
            {key: value for key, value in message.items() if key != "tool_calls"} if in_words else message
        )
    return [*outer, ResultsInWords(calls, results)] if results else outer
