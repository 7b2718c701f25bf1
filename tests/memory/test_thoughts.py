"""Thoughts and edges of a memory: stored ones, what is shown as one, cycles, marks, and what goes with what."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgemem.errors import DuplicateEdgeError, InvalidInputError, InvalidTransitionError, ThoughtNotFoundError
from edgemem.memory import Memory
from edgemem.records import Heard, Reader
from edgemem.thoughts import ThoughtRecord
from support.homes import ALICE, BOB, STRANGER, opened, tell
from support.thoughts import an_edge, thought


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with opened(tmp_path / "home") as memory:
        yield memory


def fact(memory: Memory, key: str, value: str, scope: str = "household", **more: Any) -> str:
    memory.store.add_fact(key, value, scope=scope, **more)
    return f"fact:{memory.store.fact_history(key, scope=scope)[-1].id}"


def test_a_stored_thought_comes_back_as_it_was_given(memory: Memory) -> None:
    """Every field of a record is kept under its caller's id."""
    given = thought(
        "mug", confidence=0.5, valid_from="2026-01-01", valid_until="2027-01-01", metadata={"a": {"b": True}}, pinned=True,
        created_cycle=3, updated_cycle=4, consolidated_from=("x",), expires_at="2030-01-01", aloud=False, owner="Ines",
    )  # fmt: skip
    stored = memory.thoughts.create_thought(given)
    assert stored.evolve(created_at=None, updated_at=None) == given
    assert memory.thoughts.get_thought("mug") == stored
    with pytest.raises(InvalidInputError, match="already"):
        memory.thoughts.create_thought(given)


@pytest.mark.parametrize("name", ["fact:1", "turn:x", "thought:1", "note:3"])
def test_an_id_of_our_own_form_is_refused(memory: Memory, name: str) -> None:
    """Nobody can store a thought under an id by which a record is shown."""
    with pytest.raises(InvalidInputError, match="own"):
        memory.thoughts.create_thought(thought(name))


def test_nobody_stores_a_reflection(memory: Memory) -> None:
    """Reflections are made by learning alone, whatever the door."""
    thoughts, made = memory.thoughts, thought("r", thought_type="REFLECTION")
    for store in (thoughts.create_thought, thoughts.get_or_create, thoughts.upsert_by_hash):
        with pytest.raises(InvalidInputError, match="REFLECTION"):
            store(made)
    thoughts.create_thought(thought("a"))
    with pytest.raises(InvalidInputError, match="REFLECTION"):
        thoughts.update_thought("a", thought_type="REFLECTION")
    assert [one.thought_type for one in thoughts.list_thoughts()] == ["OBSERVATION"]


def test_an_update_is_another_version_under_the_same_id(memory: Memory) -> None:
    """The record says something else then, is found by that alone, and keeps its edges and counts."""
    memory.thoughts.bulk_store([thought("mug"), thought("cup", content="A cup.")])
    memory.thoughts.create_edge(an_edge("e", "mug", "cup"))
    memory.thoughts.record_access("mug")
    changed = memory.thoughts.update_thought(
        "mug", content="The red saucer is chipped.", essence="Red saucer"
    )
    assert (changed.content, changed.access_count, changed.created_cycle) == (
        "The red saucer is chipped.",
        1,
        0,
    )
    assert memory.thoughts.search("the red saucer")[0][0] == "mug"
    assert "mug" not in [name for name, _ in memory.thoughts.search("whose is the blue mug in the kitchen")]
    assert [edge.edge_id for edge in memory.thoughts.get_edges("mug")] == ["e"]
    with pytest.raises(InvalidTransitionError):
        memory.thoughts.update_thought("mug", lifecycle_status="CREATED")


def test_the_archive_is_left_out_of_search_and_can_be_undone(memory: Memory) -> None:
    """An archived thought is found where that is asked, and restored as it was."""
    memory.thoughts.create_thought(thought("mug"))
    archived = memory.thoughts.update_thought("mug", lifecycle_status="ARCHIVED")
    assert archived.archived_at is not None
    assert memory.thoughts.search("blue mug") == []
    assert [name for name, _ in memory.thoughts.search("blue mug", include_archived=True)] == ["mug"]
    restored = memory.thoughts.restore_thought("mug")
    assert (restored.lifecycle_status, restored.archived_at, restored.archived_at_cycle) == (
        "ACTIVE",
        None,
        None,
    )
    assert [name for name, _ in memory.thoughts.search("blue mug")] == ["mug"]


