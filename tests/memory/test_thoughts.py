"""Thoughts and edges of a memory: stored ones, what is shown as one, cycles, marks, and what goes with what."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemem.errors import DuplicateEdgeError, InvalidInputError, InvalidTransitionError, ThoughtNotFoundError
from edgemem.memory import Memory
from edgemem.memory.users import Episode
from edgemem.records import Heard, Procedure, ProcedureStep, Reader
from edgemem.session.tools import ToolTurn
from edgemem.store.kinds import SHOWN
from edgemem.thoughts import flattened
from support.embedders import HashEmbedder
from support.homes import ALICE, BOB, STRANGER, check_of, opened, patient, tell
from support.refusals import refusal
from support.thoughts import an_edge, thought

HALL = {"room": "hall"}


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
    """Nobody can store a thought under an id by which a record is shown, and none is changed there."""
    with pytest.raises(InvalidInputError, match="own"):
        memory.thoughts.create_thought(thought(name))
    with pytest.raises(ThoughtNotFoundError):
        memory.thoughts.update_thought(name, content="a cup")


def test_thoughts_of_any_collection_are_stored_and_else_refused(memory: Memory) -> None:
    """A generator is read once, and one thought, or an expiry that is no number, is named in a sentence."""
    assert len(memory.thoughts.bulk_store(thought(name) for name in "ab")) == len("ab")  # type: ignore[arg-type]
    for wrong in (None, thought("c")):
        with pytest.raises(InvalidInputError, match="list of thoughts"):
            memory.thoughts.bulk_store(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="expires_after_seconds"):
        memory.thoughts.create_thought(thought("c"), expires_after_seconds="5")  # type: ignore[arg-type]
    assert memory.thoughts.count_thoughts() == len("ab")


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


def test_what_is_shown_is_listed_and_counted_by_its_kind(memory: Memory) -> None:
    """Stored thoughts alone without `kinds`; else what the kinds hold, with its marks, and the state of now."""
    thoughts = memory.thoughts
    thoughts.create_thought(thought("mug"))
    memory.store.add_fact("tea", "green", scope="household", valid_from=10.0)
    memory.store.add_fact("tea", "black", scope="household", valid_from=20.0)
    memory.store.set_preference("tone", "brief")
    with memory.session("s").turn("Hello.", speaker="ines") as turn:
        turn.reply("Hello, Ines.")
    (green, black), every = (
        sorted(thoughts.list_thoughts(kinds={"fact"}), key=lambda one: one.created_at or ""),
        {"thought", *SHOWN},
    )
    assert (green.content, green.lifecycle_status, black.lifecycle_status) == ("tea: green", "DONE", "ACTIVE")
    assert [one.thought_id for one in thoughts.list_thoughts(kinds={"fact"}, lifecycle_status="ACTIVE")] == [
        black.thought_id
    ]
    assert (
        thoughts.count_thoughts(),
        thoughts.count_thoughts(kinds=every),
        thoughts.count_thoughts(kinds=()),
    ) == (1, 6, 0)
    thoughts.update_thought(green.thought_id, priority="P1")
    assert [one.thought_id for one in thoughts.list_thoughts(kinds=every, priority="P1")] == [
        green.thought_id
    ]
    assert thoughts.count_thoughts(kinds=every, thought_type="OUTPUT_DRAFT") == 1
    assert [one.thought_id for one in thoughts.list_thoughts(kinds=every, limit=2, offset=4)] != []
    for kinds in ("fact", {"note"}, 3):
        refusal(InvalidInputError, thoughts.list_thoughts, match="kinds must be", kinds=kinds)
    refusal(InvalidInputError, thoughts.search, "tea", match="kinds has no", kinds={"facts"})


def test_an_update_is_another_version_under_the_same_id(memory: Memory) -> None:
    """The record says something else then, is found by that alone, and keeps its edges and counts."""
    memory.thoughts.bulk_store([thought("mug"), thought("cup", content="A cup.")])
    memory.thoughts.create_edge(an_edge("e", "mug", "cup"))
    memory.thoughts.record_access("mug")
    changed = memory.thoughts.update_thought(
        "mug", content="The red saucer is chipped.", essence="Red saucer"
    )
    assert (changed.access_count, changed.created_cycle) == (1, 0)
    assert memory.thoughts.search("the red saucer")[0][0] == "mug"
    assert memory.thoughts.search("whose is the blue mug in the kitchen")[0][0] != "mug"
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
    assert restored.lifecycle_status == "ACTIVE"
    assert restored.archived_at is restored.archived_at_cycle is None
    with pytest.raises(InvalidTransitionError):
        memory.thoughts.restore_thought("mug")
    assert [name for name, _ in memory.thoughts.search("blue mug")] == ["mug"]


def test_what_expired_or_ended_is_found_by_nothing(memory: Memory) -> None:
    """Neither recall nor a search tells as current what is over; what is pinned is kept, and not told either."""
    now = memory.diagnostics.clock.now()
    memory.thoughts.create_thought(thought("expired", expires_at=now - 5))
    memory.thoughts.create_thought(thought("ended", valid_until=now - 5))
    memory.thoughts.create_thought(thought("later", valid_from=now + 500))
    memory.thoughts.create_thought(thought("kept", expires_at=now - 5, pinned=True))
    memory.thoughts.create_thought(thought("old", expires_at=now - 5, lifecycle_status="ARCHIVED"))
    assert memory.thoughts.search("blue mug") == []
    assert {thought.thought_id for thought in memory.thoughts.list_thoughts()} == {"ended", "later"}
    result = memory.thoughts.cleanup_expired()
    assert (result.expired_count, result.pinned_kept_count) == (2, 1)
    assert {t.thought_id for t in memory.thoughts.list_thoughts(lifecycle_status="ARCHIVED")} == {
        "expired",
        "old",
    }
    assert memory.thoughts.restore_thought("old").expires_at is None


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
    assert _shown(memory, held) == ("OBSERVATION", "DONE")
    assert _shown(memory, newer) == ("OBSERVATION", "ACTIVE")
    for query, kind, shown in (
        ("canoe", "turn", ("OBSERVATION", "ACTIVE")), ("units", "preference", ("BELIEF", "ACTIVE")),
        ("drive door", "episode", ("OBSERVATION", "ACTIVE")),
    ):  # fmt: skip
        found = [name for name, _ in thoughts.search(query, kinds={kind})]  # type: ignore[arg-type]
        assert _shown(memory, found[0]) == shown
    assert thoughts.get_thought("fact:12") is None
    assert thoughts.list_thoughts() == []


@pytest.mark.parametrize("text", [" \n", "x" * (1 << 21)])
def test_what_no_thought_may_hold_is_shown_all_the_same(memory: Memory, text: str) -> None:
    """A message that is blank, or longer than a thought may be, can be read and marked; so can an episode without words."""
    tell(memory, text)
    memory.store.add_episode("drive", {}, "ok", agent=" ", summary=text[:9], metadata=HALL)
    ((turn,),) = memory.diagnostics.database.query("select id from messages")
    marked = memory.thoughts.update_thought(f"turn:{turn}", pinned=True)
    assert memory.thoughts.get_thought(f"turn:{turn}") == marked
    episode = memory.thoughts.get_thought(f"episode:{memory.store.recent_episodes(1)[0].id}")
    assert episode is not None
    assert episode.metadata == HALL


def _shown(memory: Memory, name: str) -> tuple[str, str]:
    stated = memory.thoughts.get_thought(name)
    assert stated is not None
    return stated.thought_type, stated.lifecycle_status


def test_whatever_a_search_finds_is_a_thought(tmp_path: Path) -> None:
    """Lines of notes, sections of the bank and procedures too, for who may read them; without edges, and with another door."""
    with opened(tmp_path / "home", '[bank]\nbackend = "files"\n') as memory:
        memory.notes.append("- The canoe has a leak.")
        memory.bank.household.write_file("canoe.md", "The canoe is in the shed.")
        step = ProcedureStep("glue", {"what": "canoe"})
        memory.procedures.store(Procedure("p", "patch", "Patch the canoe.", "patch the canoe", (step,)))
        found = [name for name, _ in memory.thoughts.search("the canoe", reader=ALICE)]
        assert {name.partition(":")[0] for name in found} == {"note", "bank", "procedure"}
        for name in found:
            shown = memory.thoughts.get_thought(name, reader=ALICE)
            assert shown is not None
            assert "canoe" in shown.essence
            assert (shown.thought_id, shown.thought_type, shown.lifecycle_status) == (name, "NOTE", "ACTIVE")
            assert memory.why(name, reader=ALICE) == (shown, (), (), ())
            assert (memory.thoughts.get_thought(name, reader=STRANGER) is None) is (name[:4] != "proc")
            with pytest.raises(ThoughtNotFoundError, match="nothing to mark"):
                memory.thoughts.update_thought(name, pinned=True)
        assert memory.thoughts.get_thought("note:1") is None


def test_a_doubt_contests_a_fact_until_it_is_settled(memory: Memory) -> None:
    """An open doubt is a belief that was created; the fact is contested by it, and `check` tells so."""
    assert check_of(memory, "contested").state == "ok"
    held = fact(memory, "door.code", "4711", heard=Heard(speaker="alice", asr_confidence=0.9))
    memory.store.add_fact(
        "door.code", "4712", scope="household", heard=Heard(speaker="alice", asr_confidence=0.1)
    )
    (edge,) = memory.thoughts.get_edges(held)
    assert (edge.edge_type, edge.from_thought_id) == ("CONTESTED_BY", held)
    assert _shown(memory, edge.to_thought_id) == ("BELIEF", "CREATED")
    why = memory.why(held)
    assert why is not None
    assert [doubt.content for doubt in why.contested] == ["door.code: 4712"]
    row = check_of(memory, "contested")
    assert (row.state, row.detail) == ("warn", "1 memory contested: door.code")
    assert "edgemem why door.code" in row.advice


def test_a_mark_is_set_beside_what_is_shown(memory: Memory) -> None:
    """Priority, pin, end, metadata and voice of a fact can be set; anything else is told whose door it is."""
    held = fact(memory, "gate.code", "4711")
    marked = memory.thoughts.update_thought(held, priority="P1", pinned=True, metadata=HALL, aloud=False)
    assert memory.thoughts.get_thought(held) == marked
    assert (marked.priority, marked.pinned, marked.metadata, marked.aloud) == ("P1", True, HALL, False)
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
    found = memory.thoughts.search("note the canoe", kinds={"turn"})
    shown = {_shown(memory, name)[0]: name for name, _ in found}
    (edge,) = memory.thoughts.get_edges(shown["OUTPUT_DRAFT"])
    assert (edge.edge_type, edge.to_thought_id) == ("MESSAGE_OF", shown["OBSERVATION"])


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


def test_a_mark_moves_with_what_one_person_said(memory: Memory, tmp_path: Path) -> None:
    """An export by person takes it along, or a robot that imports what she told the household would say it aloud; others' stay."""
    gate = fact(memory, "gate.code", "4711 Zulu", heard=Heard("alice"), aloud=False)
    tell(memory, "The canoe leaks.", speaker="alice")
    ((ref,),) = memory.diagnostics.database.query("select id from messages")
    said, bobs = f"turn:{ref}", fact(memory, "tea", "green", heard=Heard("bob"), metadata=HALL)
    memory.thoughts.update_thought(said, pinned=True)
    for edge in (
        an_edge("hers", said, gate),
        an_edge("out", said, bobs),
        an_edge("shut", gate, said, level="private", owner="bob"),
    ):
        memory.thoughts.create_edge(edge)
    with opened(tmp_path / "other") as other:
        assert not other.import_lines(line.encode() for line in memory.export(speaker="alice")).refused
        for name in (gate, said):
            assert other.thoughts.get_thought(name) == memory.thoughts.get_thought(name)
        assert other.diagnostics.database.query("select 1 from marks where subject = ?", (bobs,)) == []
        assert [edge.edge_id for edge in other.thoughts.list_edges()] == ["hers"]
        assert "4711" not in other.store.render_for_prompt()


