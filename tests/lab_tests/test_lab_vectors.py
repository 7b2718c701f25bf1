"""`bench vectors` runs at its smallest size and says what it promises; its ground truth is true."""

from __future__ import annotations

import numpy as np

from lab.vectors import K, Nearest


def test_the_truth_is_what_comparing_all_at_once_gives() -> None:
    """However the vectors come in parts, the true neighbours are those of all."""
    rows = np.random.default_rng(1).standard_normal((504, 384)).astype(np.float32)
    rows, asked = rows[:500], rows[500:]
    true = Nearest(asked)
    for begin in range(0, 500, 7):
        true.see(np.arange(begin, min(begin + 7, 500)), rows[begin : begin + 7])
    assert true.ids.tolist() == np.argsort(-(asked @ rows.T), axis=1)[:, :K].tolist()
