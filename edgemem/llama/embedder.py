"""Embeddings by llama.cpp: one thread owns the model, and queries go first."""

from __future__ import annotations

import math
import threading
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import TimeoutError as WaitTimeoutError
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.errors import ClosedError, InvalidInputError, ModelError
from edgemem.llama import backend
from edgemem.llama.header import read_header, sampled
from edgemem.llama.models.catalog import find_entry, load_catalogue, path_of, read_pin
from edgemem.llama.protocols import Embedder, Encoding
from edgemem.llama.worker import Job, ModelWorker
from edgemem.preload import np
from edgemem.store.db.files import Closable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.llama.backend import CachedContext, Interrupt
    from edgemem.llama.header import Header

    Vector = NDArray[np.float32]

CENTRES_FILE = "centres.toml"
_NAME_CHARS = 60
_REMEMBERED = 64  # vectors of questions: one looked up early is asked again at the sentence's end
_REMEMBERED_CHARS = 4096  # of a query; a longer one does not come twice
_NONE, _MEAN, _RANK = 0, 1, 4  # llama.cpp's poolings; under the last there is no vector of a text
MOST_TOKENS = 48
"""Tokens of a text that have a vector: the first; a message at home has a dozen."""
_MOST_CHARS_A_TOKEN = 32  # the rest would be cut off anyway, and need not be counted
PROJECTION_FILE = "projections.toml"
_SMALL = 1e-9
_CHARS_A_TOKEN = 64  # characters of a very long text beyond this a token cannot matter
_turn = threading.Lock()


class Projection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What makes short vectors of a model's tokens, so that what answers comes near a question: from `make lab ARGS=projection`."""

    centre: bytes
    """`float16[dimensions]`: the mean of unit vectors of tokens."""
    matrix: bytes
    """`int8[dimensions, k]`."""

    def fits(self, dimensions: int) -> bool:
        """Tell whether it is one of vectors of so many dimensions."""
        return len(self.centre) == 2 * dimensions

    def apply(self, rows: Vector) -> NDArray[np.int8]:
        """Return the projected unit vectors times 127, `int8[n, k]`, of `float32[n, dimensions]`."""
        centre = np.frombuffer(self.centre, np.float16).astype(np.float32)
        matrix = np.frombuffer(self.matrix, np.int8).astype(np.float32).reshape(len(centre), -1)
        short = _unit((_unit(rows) - centre) @ matrix)
        codes: NDArray[np.int8] = np.rint(short * 127).astype(np.int8)
        return codes


def shipped_projections() -> dict[str, Projection]:
    """Read the package's projections, by the names in the models' files."""
    text = Path(__file__).with_name(PROJECTION_FILE).read_text("utf-8")
    return msgspec.toml.decode(text, type=dict[str, Projection])


def _unit(rows: NDArray[Any]) -> NDArray[Any]:
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    unit: NDArray[Any] = rows / np.maximum(norms, np.float32(_SMALL))
    return unit


