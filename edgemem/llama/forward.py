"""A llama.cpp context that reads the tokens of one text, and the flag that stops one in the middle of its work."""

from __future__ import annotations

import ctypes
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from edgemem.errors import ModelError
from edgemem.llama.backend import forget_complaints, last_complaint, llama
from edgemem.llama.protocols import common_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray


_CHARS_A_TOKEN = 64  # of a very long text, more characters than this a token cannot matter
_POLL_S = 0.005


class Interrupt:
    """A flag that any thread raises and that llama.cpp looks at between two operations of its graph.

    llama.cpp calls `bool callback(void *)`. A Python function there takes the interpreter lock some 160 times
    an embedding, and beside one busy Python thread makes it ten times slower. `strlen` has the same shape in every
    calling convention that we run on: of an empty string it is 0, of a string of one character 1.
    """

    def __init__(self) -> None:
        self._text = ctypes.create_string_buffer(2)
        self._strlen = ctypes.CDLL(None).strlen
        self._callback: object = None  # one that Python frees is a crash

    @property
    def asked(self) -> bool:
        """Tell whether computations are to end."""
        return self._text[0] != b"\x00"

    def ask(self) -> None:
        """Ask the running computation to end as soon as it can."""
        self._text[0] = b"\x01"

    def reset(self) -> None:
        """Let the next computation run."""
        self._text[0] = b"\x00"

    def attach(self, context: Any) -> None:
        """Make a context obey this flag, which has to live for as long as the context; of several the newest does."""
        self._callback = llama().ggml_abort_callback(ctypes.cast(self._strlen, ctypes.c_void_p).value)
        llama().llama_set_abort_callback(context, self._callback, ctypes.addressof(self._text))


class Forward:
    """Loads a model that embeds or ranks, and runs one text at a time through it; not thread-safe.

    One text a call: llama.cpp attends over the whole batch, so packing texts together is no faster on a CPU, and
    alone the same text always gets the same bits.
    """

    def __init__(
        self, path: Path, *, n_ctx: int, threads: int, interrupt: Interrupt, pooling: int | None
    ) -> None:
        """Load the model; `n_ctx` tokens are no more than it was trained for, `pooling` None takes the file's."""
        api = llama()
        self.api, self.path, self.n_ctx = api, path, n_ctx
        self.model: Any = None
        self._context: Any = None
        self._batch: Any = None
        forget_complaints()
        model = api.llama_model_default_params()
        model.n_gpu_layers = 0  # the abort callback works on the CPU only, and the chat model needs the GPU
        self.model = api.llama_model_load_from_file(str(path).encode(), model)
        if not self.model:
            raise ModelError(
                f"llama.cpp cannot load {path} ({last_complaint() or 'it gave no reason'}); fetch it again"
            )
        options = api.llama_context_default_params()
        # one of them larger than another, and a long text ends the whole process in an assertion of llama.cpp
        options.n_ctx = options.n_batch = options.n_ubatch = n_ctx
        options.n_threads = options.n_threads_batch = threads
        options.n_seq_max = 1
        options.embeddings, options.offload_kqv, options.op_offload = True, False, False
        if pooling is not None:
            options.pooling_type = pooling
        self._context = api.llama_init_from_model(self.model, options)
        if not self._context:
            self.close()
            raise ModelError(
                f"llama.cpp cannot compute with {path} ({last_complaint() or 'it gave no reason'}); fetch it again"
            )
        self.pooling = int(api.llama_pooling_type(self._context))
        self._memory = api.llama_get_memory(self._context)
        self.vocabulary = api.llama_model_get_vocab(self.model)
        self._ids = (api.llama_token * (n_ctx * _CHARS_A_TOKEN))()
        self._batch = api.llama_batch_init(n_ctx, 0, 1)
        self._cached: list[int] = []  # by a decoder
        self._interrupt = interrupt
        interrupt.attach(self._context)

    def tokenize(self, text: str, *, around: bool = False, special: bool = False) -> list[int]:
        """Return the ids of a text, also beyond `n_ctx`; of one that is very much longer, those of its beginning.

        `around` adds those that the model puts around a text; with `special`, text may become special tokens.
        """
        data = text[: self.n_ctx * _CHARS_A_TOKEN].encode("utf-8", "replace").replace(b"\0", b" ")
        while True:
            count = self.api.llama_tokenize(
                self.vocabulary, data, len(data), self._ids, len(self._ids), around, special
            )
            if count >= 0:
                return self._ids[:count]  # type: ignore[no-any-return]
            self._ids = (self.api.llama_token * -count)()  # how many there would be, as a negative number

    def run(self, ids: Sequence[int], *, reuse: bool = False) -> bool:
        """Read at most `n_ctx` ids; False if the interrupt was raised meanwhile.

        With `reuse` a decoder goes on where these ids begin to differ from the last ones; the bits then depend on those.
        """
        first = 0
        if self._memory:  # a decoder such as Qwen3-Embedding
            # the last id is always read, since the result is at its place
            first = common_prefix(ids[:-1], self._cached) if reuse else 0
            self._cached = []
            if not (first and self.api.llama_memory_seq_rm(self._memory, 0, first, -1)):
                self.api.llama_memory_clear(self._memory, True)
                first = 0
        fill(self._batch, ids[first:], at=first, every=True)
        read = self.api.llama_decode if self._memory else self.api.llama_encode
        status = read(self._context, self._batch)
        if status not in (0, 2):
            raise ModelError(
                f"llama.cpp could not read a text with {self.path.name} (status {status}: {last_complaint()})"
            )
        if status == 0 and self._memory:
            self._cached = list(ids)
        return bool(status == 0)

    def result(self, count: int) -> NDArray[np.float32]:
        """Return the result of the last run: `count` numbers."""
        import numpy as np

        pointer = self.api.llama_get_embeddings_seq(self._context, 0)
        return np.array(np.ctypeslib.as_array(pointer, (count,)), dtype=np.float32)

    def close(self) -> None:
        """Free the model; a second call does nothing."""
        if self._batch is not None:
            self.api.llama_batch_free(self._batch)
        if self._context:
            self.api.llama_free(self._context)
        if self.model:
            self.api.llama_model_free(self.model)
        self._batch = self._context = self.model = None


def fill(batch: Any, ids: Sequence[int], *, at: int, every: bool) -> None:
    """Put ids at positions from `at` on into a batch of llama.cpp; `every` one has a result, or the last one alone."""
    for n, token in enumerate(ids):
        batch.token[n], batch.pos[n] = token, at + n
        batch.n_seq_id[n], batch.seq_id[n][0], batch.logits[n] = 1, 0, every
    batch.logits[len(ids) - 1] = True
    batch.n_tokens = len(ids)


@contextmanager
def watching(stop: Callable[[], bool] | None, ask: Callable[[], None]) -> Iterator[None]:
    """Call `ask` once `stop()` is true, looked at every 5 ms from a thread of its own."""
    if stop is None:
        yield
        return
    done = threading.Event()
    failures: list[BaseException] = []

    def watch() -> None:
        try:
            while not done.wait(_POLL_S):
                if stop():
                    ask()
                    return
        except BaseException as error:  # noqa: BLE001  # raised below, in the thread that waits
            failures.append(error)
            ask()

    watcher = threading.Thread(target=watch, name="edgemem-stop", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
    if failures:
        raise failures[0]
