"""The benchmark of early recall runs at a tiny size; how fast it is is not tested here."""

from __future__ import annotations

from pathlib import Path

from edgemem.bench import early
from edgemem.bench.early import utterances_in


def test_early_speaks_and_compares(tmp_path: Path, minilm: Path) -> None:
    """Both ways are timed, blocks are compared, and what each cost is counted."""
    figures = early.run(
        utterances=5, prepared=4, messages=40, words_s=100.0, embed_ms=0.0, end_ms=200.0, home=tmp_path
    )
    assert set(figures["bars"]) == {"ready_share", "equal_share"}
    assert figures["utterances"] == sum(figures["outcomes"].values()) == 5
    assert figures["side_by_side"]["embeddings_a_turn"]["whole"] >= 1
    assert figures["partials_a_turn"] > 1
    assert figures["handed_over_whole"]["plain"]["ready"] == 1
    assert list(tmp_path.iterdir()) == []


def test_recognisers_write_in_their_own_ways() -> None:
    """The last partial is what is heard at the end, but for marks that come late."""
    for form in ("written", "plain"):
        assert all(each.partials[-1] == each.text for each in utterances_in(form, 12))
    late = list(utterances_in("marked at the end", 12))
    assert all(each.text.endswith((".", "?", "!")) for each in late)
    assert not any(each.partials[-1].endswith((".", "?", "!")) for each in late)
