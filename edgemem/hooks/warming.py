"""Warming: an epoch that was prepared begins only when the model has read its prompt, in idle time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgemem.context.prompt.log import PromptLog
    from edgemem.llama.warm_prefix import WarmCounts
    from edgemem.records import Epoch, Message


class Prefix(Protocol):
    """What reads a prompt's beginning ahead; `WarmPrefix` is one."""

    counts: WarmCounts
    off: str
    """Why it reads nothing; empty if it does."""
    lent: bool
    """Whether only the thread of a turn may put what was read into the conversation's cache."""

    def fits(
        self, system: Sequence[Message], *, tools: Sequence[dict[str, Any]] | None, now: float | None
    ) -> bool:
        """Tell whether it can, and the model's newest prompt began like this."""
        ...

    def read(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] | None,
        now: float | None,
        stop: Callable[[], bool],
    ) -> Literal["reading", "ready", "stopped"]:
        """Read a little more of it."""
        ...

    def put(self) -> bool:
        """Put what was read into the conversation's cache; return whether it is there."""
        ...

    def give_way(self) -> None:
        """Stop reading at once."""
        ...

    def drop(self) -> None:
        """Throw away what was read."""
        ...


class Warming:
    """Decides when an epoch is read ahead, and when it may begin.

    The idle worker's thread reads, the thread of the turn switches: between these two there is a lock, held only while
    the state is put into the conversation's cache. That is done in idle time too, but for a model that was lent.

    Args:
        prefix: reads.
        layout: of the session.
    """

    def __init__(self, prefix: Prefix, layout: PromptLog) -> None:
        self.prefix = prefix
        self._layout = layout
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
        if epoch == self._warm or self._layout.running is not None:
            return False
        self._reads = True
        turns = len(self._layout.turns)
        view = self._layout.view_in(epoch)
        told = self.prefix.read(view, tools=self._tools, now=epoch.started_at or None, stop=stop)
        with self._lock:
            if told == "reading":
                self._read = None
            if told != "ready":
                return told == "reading"
            # Whoever began to speak meanwhile finds the old epoch as it was, and what was read lacks that turn.
            spoke = self._layout.running is not None or len(self._layout.turns) != turns or stop()
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
        layout = self._layout
        return self.prefix.fits(layout.system, tools=self._tools, now=layout.epoch.started_at or None)
