"""Facts in two times, held against a naive model; ends that are private, and scopes of unknown forms."""

import itertools
import sqlite3
from pathlib import Path

import pytest
from conftest import HandClock
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import edgemem
from edgemem import Memory
from edgemem.clock import Clock
from edgemem.errors import StoreError
from edgemem.records import Heard, Reader
from edgemem.store import fact_queries, facts
from edgemem.store.kinds import open_truth
from support.cli import refused, run
from support.oracles import Assertion, NaiveFacts, has_one_value_at_each_moment

KEYS, SCOPES, VALUES = ("a", "b"), ("global", "user:alice"), ("red", "42", 42, {"a": [1.5, None, "x"]})
START = 1_770_000_000.0


def say(truth, key, value, **options):
    return truth.write(lambda tx: facts.assert_fact(tx, key, value, **options)).is_news


def at(truth, t, known_at=None, scope="global"):
    held = fact_queries.facts_as_of(truth, t, scope=scope, known_at=known_at)
    return {fact.key: fact.decoded_value for fact in held}


def test_the_file_itself_refuses_two_values_at_one_moment(truth):
    """A statement that goes around facts.py cannot make a second believed value, nor rewrite a version."""
    say(truth, "a", "red", valid_from=100.0)
    copy = """insert into facts (id, key_id, value, valid_from, valid_to, recorded, version, origin, level)
      select id + 1, key_id, 'blue', ?, ?, recorded, version, origin, level from facts where value = 'red'"""
    for begin, end in ((100.0, None), (150.0, 160.0), (50.0, 150.0), (500.0, None)):
        with pytest.raises(StoreError, match="two values"):
            truth.write(lambda tx, begin=begin, end=end: tx.execute(copy, (begin, end)))
    with pytest.raises(StoreError, match="not changed"):
        truth.write(lambda tx: tx.execute("update facts set value = 'blue'"))


def test_how_a_fact_was_heard_survives_a_split(truth):
    """Speaker, confidence, device, room and event time stand in every piece of a version."""
    heard = Heard("alice", 0.9, 0.8, "mic-1", "kitchen", 123.0)
    say(truth, "a", "red", valid_from=100.0, heard=heard, source="speech")
    say(truth, "a", "blue", valid_from=200.0, valid_to=300.0)
    for t in (150.0, 350.0):
        (fact,) = fact_queries.facts_as_of(truth, t)
        assert (fact.heard, fact.source) == (heard, "speech")


def test_the_rows_of_a_key_are_found_by_its_indexes(truth):
    """Erasing a fact does not look at the rows of others."""
    plan = [row[3] for row in truth.query(f"explain query plan {facts.ROWS_OF_KEY}", {"key": 1})]
    assert not [line for line in plan if line.startswith("SCAN")]


def test_hot_questions_are_answered_from_indexes(truth):
    """No question on the hot path scans the facts or sorts in a temporary tree."""
    for known_at in (None, 1e9):
        sql, values = fact_queries.as_of(1e9, scope="global", known_at=known_at, reader=Reader("alice"))
        plan = [row[3] for row in truth.query(f"explain query plan {sql}", values)]
        scans = [line for line in plan if line.startswith("SCAN") and line != "SCAN path"]
        assert scans == [line for line in plan if "TEMP B-TREE" in line] == []
        assert any("facts_believed" in line for line in plan)
    assert any("facts_known" in line for line in plan)
    assert any("facts_by_recorded" in line for line in plan)


