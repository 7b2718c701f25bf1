"""TurnLogHook: one line of figures a turn on the logger `edgemem.turn`, with nothing that anybody said in it.

Two hooks make it: the first of all takes the time when a point begins, the last of all when it ends. What counts
tokens does so after the turn was kept, while the reply is being spoken.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.hooks.conversation import Conversation, conversation_of
from edgemem.hooks.points import AFTER_LLM, BEFORE_LLM, ON_ABORT, ON_RUN_END, ON_RUN_START, HookResult
from edgemem.hooks.turn_figures import TurnFigures
from edgemem.llama.estimate import EstimateTokenizer
from edgemem.llama.template import text_of

if TYPE_CHECKING:
    from edgemem.llama.protocols import Tokenizer
    from edgemem.records import Message

log = logging.getLogger("edgemem.turn")


class RecallFigures(msgspec.Struct, frozen=True):
    """What recall tells about its newest question."""

    embed_ms: float = 0.0
    search_ms: float = 0.0
    late: bool = False
    candidates: int = 0


class _Running(msgspec.Struct):
    """What is known of the turn so far."""

    begun: float
    recalled: Any
    turn: int = 0
    hops: int = 0
    hooks_ms: float | None = None
    called: float = 0.0
    model_ms: float = 0.0
    ending: float = 0.0
    new_tokens: int = 0
    reused_tokens: int = 0
    told: bool = True
    block: str = ""
    messages: list[Message] = []


class TurnBeginHook:
    """Take the time before all other hooks; made by TurnLogHook."""

    points = frozenset({ON_RUN_START, ON_RUN_END})
    priority = 1000

    def __init__(self, note: Callable[[str, Any], None]) -> None:
        self._note = note

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Take the time."""
        self._note(point, ctx)
        return None


class TurnLogHook:
    """Log one JSON object a turn, and hand the figures on."""

    points = frozenset({ON_RUN_START, BEFORE_LLM, AFTER_LLM, ON_RUN_END, ON_ABORT})
    # Behind all others, so that what they take is in the figures.
    priority = -1000

    def __init__(
        self,
        *,
        write: Callable[[], bool] = lambda: True,
        keep: Callable[[TurnFigures], None] = lambda _: None,
        recalled: Callable[[], Any] = RecallFigures,
        tokenizer: Tokenizer | None = None,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.perf_counter,
        conversation: Conversation | None = None,
    ) -> None:
        """Make the hook; register `first` along with it.

        Args:
            write: tells whether to log, since settings change while a robot runs; figures go to `keep` either way.
            recalled: returns how the newest recall went; an object that stays the same says that there was none.
            tokenizer: counts the block, and the prompts of a model that does not tell.
            now: seconds since the epoch.
            clock: seconds since some moment, never running backwards.
        """
        self.first = TurnBeginHook(self._begin)
        self._write = write
        self._keep = keep
        self._recalled = recalled
        self._tokenizer: Tokenizer = tokenizer or EstimateTokenizer()
        self._now = now
        self._clock = clock
        self._conversation = conversation
        self._running: _Running | None = None
        self._generated: Any = None
        self._seen: tuple[list[Message], list[int]] = ([], [])
        """The newest prompt, and what each of its messages takes."""

    def _begin(self, point: str, ctx: Any) -> None:
        if point == ON_RUN_START:
            self._running = _Running(self._clock(), self._recalled())
            self._generated = _generation(getattr(ctx, "llm", None))
        elif self._running is not None:
            self._running.ending = self._clock()

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Collect, and log when the turn has ended."""
        running = self._running
        if running is None or point == ON_RUN_START:
            return None
        if point == ON_ABORT:
            self._running = None
        elif point == BEFORE_LLM:
            self._called(running, ctx, payload)
        elif point == AFTER_LLM:
            self._answered(running, ctx)
        else:
            self._running = None
            self._ended(running, payload)
        return None

    def _called(self, running: _Running, ctx: Any, payload: dict[str, Any]) -> None:
        laid = conversation_of(ctx, self._conversation).layout.running
        if laid is not None:
            running.turn, running.block = laid.n, laid.block
        running.messages = payload["messages"]
        running.called = self._clock()
        if running.hooks_ms is None:
            running.hooks_ms = (running.called - running.begun) * 1e3

    def _answered(self, running: _Running, ctx: Any) -> None:
        running.hops += 1
        running.model_ms += (self._clock() - running.called) * 1e3
        made = _generation(getattr(ctx, "llm", None))
        if made is None or made is self._generated:
            running.told = False
            return
        self._generated = made
        running.new_tokens += made.evaluated_tokens
        running.reused_tokens += made.prompt_tokens - made.evaluated_tokens

    def _ended(self, running: _Running, payload: Any) -> None:
        commit_ms = (self._clock() - running.ending) * 1e3
        counted = running.told and running.hops > 0
        block_tokens = len(self._tokenizer.encode(running.block)) if running.block else 0
        new, reused = running.new_tokens, running.reused_tokens
        if running.hops and not counted:
            new, reused = self._compared(running)
        recall = self._recalled()
        if recall is running.recalled:  # nothing was recalled in this turn
            recall = RecallFigures()
        figures = TurnFigures(
            round(self._now(), 3),
            running.turn,
            running.hops,
            round(recall.embed_ms + recall.search_ms, 2),
            round(recall.embed_ms, 2),
            round(running.hooks_ms or 0.0, 2),
            round(running.model_ms, 2),
            round(commit_ms, 2),
            new,
            reused,
            counted,
            block_tokens,
            recall.candidates,
            recall.late,
            bool(getattr(payload, "interrupted", False)),
            getattr(payload, "error", None) is not None,
        )
        self._keep(figures)
        if self._write() and log.isEnabledFor(logging.INFO):
            log.info("%s", msgspec.json.encode(figures).decode())

    def _compared(self, running: _Running) -> tuple[int, int]:
        """Return what of the prompt is new since the one before, and what is not, where the model does not tell."""
        before, sizes = self._seen
        messages = running.messages
        same = len(before)
        if messages[:same] != before:  # compared in C first: prompts grow
            pairs = zip(before, messages, strict=False)
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        new = [_roughly(text_of(message)) for message in messages[same:]]
        self._seen = (messages, [*sizes[:same], *new])
        return sum(new), sum(sizes[:same])


def _roughly(text: str) -> int:
    """Return about how many tokens a text takes, in less than a microsecond.

    A token takes 3 to 5 bytes of UTF-8 in all scripts that vocabularies of today were made for.
    """
    return (len(text.encode(errors="replace")) + 3) // 4


def _generation(llm: Any) -> Any:
    """Return what a chat model tells about its last answer; None if it tells nothing."""
    for model in (llm, getattr(llm, "chat", None)):
        made = getattr(model, "last", None)
        if hasattr(made, "evaluated_tokens") and hasattr(made, "prompt_tokens"):
            return made
    return None
