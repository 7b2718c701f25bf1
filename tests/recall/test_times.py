"""Past times: what a question that names a time asks for, by the words around it."""

from __future__ import annotations

import math
import os
from datetime import datetime

import numpy as np
import pytest
from hash_embedder import HashEmbedder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naive_facts import Assertion, NaiveFacts
from recalling import ALICE, BOB, STRANGER, Robot
from talkers import Listener

import edgemem
from edgemem.clock import Clock
from edgemem.errors import InvalidInputError
from edgemem.loop.toolbox import ToolTurn
from edgemem.recall.index.sources import EPISODE, TURN
from edgemem.recall.query import ParsedQuery, parse_query
from edgemem.recall.search.table import DocTable, Row
from edgemem.recall.times import date_scores, on_dates, on_days, past_times, spoken_of
from edgemem.records import Epoch, Reader
from edgemem.store import epochs, facts


def at(text: str) -> float:
    """Return a moment of the local calendar, given as 2026-03-14."""
    return datetime.strptime(text, "%Y-%m-%d").astimezone().timestamp()


NOW = at("2026-11-20")


def days(text: str) -> list[tuple[str, str]]:
    """Return first and last day, the latter not included, of the times of a question."""
    return [
        tuple(datetime.fromtimestamp(each).astimezone().strftime("%Y-%m-%d") for each in time)
        for time in past_times(parse_query(text, NOW), NOW)
    ]


@pytest.mark.parametrize(
    ("query", "begin", "end"),
    [
        ("What was the code in March?", "2026-03-01", "2026-04-01"),
        ("What was the code before March?", "2026-02-28", "2026-03-01"),
        ("What was the code until the third of March?", "2026-03-02", "2026-03-03"),
        ("What has the code been since March?", "2026-03-01", "2026-11-20"),
        ("What was the code after March?", "2026-04-01", "2026-11-20"),
        ("What was the code from April to July?", "2026-04-01", "2026-08-01"),
        ("What was it from the third of April until the fifth of July?", "2026-04-03", "2026-07-06"),
        ("What was the code the day before yesterday?", "2026-11-18", "2026-11-19"),
        ("Which codes did we have this year?", "2026-01-01", "2026-11-20"),
        ("Was war der Code vor dem dritten April?", "2026-04-02", "2026-04-03"),
        ("Was war der Code zwischen April und Juli?", "2026-04-01", "2026-08-01"),
        ("Was war der Code seit März?", "2026-03-01", "2026-11-20"),
        ("¿Cuál era el código antes de marzo?", "2026-02-28", "2026-03-01"),
        ("2026年3月之前的密码是什么?", "2026-02-28", "2026-03-01"),
        ("Mã cửa trước tháng 3 năm 2026 là gì?", "2026-02-28", "2026-03-01"),
    ],
)
def test_the_words_around_a_time_tell_what_is_meant(query, begin, end):
    """Before it, since it, after it and from one to another, in five languages."""
    assert days(query) == [(begin, end)]


@pytest.mark.parametrize(
    "query",
    ["What is the code next March?", "What is the code this year?", "What is the code today?", "the code"],
)
def test_what_is_asked_of_now_or_later_has_none(query):
    """A time that goes on is over as far as now where the question speaks of the past, and not at all else."""
    assert not days(query)


words = st.sampled_from(
    [
        "before",
        "since",
        "from",
        "to",
        "between",
        "and",
        "March",
        "2025",
        "yesterday",
        "April 3rd",
        "bis",
        "was",
        "之前",
    ]
)


@given(st.one_of(st.text(max_size=200), st.lists(words, max_size=12).map(" ".join)))
def test_any_text_has_times_that_are_over_or_none(text):
    """Whatever is asked, every time lies before now."""
    assert all(begin < end <= NOW for begin, end in past_times(parse_query(text, NOW), NOW))


DAY = 86400.0


