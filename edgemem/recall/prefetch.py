"""Prefetch: a recall that runs while somebody still speaks, so that it is ready when they have ended.

What was heard so far is handed over in microseconds; one thread recalls for the newest of it, for all conversations of a
memory. What it finds is lent out only if the whole sentence turns out to be the same, for the same reader, who has the
same before them, and if nothing at all was written meanwhile: else it is as if nobody had looked. Nothing is kept on disk.
"""

from __future__ import annotations

import threading
import unicodedata
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from edgemem.errors import ClosedError, EdgememError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from edgemem.records import Recalled

MAX_CHARS = 2000
"""Of a longer sentence recall reads the end only, and nobody speaks as long as that before they are answered."""

KEPT_S = 10.0
"""For how long a sentence is kept that no turn comes of; so late, a fact that time has begun could be missed."""

Outcome = Literal["ready", "waited", "stale", "missed", "unheard"]
"""How a turn found its recall: made, or being made; made for the same sentence, but not valid any more; made for another
sentence or not yet begun; or the sentence was never heard before its end."""


_ASKS = "?？؟"
_TELLS = ".!。！।۔"

_GO_ON = frozenset(
    """
    a an the my your our their and or but because whether than
    ein eine einen einem eines mein meine meinen dein deine und oder aber weil dass
    el los las un una y o pero porque une et mais
    """.split()  # noqa: SIM905 - words are read sooner than a list of strings
)
"""Words that no sentence ends in, in English, German, Spanish and French: after them, there is more to come."""


class Utterance(NamedTuple):
    """A sentence as a voice says it."""

    words: str
    """Without case, punctuation and white space that tells nothing; empty if nothing was said."""
    ending: str
    """How it ends: `?`, `.` for any other end, or nothing where it goes on or nobody knows.

    Measured on 400 utterances: without its question mark a question is embedded so differently that the block of a third
    of them is another one; case and commas change that of one in thirty.
    """


def read_utterance(text: str) -> Utterance:
    """Return what of a text two recognisers, or one that hears the rest of a sentence, would agree on."""
    folded = unicodedata.normalize("NFC", text).casefold()
    if folded.isascii():
        words = folded.translate(_UNSPOKEN)
    else:
        words = "".join(letter if _is_spoken(letter) else " " for letter in folded)
    return Utterance(" ".join(words.split()), _ending(text[len(_without_tail(text)) :]))


def with_ending(text: str, ending: str) -> str:
    """Return the text of a sentence that goes on as it would be written if it ended here."""
    return _without_tail(text) + ending


def goes_on(utterance: Utterance) -> bool:
    """Tell whether there is more to come for sure."""
    return utterance.words.rpartition(" ")[2] in _GO_ON


def _is_spoken(letter: str) -> bool:
    # Marks are parts of letters in many scripts, and a sign such as that of a currency is spoken.
    return letter.isalnum() or unicodedata.category(letter)[0] in "MS"


_UNSPOKEN = {n: " " for n in range(128) if not _is_spoken(chr(n))}


def _without_tail(text: str) -> str:
    """Return a text without the punctuation and white space that it ends in."""
    end = len(text)
    while end and not _is_spoken(text[end - 1]):
        end -= 1
    return text[:end]


def _ending(tail: str) -> str:
    if any(mark in tail for mark in _ASKS):
        return "?"
    goes_on = "…" in tail or ".." in tail
    return "." if not goes_on and any(mark in tail for mark in _TELLS) else ""


class Counts(msgspec.Struct, frozen=True):
    """How often it paid, since the memory was opened."""

    turns: int = 0
    """Turns whose sentence was heard before its end."""
    ready: int = 0
    """Those of them that had nothing to wait for."""
    begun: int = 0
    """Recalls that were made ahead, needed or not."""


class Taken(NamedTuple):
    """What a turn gets."""

    outcome: Outcome
    items: list[Recalled] | None = None
    """None: recall now."""


class _Request(NamedTuple):
    """A sentence so far, and how to recall for it."""

    text: str
    utterance: Utterance
    arguments: Mapping[str, Any]

    def matches(self, utterance: Utterance, arguments: Mapping[str, Any]) -> bool:
        return self.utterance == utterance and self.arguments == arguments


class _Result(NamedTuple):
    """What was recalled, and the state of everything that it was recalled from."""

    request: _Request
    items: list[Recalled]
    stamp: object
    at: float


