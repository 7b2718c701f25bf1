"""What the vectors of an index must do, from memory and from the file alone; comparing all is the oracle."""

import numpy as np
import pytest

from edgemem.llama.protocols import Encoding
from edgemem.recall.index import vectors as vectors_module
from edgemem.recall.index.file import SCHEMA, note_removals
from edgemem.recall.index.vectors import Vectors, add_vectors, move_vectors, remove_vectors
from edgemem.store.db.database import Database

DIMENSIONS = 64


@pytest.fixture
def database(tmp_path):
    with Database(tmp_path / "index.db", schema=SCHEMA, durable=False) as db:
        yield db


@pytest.fixture(params=[True, False], ids=["memory", "file"])
def vectors(request, database, monkeypatch):
    """Return the vectors of that file, found by the bits in memory or compared one by one."""
    monkeypatch.setattr(vectors_module, "LEAST", 1 if request.param else 10**6)
    return Vectors(database, DIMENSIONS)


def unit(*shape: int, seed: int = 1) -> np.ndarray:
    found = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return found / np.linalg.norm(found, axis=-1, keepdims=True)


def fill(database, rows: np.ndarray) -> None:
    add(database, list(enumerate(rows, start=1)))


def add(database, pieces, *, past: bool = False) -> None:
    """Store vectors under their numbers, in place of those that are there; those of one number are its pieces."""
    by_doc: dict[int, list[np.ndarray]] = {}
    for doc, vector in pieces:
        by_doc.setdefault(doc, []).append(vector)
    remove(database, by_doc)
    database.write(
        lambda tx: add_vectors(tx, [(doc, past, list(map(Encoding, rows))) for doc, rows in by_doc.items()])
    )


def remove(database, docs) -> None:
    def work(tx):
        remove_vectors(tx, docs)
        note_removals(tx, docs)

    database.write(work)


def nearest_of_all(rows: np.ndarray, query: np.ndarray) -> list[int]:
    return (np.argsort(-(rows @ query)) + 1).tolist()


def estimates(vectors, query, ids) -> dict[int, float]:
    found, cosines = vectors.estimates(query, ids)
    return dict(zip(found.tolist(), cosines.tolist(), strict=True))


def test_all_are_found_in_the_order_of_their_cosines(database, vectors):
    """Asked for everything, an index gives exactly what the oracle gives."""
    rows, query = unit(30, DIMENSIONS), unit(DIMENSIONS, seed=2)
    fill(database, rows)
    found = vectors.nearest(query, 30)
    assert [id_ for id_, _ in found] == nearest_of_all(rows, query)
    # 8 bits a dimension, and the fewer the dimensions, the more each of them matters
    assert dict(found) == pytest.approx(dict(enumerate(rows @ query, start=1)), abs=5e-3)


def test_the_nearest_are_among_a_few_more(database, vectors):
    """The ten nearest of 2,000 are nearly all among the 128 that an index gives."""
    centres = unit(50, DIMENSIONS, seed=3)
    rows = centres[np.random.default_rng(4).integers(0, 50, 2000)] + 0.4 * unit(2000, DIMENSIONS, seed=5)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    fill(database, rows)
    hits = 0
    queries = centres[:20] + 0.2 * unit(20, DIMENSIONS, seed=6)
    for query in queries / np.linalg.norm(queries, axis=1, keepdims=True):
        wanted = set(nearest_of_all(rows, query)[:10])
        hits += len(wanted & {id_ for id_, _ in vectors.nearest(query, 128)})
    assert hits >= 0.9 * 200


def test_only_those_that_are_given_are_found(database, vectors):
    """Among some ids an index gives what the oracle gives, also of many pieces, of ids without a vector, and of none."""
    rows, query = unit(400, DIMENSIONS), unit(DIMENSIONS, seed=2)
    pieces = [(1 + n % 300, row) for n, row in enumerate(rows)]
    add(database, pieces)
    best: dict[int, float] = {}
    for id_, row in pieces:
        best[id_] = max(best.get(id_, -1.0), float(row @ query))
    among = [*range(3, 300, 7), 999, 2**40]
    wanted = sorted((id_ for id_ in among if id_ in best), key=lambda id_: -best[id_])
    found = vectors.nearest(query, 5, among)
    assert [id_ for id_, _ in found] == wanted[:5]
    assert [cosine for _, cosine in found] == pytest.approx([best[id_] for id_ in wanted[:5]], abs=5e-3)
    assert {id_ for id_, _ in vectors.nearest(query, 999, among)} == set(wanted)
    assert vectors.nearest(query, 5, []) == vectors.nearest(query, 5, [999]) == []
    assert vectors.nearest(query, 0, among) == vectors.nearest(unit(32), 5, among) == []


def test_a_removed_vector_is_gone(database, vectors):
    """What is removed is not found any more; ids that are not there do no harm."""
    rows = unit(5, DIMENSIONS)
    fill(database, rows)
    remove(database, [2, 99])
    assert sorted(id_ for id_, _ in vectors.nearest(rows[1], 9)) == [1, 3, 4, 5]
    assert vectors.cosines(rows[1], [2]) == {}
    assert estimates(vectors, rows[3], [2, 3]).keys() == {3}
    assert [id_ for id_, _ in vectors.nearest(rows[1], 5, [2, 3])] == [3]


def test_a_text_is_as_near_as_its_best_piece(database, vectors):
    """Pieces have one id: it is found once, with its best cosine, and goes as a whole."""
    rows = unit(60, DIMENSIONS)
    pieces = [(1, row) for row in rows[:40]] + [(id_, row) for id_, row in enumerate(rows[40:], start=2)]
    add(database, pieces)
    query = rows[7] + 0.1 * rows[50]
    query /= np.linalg.norm(query)
    found = dict(vectors.nearest(query, 12))
    assert len(found) == 12
    assert found[1] == pytest.approx(max(rows[:40] @ query), abs=0.05)
    assert vectors.cosines(query, [1, 2]) == pytest.approx({1: found[1], 2: rows[40] @ query}, abs=5e-3)
    add(database, [(1, rows[0])])
    assert vectors.cosines(query, [1]) == {1: pytest.approx(rows[0] @ query, abs=5e-3)}
    remove(database, [1])
    assert len(vectors.nearest(query, 60)) == 20


def test_vectors_that_move_are_found_on_the_other_side(database, vectors):
    """What does not hold any more has its vectors apart, as they were."""
    rows = unit(9, DIMENSIONS)
    fill(database, rows)
    assert vectors.nearest(rows[1], 9, past=True) == []

    def move(tx):
        note_removals(tx, [2])
        assert move_vectors(tx, 2, past=True)
        assert not move_vectors(tx, 99, past=True)

    database.write(move)
    assert 2 not in [id_ for id_, _ in vectors.nearest(rows[2], 9)]
    assert [id_ for id_, _ in vectors.nearest(rows[1], 9, past=True)] == [2]


def test_memory_follows_what_other_processes_write(database, monkeypatch):
    """Vectors that another process adds, replaces or removes are seen at the next question."""
    monkeypatch.setattr(vectors_module, "LEAST", 1)
    rows = unit(40, DIMENSIONS)
    mine = Vectors(database, DIMENSIONS)
    fill(database, rows[:20])
    assert mine.nearest(rows[3], 1)[0][0] == 4
    with Database(database.path, schema=SCHEMA, durable=False) as other:
        add(other, [(21, rows[20])])
        assert mine.nearest(rows[20], 1)[0][0] == 21
        add(other, [(4, rows[30])])
        assert mine.nearest(rows[30], 1)[0][0] == 4
        remove(other, [4])
        assert all(id_ != 4 for id_, _ in mine.nearest(rows[30], 40))
        remove(other, list(range(1, 30)))
        assert mine.nearest(rows[30], 5) == []
        add(other, [(1, rows[39]), (1, rows[38])])
        assert dict(mine.nearest(rows[39], 5)) == pytest.approx({1: 1.0}, abs=5e-3)
