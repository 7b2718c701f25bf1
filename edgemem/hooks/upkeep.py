"""What goes on between turns: idle work yields to speech, the model's state is kept, the next epoch is read ahead."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from edgemem.hooks.points import (
    ON_ABORT,
    ON_IDLE,
    ON_PARTIAL,
    ON_RUN_END,
    ON_RUN_START,
    ON_SPEECH_START,
    AgentResult,
    SecondPlace,
    attachable,
)
from edgemem.records import Epoch, as_ours

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.context.prompt.log import PromptLog
    from edgemem.hooks.registry import HookFailure
    from edgemem.llama.second_context import WarmPrefix
    from edgemem.llama.state import KeptState


class Upkeep(Protocol):
    """Work that can wait, for several agents: it goes on when none of them speaks."""

    def hold(self, by: object) -> None:
        """Stop at once, until whoever asked for it releases it or is gone."""

    def release(self, by: object) -> None:
        """Go on when it has been quiet for a moment, unless another holds it."""

    def run(self, seconds: float, *, yielding: bool = False, stop: Callable[[], bool] = ...) -> bool:
        """Work in the caller's thread for at most this long; `yielding`: and only while nobody holds it; until `stop()`."""
        ...


class UpkeepHook:
    """Hold idle work from the first sound, before any other hook acts, until the end of the turn, when that is written.

    A loop that knows only the six classic points gets the same: upkeep then follows `on_run_end`. An agent that runs within
    a tool of another ends a turn of its own, and not the one that it runs in.
    """

    points = frozenset({ON_RUN_END, ON_ABORT, ON_IDLE})
    # Behind all others: the turn is not over before it is written.
    priority = -1001
    __repr__ = attachable

    def __init__(
        self,
        upkeep: Upkeep,
        *,
        wake: Callable[[], None] = lambda: None,
        renew: Callable[[], object] = lambda: None,
        note_failure: Callable[[HookFailure], None] = lambda _: None,
    ) -> None:
        """Make the hook.

        Args:
            wake: loads what the next turn will need (the embedder), called when somebody begins to speak.
            renew: takes settings that were changed, when a turn begins.
            note_failure: keeps what the registry says has failed, in whichever hook.
        """
        self.upkeep = upkeep
        self.note_failure = note_failure
        self._wake = wake
        self._renew = renew
        self._turn: Any = None
        """The session whose turn runs."""
        self._woken = False

    @property
    def second_place(self) -> SecondPlace:
        """Return the hook's second place, where it stops idle work: before recall, so that nothing competes with that."""
        return SecondPlace(frozenset({ON_SPEECH_START, ON_PARTIAL, ON_RUN_START}), 100, self._hold)

    def _hold(self, point: str, ctx: Any, payload: Any) -> None:
        self.upkeep.hold(self)
        if point == ON_SPEECH_START and not self._woken:
            self._woken = True
            self._wake()
        if point == ON_RUN_START and self._turn is None:
            self._turn = ctx.session
            self._renew()

    def __call__(self, point: str, ctx: Any, payload: Any) -> None:
        """Release; at `on_idle` also where somebody made a sound and said nothing, or a turn never ended."""
        if point == ON_IDLE or self._turn is None or self._turn is ctx.session:
            self._turn, self._woken = None, False
            self.upkeep.release(self)
        if point == ON_IDLE:
            self.upkeep.run(float(payload.get("seconds", 0.0)), yielding=True)


class KeepStateHook:
    """Keep what the model has evaluated, in the thread of the turn: no other may touch the model."""

    points = frozenset({ON_RUN_END})
    # After the commit, and before the figures of the turn are written.
    priority = -900

    def __init__(self, kept: KeptState) -> None:
        self.kept = kept

    def __call__(self, point: str, ctx: Any, payload: Any) -> None:
        """Work, unless the turn was cut off: whoever did that is speaking."""
        if not as_ours(payload, AgentResult).interrupted:
            self.kept.work()


class Warming:
    """Decides when an epoch is read ahead, and when it may begin: where that is possible, not before.

    The idle worker's thread reads, the thread of the turn switches: between these two there is a lock, held only while
    the state is put into the conversation's cache. That is done in idle time too, but for a model that was lent.
    """

    def __init__(self, prefix: WarmPrefix, prompt_log: PromptLog) -> None:
        self.prefix = prefix
        self._prompt_log = prompt_log
        self._tools: Sequence[dict[str, Any]] | None = None
        self._lock = threading.Lock()
        self._reads = False
        self._read: Epoch | None = None
        """The epoch whose prompt was read to the end."""
        self._warm: Epoch | None = None
        """The epoch whose prompt stands in the conversation's cache: from then on the old one is not there any more."""

    def note(self, tools: Sequence[dict[str, Any]] | None) -> None:
        """Take the schemas of the newest prompt: they stand in the head of the next."""
        self._tools = tools

    def work(self, epoch: Epoch | None, *, stop: Callable[[], bool]) -> bool:
        """Read a little of the prompt of a prepared epoch; return whether anything was done.

        Args:
            epoch: None: none is prepared, and what was read for one is given back.
        """
        if epoch is None or not self._possible():
            if self._reads:
                self.prefix.drop()
            self._reads = False
            return False
        if epoch == self._warm or self._prompt_log.running is not None:
            return False
        self._reads = True
        turns = len(self._prompt_log.turns)
        view = self._prompt_log.view_in(epoch)
        outcome = self.prefix.read(view, tools=self._tools, now=epoch.started_at or None, stop=stop)
        with self._lock:
            if outcome == "reading":
                self._read = None
            if outcome != "ready":
                return outcome == "reading"
            # Whoever began to speak meanwhile finds the old epoch as it was, and what was read lacks that turn.
            spoke = self._prompt_log.running is not None or len(self._prompt_log.turns) != turns or stop()
            self._read = None if spoke else epoch
            return not spoke and not self.prefix.lent and self._put()

    def waits(self) -> bool:
        """Tell whether the old epoch goes on, because the prompt of the new one has not been read."""
        with self._lock:
            if self.prefix.lent and self._read is not None:
                self._put()
            return self._warm is None and self._possible()

    def force(self) -> None:
        """Let the model have what was read until now: the old epoch has no room left."""
        if self._reads:
            self.prefix.put()

    def begun(self, epoch: Epoch) -> bool:
        """Note that an epoch begins; return whether its prompt has been read."""
        warm, self._warm = self._warm == epoch, None
        return warm

    def _put(self) -> bool:
        if not self.prefix.put():
            return False
        self._warm, self._read, self._reads = self._read, None, False
        return True

    def _possible(self) -> bool:
        prompt_log = self._prompt_log
        return self.prefix.fits(prompt_log.system, tools=self._tools, now=prompt_log.epoch.started_at or None)
