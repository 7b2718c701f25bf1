"""Versions: a question that names a time gets the version of a fact that held at that time."""

import math
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemem.clock import Clock
from edgemem.records import Reader
from edgemem.store.db.transaction import Transaction
from edgemem.store.fact_queries import held_within, keys_of
from edgemem.store.facts import assert_fact
from edgemem.store.memory_store import SQLiteMemoryStore
from support.data import sentences
from support.embedders import HashEmbedder
from support.homes import Robot, at_day

DAY = 86400.0
SETTINGS = 600
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October")
said = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 30), st.integers(1, 20)), min_size=1, max_size=12
)


NOW = at_day("2026-11-20")


@pytest.fixture(params=["words", "meaning"])
def robot(request, tmp_path):
    """Return a robot that knows three codes of a door, one after the other, and where Ann lived."""
    clock = Clock(wall=lambda: NOW, monotonic=lambda: 1.0)
    made = Robot(tmp_path, clock, HashEmbedder() if request.param == "meaning" else None)
    for code, since in (("1111", "2025-01-01"), ("2222", "2026-02-10"), ("3333", "2026-06-05")):
        made.store.add_fact("door.code", code, scope="household", valid_from=at_day(since))
    for town, since in (("Trieste", "2024-05-01"), ("Lisbon", "2026-04-20"), ("Oslo", "2026-09-10")):
        made.store.add_fact("ann.home_town", town, scope="household", valid_from=at_day(since))
    made.store.add_fact("window.code", "9999", scope="household", valid_from=at_day("2026-10-01"))
    yield made
    made.close()


@pytest.fixture(params=["at once", "indexed"])
def settled(request, robot):
    if request.param == "indexed":
        robot.idle()
        robot.index.warm()
    return robot


def test_the_date_of_a_question_chooses_the_version(settled):
    """In five languages; what is said of today or of what comes asks for what holds now."""
    for query, code in sentences("door_code").items():
        first = settled.recall(query, reader=Reader("ann"), kinds={"fact"})[0]
        assert (first.key, first.value) == ("door.code", code), query
        assert first.past == (code != "3333"), query


def test_who_asks_how_it_changed_gets_every_value(settled):
    """What holds now is one of them."""
    for query in (
        "How did the door code change over the year?",
        "Which door codes did we have this year?",
        "What has the door code been since January?",
        "What were all the door codes?",
        "Wie hat sich der door code geändert?",
    ):
        found = settled.recall(query, reader=Reader("ann"), kinds={"fact"})
        assert {item.value for item in found if item.key == "door.code"} == {"1111", "2222", "3333"}, query
        assert {item.key for item in found[:3]} == {"door.code"}, query


def test_an_explicit_moment_is_stronger(settled):
    """`valid_at` says what counts, whatever the question says."""
    found = settled.recall("What was the door code in March?", valid_at=at_day("2025-05-01"), kinds={"fact"})
    assert [item.value for item in found if item.key == "door.code"] == ["1111"]
    found = settled.recall("What was the door code in March?", include_past=False, kinds={"fact"})
    assert [item.value for item in found if item.key == "door.code"] == ["3333"]


YEAR_AGO = NOW - 365 * DAY


def usual(moment: float) -> str:
    """Return how warm it is in the hall in the month of a moment."""
    return f"{10 + datetime.fromtimestamp(moment).astimezone().month} degrees"


@pytest.fixture(scope="module", params=["words", "meaning"])
def warm_robot(request, tmp_path_factory):
    """Return a robot that was told 600 times in a year how warm it shall be: two times of three what is usual in that month."""
    clock = Clock(wall=lambda: NOW, monotonic=lambda: 1.0)
    embedder = HashEmbedder() if request.param == "meaning" else None
    made = Robot(tmp_path_factory.mktemp("warm"), clock, embedder)

    def tell(tx: Transaction) -> None:
        for n in range(SETTINGS):
            since = YEAR_AGO + n * 365 * DAY / SETTINGS
            value = usual(since) if n % 3 else f"{8 + n % 7} degrees"
            assert_fact(tx, "thermostat.target", value, scope="household", valid_from=since)

    made.truth.write(tell)
    for code, since in (("1111", "2025-01-01"), ("2222", "2026-02-10"), ("3333", "2026-06-05")):
        made.store.add_fact("door.code", code, scope="household", valid_from=at_day(since))
    made.store.add_fact("thermostat.battery", "round", scope="household", valid_from=at_day("2026-02-01"))
    for n in range(80):
        made.say(n + 1, f"the thermostat rattles, and it is the {n}th time", f"noted, {n}")
    yield made
    made.close()


@pytest.fixture(params=["at once", "indexed"])
def warm(request, warm_robot):
    if request.param == "indexed":
        warm_robot.idle()
        warm_robot.index.warm()
    return warm_robot


def first_fact(robot, query, **options):
    first = robot.recall(query, kinds={"fact"}, **{"reader": Reader("ann")} | options)[0]
    return first.key, first.value


def test_of_hundreds_of_versions_that_of_the_month_is_first(warm):
    """What held then is found, though the words of the question find any version; it is what held for most of that month."""
    for number, month in enumerate(MONTHS, start=1):
        then = at_day(f"2026-{number:02d}-10")
        asked = f"What was the thermostat target in {month}?"
        assert first_fact(warm, asked) == ("thermostat.target", usual(then))
        found = warm.recall(asked, kinds={"fact"})
        assert ("thermostat.target", usual(NOW)) in [(item.key, item.value) for item in found]  # of now, too
    assert first_fact(warm, "What was the target of the thermostat yesterday?")[1] == usual(NOW - DAY)


