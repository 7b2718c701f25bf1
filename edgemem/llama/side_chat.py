"""A second context on the weights of a chat model: it writes without touching the conversation's cache.

The weights are shared; what a context costs is its own key-value cache and scratch space. It is made when it is first
asked, and can be given back until the next time.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from edgemem.errors import ClosedError, ContextOverflowError, InvalidInputError
from edgemem.llama.protocols import Generation
from edgemem.llama.side_context import SideContext
from edgemem.llama.tokenlog import common_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Literal

    from typing_extensions import Self

    from edgemem.llama.tokenizer import LlamaTokenizer
    from edgemem.records import Message

LEAST_CTX = 256
"""Tokens of context below which not even a prompt fits."""

_BATCH = 128


class SideChat:
    """Answers single prompts, the likeliest token each time; safe to close from another thread.

    Args:
        model: a loaded `llama_cpp.Llama`, which stays loaded until this is closed.
        tokenizer: of that very model.
        n_ctx: tokens of the prompt and the answer together.
        threads: threads to compute with, beside those of the conversation.
    """

    def __init__(self, model: Any, tokenizer: LlamaTokenizer, *, n_ctx: int = 1024, threads: int = 1) -> None:
        if n_ctx < LEAST_CTX:
            raise InvalidInputError(f"n_ctx is {n_ctx}; a second context needs at least {LEAST_CTX} tokens")
        self._lock = threading.Lock()
        self._context = SideContext(
            model, n_ctx=n_ctx, batch=_BATCH, threads=threads, setting="lower [compaction] summary_ctx"
        )
        self._closing = False
        self.tokenizer = tokenizer
        self.n_ctx = n_ctx
        self.last = Generation()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def answer(
        self, messages: Sequence[Message], *, max_tokens: int, stop: Callable[[], bool] | None = None
    ) -> Generation:
        """Return the answer to a prompt of its own; `stopped` says whether `stop` or `max_tokens` cut it off.

        Args:
            stop: asked before every token, and every 5 ms while the model computes.

        Raises:
            ContextOverflowError: prompt and answer together do not fit `n_ctx`.
            ClosedError: this, or the model, was closed.
        """
        with self._lock:
            if self._closing:
                raise ClosedError("The chat model was closed; open it again")
            ids = self.tokenizer.render(messages).ids
            if len(ids) + max_tokens > self.n_ctx:
                raise ContextOverflowError(
                    f"The prompt has {len(ids)} tokens and the answer up to {max_tokens}, the second context"
                    f" {self.n_ctx}; raise [compaction] summary_ctx"
                )
            stopper = self._context.open()
            stopper.reset()
            if self._closing:  # after the reset, so that a close() at this moment is not overlooked
                raise ClosedError("The chat model was closed; open it again")
            asked = stop or _never
            with stopper.watching(asked):
                self.last = self._generate(ids, max_tokens, lambda: stopper.asked or asked())
            return self.last

    def rest(self) -> None:
        """Give the context's memory back until it is needed again."""
        with self._lock:
            self._context.free()

    def close(self) -> None:
        """Stop what is being written and free the context; a second call does nothing."""
        self._closing = True
        stopper = self._context.stop
        if stopper is not None:
            stopper.ask()
        self.rest()

    def _generate(self, ids: list[int], budget: int, stop: Callable[[], bool]) -> Generation:
        vocabulary = self.tokenizer.vocabulary
        generated: list[int] = []
        raw = b""
        stopped: Literal["eos", "length", "interrupted"] = "interrupted"
        evaluated = self._take(ids, stop)
        while evaluated is not None and not stop():
            token = int(self._context.logits(vocabulary.size).argmax())
            if vocabulary.ends_reply(token):
                stopped = "eos"
                break
            generated.append(token)
            raw += vocabulary.piece(token)
            if len(generated) == budget:
                stopped = "length"
                break
            if not self._context.decode([token]):
                break
        text = raw.decode("utf-8", "replace").strip()
        return Generation(text, tuple(generated), len(ids), evaluated or 0, stopped)

    def _take(self, ids: list[int], stop: Callable[[], bool]) -> int | None:
        """Evaluate a prompt as far as the cache does not hold it; return how much that was, None when stopped."""
        context = self._context
        same = context.cut(common_prefix(context.held, ids[:-1]))  # the last one's logits are needed
        for at in range(same, len(ids), _BATCH):
            if stop() or not context.decode(ids[at : at + _BATCH]):
                return None
        return len(ids) - same


def _never() -> bool:
    return False
