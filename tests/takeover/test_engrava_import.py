"""What the real Engrava 0.7.2 wrote (`data/write_engrava.py`) is taken over: exactly, once, all of it or nothing."""

import gzip
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from edgemem.aio.engrava import SqliteEngravaCore
from edgemem.errors import ForeignError, InvalidInputError
from edgemem.memory import Memory
from edgemem.takeover.engrava import EngravaFile, import_engrava
from edgemem.takeover.scratch import TakeoverReport
from support.cli import refused, run
from support.homes import tell
from support.loops import on_loop
from support.refusals import refusal

FILE = Path(__file__).parents[1] / "data" / "engrava.db.gz"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "engrava.db"
    path.write_bytes(gzip.decompress(FILE.read_bytes()))
    return path


def take_over(memory: Memory, file: Path) -> TakeoverReport:
    return import_engrava(memory.diagnostics.database, EngravaFile(file))


def changed(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.executescript(sql)


def test_everything_that_both_know_is_here(memory: Memory, file: Path) -> None:
    """Thoughts and edges have their ids, texts, cycles, states, times, visibility, pins and metadata, and are found."""
    before = file.read_bytes()
    report = take_over(memory, file)
    assert (report.refused, report.added) == ([], {"stored_thoughts": 5, "stored_edges": 2})
    assert report.remarks == [
        "1 vector stayed behind: edgemem makes its own vectors, and keeps none of the rest."
    ]
    thoughts = memory.thoughts
    records = {name: thoughts.get_thought(name) for name in ("mail", "low", "all", "secret", "old")}
    mail, low, whole, secret, old = (record for record in records.values() if record is not None)
    assert (mail.created_cycle, mail.updated_cycle) == (12, 14)
    assert (mail.confidence, mail.confirmation_count) == (0.9, 3)
    assert (mail.valid_from, mail.valid_until) == ("2026-01-01T00:00:00+00:00", "2035-12-31T23:00:00+00:00")
    assert (mail.created_at, mail.updated_at) == ("2026-03-01T09:00:00+00:00", "2026-03-02T09:00:00+00:00")
    assert (mail.access_count, mail.last_accessed_at) == (2, "2026-03-02T00:00:00+00:00")
    assert mail.metadata == {"room": "hall", "a": {"b": True}}
    assert (low.thought_type, low.pinned, low.created_cycle) == ("BELIEF", True, 0)
    assert (whole.thought_type, whole.source_type) == ("REFLECTION", "DREAMING")
    assert whole.consolidated_from == ("mail", "low")
    assert (secret.visibility, secret.expires_at) == ("private", "2036-01-01T00:00:00+00:00")
    assert (old.visibility, old.lifecycle_status) == ("public", "ARCHIVED")
    edges = {edge.edge_id: edge for edge in thoughts.list_edges()}
    assert (edges["e1"].weight, edges["e1"].created_cycle, edges["e1"].metadata) == (0.5, 14, {"why": "told"})
    assert (edges["e2"].edge_type, edges["e2"].created_cycle) == ("CONSOLIDATED_FROM", 0)
    assert edges["e2"].source == "DREAMING"
    assert thoughts.search("how does she want to be reached, by email")[0][0] == "mail"
    assert file.read_bytes() == before


def test_the_next_turn_has_a_later_cycle(memory: Memory, file: Path) -> None:
    """What came in lifts the counter, as an import of edgemem's own does."""
    take_over(memory, file)
    assert memory.thoughts.max_cycle() == 15
    tell(memory, "the canoe leaks", "kitchen")
    assert memory.thoughts.max_cycle() == 16


def test_a_second_time_adds_nothing(memory: Memory, file: Path) -> None:
    """What changed here meanwhile stays; what is new in the file comes."""
    take_over(memory, file)
    memory.thoughts.update_thought("low", essence="Ines hates calls")
    assert take_over(memory, file).added == {}
    later = "thought_id = 'new', updated_at = '2026-03-05T00:00:00+00:00'"
    changed(
        file,
        f"delete from thought where thought_id = 'old'; update thought set {later} where thought_id = 'secret'",
    )
    assert take_over(memory, file).added == {"stored_thoughts": 1}
    low = memory.thoughts.get_thought("low")
    assert low is not None
    assert low.essence == "Ines hates calls"
    assert memory.thoughts.count_thoughts() == 6


STRANGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated": (lambda path: path.write_bytes(path.read_bytes()[:9000]), "damaged"),
    "foreign": (lambda path: changed(path, "drop table thought"), "no database of Engrava"),
    "text": (lambda path: path.write_text("thoughts"), "no database"),
    "newer": (lambda path: changed(path, "pragma user_version = 22"), "newer Engrava"),
    "older": (lambda path: changed(path, "pragma user_version = 17"), "older Engrava"),
    "no state": (lambda path: changed(path, "update thought set lifecycle_status = 'LOST' where thought_id = 'low'"), "row 2 of thought ('low')"),
    "no metadata": (lambda path: changed(path, "update edge set metadata_json = '[1'"), "row 1 of edge ('e1')"),
    "no end": (lambda path: changed(path, "update edge set to_thought_id = 'gone' where edge_id = 'e2'"), "row 2 of edge"),
    "an id of ours": (lambda path: changed(path, "update thought set thought_id = 'fact:1' where thought_id = 'old'"), "row 5 of thought"),
    "no number": (lambda path: changed(path, "update thought set created_cycle = x'00' where thought_id = 'old'"), "row 5 of thought"),
}  # fmt: skip


@pytest.mark.parametrize("kind", STRANGE)
def test_what_cannot_be_read_whole_is_refused_in_a_sentence(memory: Memory, file: Path, kind: str) -> None:
    """Nothing is taken in, and the row is named."""
    change, words = STRANGE[kind]
    change(file)
    assert words in refusal(InvalidInputError, take_over, memory, file)
    assert memory.thoughts.count_thoughts(include_expired=True) == 0


def test_the_command_takes_a_file(tmp_path: Path, file: Path) -> None:
    """It tells what came; a folder, and a file that is not there, are refused before a home is made."""
    for path in (tmp_path, tmp_path / "none.db"):
        assert refused(run("import", "engrava", path, "--home", tmp_path / "home"))
    assert not (tmp_path / "home").exists()
    result = run("import", "engrava", file, "--home", tmp_path / "home")
    assert "engrava.db: 5 thoughts, 2 edges" in result.stdout
    assert "Added: 5 stored thoughts, 2 stored edges." in result.stdout


@on_loop
async def test_a_store_at_its_file_says_how_it_is_taken_over(file: Path) -> None:
    """Nothing is written into a database of Engrava's own."""
    before = file.read_bytes()
    with pytest.raises(ForeignError, match="edgemem import"):
        await SqliteEngravaCore(file).ensure_schema()
    assert file.read_bytes() == before
