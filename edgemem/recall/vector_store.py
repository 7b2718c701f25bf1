"""`VectorMemoryStore`: the SQLite store, and facts found by meaning; with the embedder of a plain function."""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem.errors import EdgememError, InvalidInputError, ModelError, StoreError
from edgemem.fence import storable
from edgemem.llama.protocols import Embedder
from edgemem.preload import np
from edgemem.recall.index.index import Index
from edgemem.recall.index.sources import FACT, FACT_SOURCE
from edgemem.recall.recall import Recall, Request
from edgemem.store import fact_queries
from edgemem.store.backups import read_mark
from edgemem.store.memory_store import SQLiteMemoryStore

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.clock import Clock
    from edgemem.records import Fact, Kind, Reader, Recalled
    from edgemem.store.db.database import Database

    Vector = NDArray[np.float32]
    EmbedFn = Callable[[str], Sequence[float]]

_PROBE = "The keys hang beside the kitchen door, and Alice is allergic to peanuts."
_LARGEST = 16  # of the probe's numbers; the order of the largest ones tells the model


class FunctionEmbedder(Embedder):
    """Makes unit vectors with a function, called from one thread at a time, that gives numbers of any length above zero.

    The function's `query`, if any, embeds questions; its `dimensions` and `fingerprint` spare a call at opening.
    """

    def __init__(self, embed_fn: EmbedFn, *, dimensions: int | None = None) -> None:
        if not callable(embed_fn):
            raise InvalidInputError(
                "embed_fn must be a function from text to numbers; edgemem.llama_embed(llm) makes one."
            )
        self._embed_fn = embed_fn
        self._query_fn: EmbedFn = getattr(embed_fn, "query", embed_fn)
        self._lock = threading.Lock()
        self._waiting = threading.Lock()
        self._thread: ThreadPoolExecutor | None = None
        self._late: Future[Vector] | None = None
        self._dimensions: int | None = dimensions or getattr(embed_fn, "dimensions", None)
        self.fingerprint = str(getattr(embed_fn, "fingerprint", ""))
        """The function's own, or made of its vector of one sentence."""
        if self._dimensions is None or not self.fingerprint:
            probe = self._embed(self._embed_fn, _PROBE)
            self._dimensions = len(probe)
            self.fingerprint = self.fingerprint or _fingerprint_of(probe)
        self.dimensions = int(self._dimensions)

    def embed_query(self, text: str, *, timeout_s: float | None = None) -> Vector | None:
        """Embed a question; None after `timeout_s`.

        A late function runs on in a thread of its own: until it has answered, each call with a `timeout_s` returns None.
        """
        if timeout_s is None:
            return self._embed(self._query_fn, text)
        with self._waiting:
            if self._late is not None and not self._late.done():
                return None
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, "edgemem-embed")
            self._late = answer = self._thread.submit(self._embed, self._query_fn, text)
        try:
            return answer.result(timeout_s)
        except LateError:  # another class than the built-in one before Python 3.11
            return None

    def embed_texts(self, texts: Sequence[str]) -> Vector:
        """Embed stored text, one row each; a question waits for one text at most."""
        rows = [self._embed(self._embed_fn, text) for text in texts]
        return np.stack(rows) if rows else np.empty((0, self.dimensions), np.float32)

    def close(self) -> None:
        """Do nothing: the function is the caller's."""

    def _embed(self, function: EmbedFn, text: str) -> Vector:
        """Return a function's answer as a vector of length 1."""
        try:
            with self._lock:
                vector: Vector = np.asarray(function(text), np.float32)
        except EdgememError:
            raise
        except Exception as error:
            raise ModelError(
                f"embed_fn failed ({type(error).__name__}: {error}); what was stored is safe, mend the function."
            ) from error
        if vector.ndim != 1 or not len(vector) or not np.isfinite(vector).all():
            raise ModelError(f"embed_fn must give one row of finite numbers, not shape {vector.shape}.")
        if self._dimensions is not None and len(vector) != self._dimensions:
            raise ModelError(
                f"embed_fn gives {len(vector)} numbers instead of {self._dimensions}; leave embedding_dim out, or name the right model."
            )
        norm = float(np.linalg.norm(vector))
        return vector / np.float32(norm) if norm > 0 else vector


def _fingerprint_of(vector: Vector) -> str:
    """Return a string that another model would change, and another processor's rounding would not."""
    largest: list[Any] = sorted(range(len(vector)), key=lambda at: -abs(float(vector[at])))[:_LARGEST]
    signs = [(at, bool(vector[at] > 0)) for at in sorted(largest)]
    return f"probe:{len(vector)}:{hashlib.sha256(repr(signs).encode()).hexdigest()[:24]}"


_FACTS_ONLY: tuple[Kind, ...] = ("fact",)
_QUERY_CHARS = 2000
_AT_ONCE = 64


