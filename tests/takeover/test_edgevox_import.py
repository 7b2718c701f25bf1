"""What EdgeVox 1.3.2 wrote, with the schemas and calls used here, is taken over: exactly, once, its faults mended and told."""

import json
import sqlite3
from contextlib import closing

import pytest

import edgemem
from edgemem.clock import Clock
from edgemem.errors import InvalidInputError
from edgemem.takeover.edgevox import EdgevoxMemory, import_edgevox
from support.homes import BY_WORDS
from support.refusals import refusal

START = 1_750_000_000.25

TABLES = """
create table facts (id text primary key, key text not null, value text not null, scope text not null,
  source text not null default '', updated_at real not null, valid_from real not null, valid_to real,
  invalidated_at real, supersedes text);
create index facts_scope_key on facts(scope, key);
create index facts_active on facts(scope, key) where valid_to is null;
create table preferences (key text primary key, value text not null, updated_at real not null);
create table episodes (id integer primary key autoincrement, kind text not null, payload_json text not null,
  outcome text not null, timestamp real not null, agent text not null default '');
create table sessions (session_id text primary key, messages text not null, state text not null,
  updated_at real not null);
"""


def fact(key, value, begin, end=None, *, scope="global", source="user", number=0):
    return {
        "key": key, "value": value, "scope": scope, "updated_at": begin, "source": source,
        "id": f"f_{number:010x}", "valid_from": begin, "valid_to": end, "invalidated_at": end, "supersedes": None,
    }  # fmt: skip


def write_json(path, *, facts=(), preferences=(), episodes=()):
    data = {"facts": list(facts), "preferences": list(preferences), "episodes": list(episodes)}
    path.write_text(json.dumps(data, indent=2), encoding="utf-8")


def write_sqlite(path, *, facts=(), preferences=(), episodes=(), sessions=()):
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("pragma journal_mode = wal")
        db.executescript(TABLES)
        for n, row in enumerate(facts):
            columns = [f":{column}" for (_, column, *_) in db.execute("pragma table_info(facts)")]
            db.execute(f"insert into facts values ({', '.join(columns)})", {**row, "id": f"f_{n:010x}"})
        db.executemany("insert into preferences values (:key, :value, :updated_at)", preferences)
        for row in episodes:
            values = {**row, "payload": json.dumps(row["payload"])}
            into = "insert into episodes (kind, payload_json, outcome, timestamp, agent)"
            db.execute(f"{into} values (:kind, :payload, :outcome, :timestamp, :agent)", values)
        for name, said in sessions:
            row = (name, json.dumps(said), '{"a": 1}', START)
            db.execute("insert into sessions values (?, ?, ?, ?)", row)


def conversation(n):
    return [
        {"role": "system", "content": "You help.\n\n## Memory\n- x"},
        {"role": "user", "content": f"hello {n}"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "f"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "{}"},
        {"role": "assistant", "content": "Hi."},
    ]


def episode(n):
    payload = {"name": "light", "args": {"on": True}, "result": n, "error": None}
    at = START + n / 7
    return {"kind": "tool_call", "payload": payload, "outcome": "ok", "timestamp": at, "agent": "hall"}


@pytest.fixture
def memory(tmp_path):
    wall = START + 1e8
    clock = Clock(wall=lambda: wall, monotonic=lambda: 0.0)
    with edgemem.open(tmp_path / "home", profile=BY_WORDS, worker=False, clock=clock) as opened:
        yield opened


def take(memory, path):
    return import_edgevox(memory.diagnostics.database, memory.sessions, memory.notes, EdgevoxMemory(path))


