"""What was shown is forgotten by what it is of: by scope and key, or by kind and id, never by the words in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from edgemem.records import BlockLine, Epoch, StoredMessage, Turn
from edgemem.store.db.database import Database
from edgemem.store.erase.delete_rows import erase_blocks
from edgemem.store.kinds import open_truth
from edgemem.store.turns import append_epoch, commit_turn, latest_epoch, read_turns

DOOR = ("hall", "door")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    """Return an open truth."""
    with open_truth(tmp_path / "memory.db") as database:
        yield database


def show(db: Database, *lines: BlockLine) -> Turn:
    """Write lines as what a turn showed, and as what an epoch carries; return the turn as it is read."""
    entries = tuple(line.entry for line in lines)
    said = (StoredMessage("user", "hello"),)
    db.write(lambda tx: commit_turn(tx, Turn("k", 0, said, block="<memory>x</memory>", shown=entries)))
    db.write(lambda tx: append_epoch(tx, Epoch("k", 0, carried=entries)))
    return read_turns(db, "k")[0]


@pytest.mark.parametrize(
    "line",
    [
        BlockLine("fact:7", "", fact=DOOR, value="oak"),
        BlockLine("changed:fact:7:1", "- door: now oak", "private", "ann", DOOR, "oak"),
        BlockLine("fact:7/past", "", fact=DOOR),
        BlockLine("doubt:7:0", "", fact=DOOR, value="oats"),
        BlockLine("preference:7", "", preference=DOOR, value="oak"),
        BlockLine("episode:41", ""),
        BlockLine("episode:41", "", "private", "ann"),
        BlockLine("turn:42", ""),
        BlockLine("turn:42/part", ""),
        BlockLine('{"id": "fact:7", "fact": ["hall", "door"', ""),
    ],
    ids=lambda line: line.entry,
)
def test_a_block_and_a_head_go_with_what_they_showed(db: Database, line: BlockLine) -> None:
    """However the line tells of it, and where nobody can read what it tells of; the turn itself stays."""
    other = BlockLine("note:tea", "")
    show(db, other, line)
    db.write(lambda tx: erase_blocks(tx, [DOOR, ("episode", 41), ("turn", 42)]))
    (turn,) = read_turns(db, "k")
    assert (turn.block, turn.shown, turn.messages[0].content) == ("", (), "hello")
    assert latest_epoch(db, "k") == Epoch("k", 0, id=db.query("select id from epochs")[0][0])


@pytest.mark.parametrize(
    "line",
    [
        BlockLine("fact:7", "", fact=("hall", "doors"), value='["hall","door"]'),
        BlockLine("fact:42", "", fact=("cellar", "door"), value="turn:42"),
        BlockLine("turn:420", ""),
        BlockLine("turn:4", ""),
        BlockLine("fact:41", ""),
        BlockLine("interrupted:42", ""),
    ],
    ids=lambda line: line.entry,
)
def test_what_only_reads_like_it_stays(db: Database, line: BlockLine) -> None:
    """Another key with the same words in its value, and another id with the same digits."""
    before = show(db, line), latest_epoch(db, "k")
    db.write(lambda tx: erase_blocks(tx, [DOOR, ("episode", 41), ("turn", 42)]))
    assert (read_turns(db, "k")[0], latest_epoch(db, "k")) == before


def test_a_damaged_list_of_lines_goes_with_any_forgetting(db: Database) -> None:
    """Where nobody can read what was shown it may be anything, and does not keep a forgetting from its end."""
    show(db, BlockLine("note:tea", ""))
    db.write(lambda tx: tx.execute("update turns set shown = '[1,'"))
    db.write(lambda tx: erase_blocks(tx, [DOOR]))
    assert db.query("select block, shown from turns") == [(None, None)]