def test_what_expired_or_ended_is_found_by_nothing(memory: Memory) -> None:
    """Neither recall nor a search tells as current what is over; what is pinned is kept, and not told either."""
    now = memory.diagnostics.clock.now()
    memory.thoughts.create_thought(thought("expired", expires_at=now - 5))
    memory.thoughts.create_thought(thought("ended", valid_until=now - 5))
    memory.thoughts.create_thought(thought("later", valid_from=now + 500))
    memory.thoughts.create_thought(thought("kept", expires_at=now - 5, pinned=True))
    assert memory.thoughts.search("blue mug") == []
    assert {thought.thought_id for thought in memory.thoughts.list_thoughts()} == {"ended", "later"}
    result = memory.thoughts.cleanup_expired()
    assert (result.expired_count, result.pinned_kept_count) == (1, 1)
    assert [t.thought_id for t in memory.thoughts.list_thoughts(lifecycle_status="ARCHIVED")] == ["expired"]


@pytest.mark.parametrize(
    ("fields", "readers"),
    [
        ({"visibility": "public"}, "abs"), ({}, "ab"), ({"owner": "alice"}, "a"), ({"visibility": "private"}, ""),
    ],
)  # fmt: skip
def test_a_thought_is_told_to_those_who_may_read_it(
    memory: Memory, fields: dict[str, Any], readers: str
) -> None:
    """Visibility is the level: each reader, and each search, finds what they may hear; the operator sees all by get and list."""
    memory.thoughts.create_thought(thought("mug", **fields))
    for name, reader in (("a", ALICE), ("b", BOB), ("s", STRANGER)):
        found = [item.key for item in memory.recall("whose is the blue mug", speaker=reader.speaker)]
        assert found == (["mug"] if name in readers else [])
        assert (memory.thoughts.get_thought("mug", reader=reader) is not None) == (name in readers)
    assert memory.thoughts.get_thought("mug") is not None
    assert len(memory.thoughts.list_thoughts()) == 1


def test_equal_content_is_confirmed_and_not_stored_twice(memory: Memory) -> None:
    """Where it is asked, the same words for the same readers count as a confirmation, also in other case."""
    memory.thoughts.create_thought(thought("mug"))
    assert memory.thoughts.create_thought(thought("b"), deduplicate=True).thought_id == "mug"
    near = thought("c", content="the blue mug in the kitchen belongs to Ines!")
    assert memory.thoughts.create_thought(near, deduplicate=True).confirmation_count == 2
    theirs = memory.thoughts.create_thought(thought("d", owner="alice"), deduplicate=True)
    assert (theirs.thought_id, theirs.confirmation_count) == ("d", 0)
    assert memory.thoughts.count_thoughts() == 2
    assert memory.thoughts.get_or_create(thought("e"))[1] is False
    assert memory.thoughts.upsert_by_hash(thought("f", priority="P1")).thought_id == "mug"


def test_equal_content_of_two_people_stays_apart_in_one_call(memory: Memory) -> None:
    """What one may read confirms nothing of the other's, whatever the case of its words."""
    memory.thoughts.create_thought(thought("a", owner="alice"))
    told = [
        thought(name, content="the blue mug in the kitchen belongs to INES", owner=name)
        for name in ("alice", "bob")
    ]
    kept = memory.thoughts.bulk_store(told, deduplicate=True)
    assert [(one.thought_id, one.confirmation_count) for one in kept] == [("a", 1), ("bob", 0)]


def test_a_turn_moves_the_cycle_and_an_erased_one_does_not_move_it_back(memory: Memory) -> None:
    """Each turn has the next number, a thought takes the counter's or lifts it, and no number comes twice."""
    tell(memory, "the canoe leaks", "kitchen")
    tell(memory, "the kiln is hot", "hall")
    assert memory.thoughts.max_cycle() == 2
    assert memory.thoughts.create_thought(thought("a")).created_cycle == 2
    memory.forget(session="hall")
    tell(memory, "the barn is red", "yard")
    assert memory.thoughts.max_cycle() == 3
    memory.thoughts.create_thought(thought("b", created_cycle=40, updated_cycle=40))
    tell(memory, "the door squeaks", "shed")
    assert memory.thoughts.max_cycle() == 41


