"""Procedures: stored, suggested by what is asked and what works, counted, read by whom they may be, and forgotten."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import edgemem
from edgemem import Heard, Procedure, ProcedureStep, Reader
from edgemem.errors import InvalidInputError
from edgemem.records import StoredMessage, Turn
from support.homes import files_with

STEPS = (
    ProcedureStep("drive", {"to": "kitchen", "speed": 2}, "the robot stands there"),
    ProcedureStep("grip", {"what": "quixotic cup"}),
)


def fetch(name: str = "p", success: int = 0, failure: int = 0, **more: Any) -> Procedure:
    return Procedure(name, "Fetch", "", "bring me the red cup", STEPS, success, failure, **more)


def suggested(memory: edgemem.Memory, query: str = "bring the red cup", **how: Any) -> list[str]:
    return [procedure.id for procedure in memory.procedures.suggest(query, **how)]


def test_a_procedure_is_read_as_it_was_stored(memory: edgemem.Memory) -> None:
    """With its rates worked out, and a level that says who may read it."""
    given = fetch(success=3, failure=1, tags=("cup",), metadata={"by": [1]}, session="hall", turn=2)
    memory.procedures.store(given)
    kept = memory.procedures.get("p")
    assert (kept.level, kept.total_uses, kept.success_rate) == ("shared", 4, 0.75)
    assert memory.procedures.list() == [kept]
    assert memory.procedures.count() == 1
    assert memory.procedures.get("q") is None


def test_what_works_comes_first(memory: edgemem.Memory) -> None:
    """99 of 100 before 1 of 1, and an unused one before one that always fails."""
    for name, success, failure in (("fails", 0, 3), ("once", 1, 0), ("new", 0, 0), ("often", 99, 1)):
        memory.procedures.store(fetch(name, success, failure))
    assert suggested(memory, top_k=9) == ["often", "once", "new", "fails"]
    assert suggested(memory) == ["often", "once", "new"]
    assert memory.idle(30)
    assert suggested(memory, top_k=9) == ["often", "once", "new", "fails"]


def test_what_does_not_fit_is_not_suggested(memory: edgemem.Memory) -> None:
    """However often it worked; nor is one whose tool is gone."""
    memory.procedures.store(fetch(success=1000))
    for query in ("how old is Mara?", "", "the", "two plus two"):
        assert suggested(memory, query) == []
    assert suggested(memory, tools={"drive", "grip", "sing"}) == ["p"]
    assert suggested(memory, tools={"drive"}) == []


def test_it_is_found_by_trigger_name_description_and_tags(memory: edgemem.Memory) -> None:
    """As Cognitia finds it."""
    given = Procedure("d", "Rollout", "blue-green pipeline", "ship it", STEPS, tags=("staging",))
    memory.procedures.store(given)
    for query in ("rollout", "blue-green pipeline", "ship it", "staging"):
        assert suggested(memory, query) == ["d"]


def test_outcomes_are_counted_from_any_thread(memory: edgemem.Memory) -> None:
    """None is lost, and one of an unknown id counts nothing."""
    memory.procedures.store(fetch())
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda n: memory.procedures.record_outcome("p", success=n % 4 > 0), range(40)))
    assert all(done)
    kept = memory.procedures.get("p")
    assert (kept.success_count, kept.failure_count) == (30, 10)
    assert not memory.procedures.record_outcome("q", success=True)


def test_counts_survive_storing_again(memory: edgemem.Memory) -> None:
    """What was learnt of a procedure is not lost with a better description, nor with counts that are out of date."""
    memory.procedures.store(fetch(success=2))
    memory.procedures.record_outcome("p", success=False)
    memory.procedures.store(Procedure("p", "Water", "", "water the plants", STEPS, 1, 0))
    (kept,) = memory.procedures.list()
    assert (kept.success_count, kept.failure_count) == (2, 1)
    assert suggested(memory) == []
    assert suggested(memory, "water the plants") == ["p"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("fetch", "must be a Procedure"),
        (Procedure("", "n", "d", "t"), "must not be empty"),
        (Procedure("p", "n", "d", "t", STEPS * 500), "may have 64 steps, not 1,000"),
        (Procedure("p", "n", "d", "t", ("grip",)), "must be a ProcedureStep"),  # type: ignore[arg-type]
        (Procedure("p", "n", "d", "t", (ProcedureStep("grip", {"a": "x" * 70_000}),)), "shorten"),
        (Procedure("p", "n", "d", "t" * 20_000), "trigger of a procedure"),
        (Procedure("p", "n", "d", "t", STEPS, -1), "0 or more"),
    ],
)
def test_what_is_no_procedure_is_refused(memory: edgemem.Memory, given: Any, sentence: str) -> None:
    """In one sentence, and nothing is kept."""
    with pytest.raises(InvalidInputError, match=sentence):
        memory.procedures.store(given)
    assert memory.procedures.count() == 0


def test_it_is_read_by_whom_it_may_be(memory: edgemem.Memory) -> None:
    """The operator's by anybody, a speaker's by the household, a private one by its owner alone."""
    mara = Heard(speaker="Mara")
    memory.procedures.store(fetch("open"))
    memory.procedures.store(fetch("taught", heard=mara))
    memory.procedures.store(fetch("secret", heard=mara, level="private"))
    for _ in range(2):
        assert set(suggested(memory, reader=Reader())) == {"open"}
        assert set(suggested(memory, reader=Reader("Ben"))) == {"open", "taught"}
        assert set(suggested(memory, reader=Reader("mara"))) == {"open", "taught", "secret"}
        assert memory.procedures.get("secret", reader=Reader("Ben")) is None
        assert memory.procedures.count(reader=Reader("Mara", frozenset({"Ben"}))) == 2
        assert memory.idle(30)


def test_a_forgotten_person_leaves_what_others_may_use_without_its_constants(memory: edgemem.Memory) -> None:
    """What they own goes whole; of what they taught, the names of tools and arguments stay."""
    mara = Heard(speaker="Mara", room="hall")
    memory.procedures.store(fetch("own", heard=mara, level="private"))
    memory.procedures.store(fetch("taught", heard=mara, metadata={"for": "quixotic"}, session="hall", turn=1))
    assert memory.idle(30)
    erased = memory.forget(person="mara")
    assert erased.erased == {"procedures": 1, "constants of procedures": 1}
    (kept,) = memory.procedures.list()
    left = [(step.tool_name, step.args_template) for step in kept.steps]
    assert left == [("drive", {"to": "", "speed": ""}), ("grip", {"what": ""})]
    assert (kept.heard, kept.session, kept.turn, kept.metadata) == (None, "", None, {})
    for word in ("quixotic", "Mara"):
        assert files_with(memory.home, word) == []
    assert suggested(memory) == ["taught"]


def test_what_was_learnt_in_a_turn_of_a_forgotten_person_loses_its_constants(memory: edgemem.Memory) -> None:
    """Also where nobody said who taught it; what was learnt in another turn stays as it was."""
    for n, who in enumerate(("Mara", "Ben")):
        said = (StoredMessage("user", "bring it"),)
        memory.sessions.journal.commit(Turn("hall", n, said, owner=who, heard=Heard(speaker=who))).result()
        memory.procedures.store(fetch(who, session="hall", turn=n))
        memory.store.add_episode("task", {}, "ok", name=who, session="hall", turn=n)
    assert memory.forget(person="mara").erased == {"turns": 1, "episodes": 1, "constants of procedures": 1}
    given = {procedure.id: procedure.steps[1].args_template for procedure in memory.procedures.list()}
    assert given == {"Mara": {"what": ""}, "Ben": {"what": "quixotic cup"}}
    assert [episode.name for episode in memory.store.episodes()] == ["Ben"]


def test_a_forgotten_session_takes_constants_and_episodes_along(memory: edgemem.Memory) -> None:
    """What was learnt and lived through in another one stays as it was."""
    memory.sessions.save("hall", edgemem.Session([{"role": "user", "content": "bring it"}]))
    for name in ("hall", "kitchen"):
        memory.procedures.store(fetch(name, session=name, turn=0))
        memory.store.add_episode("task", {}, "ok", name=name, summary="Brought it.", session=name)
    assert memory.forget(session="hall")
    given = {procedure.id: procedure.steps[1].args_template for procedure in memory.procedures.list()}
    assert given == {"hall": {"what": ""}, "kitchen": {"what": "quixotic cup"}}
    assert [episode.name for episode in memory.store.episodes()] == ["kitchen"]
    assert [item.session for item in memory.recall("brought", kinds={"episode"})] == ["kitchen"]


def test_one_is_forgotten_by_its_id(memory: edgemem.Memory) -> None:
    """No byte of it stays in any file."""
    memory.procedures.store(fetch())
    assert memory.idle(30)
    assert files_with(memory.home, "quixotic")
    assert memory.procedures.forget("p").erased == {"procedures": 1}
    assert files_with(memory.home, "quixotic") == []
    assert suggested(memory) == []
    assert not memory.procedures.forget("p")
