"""Prefetch: a recall that runs while somebody still speaks, so that it is ready when they have ended.

One thread recalls for the newest words of each conversation. A turn gets the result only if its whole sentence and arguments are
the same, and nothing was written meanwhile; otherwise it recalls by itself. Nothing is kept on disk.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from edgemem.errors import ClosedError, EdgememError
from edgemem.recall.text.analyse import Utterance, read_utterance

if TYPE_CHECKING:
    from edgemem.recall.recall import Request
    from edgemem.records import Recalled

MAX_CHARS = 2000
"""A longer sentence is not recalled for: nobody speaks as long before they are answered."""

SETTLE_S = 0.06
"""How long a text must stay the same before it is recalled for: recognisers change their minds several times a word."""
KEPT_S = 10.0
"""How long a sentence without a turn is kept: later, a fact that time has begun could be missed."""

Outcome = Literal["ready", "waited", "stale", "missed", "unheard"]
"""A turn's recall was made; in the making; made, but no longer valid; of another sentence or not begun; or nothing was heard."""


class Counts(msgspec.Struct):
    """How often it paid since the memory was opened."""

    turns: int = 0
    """With a sentence that was heard before its end."""
    ready: int = 0
    """Of these, turns that waited for nothing."""
    begun: int = 0
    """Recalls ahead, needed or not."""


class Prefetched(NamedTuple):
    """Early recall's part in a turn."""

    outcome: Outcome
    items: list[Recalled] | None = None
    """None: the turn recalls by itself."""


class _Request(NamedTuple):
    text: str
    utterance: Utterance
    asked: Request

    def matches(self, utterance: Utterance, asked: Request) -> bool:
        return self.utterance == utterance and self.asked == asked


class _Result(NamedTuple):
    """A recall, and the state of everything that it was made from."""

    request: _Request
    items: list[Recalled]
    stamp: object
    at: float


class _Speech(msgspec.Struct):
    newest: _Request | None = None
    """None: a turn came with another text, so nobody waits."""
    since: float = 0.0
    """When the text was first heard."""
    waits: bool = False
    """Whether its recall is still to be made."""
    running: _Request | None = None
    result: _Result | None = None
    fault: str = ""


