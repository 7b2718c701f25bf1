"""Vectors of docs: a row a doc in the index file, as signed bytes and half bytes, and two bits a dimension in memory and of tokens.

`PackedVectors` names the few that may be nearest; their rows, each with all pieces of a text, are compared exactly. An index has
the vectors of one model: where another comes, they are erased, and words find every doc until it has a new one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from edgemem.preload import np
from edgemem.recall.index.file import Removals, remove_all, set_meta
from edgemem.recall.index.packed import PackedVectors, best_first
from edgemem.store.db.transaction import bound, in_batches, placeholders

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.llama.protocols import Embedder, Encoding
    from edgemem.recall.index.file import State
    from edgemem.store.db.database import Database
    from edgemem.store.db.transaction import Transaction

    Vector = NDArray[np.float32]
    Ids = Sequence[int] | NDArray[np.int64]

LEAST = 256
"""Fewer vectors are all compared exactly: half a millisecond."""
AT_ONCE = 128
"""Docs read between two looks at `stop`: some milliseconds."""
URGENT, REEMBEDDED, ENDED = 2, 1, 0
"""When a doc is embedded: new and changed ones, those from before the model, and facts that hold no more."""
_LEVELS = 16
"""Of half a byte: as many below 0 as above, so that no value loses its sign."""
_STEP = 0.3352
"""Between levels, times a vector's root mean square: best for 16 levels of values spread like a bell (Max 1960)."""
_TOKEN_STEP = 0.9957
"""The same for the 4 levels of a token's numbers. Of questions in homes .634 find their answer first, with 8 bits .636."""
_SMALL = 1e-9
_ALONE = 262_144  # multiplications up to which OpenBLAS takes one thread (its interface/gemm.c)
_OF_MODEL = "coalesce((select value from meta where key = 'model'), '') = :model"


class _Pieces(NamedTuple):
    """Vectors of several docs, with the doc and the tick of each row."""

    docs: NDArray[np.int64]
    ticks: NDArray[np.int64]
    vectors: Vector