def test_records_of_every_kind_are_shown_as_thoughts(memory: Memory) -> None:
    """Facts, messages, episodes, goals and preferences have a type, a state and their words, and no row."""
    tell(memory, "the canoe leaks", "kitchen")
    held = fact(memory, "ines.tea", "green")
    newer = fact(memory, "ines.tea", "black")
    memory.store.set_preference("units", "metric", scope="household")
    memory.store.add_episode("drive", {"to": "door"}, "ok")
    thoughts = memory.thoughts
    assert thoughts.get_thought(newer).essence == "ines.tea: black"  # type: ignore[union-attr]
    assert _shown(thoughts.get_thought(held)) == ("OBSERVATION", "DONE")
    assert _shown(thoughts.get_thought(newer)) == ("OBSERVATION", "ACTIVE")
    for query, kind, shown in (
        ("canoe", "turn", ("OBSERVATION", "ACTIVE")), ("units", "preference", ("BELIEF", "ACTIVE")),
        ("drive door", "episode", ("OBSERVATION", "ACTIVE")),
    ):  # fmt: skip
        found = [name for name, _ in thoughts.search(query, kinds={kind})]  # type: ignore[arg-type]
        assert _shown(thoughts.get_thought(found[0])) == shown
    assert thoughts.get_thought("fact:12") is None
    assert thoughts.list_thoughts() == []


def _shown(stated: ThoughtRecord | None) -> tuple[str, str]:
    assert stated is not None
    return stated.thought_type, stated.lifecycle_status


def test_a_doubt_contests_a_fact_until_it_is_settled(memory: Memory) -> None:
    """An open doubt is a belief that was created; the fact is contested by it."""
    held = fact(memory, "door.code", "4711", heard=Heard(speaker="alice", asr_confidence=0.9))
    memory.store.add_fact(
        "door.code", "4712", scope="household", heard=Heard(speaker="alice", asr_confidence=0.1)
    )
    (edge,) = memory.thoughts.get_edges(held)
    assert (edge.edge_type, edge.from_thought_id) == ("CONTESTED_BY", held)
    assert _shown(memory.thoughts.get_thought(edge.to_thought_id)) == ("BELIEF", "CREATED")
    why = memory.thoughts.why(held)
    assert why is not None
    assert [doubt.content for doubt in why.contested] == ["door.code: 4712"]


def test_a_mark_is_set_beside_what_is_shown(memory: Memory) -> None:
    """Priority, pin, end, metadata and voice of a fact can be set; anything else is told whose door it is."""
    held = fact(memory, "gate.code", "4711")
    marked = memory.thoughts.update_thought(
        held, priority="P1", pinned=True, metadata={"room": "hall"}, aloud=False
    )
    assert memory.thoughts.get_thought(held) == marked
    assert (marked.priority, marked.pinned, marked.metadata, marked.aloud) == (
        "P1",
        True,
        {"room": "hall"},
        False,
    )
    with pytest.raises(InvalidInputError, match="add_fact"):
        memory.thoughts.update_thought(held, content="4712")
    memory.thoughts.update_thought(held, expires_at=1.0)
    assert [item for item in memory.recall("gate code") if item.kind == "fact"] == []
    memory.forget(key="gate.code", scope="household")
    assert memory.diagnostics.database.query("select * from marks") == []


def test_edges_need_both_ends_and_go_with_one(memory: Memory) -> None:
    """An edge to nothing or a second one is refused; it goes when the thing at one end is forgotten."""
    memory.thoughts.create_thought(thought("mug"))
    held = fact(memory, "ines.tea", "green")
    with pytest.raises(ThoughtNotFoundError):
        memory.thoughts.create_edge(an_edge("e", "mug", "nothing"))
    memory.thoughts.create_edge(an_edge("e", "mug", held, weight=0.5))
    with pytest.raises(DuplicateEdgeError):
        memory.thoughts.create_edge(an_edge("f", "mug", held))
    assert memory.thoughts.update_edge("e", weight=0.25).weight == 0.25
    with pytest.raises(InvalidInputError, match="ends"):
        memory.thoughts.update_edge("e", to_thought_id="other")
    memory.forget(key="ines.tea", scope="household")
    assert memory.thoughts.list_edges() == []


def test_a_mark_and_an_edge_follow_a_preference_that_changes(memory: Memory) -> None:
    """A preference gets another id with another value, and what hangs on it comes along."""
    memory.store.set_preference("units", "metric", scope="household")
    memory.thoughts.create_thought(thought("mug"))
    (name,) = [name for name, _ in memory.thoughts.search("units", kinds={"preference"})]
    memory.thoughts.update_thought(name, pinned=True)
    memory.thoughts.create_edge(an_edge("e", "mug", name))
    memory.store.set_preference("units", "imperial", scope="household")
    (newer,) = [name for name, _ in memory.thoughts.search("units", kinds={"preference"})]
    assert newer != name
    assert memory.thoughts.get_thought(newer).pinned  # type: ignore[union-attr]
    assert [edge.to_thought_id for edge in memory.thoughts.get_edges("mug")] == [newer]


