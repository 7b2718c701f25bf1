"""What the real Swarmline 1.6.10 wrote (`data/write_swarmline.py`) is taken over: exactly, once, as its users' own."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from edgemem.aio import GoalState
from edgemem.errors import InvalidInputError
from edgemem.store.episodes import tool_stats
from edgemem.takeover.swarmline import SwarmlineMemory, import_swarmline
from support.cli import run
from support.refusals import refusal

FILES = Path(__file__).parents[1] / "data" / "swarmline"


def take_over(memory, path=FILES):
    return import_swarmline(memory.diagnostics.database, memory.bank, SwarmlineMemory(path))


def sqlite_times(path):
    """Return when the rows of its messages and facts were written, in whole seconds."""
    with closing(sqlite3.connect(path)) as db:
        sql = "select unixepoch_(created_at) from messages union select unixepoch_(updated_at) from facts"
        return {int(at) for (at,) in db.execute(sql.replace("unixepoch_(", "strftime('%s', "))}


def test_everything_that_it_kept_is_here(memory):
    """Facts, talk, goals, states, summaries, tool events, episodes, procedures and files stand here as they were."""
    report = take_over(memory)
    assert (report.refused, report.remarks) == ([], [])
    users = memory.users
    assert users.get_facts("Alice") == {
        "diet": "vegan", "shoe_size": 38, "address": {"street": "Elm Road", "number": "42"},
    }  # fmt: skip
    assert users.get_facts("Alice", "party")["diet"] == "vegetarian"
    assert users.get_facts("Bob") == {"locker": "4711"}
    (locker,) = memory.store.facts(scope="user:Bob")
    (turn, _) = memory.sessions.journal.read_turns("kitchen")
    written = sqlite_times(FILES / "agent.sqlite")
    assert {int(at) for at in (locker.valid_from, locker.recorded_at, turn.recorded_at)} <= written
    talk = users.get_messages("Alice", "kitchen")
    assert [message.role for message in talk] == ["user", "assistant", "tool", "assistant"]
    assert talk[1].tool_calls[0]["function"]["name"] == talk[2].name == "fetch"
    assert talk[3].metadata == {"mood": "sorry"}
    of_bob = [message.content for message in users.get_messages("Bob", "kitchen")]
    assert of_bob == ["My locker code is 4711.", "Noted."]
    assert users.get_summary("Alice", "kitchen").startswith("Alice wanted the red cup")
    goal = users.get_active_goal("Alice", "garden")
    assert goal == GoalState("garden", "Plant tomatoes", 12, 3, "sowing", {"next": "water"}, is_main=True)
    state = users.get_session_state("Alice", "kitchen")
    assert [*state.values()][:3] == ["host", ["fetch"], "abc"]
    assert state["delegation_turn_count"] == 2
    assert users.get_phase_state("Bob").notes == "boxes in the hall"
    (tool,) = tool_stats(memory.diagnostics.database)
    assert (tool.tool, tool.calls, tool.failures) == ("fetch", 1, 1)
    lost, fetched = memory.store.episodes(tag="fetch")
    assert (lost.outcome, fetched.name, fetched.decisions, fetched.payload) == (
        "failure", "ep-1", ("right path",), {"seconds": 41},
    )  # fmt: skip
    assert fetched.heard.event_time == 1_773_567_000
    procedure = memory.procedures.get("proc-1")
    assert (procedure.success_count, procedure.failure_count, len(procedure.steps)) == (3, 1, 2)
    assert memory.bank.for_person("Alice", "garden").list_files() == ["MEMORY.md", "plans/beds.md"]


def test_it_is_its_users_own(memory):
    """What somebody told Swarmline is recalled for them, and for nobody else."""
    take_over(memory)
    for question, owner, other in (("locker code", "Bob", "Alice"), ("tomatoes south wall", "Alice", "Bob")):
        assert memory.recall(question, speaker=owner, min_score=0.2)
        assert not memory.recall(question, speaker=other, min_score=0.2)


def test_a_second_time_adds_nothing(memory):
    """Everything is known then, and what was changed here meanwhile stays."""
    first = take_over(memory)
    memory.bank.for_person("Alice", "garden").write_file("MEMORY.md", "# Garden\nours")
    again = take_over(memory)
    assert again.added == {}
    assert sum(again.known.values()) == sum(first.added.values()) - 1
    assert [line for line in again.refused if "MEMORY.md" in line]
    assert memory.bank.for_person("Alice", "garden").read_file("MEMORY.md") == "# Garden\nours"


def test_missing_tables_and_columns_are_named(memory, tmp_path):
    """An application's own tables may lack some: the rest is taken over, and each gap is told."""
    with closing(sqlite3.connect(tmp_path / "own.db")) as db:
        db.executescript(
            "create table messages (user_id text, topic_id text, role text, content text);"
            "insert into messages values ('carol', 'hall', 'user', 'Where is my umbrella?');"
            "create table procedures (id text, data text); insert into procedures values ('x', '{');"
        )
    report = take_over(memory, tmp_path / "own.db")
    users = memory.users
    assert [message.content for message in users.get_messages("carol", "hall")] == ["Where is my umbrella?"]
    assert any("has no table users, facts" in remark for remark in report.remarks)
    assert any("messages of own.db has no name, tool_calls" in remark for remark in report.remarks)
    assert any("procedures was skipped" in remark for remark in report.remarks)


def test_rows_without_a_time_are_of_no_other_age(memory, tmp_path):
    """They were there from the first time that is told, and the same with a second takeover; a goal's flag stays one."""
    with closing(sqlite3.connect(tmp_path / "own.db")) as db:
        db.executescript(
            "create table goals (user_id, topic_id, title, current_amount, is_main, created_at);"
            "insert into goals values ('ann', 'boats', 'A canoe', null, 1, '2026-03-15 09:30:00');"
            "create table tool_events (user_id, topic_id, tool_name, input_json, output_json);"
            "insert into tool_events values ('ann', 'boats', 'web', '{}', '{}');"
            "create table episodes (id, summary); insert into episodes values ('e', 'Sailed.'), ('f', 'Sank.');"
        )
    report = take_over(memory, tmp_path / "own.db")
    assert report.added == {"goals": 1, "episodes": 3}
    goal = memory.goals.get_active_goal("ann", "boats")
    assert (goal.is_main, goal.current_amount) == (True, 0)
    assert {round(episode.timestamp) for episode in memory.store.episodes()} == {1773567000}
    assert take_over(memory, tmp_path / "own.db").added == {}


def test_a_fact_that_is_null_is_one(memory, tmp_path):
    """Swarmline keeps a value of None as null of SQL, and gives it back."""
    with closing(sqlite3.connect(tmp_path / "own.db")) as db:
        db.executescript(
            "create table facts (user_id, topic_id, key, value, source, updated_at);"
            "insert into facts values ('ann', null, 'diet', null, 'user', '2026-03-15 09:30:00');"
        )
    assert take_over(memory, tmp_path / "own.db").added == {"facts": 1}
    assert memory.users.get_facts("ann") == {"diet": None}


def test_a_folder_of_a_bank_is_taken_over(memory, tmp_path):
    """Files below <user>/<topic>/memory/ are that user's, also in a folder of that name; others are skipped and named."""
    folder = tmp_path / "banks" / "alice" / "my-project" / "memory" / "memory"
    folder.mkdir(parents=True)
    (folder / "status.md").write_text("Phase: MVP.")
    (tmp_path / "banks" / "readme.md").write_text("not a bank's")
    report = take_over(memory, tmp_path / "banks")
    assert memory.bank.for_person("alice", "my-project").read_file("memory/status.md") == "Phase: MVP."
    assert report.added == {"files": 1}
    assert len(report.remarks) == 1


@pytest.mark.parametrize(
    ("name", "data"),
    [("none.db", None), ("text.md", b"hello"), ("bad.db", b"SQLite format 3\x00" + b"x" * 600)],
)
def test_what_is_none_of_its_files_is_refused(memory, tmp_path, name, data):
    """One sentence says why, and nothing is stored."""
    if data is not None:
        (tmp_path / name).write_bytes(data)
    refusal(InvalidInputError, take_over, memory, tmp_path / name)


def test_the_command_takes_it_over(tmp_path):
    """`edgemem import swarmline PATH` prints what each file held, and what came of it."""
    result = run("import", "swarmline", FILES / "agent.sqlite", "--home", tmp_path / "home")
    assert result.exit_code == 0
    assert re.search("agent.sqlite: .*Added: ", result.output, re.DOTALL)
