"""`bench vectors` runs at its smallest size and says what it promises; its ground truth is true."""

from __future__ import annotations

import numpy as np
import pytest

from edgemem.errors import InvalidInputError
from lab import vectors
from lab.vectors import K, Nearest


def test_it_reports_each_kind_of_index(tmp_path) -> None:
    """Time, what is found and memory stand beside those of sqlite-vec, and nothing is left on the disk."""
    figures = vectors.run(size=5000, questions=4, sentences=30, home=tmp_path)
    assert (figures["bench"], figures["ok"]) == ("vectors", True)
    assert figures["machine"]["calibration_ms"] > 0
    found = {name: column["5000"] for name, column in figures["side_by_side"].items()}
    for way in ("", "_filtered", "_vec0", "_vec0_filtered"):
        assert found[f"ms{way}"] > 0
        assert 0 < found[f"recall{way}"] <= 1
    assert found["recall_vec0"] == found["recall_vec0_filtered"] == 1
    assert min(found["recall"], found["recall_filtered"]) > 0.9
    assert found["bytes_a_vector"] == 114
    assert found["of_vec0"] == pytest.approx(found["ms"] / found["ms_vec0"], abs=1e-3)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InvalidInputError, match="256"):
        vectors.run(size=255)


def test_the_truth_is_what_comparing_all_at_once_gives() -> None:
    """However the vectors come in parts, the true neighbours are those of all."""
    rows = np.random.default_rng(1).standard_normal((504, 384)).astype(np.float32)
    rows, asked = rows[:500], rows[500:]
    true = Nearest(asked)
    for begin in range(0, 500, 7):
        true.see(np.arange(begin, min(begin + 7, 500)), rows[begin : begin + 7])
    assert true.ids.tolist() == np.argsort(-(asked @ rows.T), axis=1)[:, :K].tolist()