@pytest.mark.parametrize(
    "method", ["get_thought", "get_edges", "related", "delete_thought", "update_thought"]
)
def test_an_id_that_is_no_text_is_refused(memory: Memory, method: str) -> None:
    """A number is nobody's id, whatever is asked for it."""
    with pytest.raises(InvalidInputError, match="must be text"):
        getattr(memory.thoughts, method)(7)
    refusal(InvalidInputError, memory.why, 7, match="must be text")


@pytest.mark.parametrize("method", ["search", "get_thought", "get_edges", "related"])
def test_a_reader_that_is_a_text_is_refused(memory: Memory, method: str) -> None:
    """A name says not who else hears it."""
    memory.thoughts.create_thought(thought("mug"))
    refusal(
        InvalidInputError,
        getattr(memory.thoughts, method),
        "mug",
        match=r"write Reader\('ines'\)",
        reader="ines",
    )


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


def put(memory: Memory, kind: str, name: str, metadata: dict[str, Any]) -> str:
    """Store a record of a canoe with metadata; return its id."""
    text = f"the canoe {name}"
    if kind == "fact":
        return fact(memory, f"canoe.{name}", text, metadata=metadata)
    if kind == "thought":
        record = thought(name, essence=text, content=text, metadata=metadata)
        return memory.thoughts.create_thought(record).thought_id
    tell(memory, text, name)
    ((turn, _),) = memory.thoughts.search(text, kinds={"turn"}, top_k=1)
    return memory.thoughts.update_thought(turn, metadata=metadata).thought_id


