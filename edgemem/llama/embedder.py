"""Embeddings by llama.cpp: one thread owns the model, and whoever speaks goes first."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from concurrent.futures import TimeoutError as WaitTimeoutError
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from edgemem.errors import InvalidInputError, ModelError
from edgemem.llama.catalog import find_entry, find_model, load_catalogue
from edgemem.llama.encoder import Encoder
from edgemem.llama.gguf import read_header
from edgemem.llama.handle import ModelHandle
from edgemem.llama.pins import read_pin
from edgemem.llama.worker import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.llama.forward import Interrupt
    from edgemem.llama.gguf import Header

    Vector = NDArray[np.float32]

_MIB = 1 << 20
_SAMPLE = 4096
_NAME_CHARS = 60
_REMEMBERED_CHARS = 4096  # of a query; a longer one is no question that comes twice


class LlamaEmbedder(ModelHandle):
    """Turns text into unit vectors with an embedding model in GGUF format.

    Safe to use from any thread. The model is loaded when first needed, or by `warm()`. A query interrupts stored text
    that is being embedded; that goes on when no query waits, so while they come without a pause it stands still.
    A text longer than `n_ctx` tokens is cut, its end token kept; one without any token (an empty one, for a model
    without begin and end tokens) gets the zero vector.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        n_ctx: int = 256,
        threads: int = 1,
        query_prefix: str = "",
        text_prefix: str = "",
        languages: Sequence[str] = (),
        remembered_queries: int = 64,
    ) -> None:
        """Check the file, without loading it yet.

        Args:
            n_ctx: tokens of a text that are embedded.
            threads: more than one makes the slowest answers far slower beside speech recognition.
            query_prefix: what the model wants before a question.
            text_prefix: the same before what is stored.
            languages: those that it knows, in two letters; empty: those that its file tells, else many.
            remembered_queries: vectors of questions that are kept.
        """
        if n_ctx < 8 or threads < 1:
            raise InvalidInputError("An embedder needs n_ctx of at least 8 tokens and at least one thread")
        path = Path(path).expanduser()
        header = read_header(path)
        # a position that the model has no row for would end the process
        n_ctx = min(n_ctx, header.number("context_length", n_ctx))
        self._dimensions = header.number("embedding_length_out") or header.number("embedding_length")
        if not (self._dimensions and header.tensors):
            raise ModelError(f"{path} is not an embedding model; name one, or type: edgemem models get")
        self.n_ctx = n_ctx
        """Tokens that a vector is made of at most, with the prefix and what the model puts around a text."""
        self.languages = tuple(languages) or header.languages
        """Those that it knows, in two letters; empty: many."""
        self._prefixes = query_prefix, text_prefix
        self._fingerprint = _fingerprint(path, header, n_ctx, query_prefix, text_prefix)
        self._remembered: OrderedDict[str, Vector] = OrderedDict()
        self._most_remembered = remembered_queries
        self._lock = threading.Lock()
        super().__init__(path, "embedder", partial(_load, path, header, n_ctx, threads))

    @property
    def dimensions(self) -> int:
        """Return the length of a vector."""
        return self._dimensions

    @property
    def fingerprint(self) -> str:
        """Return a string that changes with the model, the prefixes, the length at which text is cut, and the pooling.

        Of the file, the size, the first and last MiB and the first 4 KiB of each MiB between them count: no training
        leaves those as they were, and opening a large file stays quick.
        """
        return self._fingerprint

    def warm(self) -> None:
        """Begin to load the model and return at once; an error shows at the next call."""
        self._worker.put(Job([""]), query=True)

    def embed_query(self, text: str, *, timeout_s: float | None = None) -> Vector | None:
        """Embed what somebody asks; None, and the work dropped, when `timeout_s` seconds were not enough.

        The vector is read-only, because it is remembered for the next time.
        """
        self._check_open()
        with self._lock:
            if text in self._remembered:
                self._remembered.move_to_end(text)
                return self._remembered[text]
        job = Job([self._prefixes[0] + text])
        self._worker.put(job, query=True)
        vector: Vector
        try:
            (vector,) = self._worker.wait(job, timeout_s)
        except WaitTimeoutError:
            return None
        vector.setflags(write=False)
        if len(text) <= _REMEMBERED_CHARS:
            with self._lock:
                self._remembered[text] = vector
                while len(self._remembered) > self._most_remembered:
                    self._remembered.popitem(last=False)
        return vector

    def embed_texts(self, texts: Sequence[str]) -> Vector:
        """Embed text to be stored, one row each; queries go first."""
        import numpy as np

        self._check_open()
        if not texts:
            return np.empty((0, self._dimensions), dtype=np.float32)
        job = Job([self._prefixes[1] + text for text in texts])
        self._worker.put(job, query=False)
        return np.stack(self._worker.wait(job, None))

    def embed_until(self, texts: Sequence[str], stop: Callable[[], bool]) -> Sequence[Vector]:
        """Embed text to be stored, in order, and return the rows that were made before `stop()` became true.

        It is asked before each text; `give_way` also stops the one that is computed.
        """
        self._check_open()
        if not texts:
            return []
        job = Job([self._prefixes[1] + text for text in texts], stop)
        self._worker.put(job, query=False)
        return self._worker.wait(job, None)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return how many tokens each stored text takes, with its prefix and what the model puts around it.

        Queries go first; what is counted is not cut.
        """
        self._check_open()
        if not texts:
            return []
        job = Job([self._prefixes[1] + text for text in texts], counts=True)
        self._worker.put(job, query=False)
        return self._worker.wait(job, None)

    def give_way(self) -> None:
        """Stop at once what `embed_until` computes, wherever its `stop()` is true by now: somebody speaks."""
        self._worker.give_way()

    def __repr__(self) -> str:
        return f"<LlamaEmbedder {self.path.name}, {self._dimensions} dimensions{', closed' if self.closed else ''}>"


def open_embedder(
    model: str, *, home: Path | None = None, n_ctx: int | None = None, threads: int = 1
) -> LlamaEmbedder:
    """Open an embedder by its name or its path; `n_ctx` None takes the catalogue's.

    The prefixes that it was trained with come from the catalogue, or from where `models add` kept them.
    """
    path = find_model(model, home=home)
    if path is None:
        raise ModelError(
            f"The embedding model {model} is not on this machine; type: edgemem models get {model}"
        )
    entry = find_entry(model)
    prefixes = entry or read_pin(path)
    return LlamaEmbedder(
        path,
        n_ctx=n_ctx or (entry.context if entry else 256),
        threads=threads,
        query_prefix=prefixes.query_prefix if prefixes else "",
        text_prefix=prefixes.text_prefix if prefixes else "",
        languages=_languages(model, path),
    )


def _languages(model: str, path: Path) -> tuple[str, ...]:
    """Return what the catalogue says of a model's languages, also where it is named by its file."""
    named = (entry.languages for entry in load_catalogue() if entry.name == model or entry.file == path.name)
    return next(named, ())


