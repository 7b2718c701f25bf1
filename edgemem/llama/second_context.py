"""A second context on the weights of a chat model: it answers single prompts, and leaves the conversation's cache alone.

Its cost is a key-value cache and scratch space of its own. It is made when it is first needed, and its memory can be given
back until the next time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from edgemem.errors import InvalidInputError, ModelError
from edgemem.llama import backend
from edgemem.llama.context import SinglePrompts
from edgemem.llama.forward import Interrupt, fill, watching
from edgemem.llama.protocols import Generation, common_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgemem.llama.protocols import Prompt
    from edgemem.llama.tokens.tokenizer import LlamaTokenizer
    from edgemem.llama.tokens.vocabulary import FileVocabulary

LEAST_CTX = 256
"""Tokens of context below which not even a prompt fits."""
_BATCH = 128
"""Tokens evaluated at a time; the scratch space grows with it, and on a GPU the time until a stop."""
_ABORTED = 2  # llama_decode returns it after its abort callback said so


class SideChat(SinglePrompts):
    """Answers single prompts in a second context; the `llama_cpp.Llama` stays loaded until this is closed."""

    larger = "the second context {}; raise [compaction] summary_ctx"

    def __init__(self, model: Any, tokenizer: LlamaTokenizer, *, n_ctx: int, threads: int = 1) -> None:
        if n_ctx < LEAST_CTX:
            raise InvalidInputError(f"n_ctx is {n_ctx}; a second context needs at least {LEAST_CTX} tokens")
        super().__init__(tokenizer)
        self._api = backend.llama()
        self._model, self.n_ctx, self._threads = model, n_ctx, threads
        self._context: Any = None
        self._batch: Any = None
        self._stop = Interrupt()
        self._cached: list[int] = []

    def rest(self) -> None:
        """Give the context's memory back until it is needed again."""
        with self._lock:
            if self._context is not None:
                self._api.llama_free(self._context)
                self._api.llama_batch_free(self._batch)
            self._context = self._batch = None
            self._cached.clear()

    def close(self) -> None:
        """Stop the writing and free the context; a second call does nothing."""
        self._closing = True
        self._stop.ask()
        self.rest()

    def _open(self) -> None:
        self._stop.reset()
        if self._context is not None:
            return
        api = self._api
        options = api.llama_context_default_params()
        options.n_ctx, options.n_batch, options.n_ubatch = self.n_ctx, _BATCH, _BATCH
        options.n_threads = options.n_threads_batch = self._threads
        options.n_seq_max = 1
        backend.forget_complaints()
        context = api.llama_init_from_model(self._model.model, options)
        if not context:
            reason = backend.last_complaint() or "it gave no reason"
            raise ModelError(
                f"No second context of {self.n_ctx} tokens could be made ({reason}); lower [compaction] summary_ctx"
            )
        self._context, self._batch = context, api.llama_batch_init(_BATCH, 0, 1)
        self._stop.attach(context)

    def _generate(self, prompt: Prompt, budget: int, stop: Callable[[], bool] | None) -> Generation:
        vocabulary, ids = cast("FileVocabulary", self.tokenizer.vocabulary), prompt.ids
        generated: list[int] = []
        raw = b""
        stopped: Literal["eos", "length", "interrupted"] = "interrupted"

        def ended() -> bool:
            return self._stop.asked or (stop is not None and stop())

        with watching(stop, self._stop.ask):
            same = self._cut(common_prefix(self._cached, ids[:-1]))  # the last one's logits are needed
            read = all(
                not ended() and self._decode(ids[at : at + _BATCH]) for at in range(same, len(ids), _BATCH)
            )
            while read and not ended():
                token = self._likeliest(vocabulary.size)
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
        return Generation(text, tuple(generated), len(ids), len(ids) - same if read else 0, stopped)

    def _cut(self, tokens: int) -> int:
        """Keep the first `tokens` in the cache, and return how many were kept: 0 where the model cannot forget a part."""
        if tokens < len(self._cached):
            memory = self._api.llama_get_memory(self._context)
            if not tokens or not self._api.llama_memory_seq_rm(memory, 0, tokens, -1):
                self._api.llama_memory_clear(memory, True)
                tokens = 0  # a recurrent model
            del self._cached[tokens:]
        return tokens

    def _decode(self, ids: Sequence[int]) -> bool:
        """Evaluate at most a batch behind the cache; False where that was stopped in the middle."""
        fill(self._batch, ids, at=len(self._cached), every=False)
        code = self._api.llama_decode(self._context, self._batch)
        if code == 0:
            self._cached += ids
        elif code != _ABORTED:  # after an abort llama.cpp takes the whole batch out of the cache again
            self._cut(0)
            raise ModelError(f"The model failed in its second context (llama_decode returned {code})")
        return bool(code == 0)

    def _likeliest(self, size: int) -> int:
        """Return the likeliest token behind the newest one."""
        import numpy as np

        logits = self._api.llama_get_logits_ith(self._context, -1)
        return int(np.ctypeslib.as_array(logits, shape=(size,)).argmax())
