"""The ranker: a model with a head that tells how well a text answers a question; owned and used by a single thread."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from edgemem.errors import ModelError
from edgemem.llama.forward import Forward
from edgemem.llama.pairing import Pairing

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.llama.forward import Interrupt
    from edgemem.llama.gguf import Header

_POOLING_RANK = 4
_TANH = ("jina-bert-v2",)  # llama.cpp bends what their head gives, which the models themselves do not
_TWO = ("qwen3", "qwen3vl")  # their head tells the shares of yes and of no
_LEAST_SHARE = 1e-12
_MOST_BENT = 1 - 1e-7


class Ranker:
    """Loads a model that ranks and reads one pair at a time; not thread-safe."""

    def __init__(self, path: Path, header: Header, *, n_ctx: int, threads: int, interrupt: Interrupt) -> None:
        """Load the model; `n_ctx` is in tokens and must not exceed what the model was trained for."""
        self._architecture = header.architecture
        self._forward = forward = Forward(
            path, n_ctx=n_ctx, threads=threads, interrupt=interrupt, pooling=_POOLING_RANK
        )
        try:
            self._yes = self._find_yes()
            self._pairing = Pairing(forward)
        except BaseException:
            forward.close()
            raise

    def encode(self, pair: tuple[str, str]) -> float | None:
        """Return the logit of a question and a text, or None if the interrupt was raised meanwhile."""
        ids = self._pairing.ids(*pair)
        if not self._forward.run(ids, reuse=True):
            return None
        outs = self._forward.result(2 if self._architecture in _TWO else 1).tolist()
        if not all(map(math.isfinite, outs)):
            raise ModelError(
                "The reranking model computes no finite numbers; check it with: edgemem models verify"
            )
        if self._architecture in _TWO:
            yes, no = (max(outs[at], _LEAST_SHARE) for at in (self._yes, 1 - self._yes))
            return math.log(yes / no)
        if self._architecture in _TANH:
            return math.atanh(max(-_MOST_BENT, min(outs[0], _MOST_BENT)))
        return float(outs[0])

    def count(self, pair: tuple[str, str]) -> int:
        """Return how many ids a pair has, with those that the model puts around it."""
        return len(self._pairing.ids(*pair))

    def close(self) -> None:
        """Free the model; a second call does nothing."""
        self._forward.close()

    def _find_yes(self) -> int:
        """Return which of the head's numbers speaks for a text, or refuse a head that tells something else."""
        api, model = self._forward.api, self._forward.model
        count, wanted = int(api.llama_model_n_cls_out(model)), 2 if self._architecture in _TWO else 1
        if count != wanted:
            raise ModelError(
                f"{self._forward.path.name} sorts texts into {count} classes, and ranks none; name a reranker"
            )
        labels = [api.llama_model_cls_label(model, at) for at in range(count)]
        return labels.index(b"yes") if b"yes" in labels else 0
