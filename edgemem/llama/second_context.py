"""A second context on the weights of a chat model: it answers single prompts, and leaves the conversation's cache alone.

Its cost is a key-value cache and scratch space of its own. It is made when it is first needed, and its memory can be given
back until the next time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from edgemem.errors import InvalidInputError, ModelError
from edgemem.llama import backend
from edgemem.llama.context import SinglePrompts
from edgemem.llama.forward import Interrupt, watching
from edgemem.llama.protocols import Generation, common_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.llama.protocols import Prompt
    from edgemem.llama.tokens.tokenizer import LlamaTokenizer
    from edgemem.llama.tokens.vocabulary import FileVocabulary

LEAST_CTX = 256
"""Tokens of context below which not even a prompt fits."""
_BATCH = 128
"""Tokens evaluated at a time; the scratch space grows with it, and on a GPU the time until a stop."""
_ABORTED = 2  # llama_decode returns it after its abort callback said so
_SEQUENCE = 0


class SideContext:
    """Evaluates ids one batch after the other; used by one thread at a time, stopped from any.

    The `llama_cpp.Llama` stays loaded until this is freed.
    """

    def __init__(self, model: Any, *, n_ctx: int, threads: int) -> None:
        self._api = backend.llama()
        self._model = model
        self._threads = threads
        self._batch: Any = None
        self.pointer: Any = None
        """The `llama_context`; None while it has no memory."""
        self.stop = Interrupt()
        """Ends, from any thread, what is computed."""
        self.n_ctx = n_ctx
        self.held: list[int] = []
        """The ids in the cache."""

    def open(self) -> Interrupt:
        """Take the memory, if it has none, and return what stops the context."""
        if self.pointer is not None:
            return self.stop
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
        self.pointer, self._batch = context, api.llama_batch_init(_BATCH, 0, 1)
        self.stop.attach(context)
        return self.stop

    def cut(self, tokens: int) -> int:
        """Keep the first `tokens` at most, and return how many were kept: 0 where the model cannot forget a part."""
        tokens = min(tokens, len(self.held))
        if tokens == len(self.held):
            return tokens
        memory = self._api.llama_get_memory(self.pointer)
        if tokens and not self._api.llama_memory_seq_rm(memory, _SEQUENCE, tokens, -1):
            tokens = 0  # a recurrent model
        if not tokens:
            self._api.llama_memory_clear(memory, True)
        del self.held[tokens:]
        return tokens

    def decode(self, ids: Sequence[int]) -> bool:
        """Evaluate at most a batch behind what is held, which stays; False where that was stopped in the middle."""
        batch = self._batch
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.logits[i] = token, len(self.held) + i, False
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, _SEQUENCE
        batch.logits[len(ids) - 1] = True
        batch.n_tokens = len(ids)
        code = self._api.llama_decode(self.pointer, batch)
        if code == 0:
            self.held += ids
            return True
        if code == _ABORTED:  # llama.cpp takes all of a batch of its own size out of the cache again
            return False
        self.cut(0)
        raise ModelError(f"The model failed in its second context (llama_decode returned {code})")

    def logits(self, size: int) -> NDArray[np.float32]:
        """Return the logits behind the newest token; they are overwritten with the next."""
        import numpy as np

        return np.ctypeslib.as_array(self._api.llama_get_logits_ith(self.pointer, -1), shape=(size,))

    def free(self) -> None:
        """Give the memory back; a second call does nothing."""
        context, self.pointer = self.pointer, None
        batch, self._batch = self._batch, None
        self.held.clear()
        if context is not None:
            self._api.llama_free(context)
        if batch is not None:
            self._api.llama_batch_free(batch)


class SideChat(SinglePrompts):
    """A second context that answers single prompts; the `llama_cpp.Llama` stays loaded until this is closed."""

    larger = "the second context {}; raise [compaction] summary_ctx"

    def __init__(self, model: Any, tokenizer: LlamaTokenizer, *, n_ctx: int, threads: int = 1) -> None:
        if n_ctx < LEAST_CTX:
            raise InvalidInputError(f"n_ctx is {n_ctx}; a second context needs at least {LEAST_CTX} tokens")
        super().__init__(tokenizer)
        self._vocabulary = cast("FileVocabulary", tokenizer.vocabulary)
        self._context = SideContext(model, n_ctx=n_ctx, threads=threads)
        self.n_ctx = n_ctx

    def rest(self) -> None:
        """Give the context's memory back until it is needed again."""
        with self._lock:
            self._context.free()

    def close(self) -> None:
        """Stop what is being written and free the context; a second call does nothing."""
        self._closing = True
        self._context.stop.ask()
        self.rest()

    def _open(self) -> None:
        self._context.open().reset()

    def _generate(self, prompt: Prompt, budget: int, stop: Callable[[], bool] | None) -> Generation:
        vocabulary, context, ids = self._vocabulary, self._context, prompt.ids
        generated: list[int] = []
        raw = b""
        stopped: Literal["eos", "length", "interrupted"] = "interrupted"

        def ended() -> bool:
            return context.stop.asked or (stop is not None and stop())

        with watching(stop, context.stop.ask):
            evaluated = self._take(ids, ended)
            while evaluated is not None and not ended():
                token = int(context.logits(vocabulary.size).argmax())
                if vocabulary.ends_reply(token):
                    stopped = "eos"
                    break
                generated.append(token)
                raw += vocabulary.piece(token)
                if len(generated) == budget:
                    stopped = "length"
                    break
                if not context.decode([token]):
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
