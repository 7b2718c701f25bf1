"""`bench vectors` runs at its smallest size and says what it promises; its ground truth is true."""

from __future__ import annotations

import numpy as np
import pytest

from edgemem.bench import vectors
from edgemem.bench.vectors import K, Nearest
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
    for way in ("", "_filtered", "_estimated", "_vec0", "_vec0_filtered"):
        assert found[f"ms{way}"] > 0
        assert 0 < found[f"recall{way}"] <= 1
    assert found["recall_vec0"] == found["recall_vec0_filtered"] == 1
    assert min(found["recall"], found["recall_filtered"]) > 0.9
    assert found["bytes_a_vector"] == 114
    assert found["of_vec0"] == pytest.approx(found["ms"] / found["ms_vec0"], abs=1e-3)
    assert min(found["ms_cold"], found["ms_vec0_cold"], found["peak_rss_mb"], found["build_s"]) > 0
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InvalidInputError, match="256"):
        vectors.run(size=255)


def test_bars_are_those_of_the_sizes_that_promise() -> None:
    """A million vectors promise memory and recall, a hundred thousand also time, ten thousand nothing."""
    limits = {
        "recall": (0.991, 0.94), "recall_filtered": (0.991, 0.94), "bytes_a_vector": (150, 151),
        "filtered_of_unfiltered": (1.0, 1.1), "of_vec0": (0.066, 0.067), "of_vec0_filtered": (0.066, 0.067),
        "peak_rss_mb": (1000, 1001),
    }  # fmt: skip
    good, worse = ({name: pair[i] for name, pair in limits.items()} for i in (0, 1))
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


def test_the_truth_is_what_comparing_all_at_once_gives() -> None:
    """However the vectors come in parts, the true neighbours are those of all."""
    rows, asked = bases(500), bases(504)[500:]
    true = Nearest(asked)
    for begin in range(0, 500, 7):
        true.see(np.arange(begin, min(begin + 7, 500)), rows[begin : begin + 7])
    assert true.ids.tolist() == np.argsort(-(asked @ rows.T), axis=1)[:, :K].tolist()
