"""Figures of a turn: one line on the logger `edgemem.turn`, without a word that anybody said; and files for other processes.

Nothing is tokenised for it: the block was counted where it was made, the prompt by the model. An agent that runs within a tool of
another has lines of its own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary
from zlib import crc32

import msgspec

from edgemem.config import read_file
from edgemem.llama.protocols import Generation
from edgemem.session.log import Moment, SessionLog
from edgemem.session.points import HookFailure

if TYPE_CHECKING:
    from edgemem.config import Settings
    from edgemem.recall.prefetch import Counts
    from edgemem.recall.recall import Recall
    from edgemem.recall.search.search import RecallStats

log = logging.getLogger("edgemem.turn")


class TurnFigures(msgspec.Struct):
    """The costs of one turn. No field may ever hold a word that was said, stored or shown, nor anybody's name."""

    at: float
    """When it ended, in seconds since the epoch by the robot's clock."""
    turn: int
    hops: int = 0
    recall_ms: float = 0.0
    """Recall, the embedding of the question included."""
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
    """Whether the model told these two; otherwise they are 0."""
    block_tokens: int = 0
    """Of the memory block: as its budget counted it, with 12 for the tags, and of notes a quarter of their bytes."""
    candidates: int = 0
    late: bool = False
    """Whether recall's deadline cut something off."""
    interrupted: bool = False
    failed: bool = False
    session: int = 0
    """`name_hash` of the conversation's id; 0: it is not kept, as that of an agent within another's tool."""
    agent: int = 0
    """`name_hash` of the agent's name; 0: it has none."""
    heard_early: int = 0
    """Turns of this process until then whose sentence was heard before its end."""
    ready_early: int = 0
    """Those of them for which nothing was left to recall at its end."""


def name_hash(name: str) -> int:
    """Return the CRC-32 of a name, so the same in every run; 0 for no name."""
    return crc32(name.encode(errors="replace"))


class _Running(msgspec.Struct):
    figures: TurnFigures
    begun: float
    recalled: RecallStats | None
    """The newest recall before this turn, and then in it."""
    generated: Generation | None
    """The model's newest report on an answer."""
    called: float = 0.0
    """0: the model was not called yet."""


