"""What runs on a memory now: the compactions of its sessions, the windows of their models, and what is kept of these.

All of it is held weakly, so a session that is dropped is gone here too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

from edgemem.hooks.compaction import ContextCompactionHook
from edgemem.hooks.points import Hook

if TYPE_CHECKING:
    from edgemem.config import ChatSettings
    from edgemem.context.budget import Budget
    from edgemem.context.compaction.extractive import Summarizer
    from edgemem.llama.protocols import ChatModel
    from edgemem.llama.state import KeptState
    from edgemem.llama.warm_prefix import WarmPrefix
    from edgemem.store.erase.copies import Erased


class Running:
    """The sessions and chat models of one process that use a memory."""

    def __init__(self) -> None:
        self._compactions: WeakSet[ContextCompactionHook] = WeakSet()
        self._kept: WeakSet[KeptState] = WeakSet()
        self.budgets: WeakSet[Budget] = WeakSet()
        """How the windows in use are divided, one for each session."""

    def add(self, hooks: Iterable[Hook]) -> None:
        """Take up the hooks of a session."""
        self._compactions.update(hook for hook in hooks if isinstance(hook, ContextCompactionHook))

    def compactions(self) -> list[ContextCompactionHook]:
        """Return the compactions of the sessions."""
        return list(self._compactions)

    def prefixes(self) -> list[WarmPrefix]:
        """Return what reads the prompts of new epochs ahead, one for each session with a model."""
        return [hook.warming.prefix for hook in self.compactions() if hook.warming is not None]

    def summarizers(self) -> list[Summarizer]:
        """Return what writes the summaries."""
        return [hook.planner.summarizer for hook in self.compactions() if hook.planner is not None]

    def kept_states(self) -> list[KeptState]:
        """Return what is kept of the models that are open now."""
        return [kept for kept in self._kept if not kept.closed]

    def keep_state(
        self,
        chat: ChatModel,
        folder: Path,
        settings: ChatSettings,
        *,
        now: Callable[[], float],
        forgotten: Callable[[], int],
    ) -> list[Hook]:
        """Let a model begin with what was kept of it in a folder, and return the hook that goes on keeping."""
        from edgemem.hooks.upkeep import KeepStateHook
        from edgemem.llama.chat import LlamaChat
        from edgemem.llama.state import KeptState, remove_states

        if settings.keep_state == "off":
            with suppress(OSError):  # a disk that cannot be written must not keep the robot from starting
                remove_states(folder)
        if settings.keep_state == "off" or not isinstance(chat, LlamaChat):
            return []
        kept = KeptState(
            chat,
            folder,
            keep=settings.keep_state,
            max_mb=settings.keep_state_mb,
            now=now,
            forgotten=forgotten,
        )
        kept.load()
        self._kept.add(kept)
        return [KeepStateHook(kept)]

    def compact(self, stop: Callable[[], bool]) -> bool:
        """Prepare a session's next epoch; return whether there was one to prepare."""
        return any(hook.work(stop=stop) for hook in self.compactions())

    def read_ahead(self, stop: Callable[[], bool]) -> bool:
        """Have a model read the prompt of its next epoch; return whether there was one."""
        return any(hook.warm(stop=stop) for hook in self.compactions())

    def give_way(self) -> None:
        """Stop what is read ahead: somebody speaks."""
        for prefix in self.prefixes():
            prefix.give_way()

    def forget(self, erased: Erased) -> None:
        """Have no session say or write what was erased; their prompts keep it until their epochs end (law 2)."""
        for hook in self.compactions():
            hook.forget(erased)

    def close(self) -> None:
        """Write what is to be kept of the models that are open."""
        for kept in list(self._kept):
            kept.close()