def test_an_edge_is_read_by_who_reads_both_ends(memory: Memory) -> None:
    """What is private at one end closes the edge, and what two people own at its ends only the operator sees."""
    memory.thoughts.bulk_store([thought("a", owner="alice"), thought("b", owner="bob"), thought("c")])
    memory.thoughts.create_edge(an_edge("ac", "a", "c"))
    memory.thoughts.create_edge(an_edge("ab", "a", "b"))

    def read(reader: Reader | None) -> list[str]:
        return [edge.edge_id for edge in memory.thoughts.list_edges(reader=reader)]

    assert (read(None), read(ALICE), read(BOB), read(STRANGER)) == (["ab", "ac"], ["ac"], [], [])
    assert memory.thoughts.related("c", 2, reader=BOB) == []
    assert [(distance, edge.edge_id) for distance, edge in memory.thoughts.related("c", 2)] == [
        (1, "ac"),
        (2, "ab"),
    ]


def test_a_reply_is_linked_to_its_utterance(memory: Memory) -> None:
    """What the robot answered is a draft that hangs on what was said, without a row."""
    with memory.session("kitchen", speaker="alice").turn("The canoe leaks.") as turn:
        turn.reply("I shall note the canoe.")
    memory.diagnostics.sessions.journal.settle()
    (reply,) = [
        name
        for name, _ in memory.thoughts.search("note the canoe", kinds={"turn"})
        if _is_reply(memory, name)
    ]
    (edge,) = memory.thoughts.get_edges(reply)
    assert edge.edge_type == "MESSAGE_OF"
    assert memory.thoughts.get_thought(edge.to_thought_id).content == "The canoe leaks."  # type: ignore[union-attr]


def _is_reply(memory: Memory, name: str) -> bool:
    return _shown(memory.thoughts.get_thought(name))[0] == "OUTPUT_DRAFT"


@pytest.mark.parametrize("name", ["mug", "fact", "turn", "episode", "preference"])
def test_deleting_a_thought_is_forgetting_it(memory: Memory, name: str) -> None:
    """Stored or shown, its bytes are gone from the truth, and a second time there is none."""
    words = "zanzibar canoe"
    if name == "mug":
        memory.thoughts.create_thought(thought("mug", content=words))
        target = "mug"
    elif name == "fact":
        target = fact(memory, "boat", words)
    else:
        if name == "turn":
            tell(memory, words, "kitchen")
        elif name == "episode":
            memory.store.add_episode("note", {"text": words}, "ok")
        else:
            memory.store.set_preference("boat", words)
        target = memory.thoughts.search(words, kinds={name})[0][0]  # type: ignore[arg-type]
    assert memory.thoughts.delete_thought(target)
    assert not memory.thoughts.delete_thought(target)
    assert memory.thoughts.get_thought(target) is None
    assert b"zanzibar" not in (memory.home / "db" / "memory.db").read_bytes()


def test_thoughts_edges_and_marks_move_to_another_memory(memory: Memory, tmp_path: Path) -> None:
    """An export holds them, an import gives them back, and a second one adds nothing."""
    memory.thoughts.create_thought(
        thought("mug", metadata={"room": "hall"}, expires_at="2099-01-01", owner="alice")
    )
    held = fact(memory, "ines.tea", "green")
    memory.thoughts.update_thought(held, pinned=True)
    memory.thoughts.create_edge(an_edge("e", "mug", held, metadata={"why": "told"}, created_cycle=7))
    lines = [line.encode() for line in memory.export()]
    with opened(tmp_path / "other") as other:
        assert not other.import_lines(lines).refused
        assert other.import_lines(lines).added == {}
        assert other.thoughts.get_thought("mug") == memory.thoughts.get_thought("mug")
        assert other.thoughts.get_thought(held) == memory.thoughts.get_thought(held)
        assert other.thoughts.get_edges("mug") == memory.thoughts.get_edges("mug")
        assert other.thoughts.max_cycle() == memory.thoughts.max_cycle() == 7


def test_a_look_up_goes_by_an_index(memory: Memory) -> None:
    """Edges of a thought, equal content and the newest turn are found without reading a table."""
    database = memory.diagnostics.database
    for sql in (
        "select * from stored_edges where source_id = 'a' or target_id = 'a'",
        "select * from stored_thoughts where substr(content, 1, 64) = 'a' and content is 'a'",
        "select * from stored_thoughts where source = 'a' and type = 'b'",
        "select * from marks where subject = 'a'",
    ):
        plan = " ".join(str(row[3]) for row in database.query(f"explain query plan {sql}"))
        assert "SEARCH" in plan
        assert "SCAN" not in plan
