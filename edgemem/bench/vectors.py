"""The nearest of many vectors: `edgemem.recall.index.packed` against sqlite-vec, in time, in what is found, and in memory.

Vectors and questions are made alike, from a seed: they lie between two real embeddings of sentences, with noise. What is truly nearest is found among the 32-bit vectors by
comparing all of them. Each size is asked in a process of its own, so that its memory can be seen. A filter is a list of ids
in memory, and a metadata column of vec0.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import TYPE_CHECKING, Any

from edgemem.bench.corpus import known
from edgemem.bench.ground import in_process, real_embedder, scratch
from edgemem.bench.report import at_least, at_most, median, report, say, timed_ms
from edgemem.errors import EdgememError, InvalidInputError
from edgemem.recall.index.file import SCHEMA
from edgemem.recall.index.packed import PackedVectors
from edgemem.recall.index.vectors import LEAST, ExactVectors, ResidentVectors
from edgemem.store.db.database import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.store.db.transaction import Transaction

    Answer = Sequence[tuple[Any, ...]]
    Way = Callable[[NDArray[np.float32]], Answer]

K = 10
SCOPES = 10
NOISE = 0.5
"""The length of what is added to a unit vector."""
SEED = 5
SIZES = 10_000, 100_000, 1_000_000
VEC0_UP_TO = 100_000
"""Vectors beyond which sqlite-vec is not asked: half a second for each question."""
SCOPE = 3
"""A filter lets one of the scopes through."""

RECALL = {100_000: 0.99, 1_000_000: 0.95}
FIFTEENTH = 1 / 15
BYTES = 150.0
RSS_MB = 1000.0

_COLD = 5
_SLICE = 10_000
_BASES = "sentences.npy"
_ASKED = "asked.npz"
_PROGRAM = """
import json, pathlib, sys
from edgemem.bench.vectors import measure

