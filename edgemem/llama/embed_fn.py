"""`llama_embed`: a `Llama` that the caller already has, as a plain function from text to vector."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

from edgemem.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def llama_embed(llm: Any) -> Callable[[str], list[float]]:
    """Return a function that embeds with `llm`, a `llama_cpp.Llama` opened with `embedding=True`.

    The vectors are of unit length. The function may be called from several threads, `llm` itself may not: as long
    as the function is in use, leave the model to it.
    """
    lock = threading.Lock()

    def embed(text: str) -> list[float]:
        # llama.cpp takes C strings and UTF-8: neither NUL nor half a surrogate pair passes
        clean = text.encode("utf-8", "replace").decode().replace("\0", " ")
        with lock:
            raw = llm.embed(clean)
        vector = [float(x) for x in raw] if raw and not isinstance(raw[0], list) else []
        if not vector:
            raise ModelError("This model gives one vector a token, not one a text; open an embedding model")
        norm = math.sqrt(math.fsum(x * x for x in vector))
        return [x / norm for x in vector] if norm > 0 else vector

    return embed
