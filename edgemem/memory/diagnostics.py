"""What only tests, benchmarks and `check` look at in a memory: no loop and no operator needs it, and it may change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.records import Reader

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from edgemem.context.budget import Budget
    from edgemem.context.compaction.extractive import Summarizer
    from edgemem.hooks.upkeep import Prefix
    from edgemem.llama.state import KeptState
    from edgemem.memory.idle import IdleFailure, Upkeep
    from edgemem.memory.parts import Parts
    from edgemem.memory.running import Running
    from edgemem.recall.rank.gate import Fit, Utterance
    from edgemem.recall.rank.replacing import Messages


class Diagnostics:
    """Looks into one memory. Where a method takes a speaker, None is the operator, who sees everything."""

    def __init__(self, parts: Parts, running: Running, upkeep: Upkeep) -> None:
        self._parts, self._running, self._upkeep = parts, running, upkeep

    def messages_of(self, query: str, *, speaker: str | None = None) -> tuple[list[str], Messages]:
        """Return the messages that recall considered for a question, by their ids, and their features."""
        return self._parts.recall.messages_of(query, reader=None if speaker is None else Reader(speaker))

    def best_of(self, query: str, *, speaker: str | None = None) -> tuple[Utterance, Fit]:
        """Return what the gate of recall knows of an utterance."""
        return self._parts.recall.best_of(query, reader=None if speaker is None else Reader(speaker))

    def fact_features_of(
        self, query: str, *, speaker: str | None = None
    ) -> tuple[list[str], NDArray[np.float32]]:
        """Return the facts and preferences that recall considered, as `kind:id`, and their features."""
        return self._parts.recall.fact_features_of(query, reader=None if speaker is None else Reader(speaker))

    def budgets(self) -> list[Budget]:
        """Return how the windows of the chat models in use are divided, one for each session."""
        return list(self._running.budgets)

    def kept_states(self) -> list[KeptState]:
        """Return what is kept of the models that are open now."""
        return self._running.kept_states()

    def prefixes(self) -> list[Prefix]:
        """Return what reads the prompts of new epochs in idle time, one for each session with a model."""
        return self._running.prefixes()

    def summarizers(self) -> list[Summarizer]:
        """Return what writes the summaries of the sessions of this process."""
        return self._running.summarizers()

    def idle_failures(self) -> list[IdleFailure]:
        """Return the kinds of upkeep that failed."""
        return self._upkeep.worker.failures()
