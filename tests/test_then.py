"""Then: a question that names a time gets the version of a fact that held at that time."""

from __future__ import annotations

import math
from datetime import datetime

import pytest
from hash_embedder import HashEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st
from test_recall import Robot

from edgemem.clock import Clock
from edgemem.recall.then import past_times, share_of
from edgemem.records import Reader
from edgemem.store.beliefs import WITHIN, held_within, keys_of
from edgemem.store.memory_store import SQLiteMemoryStore


def at(text: str) -> float:
    """Return a moment of the local calendar, given as 2026-03-14."""
    return datetime.strptime(text, "%Y-%m-%d").astimezone().timestamp()


NOW = at("2026-11-20")


@pytest.fixture(params=["words", "meaning"])
def robot(request, tmp_path):
    """Return a robot that knows three codes of a door, one after the other, and where Ann lived."""
    clock = Clock(wall=lambda: NOW, monotonic=lambda: 1.0)
    made = Robot(tmp_path, clock, HashEmbedder() if request.param == "meaning" else None)
    for code, since in (("1111", "2025-01-01"), ("2222", "2026-02-10"), ("3333", "2026-06-05")):
        made.store.add_fact("door.code", code, scope="household", valid_from=at(since))
    for town, since in (("Trieste", "2024-05-01"), ("Lisbon", "2026-04-20"), ("Oslo", "2026-09-10")):
        made.store.add_fact("ann.home_town", town, scope="household", valid_from=at(since))
    made.store.add_fact("window.code", "9999", scope="household", valid_from=at("2026-10-01"))
    yield made
    made.close()


@pytest.fixture(params=["at once", "indexed"])
def settled(request, robot):
    """Have the index seen it, or not."""
    if request.param == "indexed":
        robot.idle()
        robot.index.warm()
    return robot


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("What was the door code in March?", "2222"),
        ("door code on 3 January 2026", "1111"),
        ("What was the door code last summer?", "3333"),
        ("the door code in April 2025, please", "1111"),
        ("What was the door code before March?", "2222"),
        ("What was the door code before February?", "1111"),
        ("What was the door code between January and May 2025?", "1111"),
        ("Wie war der door code im März?", "2222"),
        ("¿Cuál era el door code en marzo?", "2222"),
        ("door code vào tháng 3 là gì?", "2222"),
        ("三月的 door code 是什么?", "2222"),
        ("What was the door code in June?", "3333"),  # from the 5th on
        ("What is the door code?", "3333"),
        ("What is the door code today?", "3333"),
        ("What is the door code next March?", "3333"),
    ],
)
def test_the_date_of_a_question_chooses_the_version(settled, query, code):
    """In five languages; what is said of today or of what comes asks for what holds now."""
    first = settled.recall(query, reader=Reader("ann"), kinds={"fact"})[0]
    assert (first.key, first.value) == ("door.code", code)
    assert first.past == (code != "3333")


def test_where_somebody_lived(settled):
    """A season is a time as well; behind it comes what holds now, and nothing that neither holds nor held then."""
    found = settled.recall("Where was the home town of Ann last summer?", kinds={"fact"})
    assert [item.value for item in found if item.key == "ann.home_town"] == ["Lisbon", "Oslo"]


def test_who_asks_for_the_past_in_words_still_finds_other_versions(settled):
    """The date chooses what comes first; "old" asks for all that was."""
    found = settled.recall("What was the old door code in March?", kinds={"fact"}, k=9)
    values = [item.value for item in found if item.key == "door.code"]
    assert values[0] == "2222"
    assert "1111" in values


def test_what_was_told_later_is_found_all_the_same(settled):
    """A fact of which no version held then keeps its place: it may speak of that time."""
    found = settled.recall("What was the window code in March?", kinds={"fact"})
    assert found[0].value == "9999"


def test_an_explicit_moment_is_stronger(settled):
    """`valid_at` says what counts, whatever the question says."""
    found = settled.recall("What was the door code in March?", valid_at=at("2025-05-01"), kinds={"fact"})
    assert [item.value for item in found if item.key == "door.code"] == ["1111"]
    found = settled.recall("What was the door code in March?", include_past=False, kinds={"fact"})
    assert [item.value for item in found if item.key == "door.code"] == ["3333"]


def test_it_tells_nobody_of_what_is_private(settled):
    """A version that somebody may not read is neither chosen nor does it push another out."""
    settled.store.add_fact(
        "door.code", "7777", scope="user:bob", valid_from=at("2026-03-01"), level="private", owner="bob"
    )
    found = settled.recall("What was the door code in March?", reader=Reader("ann"), kinds={"fact"})
    assert found[0].value == "2222"
    assert "7777" not in [item.value for item in found]


@given(st.text(max_size=200))
def test_any_text_has_times_that_are_over_or_none(text):
    """Whatever is asked, every time lies before now."""
    assert all(begin < end <= NOW for begin, end in past_times(text, NOW))


moments = st.floats(0, 100)
intervals = st.lists(st.tuples(moments, moments).map(sorted).map(tuple), min_size=1, max_size=3)


@given(intervals, intervals)
def test_a_share_is_between_nothing_and_all(held, times):
    """What holds always holds in all of a time, what never does in none of it."""
    assert 0 <= share_of(held, times) <= 1
    assert share_of([], times) == 0
    if any(end > begin for begin, end in times):
        assert share_of([(0, 100)], times) == pytest.approx(1)


said = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 30), st.integers(1, 20)), min_size=1, max_size=12
)


@settings(max_examples=100, deadline=None)
@given(said, st.integers(-1, 14), st.integers(1, 5))
def test_what_held_within_a_time_is_what_of_all_meets_it(tmp_path_factory, said, begin, length):
    """However versions were told, with ends and corrections of the past, those are read that hold at some moment of it."""
    with SQLiteMemoryStore(tmp_path_factory.mktemp("then") / "memory.db") as store:
        for n, (key, since, for_) in enumerate(said):
            store.add_fact(
                key, str(n), valid_from=float(since), valid_to=None if for_ % 2 else float(since + for_)
            )
        database, end = store.database, begin + length
        origins = [row[0] for row in database.query("select id from facts where id = origin")]
        keys = keys_of(database, origins)
        assert set(keys) == set(origins)
        everything = database.query("select origin, valid_from, valid_to from facts where known_to is null")
        naive = [
            (origin, since, math.inf if to is None else to)
            for origin, since, to in everything
            if since < end and (to is None or to > begin)
        ]
        assert sorted(held_within(database, set(keys.values()), begin, end)) == sorted(naive)


def test_other_times_of_a_key_are_not_read(settled):
    """A code that changed a thousand times costs no more than one that changed twice."""
    sql = WITHIN.format("?, ?")
    plan = [
        row[3] for row in settled.store.database.query(f"explain query plan {sql}", (1, 2, 9.0, 3.0, 3.0))
    ]
    assert [step for step in plan if " f " in step] == [
        "SEARCH f USING INDEX facts_believed (key_id=? AND valid_from>? AND valid_from<?)"
    ]
    assert not any(step.startswith("SCAN") for step in plan)
