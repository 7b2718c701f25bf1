"""What hangs by an edge on what a question finds: found with it, by whoever may read the edge and both of its ends."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from edgemem.memory import Memory
from support.homes import opened
from support.thoughts import an_edge, thought

ASK, CASE = "When is the trip to Windermere?", "suitcase: the red one has a broken wheel"


@pytest.fixture
def memory(tmp_path: Path, clock) -> Iterator[Memory]:
    """Return a home in which a trip is planned, and a suitcase broken."""
    with opened(tmp_path / "home", clock=clock) as m:
        m.thoughts.create_thought(
            thought("trip", content="The trip to Windermere is in June.", essence="Windermere in June")
        )
        m.store.add_fact("suitcase", "the red one has a broken wheel", scope="household")
        m.store.add_fact("kettle", "stands on the shelf", scope="household")
        yield m


def link(m: Memory, source: str = "trip", **fields: object) -> None:
    (case,) = (fact for fact in m.store.facts() if fact.key == "suitcase")
    m.thoughts.create_edge(an_edge("e", source, f"fact:{case.id}", **fields))
    m.idle(5)


def found(m: Memory, who: str | None = "alice", **asked: object) -> list[str]:
    return [item.text for item in m.recall(ASK, speaker=who, **asked) if item.score > 0]  # type: ignore[arg-type]


def test_what_an_edge_links_to_the_best_is_found(memory: Memory) -> None:
    """It comes behind with half of the score, for a reason of its own; without the edge it is not found."""
    assert found(memory) == ["Windermere in June"]
    link(memory)
    trip, case, *_ = memory.recall(ASK, speaker="alice")
    assert (case.text, case.why, case.score) == (CASE, ("edge",), pytest.approx(trip.score / 2))
    assert found(memory, kinds={"thought"}) == ["Windermere in June"]
    assert len(found(memory, k=1)) == 1
    memory.thoughts.delete_edge("e")
    assert found(memory) == ["Windermere in June"]


@pytest.mark.parametrize(("fields", "readers"), [
    ({}, {"alice", "bob"}), ({"level": "private", "owner": "bob"}, {"bob"}), ({"level": "private"}, set()),
    ({"valid_until": 1.0}, set()), ({"valid_from": 4e9}, set()), ({"weight": 0.0}, set()),
])  # fmt: skip
def test_an_edge_is_followed_by_who_may_read_it_while_it_holds(
    memory: Memory, fields: dict[str, object], readers: set[str]
) -> None:
    """An edge of another, or of another time, leads nowhere, nor does one that weighs nothing."""
    link(memory, **fields)
    assert {who for who in ("alice", "bob", None) if CASE in found(memory, who)} == readers


def test_what_is_asked_for_bounds_what_an_edge_adds(memory: Memory) -> None:
    """Metadata, and another time."""
    link(memory)
    memory.thoughts.update_thought("trip", metadata={"of": "alice"})
    memory.idle(5)
    assert found(memory, filters={"of": "alice"}) == ["Windermere in June"]
    assert CASE not in found(memory, known_at=memory.diagnostics.clock.now())


def test_what_the_prompt_holds_is_not_told_again(memory: Memory) -> None:
    """A message of this conversation to which an edge leads stands in the prompt already."""
    with memory.session("hall", speaker="alice").turn("The ferry tickets cost ninety pounds.") as turn:
        turn.reply("Noted.")
    (said,) = memory.diagnostics.database.query("select utterance from turns")
    memory.thoughts.create_edge(an_edge("e2", "trip", f"turn:{said[0]}"))
    memory.idle(5)
    assert "The ferry tickets cost ninety pounds." in found(memory)
    assert "The ferry tickets cost ninety pounds." not in found(memory, session="hall")


def test_edges_are_found_by_an_index(memory: Memory) -> None:
    """From either end; a home without edges pays one look."""
    sql = "select name from stored_edges where (source_id in ('a', 'b') or target_id in ('a', 'b')) order by id desc limit 9"
    plan = " ".join(str(row[3]) for row in memory.diagnostics.database.query(f"explain query plan {sql}"))
    assert "MULTI-INDEX OR" in plan
    assert "SCAN" not in plan
