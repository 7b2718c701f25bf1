"""TurnLogHook: one line of figures a turn on the logger `edgemem.turn`, with nothing that anybody said in it.

Two hooks make it: the first of all takes the time when a point begins, the last of all when it ends. Nothing is
tokenised for it: the block was counted where it was made, the prompt by the model, or else by its bytes. An agent that
runs within a tool of another has lines of its own. The newest figures stand in a file for `edgemem stats`.

TimingHook: how long each hook took at each point, and how long the model and the tools took between them.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from itertools import takewhile
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any
from zlib import crc32

import msgspec

from edgemem.context.size import estimate
from edgemem.hooks.conversation import STATE_KEY, Conversation, conversation_of
from edgemem.hooks.points import (
    AFTER_LLM,
    AFTER_TOOL,
    BEFORE_LLM,
    BEFORE_TOOL,
    ON_ABORT,
    ON_RUN_END,
    ON_RUN_START,
    HookResult,
    attachable,
)
from edgemem.hooks.registry import replace_file
from edgemem.llama.protocols import Generation
from edgemem.llama.template.chat_template import text_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.recall.search.search import RecallStats
    from edgemem.records import Message


log = logging.getLogger("edgemem.turn")


_FIGURES = f"{STATE_KEY}_figures"
"""Where a session's state keeps what is measured of it, each by the hook that measures."""


class _Running(msgspec.Struct):
    """What is known of the turn so far."""

    begun: float
    recalled: RecallStats | None
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
    has_counts: bool = True
    block_tokens: int = 0
    messages: list[Message] = []
    generated: Generation | None = None
    """What the model told last of an answer."""
    opened: bool = False
    """Whether the last hook has seen the turn begin."""


class _Talk(msgspec.Struct):
    """What is known of one session."""

    running: _Running | None = None
    """None: no turn of it runs."""
    seen: tuple[list[Message], list[int]] = ([], [])
    """The newest prompt, and what each of its messages takes."""