@pytest.mark.parametrize("write", [write_json, write_sqlite])
def test_a_memory_is_taken_over_with_its_times(memory, tmp_path, write):
    """Values, scopes, sources, preferences, episodes and history stand as EdgeVox had them; nothing is written there."""
    old = tmp_path / "kitchen.db"
    write(
        old,
        facts=[
            fact("allergy", "nuts", START, START + 60), fact("name", "An", START + 1, scope="user:an"),
            fact("allergy", "fish", START + 60, source="llm"), fact("pet", "cat", START + 61, START + 90),
        ],
        preferences=[{"key": "tone", "value": "kurz", "updated_at": START + 5}],
        episodes=[episode(n) for n in range(3)],
    )  # fmt: skip
    bytes_before = old.read_bytes()
    report = take(memory, old)
    assert report.added == {"facts": 3, "preferences": 1, "episodes": 3}
    assert (report.refused, report.remarks) == ([], [])
    assert report.files["kitchen.db"].items() >= {"facts": 4, "preferences": 1, "episodes": 3}.items()
    nuts, fish = memory.store.fact_history("allergy")
    assert (nuts.value, nuts.valid_from, nuts.valid_to, nuts.source) == ("nuts", START, START + 60, "user")
    assert (fish.value, fish.source) == ("fish", "llm")
    assert fish.recorded_at == pytest.approx(START + 60, rel=0, abs=1e-5)
    assert memory.store.get_fact("name", scope="user:an") == "An"
    assert memory.store.get_fact("pet") is None
    assert [f.value for f in memory.store.facts_as_of(START + 70, scope="global")] == ["cat", "fish"]
    (wish,) = memory.store.preferences()
    assert (wish.key, wish.value, wish.updated_at) == ("tone", "kurz", START + 5)
    found = memory.store.recent_episodes(9)
    assert [e.heard.event_time for e in found] == [START + n / 7 for n in range(3)]
    assert found[2].payload == episode(2)["payload"]
    assert abs(found[2].timestamp - START - 2 / 7) < 2e-6
    assert old.read_bytes() == bytes_before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "kitchen.db"]
    again = take(memory, old)
    assert (again.added, again.known) == ({}, report.added)


def test_a_whole_home_is_taken_over_once(memory, tmp_path):
    """1,000 facts, 500 episodes, 100 conversations and notes arrive whole; a second time adds nothing."""
    old = tmp_path / "memory"
    (old / "sessions").mkdir(parents=True)
    facts = [fact(f"k{n % 700}", f"v{n}", START + n) for n in range(1000)]
    for earlier, later in zip(facts, facts[700:], strict=False):
        earlier["valid_to"] = later["valid_from"]
    first, second = ([f for f in facts if (f["key"] < "k5") == low] for low in (True, False))
    write_json(old / "hall.json", facts=first, episodes=[episode(n) for n in range(500)])
    write_json(old / "attic.json", facts=second)
    for n in range(50):
        data = {"messages": conversation(n), "state": {"n": n}}
        (old / "sessions" / f"s{n}.json").write_text(json.dumps(data, indent=2))
    write_sqlite(old / "sessions.db", sessions=[(f"user-{n}", conversation(n)) for n in range(50)])
    (old / "hall-notes.md").write_text("\n## shopping (2026-01-02 10:00)\nmilk\n")
    report = take(memory, old)
    assert report.added == {"facts": 700, "episodes": 500, "sessions": 100, "turns": 100, "notes": 1}
    assert (report.refused, report.remarks) == ([], [])
    assert sum(each.get("facts", 0) for each in report.files.values()) == 1000
    now = {f.key: f.value for f in memory.store.facts()}
    assert now == {f["key"]: f["value"] for f in facts}
    stated = "select value from facts where id = origin and value is not null order by id"
    said = memory.diagnostics.database.query(stated)
    assert [value for (value,) in said] == [f["value"] for f in facts]
    loaded = memory.sessions.load("s7")
    assert (loaded.messages, loaded.state) == (conversation(7), {"n": 7})
    assert memory.sessions.load("user-7").messages == conversation(7)
    assert memory.notes.read() == (old / "hall-notes.md").read_text()
    before = list(memory.export())
    again = take(memory, old)
    assert (again.added, again.refused) == ({}, [])
    assert list(memory.export()) == before


def test_what_stands_in_the_log_of_a_database_is_read_too(memory, tmp_path):
    """A program that was killed leaves its newest rows beside the database; they count, and stay where they are."""
    live, old = tmp_path / "live.db", tmp_path / "old" / "live.db"
    old.parent.mkdir()
    write_sqlite(live, facts=[fact("door", "red", START)])
    with closing(sqlite3.connect(live, isolation_level=None)) as db:
        db.execute("insert into preferences values ('tone', 'kurz', ?)", (START,))
        for suffix in ("", "-wal"):
            old.with_name(f"live.db{suffix}").write_bytes(live.with_name(f"live.db{suffix}").read_bytes())
    before = {file.name: file.read_bytes() for file in old.parent.iterdir()}
    assert take(memory, old.parent).added == {"facts": 1, "preferences": 1}
    assert {file.name: file.read_bytes() for file in old.parent.iterdir()} == before


