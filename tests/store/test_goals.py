"""What is kept of people beside facts: goals, phases, session states, summaries, and messages by user and topic."""

from __future__ import annotations

import pytest

import edgemem
from edgemem.records import Heard, StoredMessage, Turn
from edgemem.store import users
from support.homes import BY_WORDS


def fill(memory, person="Alice"):
    def work(tx):
        users.ensure_user(tx, person)
        users.put_goal(tx, person, "canoe", "buy a canoe", {"target_amount": 900, "current_amount": 30})
        users.put_phase(tx, person, "saving", "slowly")
        users.put_state(tx, "boats", person, {"role_id": "skipper"})
        users.put_summary(tx, "boats", person, f"{person} wants to paddle to Trondheim.", 4)
        for role in ("user", "assistant", "tool", "user", "assistant"):
            users.append_message(tx, "boats", person, StoredMessage(role, f"{role} of {person}"))

    memory.diagnostics.database.write(work)


def kept(memory, person="Alice"):
    """Return all that is kept of a person, but for times."""
    db = memory.diagnostics.database
    return (
        users.user_since(db, person) is not None,
        [(goal.name, goal.title, goal.data) for goal in users.read_goals(db, person=person)],
        users.read_phase(db, person),
        users.read_state(db, "boats", person),
        users.read_summary(db, "boats", person),
        [message.content for message in users.read_messages(db, "boats", person, 10)],
    )


NOTHING = (False, [], None, None, None, [])


def test_a_goal_and_a_summary_are_recalled_by_their_person_alone(memory):
    """They are found before and after they are indexed, and by nobody else but the operator."""
    fill(memory)
    for _ in range(2):
        for query, kind in (("a canoe", "goal"), ("paddle to Trondheim", "summary")):
            for who, finds in (("alice", True), ("bob", False), (None, False)):
                assert (kind in {item.kind for item in memory.recall(query, speaker=who)}) == finds
        memory.idle(30)


def test_a_goal_that_changed_is_recalled_as_it_is_now(memory):
    """The text before is not found any more."""
    fill(memory)
    memory.idle(30)
    put = users.put_goal
    memory.diagnostics.database.write(lambda tx: put(tx, "alice", "canoe", "rent a kayak", {}))
    for _ in range(2):
        assert [r.text for r in memory.recall("canoe or kayak") if r.kind == "goal"] == ["goal: rent a kayak"]
        memory.idle(30)


@pytest.mark.parametrize("person", ["alice", "ALICE "])
def test_a_forgotten_person_leaves_nothing(memory, person):
    """Rows, names and bytes go; what is of somebody else in the same session stays."""
    fill(memory)
    fill(memory, "Bob")
    erased = memory.forget(person=person).erased
    once = ("goals", "phases", "users", "session states", "session summaries")
    assert erased == {**dict.fromkeys(once, 1), "turns": 2}
    assert kept(memory) == NOTHING
    assert kept(memory, "Bob")[2] == ("saving", "slowly")
    assert all(b"lice" not in path.read_bytes() for path in memory.home.rglob("*.db*"))


def test_a_forgotten_session_takes_states_and_summaries_along(memory):
    """What is kept of its people beside it stays."""
    fill(memory)
    before = kept(memory)
    assert memory.forget(session="boats")
    assert kept(memory) == (*before[:3], None, None, [])
    assert not [r for r in memory.recall("Trondheim") if r.kind == "summary"]


def test_a_session_on_which_a_state_hangs_outlives_a_discarded_turn(memory):
    """A turn that is thrown away takes only a session along of which nothing is left."""
    journal, db = memory.sessions.journal, memory.diagnostics.database
    db.write(lambda tx: users.put_state(tx, "boats", "Alice", {"role_id": "skipper"}))
    accepted = journal.accept(Turn("boats", 0, (StoredMessage("user", "hm"),), heard=Heard(speaker="Alice")))
    journal.settle()
    journal.discard("boats", accepted).result()
    assert users.read_state(db, "boats", "alice") == {"role_id": "skipper"}


@pytest.mark.parametrize("speaker", [None, "alice"])
def test_an_export_carries_all_of_it(memory, tmp_path, speaker):
    """Read in elsewhere it is the same, a second time adds nothing, and an older one takes nothing back."""
    fill(memory)
    fill(memory, "Bob")
    lines = [line.encode() for line in memory.export(speaker=speaker)]
    with edgemem.open(tmp_path / "other", worker=False, profile=BY_WORDS) as other:
        assert other.import_lines(lines).refused == []
        assert kept(other) == kept(memory)
        assert kept(other, "Bob") == (NOTHING if speaker else kept(memory, "Bob"))
        again = other.import_lines(lines)
        assert (again.added, again.refused) == ({}, [])
        other.diagnostics.database.write(lambda tx: users.put_phase(tx, "alice", "paddling", ""))
        assert len(other.import_lines(lines).refused) == 1
        assert users.read_phase(other.diagnostics.database, "alice") == ("paddling", "")


def test_messages_join_the_turn_that_their_user_began(memory):
    """Those of somebody else between them begin turns of their own."""
    fill(memory)
    said = ("boats", "Bob", StoredMessage("assistant", "for Bob"))
    memory.diagnostics.database.write(lambda tx: users.append_message(tx, *said))
    fill(memory)
    turns = memory.sessions.journal.read_turns("boats")
    assert [(turn.heard.speaker, len(turn.messages)) for turn in turns] == [
        ("Alice", 3), ("Alice", 2), ("Bob", 1), ("Alice", 3), ("Alice", 2),
    ]  # fmt: skip


@pytest.mark.parametrize("keep", [0, 1, 3, 5])
def test_what_was_said_before_is_erased_to_the_byte(memory, keep):
    """What is kept is read as before, in the same turns; another speaker's messages stay."""
    fill(memory)
    fill(memory, "Bob")
    memory.idle(30)
    everything = users.read_messages(memory.diagnostics.database, "boats", "alice", 9)
    assert memory.diagnostics.eraser.messages("boats", "alice", keep=keep) == 5 - keep
    now = users.read_messages(memory.diagnostics.database, "boats", "alice", 9)
    assert now == everything[5 - keep :]
    assert len(users.read_messages(memory.diagnostics.database, "boats", "bob", 9)) == 5
    said = [turn.messages for turn in memory.sessions.journal.read_turns("boats")]
    assert [m.content for messages in said for m in messages if m in now] == [m.content for m in now]
    recalled = {item.text for item in memory.recall("what Alice said to the assistant", k=20)}
    assert {text for text in recalled if "of Alice" in text} <= {m.content for m in now}
    if keep == 1:
        assert all(b"tool of Alice" not in path.read_bytes() for path in memory.home.rglob("*.db*"))
