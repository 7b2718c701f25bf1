"""The nearest of many vectors: ours in memory against sqlite-vec, in time, in what is found, and in memory.

Vectors lie between two real embeddings, with seeded noise. Each size has a process of its own, so that its memory is seen.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import TYPE_CHECKING, Any

from edgemem.bench.corpus import household_facts
from edgemem.bench.ground import (
    Bar,
    at_least,
    at_most,
    in_process,
    median,
    real_embedder,
    report,
    say,
    scratch,
    timed_ms,
)
from edgemem.errors import EdgememError, InvalidInputError
from edgemem.llama.protocols import Encoding
from edgemem.recall.index.file import SCHEMA
from edgemem.recall.index.vectors import LEAST, Vectors, add_vectors
from edgemem.store.db.connection import register_vec0
from edgemem.store.db.database import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.store.db.transaction import Transaction

    Matrix = NDArray[np.float32]
    Answer = Sequence[tuple[Any, ...]]

K = 10
SCOPES = 10
SCOPE = 3  # a filter lets one of the scopes through
NOISE = 0.5  # the length of what is added to a unit vector
SEED = 5
SIZES = 10_000, 100_000, 1_000_000
VEC0_UP_TO = 100_000  # matrix beyond which sqlite-vec is not asked: half a second for each question
RECALL = {100_000: 0.99, 1_000_000: 0.95}
FIFTEENTH = 1 / 15
BYTES = 150.0
RSS_MB = 1000.0
_SLICE = 10_000
_BASES = "sentences.npy"
_PROGRAM = """
import json, pathlib, sys
lab, folder, n, questions = sys.argv[1:]
sys.path.append(lab)
from lab.vectors import measure

print(json.dumps(measure(pathlib.Path(folder), int(n), int(questions))))
"""
_LAB = Path(__file__).parent.parent
_PROCESS_S = 1800.0
_VEC0_PAGE = 4096  # sqlite-vec takes twice the time with the pages of an index file


def run(
    *, size: int = 0, questions: int = 100, sentences: int = 1000, home: Path | None = None
) -> dict[str, Any]:
    """Time the search among vectors and count what is found, against sqlite-vec, with and without a filter.

    Args:
        size: how many vectors; 0: 10,000, then 100,000, then 1,000,000.
        sentences: real embeddings that vectors lie between.
    """
    import numpy as np

    from edgemem.llama.embedder import LlamaEmbedder

    if 0 < size < LEAST or size < 0:
        raise InvalidInputError(
            f"Give a size of {LEAST} at least: with fewer vectors, sqlite-vec is what answers anyway."
        )
    figures: dict[str, dict[str, float]] = {}
    bars: dict[str, Bar] = {}
    with scratch(home) as folder:
        say(f"embedding {sentences} sentences …")
        facts = household_facts(sentences, seed=SEED)
        with LlamaEmbedder(real_embedder()) as embedder:
            np.save(
                folder / _BASES, embedder.embed_texts([f"{fact.question} {fact.value}" for fact in facts])
            )
        for n in [size] if size else SIZES:
            say(f"{n} vectors …")
            row = in_process(
                _PROGRAM, _LAB, folder, n, questions, timeout_s=_PROCESS_S, advice="give it a smaller --size"
            )
            figures[str(n)] = row
            if n in RECALL:
                bars[f"recall_{n}"] = at_least(row["recall"], RECALL[n])
                bars[f"recall_filtered_{n}"] = at_least(row["recall_filtered"], RECALL[n])
                bars[f"bytes_a_vector_{n}"] = at_most(row["bytes_a_vector"], BYTES)
                bars[f"filtered_of_unfiltered_{n}"] = at_most(row["filtered_of_unfiltered"], 1.0)
            if n == SIZES[1]:
                bars[f"of_vec0_{n}"] = at_most(row["of_vec0"], FIFTEENTH)
                bars[f"of_vec0_filtered_{n}"] = at_most(row["of_vec0_filtered"], FIFTEENTH)
            if n == SIZES[2]:
                bars[f"peak_rss_mb_{n}"] = at_most(row["peak_rss_mb"], RSS_MB)
    sides = {
        name: {n: row.get(name) for n, row in figures.items()}
        for name in dict.fromkeys(name for row in figures.values() for name in row)
    }
    return report(
        "vectors",
        {"side_by_side": sides, "k": K, "scopes": SCOPES, "noise": NOISE, "questions": questions},
        bars,
    )


def measure(folder: Path, n: int, questions: int) -> dict[str, float]:
    """Store `n` vectors in an index file and in one of sqlite-vec's own, ask both, and return the figures."""
    import numpy as np

    bases = np.load(folder / _BASES)
    asked = next(between(bases, questions, seed=SEED + 1))[0]
    nearest, nearest_filtered = Nearest(asked), Nearest(asked)
    allowed: list[int] = []
    filling, first = 0.0, 1
    vec0 = n <= VEC0_UP_TO
    register_vec0()
    # As `recall.index.file` opens an index.
    settings: dict[str, Any] = {"schema": SCHEMA, "durable": False}
    with (
        Database(folder / f"{n}.db", page_size=1024, **settings) as database,
        Database(folder / f"{n}-vec0.db", page_size=_VEC0_PAGE, **settings) as other,
    ):
        ours = Vectors(database, bases.shape[1])
        for rows, scopes in between(bases, n, seed=SEED):
            ids = np.arange(first, first + len(rows))
            first += len(rows)
            inside = scopes == SCOPE
            allowed += ids[inside].tolist()
            nearest.see(ids, rows)
            nearest_filtered.see(ids[inside], rows[inside])
            numbered = list(zip(ids.tolist(), rows, strict=True))
            stored = [(id_, False, [Encoding(row)]) for id_, row in numbered]
            filling += timed_ms(partial(database.write, partial(add_vectors, rows=stored)))
            if vec0:
                other.write(partial(_add_to_vec0, rows=numbered, scopes=scopes.tolist()))
        database.checkpoint()
        other.checkpoint()
        figures = {"fill_s": filling / 1e3, "build_s": timed_ms(ours.warm) / 1e3}
        figures["bytes_a_vector"] = sum(packed.nbytes for packed in ours.packed) / n
        among = np.array(allowed)
        ways: dict[str, Callable[[Matrix], Answer]] = {
            "": lambda query: ours.nearest(query, K),
            "_filtered": lambda query: ours.nearest(query, K, among),
        }
        if vec0:
            ways["_vec0"] = partial(_ask_vec0, other)
            ways["_vec0_filtered"] = partial(_ask_vec0, other, scope=SCOPE)
        spent: dict[str, list[float]] = {name: [] for name in ways}
        shares: dict[str, list[float]] = {name: [] for name in ways}
        for number, query in enumerate(asked):
            names = list(ways)
            # Each time another way comes first: whatever follows vec0 finds the processor's caches full of its table.
            first = number % len(names)
            for name in names[first:] + names[:first]:
                started = perf_counter()
                answer = ways[name](query)
                spent[name].append((perf_counter() - started) * 1e3)
                true = (nearest_filtered if name.endswith("_filtered") else nearest).ids[number].tolist()
                shares[name].append(len({row[0] for row in answer}.intersection(true)) / len(true))
    figures |= {f"ms{name}": median(values) for name, values in spent.items()}
    figures |= {f"recall{name}": mean(values) for name, values in shares.items()}
    figures["peak_rss_mb"] = peak_rss_mb()
    figures["filtered_of_unfiltered"] = figures["ms_filtered"] / figures["ms"]
    if vec0:
        figures["of_vec0"] = figures["ms"] / figures["ms_vec0"]
        figures["of_vec0_filtered"] = figures["ms_filtered"] / figures["ms_vec0_filtered"]
    return {name: round(figure, 4) for name, figure in figures.items()}


