"""`llama_embed`: a `Llama` that the caller already has, as a function from text to vector."""

from __future__ import annotations

import hashlib
import math
import threading
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from edgemem.errors import ClosedError, InvalidInputError, ModelError
from edgemem.llama.catalog import load_catalogue

if TYPE_CHECKING:
    from typing import Any

_NONE, _RANK = 0, 4  # llama.cpp's numbers of the poolings that give no vector of a text
_MIB = 1 << 20
_MOST_CHARS_A_TOKEN = 32  # what lies behind would be cut off anyway, and need not be counted

_locks: WeakKeyDictionary[Any, threading.Lock] = WeakKeyDictionary()
_making_locks = threading.Lock()


class LlamaEmbed:
    """A function from text to unit vector; call it for what is stored, and `query` for what somebody asks.

    Safe to call from several threads; all functions made of one `Llama` take turns. The `Llama` itself is not: as
    long as a function of it is in use, leave it to that. Its owner closes it, which waits for a running call; later
    ones get ClosedError.
    """

    def __init__(self, llm: Any, query_prefix: str, text_prefix: str) -> None:
        self._llm = llm
        self._prefixes = query_prefix, text_prefix
        self._most_tokens = _most_tokens(llm)
        self._pooling = llm.pooling_type()
        self._fingerprint = ""
        self.dimensions = int(llm.n_embd())
        """The length of a vector."""
        with _making_locks:
            lock = self._lock = _locks.setdefault(llm, threading.Lock())
        closed = self._closed = threading.Event()

        def close() -> None:
            with lock:
                closed.set()

        llm._stack.callback(close)  # run before llama.cpp frees what would end the process when used

    @property
    def fingerprint(self) -> str:
        """Return a string that changes with the model, the prefixes, the length at which text is cut, and the pooling."""
        if not self._fingerprint:
            path = Path(self._llm.model_path)
            said = (self._prefixes, self._most_tokens, self._pooling, sorted(self._llm.metadata.items()))
            digest = hashlib.sha256(repr(said).encode("utf-8", "replace"))
            # Two trainings of one model differ in nothing but their weights.
            try:
                with path.open("rb") as file:
                    file.seek(max(0, path.stat().st_size - _MIB))
                    digest.update(file.read())
            except OSError as error:
                raise ModelError(f"{path} cannot be read ({error.strerror}); leave it where it is") from error
            self._fingerprint = f"{path.stem}:{digest.hexdigest()[:24]}"
        return self._fingerprint

    def __call__(self, text: str) -> list[float]:
        """Embed text to be stored."""
        return self._embed(self._prefixes[1] + text)

    def query(self, text: str) -> list[float]:
        """Embed what somebody asks."""
        return self._embed(self._prefixes[0] + text)

    def _embed(self, text: str) -> list[float]:
        # llama.cpp takes C strings and UTF-8: neither NUL nor half a surrogate pair passes.
        text = text.encode("utf-8", "replace").decode().replace("\0", " ")
        with self._lock:
            if self._closed.is_set():
                raise ClosedError("The embedding model was closed; open it again")
            vector = [float(x) for x in self._llm.embed(self._cut(text))]
        norm = math.sqrt(math.fsum(x * x for x in vector))
        if not math.isfinite(norm):
            raise ModelError(f"{self._llm.model_path} gives no numbers for a text; open a sound model")
        return [x / norm for x in vector] if norm > 0 else vector

    def _cut(self, text: str) -> str:
        """Return as much of the text as llama.cpp takes: by itself it would drop the end token, or end the process."""
        text = text[: _MOST_CHARS_A_TOKEN * self._most_tokens]
        while (count := len(self._llm.tokenize(text.encode()))) > self._most_tokens:
            text = text[: min(len(text) - 1, len(text) * self._most_tokens // count)]
        return text


def llama_embed(llm: Any, *, query_prefix: str | None = None, text_prefix: str | None = None) -> LlamaEmbed:
    """Return a function that embeds with `llm`, a `llama_cpp.Llama` opened with `embedding=True`.

    Args:
        query_prefix: put before what somebody asks; None takes what the catalogue says of the model in this file.
        text_prefix: the same for text to be stored.

    Raises:
        ModelError: `llm` was opened for chatting, or gives one vector a token instead of one a text.
        InvalidInputError: `llm` is no such thing.
    """
    if not hasattr(llm, "context_params"):
        raise InvalidInputError(
            f"llama_embed needs a llama_cpp.Llama opened with embedding=True, not {type(llm).__name__}."
        )
    if not llm.context_params.embeddings:
        raise ModelError("This Llama was opened for chatting; open one with embedding=True")
    if llm.pooling_type() in (_NONE, _RANK):
        raise ModelError("This model gives no vector of a whole text; open an embedding model")
    query, text = _prefixes_of(Path(llm.model_path).name)
    return LlamaEmbed(
        llm,
        query if query_prefix is None else query_prefix,
        text if text_prefix is None else text_prefix,
    )


def _prefixes_of(file: str) -> tuple[str, str]:
    """Return the prefixes of the model that a file is named after, in whichever quantisation."""
    for entry in load_catalogue():
        if file.lower().startswith(entry.name):
            return entry.query_prefix, entry.text_prefix
    return "", ""


def _most_tokens(llm: Any) -> int:
    """Return how many tokens of a text are safe: a longer batch, or a position without a row, ends the process."""
    sizes = [llm.n_ctx(), llm.n_batch, llm.context_params.n_ubatch]
    trained = llm.metadata.get(f"{llm.metadata.get('general.architecture', '')}.context_length")
    return min(int(size) for size in (*sizes, trained) if size)
