"""When: what held and what was known at other times, out of the same recall."""

from __future__ import annotations

import math
import os

import pytest
from hash_embedder import HashEmbedder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naive_facts import Assertion, NaiveFacts
from test_forgotten_values import Listener
from test_recall import ALICE, BOB, STRANGER, Robot

import edgemem
from edgemem.clock import Clock
from edgemem.errors import InvalidInputError
from edgemem.records import Epoch, Reader
from edgemem.store import epochs, facts
from edgemem.toolbox import ToolTurn

HOUR = 3600.0
BIRTH = -2e8
"""A moment before 1970."""


@pytest.fixture(params=["words", "meaning"])
def robot(request, tmp_path, clock):
    """Return a robot with vectors and one without."""
    made = Robot(tmp_path, clock, HashEmbedder() if request.param == "meaning" else None)
    yield made
    made.close()


@pytest.fixture(params=["at once", "indexed"])
def settled(request, robot):
    """Return a function to call after writing: the index may have seen it or not."""
    return (lambda: None) if request.param == "at once" else robot.idle


def values(found) -> set[str]:
    """Return what facts say."""
    return {item.value for item in found if item.kind == "fact"}


def test_facts_hold_as_they_did_then(robot, settled, hand):
    """`valid_at` gives the value of that time, marked as past, and not the one of now."""
    begin = hand.wall
    robot.store.add_fact("mara.drink", "tea")
    hand.advance(HOUR)
    robot.store.add_fact("mara.drink", "coffee")
    hand.advance(HOUR)
    settled()
    assert values(robot.recall("drink", valid_at=begin - 1)) == set()
    (then,) = robot.recall("drink", valid_at=begin + 60)
    assert (then.value, then.past, then.valid_to) == ("tea", True, pytest.approx(begin + HOUR, abs=1))
    assert then.text.startswith("mara drink: tea (until ")
    (now,) = robot.recall("drink", valid_at=hand.wall)
    assert (now.value, now.past, now.text) == ("coffee", False, "mara drink: coffee")


def test_a_fact_may_have_held_before_1970(robot, settled):
    """Valid time reaches back further than any memory."""
    robot.store.add_fact("oma.town", "Triest", valid_from=BIRTH)
    settled()
    assert values(robot.recall("town", valid_at=BIRTH + 1)) == {"Triest"}
    assert values(robot.recall("town", valid_at=BIRTH - 1)) == set()


def test_what_was_believed_then_is_not_what_is_known_now(robot, settled, hand):
    """`known_at` takes back what was learnt later, about the same time."""
    begin = hand.wall
    robot.store.add_fact("trip.day", "monday")
    hand.advance(HOUR)
    robot.store.add_fact("trip.day", "sunday", valid_from=begin)
    hand.advance(HOUR)
    settled()
    assert values(robot.recall("trip", valid_at=begin + 60)) == {"sunday"}
    assert values(robot.recall("trip", valid_at=begin + 60, known_at=begin + 60)) == {"monday"}
    assert values(robot.recall("trip", known_at=begin + 60)) == {"monday"}
    assert values(robot.recall("trip", valid_at=hand.wall, known_at=begin - 60)) == set()


def test_what_was_said_later_is_not_known_yet(robot, settled, hand):
    """Of turns, episodes, preferences and notes only those count that had come by `known_at`; `valid_at` leaves them all."""
    begin = hand.wall
    robot.say(0, "the ladder leans in the garage", "noted")
    robot.store.add_episode("tool_call", {"name": "ladder_finder", "args": {}}, "ok")
    robot.store.set_preference("ladder.colour", "green")
    robot.notes.append("ladder to be painted")
    os.utime(robot.notes.path, (begin, begin))
    hand.advance(HOUR)
    robot.say(1, "the ladder stands on the balcony", "noted")
    robot.store.add_episode("tool_call", {"name": "ladder_mover", "args": {}}, "ok")
    robot.store.set_preference("ladder.height", "low")
    settled()
    early = robot.recall("ladder", known_at=begin + 60, k=20)
    assert {item.text for item in early if "ladder" in item.text} == {
        "the ladder leans in the garage",
        "ladder finder",
        "ladder colour: green",
        "ladder to be painted",
    }
    later = robot.recall("ladder", valid_at=begin - HOUR, k=20)
    assert len([item for item in later if "ladder" in item.text]) == 7