class TurnLog:
    """Logs one JSON object a turn, and hands the figures on: the first of all steps takes the time, the last of all counts.

    Args:
        settings: `[log]` tells whether to log; figures go to `keep` either way. None: it does.
        search: has the newest recall's figures; an object that stays the same says that there was none.
        early: counts turns whose sentence was heard before its end, and those for which recall was ready then.
    """

    name = "figures"

    def __init__(
        self,
        *,
        settings: Settings | None = None,
        keep: Callable[[TurnFigures], None] = lambda _: None,
        search: Recall | None = None,
        early: Counts | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._keep = keep
        self._search = search
        self._early = early
        self._now = now
        self._running: WeakKeyDictionary[SessionLog, _Running] = WeakKeyDictionary()

    def begin(self, moment: Moment) -> None:
        """Take the time at which a turn begins."""
        recalled = None if self._search is None else self._search.last
        figures = TurnFigures(0.0, 0, counted=True)
        self._running[moment.log] = _Running(figures, moment.at, recalled, _generation(moment.ctx.llm))

    def call(self, moment: Moment) -> None:
        """Take the time of the model's call, and its prompt."""
        if (running := self._running.get(moment.log)) is None:
            return
        prompt_turn = moment.log.prompt_log.running
        if prompt_turn is not None:
            running.figures.turn, running.figures.block_tokens = prompt_turn.n, prompt_turn.block_tokens
        is_first, running.called = not running.called, perf_counter()
        if is_first:
            running.figures.hooks_ms = round((running.called - running.begun) * 1e3, 2)
            # Taken now: a tool that searches, or another session, recalls before the turn ends.
            newest = None if self._search is None else self._search.last
            running.recalled = None if newest is running.recalled else newest

    def answer(self, moment: Moment) -> None:
        """Count an answer of the model."""
        if (running := self._running.get(moment.log)) is None:
            return
        figures, generation = running.figures, _generation(moment.ctx.llm)
        figures.hops += 1
        figures.model_ms += (moment.at - running.called) * 1e3
        if generation is None or generation is running.generated:
            figures.counted = False
            return
        running.generated = generation
        figures.new_tokens += generation.evaluated_tokens
        # A reply that was cut off before the first word leaves a part of the prompt unread, neither new nor reused.
        if generation.ids or generation.stopped != "interrupted":
            figures.reused_tokens += generation.prompt_tokens - generation.evaluated_tokens

    def abort(self, moment: Moment) -> None:
        """Forget the figures of a turn that was thrown away."""
        self._running.pop(moment.log, None)

    def end(self, moment: Moment) -> None:
        """Log the figures of the turn that has ended."""
        if (running := self._running.pop(moment.log, None)) is None or moment.log.is_quiet:
            return
        figures, ended, recall = running.figures, moment.payload, running.recalled
        figures.at, figures.model_ms = round(self._now(), 3), round(figures.model_ms, 2)
        figures.commit_ms = round((perf_counter() - moment.at) * 1e3, 2)
        figures.counted &= figures.hops > 0
        if not figures.counted:
            figures.new_tokens = figures.reused_tokens = 0
        figures.interrupted, figures.failed = ended.interrupted, ended.error is not None
        figures.session = name_hash(moment.log.prompt_log.session)
        figures.agent = name_hash(moment.ctx.agent_name)
        if self._early is not None:
            figures.heard_early, figures.ready_early = self._early.turns, self._early.ready
        if running.called and recall is not None:
            figures.recall_ms = round(recall.embed_ms + recall.search_ms, 2)
            figures.embed_ms = round(recall.embed_ms, 2)
            figures.candidates, figures.late = recall.candidates, recall.late
        self._keep(figures)
        if (self._settings is None or self._settings.now.log.turn) and log.isEnabledFor(logging.INFO):
            log.info("%s", msgspec.json.encode(figures).decode())


def _generation(llm: Any) -> Generation | None:
    for model in (llm, getattr(llm, "chat", None)):
        generation = getattr(model, "last", None)
        if isinstance(generation, Generation):
            return generation
    return None


class FigureFile:
    """The figures of the newest turn, for other processes; written at most once in `every_s`, to spare the card."""

    def __init__(self, path: Path, *, every_s: float = 60.0, now: Callable[[], float] = monotonic) -> None:
        self.path = path
        self._every_s = every_s
        self._now = now
        self._newest: TurnFigures | None = None
        self._written: TurnFigures | None = None
        self._written_at = -float("inf")

    def note(self, figures: TurnFigures) -> None:
        """Take the figures of a turn, without touching the disk."""
        self._newest = figures

    def write(self, *, at_once: bool = False) -> bool:
        """Write the newest figures if they are due; return whether anything was written."""
        newest, now = self._newest, self._now()
        recent = now - self._written_at < self._every_s and not at_once
        if newest is None or newest is self._written or recent:
            return False
        self._written, self._written_at = newest, now
        return replace_file(self.path, msgspec.json.encode(newest))

    def read(self) -> TurnFigures | None:
        """Return the newest figures that any process has written."""
        try:
            return msgspec.json.decode(read_file(self.path), type=TurnFigures)
        except (OSError, msgspec.DecodeError):
            return None


class FailureLog:
    """Keeps failures of hooks and upkeep in a file of the home, for `edgemem check` in another process."""

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
        # Often the disk itself failed; the reply goes on, and the loop's registry has the failure too.
        replace_file(self.path, msgspec.json.format(msgspec.json.encode(list(self._known.values()))))

    def read(self) -> list[HookFailure]:
        """Return the failures of the file."""
        try:
            return msgspec.json.decode(read_file(self.path), type=list[HookFailure])
        except (OSError, msgspec.DecodeError):
            return []


def replace_file(path: Path, data: bytes) -> bool:
    """Replace a file (0600) that is for looking only, without waiting for the disk; return whether that was possible."""
    part = path.with_suffix(".part")
    try:
        part.unlink(missing_ok=True)
        part.write_bytes(data)
        part.chmod(0o600)
        part.replace(path)
    except OSError as error:
        log.warning("%s could not be kept: %s", path, error.strerror)
        with suppress(OSError):
            part.unlink(missing_ok=True)
        return False
    return True
