"""UpkeepHook: lets idle work yield when somebody speaks, and go on when the turn is over.

Two hooks make it: the first of all stops idle work, the last of all lets it go on, when the turn is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from edgemem.hooks.arguments import attachable
from edgemem.hooks.points import (
    ON_ABORT,
    ON_IDLE,
    ON_PARTIAL,
    ON_RUN_END,
    ON_RUN_START,
    ON_SPEECH_START,
    HookResult,
)

if TYPE_CHECKING:
    from edgemem.hooks.registry import HookFailure


class Upkeep(Protocol):
    """Work that can wait, for several agents: it goes on when none of them speaks."""

    def hold(self, by: object) -> None:
        """Stop at once, until whoever asked for it releases it or is gone."""
        ...

    def release(self, by: object) -> None:
        """Go on when it has been quiet for a moment, unless another holds it."""
        ...

    def run(self, seconds: float, *, yielding: bool = False) -> bool:
        """Work in the caller's thread for at most this long; `yielding`: and only while nobody holds it."""
        ...


class UpkeepBeginHook:
    """Stop idle work, and take new settings, before any other hook has begun; `UpkeepHook.first` makes it."""

    points = frozenset({ON_SPEECH_START, ON_PARTIAL, ON_RUN_START})
    # Before memory is looked up, so that nothing competes with that.
    priority = 100
    __repr__ = attachable

    def __init__(self, upkeep: UpkeepHook, renew: Callable[[], object]) -> None:
        self._upkeep = upkeep
        self._renew = renew

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Hold; where no turn of this conversation runs, the next one has the settings that hold now."""
        if point == ON_RUN_START and not self._upkeep.runs:
            self._renew()
        return self._upkeep(point, ctx, payload)


class UpkeepHook:
    """Hold idle work from the first sound until the end of the turn.

    In a registry of your own, `HookRegistry([*hooks, upkeep.first, upkeep])`; without `first`, idle work stops only when
    all other hooks have acted. A loop that knows only the six classic points gets the same: upkeep then follows
    `on_run_end`. An agent that runs within a tool of another ends a turn of its own, and not the one that it runs in.
    """

    points = frozenset({ON_SPEECH_START, ON_PARTIAL, ON_RUN_START, ON_RUN_END, ON_ABORT, ON_IDLE})
    # Behind all others: the turn is not over before it is written.
    priority = -1001
    __repr__ = attachable

    def __init__(
        self,
        upkeep: Upkeep,
        *,
        wake: Callable[[], None] | None = None,
        renew: Callable[[], object] = lambda: None,
        note_failure: Callable[[HookFailure], None] = lambda _: None,
    ) -> None:
        """Make the hook.

        Args:
            note_failure: keeps what the registry says has failed, in whichever hook.
            renew: takes settings that were changed, when a turn begins.
            wake: loads what the next turn will need (the embedder), called when somebody begins to speak.
        """
        self.upkeep = upkeep
        self.note_failure = note_failure
        self._wake = wake
        self._renew = renew
        self._turn: Any = None
        """The session whose turn runs."""
        self._woken = False

    @property
    def first(self) -> UpkeepBeginHook:
        """Return the hook that holds before all others."""
        # Made anew: one that this hook referred to would keep both alive, and idle work held, until memory is collected.
        return UpkeepBeginHook(self, self._renew)

    @property
    def runs(self) -> bool:
        """Tell whether a turn of this conversation runs."""
        return self._turn is not None

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Hold or release."""
        session = ctx.session
        if point in (ON_RUN_END, ON_ABORT):
            if self._turn is None or self._turn is session:
                self._quiet()
        elif point == ON_IDLE:
            # Somebody made a sound and said nothing, or a turn never ended: now it is quiet here.
            self._quiet()
            self.upkeep.run(float(payload.get("seconds", 0.0)), yielding=True)
        else:
            self.upkeep.hold(self)
            if point == ON_RUN_START and self._turn is None:
                self._turn = session
            if point == ON_SPEECH_START and self._wake is not None and not self._woken:
                self._woken = True
                self._wake()
        return None

    def _quiet(self) -> None:
        self._turn, self._woken = None, False
        self.upkeep.release(self)
