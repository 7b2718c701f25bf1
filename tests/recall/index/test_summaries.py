"""Summaries: found like everything else, by whoever may read what they were made from, and forgotten with it."""

import pytest

import edgemem
from edgemem.config import ContextSettings, Profile
from edgemem.inspect.replay import Line, Player
from edgemem.recall.index.sources import SUMMARY
from edgemem.records import Epoch
from edgemem.store.erase import delete_rows
from edgemem.store.sessions import SQLiteSessionStore
from edgemem.store.transfer.export import export_lines
from edgemem.store.transfer.merge import import_lines
from edgemem.store.turns import append_epoch
from support.embedders import HashEmbedder
from support.homes import ALICE, BOB, STRANGER, Robot, bytes_of, check

TOLD = "Alice asked for the ladder.\nThe robot said that it leans in the garage."


def sum_up(robot, summary, *, first_turn=9, session="s") -> int:
    """Let an epoch begin with a summary; return its id."""
    return robot.truth.write(lambda tx: append_epoch(tx, Epoch(session, first_turn, summary))).id


def summaries(robot, query="ladder", **options) -> list[str]:
    return [item.text for item in robot.recall(query, k=9, **options) if item.kind == "summary"]


def test_the_newest_stands_for_the_session(robot, settled):
    """An older summary of the same session is not found any more, and nothing of it is left in the index's words."""
    robot.say(0, "where is the ladder", "in the garage")
    sum_up(robot, "the ladder, the zeppelin", first_turn=3)
    settled()
    assert len(summaries(robot)) == 1
    sum_up(robot, "the ladder, the umbrella")
    sum_up(robot, "", first_turn=12)  # an epoch that begins without one says nothing new
    settled()
    assert summaries(robot) == ["the ladder, the umbrella"]
    assert summaries(robot, "zeppelin", min_score=0.1) == []
    robot.idle()
    rows = robot.index.database.query("select terms, session_id from docs where kind = ?", (SUMMARY,))
    ((terms, of),) = rows
    assert "zeppelin" not in terms
    assert of is None, "the words of a session are those of its turns, once"
    check(robot.index)
    sum_up(robot, "the ladder of another talk", session="t")
    assert len(summaries(robot)) == 2


@pytest.mark.parametrize("level", ["shared", "household"])
def test_it_is_read_by_whom_its_epoch_says(robot, settled, level):
    """What the household said is read by people whom the robot knows; what only strangers said by anybody."""
    robot.say(0, "where is the ladder", "in the garage", level="shared")
    robot.truth.write(lambda tx: append_epoch(tx, Epoch("s", 9, TOLD, level=level)))
    settled()
    assert summaries(robot, reader=ALICE) == summaries(robot, reader=BOB) == summaries(robot) == [TOLD]
    assert summaries(robot, reader=STRANGER) == ([TOLD] if level == "shared" else [])


@pytest.mark.parametrize("how", ["person", "session"])
@pytest.mark.parametrize("when", ["before indexing", "after indexing"])
def test_it_is_forgotten_with_what_it_was_made_from(robot, how, when):
    """Whose talk is erased, or which conversation, is in no summary any more: not in the truth, not in the index."""
    robot.say(0, "my zeppelin has a ladder", "noted")
    sum_up(robot, "alice owns a zeppelin with a ladder", first_turn=3)
    if when == "after indexing":
        robot.idle()
    sum_up(robot, "alice has the zeppelin with a ladder")
    if when == "after indexing":
        robot.idle()
        assert len(summaries(robot, "zeppelin")) == 1
    if how == "person":
        robot.truth.write(lambda tx: delete_rows.erase_person(tx, "alice"))
    else:
        SQLiteSessionStore(robot.truth).delete("s")
    assert robot.recall("zeppelin ladder", include_past=True) == []
    robot.index.erase()
    robot.truth.checkpoint()
    robot.idle()
    check(robot.index)
    assert b"zeppelin" not in robot.truth.path.read_bytes()
    assert b"zeppelin" not in bytes_of(robot.index)


def test_what_a_tool_told_of_a_forgotten_fact_leaves_it(robot, settled):
    """The lines in which the memory's tools tell of a fact go with the fact; the rest of the summary stays."""
    robot.store.add_fact("ladder.code", "xylophone", scope="household")
    robot.say(0, "where is the ladder", "in the garage")
    sum_up(robot, "The ladder is in the garage.\nrecall_fact -> ladder.code: xylophone")
    settled()
    assert "xylophone" in summaries(robot)[0]
    robot.truth.write(lambda tx: delete_rows.erase_fact(tx, "ladder.code", scope="household"))
    assert summaries(robot) == ["The ladder is in the garage."]
    robot.index.erase()
    robot.truth.checkpoint()
    robot.idle()
    check(robot.index)
    assert b"xylophon" not in bytes_of(robot.index)


def test_what_compaction_writes_is_recalled(tmp_path, clock):
    """The summary of a long conversation is found by the household; private talk is not in it."""
    profile = Profile(context=ContextSettings(window_tokens=1600))
    with edgemem.open(
        tmp_path / "home", profile=profile, clock=clock, embedder=HashEmbedder(), worker=False
    ) as memory:
        for session, private in (("kitchen", False), ("hall", True)):
            player = Player(memory)
            for n in range(60):
                hidden = private and n == 3
                told = f"Today is the {n}th day and I planted {n} {'orchids' if hidden else 'tulips'} in the garden behind the {session}."
                player.turn(
                    Line(
                        say=told, reply=f"That is {n} more tulips.", at=1_770_000_000.0 + n, session=session,
                        speaker="alice", private=hidden,
                    )
                )  # fmt: skip
                if n % 10 == 9:
                    memory.idle(5.0)
        found = {
            who: {one.session for one in memory.recall("tulips garden", speaker=who, k=9, kinds={"summary"})}
            for who in ("alice", "bob", None)
        }
        assert found == {"alice": {"kitchen", "hall"}, "bob": {"kitchen", "hall"}, None: set()}
        assert "orchids" not in str(memory.recall("orchids", k=9, kinds={"summary"}))
        memory.forget(session="kitchen")
        left = memory.recall("tulips garden", speaker="bob", kinds={"summary"})
        assert {item.session for item in left} == {"hall"}


def test_one_that_is_imported_is_found(tmp_path, clock, hand):
    """A summary of another memory is older than what the index has seen, and is taken in all the same."""
    there, here = (Robot(tmp_path / name, clock) for name in ("there", "here"))
    there.say(0, "where is the ladder", "in the garage", session="theirs")
    sum_up(there, "their ladder, first", first_turn=3, session="theirs")
    sum_up(there, "their ladder, last", session="theirs")
    hand.advance(60)
    here.say(0, "where is the ladder", "in the garage")
    sum_up(here, TOLD)
    here.idle()
    lines = [f"{line}\n".encode() for line in export_lines(there.truth, notes=there.notes)]
    import_lines(here.truth, lines, notes=here.notes)
    here.idle()
    assert set(summaries(here)) == {TOLD, "their ladder, last"}
    check(here.index)
    for robot in (there, here):
        robot.close()
