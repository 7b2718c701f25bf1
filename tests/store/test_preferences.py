"""Preferences: lasting wishes, recalled like facts."""

from __future__ import annotations

import edgemem


def texts(memory, query, speaker):
    return [r.text for r in memory.recall(query, speaker=speaker) if r.kind == "preference"]


def test_a_preference_is_recalled_before_and_after_it_is_indexed(tmp_path):
    """With its newest value only, at once, and by words and meaning later, by whoever may read it."""
    with edgemem.open(tmp_path, worker=False) as memory:
        memory.store.set_preference("wake.time", "half past six", scope="user:alice")
        for value in ("metric", "imperial"):
            memory.store.set_preference("units", value)
            for _ in range(2):
                assert texts(memory, "which units do we use?", "bob") == [f"units: {value}"]
                assert texts(memory, "when is the wake time?", "alice")[0] == "wake time: half past six"
                assert "wake time: half past six" not in texts(memory, "when is the wake time?", "bob")
                memory.idle(seconds=30)
        assert "units: metric" not in texts(memory, "metric", "bob")
