"""Annotations: what a text shows at a glance."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.recall.index.docs import (
    COUNTS,
    MOST_TIMES,
    NAMES,
    SAYS_I,
    annotate,
)
from edgemem.recall.text.phrases import zone_at

NOW = datetime(2026, 3, 18, 12, 0, tzinfo=timezone.utc).timestamp()  # a Wednesday


@pytest.mark.parametrize("at", [0.0, -1e18, 1e18, 1e308, float("inf"), float("nan"), 2**53])
def test_a_clock_that_is_wrong_does_no_harm(at):
    """No moment is too strange: there is a zone for it, and no time is noted that no calendar knows."""
    assert zone_at(at).utcoffset(None) is not None
    annotations = annotate("I saw Ann yesterday at 5", at)
    assert annotations.flags == SAYS_I | COUNTS | NAMES
    assert len(annotations.times) <= MOST_TIMES


hostile = st.one_of(
    st.text(max_size=300),
    st.lists(
        st.sampled_from(
            ["hey ", "Ann", "a'", ", ", ".", "  ", "\n", "?", "yes, ", "Mr. ", "3", "？", "\x00"]
        ),
        max_size=200,
    ).map("".join),
)


@given(hostile, st.floats(0, 4e9))
def test_any_text_has_traits_that_fit_the_file(text, at):
    """Whatever is said, flags fit one byte, who is called has no signs but spaces, and times are numbers in order."""
    annotations = annotate(text, at)
    assert 0 <= annotations.flags < 256
    assert annotations.called.split(" ") == annotations.called.split() or annotations.called == ""
    for begin, end, sure in annotations.times:
        assert begin <= end
        assert 0 < sure <= 1


@pytest.mark.parametrize(
    "piece", ["hey ", "a'", "Ann ", ", ", ",  ", "Mr. ", "a.", "A b, ", "yes ", "\n", "’"]
)
def test_endless_text_is_read_once(piece):
    """No pattern reads the same letters over and over: what is 100 kB long is done at once, or the test never ends."""
    assert annotate(piece * 100_000, NOW).flags < 256