class TurnBeginHook:
    """Take the time before all other hooks; made by TurnLogHook."""

    points = frozenset({ON_RUN_START, AFTER_LLM, ON_RUN_END})
    priority = 1000

    def __init__(self, log: TurnLogHook) -> None:
        self._log = log

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Take the time."""
        self._log.begin(point, ctx)
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
        recalled: Callable[[], RecallStats | None] = lambda: None,
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
        self.first = TurnBeginHook(self)
        self._write = write
        self._keep = keep
        self._recalled = recalled
        self._early = early
        self._now = now
        self._clock = clock
        self._conversation = conversation

    def _talk(self, ctx: Any) -> _Talk:
        talks: dict[int, _Talk] = ctx.session.state.setdefault(_FIGURES, {})
        return talks.setdefault(id(self), _Talk())

    def begin(self, point: str, ctx: Any) -> None:
        """Take the time at which a point begins."""
        now, talk = self._clock(), self._talk(ctx)
        if point == ON_RUN_START:
            talk.running = _Running(now, self._recalled(), generated=_generation(ctx))
        elif talk.running is not None and point == AFTER_LLM:
            talk.running.answered = now
        elif talk.running is not None:
            talk.running.ending = now

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Collect, and log when the turn has ended."""
        talk = self._talk(ctx)
        if point == ON_RUN_START and (talk.running is None or talk.running.opened):
            self.begin(point, ctx)  # nobody has registered `first`
        running = talk.running
        if running is None:
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
            running.recalled = None if newest is running.recalled else newest

    def _answered(self, running: _Running, ctx: Any) -> None:
        running.hops += 1
        running.model_ms += ((running.answered or self._clock()) - running.called) * 1e3
        running.answered = 0.0
        generation = _generation(ctx)
        if generation is None or generation is running.generated:
            running.has_counts = False
            return
        running.generated = generation
        running.new_tokens += generation.evaluated_tokens
        # Who was cut off before the first word has left a part of the prompt unread, neither new nor reused.
        if generation.ids or generation.stopped != "interrupted":
            running.reused_tokens += generation.prompt_tokens - generation.evaluated_tokens

    def _ended(self, talk: _Talk, running: _Running, ctx: Any, payload: Any) -> None:
        commit_ms = 0.0 if running.ending is None else (self._clock() - running.ending) * 1e3
        counted = running.has_counts and running.hops > 0
        new, reused = running.new_tokens, running.reused_tokens
        if running.hops and not counted:
            new, reused = _compared(talk, running)
        recall = None if running.hooks_ms is None else running.recalled
        session = conversation_of(ctx, self._conversation).layout.session
        agent = str(getattr(ctx, "agent_name", "") or "")
        figures = TurnFigures(
            round(self._now(), 3),
            running.turn,
            running.hops,
            0.0 if recall is None else round(recall.embed_ms + recall.search_ms + recall.rerank_ms, 2),
            0.0 if recall is None else round(recall.embed_ms, 2),
            round(running.hooks_ms or 0.0, 2),
            round(running.model_ms, 2),
            round(commit_ms, 2),
            new,
            reused,
            counted,
            running.block_tokens,
            0 if recall is None else recall.candidates,
            recall is not None and recall.late,
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


def _generation(ctx: Any) -> Generation | None:
    """Return what a chat model tells about its last answer; None if it tells nothing."""
    llm = getattr(ctx, "llm", None)
    told_by = (getattr(model, "last", None) for model in (llm, getattr(llm, "chat", None)))
    return next((generation for generation in told_by if isinstance(generation, Generation)), None)


class TurnFigures(msgspec.Struct, frozen=True):
    """What one turn took. No field may ever hold a word that was said, stored or shown, nor anybody's name."""

    at: float
    """When it ended, in seconds since the epoch by the robot's clock."""
    turn: int
    """Its number in its session."""
    hops: int = 0
    recall_ms: float = 0.0
    """Finding, the embedding of the question included."""
    embed_ms: float = 0.0
    hooks_ms: float = 0.0
    """All hooks between the end of the utterance and the first call of the model."""
    model_ms: float = 0.0
    commit_ms: float = 0.0
    """All hooks at the end of the turn, the commit among them."""
    new_tokens: int = 0
    """Tokens of all hops' prompts that the model had to evaluate."""
    reused_tokens: int = 0
    """Tokens of them that it had evaluated before."""
    counted: bool = False
    """Whether the model told these two; otherwise they are a quarter of the texts' bytes."""
    block_tokens: int = 0
    """Of the memory block: as its budget counted it, with 12 for the tags, and of notes a quarter of their bytes."""
    candidates: int = 0
    """What recall weighed."""
    late: bool = False
    """Whether recall's deadline cut something off."""
    interrupted: bool = False
    failed: bool = False
    session: int = 0
    """Which conversation it was of: `named` of its id; 0: one that is not kept, of an agent within another's tool."""
    agent: int = 0
    """Whose turn it was: `named` of the agent's name; 0: it has none."""
    heard_early: int = 0
    """Turns of this process until then whose sentence was heard before its end."""
    ready_early: int = 0
    """Those of them for which nothing was left to recall at its end."""


def named(name: str) -> int:
    """Return the number that stands for a name in figures: its CRC-32, so the same in every run."""
    return crc32(name.encode(errors="replace"))


class FigureFile:
    """The figures of the newest turn, for a process that looks from outside."""

    def __init__(self, path: Path, *, every_s: float = 60.0, now: Callable[[], float] = monotonic) -> None:
        """Name the file; nothing is written yet.

        Args:
            every_s: at most one write in this many seconds, to spare the card.
            now: seconds since some moment, never running backwards.
        """
        self.path = path
        self._every_s = every_s
        self._now = now
        self._newest: TurnFigures | None = None
        self._written: TurnFigures | None = None
        self._written_at: float | None = None

    def note(self, figures: TurnFigures) -> None:
        """Take the figures of a turn, without touching the disk."""
        self._newest = figures

    def write(self, *, at_once: bool = False) -> bool:
        """Write what is new, unless that was done a moment ago; return whether anything was written."""
        newest = self._newest
        if newest is None or newest is self._written:
            return False
        recent = self._written_at is not None and self._now() - self._written_at < self._every_s
        if recent and not at_once:
            return False
        self._written, self._written_at = newest, self._now()
        return replace_file(self.path, msgspec.json.encode(newest))

    def read(self) -> TurnFigures | None:
        """Return the newest figures that any process has written; None if there are none."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=TurnFigures)
        except (FileNotFoundError, msgspec.DecodeError):
            return None


logger = logging.getLogger("edgemem.timing")

_MOST_OPEN = 256
"""Spans that have begun and not ended; a loop that loses more ends than that is not measured further."""

_SPANS = {
    AFTER_LLM: (BEFORE_LLM, "model"),
    AFTER_TOOL: (BEFORE_TOOL, "tool"),
    ON_RUN_END: (ON_RUN_START, "turn"),
}
_BEGINNINGS = frozenset(begin for begin, _ in _SPANS.values())


class Timing(msgspec.Struct, frozen=True):
    """What one hook took at one point; `model`, `tool` and `turn` are the time between two points."""

    point: str
    hook: str
    count: int
    total_ms: float
    last_ms: float
    max_ms: float

    @property
    def mean_ms(self) -> float:
        """Return the mean time in milliseconds."""
        return self.total_ms / self.count


class TimingHook:
    """Measure without changing anything; several threads and loops may share one hook.

    The registry tells what each hook took (`note_timing`); in another framework's registry only the time
    between the points is known.
    """

    points = frozenset({ON_RUN_START, BEFORE_LLM, AFTER_LLM, BEFORE_TOOL, AFTER_TOOL, ON_RUN_END, ON_ABORT})
    # Behind all others, so that the time between two points is the model's and the tools' own.
    priority = 0
    __repr__ = attachable

    def __init__(self, *, log: bool = False, now: Callable[[], float] = time.perf_counter) -> None:
        """Make the hook.

        Args:
            log: whether a line of JSON goes to the logger `edgemem.timing` when a turn ends: the milliseconds of each
                hook at each point since the line before.
            now: seconds since some moment, never running backwards.
        """
        self._log = log
        self._logged: dict[tuple[str, str], float] = {}
        self._now = now
        self._lock = threading.Lock()
        self._timings: dict[tuple[str, str], Timing] = {}
        self._open: dict[tuple[str, int, str], float] = {}

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Take the time of a beginning, or count what has passed since."""
        now = self._now()
        if point == ON_ABORT:
            self._dropped(id(ctx))
        elif point in _BEGINNINGS:
            with self._lock:
                if len(self._open) < _MOST_OPEN:
                    self._open[point, id(ctx), _call(point, payload)] = now
        else:
            begin, name = _SPANS[point]
            with self._lock:
                begun = self._open.pop((begin, id(ctx), _call(begin, payload)), None)
            if begun is not None:
                self.note_timing(name, point, (now - begun) * 1e3)
            if point == ON_RUN_END:
                self._dropped(id(ctx))
                if self._log:
                    logger.info("%s", json.dumps(self._since()))
        return None

    def note_timing(self, hook: str, point: str, ms: float) -> None:
        """Count one call of a hook; the registry calls this."""
        with self._lock:
            before = self._timings.get((point, hook))
            if before is None:
                self._timings[point, hook] = Timing(point, hook, 1, ms, ms, ms)
            else:
                self._timings[point, hook] = Timing(
                    point, hook, before.count + 1, before.total_ms + ms, ms, max(before.max_ms, ms)
                )

    def timings(self) -> list[Timing]:
        """Return what was measured so far, the longest in total first."""
        with self._lock:
            return sorted(self._timings.values(), key=lambda timing: -timing.total_ms)

    def at(self, point: str) -> dict[str, Timing]:
        """Return what was measured at one point, by hook."""
        with self._lock:
            return {hook: timing for (where, hook), timing in self._timings.items() if where == point}

    def clear(self) -> None:
        """Forget what was measured."""
        with self._lock:
            self._timings.clear()
            self._logged.clear()

    def _since(self) -> dict[str, dict[str, float]]:
        """Return what was measured since the last call, by point and hook."""
        spent: dict[str, dict[str, float]] = {}
        with self._lock:
            for key, timing in self._timings.items():
                took = timing.total_ms - self._logged.get(key, 0.0)
                if took > 0:
                    spent.setdefault(timing.point, {})[timing.hook] = round(took, 3)
                self._logged[key] = timing.total_ms
        return spent

    def _dropped(self, context: int) -> None:
        """Forget what began in a turn that is over: a context's number may be given to another one."""
        with self._lock:
            for key in [key for key in self._open if key[1] == context]:
                del self._open[key]


def _call(point: str, payload: Any) -> str:
    """Tell the calls of one turn apart that may run side by side."""
    if point == BEFORE_TOOL:
        # Frameworks without ids run a call's two points in the thread of the call.
        return str(getattr(payload, "id", "") or threading.get_ident())
    return ""
