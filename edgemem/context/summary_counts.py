"""What became of the summaries of a memory: how they were made, and why a model's were refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

MODEL, EXTRACTIVE = "model", "extractive"

_REFUSED = ", the model's: "
_AHEAD = ", read ahead"
_INSTRUCTIONS = "instructions"
"""Why an epoch began that keeps the summary it found: the operator changed them."""
_FEW = 3
"""So many refused summaries say nothing about a model."""
_CACHE_BYTES = (12_288, 114_688)
"""What one token of context takes with Qwen2.5 0.5B and with Llama 3.2 3B."""


def way(*, refused: str = "") -> str:
    """Return how a summary was made, as the reason of its epoch records it behind a semicolon."""
    return f"{EXTRACTIVE}{_REFUSED}{refused}" if refused else MODEL


def read_ahead(reason: str) -> str:
    """Return the reason of an epoch whose prompt the model had read before it began."""
    why, mark, how = reason.partition("; ")
    return f"{why}{_AHEAD}{mark}{how}"


class SummaryCounts(msgspec.Struct, frozen=True):
    """The epochs of a memory, counted by how their summaries were made; those without one of their own are not."""

    model: int
    extractive: int
    refused: dict[str, int]
    """Summaries of the model's that were not used, by kind of fault; each is an extractive one."""
    ahead: int = 0
    """Epochs of them whose prompt the model had read before they began."""

    @classmethod
    def of(cls, reasons: Mapping[str, int]) -> SummaryCounts:
        """Count epochs by the reasons that are stored with them."""
        model, extractive, ahead = 0, 0, 0
        refused: dict[str, int] = {}
        for reason, count in reasons.items():
            began, _, made = reason.partition("; ")
            if began == _INSTRUCTIONS:
                continue
            how, _, why = made.partition(_REFUSED)
            ahead += count if began.endswith(_AHEAD) else 0
            if how == MODEL:
                model += count
            else:
                extractive += count
            if why:
                refused[why] = refused.get(why, 0) + count
        return cls(model, extractive, refused, ahead)

    @property
    def poor(self) -> bool:
        """Tell whether the model is hardly ever good enough."""
        return sum(self.refused.values()) > max(self.model, _FEW)

    def told(self) -> str:
        """Return the figures in words; empty while no model has written one."""
        refused = sum(self.refused.values())
        if not self.model and not refused:
            return ""
        told = f"{self.model} by the model, {self.extractive} of sentences"
        if not refused:
            return told
        ranked = sorted(self.refused.items(), key=lambda item: (-item[1], item[0]))
        return f"{told}; {refused} of the model's refused: " + ", ".join(f"{why} {n}" for why, n in ranked)


def memory_of(tokens: int) -> str:
    """Return what a second context of so many tokens takes, in words."""
    small, large = (each * tokens / 1e6 for each in _CACHE_BYTES)
    return f"{small:.0f} MB with a model of 0.5 B and {large:.0f} MB with 3 B"
