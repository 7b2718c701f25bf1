"""What was heard badly never replaces what was heard well, unless it is heard again."""

import itertools
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import edgemem
from edgemem.clock import Clock
from edgemem.context.block.delta import lines_for
from edgemem.context.block.render import VisibleLines
from edgemem.records import Heard
from edgemem.store.json.memory import JSONMemoryStore
from edgemem.store.kinds import open_truth
from edgemem.store.memory_store import SQLiteMemoryStore
from support.cli import run

WELL, BADLY = Heard("mai", asr_confidence=0.9), Heard("mai", asr_confidence=0.3)


@pytest.fixture
def store(tmp_path, clock):
    """Return a store that doubts what was heard with less than half confidence."""
    with open_truth(tmp_path / "memory.db", clock=clock) as db, SQLiteMemoryStore(db) as store:
        yield store


def test_a_doubt_is_about_its_own_time(store):
    """A doubt of next month is not settled by a clear word about last month."""
    store.add_fact("doctor", "monday", valid_from=0.0, heard=WELL)
    store.add_fact("doctor", "friday", valid_from=200.0, valid_to=300.0, heard=BADLY)
    store.add_fact("doctor", "sunday", valid_from=100.0, valid_to=150.0, heard=WELL)
    assert [fact.value for fact in store.doubts()] == ["friday"]
    store.add_fact("doctor", "friday", valid_from=250.0, valid_to=260.0, heard=BADLY)
    assert store.doubts() == []
    assert [store.facts_as_of(t)[0].value for t in (240.0, 255.0, 265.0)] == ["monday", "friday", "monday"]


def test_recall_and_the_prompt_say_that_something_was_perhaps_misheard(memory):
    """The value that holds is found, with the other one marked beside it; once settled, it is not marked any more."""
    memory.store.add_fact("doctor", "comes at nine")
    memory.store.add_fact("doctor", "comes at noon", heard=BADLY)
    (hits,) = memory.recall("when does the doctor come?", speaker="mai", k=1)
    assert (hits.value, hits.doubt) == ("comes at nine", "comes at noon")
    assert hits.text == "doctor: comes at nine (since then heard, perhaps misheard: comes at noon)"
    lines = [line.line for line in lines_for([hits], visible=VisibleLines())]
    assert lines == ["- doctor: comes at nine", "- perhaps misheard: doctor: comes at noon"]
    memory.store.add_fact("doctor", "comes at nine")
    assert memory.recall("doctor", k=1)[0].text == "doctor: comes at nine"


def test_recall_and_the_prompt_say_who_is_not_believed(memory):
    """What was heard well from somebody who is trusted less was not misheard: it says who said so."""
    memory.store.add_fact("doctor", "comes on monday", heard=WELL)
    memory.store.add_fact("doctor", "comes on friday", heard=Heard(asr_confidence=0.9))
    (hit,) = memory.recall("when does the doctor come?", speaker="mai", k=1)
    assert "(since then heard, not believed: comes on friday; an unknown voice said so)" in hit.text
    lines = lines_for([hit], visible=VisibleLines())
    assert lines[1].line == "- not believed: doctor: comes on friday (an unknown voice said so)"


def test_the_command_line_shows_doubts(tmp_path):
    """`facts history` says what was perhaps misheard and what became of it, and `recall` says it with the fact."""
    home = tmp_path / "home"
    with edgemem.open(home, worker=False) as memory:
        memory.store.add_fact("doctor", "monday")
        memory.store.add_fact("doctor", "sunday", heard=BADLY)
        memory.store.add_fact("doctor", "monday")
        memory.store.add_fact("doctor", "tuesday", heard=WELL)
        memory.store.add_fact("doctor", "friday", heard=BADLY)
    output = run("facts", "history", "doctor", "--home", home).output
    shown = ("perhaps misheard: sunday", "30% sure; refuted)", "30% sure; undecided)")
    assert [part for part in shown if part not in output] == []
    assert re.search(r"not believed: tuesday \(.*90% sure; mai said so; undecided\)", output)
    assert "perhaps misheard: friday" in " ".join(run("recall", "doctor", "--home", home).output.split())


@pytest.fixture(scope="module", params=["sqlite", "json"])
def shared(request, tmp_path_factory):
    """Return one store of each kind for all examples: opening a file for each takes too long."""
    clock = Clock(wall=lambda: 1_770_000_000.0, monotonic=lambda: 0.0)
    path = tmp_path_factory.mktemp("doubts") / "memory"
    if request.param == "json":
        with JSONMemoryStore(path, clock=clock, flush_after_s=60.0) as store:
            yield store, itertools.count()
        return
    with open_truth(path, clock=clock, durable=False) as db:
        yield SQLiteMemoryStore(db), itertools.count()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from((None, 0.2, 0.4, 0.95)), st.sampled_from((0, 2, 2)))
    ),
    st.sampled_from((None, 5.0)),
)
def test_what_holds_agrees_with_a_naive_model(shared, spoken, valid_from):
    """After any hearings, what holds is what a reader of the rule would believe, also once a JSON file was read again."""
    store, examples = shared
    key = f"k{next(examples)}"
    held, holder, safe, well_held, waiting = None, -1, False, False, {}
    for value, sure, trust in spoken:
        heard = None if sure is None else Heard(asr_confidence=sure)
        store.add_fact(key, value, heard=heard, valid_from=valid_from, trust=trust)
        well = sure is None or sure >= 0.5
        again = waiting.get(value, -1) >= max(holder, 0)
        if held not in (None, value) and (trust < holder or (not well and safe and not again)):
            waiting[value] = max(trust, waiting.get(value, -1))
        elif well or value != held:
            if value != held or (trust >= holder and (trust > holder or not well_held)):
                held, holder, safe, well_held = value, trust, well or again, well
            waiting = {other: more for other, more in waiting.items() if more > trust and other != value}
        check_beliefs(store, key, held, waiting)
    if isinstance(store, JSONMemoryStore):
        store.flush()
        store.load()
        check_beliefs(store, key, held, waiting)


def check_beliefs(store, key, held, waiting):
    doubts = [fact for fact in store.fact_history(key) if fact.doubtful and not fact.invalidated_at]
    assert store.get_fact(key) == held
    assert {fact.value for fact in doubts} == set(waiting)