def found(memory: Memory, filters: Mapping[str, Any] | None, **more: Any) -> set[str]:
    return {name for name, _ in memory.thoughts.search("the canoe", top_k=50, filters=filters, **more)}


def passing(metadata: dict[str, Any], filters: dict[str, list[Any]]) -> bool:
    """Tell by a look at each value whether metadata passes."""
    kept = [(path[2:], type(value) is bool, value) for path, value in flattened(metadata)]
    asked = {path.removeprefix("$."): values for path, values in filters.items()}
    return all(any((path, type(v) is bool, v) in kept for v in values) for path, values in asked.items())


_NAMES, _VALUES = st.sampled_from("ab"), st.sampled_from((True, 1, "1", 1.0, 0, False, None, 2.5, "x\u2028y"))
_METADATA = st.dictionaries(_NAMES, _VALUES | st.dictionaries(_NAMES, _VALUES), min_size=1)
_KINDS, _PATHS = st.sampled_from(("fact", "thought", "turn")), st.sampled_from(("a", "$.b", "a.a", "$.b.a"))
_FILTERS = st.dictionaries(_PATHS, st.lists(_VALUES, max_size=6), max_size=2)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(_KINDS, _METADATA, st.none() | _METADATA, st.booleans()), max_size=7),
    st.lists(_FILTERS, min_size=3, max_size=6),
)
def test_a_filter_finds_what_passes_and_nothing_else(tmp_path_factory: Any, stored: Any, asked: Any) -> None:
    """Whatever was stored, indexed, and changed before or after that, a search with a filter finds as a look at each record."""
    with opened(tmp_path_factory.mktemp("home"), "[learn]\nlearners = []\n") as memory:
        held: dict[str, dict[str, Any]] = {}
        for number, (kind, metadata, later, is_indexed) in enumerate(stored):
            shown = put(memory, kind, f"number{number}", metadata)
            if is_indexed:
                memory.idle(seconds=2)
            if later is not None:
                memory.thoughts.update_thought(shown, metadata=later)
            held[shown] = metadata if later is None else later
        assert found(memory, None) == held.keys()
        for _ in range(2):
            for filters in asked:
                assert found(memory, filters) == {n for n, kept in held.items() if passing(kept, filters)}
            memory.idle(seconds=2)


