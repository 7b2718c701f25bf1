"""Segments: full text stays in few pieces, and finds the same before, while and after they are merged."""

from __future__ import annotations

import pytest

from edgemem.recall import segments
from edgemem.recall.docs import add_docs
from edgemem.recall.index import Index
from edgemem.recall.lexical import count_docs
from edgemem.recall.segments import merge_due
from edgemem.recall.sources import EPISODE, Doc
from edgemem.recall.state import State
from edgemem.store.database import Database


@pytest.fixture
def index(tmp_path, monkeypatch):
    """Return an index whose full text came in many small pieces."""
    monkeypatch.setattr(segments, "LEAST", 100)
    monkeypatch.setattr(segments, "_PAGES", 1)
    with Database(tmp_path / "memory.db") as truth, Index(tmp_path / "index.db", truth) as index:
        for n in range(150):
            doc = Doc(EPISODE, n + 1, f"cup number {n} and w{n * 7919} " + f"filler{n} " * 40, 0, None, None)
            index.database.write(lambda tx, doc=doc: add_docs(tx, [doc]))
        yield index


def pieces(index):
    """Return in how many segments the words stand."""
    return len({row[0] for row in index.database.query("select segid from words_idx")})


def test_words_are_merged_piece_by_piece(index):
    """In steps that can be interrupted the segments become one, and what is found stays the same throughout."""
    before = pieces(index)
    assert before > 3
    steps = 0
    while index.merge_words():
        steps += 1
        assert count_docs(index.database, ["cup", "w7919"]) == {"cup": 150, "w7919": 1}
    assert steps > 1
    assert pieces(index) == 1
    index.database.write(lambda tx: tx.execute("insert into words (words) values ('integrity-check')"))


def test_merging_waits_until_it_pays(index):
    """Once merged, nothing is rewritten until there are half as many texts again."""
    while index.merge_words():
        pass
    state = index.state()
    assert (state.merged, state.merging) == (150, 0)
    assert not merge_due(state)
    assert not merge_due(State(docs=224, merged=150))
    assert merge_due(State(docs=225, merged=150))
    assert not merge_due(State(docs=99))


def test_whoever_speaks_is_not_kept_waiting(index):
    """While somebody speaks nothing is merged."""
    assert not index.merge_words(stop=lambda: True)
    assert index.state().merging == 0