def peak_rss_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise EdgememError("This system does not tell how much memory a process takes; run on Linux.")


def _add_to_vec0(tx: Transaction, rows: list[tuple[int, Matrix]], scopes: list[int]) -> None:
    length = len(rows[0][1])
    tx.execute(
        f"create virtual table if not exists v using vec0 (scope integer, embedding float[{length:d}])"
    )
    tx.executemany(
        "insert into v (rowid, scope, embedding) values (?, ?, ?)",
        [(id_, scope, row.tobytes()) for (id_, row), scope in zip(rows, scopes, strict=True)],
    )


def _ask_vec0(database: Database, query: Matrix, *, scope: int | None = None) -> Answer:
    if scope is None:
        sql = "select rowid, distance from v where embedding match ? and k = ?"
        return database.query(sql, (query.tobytes(), K))
    sql = "select rowid, distance from v where embedding match ? and k = ? and scope = ?"
    return database.query(sql, (query.tobytes(), K, scope))


def between(bases: Matrix, n: int, *, seed: int) -> Iterator[tuple[Matrix, NDArray[np.int64]]]:
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


class Nearest:
    """The true neighbours of some questions among all vectors that were seen."""

    def __init__(self, asked: Matrix) -> None:
        import numpy as np

        self._asked = asked
        self.ids = np.zeros((len(asked), 0), np.int64)
        self._cosines = np.zeros((len(asked), 0), np.float32)

    def see(self, ids: NDArray[np.int64], rows: Matrix) -> None:
        import numpy as np

        cosines = np.concatenate([self._cosines, self._asked @ rows.T], axis=1)
        every = np.concatenate([self.ids, np.broadcast_to(ids, (len(self._asked), len(ids)))], axis=1)
        best = np.argsort(-cosines, axis=1, kind="stable")[:, :K]
        self.ids, self._cosines = np.take_along_axis(every, best, 1), np.take_along_axis(cosines, best, 1)


def _unit(rows: Matrix) -> Matrix:
    import numpy as np

    unit: Matrix = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit
