"""EarlyRecallHook: recalls while somebody still speaks, where the loop tells what it hears (`on_partial`)."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.errors import EdgememError
from edgemem.hooks.conversation import Conversation, reader_of
from edgemem.recall.prefetch import MAX_CHARS, Outcome, Prefetch, read_utterance, with_ending
from edgemem.recall.rank.selection import asks
from edgemem.records import Reader, Recalled
from edgemem.session.points import (
    ON_ABORT,
    ON_IDLE,
    ON_PARTIAL,
    ON_RUN_END,
    ON_RUN_START,
    ON_SPEECH_START,
    HookResult,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


_LEAST = 0.3
"""The part of the deadline that a turn's own recall has, however long it waited for another."""


class Waited(NamedTuple):
    """How the newest turn got its recall."""

    outcome: Outcome
    ms: float
    """For how long the reply waited for it."""


class EarlyRecallHook:
    """Hand what is heard to the thread that recalls ahead, and the turn what it found.

    Nothing of a sentence that ends without a turn is kept. What fails there is raised at the next point, where the
    registry counts it like every failure of a hook; the turn itself then recalls as if nobody had looked ahead.
    """

    points = frozenset({ON_SPEECH_START, ON_PARTIAL, ON_RUN_START, ON_RUN_END, ON_ABORT, ON_IDLE})
    # Behind the hooks that end a turn, so that what the prompt holds is what the next one will find; before upkeep.
    priority = -800

    def __init__(
        self,
        prefetch: Prefetch,
        *,
        arguments: Callable[[Reader | None], Mapping[str, Any]],
        conversation: Conversation,
        speaker: str | None = None,
    ) -> None:
        """Make the hook; its method `recall` goes into the `MemoryInjectionHook` of the same session.

        Args:
            ahead: shared by all sessions of a memory.
            arguments: returns how to search for a reader at this moment, as far as the sentence does not say it.
            speaker: who speaks where the loop does not say it.
        """
        self.last = Waited("unheard", 0.0)
        self.speaker = speaker
        self._prefetch = prefetch
        self._arguments = arguments
        self._conversation = conversation
        self._newest = ""
        """The newest text of the sentence that becomes the next turn."""
        self._heard: tuple[str, Reader] | None = None
        """The newest text of a sentence that has not become a turn yet, and who says it."""

    def __call__(self, point: str, ctx: Any, payload: Any) -> HookResult | None:
        """Note what is heard, or that it is over."""
        if point == ON_PARTIAL:
            text = payload.get("text")
            if isinstance(text, str) and len(text) <= MAX_CHARS:
                self._newest, self._heard = text, (text, self._reader(ctx, payload))
                self._ask()
        elif point == ON_SPEECH_START:
            self._forget()
            if self._prefetch.share():
                self._prefetch.wake()
        elif point == ON_IDLE:
            self._forget()
        elif point == ON_RUN_START:
            self._heard = None
        elif self._heard is not None:
            # Somebody went on to speak while the turn was made: what its prompt holds has changed.
            self._ask()
        else:
            self._forget()
        if fault := self._prefetch.fault(self):
            raise EdgememError(f"a recall ahead of a turn failed ({fault}); the turn's own tells more")
        return None

    def recall(self, utterance: str, reader: Reader | None) -> list[Recalled]:
        """Return what matters for an utterance: what was found while it was spoken, if that is what would be found now."""
        begun = perf_counter()
        if self._newest:
            self._learn(utterance)
        arguments = self._arguments(reader)
        taken = self._prefetch.take(self, utterance, arguments)
        recalled = taken.items
        if recalled is None:
            if arguments.get("deadline_s") is not None:
                # What was waited for in vain is gone; with less than a part of it, not even words are found.
                least = arguments["deadline_s"] * _LEAST
                left = max(least, arguments["deadline_s"] - (perf_counter() - begun))
                arguments = {**arguments, "deadline_s": left}
            recalled = self._prefetch.search(utterance, **arguments)
        self.last = Waited(taken.outcome, (perf_counter() - begun) * 1e3)
        return recalled

    def _ask(self) -> None:
        if self._heard is not None:
            text, reader = self._heard
            if self._prefetch.marks_late and not read_utterance(text).ending:
                text = with_ending(text, "?" if asks(text) else ".")
            self._prefetch.ask(self, text, self._arguments(reader))

    def _forget(self) -> None:
        self._newest, self._heard = "", None
        self._prefetch.drop(self)

    def _learn(self, utterance: str) -> None:
        """Note how the recogniser ends a sentence."""
        heard, whole = read_utterance(self._newest), read_utterance(utterance)
        if heard.words == whole.words:
            self._prefetch.marks_late = bool(whole.ending) and not heard.ending

    def _reader(self, ctx: Any, payload: Any) -> Reader:
        """Return who is likely to hear the answer: voices are recognised late, and nobody is told anything before that."""
        reader, before = reader_of(ctx, payload, speaker=self.speaker), self._conversation.prompt_log.reader
        unknown = reader.speaker is None or (before is not None and reader.key == before.key)
        return before if before is not None and unknown and not reader.audience else reader