def test_the_version_of_a_month_is_found_by_who_asks_again(warm, request):
    """What they asked before is left out of the scores, beside versions that joined and were no candidates."""
    asked = "What was the thermostat target in March?"
    warm.say(0, asked, "Let me think.", session=request.node.name, speaker="ann")
    found = warm.recall(asked, reader=Reader("ann"), k=20)
    assert usual(at_day("2026-03-10")) in [item.value for item in found]


@pytest.mark.parametrize("scope", ["household", "user:bob"])
def test_what_joins_may_be_read(settled, scope):
    """A version that held then is no candidate for whoever may not read it, and nothing else about the answer changes."""
    settled.store.add_fact("safe.code", "1212", scope="household", valid_from=at_day("2026-01-01"))
    for n in range(90):  # so many that the one of March is found by its time alone
        since = at_day("2026-04-01") + n * DAY
        settled.store.add_fact("safe.code", str(5000 + n), scope="household", valid_from=since)
    asked, reader = "What was the safe code in March?", Reader("ann")
    before = settled.recall(asked, reader=reader, kinds={"fact"})
    assert before[0].value == "1212"
    for code, day in (("7777", "2026-03-05"), ("8888", "2026-03-28")):
        since = at_day(day)
        settled.store.add_fact("safe.code", code, scope=scope, valid_from=since, level="private", owner="bob")
    found = settled.recall(asked, reader=reader, kinds={"fact"})
    assert not {"7777", "8888"} & {item.value for item in found}
    if scope == "user:bob":
        assert [item.id for item in found] == [item.id for item in before]
        assert [item.score for item in found] == pytest.approx([item.score for item in before])
    for nobody in (Reader("bob", frozenset({"ann"})), Reader("")):
        assert "7777" not in [item.value for item in settled.recall(asked, reader=nobody, kinds={"fact"})]
    his = [item.value for item in settled.recall(asked, reader=Reader("bob"), kinds={"fact"})]
    assert "7777" in his[: 2 if scope == "user:bob" else 1]  # there, beside that of the household


def test_what_was_forgotten_does_not_join(settled):
    """Nothing of a key that was erased comes back with its date."""
    for n in range(90):
        settled.store.add_fact(
            "safe.code", str(5000 + n), scope="household", valid_from=at_day("2026-01-01") + n * DAY
        )
    asked = "What was the safe code on 2026-01-04?"
    assert settled.recall(asked, kinds={"fact"})[0].value == "5003"
    settled.store.forget_fact("safe.code", scope="household")
    assert "safe.code" not in [item.key for item in settled.recall(asked, kinds={"fact"})]


@settings(max_examples=40)
@given(said, st.integers(-1, 14), st.integers(1, 5))
def test_what_held_within_a_time_is_what_of_all_meets_it(tmp_path_factory, said, begin, length):
    """However versions were told, with ends and corrections of the past, those are read that hold at some moment of it."""
    with SQLiteMemoryStore(tmp_path_factory.mktemp("then") / "memory.db") as store:
        for n, (key, at, for_) in enumerate(said):
            store.add_fact(key, str(n), valid_from=float(at), valid_to=None if for_ % 2 else float(at + for_))
        database = store.database
        times = [(float(begin), float(begin + length)), (3.0, 9.0)]
        origins = [row[0] for row in database.query("select id from facts where id = origin")]
        keys = keys_of(database, origins)
        assert set(keys) == set(origins)
        everything = database.query(
            "select key_id, value, origin, valid_from, valid_to from facts where known_to is null and value is not null"
        )
        naive: dict[tuple[int, int, str], tuple[int, float]] = {}
        for n, (begin, end) in enumerate(times):
            for key, value, origin, since, to in everything:
                if since < end and (to is None or to > begin):
                    last, seconds = naive.get((n, key, value), (0, 0.0))
                    more = min(end, math.inf if to is None else to) - max(begin, since)
                    naive[n, key, value] = max(last, origin), seconds + more
        found = held_within(database, set(keys.values()), times, reader=None)
        assert sorted(found) == sorted((n, key, *held) for (n, key, _), held in naive.items())


@pytest.mark.parametrize(
    ("reader", "values"),
    [
        (None, {"open to all", "of the house", "of Bob"}),
        (Reader("bob"), {"open to all", "of the house", "of Bob"}),
        (Reader("bob", frozenset({"ann"})), {"open to all", "of the house"}),
        (Reader("ann"), {"open to all", "of the house"}),
        (Reader(""), {"open to all"}),
    ],
)
def test_what_may_not_be_read_is_not_even_looked_up(robot, reader, values):
    """Of one key whose versions belong to different people, everybody gets what is theirs, and no time that another's took."""
    levels = (
        ("open to all", "shared", None),
        ("of the house", "household", None),
        ("of Bob", "private", "bob"),
    )
    for n, (value, level, owner) in enumerate(levels):
        since = at_day("2026-03-02") + n * DAY
        robot.store.add_fact("drawer.has", value, scope="global", valid_from=since, level=level, owner=owner)
    said = dict(robot.truth.query("select id, value from facts where id = origin"))
    keys = set(keys_of(robot.truth, [ref for ref, value in said.items() if value == "of Bob"]).values())
    month = at_day("2026-03-01"), at_day("2026-04-01")
    found = held_within(robot.truth, keys, [month], reader=reader)
    assert {said[one.origin] for one in found} == values
    assert all(one.seconds == DAY for one in found if said[one.origin] != "of Bob")
