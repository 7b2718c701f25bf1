"""The one door to llama.cpp: imported when first needed, silent, and stopped in the middle of its work when asked."""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from edgemem.errors import ModelError
from edgemem.llama.protocols import common_prefix

_ERROR = 4  # ggml's level of log lines that tell why a call failed
_LIBRARIES = ("libggml-base.so", "libllama.so", "libggml-base.dylib", "libllama.dylib")
_ABORTED = 2  # llama_decode returns it after its abort callback said so
_POLL_S = 0.005
_complaints: deque[str] = deque(maxlen=8)


def _listen(level: int, text: bytes, _data: object) -> None:
    line = text.decode("utf-8", "replace").strip()
    if line and level == _ERROR:
        _complaints.append(line)


# kept: a callback that Python frees is a crash in the next log line
_LISTENER = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(_listen)


@functools.cache
def llama() -> Any:
    """Return the module `llama_cpp`, with its log turned off for the whole process."""
    try:
        import llama_cpp
    except (ImportError, OSError, RuntimeError) as error:  # it turns the OSError of a library into the last
        raise _no_llama(error) from error
    llama_cpp.llama_log_set(ctypes.cast(_LISTENER, llama_cpp.llama_log_callback), None)
    llama_cpp.llama_backend_init()
    return llama_cpp


def ggml() -> Any:
    """Return the library in llama.cpp that reads GGUF files, silent: without the module `llama_cpp` it takes milliseconds."""
    spec = find_spec("llama_cpp")
    package = Path(spec.origin).parent / "lib" if spec is not None and spec.origin else Path()
    folder = Path(os.environ.get("LLAMA_CPP_LIB_PATH") or package)
    file = next((folder / name for name in _LIBRARIES if (folder / name).is_file()), None)
    if file is None:
        llama()  # tells why
        raise ModelError(f"There is no llama.cpp in {folder}; install llama-cpp-python again")
    try:
        library = ctypes.CDLL(str(file))
    except OSError as error:
        raise _no_llama(error) from error
    library.ggml_log_set(_LISTENER, None)
    return library


def _no_llama(error: Exception) -> ModelError:
    advice = (
        "type: sudo apt install libgomp1 libstdc++6"
        if "cannot open shared object file" in str(error)
        else "build llama-cpp-python on this machine, or on one of its kind"
    )
    return ModelError(f"llama.cpp cannot be loaded ({error}); {advice}")


def forget_complaints() -> None:
    """Drop llama.cpp's complaints so far; call it before what may fail."""
    _complaints.clear()


def last_complaint() -> str:
    """Return the most telling of llama.cpp's last error lines, without its function name; empty if it said nothing."""
    # the first complaint names the cause, those behind it only that loading failed
    return _complaints[0].partition(": ")[2] or _complaints[0] if _complaints else ""


def load_model(path: Path, **settings: Any) -> Any:
    """Load a GGUF, with some fields of `llama_model_params`; raise ModelError where llama.cpp refuses it."""
    api, options = llama(), llama().llama_model_default_params()
    for name, value in settings.items():
        setattr(options, name, value)
    forget_complaints()
    model = api.llama_model_load_from_file(str(path).encode(), options)
    if not model:
        reason = last_complaint() or "it gave no reason"
        raise ModelError(f"llama.cpp cannot load {path} ({reason}); fetch it again, or name another model")
    return model


class TokenBuffer:
    """Turns text into ids of one vocabulary; grows with the text."""

    def __init__(self, vocabulary: Any) -> None:
        self._api, self._vocabulary = llama(), vocabulary
        self._ids = (self._api.llama_token * 4096)()

    def ids(self, raw: bytes, *, around: bool = False, special: bool = False) -> list[int]:
        """Return the ids of a text, with those that the model puts `around` it; with `special`, it may hold special tokens."""
        while True:
            count = self._api.llama_tokenize(
                self._vocabulary, raw, len(raw), self._ids, len(self._ids), around, special
            )
            if count >= 0:
                return self._ids[:count]  # type: ignore[no-any-return]
            self._ids = (self._api.llama_token * -count)()  # how many there would be, as a negative number


