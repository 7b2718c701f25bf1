"""What the search for words promises."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemem.clock import Clock
from edgemem.recall.index.index import Index
from edgemem.recall.query import parse_query
from edgemem.recall.search.search import Limits, Search
from edgemem.recall.search.tail import Tail
from edgemem.recall.search.view import Filter
from edgemem.records import Heard, Reader, StoredMessage, Turn
from edgemem.store import turns
from edgemem.store.db.database import Database

WORDS = ("cup", "mug", "kettle", "peanut", "doctor", "physician", "friday", "garden", "pepper")


said = st.lists(
    st.tuples(
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join),
        st.sampled_from(("shared", "household", "private")),
        st.sampled_from(("ann", "bob")),
    ),
    min_size=1,
    max_size=12,
)


def fill(truth: Database, talk, first: int = 0) -> None:
    """Have everything said, all in one session."""

    def work(tx) -> None:
        for n, (text, level, owner) in enumerate(talk, first):
            turn = Turn(
                "s", n, (StoredMessage("user", text),), heard=Heard(speaker=owner), level=level, owner=owner
            )
            turns.commit_turn(tx, turn)

    truth.write(work)


def scored(index: Index, truth: Database, reader: Reader | None, query: str):
    """Return of each text what its words are worth, alone and with its neighbours, and how much is known."""
    tail = Tail(truth, index, None)
    state = index.state()
    tail.refresh(state)
    only = Filter(reader, kinds={"turn"})
    search = Search(index, state, None, only, Limits(), now=1.77e9)
    _, view = search.look_up_words(parse_query(query, 1.77e9), tail, names={}, reader=None)
    refs = view.columns.rows["ref"]
    return view.known, {
        int(refs[slot]): (float(view.words[slot]), float(view.window[slot]))
        for slot in np.flatnonzero(view.window[: view.n])
    }


@settings(max_examples=15, deadline=None)
@given(said, st.sampled_from(WORDS), st.sampled_from(WORDS))
def test_what_is_private_leaves_no_trace_in_a_score(tmp_path_factory, talk, one, other):
    """Whatever ann said in private, and however often, bob's scores are the same."""
    found = []
    for secret in (one, other):
        folder = tmp_path_factory.mktemp("private")
        with (
            Database(folder / "memory.db", clock=Clock(wall=lambda: 1.77e9, monotonic=lambda: 1.0)) as truth,
            Index(folder / "index.db", truth) as index,
        ):
            fill(truth, [*talk, *[(f"{secret} {secret}", "private", "ann")] * 5])
            while index.catch_up():
                pass
            known, scores = scored(index, truth, Reader("bob"), " ".join(WORDS))
            found.append((known, sorted(scores.values())))
    assert found[0] == found[1]
