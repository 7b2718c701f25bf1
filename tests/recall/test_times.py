"""Past times: what a question that names a time asks for, by the words around it."""

import math
import os
from datetime import datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import edgemem
from edgemem.clock import Clock
from edgemem.errors import InvalidInputError
from edgemem.recall.query import read_question
from edgemem.recall.times import past_times
from edgemem.store import facts
from support.data import sentences
from support.embedders import HashEmbedder
from support.homes import ALICE, BOB, STRANGER, Robot, at_day
from support.models import Listener
from support.oracles import Assertion, NaiveFacts
from support.refusals import refusal

HOUR = 3600.0


NOW = at_day("2026-11-20")


def days(text: str) -> list[tuple[str, str]]:
    """Return first and last day, the latter not included, of the times of a question."""
    return [
        tuple(datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d") for at in (time.begin, time.end))
        for time in past_times(read_question(text, NOW), NOW)
    ]


def test_the_words_around_a_time_tell_what_is_meant():
    """Before it, since it, after it and from one to another, in five languages."""
    meant = sentences("past_times")
    assert {query: ["..".join(time) for time in days(query)] for query in meant} == {
        query: [time] for query, time in meant.items()
    }


def values(found) -> set[str]:
    return {item.value for item in found if item.kind == "fact"}


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
        "the ladder leans in the garage", "ladder finder", "ladder colour: green", "ladder to be painted",
    }  # fmt: skip
    later = robot.recall("ladder", valid_at=begin - HOUR, k=20)
    assert len([item for item in later if "ladder" in item.text]) == 7


@pytest.mark.parametrize("moment", [math.nan, math.inf, -math.inf, "noon", "2026", b"1", True, [], 10**400])
@pytest.mark.parametrize("which", ["valid_at", "known_at"])
def test_a_time_that_is_none_is_refused(robot, which, moment):
    """What is no number of seconds is answered by one sentence that says what to give."""
    wanted = f"^{which} must be seconds since the epoch, not .*timestamp"
    refusal(InvalidInputError, robot.recall, "milk", match=wanted, **{which: moment})
    since = r"^known_at must be a moment since 1970, not -5: "
    refusal(InvalidInputError, robot.recall, "milk", match=since, known_at=-5)
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
    told = [("cocoa", True), ("tea", True), ("coffee", False)]
    asked = "what did Mara drink before", "¿qué tomaba Mara antes? drink", "was war Maras drink früher"
    for question in asked:
        found = [item for item in robot.recall(question) if item.kind == "fact"]
        assert [(item.value, item.past) for item in found] == told
        assert "past" in found[0].why
    first, *_ = robot.recall("what did Mara drink at first?")
    assert first.value == "tea"
    assert values(robot.recall("what did Mara drink before", include_past=False)) == {"coffee"}


def test_the_past_is_told_as_past_to_a_model(tmp_path):
    """A turn that asks for what was gets a line with until when it held; forgotten, it is in no turn any more."""
    embedder = HashEmbedder()
    with edgemem.open(tmp_path / "home", embedder=embedder, worker=False, watch=False) as memory:
        now = memory.diagnostics.clock.now()
        memory.store.add_fact("mara.drink", "zeppelin tea", scope="household", valid_from=now - 2 * HOUR)
        memory.store.add_fact("mara.drink", "coffee", scope="household", valid_from=now - HOUR)
        memory.idle(5)
        loop = edgemem.AgentLoop(Listener(), hooks=memory.hooks(session_id="s", speaker="alice"))
        loop.run("What did Mara drink before?")
        memory.sessions.journal.settle()
        ((block,),) = memory.diagnostics.database.query("select block from turns")
        assert "before: mara.drink: zeppelin tea (until " in block
        memory.forget("mara.drink", scope="household")
        assert memory.diagnostics.database.query("select block from turns") == [(None,)]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