def test_a_filter_comes_before_the_ranking_by_meaning(tmp_path: Path) -> None:
    """Of hundreds that are nearer in meaning and do not pass none takes the place of the one that does."""
    with opened(tmp_path, embedder=HashEmbedder(means={"boat": "kayak"}), profile=patient()) as memory:
        near = [thought(f"n{n}", essence="Kayak", content=f"Kayak {n}") for n in range(300)]
        memory.thoughts.bulk_store(near)
        memory.thoughts.create_thought(thought("it", content="An old thing: her kayak leaks.", metadata=HALL))
        memory.idle(seconds=20)
        assert [name for name, _ in memory.thoughts.search("boat", filters=HALL)] == ["it"]


def test_metadata_is_shown_with_what_it_was_given_for(memory: Memory) -> None:
    """Of a fact that is new, told again, or only a doubt, and of episodes, the record, recall and an import have it."""
    room = {"room": "kitchen"}
    held = put(memory, "fact", "red", room)
    plain = [line.encode() for line in memory.export()]
    assert put(memory, "fact", "red", HALL) == held, "the same value is no news"
    doubt = "doubt" + fact(memory, "canoe.red", "sunk", heard=Heard(asr_confidence=0.1), metadata=room)[4:]
    memory.episodes.store(Episode("e", "the canoe race", metadata={**room, "crew": ["ann", {"n": [1]}]}))
    assert memory.episodes.recall_recent()[0].metadata["crew"] == ["ann", {"n": [1]}]
    episode = f"episode:{memory.store.recent_episodes(1)[0].id}"
    kept = {held: HALL, doubt: room, episode: room}
    assert [item.metadata for item in memory.recall("the canoe", filters={"$.room": ["hall"]})] == [HALL]
    lines = [line.encode() for line in memory.export()]
    with opened(memory.home.parent / "other") as other:
        other.import_lines(plain)
        other.idle(seconds=2)
        other.import_lines(lines)
        for here in (memory, other):
            assert {n: here.thoughts.get_thought(n).metadata for n in kept} == kept  # type: ignore[union-attr]
            assert (found(here, HALL), found(here, room)) == ({held}, {episode})