def asking(*times):
    """Return a question of some times."""
    return ParsedQuery(terms=("cup",), meaning="the cup", people=frozenset(), times=times)


def filled(*rows):
    """Return columns with messages of one session, each given by what differs."""
    columns = DocTable()
    for number, more in enumerate(rows, 1):
        plain = Row(number, TURN, number, 0, None, "ann", 1, 1, 0.0, 0, None, None, 0, None, None, 3)
        columns.append(plain._replace(**more))
    return columns


def spans(*times):
    """Return times as the file has them."""
    return {"times": "[" + ",".join(f"[{begin},{end},{sure}]" for begin, end, sure in times) + "]"}


def test_texts_on_the_dates_of_a_question_come_best_first():
    """Slots of texts that speak of its times; none where it speaks of none, or nothing does."""
    columns = filled(
        spans((5 * DAY, 6 * DAY, 0.5)), {}, spans((5 * DAY, 6 * DAY, 1)), spans((8 * DAY, 9 * DAY, 1))
    )
    asked = asking((5 * DAY, 6 * DAY, 1.0))
    assert on_dates(columns, asked).tolist() == [2, 0]
    assert spoken_of(columns, asked).tolist() == [0.5, 0, 1, 0, 0]
    columns.drop(3)
    assert on_dates(columns, asked).tolist() == [0]
    assert on_dates(columns, asking()).tolist() == []
    assert on_dates(DocTable(), asked).tolist() == []
    assert spoken_of(columns, asking()).tolist() == [0] * 5
    assert spoken_of(DocTable(), asked).tolist() == [0]


def test_what_happened_is_told_the_next_day_too():
    """What was said at a time of the question counts, and a little less what was said within a day after it."""
    at = np.array([9.99, 10, 11.5, 12, 30]) * DAY
    day = (10 * DAY, 11 * DAY, 0.9)
    assert date_scores(at, asking(day)) == pytest.approx([0, 0.9, 0.81, 0, 0])
    assert date_scores(at, asking(day, (9 * DAY, 40 * DAY, 0.3))) == pytest.approx([0.3, 0.9, 0.81, 0.3, 0.3])
    assert date_scores(at, asking()).tolist() == [0] * 5


def test_messages_of_a_day_are_found_whatever_they_say():
    """What was said on a day that is likely meant; no other kinds, and not what was said in a whole month."""
    columns = filled({"at": 9 * DAY}, {"at": 10 * DAY}, {"at": 10.5 * DAY, "kind": EPISODE}, {"at": 11 * DAY})
    day = (10 * DAY, 11 * DAY)
    assert on_days(columns, asking((*day, 1.0))).tolist() == [1]
    assert on_days(columns, asking((*day, 0.3))).tolist() == []
    assert on_days(columns, asking((9 * DAY, 12 * DAY, 0.7))).tolist() == [0, 1, 3]
    assert on_days(columns, asking((0, 30 * DAY, 1.0))).tolist() == []
    assert on_days(columns, asking((0, 30 * DAY, 1.0), (*day, 0.7))).tolist() == [1]
    assert on_days(columns, asking()).tolist() == []
    assert on_days(DocTable(), asking((*day, 1.0))).tolist() == []


HOUR = 3600.0


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


BIRTH = -2e8
"""A moment before 1970."""


def test_a_fact_may_have_held_before_1970(robot, settled):
    """Valid time reaches back further than any memory."""
    robot.store.add_fact("oma.town", "Triest", valid_from=BIRTH)
    settled()
    assert values(robot.recall("town", valid_at=BIRTH + 1)) == {"Triest"}
    assert values(robot.recall("town", valid_at=BIRTH - 1)) == set()


def test_before_1970_nothing_was_known(robot):
    """A negative `known_at` is a mistake, and is told so."""
    with pytest.raises(InvalidInputError, match=r"^known_at must be a moment since 1970, not -5: "):
        robot.recall("milk", known_at=-5)
    assert robot.recall("milk", known_at=0, valid_at=1e300) == []


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