def test_a_conversation_that_grew_goes_on_and_another_one_is_refused(memory, tmp_path):
    """What is new behind a known beginning is appended; a conversation that went another way stays as it is here."""
    old = tmp_path / "s.json"
    old.write_text(json.dumps({"messages": conversation(1), "state": {}}))
    take(memory, old)
    more = [*conversation(1), {"role": "user", "content": "more"}]
    old.write_text(json.dumps({"messages": more, "state": {}}))
    assert take(memory, old).added == {"sessions": 1}
    assert memory.sessions.load("s").messages == more
    old.write_text(json.dumps({"messages": conversation(2), "state": {}}))
    assert "another one" in take(memory, old).refused[0]
    assert memory.sessions.load("s").messages == more


@pytest.mark.parametrize(
    ("rows", "remark"),
    [
        # Rows that a race left active: the one that was written last is the value.
        ([("red", 0, None), ("blue", 1, None), ("green", 2, None)], "had 3 values at once"),
        # The clock was set back an hour: what was written later still replaces what was written before.
        ([("red", 0, -3600), ("blue", -3600, None)], "ended before it began"),
    ],
)
def test_faults_of_edgevox_are_mended_and_told(memory, tmp_path, rows, remark):
    """What was written last holds, all of it is history in the order of writing, and a sentence says so."""
    old = tmp_path / "x.db"
    write_sqlite(old, facts=[fact("door", value, START + at, end and START + end) for value, at, end in rows])
    report = take(memory, old)
    assert remark in report.remarks[0]
    values = [value for value, _, _ in rows]
    assert memory.store.get_fact("door") == values[-1]
    history = memory.store.fact_history("door")
    assert [version.value for version in history] == values
    assert [version.superseded_by for version in history[:-1]] == [version.id for version in history[1:]]
    assert [v.recorded_at for v in history] == sorted({v.recorded_at for v in history})


def test_what_cannot_be_taken_is_skipped_and_named(memory, tmp_path):
    """Every row, file and conversation that stays behind is told with its reason; the rest is taken."""
    old = tmp_path / "memory"
    old.mkdir()
    write_json(
        old / "a.json",
        facts=[
            fact("", "x", START), fact("long", "x" * 20_000, START), fact("n", 5, START), {"key": "no value"},
            fact("nan", "x", float("nan")), fact("surrogate", "\ud800x", START), fact("boot", "1970", 12.5),
            fact("future", "y", 9e12), fact("nul", "a\0b", START),
        ],
        episodes=["what?", {"kind": "", "payload": {}, "outcome": "ok", "timestamp": START, "agent": ""}],
    )  # fmt: skip
    (old / "b.json").write_text('{"something": "else"}')
    (old / "c.bin").write_bytes(b"\x00\x01")
    (old / "d.json").write_text("[" * 100_000)
    (old / "e.json").write_text(json.dumps({"messages": [{"content": "no role"}], "state": {}}))
    (old / "f.db").write_bytes(b"SQLite format 3\x00" + b"\xff" * 5000)
    with closing(sqlite3.connect(old / "g.db")) as db:
        db.execute("create table cookies (a)")
    report = take(memory, old)
    now = {f.key: f.value for f in memory.store.facts()}
    assert now.items() >= {"n": "5", "nan": "x", "boot": "1970", "nul": "ab"}.items()
    assert memory.diagnostics.clock.now() < START + 2e8
    told = "\n".join(report.remarks)
    words = "empty|20,000 bytes|no value|b.json|c.bin|d.json|'e'|f.db|g.db|episode ''"
    assert not [word for word in words.split("|") if word not in told], told
    assert take(memory, old).added == {}
    refusal(InvalidInputError, take, memory, tmp_path / "nowhere", match="nothing at")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("x.bin", b"\x00", "no memory, conversation or notes"),
        ("x.json", b'{"a": 1}', "neither a memory nor a conversation"),
        ("x.json.tmp", b'{"facts": []}', "not finished"),
        ("x.db", b"SQLite format 3\x00" + b"\xff" * 5000, "is not an SQLite database"),
        ("x.jsonl", b'{"record": "edgemem"}\n', r"edgemem import \S+x\.jsonl$"),
    ],
)
def test_one_file_that_is_not_edgevox_is_refused(memory, tmp_path, name, content, reason):
    """Where nothing else is asked for, what cannot be read is no success with a remark."""
    (tmp_path / name).write_bytes(content)
    refusal(InvalidInputError, take, memory, tmp_path / name, match=reason)