class VectorMemoryStore(SQLiteMemoryStore):
    """A `SQLiteMemoryStore` with `search_facts`.

    Vectors are in a second file, the index (`x.db` has `x.index.db`), made from the truth: it may be deleted, and is made again
    for another model. `add_fact` does not embed: `search_facts` makes missing vectors first, and `embed_pending` while nobody
    waits. So no writer waits for a model.

    Args:
        path: of a file, which this store opens and closes; or an open database, which it only uses.
        embed_fn: from text to numbers, such as `edgemem.llama_embed(llm)`, or an embedder of edgemem; called from one
            thread at a time, and not closed.
        embedding_dim: how many numbers it gives; None asks it once.
        clock: only with a path; a database has its own.
        max_episodes: the newest are kept; 0 keeps all.
        doubtful_below: as for `SQLiteMemoryStore`.
    """

    def __init__(
        self,
        path: str | Path | Database,
        *,
        embed_fn: EmbedFn | Embedder,
        embedding_dim: int | None = None,
        clock: Clock | None = None,
        max_episodes: int | None = 500,
        doubtful_below: float = 0.5,
    ) -> None:
        if not isinstance(embed_fn, Embedder):
            embed_fn = FunctionEmbedder(embed_fn, dimensions=embedding_dim)
        self._embedder = embed_fn
        super().__init__(path, clock=clock, max_episodes=max_episodes, doubtful_below=doubtful_below)
        try:
            self.index = Index(index_path(self.database.path), self.database, embedder=self._embedder)
            self.index.erase()  # a forgetting that was cut off
        except BaseException:
            super().close()
            raise
        self._recall = Recall(self.database, self.index, embedder=self._embedder, settings=self._settings)

    def search_facts(
        self, query: str, *, k: int = 5, scope: str | None = None, reader: Reader | None = None
    ) -> list[tuple[Fact, float]]:
        """Return at most k facts that hold now, each with its distance from the query, the nearest first.

        The distance is Euclidean, between unit vectors: 0 for the same meaning, 1.41 for none in common, 2 for the opposite.
        Every fact added before is found; `scope` narrows the search, not its results. `reader` will hear it; None is the
        operator, who reads everything. Of a very long query the end counts. Raise ModelError where the function fails.
        """
        if not isinstance(query, str):
            raise InvalidInputError(f"A query must be text, not {type(query).__name__}; pass a string.")
        query = " ".join(storable(query[-_QUERY_CHARS:]).split())
        if not query or k <= 0:
            return []
        vector = self._embedder.embed_query(query)
        if vector is None:
            return []
        try:
            return self._search(vector, k, scope, reader)
        except StoreError as error:
            if not self.index.mark_broken(error):
                raise
        return self._search(vector, k, scope, reader)  # in the index made again

    def recall_facts(
        self, query: str, *, k: int = 20, reader: Reader | None = None, deadline_s: float | None = None
    ) -> list[Recalled]:
        """Return at most k facts, by words and meaning, best first; for a turn that may not wait.

        They hold now; where the query asks about the past, those that held once are among them, marked as `past`. Nothing stored
        is embedded here: without a vector it is found by words. `reader` will hear it; None is the operator, who reads
        everything. After `deadline_s` seconds, default 0.15 as in the default profile, it answers with what there is.
        """
        if k <= 0:
            return []
        within = self._settings.now.recall.deadline_ms / 1e3 if deadline_s is None else deadline_s
        return self._recall.recall(query, Request(reader=reader, k=k, kinds=_FACTS_ONLY, deadline_s=within))

    def embed_pending(self, limit: int = _AT_ONCE, *, stop: Callable[[], bool] | None = None) -> int:
        """Make up to `limit` missing vectors, in idle time, until `stop`, which is asked between steps; return how many."""
        # Only facts are searched here: the rest is left to the truth's own index.
        while self.index.catch_up(sources=FACT_SOURCE, stop=stop):
            pass
        self.index.erase()
        return self.index.embed_pending(limit, stop=stop)

    def close(self) -> None:
        """Close the index, and the truth if this store opened it; may be called twice."""
        self.index.close()
        super().close()

    def _erased(self, texts: Collection[str]) -> None:
        super()._erased(texts)
        self.index.erase()

    def _search(
        self, vector: Vector, k: int, scope: str | None, reader: Reader | None
    ) -> list[tuple[Fact, float]]:
        self._follow()
        if self.index.damaged:
            self._follow()  # it was found broken on the way, and is made again
        vectors = self.index.vectors(self.index.state())
        if vectors is None:
            return []
        believed = fact_queries.facts_as_of(self.database, self.database.now(), scope=scope, reader=reader)
        held = {int(fact.id): fact for fact in believed}
        rows = self.index.database.query("select id, ref from docs where kind = ?", (FACT,))
        facts = {number: held[ref] for number, ref in rows if ref in held}
        # The distance of unit vectors follows from the cosine.
        near = vectors.nearest(vector, k, list(facts))
        return [(facts[number], math.sqrt(max(0.0, 2.0 - 2.0 * cosine))) for number, cosine in near]

    def _follow(self) -> None:
        while self.embed_pending():
            pass


def index_path(path: Path) -> Path:
    """Return where the index of a truth opened by path lies: `x.db` has `x.index.db`.

    Raise InvalidInputError for the truth of a home: a second index there would keep what the home forgets.
    """
    if read_mark(path.parent) is not None:
        raise InvalidInputError(
            f"{path} belongs to a home; open that: edgemem.open({str(path.parent.parent)!r})."
        )
    return path.with_name(f"{path.stem}.index{path.suffix or '.db'}")