print(json.dumps(measure(pathlib.Path(sys.argv[1]), int(sys.argv[2]))))
"""
_PROCESS_S = 1800.0
_VEC0_PAGE = 4096  # sqlite-vec takes twice the time with the pages of an index file


def run(
    *, size: int = 0, questions: int = 100, sentences: int = 1000, home: Path | None = None
) -> dict[str, Any]:
    """Time the search among vectors and count what is found, against sqlite-vec, with and without a filter.

    Args:
        size: how many vectors; 0: 10,000, then 100,000, then 1,000,000.
        questions: how many are asked, all kinds of index in turn.
        sentences: real embeddings that vectors lie between.
        home: a folder on the disk to measure; default: the temporary files. A million vectors take 1.2 GB there.
    """
    import numpy as np

    if 0 < size < LEAST or size < 0:
        raise InvalidInputError(
            f"Give a size of {LEAST} at least: with fewer vectors, sqlite-vec is what answers anyway."
        )
    figures, bars = {}, {}
    with scratch(home) as folder:
        say(f"embedding {sentences} sentences …")
        np.save(folder / _BASES, embedded(sentences))
        for n in [size] if size else SIZES:
            say(f"storing {n} vectors …")
            filling = fill(folder, n, questions)
            say("asking …")
            row = figures[str(n)] = {
                "fill_s": filling,
                **in_process(_PROGRAM, folder, n, timeout_s=_PROCESS_S, advice="give it a smaller --size"),
            }
            bars.update(bars_of(n, row))
    sides = {
        name: {n: row.get(name) for n, row in figures.items()}
        for name in dict.fromkeys(name for row in figures.values() for name in row)
    }
    return report(
        "vectors",
        {"side_by_side": sides, "k": K, "scopes": SCOPES, "noise": NOISE, "questions": questions},
        bars,
    )


def bars_of(n: int, row: dict[str, float]) -> dict[str, Any]:
    """Return what is promised for one size; at 10,000 nothing is."""
    bars = {}
    if n in RECALL:
        bars[f"recall_{n}"] = at_least(row["recall"], RECALL[n])
        bars[f"recall_filtered_{n}"] = at_least(row["recall_filtered"], RECALL[n])
        bars[f"bytes_a_vector_{n}"] = at_most(row["bytes_a_vector"], BYTES)
        bars[f"filtered_of_unfiltered_{n}"] = at_most(row["filtered_of_unfiltered"], 1.0)
    if n == 100_000:
        bars[f"of_vec0_{n}"] = at_most(row["of_vec0"], FIFTEENTH)
        bars[f"of_vec0_filtered_{n}"] = at_most(row["of_vec0_filtered"], FIFTEENTH)
    if n == 1_000_000:
        bars[f"peak_rss_mb_{n}"] = at_most(row["peak_rss_mb"], RSS_MB)
    return bars


def fill(folder: Path, n: int, questions: int) -> float:
    """Store vectors in an index file, and in one of sqlite-vec's own; return how many seconds ours took.

    What is truly nearest to each question is kept beside them.
    """
    import numpy as np

    bases = np.load(folder / _BASES)
    dimensions = bases.shape[1]
    asked = next(between(bases, questions, seed=SEED + 1))[0]
    true, true_filtered = Nearest(asked), Nearest(asked)
    filling, first = 0.0, 1
    with _ours(folder, n) as database, _vec0s(folder, n) as other:
        index = ExactVectors(database, dimensions)
        for rows, scopes in between(bases, n, seed=SEED):
            ids = np.arange(first, first + len(rows))
            first += len(rows)
            true.see(ids, rows)
            true_filtered.see(ids[scopes == SCOPE], rows[scopes == SCOPE])
            numbered = list(zip(ids.tolist(), rows, strict=True))
            filling += timed_ms(partial(database.write, partial(index.add, rows=numbered)))
            if n <= VEC0_UP_TO:
                other.write(partial(_add_to_vec0, rows=numbered, scopes=scopes.tolist()))
        database.checkpoint()
        other.checkpoint()
    np.savez(folder / _ASKED, asked=asked, true=true.ids, true_filtered=true_filtered.ids)
    return round(filling / 1e3, 4)


def measure(folder: Path, n: int) -> dict[str, float]:
    """Return the figures of vectors that `fill` has stored."""
    import numpy as np

    asked, true, true_filtered = np.load(folder / _ASKED).values()
    dimensions = asked.shape[1]
    figures: dict[str, float] = {}
    with _ours(folder, n) as database, _vec0s(folder, n) as other:
        ours = ResidentVectors(database, dimensions)
        # So that what SQLite and numpy keep for themselves is there already.
        ours.cosines(asked[0], range(1, 2000))
        before = rss_mb("VmRSS")
        figures["build_s"] = timed_ms(ours.warm) / 1e3
        figures["rss_bytes_a_vector"] = (rss_mb("VmRSS") - before) * 1e6 / n
        vectors = packed(np.load(folder / _BASES), n)
        allowed = numbers_in(SCOPE, np.load(folder / _BASES), n)
        figures["bytes_a_vector"] = vectors.nbytes / n
        ways: dict[str, Way] = {
            "": lambda query: ours.nearest(query, K),
            "_filtered": lambda query: vectors.nearest(query, K, allowed, partial(ours.cosines, query)),
            "_estimated": lambda query: vectors.nearest(query, K),
        }
        if n <= VEC0_UP_TO:
            ways["_vec0"] = partial(_ask_vec0, other)
            ways["_vec0_filtered"] = partial(_ask_vec0, other, scope=SCOPE)
        figures.update(_compare(ways, asked, true, true_filtered))
        figures["peak_rss_mb"] = rss_mb("VmHWM")
    figures["ms_cold"] = _cold(
        partial(_ours, folder, n),
        lambda file, query: vectors.nearest(
            query, K, exact=partial(ExactVectors(file, dimensions).cosines, query)
        ),
        asked,
    )
    figures["filtered_of_unfiltered"] = figures["ms_filtered"] / figures["ms"]
    if n <= VEC0_UP_TO:
        figures["ms_vec0_cold"] = _cold(partial(_vec0s, folder, n), _ask_vec0, asked)
        figures["of_vec0"] = figures["ms"] / figures["ms_vec0"]
        figures["of_vec0_filtered"] = figures["ms_filtered"] / figures["ms_vec0_filtered"]
    return {name: round(figure, 4) for name, figure in figures.items()}


def _compare(
    ways: dict[str, Way],
    asked: NDArray[np.float32],
    true: NDArray[np.int64],
    true_filtered: NDArray[np.int64],
) -> dict[str, float]:
    """Ask every question in every way, and return median times and what share was found.

    Each time another way comes first: whatever follows vec0 finds the caches of the processor full of its table.
    """
    spent: dict[str, list[float]] = {name: [] for name in ways}
    shares: dict[str, list[float]] = {name: [] for name in ways}
    for number, query in enumerate(asked):
        names = list(ways)
        first = number % len(names)
        for name in names[first:] + names[:first]:
            started = perf_counter()
            answer = ways[name](query)
            spent[name].append((perf_counter() - started) * 1e3)
            nearest = (true_filtered if name.endswith("_filtered") else true)[number]
            shares[name].append(len({id_ for id_, _ in answer}.intersection(nearest.tolist())) / len(nearest))
    times = {f"ms{name}": median(values) for name, values in spent.items()}
    return times | {f"recall{name}": mean(values) for name, values in shares.items()}


def _cold(
    opened: Callable[[], Database],
    ask: Callable[[Database, NDArray[np.float32]], Answer],
    asked: NDArray[np.float32],
) -> float:
    """Return the median time of a question to a file of which no page is in memory, in ms."""
    spent = []
    for query in asked[:_COLD]:
        with opened() as database:
            database.query("select 1 from meta")  # connects
            forget_pages(database.path)
            spent.append(timed_ms(partial(ask, database, query)))
    return median(spent)


def forget_pages(path: Path) -> None:
    """Have the system drop what it keeps of a file; whoever has it open reads from the disk again."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)  # what is not written yet cannot be dropped
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)