class Encoder:
    """Loads an embedding model and encodes one text at a time; not thread-safe.

    llama.cpp attends over the whole batch: packing is no faster on a CPU, and alone a text always gets the same bits.
    """

    def __init__(
        self,
        path: Path,
        header: Header,
        projection: Projection | None,
        *,
        n_ctx: int,
        threads: int,
        interrupt: Interrupt,
    ) -> None:
        """Load the model, of at most as many tokens as it was trained for.

        With a projection, it is read without pooling: under a mean llama.cpp gives no tokens.
        """
        # the abort callback works on the CPU only, and the chat model needs the GPU
        self._model = backend.load_model(path, n_gpu_layers=0)
        self._context: CachedContext | None = None
        self._api, self._n_ctx, self._projection = backend.llama(), n_ctx, projection
        self._vocabulary = self._api.llama_model_get_vocab(self._model)
        self._tokens = backend.TokenBuffer(self._vocabulary)
        self.dimensions = int(self._api.llama_model_n_embd_out(self._model))
        pools = {} if f"{header.architecture}.pooling_type" in header.metadata else {"pooling_type": _MEAN}
        if projection is not None:
            pools = {"pooling_type": _NONE}
        try:
            self._context = backend.CachedContext(
                self._model, interrupt, n_ctx=n_ctx, n_batch=n_ctx, threads=threads,
                embeddings=True, offload_kqv=False, op_offload=False, **pools,
            )  # fmt: skip
            self._pooling = int(self._api.llama_pooling_type(self._context.context))
            if projection is None and not _MEAN <= self._pooling < _RANK:
                raise ModelError(
                    f"{path} gives no sentence vectors (pooling type {self._pooling}); name an embedding model"
                )
            if self.dimensions != _dimensions(header):
                raise ModelError(
                    f"{path} announces {_dimensions(header)} dimensions but gives {self.dimensions}"
                )
        except BaseException:
            self.close()
            raise
        self._words: dict[int, bool] = {}
        self._ends = {
            self._api.llama_vocab_eos(self._vocabulary),
            self._api.llama_vocab_sep(self._vocabulary),
        }

    def close(self) -> None:
        """Free the model; a second call does nothing."""
        if self._context is not None:
            self._context.close()
        if self._model:
            self._api.llama_model_free(self._model)
        self._context = self._model = None

    def tokenize(self, text: str) -> list[int]:
        """Return the ids of a text, also beyond `n_ctx`, with those that the model puts around it, none special in the text.

        Of a far longer one they are its beginning's.
        """
        text = text.strip()[: self._n_ctx * _CHARS_A_TOKEN]
        return self._tokens.ids(text.encode("utf-8", "replace").replace(b"\0", b" "), around=True)

    def count(self, text: str) -> int:
        """Return how many ids a text has."""
        return len(self.tokenize(text))

    def encode(self, text: str) -> Encoding | None:
        """Return the vectors of a text, cut at `n_ctx` ids, the zero vector if no token is left, None if interrupted."""
        ids, most = self.tokenize(text), self._n_ctx
        if not ids:
            return Encoding(np.zeros(self.dimensions, dtype=np.float32))
        if len(ids) > most:
            ids = [*ids[: most - 1], ids[-1] if ids[-1] in self._ends else ids[most - 1]]
        rows = self._run(ids)
        if rows is None:
            return None
        vector = rows.mean(axis=0)
        norm = float(np.linalg.norm(vector))
        if not 0 < norm < float("inf"):
            raise ModelError("The embedding model gives no finite vectors; check it: edgemem models verify")
        vector /= np.float32(norm)
        if self._projection is None:
            return Encoding(vector)
        words = [place for place, token in enumerate(ids) if self._is_word(token)]
        return Encoding(vector, self._projection.apply(rows[words[:MOST_TOKENS]]))

    def _run(self, ids: Sequence[int]) -> Vector | None:
        """Read at most `n_ctx` ids and return their vectors, or, with pooling, one of all; None if the interrupt was raised."""
        context: Any = self._context
        context.clear()
        if not context.read(ids):
            return None
        if self._pooling == _NONE:
            rows, pointer = len(ids), self._api.llama_get_embeddings(context.context)
        else:
            rows, pointer = 1, self._api.llama_get_embeddings_seq(context.context, 0)
        return np.array(np.ctypeslib.as_array(pointer, (rows, self.dimensions)), dtype=np.float32)

    def _is_word(self, token: int) -> bool:
        """Tell whether a token has a letter or a digit of the text."""
        if token not in self._words:
            piece = self._api.llama_vocab_get_text(self._vocabulary, token).decode("utf-8", "replace")
            spoken = not self._api.llama_vocab_is_control(self._vocabulary, token)
            self._words[token] = spoken and any(map(str.isalnum, piece))
        return self._words[token]


