"""Upkeep between turns: idle work yields to speech, and the model's state is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from edgemem.records import Session, as_ours
from edgemem.session.log import Moment
from edgemem.session.points import AgentResult

if TYPE_CHECKING:
    from edgemem.llama.state import KeptState


class Upkeep(Protocol):
    """Work that can wait, for several agents: it goes on when none of them speaks."""

    def hold(self, by: object) -> None:
        """Stop at once, until the caller releases it or is gone."""

    def release(self, by: object) -> None:
        """Go on when it has been quiet for a moment, unless another holds it."""

    def run(self, seconds: float, *, yielding: bool = False, stop: Callable[[], bool] = ...) -> bool:
        """Work in the caller's thread for at most this long; `yielding`: and only while nobody holds it; until `stop()`."""
        ...


class UpkeepHold:
    """Holds idle work from the first sound, before any other step, until the end of the turn, when that is written.

    An agent that runs within a tool of another ends a turn of its own, and not the one that it runs in.
    """

    name = "upkeep"

    def __init__(
        self,
        upkeep: Upkeep,
        *,
        wake: Callable[[], None] = lambda: None,
        renew: Callable[[], object] = lambda: None,
    ) -> None:
        """Make the part.

        Args:
            wake: loads the embedder, which the next turn will need; called when somebody begins to speak.
            renew: takes settings that were changed, when a turn begins.
        """
        self.upkeep = upkeep
        self._wake = wake
        self._renew = renew
        self._session: Session | None = None
        """The session whose turn runs."""
        self._is_awake = False

    def speech(self, _moment: Moment) -> None:
        """Stop idle work at the first sound, and load the embedder."""
        self.upkeep.hold(self)
        if not self._is_awake:
            self._is_awake = True
            self._wake()

    def partial(self, _moment: Moment) -> None:
        """Stop idle work while somebody speaks."""
        self.upkeep.hold(self)

    def begin(self, moment: Moment) -> None:
        """Stop idle work until the end of the turn."""
        self.upkeep.hold(self)
        if self._session is None:
            self._session = moment.ctx.session
            self._renew()

    def end(self, moment: Moment) -> None:
        """Let idle work go on behind the turn."""
        if self._session is None or self._session is moment.ctx.session:
            self.release()

    def release(self) -> None:
        """Let idle work go on, also where somebody made a sound and said nothing, or a turn never ended."""
        self._session, self._is_awake = None, False
        self.upkeep.release(self)

    def idle(self, moment: Moment) -> None:
        """Work for the payload's seconds."""
        self.release()
        self.upkeep.run(float(moment.payload.get("seconds", 0.0)), yielding=True)


class StateKeeping:
    """Keeps the state of the model, in the thread of the turn: no other may touch the model."""

    name = "kept state"

    def __init__(self, kept: KeptState) -> None:
        self.kept = kept

    def end(self, moment: Moment) -> None:
        """Work, unless the turn was cut off: somebody is speaking then."""
        if not as_ours(moment.payload, AgentResult).interrupted:
            self.kept.work()