moments = st.integers(-3, 12)
operations = st.tuples(
    st.sampled_from(("assert", "assert", "assert", "retract", "now")),
    # Mostly one key, so that its tree of versions grows high enough to be walked.
    st.sampled_from((*SCOPES[:1] * 5, *SCOPES)),
    st.sampled_from((*KEYS[:1] * 5, *KEYS)),
    st.sampled_from(VALUES),
    moments,
    st.one_of(st.none(), st.integers(1, 8)),
    st.sampled_from((0.0, 1.0, 3600.0, -3600.0)),
    st.sampled_from((3, 3, 2, 0)),
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Return one file and one hand-moved wall for all examples: opening a file for each takes too long."""
    wall = [START]
    clock = Clock(wall=lambda: wall[0], monotonic=lambda: 0.0)
    with open_truth(tmp_path_factory.mktemp("facts") / "memory.db", clock=clock, durable=False) as database:
        yield database, wall, itertools.count()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(operations, min_size=1, max_size=25))
def test_facts_agree_with_a_naive_model(shared, script):
    """After any history, any question (when, known when) is answered as by painting what is trusted; the rest waits."""
    truth, wall, examples = shared
    example = next(examples)
    model, known, instants = NaiveFacts(), [], []
    for action, scope_, key_, value, begin, length, jump, trust in script:
        scope, key = f"{scope_}.{example}", f"{key_}.{example}"
        wall[0] += jump
        valid_from, valid_to = START + begin, None if length is None else START + begin + length
        if action == "now":
            valid_from = valid_to = None
        before = truth.query("select * from facts order by id")

        stated = {"scope": scope, "valid_from": valid_from, "trust": trust}
        stated |= {"level": "shared"} if action == "retract" else {"valid_to": valid_to}
        what = None if action == "retract" else value

        def work(tx, key=key, what=what, stated=stated):
            if what is not None or facts.find_key(tx, stated["scope"], key) is not None:
                facts.assert_fact(tx, key, what, **stated)
            return tx.recorded

        recorded = truth.write(work)
        said = recorded / 1e6 if valid_from is None else valid_from
        new = Assertion(recorded, said, stated.get("valid_to"), what, trust)
        model.say(scope, key, new, now=valid_from is None)
        waiting = [doubt for doubt in fact_queries.read_doubts(truth, scope=scope) if doubt.key == key]
        doubts = [(each.valid_from, each.valid_to, each.decoded_value, each.trust) for each in waiting]
        assert doubts == [old[1:] for old in model.waiting[scope, key]]
        known.append((recorded, recorded / 1e6))
        instants += [said, said - 0.5, said + 0.5]
        is_append_only(before, truth.query("select * from facts order by id"))
    instants += [START - 100, START + 100]
    for scope in {f"{each}.{example}" for each in SCOPES}:
        for n, t in enumerate(instants):
            assert at(truth, t, scope=scope) == model.as_of(scope, t)
            for recorded, known_at in known[n % 4 :: 4]:
                assert at(truth, t, known_at=known_at, scope=scope) == model.as_of(scope, t, recorded)
    for (key_id,) in truth.query("select id from fact_keys where key like ?", (f"%.{example}",)):
        has_one_value_at_each_moment(truth, key_id)


def is_append_only(before, after):
    """Check that no earlier row vanished or changed, except by being closed."""
    for old, new in zip(before, after[: len(before)], strict=True):
        closed = old[6] is None and new[6] is not None
        assert old == new or (closed and old[:6] == new[:6] and old[7] == new[7] and old[9:] == new[9:])


def test_the_truth_can_be_read_with_plain_sqlite(truth):
    """The view facts_now shows what holds, in words, to anybody with sqlite3."""
    say(truth, "a", "red", valid_from=0.0, heard=Heard("alice"))
    say(truth, "a", "blue", valid_from=86400.0)
    plain = sqlite3.connect(f"file:{truth.path}?mode=ro", uri=True)
    rows = plain.execute("select scope, key, value, since from facts_now").fetchall()
    plain.close()
    assert rows == [("global", "a", "blue", "1970-01-02 00:00:00")]


DAY = 86_400.0


@pytest.mark.parametrize("since", [-5 * DAY, -20 * DAY], ids=["another came", "taken back"])
@pytest.mark.parametrize("how", ["then", "then, as known", "ever"])
def test_an_end_that_is_private_is_not_told(memory: Memory, hand: HandClock, since: float, how: str) -> None:
    """That a value was followed by one of Bob's own is told to nobody else, nor on which day."""
    start = hand.wall
    memory.store.add_fact("safe.code", "1111", valid_from=start - 20 * DAY)
    known_at = memory.store.facts()[0].recorded_at
    hand.advance(60)
    memory.store.add_fact("safe.code", "7777", valid_from=start + since, level="private", owner="bob")

    def recalled(speaker: str) -> list[edgemem.Recalled]:
        options = {
            "then": {"valid_at": start - 10 * DAY},
            "then, as known": {"valid_at": start - 10 * DAY, "known_at": known_at},
            "ever": {"include_past": True},
        }[how]
        hits = memory.recall("What is the safe code?", speaker=speaker, kinds={"fact"}, **options)
        return [item for item in hits if item.value == "1111"]

    for speaker in ("ann", ""):
        for item in recalled(speaker):
            assert (item.text, item.valid_to, item.past) == ("safe code: 1111", None, False)
    his = recalled("bob")
    assert all(item.valid_to is not None and "until" in item.text for item in his)
    if how == "ever":
        assert his
        assert recalled("ann") == []  # that it is over is as private


def test_recall_knows_at_that_tick_too(memory: Memory, hand: HandClock) -> None:
    """What was said at a tick is recalled as known at it, and not a tick before."""
    memory.store.add_fact("lamp", "green")
    hand.advance(1)
    memory.store.add_fact("lamp", "red")
    ticks = "select recorded, id from facts where id = origin and value is not null"
    (green, green_id), (red, red_id) = memory.diagnostics.database.query(ticks)

    def known(tick: int) -> list[str | None]:
        hits = memory.recall("What colour is the lamp?", known_at=tick / 1e6, kinds={"fact"})
        return [item.value for item in hits]

    assert known(green - 1) == []
    assert known(green_id) == ["green"]
    assert known(red - 1) == ["green"]
    assert known(red_id) == ["red"]


def values(memory: Memory, name: str) -> dict[str, str]:
    return {fact.key: fact.value for fact in memory.store.facts(reader=Reader(name))}


def test_scopes_of_unknown_forms_are_closed_listed_and_moved(tmp_path: Path) -> None:
    """What another program stored under a mistyped scope is the operator's, until a command moves it."""
    home = tmp_path / "home"
    with edgemem.open(home, worker=False) as memory:
        memory.store.add_fact("tea", "green", scope="user:Mara")
        other = edgemem.SQLiteMemoryStore(memory.diagnostics.database)
        other.add_fact("pin", "1", scope="robot:7")
        other.add_fact("pin", "2", scope="robot:7")
        other.add_fact("tea", "black", scope="robot:8")
        other.add_fact("shoes", "39", scope="robot:7")
        other.set_preference("light", "dim", scope="robot:7")
        assert values(memory, "Ben") == {}
        assert values(memory, "Mara") == {"tea": "green"}
        assert memory.store.preferences(reader=Reader("Mara")) == []
        assert not any("39" in item.text for item in memory.recall("size of the shoes", speaker="Mara", k=9))
        assert {fact.value for fact in memory.store.facts(scope="robot:7")} == {"2", "39"}
        (names,) = (check for check in memory.check() if check.name == "people")
        assert (names.state, "robot:7 (3)" in names.detail) == ("warn", True)
        assert "edgemem facts move robot:7 user:NAME" in names.advice
    wrong = ("robot:7 Users:Mara", "user:Mara household", "Nobody:x global", "robot:8 user:Mara")
    for scope, to in map(str.split, wrong):
        assert refused(run("facts", "move", scope, to, "--home", home))
    moved = run("facts", "move", "robot:7", "user:mara", "--home", home)
    assert moved.output == "Moved 2 facts, 1 preference from robot:7 to user:Mara; read by Mara alone.\n"
    with edgemem.open(home, worker=False) as memory:
        assert values(memory, "Mara") == {"pin": "2", "shoes": "39", "tea": "green"}
        assert [fact.value for fact in memory.store.fact_history("pin", scope="user:Mara")] == ["1", "2"]
        assert [wish.value for wish in memory.store.preferences(reader=Reader("MARA"))] == ["dim"]
        assert "39" in memory.recall("size of the shoes", speaker="Mara", kinds={"fact"})[0].text


def test_a_file_with_two_spellings_is_one_person_s(tmp_path: Path) -> None:
    """A JSON file that holds both spellings, or a mistyped scope, is read as one person's, and closed."""
    file = tmp_path / "memory.json"
    file.write_text(
        """{"format": 1, "facts": [
        {"key": "tea", "value": "black", "scope": "user:Alice", "recorded_at": "2026-01-01T10:00Z"},
        {"key": "tea", "value": "green", "scope": "user:alice", "recorded_at": "2026-01-02T10:00Z"},
        {"key": "pin", "value": "4711", "scope": "User:Alice", "recorded_at": "2026-01-03T10:00Z"}]}""",
        encoding="utf-8",
    )
    with edgemem.JSONMemoryStore(file) as store:
        assert {fact.value for fact in store.facts(reader=Reader("ALICE"))} == {"green"}
        assert {fact.value for fact in store.facts()} == {"green", "4711"}
        assert [fact.value for fact in store.fact_history("tea", scope="user:ALICE")] == ["black", "green"]
