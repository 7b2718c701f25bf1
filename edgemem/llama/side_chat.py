"""A second context on the weights of a chat model: it writes without touching the conversation's cache.

The weights are shared; what a context costs is its own key-value cache and scratch space. It is made when it is first
asked, and can be given back until the next time.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from edgemem.errors import ClosedError, ContextOverflowError, InvalidInputError, ModelError
from edgemem.llama import backend
from edgemem.llama.protocols import Generation
from edgemem.llama.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Literal

    from typing_extensions import Self

    from edgemem.llama.tokenizer import LlamaTokenizer
    from edgemem.records import Message

LEAST_CTX = 256
"""Tokens of context below which not even a prompt fits."""

_BATCH = 128
"""Tokens evaluated at a time: the scratch space grows with it, and on a GPU so does the time until a stop."""
_ABORTED = 2  # what llama_decode returns after its abort callback said so
_CACHED_BYTES = 2  # of one number in the cache, a half-precision float
_MB = 1e6


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
        self._api = backend.llama()
        self._model = model
        self._threads = threads
        self._lock = threading.Lock()
        self._context: Any = None
        self._stop: Stop | None = None
        self._batch: Any = None
        self._held: list[int] = []
        """The ids in the cache: what the next prompt has in common with them is not evaluated again."""
        self._closing = False
        self.tokenizer = tokenizer
        self.n_ctx = n_ctx
        self.last = Generation()

    @property
    def megabytes(self) -> float:
        """Return the size of the cache of a full context; the scratch space comes to some megabytes more."""
        api, model = self._api, self._model.model
        heads = int(api.llama_model_n_head(model)) or 1
        width = int(api.llama_model_n_embd(model)) * int(api.llama_model_n_head_kv(model)) / heads
        numbers = 2 * int(api.llama_model_n_layer(model)) * width * self.n_ctx
        return float(numbers * _CACHED_BYTES / _MB)

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
            stopper = self._opened()
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
            self._free()

    def close(self) -> None:
        """Stop what is being written and free the context; a second call does nothing."""
        self._closing = True
        stopper = self._stop
        if stopper is not None:
            stopper.ask()
        self.rest()

    def _generate(self, ids: list[int], budget: int, stop: Callable[[], bool]) -> Generation:
        import numpy as np

        vocabulary = self.tokenizer.vocabulary
        generated: list[int] = []
        raw = b""
        stopped: Literal["eos", "length", "interrupted"] = "interrupted"
        evaluated = self._take(ids, stop)
        while evaluated is not None and not stop():
            row = self._api.llama_get_logits_ith(self._context, -1)
            token = int(np.ctypeslib.as_array(row, shape=(vocabulary.size,)).argmax())
            if vocabulary.ends_reply(token):
                stopped = "eos"
                break
            generated.append(token)
            raw += vocabulary.piece(token)
            if len(generated) == budget:
                stopped = "length"
                break
            if not self._decode([token]):
                break
        text = raw.decode("utf-8", "replace").strip()
        return Generation(text, tuple(generated), len(ids), evaluated or 0, stopped)

    def _take(self, ids: list[int], stop: Callable[[], bool]) -> int | None:
        """Evaluate a prompt as far as the cache does not hold it; return how much that was, None when stopped."""
        same = 0
        for held, wanted in zip(self._held, ids[:-1], strict=False):  # the last one's logits are needed
            if held != wanted:
                break
            same += 1
        memory = self._api.llama_get_memory(self._context)
        if same and not self._api.llama_memory_seq_rm(memory, 0, same, -1):
            same = 0  # a recurrent model cannot forget a part
        if not same:
            self._api.llama_memory_clear(memory, True)
        del self._held[same:]
        for at in range(same, len(ids), _BATCH):
            if stop() or not self._decode(ids[at : at + _BATCH]):
                return None
        return len(ids) - same

    def _decode(self, ids: Sequence[int]) -> bool:
        """Evaluate ids behind what is held; return whether that was not stopped in the middle."""
        batch = self._batch
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.logits[i] = token, len(self._held) + i, False
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
        batch.logits[len(ids) - 1] = True
        batch.n_tokens = len(ids)
        code = self._api.llama_decode(self._context, batch)
        if code == 0:
            self._held += ids
            return True
        self._held.clear()  # nobody knows what of it is in the cache
        if code == _ABORTED:
            return False
        raise ModelError(f"The model failed in its second context (llama_decode returned {code})")

    def _opened(self) -> Stop:
        if self._stop is not None:
            return self._stop
        api = self._api
        wanted = api.llama_context_default_params()
        wanted.n_ctx, wanted.n_batch, wanted.n_ubatch = self.n_ctx, _BATCH, _BATCH
        wanted.n_threads = wanted.n_threads_batch = self._threads
        wanted.n_seq_max = 1
        backend.forget_complaints()
        context = api.llama_init_from_model(self._model.model, wanted)
        if not context:
            reason = backend.last_complaint() or "it gave no reason"
            raise ModelError(
                f"No second context of {self.n_ctx} tokens could be made ({reason}); lower [compaction] summary_ctx"
            )
        self._context, self._batch = context, api.llama_batch_init(_BATCH, 0, 1)
        self._stop = Stop(context)
        return self._stop

    def _free(self) -> None:
        context, self._context = self._context, None
        batch, self._batch = self._batch, None
        self._held.clear()
        if context is not None:
            self._api.llama_free(context)
        self._stop = None  # after the context, which looks at its flag
        if batch is not None:
            self._api.llama_batch_free(batch)


def _never() -> bool:
    return False
