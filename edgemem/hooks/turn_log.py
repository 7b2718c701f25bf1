"""TurnLogHook: one line of figures a turn on the logger `edgemem.turn`, with nothing that anybody said in it.

Two hooks make it: the first of all takes the time when a point begins, the last of all when it ends. Nothing is
tokenised for it: the block was counted where it was made, the prompt by the model, or else by its bytes. An agent that
runs within a tool of another has lines of its own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.context.size import estimate
from edgemem.hooks.conversation import Conversation, conversation_of
from edgemem.hooks.points import AFTER_LLM, BEFORE_LLM, ON_ABORT, ON_RUN_END, ON_RUN_START, HookResult
from edgemem.hooks.turn_figures import TurnFigures, named
from edgemem.llama.template.chat_template import text_of

if TYPE_CHECKING:
    from edgemem.records import Message

log = logging.getLogger("edgemem.turn")


_MOST_TALKS = 16
"""Sessions that are known at a time: agents within tools may come with a new one each time."""


class RecallFigures(msgspec.Struct, frozen=True):
    """What recall tells about its newest question."""

    embed_ms: float = 0.0
    search_ms: float = 0.0
    rerank_ms: float = 0.0
    late: bool = False
    candidates: int = 0


class _Running(msgspec.Struct):
    """What is known of the turn so far."""

    begun: float
    recalled: Any
    """How the newest recall went before this turn, and then in it."""
    turn: int = 0
    hops: int = 0
    hooks_ms: float | None = None
    called: float = 0.0
    model_ms: float = 0.0
    answered: float = 0.0
    ending: float | None = None
    new_tokens: int = 0
    reused_tokens: int = 0
    told: bool = True
    block_tokens: int = 0
    messages: list[Message] = []
    generated: Any = None
    """What the model told last of an answer."""
    opened: bool = False
    """Whether the last hook has seen the turn begin."""


class _Talk(msgspec.Struct):
    """What is known of one session."""

    state: dict[str, Any]
    """The session's own, which it keeps for as long as it lives."""
    running: _Running | None = None
    seen: tuple[list[Message], list[int]] = ([], [])
    """The newest prompt, and what each of its messages takes."""


