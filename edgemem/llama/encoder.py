"""One llama.cpp context that turns text into a vector; owned and used by a single thread."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from edgemem.errors import ModelError
from edgemem.llama.backend import forget_complaints, last_complaint, llama
from edgemem.llama.gguf import Header

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

_POOLING_MEAN, _POOLING_RANK = 1, 4
_CHARS_A_TOKEN = 64  # of a very long text, more characters than this a token cannot matter


class Interrupt:
    """A flag that any thread raises and that llama.cpp looks at between two operations of its graph.

    llama.cpp calls `bool callback(void *)`. A Python function there takes the interpreter lock some 160 times
    an embedding, and beside one busy Python thread makes it ten times slower. `strlen` has the same shape in every
    calling convention that we run on: of an empty string it is 0, of a string of one character 1.
    """

    def __init__(self) -> None:
        self._text = ctypes.create_string_buffer(2)
        self._strlen = ctypes.CDLL(None).strlen

    def raise_(self) -> None:
        """Make the running computation return as soon as it can."""
        self._text[0] = b"\x01"

    def lower(self) -> None:
        """Let the next computation run."""
        self._text[0] = b"\x00"

    def attach(self, context: ctypes.c_void_p) -> object:
        """Make a context obey this flag; keep the returned object for as long as the context lives."""
        callback = llama().ggml_abort_callback(ctypes.cast(self._strlen, ctypes.c_void_p).value)
        llama().llama_set_abort_callback(context, callback, ctypes.addressof(self._text))
        return callback


class Encoder:
    """Loads an embedding model and encodes one text at a time.

    Not thread-safe. One text a call: llama.cpp attends over the whole batch, so packing texts together is no
    faster on a CPU, and alone the same text always gets the same bits.
    """

    def __init__(self, path: Path, header: Header, *, n_ctx: int, threads: int, interrupt: Interrupt) -> None:
        """Load the model; `n_ctx` is in tokens and must not exceed what the model was trained for."""
        api = llama()
        self._api, self._n_ctx = api, n_ctx
        self._model: Any = None
        self._context: Any = None
        self._batch: Any = None
        forget_complaints()
        model = api.llama_model_default_params()
        model.n_gpu_layers = 0  # the abort callback works on the CPU only, and the chat model needs the GPU
        self._model = api.llama_model_load_from_file(str(path).encode(), model)
        if not self._model:
            raise ModelError(
                f"llama.cpp cannot load {path} ({last_complaint() or 'it gave no reason'}); fetch it again"
            )
        wanted = api.llama_context_default_params()
        # one of them larger than another, and a long text ends the whole process in an assertion of llama.cpp
        wanted.n_ctx = wanted.n_batch = wanted.n_ubatch = n_ctx
        wanted.n_threads = wanted.n_threads_batch = threads
        wanted.n_seq_max = 1
        wanted.embeddings, wanted.offload_kqv, wanted.op_offload = True, False, False
        if f"{header.architecture}.pooling_type" not in header.metadata:
            wanted.pooling_type = _POOLING_MEAN
        self._context = api.llama_init_from_model(self._model, wanted)
        if not self._context:
            self.close()
            raise ModelError(
                f"llama.cpp cannot embed with {path} ({last_complaint() or 'it gave no reason'})"
            )
        self._pooling = int(api.llama_pooling_type(self._context))
        if not _POOLING_MEAN <= self._pooling < _POOLING_RANK:
            self.close()
            raise ModelError(
                f"{path} gives no sentence vectors (pooling type {self._pooling}); name an embedding model"
            )
        self.dimensions = int(api.llama_model_n_embd_out(self._model))
        self._memory = api.llama_get_memory(self._context)
        self._vocabulary = api.llama_model_get_vocab(self._model)
        self._ends = {api.llama_vocab_eos(self._vocabulary), api.llama_vocab_sep(self._vocabulary)}
        self._ids = (api.llama_token * (n_ctx * _CHARS_A_TOKEN))()
        self._batch = api.llama_batch_init(n_ctx, 0, 1)
        self._kept_alive = (interrupt, interrupt.attach(self._context))

    def tokenize(self, text: str) -> list[int]:
        """Return at most `n_ctx` ids, the end token included; text that looks like a special token stays text."""
        count = self.count(text)
        ids = self._ids[: min(count, self._n_ctx)]
        if count > self._n_ctx and self._ids[count - 1] in self._ends:
            ids[-1] = self._ids[count - 1]
        return list(ids)

    def count(self, text: str) -> int:
        """Return how many ids a text has, also beyond `n_ctx`, with those that the model puts around it."""
        cut = text.strip()[: self._n_ctx * _CHARS_A_TOKEN]
        data = cut.encode("utf-8", "replace").replace(b"\0", b" ")
        while (count := self._tokenize(data)) < 0:  # how many there would be, as a negative number
            self._ids = (self._api.llama_token * -count)()
        return count

    def _tokenize(self, data: bytes) -> int:
        return int(
            self._api.llama_tokenize(
                self._vocabulary, data, len(data), self._ids, len(self._ids), True, False
            )
        )

    def encode(self, text: str) -> NDArray[np.float32] | None:
        """Return the unit vector of a text, or None if the interrupt was raised meanwhile.

        A text of which no token is left gets the zero vector: equally far from everything.
        """
        import numpy as np

        ids = self.tokenize(text)
        if not ids:
            return np.zeros(self.dimensions, dtype=np.float32)
        batch = self._batch
        for at, token in enumerate(ids):
            batch.token[at], batch.pos[at] = token, at
            batch.n_seq_id[at], batch.seq_id[at][0], batch.logits[at] = 1, 0, 1
        batch.n_tokens = len(ids)
        if self._memory:  # a decoder such as Qwen3-Embedding
            self._api.llama_memory_clear(self._memory, True)
            status = self._api.llama_decode(self._context, batch)
        else:
            status = self._api.llama_encode(self._context, batch)
        if status == 2:
            return None
        if status != 0:
            raise ModelError(f"llama.cpp could not embed a text (status {status}: {last_complaint()})")
        pointer = self._api.llama_get_embeddings_seq(self._context, 0)
        vector: NDArray[np.float32] = np.array(
            np.ctypeslib.as_array(pointer, (self.dimensions,)), dtype=np.float32
        )
        norm = float(np.linalg.norm(vector))
        if not 0 < norm < float("inf"):
            raise ModelError(
                "The embedding model computes no finite vectors; check it with: edgemem models verify"
            )
        vector /= np.float32(norm)
        return vector

    def close(self) -> None:
        """Free the model; a second call does nothing."""
        if self._batch is not None:
            self._api.llama_batch_free(self._batch)
        if self._context:
            self._api.llama_free(self._context)
        if self._model:
            self._api.llama_model_free(self._model)
        self._batch = self._context = self._model = None