class _Speech:
    """What one conversation hears at the moment."""

    def __init__(self) -> None:
        self.waiting: _Request | None = None
        self.since = 0.0
        """When the newest text was first heard."""
        self.running: _Request | None = None
        self.result: _Result | None = None
        self.newest: _Request | None = None
        self.unwanted: _Request | None = None
        """What is recalled although the turn came with another sentence."""

    def is_over(self, request: _Request) -> bool:
        """Tell whether nobody waits for a sentence any more."""
        return request != self.newest or request is self.unwanted


class _Job(NamedTuple):
    """What the thread does next; without a sentence, it brings into memory what a search needs."""

    by: Any = None
    speech: Any = None
    request: _Request | None = None


class Prefetch:
    """Recalls for half-heard sentences in a thread of its own; safe to use from several threads.

    Args:
        search: recalls, with the arguments of `Recall.recall`; its `stop` tells that nobody waits any more.
        stamp: returns something that is unequal after any change to what is recalled from.
        warm: brings into memory what a search needs, until its argument, a function, returns true.
        settle_s: how long a text must stand before it is recalled for, because recognisers change their minds several times a
            word.
        share: returns the part of one core that it may take, 0 to 1; 0: nothing is recalled ahead.
        now: seconds since the epoch.
        clock: seconds since some moment, never running backwards.
    """

    def __init__(
        self,
        search: Callable[..., list[Recalled]],
        *,
        stamp: Callable[[], object],
        late: Callable[[], bool] = lambda: False,
        warm: Callable[[Callable[[], bool]], object] = lambda _: None,
        settle_s: float = 0.06,
        share: Callable[[], float] = lambda: 0.5,
        now: Callable[[], float],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.search = search
        self.settle_s = settle_s
        self.share = share
        self.counts = Counts()
        self.marks_late = False
        """Whether the recogniser marks the end of a sentence only when that is over; whoever hears the whole of it says so."""
        self._stamp = stamp
        self._late = late
        self._warm = warm
        self._now = now
        self._clock = clock
        self._changed = threading.Condition()
        # Weak, so that a conversation that is dropped in the middle of a sentence leaves nothing here.
        self._speeches: WeakKeyDictionary[Any, _Speech] = WeakKeyDictionary()
        self._faults: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self._cold = False
        self._rests_until = 0.0
        self._thread: threading.Thread | None = None
        self._closed = False

    @property
    def idle(self) -> bool:
        """Tell whether all that was heard has been recalled for."""
        with self._changed:
            return all(
                speech.waiting is None and speech.running is None for speech in self._speeches.values()
            )

    def wake(self) -> None:
        """Begin to bring into memory what a search needs, and return at once: somebody begins to speak."""
        with self._changed:
            self._cold = True
            self._start()

    def ask(self, by: object, text: str, arguments: Mapping[str, Any]) -> None:
        """Hand over what was heard so far, and return at once; only the newest of each conversation counts.

        Args:
            by: whose sentence it is: the same object for the same conversation.
            arguments: those of the search, beside the text.
        """
        if len(text) > MAX_CHARS:
            return
        text = " ".join(text.split())
        utterance = read_utterance(text)
        if not utterance.words or not self.share() or goes_on(utterance):
            return
        request = _Request(text, utterance, arguments)
        with self._changed:
            speech = self._speeches.setdefault(by, _Speech())
            if request == speech.newest:
                return
            speech.newest, speech.since = request, self._clock()
            if request == speech.running or (speech.result is not None and request == speech.result.request):
                # The recogniser has gone back to what it heard before.
                speech.waiting = None
                return
            speech.waiting = request
            self._start()

    def take(self, by: object, text: str, arguments: Mapping[str, Any]) -> Taken:
        """Return what was found for a sentence that has ended, waiting for what is being looked up for it.

        Args:
            arguments: those of the search; `deadline_s` is the longest that it waits.
        """
        with self._changed:
            if by not in self._speeches:
                return Taken("unheard")
        utterance = read_utterance(text[: MAX_CHARS + 1])
        with self._changed:
            speech = self._speeches.get(by) or _Speech()
            speech.waiting = None
            result, waited = speech.result, False
            if speech.running is not None and not speech.running.matches(utterance, arguments):
                speech.unwanted = speech.running
            if speech.running is not None and speech.running.matches(utterance, arguments):
                running = speech.running
                if result is None or not result.request.matches(utterance, arguments):
                    self._changed.wait_for(
                        lambda: speech.running is not running, arguments.get("deadline_s") or 1.0
                    )
                    result, waited = speech.result, True
        taken = Taken("missed")
        if result is not None and result.request.utterance == utterance:
            good = result.request.arguments == arguments and self._holds(result)
            taken = Taken("waited" if waited else "ready", result.items) if good else Taken("stale")
        with self._changed:
            before = self.counts
            self.counts = Counts(before.turns + 1, before.ready + (taken.outcome == "ready"), before.begun)
        return taken

    def drop(self, by: object) -> None:
        """Forget what a conversation has heard and what was found for it."""
        with self._changed:
            speech = self._speeches.pop(by, None)
            if speech is not None:
                speech.newest = None

    def fault(self, by: object) -> str:
        """Return what kind of error a conversation's recall ended in since this was last asked; empty if none did."""
        with self._changed:
            return self._faults.pop(by, "")

    def close(self) -> None:
        """Stop the thread, and wait a little for a recall that runs; a second call does nothing."""
        with self._changed:
            self._closed = True
            self._speeches.clear()
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(5.0)

    def _holds(self, result: _Result) -> bool:
        """Tell whether what was found is what would be found now."""
        try:
            if self._clock() - result.at > KEPT_S or result.stamp != self._stamp():
                return False
        except EdgememError:
            return False  # the recall that follows says what is wrong
        now = self._now()
        return all(item.valid_to is None or item.valid_to > now for item in result.items)

    def _start(self) -> None:
        """Let the thread look again; whoever calls holds the lock."""
        if self._closed:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="edgemem-prefetch", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _run(self) -> None:
        while self._work():
            pass

    def _work(self) -> bool:
        """Wait for something to do, and do it; False once this is closed. Between two calls nothing is named here."""
        with self._changed:
            job = self._next()
        if job is None:
            return False
        if job.request is None:
            self._make_warm()
        else:
            self._recall(job.by, job.speech, job.request)
        return True

    def _next(self) -> _Job | None:
        """Wait until something is due, and return it; whoever calls holds the lock."""
        while not self._closed:
            job, wait_s = self._look()
            if job is not None:
                return job
            self._changed.wait(wait_s)
        return None

    def _look(self) -> tuple[_Job | None, float | None]:
        """Return what is due, or for how many seconds nothing is; None: until something is asked."""
        now = self._clock()
        wait_s: float | None = None
        first: tuple[float, _Job] | None = None
        for by, speech in list(self._speeches.items()):
            if speech.waiting is not None:
                due = max(speech.since + self.settle_s, self._rests_until)
                if first is None or due < first[0]:
                    first = due, _Job(by, speech, speech.waiting)
            elif now - speech.since >= KEPT_S:
                del self._speeches[by]  # nobody came for it
            else:
                wait_s = min(wait_s or KEPT_S, speech.since + KEPT_S - now)
        if first is not None and first[0] <= now:
            job = first[1]
            job.speech.running, job.speech.waiting = job.request, None
            return job, None
        if self._cold:
            self._cold = False
            return _Job(), None
        return None, (wait_s if first is None else first[0] - now)

    def _make_warm(self) -> None:
        try:
            self._warm(self._must_stop)
        except Exception:  # noqa: BLE001 - it only saves time: whatever is broken, the search itself says so
            return

    def _must_stop(self) -> bool:
        return self._closed or any(speech.waiting is not None for speech in list(self._speeches.values()))

    def _recall(self, by: object, speech: _Speech, request: _Request) -> None:
        begun, result, fault, cut = self._clock(), None, "", False

        def stop() -> bool:
            nonlocal cut
            cut = cut or self._closed or speech.is_over(request)
            return cut

        try:
            stamp = self._stamp()
            items = self.search(request.text, **request.arguments, stop=stop)
            if not (cut or self._late()):
                result = _Result(request, items, stamp, self._clock())
        except ClosedError:
            pass
        except Exception as error:  # noqa: BLE001 - it is raised in the next call of the conversation's hook
            # Its kind only: a message may quote the sentence, which must leave no trace if no turn comes of it.
            fault = type(error).__name__
        end = self._clock()
        with self._changed:
            # With half a core, a recall of a second is followed by a second of rest.
            self._rests_until = end + (end - begun) * (1 / share - 1 if (share := self.share()) else 0.0)
            self.counts = msgspec.structs.replace(self.counts, begun=self.counts.begun + 1)
            speech.running = None
            if result is not None and (speech.result is None or speech.result.request != speech.newest):
                speech.result = result
            if fault:
                self._faults[by] = fault
            self._changed.notify_all()
