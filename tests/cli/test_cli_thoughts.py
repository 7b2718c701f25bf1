"""Thoughts, reasons and queries from the command line."""

from pathlib import Path

import pytest

from edgemem.records import Heard
from lab.judge import SetClock
from support.cli import json_of, refused, run
from support.homes import opened
from support.thoughts import an_edge, thought


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    with opened(home) as memory:
        said = Heard(speaker="alice", asr_confidence=0.9)
        memory.store.add_fact("gate.code", "4711", scope="household", heard=said)
        memory.store.add_fact(
            "gate.code", "4712", scope="household", heard=Heard(speaker="alice", asr_confidence=0.1)
        )
        memory.store.add_fact("tea", "green", scope="household", heard=Heard(speaker="bob"))
        memory.store.add_fact("diary", "under the bed", scope="user:alice")
        memory.thoughts.bulk_store(
            [thought("mug"), thought("hers", content="A wish.", essence="A wish", owner="alice")]
        )
        memory.thoughts.create_edge(an_edge("e", "hers", "mug"))
    return home


def test_thoughts_are_listed_shown_and_related(home: Path) -> None:
    """Each of the three tells ids and words, as JSON and as a table."""
    assert [row["thought_id"] for row in json_of("thoughts", "--home", home)] == ["hers", "mug"]
    assert (
        json_of("thoughts", "mug", "--home", home)["content"]
        == "The blue mug in the kitchen belongs to Ines."
    )
    kinds = ("--kind", "fact", "--kind", "thought")
    assert {
        row["thought_id"].partition(":")[0] for row in json_of("thoughts", "list", *kinds, "--home", home)
    } >= {"fact", "mug"}
    ((distance, edge),) = json_of("thoughts", "related", "mug", "--home", home)
    assert (distance, edge["edge_id"]) == (1, "e")
    assert "A wish" in run("thoughts", "related", "mug", "--home", home).stdout
    assert "A wish" not in run("thoughts", "related", "mug", "--speaker", "bob", "--home", home).stdout
    assert "no thought" in refused(run("thoughts", "show", "hers", "--speaker", "bob", "--home", home))


def test_why_tells_who_said_it_and_what_contests_it(home: Path) -> None:
    """By key in any spelling, or by id, for whoever may read it."""
    text = run("why", "Gate_Code", "--home", home).stdout
    assert "gate.code: 4711" in text
    assert "contested by: gate.code: 4712 (alice" in text
    assert "Nothing is remembered" in refused(run("why", "diary", "--speaker", "bob", "--home", home))
    assert json_of("why", "diary", "--home", home)[0]["thought"]["owner"] == "alice"


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("select id from thoughts where id in ('mug', 'hers') order by id", {None: ["hers", "mug"], "bob": ["mug"]}),
        ("select content from thoughts where content like 'diary%'", {None: ["diary: under the bed"], "bob": []}),
        ("select id from edges where id = 'e'", {None: ["e"], "alice": ["e"], "bob": []}),
        ("select other from contested", {None: ["4712"], "bob": ["4712"]}),
    ],
)  # fmt: skip
def test_a_query_reads_what_its_reader_may(home: Path, sql: str, rows: dict[str | None, list[str]]) -> None:
    """The operator sees all, a speaker what they may read."""
    for speaker, expected in rows.items():
        whose = () if speaker is None else ("--speaker", speaker)
        assert [next(iter(row.values())) for row in json_of("query", sql, *whose, "--home", home)] == expected


@pytest.mark.parametrize(
    "sql",
    [
        "delete from facts", "update facts set value = 'x'", "attach 'x.db' as x", "pragma journal_mode = delete",
        "select load_extension('x')", "insert into names values ('a', 'b')", "select 1; select 2", "create table t (a)",
        "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n", "vacuum into 'x.db'",
        "select length(hex(zeroblob(100000000)))", "nonsense", "begin", "select * from pragma_table_info('facts')",
    ],
)  # fmt: skip
@pytest.mark.parametrize("speaker", [(), ("--speaker", "alice")])
def test_a_query_only_reads_and_ends(
    home: Path, monkeypatch: pytest.MonkeyPatch, sql: str, speaker: tuple[str, ...]
) -> None:
    """What writes, attaches, loads or runs for ever is refused in one sentence, and the truth stays as it was."""
    monkeypatch.setattr("edgemem.cli.thoughts.QUERY_S", 0.3)
    before = (home / "db" / "memory.db").read_bytes()
    refused(run("query", sql, *speaker, "--home", home))
    assert (home / "db" / "memory.db").read_bytes() == before


@pytest.mark.parametrize("table", ["facts", "main.facts", "sqlite_master", "stored_thoughts", "messages"])
def test_a_speaker_reaches_no_table(home: Path, table: str) -> None:
    """With --speaker there is nothing but what the views hold."""
    if table == "sqlite_master":
        names = json_of("query", "select name from sqlite_master", "--speaker", "bob", "--home", home)
        assert {row["name"] for row in names} == {"thoughts", "edges", "contested"}
    else:
        assert "no such table" in refused(
            run("query", f"select * from {table}", "--speaker", "bob", "--home", home)
        )


def test_what_was_learnt_is_listed_with_whole_ids(tmp_path: Path) -> None:
    """An id is not broken over two lines, however long the sentence: `edgemem learn undo` takes it as it stands."""
    home, clock = tmp_path / "home", SetClock()
    with opened(home, clock=clock) as memory:
        kitchen = memory.session("kitchen", speaker="alice")
        for _ in range(5):
            clock.at += 86400.0
            with kitchen.turn("Turn the lights off.") as turn:
                turn.reply("Fine.")
    learnt = json_of("learn", "now", "--home", home)[0]["thought_id"]
    assert learnt.startswith("routines.")
    assert learnt in run("learn", "log", "--home", home).stdout
    assert "Undone" in run("learn", "undo", learnt, "--home", home).stdout
    assert "no things learnt" in run("learn", "log", "--home", home).stdout