class Centre(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The means of an embedder's vectors, in ten thousandths.

    Some models put all texts into one corner: of any two the cosine is .8. Taken from the centre, texts that have nothing in
    common have cosines around 0, as of other models, and more are found, also by the two bits a dimension of the index.
    """

    query: tuple[int, ...] = ()
    text: tuple[int, ...] = ()


_NOWHERE = Centre()


class LlamaEmbedder(Closable, Embedder):
    """Turns text into unit vectors with an embedding model in GGUF format; safe from any thread.

    The model is loaded when first needed, or by `warm()`. A query interrupts stored text that is being embedded, which goes on
    when no query waits. Text beyond `n_ctx` tokens is cut, its end token kept; text without a token (an empty one, for a model
    without begin and end tokens) gets the zero vector.
    """

    _close: weakref.finalize[..., LlamaEmbedder] | None = None
    """Where the file was refused there is nothing to close."""

    def __init__(
        self,
        path: str | Path,
        *,
        n_ctx: int = 256,
        threads: int = 1,
        query_prefix: str = "",
        text_prefix: str = "",
        languages: Sequence[str] = (),
        centre: Centre = _NOWHERE,
    ) -> None:
        """Check the file, without loading it yet.

        The prefixes go before a question, and before stored text. More than one thread makes the slowest answers far slower
        beside speech recognition. `languages` empty takes those in the file. Vectors are taken from the `centre`.
        """
        if n_ctx < 8 or threads < 1:
            raise InvalidInputError("An embedder needs n_ctx of at least 8 tokens and at least one thread")
        path = Path(path).expanduser()
        header = read_header(path)
        # beyond its rows of positions llama.cpp ends the process
        n_ctx = min(n_ctx, header.number("context_length", n_ctx))
        self.dimensions = _dimensions(header)
        if not (self.dimensions and header.tensors):
            raise ModelError(f"{path} is not an embedding model; name one, or type: edgemem models get")
        self.n_ctx = n_ctx
        self.languages = tuple(languages) or header.languages
        self._prefixes = query_prefix, text_prefix
        pooling, size = header.number("pooling_type", 1), header.number("embedding_length")
        self._centre = centre
        # The name in the file: a moved or renamed model is the same.
        name = str(header.metadata.get("general.name") or header.architecture)[:_NAME_CHARS]
        projection = shipped_projections().get(name) if pooling == _MEAN else None
        if projection is not None and not projection.fits(self.dimensions):
            projection = None
        settings = (header.size, n_ctx, query_prefix, text_prefix, pooling, size)
        more = tuple(made for made in (centre, projection) if made not in (_NOWHERE, None))
        self.fingerprint = _fingerprint(path, name, settings + more)
        self._remembered: OrderedDict[str, Encoding] = OrderedDict()
        self._lock = threading.Lock()
        self.path = path
        self._worker = ModelWorker(partial(Encoder, path, header, projection, n_ctx=n_ctx, threads=threads))
        # also runs when the interpreter exits: llama.cpp must not compute while its library is torn down
        self._close = weakref.finalize(self, self._worker.close)

    @property
    def closed(self) -> bool:
        """Tell whether `close()` was called."""
        return self._worker.closed

    def warm(self) -> None:
        """Begin to load the model and return at once; an error shows at the next call."""
        self._worker.put(Job(lambda *_: None, []), query=True)

    def close(self) -> None:
        """Free the model; those who wait for it get ClosedError. A second call does nothing."""
        if self._close is not None:
            self._close()

    def __del__(self) -> None:
        if self._close is not None and self._close.alive:
            fault = f"{type(self).__name__} for {self.path} was not closed"
            warnings.warn(fault, ResourceWarning, stacklevel=2, source=self)

    def embed_query(self, text: str, *, timeout_s: float | None = None) -> Vector | None:
        """Embed a question, read-only; None, and the work dropped, after `timeout_s` seconds."""
        encoding = self.encode_query(text, timeout_s=timeout_s)
        return None if encoding is None else encoding.vector

    def encode_query(self, text: str, *, timeout_s: float | None = None) -> Encoding | None:
        """Embed a question and its tokens, read-only, as `embed_query` does."""
        self._worker.check_open()
        with self._lock:
            if text in self._remembered:
                self._remembered.move_to_end(text)
                return self._remembered[text]
        job = Job(Encoder.encode, [self._prefixes[0] + text])
        self._worker.put(job, query=True)
        encoding: Encoding
        try:
            (encoding,) = self._worker.wait(job, timeout_s)
        except WaitTimeoutError:
            return None
        encoding = _taken_from(self._centre.query, encoding)
        encoding.vector.setflags(write=False)
        if len(text) <= _REMEMBERED_CHARS:
            with self._lock:
                self._remembered[text] = encoding
                while len(self._remembered) > _REMEMBERED:
                    self._remembered.popitem(last=False)
        return encoding

    def embed_texts(self, texts: Sequence[str]) -> Vector:
        """Embed text to be stored, one row each; queries go first."""
        rows = [encoding.vector for encoding in self.encode_texts(texts)]
        return np.stack(rows) if rows else np.empty((0, self.dimensions), dtype=np.float32)

    def embed_until(self, texts: Sequence[str], stop: Callable[[], bool]) -> Sequence[Vector]:
        """Embed stored text until `stop()` is true before a text; `yield_to_speech` also ends the one at work."""
        return [encoding.vector for encoding in self.encode_texts(texts, stop)]

    def encode_texts(
        self, texts: Sequence[str], stop: Callable[[], bool] | None = None
    ) -> Sequence[Encoding]:
        """Embed stored text and its tokens, as `embed_texts` or `embed_until` does."""
        return [_taken_from(self._centre.text, row) for row in self._stored(Encoder.encode, texts, stop)]

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each stored text, uncut, with its prefix and those that the model puts around it."""
        return self._stored(Encoder.count, texts)

    def _stored(
        self,
        compute: Callable[[Encoder, str], Any],
        texts: Sequence[str],
        stop: Callable[[], bool] | None = None,
    ) -> list[Any]:
        self._worker.check_open()
        if not texts:
            return []
        job = Job(compute, [self._prefixes[1] + text for text in texts], stop)
        self._worker.put(job, query=False)
        return self._worker.wait(job, None)

    def yield_to_speech(self) -> None:
        """Stop at once what `embed_until` computes, wherever its `stop()` is true by now: somebody speaks."""
        self._worker.yield_to_speech()


def open_embedder(
    model: str, *, home: Path | None = None, n_ctx: int | None = None, threads: int = 1
) -> LlamaEmbedder:
    """Open an embedder by its name or path, with its known prefixes; `n_ctx` None takes the catalogue's."""
    path, entry = path_of(model, home=home), find_entry(model)
    prefixes = entry or read_pin(path)
    # Also for a model that is named by its file.
    named = (entry for entry in load_catalogue() if model == entry.name or path.name == entry.file)
    known = next(named, None)
    return LlamaEmbedder(
        path,
        n_ctx=n_ctx or (entry.context if entry else 256),
        threads=threads,
        query_prefix=prefixes.query_prefix if prefixes else "",
        text_prefix=prefixes.text_prefix if prefixes else "",
        languages=known.languages if known else (),
        centre=shipped_centres().get(known.name if known else "", _NOWHERE),
    )


@cache
def shipped_centres() -> dict[str, Centre]:
    """Return the centres that `make lab ARGS=centres` has learnt, by the names of embedders in the catalogue."""
    text = Path(__file__).with_name(CENTRES_FILE).read_text("utf-8")
    return msgspec.toml.decode(text, type=dict[str, Centre])


def _taken_from(centre: Sequence[int], encoding: Encoding) -> Encoding:
    """Return an encoding whose vector is the unit vector from a centre to its end."""
    if not centre:
        return encoding
    way = encoding.vector - np.array(centre, np.float32) / np.float32(10_000)
    return encoding._replace(vector=way / np.float32(np.linalg.norm(way)))


def _dimensions(header: Header) -> int:
    return header.number("embedding_length_out") or header.number("embedding_length")


def _fingerprint(path: Path, name: str, settings: object) -> str:
    """Return a string that changes with a model's file, as `sampled` reads it, and with settings."""
    try:
        digest = sampled(path)
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error.strerror}); leave it where it is") from error
    digest.update(repr(settings).encode("utf-8", "replace"))
    return f"{name}:{digest.hexdigest()[:24]}"


