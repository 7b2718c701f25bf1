"""Packed vectors: found as by comparing all, whatever was added, wiped, filtered or cut into pieces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemem.recall.index.packed import PackedVectors, count_ones, pack

DIMENSIONS = 64
VECTORS = np.random.default_rng(1).standard_normal((40, DIMENSIONS)).astype(np.float32)
VECTORS /= np.linalg.norm(VECTORS, axis=1, keepdims=True)
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


def unit(*shape: int, seed: int = 1) -> np.ndarray:
    found = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return found / np.linalg.norm(found, axis=-1, keepdims=True)


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


@settings(max_examples=60, deadline=None)
@given(changes=changes, k=st.integers(0, 30), seed=st.integers(0, 5), filtered=st.booleans())
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


def test_bits_are_counted_alike_without_the_instruction(monkeypatch):
    """Where numpy counts no bits (before 2.0), adding them gives the same."""
    words = np.random.default_rng(5).integers(0, 2**63, (3, 500), np.uint64) * np.uint64(2)
    words[0, :3] = 0, 2**64 - 1, 1
    true = [[word.bit_count() for word in row] for row in words.tolist()]
    assert count_ones(words).tolist() == true
    monkeypatch.setattr(np, "__version__", "1.26.4")
    assert count_ones(words).dtype == np.uint8
    assert count_ones(words).tolist() == true
