"""The prefix of the next epoch, read in idle time: in a context beside the conversation's, then moved into its cache.

A new epoch changes the head of the prompt, so the first turn behind it would read all of it again. Here it is read
while nobody speaks, a few tokens at a time. Until it is moved the conversation's own cache is not touched.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from edgemem.errors import EdgememError
from edgemem.llama.forward import watching
from edgemem.llama.second_context import SideContext
from edgemem.llama.sequence import copy_of, copy_out, held_by, put_in, why_unfit
from edgemem.llama.tokens.log import common_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.llama.conversation import Conversation
    from edgemem.records import Message

    Tools = Sequence[dict[str, Any]] | None

_log = logging.getLogger(__name__)

BATCH = 32
"""Tokens read at a time: what is lost when somebody speaks, at most; one to three seconds of a Pi."""

_SPARE = 4
"""The context has room for the prefix and for a fourth of the window."""

_OPENINGS = ("0", "<memory>\n")
"""Two utterances that begin differently: what their prompts share stands before every one."""


class WarmCounts(msgspec.Struct):
    """What reading ahead did in this process."""

    tokens: int = 0
    """Tokens that were read."""
    stopped: int = 0
    """How often speech stopped it in the middle of a batch."""
    moved: int = 0
    """How many prefixes were moved."""
    moved_bytes: int = 0
    """Bytes of their states."""


class WarmPrefix:
    """Reads a prompt's beginning ahead; used by one thread at a time, `drop` and `close` may come from any.

    `if_quiet` holds the `llama_cpp.Llama` while no reply streams; somebody else may use one that was `lent` between turns.
    """

    def __init__(
        self,
        chat: Conversation,
        model: Any,
        if_quiet: Callable[[], AbstractContextManager[Any | None]],
        *,
        lent: bool,
    ) -> None:
        self._chat = chat
        self._if_quiet = if_quiet
        self._model = model
        self._lock = threading.Lock()
        self._side: SideContext | None = None
        self._asked: tuple[list[Message], Tools, float | None] | None = None
        self._ids: list[int] = []
        self._read: tuple[list[int], NDArray[np.uint8]] | None = None
        """What was read to the end, taken out of its context."""
        self._dropped = 0
        self._closing = False
        self.lent = lent
        """Whether only the thread of a turn may `put`."""
        self.counts = WarmCounts()
        self.off = ""
        """Why nothing is read ahead with this model; empty if it is."""
        self._turn_off(why_unfit(model))

    def fits(self, system: Sequence[Message], *, tools: Tools, now: float | None) -> bool:
        """Tell whether the model's newest prompt began like this: another conversation's would lose its cache."""
        return not (self.off or self._closing) and self._chat.head == (list(system), tools or None, now)

    def read(
        self, messages: Sequence[Message], *, tools: Tools, now: float | None, stop: Callable[[], bool]
    ) -> Literal["reading", "ready", "stopped"]:
        """Read a batch more of what every prompt begins with that these messages, up to the newest reply, make.

        `stop` is asked every 5 ms; what was read before this batch is kept.
        """
        with self._lock:
            dropped = self._dropped

            def stopped() -> bool:
                return stop() or self._closing or self._dropped != dropped

            try:
                if self.off or stopped() or not self._aim(list(messages), tools, now):
                    return "stopped"
                return self._step(stopped)
            except EdgememError as error:
                self._turn_off(str(error))
                return "stopped"

    def put(self) -> bool:
        """Let the conversation's cache hold what was read in place of what it holds; return whether it does now.

        What was read only in part is put in too: the rest is read with the next prompt.
        """
        with self._lock, self._if_quiet() as llama:
            if self.off or self._closing or llama is None:
                return False
            ids, data = self._read or self._taken_out()
            if common_prefix(held_by(llama), ids) < len(ids):
                if data is None or not put_in(llama, ids, data):
                    self._turn_off("llama.cpp did not take what was read")
                    return False
                self.counts.moved += 1
                self.counts.moved_bytes += data.size
            self._free()
            return bool(ids)

    def give_way(self) -> None:
        """Stop the batch that is being read, from any thread, without waiting for the next look at `stop`."""
        side = self._side
        if side is not None:
            side.stop.ask()

    def drop(self) -> None:
        """Throw away what was read and give its memory back; what is being read is stopped."""
        self._dropped += 1
        with self._lock:
            self._free()

    def close(self) -> None:
        """Stop, and free the context; a second call does nothing."""
        self._closing = True
        self.drop()

    def _aim(self, messages: list[Message], tools: Tools, now: float | None) -> bool:
        """Find the ids to be read; return False where the model answers at this moment."""
        if self._asked == (messages, tools, now):
            return True
        render = self._chat.tokenizer.render
        prompts = [
            render([*messages, {"role": "user", "content": opening}], tools=tools or None, now=now)
            for opening in _OPENINGS
        ]
        with self._if_quiet() as llama:
            if llama is None:
                return False
            first, second = (self._chat.log.foresee(prompt) for prompt in prompts)
        self._ids = first[: min(common_prefix(first, second), self._chat.n_ctx)]
        self._asked = (messages, tools, now)
        return True

    def _step(self, stop: Callable[[], bool]) -> Literal["reading", "ready", "stopped"]:
        if self._read is not None and self._read[0] == self._ids:
            return "ready"
        side = self._side
        if side is None:
            # A step of its own, as the next: each takes as long as it takes to touch its memory.
            self._side = self._opened()
            return "reading"
        side.stop.reset()
        ids = self._ids[: side.n_ctx]
        if not side.held and self._take_over(side, ids):
            return "reading"
        same = side.cut(common_prefix(side.held, ids))
        if same == len(ids):
            taken, data = self._taken_out()
            if data is None:
                self._turn_off("llama.cpp could not copy what was read")
                return "stopped"
            self._read, self._side = (taken, data), None
            side.free()
            # More was said than it had room for: what it read goes on in a larger one.
            return "ready" if taken == self._ids else "reading"
        batch = ids[same : same + BATCH]
        with watching(stop, side.stop.ask):
            done = side.decode(batch)
        if not done:
            self.counts.stopped += 1
            return "stopped"
        self.counts.tokens += len(batch)
        return "reading"

    def _taken_out(self) -> tuple[list[int], NDArray[np.uint8] | None]:
        """Return the ids that were read, and their state."""
        side = self._side
        return ([], None) if side is None or not side.held else (list(side.held), copy_of(side.pointer))

    def _opened(self) -> SideContext:
        """Return a context with room for the prefix, and for turns that are spoken while it is read."""
        window = self._chat.n_ctx
        side = SideContext(
            self._model,
            n_ctx=min(window, len(self._ids) + window // _SPARE),
            batch=BATCH,
            threads=int(self._model.context_params.n_threads_batch),
            setting="switch [compaction] warm off",
            alike=True,
        )
        side.open()
        return side

    def _take_over(self, side: SideContext, ids: list[int]) -> bool:
        """Begin with what is known of these ids: read before, or the head in the conversation's cache; return whether."""
        known, self._read = self._read, None
        if known is None and not self.lent:
            with self._if_quiet() as llama:
                shared = 0 if llama is None else common_prefix(held_by(llama), ids)
                data = copy_out(llama, shared) if shared else None
            known = None if data is None else (ids[:shared], data)
        if known is not None:
            side.load(*known)
        return bool(side.held)

    def _turn_off(self, why: str) -> None:
        if why:
            _log.warning("The next prompt is not read ahead: %s", why)
            self._free()
        self.off = why

    def _free(self) -> None:
        side, self._side = self._side, None
        self._asked = self._read = None
        self._ids = []
        if side is not None:
            side.free()