def rss_mb(which: str) -> float:
    """Return `VmRSS`, the memory of this process, or `VmHWM`, the most that it was, in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{which}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise EdgememError("This system does not tell how much memory a process takes; run on Linux.")


def _ours(folder: Path, n: int) -> Database:
    """Open an index file, as `recall.index_file` does."""
    return Database(folder / f"{n}.db", migrations=SCHEMA, durable=False, page_size=1024, load_vec=True)


def _vec0s(folder: Path, n: int) -> Database:
    """Open a file for sqlite-vec alone."""
    return Database(
        folder / f"{n}-vec0.db", migrations=SCHEMA, durable=False, page_size=_VEC0_PAGE, load_vec=True
    )


def _add_to_vec0(tx: Transaction, rows: list[tuple[int, NDArray[np.float32]]], scopes: list[int]) -> None:
    length = len(rows[0][1])
    tx.execute(
        f"create virtual table if not exists v using vec0 (scope integer, embedding float[{length:d}])"
    )
    tx.executemany(
        "insert into v (rowid, scope, embedding) values (?, ?, ?)",
        [(id_, scope, row.tobytes()) for (id_, row), scope in zip(rows, scopes, strict=True)],
    )


def _ask_vec0(database: Database, query: NDArray[np.float32], *, scope: int | None = None) -> Answer:
    if scope is None:
        sql = "select rowid, distance from v where embedding match ? and k = ?"
        return database.query(sql, (query.tobytes(), K))
    sql = "select rowid, distance from v where embedding match ? and k = ? and scope = ?"
    return database.query(sql, (query.tobytes(), K, scope))


def embedded(sentences: int) -> NDArray[np.float32]:
    """Return real embeddings of different sentences."""
    from edgemem.llama.embedder import LlamaEmbedder

    facts = known(sentences, seed=SEED)
    with LlamaEmbedder(real_embedder()) as embedder:
        return embedder.embed_texts([f"{fact.question} {fact.value}" for fact in facts])


def between(
    bases: NDArray[np.float32], n: int, *, seed: int
) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
    """Yield unit vectors between two of the bases each, with noise, and their scopes, ten thousand at once."""
    import numpy as np

    dice = np.random.default_rng(seed)
    for begin in range(0, n, _SLICE):
        many = min(_SLICE, n - begin)
        first, other = dice.integers(0, len(bases), (2, many))
        share = dice.random((many, 1), np.float32)
        rows = _unit(share * bases[first] + (1 - share) * bases[other])
        rows += dice.standard_normal(rows.shape, np.float32) * np.float32(NOISE / rows.shape[1] ** 0.5)
        yield _unit(rows), dice.integers(0, SCOPES, many)


def packed(bases: NDArray[np.float32], n: int) -> PackedVectors:
    """Return the vectors in memory, numbered from 1."""
    import numpy as np

    vectors = PackedVectors(bases.shape[1])
    for rows, _ in between(bases, n, seed=SEED):
        ids = np.arange(len(vectors) + 1, len(vectors) + 1 + len(rows))
        vectors.append(ids, ids, rows)
    return vectors


def numbers_in(scope: int, bases: NDArray[np.float32], n: int) -> NDArray[np.int64]:
    """Return the numbers of the vectors that have a scope."""
    import numpy as np

    scopes = np.concatenate([scopes for _, scopes in between(bases, n, seed=SEED)])
    return np.flatnonzero(scopes == scope) + 1


class Nearest:
    """The true neighbours of some questions among all vectors that were seen."""

    def __init__(self, asked: NDArray[np.float32]) -> None:
        import numpy as np

        self._asked = asked
        self.ids = np.zeros((len(asked), 0), np.int64)
        self._cosines = np.zeros((len(asked), 0), np.float32)

    def see(self, ids: NDArray[np.int64], rows: NDArray[np.float32]) -> None:
        """Compare with more vectors."""
        import numpy as np

        cosines = np.concatenate([self._cosines, self._asked @ rows.T], axis=1)
        every = np.concatenate([self.ids, np.broadcast_to(ids, (len(self._asked), len(ids)))], axis=1)
        best = np.argsort(-cosines, axis=1, kind="stable")[:, :K]
        self.ids, self._cosines = np.take_along_axis(every, best, 1), np.take_along_axis(cosines, best, 1)


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    unit: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit
