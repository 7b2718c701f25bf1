"""Packed vectors: found as by comparing all, whatever was added, wiped, filtered or cut into pieces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemem.recall.index.packed import (
    PackedVectors,
    count_ones,
    pack,
)

DIMENSIONS = 64
VECTORS = np.random.default_rng(1).standard_normal((40, DIMENSIONS)).astype(np.float32)
VECTORS /= np.linalg.norm(VECTORS, axis=1, keepdims=True)


def unit(*shape: int, seed: int = 1) -> np.ndarray:
    """Return random unit vectors."""
    found = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return found / np.linalg.norm(found, axis=-1, keepdims=True)


def alike(n: int, dimensions: int = 384, *, seed: int = 1) -> np.ndarray:
    """Return unit vectors between a few others, as texts about the same things have."""
    dice = np.random.default_rng(seed)
    centres = unit(200, dimensions, seed=99)
    one, other = dice.integers(0, 200, (2, n))
    share = dice.random((n, 1), np.float32)
    rows = share * centres[one] + (1 - share) * centres[other] + 0.4 * unit(n, dimensions, seed=seed + 1000)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def best_of_each(ids, rows, query, k, allowed=None):
    """Return what comparing all rows finds."""
    best: dict[int, float] = {}
    for place, (id_, row) in enumerate(zip(ids, rows, strict=True)):
        if allowed is None or allowed[place]:
            best[id_] = max(best.get(id_, -2.0), float(row @ query))
    return sorted(best.items(), key=lambda found: (-found[1], found[0]))[:k]


def exactly(ids, rows, query):
    """Return a function that gives exact cosines, as a file does."""
    return lambda some: {id_: c for id_, c in best_of_each(ids, rows, query, None) if id_ in set(some)}


changes = st.lists(
    st.one_of(
        # ids, and which vectors; the same id several times is a text in pieces
        st.tuples(
            st.just("add"),
            st.lists(st.tuples(st.integers(1, 25), st.integers(0, 39)), min_size=1, max_size=9),
        ),
        st.tuples(st.just("wipe"), st.lists(st.integers(1, 25), max_size=6)),
        st.tuples(
            st.just("wipe before"), st.lists(st.tuples(st.integers(1, 25), st.integers(0, 90)), max_size=6)
        ),
    ),
    max_size=14,
)


@settings(max_examples=150, deadline=None)
@given(
    changes=changes,
    k=st.integers(0, 30),
    seed=st.integers(0, 5),
    filtered=st.booleans(),
)
def test_what_is_found_is_what_comparing_all_finds(changes, k, seed, filtered):
    """After any additions and wipes, filtered or not, the same ids come in the same order."""
    packed, kept, tick = PackedVectors(DIMENSIONS), [], 0
    for what, those in changes:
        if what == "add":
            rows = [(id_, tick + n, v) for n, (id_, v) in enumerate(those)]
            tick += len(rows)
            ids, ticks, which = zip(*rows, strict=True)
            packed.append(ids, ticks, VECTORS[list(which)])
            kept += rows
        elif what == "wipe":
            gone = [row for row in kept if row[0] in those]
            assert packed.wipe(those) == len(gone)
            kept = [row for row in kept if row not in gone]
        else:
            latest = {id_: max(t for i, t in those if i == id_) for id_, _ in those}
            gone = [row for row in kept if row[1] < latest.get(row[0], -1)]
            assert packed.wipe([i for i, _ in those], before=[t for _, t in those]) == len(gone)
            kept = [row for row in kept if row not in gone]
    assert len(packed) == len(kept)
    assert sorted(packed.ids.tolist()) == sorted(row[0] for row in kept)

    query = unit(DIMENSIONS, seed=seed + 50)
    counts, allowed = None, None
    if filtered:
        some = [3, 4, 5, 17, 99]
        counts, allowed = [row[0] in some for row in kept], np.array(some)
    ids, rows = [row[0] for row in kept], VECTORS[[row[2] for row in kept]]
    if counts is not None:
        ids = [id_ for id_, counted in zip(ids, counts, strict=True) if counted]
        rows = rows[np.array(counts, bool)]
    found = packed.nearest(query, k, allowed, exactly(ids, rows, query))
    true = best_of_each(ids, rows, query, k)
    assert [id_ for id_, _ in found] == [id_ for id_, _ in true]
    assert dict(found) == pytest.approx(dict(true), abs=1e-6)
    estimated = dict(zip(*packed.cosines(query, sorted(set(ids))), strict=True))
    assert estimated.keys() == set(ids)
    everything = dict(best_of_each(ids, rows, query, None))
    assert all(abs(estimated[id_] - everything[id_]) < 0.35 for id_ in estimated)


def test_nearly_all_true_neighbours_are_found():
    """Of 20,000 vectors the ten nearest are found, also when few or most of them count, and their cosines are exact."""
    rows, queries = alike(20_000), alike(30, seed=2)
    labels = np.random.default_rng(3).integers(0, 10, len(rows))
    packed = PackedVectors(384)
    packed.append(np.arange(1, len(rows) + 1), np.arange(len(rows)), rows)
    filters = {
        "few": (labels == 4, np.flatnonzero(labels == 4) + 1),
        "most": (labels > 2, np.flatnonzero(labels > 2) + 1),
    }
    hits = dict.fromkeys(("all", *filters), 0)
    for query in queries:
        cosines = rows @ query
        exact = lambda ids, cosines=cosines: {id_: cosines[id_ - 1] for id_ in ids}  # noqa: E731
        found = packed.nearest(query, 10, exact=exact)
        assert dict(found) == pytest.approx({id_: cosines[id_ - 1] for id_, _ in found}, abs=1e-6)
        hits["all"] += len({id_ for id_, _ in found} & set((np.argsort(-cosines)[:10] + 1).tolist()))
        for name, (counts, allowed) in filters.items():
            among = np.where(counts, cosines, -2.0)
            found = packed.nearest(query, 10, allowed, exact)
            hits[name] += len({id_ for id_, _ in found} & set((np.argsort(-among)[:10] + 1).tolist()))
    assert min(hits.values()) >= 0.99 * 300


def test_only_the_doubtful_are_compared_exactly():
    """Out of 20,000 vectors fewer than a hundred are asked for exactly, and never more than is promised."""
    rows, query = alike(20_000), alike(1, seed=2)[0]
    packed = PackedVectors(384)
    packed.append(np.arange(1, len(rows) + 1), np.arange(len(rows)), rows)
    asked: list[int] = []

    def exact(ids):
        asked.extend(ids)
        return {id_: float(rows[id_ - 1] @ query) for id_ in ids}

    packed.nearest(query, 10, exact=exact)
    assert 10 <= len(asked) < 100
    same = PackedVectors(384)
    same.append(np.arange(1, 5001), np.arange(5000), np.tile(rows[:1], (5000, 1)))
    asked.clear()
    same.nearest(query, 10, exact=exact)
    assert len(asked) == 300


def test_estimates_arenear_enough():
    """Without the exact vectors, a cosine is off by .02 where one in six is further off."""
    rows, query = alike(5000), alike(1, seed=2)[0]
    packed = PackedVectors(384)
    packed.append(np.arange(1, 5001), np.arange(5000), rows)
    there, estimated = packed.cosines(query, np.arange(1, 5001))
    assert there.tolist() == list(range(1, 5001))
    off = np.abs(estimated - rows @ query)
    assert np.quantile(off, 0.8) < 0.025
    assert off.max() < 0.1


def test_what_is_gone_from_the_file_is_not_returned():
    """An id of which there is no exact cosine any more is left out, and so is what the file holds twice."""
    rows = VECTORS[:5]
    packed = PackedVectors(DIMENSIONS)
    packed.append([1, 2, 3, 4, 5], range(5), rows)
    query = VECTORS[1]
    gone = exactly([1, 3, 4, 5], rows[[0, 2, 3, 4]], query)
    assert [id_ for id_, _ in packed.nearest(query, 9, exact=gone)] == [
        id_ for id_, _ in best_of_each([1, 3, 4, 5], rows[[0, 2, 3, 4]], query, 9)
    ]
    assert packed.nearest(query, 9, exact=lambda ids: {}) == []


def test_many_pieces_of_one_text_hide_no_other():
    """A text whose two thousand pieces are all nearer than anything else takes one place of three."""
    query = unit(DIMENSIONS, seed=8)
    near = query + 0.2 * unit(2000, DIMENSIONS, seed=9)
    far = -query + 0.9 * unit(2000, DIMENSIONS, seed=10)
    packed = PackedVectors(DIMENSIONS)
    packed.append([7] * 2000, range(2000), near / np.linalg.norm(near, axis=1, keepdims=True))
    packed.append(range(100, 2100), range(2000, 4000), far / np.linalg.norm(far, axis=1, keepdims=True))
    found = packed.nearest(query, 3)
    assert found[0][0] == 7
    assert len({id_ for id_, _ in found}) == 3


def test_wiping_leaves_no_trace():
    """After a wipe neither the id, the tick nor a bit of the vector is in any array, nor in one that was outgrown."""
    packed = PackedVectors(DIMENSIONS)
    rows = unit(1500, DIMENSIONS, seed=3)
    packed.append(range(1, 1001), range(2001, 3001), rows[:1000])
    outgrown = dict(packed.columns)
    packed.append(range(1001, 1501), range(3001, 3501), rows[1000:])
    assert not any(column.any() for column in outgrown.values())
    assert packed.wipe([5, 700, 1500]) == 3
    signs, steps, _ = pack(rows)
    for id_ in (5, 700, 1500):
        assert id_ not in packed.columns["ids"]
        assert 2000 + id_ not in packed.columns["seqs"]
        assert signs[id_ - 1, 0] not in packed.columns["signs"]
        assert steps[id_ - 1, 0] not in packed.columns["steps"]
    assert not any(column[len(packed) :].any() for column in packed.columns.values())
    assert [packed.nearest(rows[n - 1], 1)[0][0] for n in (1, 6, 1499)] == [1, 6, 1499]
    assert packed.wipe(range(1, 1501)) == 1497
    assert (len(packed), packed.nbytes) == (0, 0)
    assert packed.nearest(VECTORS[0], 5) == []
    assert not any(column.any() for column in packed.columns.values())


def test_a_vector_takes_114_bytes():
    """All that is kept of 384 dimensions fits in 114 bytes, however many there are."""
    for n in (100, 2000):
        packed = PackedVectors(384)
        packed.append(np.arange(n), np.arange(n), unit(n, 384))
        assert packed.nbytes == 114 * n


def test_vectors_that_are_none_do_no_harm():
    """Zeros, infinities and what is no number are never better than a vector, and stop nothing."""
    bad = np.zeros((4, DIMENSIONS), np.float32)
    bad[1], bad[2], bad[3, 0] = np.nan, np.inf, 1e30
    packed = PackedVectors(DIMENSIONS)
    packed.append([1, 2, 3, 4], range(4), bad)
    packed.append([9], [9], VECTORS[:1])
    assert packed.nearest(VECTORS[0], 1)[0][0] == 9
    assert len(packed.nearest(VECTORS[0], 5)) == 5


def test_bits_are_counted_alike_without_the_instruction(monkeypatch):
    """Where numpy counts no bits (before 2.0), adding them gives the same."""
    words = np.random.default_rng(5).integers(0, 2**63, (3, 500), np.uint64) * np.uint64(2)
    words[0, :3] = 0, 2**64 - 1, 1
    true = [[word.bit_count() for word in row] for row in words.tolist()]
    assert count_ones(words).tolist() == true
    monkeypatch.setattr(np, "__version__", "1.26.4")
    assert count_ones(words).dtype == np.uint8
    assert count_ones(words).tolist() == true