class Prefetch:
    """Recalls for half-heard sentences in a thread of its own; safe to use from several threads.

    Args:
        search: as `Recall.recall`.
        stamp: returns a value that changes with everything that is recalled from.
        late: tells whether the last search was cut short by its deadline.
        warm: brings a search's needs into memory, until its argument, a function, returns true.
        share: returns the usable part of one core, 0 to 1; 0: nothing is recalled ahead.
        clock: seconds since some moment, never backwards.
    """

    def __init__(
        self,
        search: Callable[..., list[Recalled]],
        *,
        stamp: Callable[[], object],
        late: Callable[[], bool] = lambda: False,
        warm: Callable[[Callable[[], bool]], object] = lambda _: None,
        share: Callable[[], float] = lambda: 0.5,
        now: Callable[[], float],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.search = search
        self.settle_s = SETTLE_S
        self.share = share
        self.counts = Counts()
        self.marks_late = False
        """Whether the recogniser marks the end of a sentence only when it is over; set by the hook that hears the whole."""
        self._stamp = stamp
        self._late = late
        self._warm = warm
        self._now = now
        self._clock = clock
        self._changed = threading.Condition()
        # Weak, so that a conversation dropped in the middle of a sentence leaves nothing here.
        self._speeches: WeakKeyDictionary[Any, _Speech] = WeakKeyDictionary()
        self._cold = False
        self._rests_until = 0.0
        self._thread: threading.Thread | None = None
        self.closed = False

    @property
    def idle(self) -> bool:
        """Tell whether everything heard has been recalled for."""
        with self._changed:
            return not any(speech.waits or speech.running for speech in self._speeches.values())

    def wake(self) -> None:
        """Begin to bring a search's needs into memory, and return at once: somebody begins to speak."""
        with self._changed:
            self._cold = True
            self._start()

    def ask(self, by: object, text: str, asked: Request) -> None:
        """Hand over the words so far, and return at once; only the newest of each conversation, the object `by`, count."""
        if len(text) > MAX_CHARS or not self.share():
            return
        text = " ".join(text.split())
        request = _Request(text, read_utterance(text), asked)
        if not request.utterance.words:
            return
        with self._changed:
            speech = self._speeches.setdefault(by, _Speech())
            if request != speech.newest:
                speech.newest, speech.since = request, self._clock()
                # A recogniser may go back to what it heard before.
                known = speech.result is not None and speech.result.request == request
                speech.waits = not known and request != speech.running
                self._start()

    def claim(self, by: object, text: str, asked: Request) -> Prefetched:
        """Return the recall for an ended sentence, waiting at most `asked.deadline_s` (None: 1 s) for one on its way."""
        utterance = read_utterance(text[: MAX_CHARS + 1])
        with self._changed:
            speech = self._speeches.get(by)
            if speech is None:
                return Prefetched("unheard")
            speech.waits, waited, running = False, False, speech.running
            if running is not None and not running.matches(utterance, asked):
                speech.newest = None
            elif running is not None and not (
                speech.result and speech.result.request.matches(utterance, asked)
            ):
                waited = True
                self._changed.wait_for(lambda: speech.running is not running, asked.deadline_s or 1.0)
            result = speech.result
        taken = Prefetched("missed")
        if result is not None and result.request.utterance == utterance:
            holds = result.request.asked == asked and self._holds(result)
            taken = (
                Prefetched("waited" if waited else "ready", result.items) if holds else Prefetched("stale")
            )
        with self._changed:
            self.counts.turns += 1
            self.counts.ready += taken.outcome == "ready"
        return taken

    def drop(self, by: object) -> None:
        """Forget a conversation's sentence and its recall."""
        with self._changed:
            speech = self._speeches.get(by)
            if speech is not None:
                # A running recall looks here whether anybody waits; a failure is yet to be asked for.
                speech.newest, speech.result, speech.waits = None, None, False
                if not speech.fault:
                    del self._speeches[by]

    def fault(self, by: object) -> str:
        """Return the kind of error of a conversation's recall since the last call; empty: none."""
        with self._changed:
            speech = self._speeches.get(by)
            if speech is None:
                return ""
            fault, speech.fault = speech.fault, ""
            return fault

    def close(self) -> None:
        """Stop the thread, and wait a little for a running recall; a second call does nothing."""
        with self._changed:
            self.closed = True
            self._speeches.clear()
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(5.0)

    def _holds(self, result: _Result) -> bool:
        """Tell whether the result would be the same now."""
        try:
            if self._clock() - result.at > KEPT_S or result.stamp != self._stamp():
                return False
        except EdgememError:
            return False  # the recall that follows names the error
        now = self._now()
        return all(item.valid_to is None or item.valid_to > now for item in result.items)

    def _start(self) -> None:
        """Wake or start the thread; the caller holds the lock."""
        if self.closed:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="edgemem-prefetch", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _run(self) -> None:
        while self._work():
            pass

    def _work(self) -> bool:
        """Wait for work and do it; False once closed. Between two calls no name here keeps a conversation alive."""
        with self._changed:
            speech, wait_s = self._due()
            if speech is not None and speech.newest is not None:
                speech.running, speech.waits = speech.newest, False
            elif not self._cold and not self.closed:
                self._changed.wait(wait_s)
                return True
            self._cold, cold = (self._cold, False) if speech else (False, self._cold)
            if self.closed:
                return False
        if speech is not None and speech.running is not None:
            self._recall(speech, speech.running)
        elif cold:
            self._make_warm()
        return True

    def _due(self) -> tuple[_Speech | None, float | None]:
        """Return whom to recall for, or in how many seconds something is due; None: once something is asked."""
        now, nearest = self._clock(), None
        due: list[tuple[float, _Speech]] = []
        for by, speech in list(self._speeches.items()):
            if speech.waits:
                due.append((max(speech.since + self.settle_s, self._rests_until), speech))
            elif now - speech.since >= KEPT_S:
                del self._speeches[by]  # nobody came for it
            else:
                nearest = min(nearest or KEPT_S, speech.since + KEPT_S - now)
        if not due:
            return None, nearest
        at, first = min(due, key=lambda item: item[0])
        return (first, None) if at <= now else (None, at - now)

    def _make_warm(self) -> None:
        try:
            self._warm(lambda: self.closed or any(speech.waits for speech in list(self._speeches.values())))
        except Exception:  # noqa: BLE001 - it only saves time: the search itself tells any fault
            return

    def _recall(self, speech: _Speech, request: _Request) -> None:
        begun, result, fault = self._clock(), None, ""
        try:
            stamp = self._stamp()
            items = self.search(request.text, request.asked)
            if not self._late():
                result = _Result(request, items, stamp, self._clock())
        except ClosedError:
            pass
        except Exception as error:  # noqa: BLE001 - it is raised in the next call of the conversation's hook
            # Only its kind: a message may quote the sentence, which must leave no trace without a turn.
            fault = type(error).__name__
        end = self._clock()
        with self._changed:
            # With half a core, a recall of a second is followed by a second of rest.
            self._rests_until = end + (end - begun) * (1 / share - 1 if (share := self.share()) else 0.0)
            self.counts.begun += 1
            speech.running, speech.fault = None, fault or speech.fault
            if result is not None and (request == speech.newest or speech.result is None):
                speech.result = result
            self._changed.notify_all()