class LlamaEmbed:
    """A function from text to unit vector; call it for stored text, and `query` for questions.

    Threads and functions take turns, but leave the `Llama` itself to them. Its owner closes it, which waits for a running
    call; later ones get ClosedError.
    """

    def __init__(self, llm: Any, query_prefix: str, text_prefix: str) -> None:
        self._llm = llm
        self._prefixes = query_prefix, text_prefix
        # a longer batch, or a position without a row, ends the process
        trained = llm.metadata.get(f"{llm.metadata.get('general.architecture', '')}.context_length")
        sizes = (llm.n_ctx(), llm.n_batch, llm.context_params.n_ubatch, trained)
        self._most_tokens = min(int(size) for size in sizes if size)
        self._pooling = llm.pooling_type()
        self.dimensions = int(llm.n_embd())
        closed = self._closed = threading.Event()

        def close() -> None:
            with _turn:
                closed.set()

        llm._stack.callback(close)  # run before llama.cpp frees what would end the process when used

    @cached_property
    def fingerprint(self) -> str:
        """Return a string that changes with the model, the prefixes, the length at which text is cut, and the pooling."""
        path = Path(self._llm.model_path)
        settings = (self._prefixes, self._most_tokens, self._pooling, sorted(self._llm.metadata.items()))
        return _fingerprint(path, path.stem, settings)

    def __call__(self, text: str) -> list[float]:
        """Embed text to be stored."""
        return self._embed(self._prefixes[1] + text)

    def query(self, text: str) -> list[float]:
        """Embed what somebody asks."""
        return self._embed(self._prefixes[0] + text)

    def _embed(self, text: str) -> list[float]:
        # llama.cpp takes C strings and UTF-8: neither NUL nor half a surrogate pair passes.
        text = text.encode("utf-8", "replace").decode().replace("\0", " ")
        with _turn:
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

    The prefixes go before questions and before stored text; None takes the catalogue's for this file.
    """
    if not hasattr(llm, "context_params"):
        raise InvalidInputError(
            f"llama_embed needs a llama_cpp.Llama opened with embedding=True, not {type(llm).__name__}."
        )
    if not llm.context_params.embeddings:
        raise ModelError("This Llama was opened for chatting; open one with embedding=True")
    if llm.pooling_type() in (_NONE, _RANK):
        raise ModelError("This model gives no vector of a whole text; open an embedding model")
    # in whichever quantisation
    named = (entry for entry in load_catalogue() if Path(llm.model_path).name.lower().startswith(entry.name))
    entry = next(named, None)
    query, text = (entry.query_prefix, entry.text_prefix) if entry is not None else ("", "")
    return LlamaEmbed(
        llm, query if query_prefix is None else query_prefix, text if text_prefix is None else text_prefix
    )