@pytest.mark.parametrize("wrong", ["room", {1: "a"}, {" ": 1}, {"a": {"b": 1}}, {"a": [[1]]}, {"a": 2**70}])
def test_a_wrong_filter_is_refused(memory: Memory, wrong: Any) -> None:
    """It gives no scalar for a path, and one sentence says so."""
    with pytest.raises(InvalidInputError, match="filters must be a dict"):
        memory.recall("canoe", filters=wrong)


def test_a_filter_opens_nothing(memory: Memory) -> None:
    """Who may not read a record finds it by no metadata; a value of a past time obeys the filter too, and edges before their limit."""
    fact(memory, "canoe", "leaks", "user:alice", metadata=HALL)
    fact(memory, "oar", "blue", valid_from=0.0)
    oar = fact(memory, "oar", "red", metadata=HALL)
    for _ in range(2):
        assert memory.recall("the canoe", speaker="bob", filters=HALL) == []
        past = memory.recall("Which oar was there in 2020?", speaker="bob", filters=HALL)
        assert [item.value for item in past] == ["red"]
        memory.idle(seconds=2)
    memory.thoughts.bulk_store([thought("a"), thought("b")])
    memory.thoughts.create_edge(an_edge("old", "a", oar, metadata=HALL))
    memory.thoughts.create_edge(an_edge("new", "b", oar))
    assert [edge.edge_id for edge in memory.thoughts.list_edges(filters=HALL, limit=1)] == ["old"]


def test_a_search_obeys_valid_times(memory: Memory) -> None:
    """Facts and thoughts are found by when they held; what is true of no time is left out only where bounds are asked for."""
    fact(memory, "canoe.name", "Wal", valid_from=100.0, valid_to=200.0)
    memory.thoughts.create_thought(thought("t", content="the canoe", valid_from=150.0, valid_until=300.0))
    memory.thoughts.create_thought(thought("open", content="the canoe", valid_from=250.0))
    put(memory, "turn", "is blue", {})
    for _ in range(2):
        for validity, expected in (
            ({}, {"open", "turn"}), ({"valid_now": True}, {"open", "turn"}), ({"valid_at": 160.0}, {"fact", "t", "turn"}),
            ({"valid_at": "1970-01-01T00:04:50Z"}, {"t", "open", "turn"}), ({"valid_between": (0, 140)}, {"fact", "turn"}),
            ({"valid_within": (100, 300)}, {"fact", "t"}), ({"valid_within": (100, 300), "valid_at": 210}, {"t"}),
        ):  # fmt: skip
            assert {name.partition(":")[0] for name in found(memory, None, **validity)} == expected
        memory.idle(seconds=2)
    assert [t.thought_id for t in memory.thoughts.list_thoughts(valid_within=(0, 300))] == ["t"]
    for wrong in ({"valid_between": 5}, {"valid_within": (2, 1)}, {"valid_at": "soon"}, {"valid_ago": 1}):
        with pytest.raises(InvalidInputError):
            found(memory, None, **wrong)


