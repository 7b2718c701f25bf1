"""Upkeep between turns: idle work yields to speech, and the model's state is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from edgemem.records import as_ours
from edgemem.session.points import (
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

if TYPE_CHECKING:
    from edgemem.llama.state import KeptState
    from edgemem.session.registry import HookFailure


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
