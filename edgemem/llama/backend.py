"""The one door to llama.cpp: imported when first needed, and silent."""

from __future__ import annotations

import functools
from collections import deque
from typing import Any

from edgemem.errors import ModelError

_ERROR = 4  # ggml's level of log lines that tell why a call failed
_complaints: deque[str] = deque(maxlen=8)
_kept_alive: list[Any] = []  # a callback that Python frees is a crash in the next log line


@functools.cache
def llama() -> Any:
    """Return the module `llama_cpp`, with its log turned off for the whole process."""
    try:
        import llama_cpp
    except (ImportError, OSError, RuntimeError) as error:  # it turns the OSError of a library into the last
        advice = (
            "type: sudo apt install libgomp1 libstdc++6"
            if "cannot open shared object file" in str(error)
            else "build llama-cpp-python on this machine, or on one of its kind"
        )
        raise ModelError(f"llama.cpp cannot be loaded ({error}); {advice}") from error

    def listen(level: int, text: bytes, _data: object) -> None:
        line = text.decode("utf-8", "replace").strip()
        if line and level == _ERROR:
            _complaints.append(line)

    callback = llama_cpp.llama_log_callback(listen)
    _kept_alive.append(callback)
    llama_cpp.llama_log_set(callback, None)
    llama_cpp.llama_backend_init()
    return llama_cpp


def forget_complaints() -> None:
    """Drop what llama.cpp complained about so far; call it before what may fail."""
    _complaints.clear()


def last_complaint() -> str:
    """Return the most telling of llama.cpp's last error lines, without its function name; empty if it said nothing."""
    # the first complaint names the cause, those behind it only that loading failed
    return _complaints[0].partition(": ")[2] or _complaints[0] if _complaints else ""