def test_a_thought_is_recalled_as_of_a_time(memory: Memory) -> None:
    """One that was stored later was not known; one that ended, or whose mark expired, is told of the time before alone."""
    before = memory.diagnostics.clock.now()
    end = before + 500
    memory.thoughts.create_thought(thought("t", content="the canoe", valid_from=9.0, valid_until=end))
    memory.thoughts.update_thought(put(memory, "fact", "red", {}), expires_at=end)
    known = memory.recall("the canoe", known_at=memory.diagnostics.clock.now())
    assert {item.kind for item in known} == {"thought", "fact"}
    for moment in ({"known_at": before - 1}, {"valid_at": end + 1}, {"valid_at": 5.0}):
        assert memory.recall("the canoe", **moment) == []


def test_neither_prompt_nor_tool_tells_what_is_over(memory: Memory) -> None:
    """Of thoughts in much the same words the one that holds is told, and none that ended or expired."""
    over = memory.diagnostics.clock.now() - 5
    for name, times in (("lake", {"valid_until": over}), ("weir", {"expires_at": over}), ("dock", {})):
        text = f"The canoe of Ines is at the {name}."
        memory.thoughts.create_thought(thought(name, essence=text, content=text, **times))
    memory.thoughts.bulk_store(
        [thought(f"box {n}", content=f"Box {n} is on shelf {7 * n}.") for n in range(30)]
    )
    memory.thoughts.update_thought(fact(memory, "ines.canoe", "sunk"), expires_at=over)
    query = "Where is the canoe of Ines?"
    (tool,) = memory.tools(speaker="alice", include=["search_memory"])
    for _ in range(2):
        with memory.session("kitchen", speaker="alice").turn(query) as turn:
            told = [str(turn.messages), tool.run(ToolTurn(query, ALICE), query=query)]
            turn.abort()
        places = [[word for word in ("dock", "lake", "weir", "sunk") if word in text] for text in told]
        assert places == [["dock"], ["dock"]]
        memory.idle(seconds=2)


def test_of_equal_scores_the_more_important_comes_first(memory: Memory) -> None:
    """P1 comes before P4, confirmed before not, and no score changes by it."""
    ranks = {"p1": ("P1", 0), "p2 again": ("P2", 1), "p2": ("P2", 0), "p4": ("P4", 3)}
    for name, (priority, times) in ranks.items():
        memory.thoughts.create_thought(thought(name, priority=priority, confirmation_count=times))
    scopes = ["household", "env:attic", "user:alice"]
    held = [fact(memory, "canoe", "red", scope) for scope in scopes]
    memory.thoughts.update_thought(held[0], priority="P1")
    for speaker in ("ann", "bob"):
        tell(memory, "red", speaker, speaker=speaker)
        ((turn, _), *_) = memory.thoughts.search("red", kinds={"turn"}, top_k=1)
        memory.thoughts.create_edge(an_edge(speaker, held[1], turn, edge_type="DERIVED_FROM"))
    mugs = memory.recall("the blue mug", kinds={"thought"}, k=9)
    facts = memory.recall("canoe", kinds={"fact"})
    assert ([item.key for item in mugs], [item.scope for item in facts]) == (list(ranks), scopes)
    assert len({item.score for item in mugs}) == len({item.score for item in facts}) == 1


def test_marks_and_edges_stay_where_a_person_gets_another_name(memory: Memory) -> None:
    """A rename writes a fact again under its id, and what hangs on it stays; so does taking the rename back."""
    held = fact(memory, "tea", "green", scope="user:ines")
    memory.thoughts.create_thought(thought("mug", owner="ines"))
    memory.thoughts.create_edge(an_edge("e", "mug", held))
    memory.thoughts.update_thought(held, pinned=True)
    for move in (lambda: memory.people.rename("ines", "inez"), memory.people.undo):
        move()
        assert memory.thoughts.get_thought(held).pinned  # type: ignore[union-attr]
        assert [edge.edge_id for edge in memory.thoughts.get_edges("mug")] == ["e"]
