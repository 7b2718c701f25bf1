"""`bench vectors` runs at its smallest size and says what it promises; its ground truth is true."""

from __future__ import annotations

import numpy as np
import pytest

from edgemem.bench import vectors
from edgemem.bench.vectors import NOISE, K, Nearest, between
from edgemem.errors import InvalidInputError


def bases(n: int = 20) -> np.ndarray:
    """Return unit vectors to lie between."""
    rows = np.random.default_rng(1).standard_normal((n, 384)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_it_reports_each_kind_of_index(tmp_path) -> None:
    """Time, what is found and memory stand beside those of sqlite-vec, and nothing is left on the disk."""
    figures = vectors.run(size=5000, questions=4, sentences=30, home=tmp_path)
    assert figures["bench"] == "vectors"
    assert figures["ok"]
    assert figures["machine"]["calibration_ms"] > 0
    found = {name: column["5000"] for name, column in figures["side_by_side"].items()}
    for way in ("", "_filtered", "_estimated", "_vec0", "_vec0_filtered", "_vec0_bits"):
        assert found[f"ms{way}"] > 0
        assert 0 < found[f"recall{way}"] <= 1
    assert found["recall_vec0"] == found["recall_vec0_filtered"] == 1
    assert min(found["recall"], found["recall_filtered"]) > 0.9
    assert found["bytes_a_vector"] == 114
    assert found["of_vec0"] == pytest.approx(found["ms"] / found["ms_vec0"], abs=1e-3)
    assert min(found["ms_cold"], found["ms_vec0_cold"], found["peak_rss_mb"], found["build_s"]) > 0
    assert list(tmp_path.iterdir()) == []


def test_fewer_vectors_than_memory_is_used_for_are_refused() -> None:
    """Below the size where memory answers, there would be nothing to measure."""
    for size in (1, 255, -1):
        with pytest.raises(InvalidInputError, match="256"):
            vectors.run(size=size)


def test_bars_are_those_of_the_sizes_that_promise() -> None:
    """A million vectors promise memory and recall, a hundred thousand also time, ten thousand nothing."""
    good = {
        "recall": 0.991,
        "recall_filtered": 0.991,
        "bytes_a_vector": 150,
        "filtered_of_unfiltered": 1.0,
        "of_vec0": 0.066,
        "of_vec0_filtered": 0.066,
        "peak_rss_mb": 1000,
    }
    worse = {
        "recall": 0.94,
        "recall_filtered": 0.94,
        "bytes_a_vector": 151,
        "filtered_of_unfiltered": 1.1,
        "of_vec0": 0.067,
        "of_vec0_filtered": 0.067,
        "peak_rss_mb": 1001,
    }
    of_all = {"recall", "recall_filtered", "bytes_a_vector", "filtered_of_unfiltered"}
    for n, names in (
        (10_000, set()),
        (100_000, of_all | {"of_vec0", "of_vec0_filtered"}),
        (1_000_000, of_all | {"peak_rss_mb"}),
    ):
        bars = vectors.bars_of(n, good)
        assert set(bars) == {f"{name}_{n}" for name in names}
        assert all(bar.ok for bar in bars.values())
        assert not any(bar.ok for bar in vectors.bars_of(n, worse).values())


def test_vectors_are_made_from_a_seed_near_real_ones() -> None:
    """The same seed gives the same vectors, of length one, that lie at the promised distance from real ones."""
    twice = [
        [np.concatenate(parts) for parts in zip(*between(bases(), 12_000, seed=3), strict=True)] for _ in "12"
    ]
    (rows, scopes), again = twice
    assert rows.shape == (12_000, 384)
    assert all((one == other).all() for one, other in zip(twice[0], again, strict=True))
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert np.abs(np.bincount(scopes) - 1200).max() < 200
    assert not (rows[:10] == next(between(bases(), 10, seed=4))[0]).any()
    # what noise leaves of a vector that is a base itself, and what lies half way between two
    nearest = (rows @ bases().T).max(axis=1)
    full = 1 / (1 + NOISE**2) ** 0.5
    assert nearest.max() == pytest.approx(full, abs=0.04)
    assert nearest.min() == pytest.approx(full * 0.5**0.5, abs=0.15)


def test_the_truth_is_what_comparing_all_at_once_gives() -> None:
    """However the vectors come in parts, the true neighbours are those of all."""
    rows, asked = bases(500), bases(504)[500:]
    true = Nearest(asked)
    for begin in range(0, 500, 7):
        true.see(np.arange(begin, min(begin + 7, 500)), rows[begin : begin + 7])
    assert true.ids.tolist() == np.argsort(-(asked @ rows.T), axis=1)[:, :K].tolist()


def test_a_forgotten_page_is_read_again(tmp_path) -> None:
    """Dropping the pages of a file changes nothing in it."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10_000)
    vectors.forget_pages(path)
    assert path.read_bytes() == b"x" * 10_000
    assert vectors.rss_mb("VmHWM") >= vectors.rss_mb("VmRSS") * 0.99 > 1