def test_many_versions_never_hide_the_one_that_held(robot, hand):
    """Among three hundred values of one key, with the same words but one, the one of that hour is found, alone."""
    begin = hand.wall
    for n in range(300):
        robot.store.add_fact("hall.heating", f"{n} degrees")
        hand.advance(HOUR)
    robot.idle()
    for n in (0, 7, 150, 299):
        (found,) = robot.recall("hall heating degrees", valid_at=begin + n * HOUR + 60)
        assert found.value == f"{n} degrees"


def test_nor_from_those_who_ask_in_other_words(tmp_path, clock, hand):
    """By meaning alone, too: what did not hold then takes no place among what is near."""
    robot = Robot(tmp_path, clock, HashEmbedder(means={"radiat": "heat", "warm": "heat"}))
    begin = hand.wall
    for n in range(300):
        robot.store.add_fact("hall.heating", f"step {n}")
        hand.advance(HOUR)
    robot.idle()
    for n in (0, 150):
        (found,) = robot.recall("warm radiator", valid_at=begin + n * HOUR + 60)
        assert (found.value, found.why[0]) == (f"step {n}", "meaning")
    robot.close()


@pytest.mark.parametrize(
    "moment", [math.nan, math.inf, -math.inf, "yesterday", "2026", b"1", True, [], 10**400]
)
@pytest.mark.parametrize("which", ["valid_at", "known_at"])
def test_a_time_that_is_none_is_refused(robot, which, moment):
    """What is no number of seconds is answered by one sentence that says what to give."""
    with pytest.raises(
        InvalidInputError, match=f"^{which} must be seconds since the epoch, not .*timestamp"
    ) as told:
        robot.recall("milk", **{which: moment})
    assert "\n" not in str(told.value)


def test_before_1970_nothing_was_known(robot):
    """A negative `known_at` is a mistake, and is told so."""
    with pytest.raises(InvalidInputError, match=r"^known_at must be a moment since 1970, not -5: "):
        robot.recall("milk", known_at=-5)
    assert robot.recall("milk", known_at=0, valid_at=1e300) == []


def test_the_past_of_others_stays_theirs(robot, settled, hand):
    """What was private then is private now, in both times."""
    begin = hand.wall
    robot.store.add_fact("pin", "1234", scope="user:alice")
    robot.store.add_fact("door", "4711", scope="household")
    hand.advance(HOUR)
    robot.store.add_fact("pin", "9999", scope="user:alice")
    robot.store.add_fact("door", "0815", scope="household")
    settled()
    for times in ({"valid_at": begin + 60}, {"known_at": begin + 60}, {"include_past": True}):
        for question, value in (("pin 1234", "1234"), ("door 4711", "4711")):
            assert value in values(robot.recall(question, reader=ALICE, k=9, **times))
            assert values(robot.recall(question, reader=BOB, k=9, **times)).isdisjoint({"1234", "9999"})
            assert robot.recall(question, reader=STRANGER, k=9, **times) == []


def test_a_change_is_as_private_as_what_it_changed_to(robot, settled, hand):
    """Whoever may not read the new value is not told that there is one, nor since when."""
    begin = hand.wall
    robot.store.add_fact("gift", "book", scope="household")
    hand.advance(HOUR)
    robot.truth.write(
        lambda tx: facts.assert_fact(tx, "gift", "ring", scope="household", level="private", owner="alice")
    )
    hand.advance(HOUR)
    settled()
    assert values(robot.recall("gift", reader=BOB, include_past=True)) == set()
    (then,) = robot.recall("gift", reader=BOB, valid_at=begin + 60)
    assert (then.text, then.valid_to, then.past) == ("gift: book", None, False)
    (then,) = robot.recall("gift", reader=ALICE, valid_at=begin + 60)
    assert then.valid_to == pytest.approx(begin + HOUR, abs=1)


def test_a_question_about_the_past_finds_it(robot, settled, hand):
    """It needs no argument, in no language; the last value before stands first, or the first one where that is asked for."""
    for value in ("tea", "cocoa", "coffee"):
        robot.store.add_fact("mara.drink", value, scope="household")
        hand.advance(HOUR)
    robot.store.add_fact("mara.drink", "juice", scope="household", valid_from=hand.wall + HOUR)
    settled()
    assert values(robot.recall("what does Mara drink?")) == {"coffee"}
    for question in (
        "what did Mara drink before",
        "¿qué tomaba Mara antes? drink",
        "was war Maras drink früher",
    ):
        found = [item for item in robot.recall(question) if item.kind == "fact"]
        assert [(item.value, item.past) for item in found] == [
            ("cocoa", True),
            ("tea", True),
            ("coffee", False),
        ]
        assert "past" in found[0].why
    first, *_ = robot.recall("what did Mara drink at first?")
    assert first.value == "tea"
    assert values(robot.recall("what did Mara drink before", include_past=False)) == {"coffee"}


def test_the_past_is_told_as_past_to_a_model(tmp_path):
    """A turn that asks for what was gets a line with until when it held; forgotten, it is in no turn any more."""
    embedder = HashEmbedder()
    with edgemem.open(tmp_path / "home", embedder=embedder, worker=False, watch=False) as memory:
        now = memory.clock.now()
        memory.store.add_fact("mara.drink", "zeppelin tea", scope="household", valid_from=now - 2 * HOUR)
        memory.store.add_fact("mara.drink", "coffee", scope="household", valid_from=now - HOUR)
        memory.idle(5)
        loop = edgemem.AgentLoop(Listener(), hooks=memory.hooks(session_id="s", speaker="alice"))
        loop.run("What did Mara drink before?")
        memory.sessions.journal.settle()
        ((block,),) = memory.database.query("select block from turns")
        assert "before: mara.drink: zeppelin tea (until " in block
        memory.forget("mara.drink", scope="household")
        assert memory.database.query("select block from turns") == [(None,)]


def test_a_model_may_look_up_the_past_and_what_was_summed_up(tmp_path):
    """`search_memory` needs no further argument: the question says that it asks about the past."""
    with edgemem.open(tmp_path / "home", embedder=HashEmbedder(), worker=False, watch=False) as memory:
        now = memory.clock.now()
        memory.store.add_fact("mara.drink", "tea", scope="household", valid_from=now - 2 * HOUR)
        memory.store.add_fact("mara.drink", "coffee", scope="household", valid_from=now - HOUR)
        told = Epoch("s", 3, "Mara was asked for a drink of the zeppelin.")
        memory.database.write(lambda tx: epochs.append_epoch(tx, told))
        memory.idle(5)
        (search,) = memory.tools(include=("search_memory",))
        for speaker in ("alice", None):
            asked = ToolTurn("", Reader(speaker))
            lines = search.run(asked, query="which drink of Mara was it before the zeppelin")
            assert ("before: mara.drink: tea (until " in lines) is (speaker == "alice")
            assert ("summary: Mara was asked" in lines) is (speaker == "alice")
        assert "before:" not in search.run(ToolTurn("", Reader("alice")), query="which drink of Mara is it")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    said=st.lists(
        st.tuples(
            st.sampled_from(["lamp.state", "lamp.place"]),
            st.sampled_from(["red", "blue", None]),
            st.integers(0, 9),
            st.none() | st.integers(1, 5),
        ),
        max_size=8,
    ),
    taken=st.integers(0, 8),
    valid=st.integers(-1, 16),
    known=st.none() | st.integers(0, 9),
)
def test_it_is_what_plain_python_says(tmp_path_factory, said, taken, valid, known):
    """Whatever was said of whichever time, in whatever order, recall gives the facts that painting over gives."""
    start, wall = 1_770_000_000.0, [1_770_000_000.0]
    clock, naive = Clock(wall=lambda: wall[0], monotonic=lambda: wall[0]), NaiveFacts()
    robot = Robot(tmp_path_factory.mktemp("when"), clock, HashEmbedder())
    for n, (key, value, begin, length) in enumerate(said):
        wall[0] = start + 100.0 * (n + 1)
        first, last = start + begin, None if length is None else start + begin + length
        robot.truth.write(
            lambda tx, key=key, value=value, first=first, last=last: facts.assert_fact(
                tx, key, value, valid_from=first, valid_to=last
            )
        )
        naive.say("global", key, Assertion(n, first, last, value))
        if n == taken:
            robot.idle()
    wall[0] += 100.0
    known_at = None if known is None else start + 100.0 * known + 150.0
    found = robot.recall("lamp state place", valid_at=start + valid, known_at=known_at, k=50)
    held = naive.as_of("global", start + valid, None if known is None else known)
    assert {(item.key, item.value) for item in found} == set(held.items())
    robot.close()
