"""Speech and silence: recall goes ahead while somebody speaks, and work that can wait goes on when nobody does."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from edgemem.errors import EdgememError
from edgemem.recall.prefetch import MAX_CHARS, Outcome, Prefetch, Prefetched
from edgemem.recall.text.analyse import asks, read_utterance, with_ending
from edgemem.records import Reader, Recalled, Session
from edgemem.session.log import Moment

if TYPE_CHECKING:
    from edgemem.llama.state import KeptState
    from edgemem.recall.recall import Request

_LEAST = 0.3  # the part of the deadline that a turn's own recall has, however long it waited for another


class Upkeep(Protocol):
    """Work that can wait, for several agents: it goes on when none of them speaks."""

    def hold(self, by: object) -> None:
        """Stop at once, until the caller releases it or is gone."""

    def release(self, by: object) -> None:
        """Go on when it has been quiet for a moment, unless another holds it."""

    def run(self, seconds: float, *, yielding: bool = False, stop: Callable[[], bool] = ...) -> bool:
        """Work in the caller's thread for so long, until `stop()`, and with `yielding` only while nobody holds it."""
        ...


class UpkeepHold:
    """Holds idle work from the first sound, before any other step, until the end of the turn, when that is written.

    An agent that runs within a tool of another ends a turn of its own, and not the one that it runs in.

    Args:
        wake: loads the embedder, which the next turn will need; called when somebody begins to speak.
        renew: takes settings that were changed, when a turn begins.
    """

    name = "upkeep"

    def __init__(
        self,
        upkeep: Upkeep,
        *,
        wake: Callable[[], None] = lambda: None,
        renew: Callable[[], object] = lambda: None,
    ) -> None:
        self.upkeep = upkeep
        self._wake = wake
        self._renew = renew
        self._session: Session | None = None
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
        self.upkeep.run(moment.seconds, yielding=True)


class StateKeeping:
    """Keeps the state of the model, in the thread of the turn: no other may touch the model."""

    name = "kept state"

    def __init__(self, kept: KeptState) -> None:
        self.kept = kept

    def end(self, moment: Moment) -> None:
        """Work, unless the turn was cut off: somebody is speaking then."""
        if not moment.payload.interrupted:
            self.kept.work()


class Waited(NamedTuple):
    """How the newest turn got its recall."""

    outcome: Outcome
    ms: float


class SessionPrefetch:
    """Hands a half-heard sentence to the thread that recalls ahead, and its findings to the turn.

    Nothing of a sentence that ends without a turn is kept. A failure is raised at the next moment, where it is counted like
    that of a step; the turn itself then recalls as if nobody had looked ahead. `recall` goes into the `MemoryBlock` of the
    same session; `request` returns how to search for a reader at this moment.
    """

    name = "prefetch"

    def __init__(self, prefetch: Prefetch, *, request: Callable[[Reader | None], Request]) -> None:
        self.last = Waited("unheard", 0.0)
        self._prefetch = prefetch
        self._request = request
        self._newest = ""
        """The newest text of the sentence that becomes the next turn."""
        self._heard: tuple[str, Reader] | None = None
        """The newest text and reader of a sentence that has not become a turn yet."""
        self._has_asked = False

    def speech(self, _moment: Moment) -> None:
        """Note that somebody begins to speak."""
        self._forget()
        if self._prefetch.share():
            self._prefetch.wake()
        self._raise_fault()

    def partial(self, moment: Moment) -> None:
        """Take the part of a sentence that was heard."""
        if len(moment.text) <= MAX_CHARS:
            self._newest, self._heard = moment.text, (moment.text, self._reader(moment))
            self._ask()
        self._raise_fault()

    def begin(self, _moment: Moment) -> None:
        """Note that the sentence has become a turn."""
        self._heard = None
        self._raise_fault()

    def end(self, _moment: Moment) -> None:
        """Ask again for a sentence that went on while the turn was made: the prompt has changed."""
        if self._heard is not None:
            self._ask()
        else:
            self._forget()
        self._raise_fault()

    def idle(self, _moment: Moment) -> None:
        """Forget a sentence that became no turn."""
        self._forget()
        self._raise_fault()

    def recall(self, utterance: str, reader: Reader | None) -> list[Recalled]:
        """Return the items for an utterance: those found while it was spoken, if the same would be found now."""
        begun = perf_counter()
        request, taken = self._request(reader), Prefetched("unheard")
        if self._newest:
            self._learn(utterance)
            taken = self._prefetch.claim(self, utterance, request)
        recalled = taken.items
        if recalled is None:
            if request.deadline_s is not None:
                # Time that was waited in vain is gone; with less than a part of it, not even words are found.
                left = max(request.deadline_s * _LEAST, request.deadline_s - (perf_counter() - begun))
                request = msgspec.structs.replace(request, deadline_s=left)
            recalled = self._prefetch.search(utterance, request)
        self.last = Waited(taken.outcome, (perf_counter() - begun) * 1e3)
        return recalled

    def _ask(self) -> None:
        if self._heard is not None:
            text, reader = self._heard
            if self._prefetch.marks_late and not read_utterance(text).ending:
                text = with_ending(text, "?" if asks(text) else ".")
            self._has_asked = True
            self._prefetch.ask(self, text, self._request(reader))

    def _forget(self) -> None:
        self._newest, self._heard = "", None
        if self._has_asked:
            self._prefetch.drop(self)

    def _learn(self, utterance: str) -> None:
        """Note how the recogniser ends a sentence."""
        heard, whole = read_utterance(self._newest), read_utterance(utterance)
        if heard.words == whole.words:
            self._prefetch.marks_late = bool(whole.ending) and not heard.ending

    def _reader(self, moment: Moment) -> Reader:
        """Return the likely reader: voices are recognised late, and nobody is told anything before that."""
        reader, before = moment.reader or Reader(), moment.log.prompt_log.reader
        unknown = reader.speaker is None or (before is not None and reader.key == before.key)
        return before if before is not None and unknown and not reader.audience else reader

    def _raise_fault(self) -> None:
        if self._has_asked and (fault := self._prefetch.fault(self)):
            raise EdgememError(f"a recall ahead of a turn failed ({fault}); the turn's own tells more")