class TurnBeginHook:
    """Take the time before all other hooks; made by TurnLogHook."""

    points = frozenset({ON_RUN_START, AFTER_LLM, ON_RUN_END})
    priority = 1000

    def __init__(self, note: Callable[[str, Any], None]) -> None:
        self._note = note

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Take the time."""
        self._note(point, ctx)
        return None


class TurnLogHook:
    """Log one JSON object a turn, and hand the figures on.

    In a registry of your own, `HookRegistry([*hooks, log.first, log])`; without `first`, what hooks take is measured
    from behind them only.
    """

    points = frozenset({ON_RUN_START, BEFORE_LLM, AFTER_LLM, ON_RUN_END, ON_ABORT})
    # Behind all others, so that what they take is in the figures.
    priority = -1000

    def __init__(
        self,
        *,
        write: Callable[[], bool] = lambda: True,
        keep: Callable[[TurnFigures], None] = lambda _: None,
        recalled: Callable[[], Any] = RecallFigures,
        early: Callable[[], tuple[int, int]] = lambda: (0, 0),
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.perf_counter,
        conversation: Conversation | None = None,
    ) -> None:
        """Make the hook.

        Args:
            write: tells whether to log, since settings change while a robot runs; figures go to `keep` either way.
            recalled: returns how the newest recall went; an object that stays the same says that there was none.
            early: returns of how many turns the sentence was heard before its end, and for how many of them recall was
                ready then.
            now: seconds since the epoch.
            clock: seconds since some moment, never running backwards.
        """
        self.first = TurnBeginHook(self._begin)
        self._write = write
        self._keep = keep
        self._recalled = recalled
        self._early = early
        self._now = now
        self._clock = clock
        self._conversation = conversation
        self._talks: list[_Talk] = []

    def _talk(self, ctx: Any) -> _Talk | None:
        state = getattr(getattr(ctx, "session", None), "state", None)
        return next((talk for talk in self._talks if talk.state is state), None)

    def _begin(self, point: str, ctx: Any) -> None:
        now, talk = self._clock(), self._talk(ctx)
        if point == ON_RUN_START:
            if talk is None:
                talk = _Talk(ctx.session.state)
                self._talks.append(talk)
                if len(self._talks) > _MOST_TALKS:
                    self._talks.remove(
                        next((old for old in self._talks if old.running is None), self._talks[0])
                    )
            talk.running = _Running(now, self._recalled(), generated=_generation(getattr(ctx, "llm", None)))
        elif talk is not None and talk.running is not None and point == AFTER_LLM:
            talk.running.answered = now
        elif talk is not None and talk.running is not None:
            talk.running.ending = now

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Collect, and log when the turn has ended."""
        talk = self._talk(ctx)
        if point == ON_RUN_START and (talk is None or talk.running is None or talk.running.opened):
            self._begin(point, ctx)  # nobody has registered `first`
            talk = self._talk(ctx)
        running = talk.running if talk is not None else None
        if talk is None or running is None:
            return None
        if point == ON_RUN_START:
            running.opened = True
        elif point == ON_ABORT:
            talk.running = None
        elif point == BEFORE_LLM:
            self._called(running, ctx, payload)
        elif point == AFTER_LLM:
            self._answered(running, ctx)
        else:
            talk.running = None
            self._ended(talk, running, ctx, payload)
        return None

    def _called(self, running: _Running, ctx: Any, payload: dict[str, Any]) -> None:
        laid = conversation_of(ctx, self._conversation).layout.running
        if laid is not None:
            running.turn, running.block_tokens = laid.n, laid.block_tokens
        running.messages = payload["messages"]
        running.called = self._clock()
        if running.hooks_ms is None:
            running.hooks_ms = (running.called - running.begun) * 1e3
            # Taken now: a tool that searches, or another session, recalls before the turn ends.
            newest = self._recalled()
            running.recalled = RecallFigures() if newest is running.recalled else newest

    def _answered(self, running: _Running, ctx: Any) -> None:
        running.hops += 1
        running.model_ms += ((running.answered or self._clock()) - running.called) * 1e3
        running.answered = 0.0
        made = _generation(getattr(ctx, "llm", None))
        if made is None or made is running.generated:
            running.told = False
            return
        running.generated = made
        running.new_tokens += made.evaluated_tokens
        # Who was cut off before the first word has left a part of the prompt unread, neither new nor reused.
        unread = getattr(made, "stopped", "") == "interrupted" and not getattr(made, "ids", ())
        if not unread:
            running.reused_tokens += made.prompt_tokens - made.evaluated_tokens

    def _ended(self, talk: _Talk, running: _Running, ctx: Any, payload: Any) -> None:
        commit_ms = 0.0 if running.ending is None else (self._clock() - running.ending) * 1e3
        counted = running.told and running.hops > 0
        new, reused = running.new_tokens, running.reused_tokens
        if running.hops and not counted:
            new, reused = _compared(talk, running)
        recall = RecallFigures() if running.hooks_ms is None else running.recalled
        session = conversation_of(ctx, self._conversation).layout.session
        agent = str(getattr(ctx, "agent_name", "") or "")
        figures = TurnFigures(
            round(self._now(), 3),
            running.turn,
            running.hops,
            round(recall.embed_ms + recall.search_ms + recall.rerank_ms, 2),
            round(recall.embed_ms, 2),
            round(running.hooks_ms or 0.0, 2),
            round(running.model_ms, 2),
            round(commit_ms, 2),
            new,
            reused,
            counted,
            running.block_tokens,
            recall.candidates,
            recall.late,
            bool(getattr(payload, "interrupted", False)),
            getattr(payload, "error", None) is not None,
            named(session) if session else 0,
            named(agent) if agent else 0,
            *self._early(),
        )
        self._keep(figures)
        if self._write() and log.isEnabledFor(logging.INFO):
            log.info("%s", msgspec.json.encode(figures).decode())


def _compared(talk: _Talk, running: _Running) -> tuple[int, int]:
    """Return what of the prompt is new since the one before, and what is not, where the model does not tell."""
    before, sizes = talk.seen
    messages = running.messages
    same = len(before)
    if messages[:same] != before:  # compared in C first: prompts grow
        pairs = zip(before, messages, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    new = [estimate(text_of(message)) for message in messages[same:]]
    talk.seen = (messages, [*sizes[:same], *new])
    return sum(new), sum(sizes[:same])


def _generation(llm: Any) -> Any:
    """Return what a chat model tells about its last answer; None if it tells nothing."""
    for model in (llm, getattr(llm, "chat", None)):
        made = getattr(model, "last", None)
        if hasattr(made, "evaluated_tokens") and hasattr(made, "prompt_tokens"):
            return made
    return None