def _load(path: Path, header: Header, n_ctx: int, threads: int, interrupt: Interrupt) -> Encoder:
    """Load the model, and see that its vectors are as long as its header says."""
    encoder = Encoder(path, header, n_ctx=n_ctx, threads=threads, interrupt=interrupt)
    wanted = header.number("embedding_length_out") or header.number("embedding_length")
    if encoder.dimensions != wanted:
        encoder.close()
        raise ModelError(f"{path} announces {wanted} dimensions but gives {encoder.dimensions}")
    return encoder


def _fingerprint(path: Path, header: Header, n_ctx: int, query_prefix: str, text_prefix: str) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        digest.update(file.read(_MIB))
        for at in range(_MIB, header.size - _MIB, _MIB):
            file.seek(at)
            digest.update(file.read(_SAMPLE))
        file.seek(max(0, header.size - _MIB))
        digest.update(file.read(_MIB))
    pooling, dimensions = header.number("pooling_type", 1), header.number("embedding_length")
    said = repr((header.size, n_ctx, query_prefix, text_prefix, pooling, dimensions))
    digest.update(said.encode())
    # The name that stands in the file: one that is moved or renamed is the same model.
    name = str(header.metadata.get("general.name") or header.architecture)[:_NAME_CHARS]
    return f"{name}:{digest.hexdigest()[:24]}"