class Vectors:
    """The unit vectors of one model (see `model_name`) in an index file, by docs' numbers; none while it has another model's."""

    def __init__(self, database: Database, dimensions: int, model: str = "") -> None:
        self._database = database
        self._dimensions = dimensions
        self.model = model
        self._lock = threading.Lock()
        self._removals = Removals(database)
        self._last_tick = 0
        self._packs = dimensions % 64 == 0
        """Whether memory helps: of few or odd dimensions two bits tell too little."""

    @cached_property
    def packed(self) -> tuple[PackedVectors, PackedVectors]:
        """Return the vectors in memory: of docs that hold now, and of those that hold no more."""
        return self._empty()  # not at the opening, which would load numpy

    def warm(self, stop: Callable[[], bool] | None = None) -> None:
        """Bring memory in line with the file, while nobody waits; the next call goes on where `stop` ended it."""
        self.follow_removals()
        more = self._packs
        while more and not (stop and stop()):
            with self._lock:  # a question waits for one step at most
                more = self._read()

    def follow(self, state: State) -> None:
        """Bring memory in line with the file's state: reading a vector in takes no longer than comparing it in the file."""
        with self._lock:
            self._wipe(state.removals)
            while self._packs and self._last_tick < state.vectors and self._read():
                pass

    def follow_removals(self) -> None:
        """Wipe vectors that were taken out of the file, also where nobody asks."""
        with self._lock:
            self._wipe()

    def nearest(
        self, query: Vector, k: int, among: Ids | None = None, *, rough: bool = False, past: bool = False
    ) -> list[tuple[int, float]]:
        """Return at most k ids, `among` some if given, with their cosines, each id with its best vector, the best first.

        `rough` cosines may be estimates, without vectors written since `follow`; `past` takes docs that hold no more instead.
        """
        if k <= 0 or len(query) != self._dimensions:
            return []
        if self._packs:
            with self._lock:
                if not rough:
                    self._wipe()
                    while self._read():
                        pass
                packed = self.packed[past]
                if len(packed) >= LEAST:
                    exact = None if rough else partial(self.cosines, query)
                    return packed.nearest(query, k, among, exact=exact)
                among = packed.ids if among is None else among
        if among is not None:
            return best_first(self.cosines(query, among), k)
        return best_first(self._cosines(self._select("past = :past", {"past": int(past)}), query), k)

    def cosines(self, query: Vector, ids: Ids) -> dict[int, float]:
        """Return the exact cosines of ids that have a vector."""
        cosines: dict[int, float] = {}
        for some in in_batches(np.asarray(ids, np.int64).tolist()):
            cosines |= self._cosines(self._select(f"doc in ({placeholders(some)})", bound(some)), query)
        return cosines

    def tokens(self, ids: Sequence[int]) -> dict[int, bytes]:
        """Return the token vectors, as `packed`, of ids that have some."""
        sql = f"select doc, tokens from vectors where {_OF_MODEL} and doc in ({placeholders(ids)})"  # noqa: S608 - our own text
        return {
            doc: codes
            for doc, codes in self._database.query(sql, {**bound(ids), "model": self.model})
            if isinstance(codes, bytes) and codes
        }

    def text_vectors(self, ids: Ids) -> dict[int, Vector]:
        """Return the unit vectors of the whole texts of ids that have one."""
        rows = self._select(
            f"doc in ({placeholders(list(ids))})", bound(list(ids)), f"substr(codes, 1, {self._dimensions})"
        )
        pieces = self._pieces(rows)
        return dict(zip(pieces.docs.tolist(), pieces.vectors, strict=True))

    def estimates(self, query: Vector, ids: Ids, *, past: bool = False) -> tuple[NDArray[np.int64], Vector]:
        """Return ids that have a vector, ascending, and estimates of their cosines, as of the last `nearest`."""
        with self._lock:
            if len(query) == self._dimensions and len(self.packed[past]) >= LEAST:
                return self.packed[past].cosines(query, ids)
        cosines = dict(sorted(self.cosines(query, ids).items()))
        return np.array(list(cosines), np.int64), np.array(list(cosines.values()), np.float32)

    def _empty(self) -> tuple[PackedVectors, PackedVectors]:
        return PackedVectors(self._dimensions), PackedVectors(self._dimensions)

    def _select(self, rest: str, values: dict[str, Any], codes: str = "codes") -> list[tuple[Any, ...]]:
        sql = f"select seq, doc, past, {codes} from vectors where {_OF_MODEL} and {rest}"  # noqa: S608 - our own text
        return self._database.query(sql, {**values, "model": self.model})

    def _cosines(self, rows: Sequence[tuple[Any, ...]], query: Vector) -> dict[int, float]:
        """Return the cosine of each doc's best piece."""
        best: dict[int, float] = {}
        for begin in range(0, len(rows) if len(query) == self._dimensions else 0, AT_ONCE):
            pieces = self._pieces(rows[begin : begin + AT_ONCE])
            # By row: a matrix product rounds a row by its place among the others, and so tells of rows closed to the reader.
            cosines = np.einsum("ij,j->i", pieces.vectors, query)
            order = np.argsort(cosines, kind="stable")
            best |= dict(zip(pieces.docs[order].tolist(), cosines[order].tolist(), strict=True))
        return best

    def _pieces(self, rows: Sequence[tuple[Any, ...]]) -> _Pieces:
        """Return the vectors in rows of the file, but for those that cannot be ours, as in a damaged one."""
        size, half = self._dimensions, -(-self._dimensions // 2)
        whole = [
            row
            for row in rows
            if isinstance(row[1], int)
            and isinstance(row[3], bytes)
            and len(row[3]) >= size
            and (len(row[3]) - size) % half == 0
        ]
        texts = np.frombuffer(b"".join(row[3][:size] for row in whole), np.int8).reshape(-1, size)
        halves = np.frombuffer(b"".join(row[3][size:] for row in whole), np.uint8).reshape(-1, half)
        levels = np.stack([halves >> 4, halves & 15], axis=2).reshape(-1, 2 * half)[:, :size]
        parts = levels - np.float32((_LEVELS - 1) / 2)
        vectors = np.concatenate([texts.astype(np.float32), parts])
        vectors /= np.maximum(np.sqrt(np.einsum("ij,ij->i", vectors, vectors)), 1.0)[:, None]
        counts = [(len(row[3]) - size) // half for row in whole]
        columns = (np.array([row[column] for row in whole], np.int64) for column in (1, 0))
        docs, ticks = (np.concatenate([column, np.repeat(column, counts)]) for column in columns)
        return _Pieces(docs, ticks, vectors)

    def _wipe(self, newest: int | None = None) -> None:
        """Wipe vectors that were taken out of the file; all where these are not known."""
        removed = self._removals.read_newest(newest=newest)
        if removed is None:
            self.packed, self._last_tick = self._empty(), 0
            self._removals.skip()
        elif removed:
            # A vector that was put in again since is another one.
            ticks, docs = zip(*removed, strict=True)
            for packed in self.packed:
                packed.wipe(docs, before=ticks)

    def _read(self) -> bool:
        """Read in the next vectors; tell whether there may be more."""
        rows = self._select(
            "seq > :tick order by seq limit :most", {"tick": self._last_tick, "most": AT_ONCE}
        )
        for past, packed in enumerate(self.packed):
            pieces = self._pieces([row for row in rows if bool(row[2]) == bool(past)])
            packed.append(pieces.docs, pieces.ticks, pieces.vectors)
        self._last_tick = rows[-1][0] if rows else self._last_tick
        return len(rows) == AT_ONCE


def model_name(embedder: Embedder) -> str:
    """Return a model's name in the file: with another length it is another model."""
    return f"{embedder.dimensions} {embedder.fingerprint}"


def encoded(vectors: Sequence[Vector]) -> bytes:
    """Encode a doc's vectors for its row: the first, of the whole text, in signed bytes, others in half bytes.

    At 384 dimensions a byte puts a cosine 6e-4 off, half of one 6e-3: a third of the error of memory's two bits.
    """
    matrix = np.stack(vectors)
    text = np.rint(matrix[0] * (127 / max(float(np.abs(matrix[0]).max()), _SMALL))).astype(np.int8)
    parts = matrix[1:]
    steps = np.maximum(_STEP * np.sqrt(np.square(parts).mean(axis=1, keepdims=True)), _SMALL)
    levels = np.clip(np.floor(parts / steps) + _LEVELS // 2, 0, _LEVELS - 1).astype(np.uint8)
    levels = np.pad(levels, ((0, 0), (0, levels.shape[1] % 2)))
    return bytes(text.tobytes() + (levels[:, ::2] << 4 | levels[:, 1::2]).tobytes())


def packed(tokens: NDArray[np.int8]) -> bytes:
    """Return two bits for each number of a text's token vectors, `int8[tokens, size]`; nothing if it has none."""
    if not tokens.size:
        return b""  # of any shape: there is no size to be told
    tokens = _in_fours(tokens)
    step = np.float32(_TOKEN_STEP * 127 / tokens.shape[1] ** 0.5)
    levels = np.clip(np.floor(tokens / step) + 2, 0, 3).astype(np.uint8).reshape(-1, 4)
    return bytes((levels << np.arange(0, 8, 2, dtype=np.uint8)).sum(axis=1, dtype=np.uint8))


def _in_fours(tokens: NDArray[np.int8]) -> NDArray[np.int8]:
    return np.pad(tokens, ((0, 0), (0, -tokens.shape[1] % 4)))


def add_vectors(tx: Transaction, rows: Iterable[tuple[int, bool, Sequence[Encoding]]]) -> None:
    """Store vectors of docs that have none: numbers, whether each holds no more, and an encoding a piece, the first with tokens."""
    tx.executemany(
        "insert into vectors (doc, seq, past, codes, tokens) values (?, ?, ?, ?, ?)",
        [
            (
                doc, tx.tick(), int(past), encoded([piece.vector for piece in pieces]),
                b"" if pieces[0].tokens is None else packed(pieces[0].tokens),
            )
            for doc, past, pieces in sorted(rows, key=lambda row: row[0])
            if len(pieces)
        ],
    )  # fmt: skip


def remove_vectors(tx: Transaction, docs: Iterable[int]) -> None:
    """Erase the vectors of docs; the caller notes the removal."""
    tx.executemany("delete from vectors where doc = ?", [(doc,) for doc in docs])


def move_vectors(tx: Transaction, doc: int, *, past: bool) -> bool:
    """Put a doc's vectors among those that hold no more, or back; tell whether it has any.

    The caller notes the removal before: rows of a later tick stay.
    """
    tx.execute("update vectors set seq = ?, past = ? where doc = ?", (tx.tick(), int(past), doc))
    return tx.changes > 0


def begin_model(tx: Transaction, embedder: Embedder) -> None:
    """Erase the last model's vectors, and queue all docs for a new one."""
    set_meta(tx, "model", model_name(embedder))
    tx.execute("delete from vectors")
    if tx.changes:
        remove_all(tx)
    tx.execute("delete from unembedded")
    tx.execute(
        "insert into unembedded (urgent, doc) select case past when 0 then ? else ? end, id from docs",
        (REEMBEDDED, ENDED),
    )


def enqueue(tx: Transaction, docs: Iterable[tuple[int, bool]]) -> None:
    """Queue docs (numbers, and whether each holds no more and waits last) for a vector, once the index has a model."""
    if tx.execute("select 1 from meta where key = 'model'"):
        rows = [(ENDED if past else URGENT, doc) for doc, past in docs]
        tx.executemany("insert or ignore into unembedded (urgent, doc) values (?, ?)", rows)


def dequeue(tx: Transaction, docs: Iterable[int]) -> None:
    """Take docs out of the queue."""
    tx.executemany("delete from unembedded where urgent in (0, 1, 2) and doc = ?", [(doc,) for doc in docs])


def late_interaction(query: NDArray[np.int8], texts: Sequence[bytes]) -> NDArray[np.float32]:
    """Return `float32[n, 2]`: of the cosines of each text's nearest token to each of a question, the mean and the deviation.

    The question's are of length 127; each text is `packed`, and has one. The mean is of O. Khattab and M. Zaharia ("ColBERT", 2020).
    """
    query = _in_fours(query)
    ends = np.cumsum([4 * len(text) // query.shape[1] for text in texts])
    levels = np.frombuffer(b"".join(texts), np.uint8)[:, None] >> np.arange(0, 8, 2, dtype=np.uint8) & 3
    rows = (levels.astype(np.float32) - 1.5).reshape(-1, query.shape[1])
    lengths = 127 * np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    # Sums of so few halves are exact before they are divided: no text rounds another's.
    nearest = np.maximum.reduceat(products(rows, query.astype(np.float32)) / lengths, [0, *ends[:-1]], axis=0)
    return np.stack([nearest.mean(axis=1), nearest.std(axis=1)], axis=1)


def products(rows: NDArray[np.floating[Any]], others: NDArray[np.floating[Any]]) -> NDArray[Any]:
    """Return the product of each row with each of the others, in steps that one thread takes.

    The threads of a larger step wait for each other where a board is busy: 4 ms in place of .1.
    """
    step = max(1, _ALONE // max(others.size, 1))
    return np.concatenate([rows[at : at + step] @ others.T for at in range(0, len(rows) or 1, step)])
