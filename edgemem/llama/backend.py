"""The one door to llama.cpp: imported when first needed, and silent."""

from __future__ import annotations

import ctypes
import functools
import os
from collections import deque
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from edgemem.errors import ModelError

_ERROR = 4  # ggml's level of log lines that tell why a call failed
_LIBRARIES = ("libggml-base.so", "libllama.so", "libggml-base.dylib", "libllama.dylib")
_complaints: deque[str] = deque(maxlen=8)


def _listen(level: int, text: bytes, _data: object) -> None:
    line = text.decode("utf-8", "replace").strip()
    if line and level == _ERROR:
        _complaints.append(line)


_LISTENER = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(_listen)
"""Kept: a callback that Python frees is a crash in the next log line."""


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
    """Drop what llama.cpp complained about so far; call it before what may fail."""
    _complaints.clear()


def last_complaint() -> str:
    """Return the most telling of llama.cpp's last error lines, without its function name; empty if it said nothing."""
    # the first complaint names the cause, those behind it only that loading failed
    return _complaints[0].partition(": ")[2] or _complaints[0] if _complaints else ""


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