def why_unfit(llm: Any) -> str:
    """Return why the state of this model's sequence cannot be kept; empty if it can."""
    api = llama()
    if api.llama_model_is_recurrent(llm.model) or api.llama_model_is_hybrid(llm.model):
        return "this model's memory is recurrent and cannot be taken back to where the instructions end"
    if api.llama_model_n_swa(llm.model) > 0:
        # llama.cpp leaves out what the window has passed: a cut further back would be answered wrongly, in silence
        return "this model attends to a sliding window, and llama.cpp saves no more of it than the window"
    return ""


def held_by(llm: Any) -> list[int]:
    """Return the ids that the sequence holds, in order."""
    ids: list[int] = llm.input_ids[: llm.n_tokens].tolist()
    return ids


class Interrupt:
    """A flag that any thread raises and that llama.cpp looks at between two operations of its graph.

    llama.cpp calls `bool callback(void *)`. A Python function there takes the interpreter lock some 160 times an embedding: ten
    times slower beside one busy Python thread. `strlen` has the same shape wherever we run: 0 of "", 1 of one character.
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


class CachedContext:
    """A context of one sequence on a model, which knows the ids that it has read; not thread-safe."""

    def __init__(
        self, model: Any, interrupt: Interrupt, *, n_ctx: int, n_batch: int, threads: int, **settings: Any
    ) -> None:
        """Make it, with more fields of `llama_context_params`; where it embeds, every id has a result, else the last."""
        self._api, options = llama(), llama().llama_context_default_params()
        # one of them larger than another, and a long text ends the whole process in an assertion of llama.cpp
        options.n_ctx, options.n_batch, options.n_ubatch = n_ctx, n_batch, n_batch
        options.n_threads = options.n_threads_batch = threads
        options.n_seq_max = 1
        for name, value in settings.items():
            setattr(options, name, value)
        forget_complaints()
        self.context = self._api.llama_init_from_model(model, options)
        if not self.context:
            reason = last_complaint() or "it gave no reason"
            raise ModelError(
                f"llama.cpp cannot make a context of {n_ctx} tokens ({reason}); ask for a smaller one, or name another model"
            )
        self._memory = self._api.llama_get_memory(self.context)  # an encoder has none
        self._batch = self._api.llama_batch_init(n_batch, 0, 1)
        self._embeds = bool(options.embeddings)
        self._ids: list[int] = []
        interrupt.attach(self.context)

    def clear(self) -> None:
        """Forget everything that was read."""
        self._ids.clear()
        if self._memory:
            self._api.llama_memory_clear(self._memory, True)

    def keep(self, ids: Sequence[int]) -> int:
        """Forget from where these ids begin to differ, the last one always, and return how many need not be read again."""
        same = common_prefix(ids[:-1], self._ids)
        if same < len(self._ids):
            if not (same and self._api.llama_memory_seq_rm(self._memory, 0, same, -1)):
                self.clear()  # a recurrent model cannot forget a part
                return 0
            del self._ids[same:]
        return same

    def read(self, ids: Sequence[int]) -> bool:
        """Read at most a batch behind what was kept; False where the interrupt ended that, and nothing of it was read."""
        batch, at = self._batch, len(self._ids)
        for n, token in enumerate(ids):
            batch.token[n], batch.pos[n] = token, at + n
            batch.n_seq_id[n], batch.seq_id[n][0] = 1, 0
            batch.logits[n] = self._embeds or n + 1 == len(ids)
        batch.n_tokens = len(ids)
        read = self._api.llama_decode if self._memory else self._api.llama_encode
        status = read(self.context, batch)
        if status not in (0, _ABORTED):
            self.clear()
            raise ModelError(f"llama.cpp could not read a text (status {status}: {last_complaint()})")
        if status == 0 and self._memory:
            self._ids += ids
        return bool(status == 0)

    def close(self) -> None:
        """Free it; nothing may be asked of it any more."""
        self._api.llama_batch_free(self._batch)
        self._api.llama_free(self.context)
