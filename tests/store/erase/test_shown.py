"""What was shown is forgotten by what it is of: by scope and key, or by kind and id, never by the words in it."""

from __future__ import annotations

import pytest

from edgemem.records import BlockLine, Epoch, StoredMessage, Turn
from edgemem.store.db.database import Database
from edgemem.store.erase.delete_rows import erase_blocks
from edgemem.store.turns import append_epoch, commit_turn, latest_epoch, read_turns

DOOR = ("hall", "door")


def show(truth: Database, *lines: BlockLine) -> Turn:
    """Write lines as what a turn showed, and as what an epoch carries; return the turn as it is read."""
    entries = tuple(line.entry for line in lines)
    said = (StoredMessage("user", "hello"),)
    truth.write(lambda tx: commit_turn(tx, Turn("k", 0, said, block="<memory>x</memory>", shown=entries)))
    truth.write(lambda tx: append_epoch(tx, Epoch("k", 0, carried=entries)))
    return read_turns(truth, "k")[0]


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
def test_a_block_and_a_head_go_with_what_they_showed(truth: Database, line: BlockLine) -> None:
    """However the line tells of it, and where nobody can read what it tells of; the turn itself stays."""
    other = BlockLine("note:tea", "")
    show(truth, other, line)
    truth.write(lambda tx: erase_blocks(tx, [DOOR, ("episode", 41), ("turn", 42)]))
    (turn,) = read_turns(truth, "k")
    assert (turn.block, turn.shown, turn.messages[0].content) == ("", (), "hello")
    assert latest_epoch(truth, "k") == Epoch("k", 0, id=truth.query("select id from epochs")[0][0])


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
def test_what_only_reads_like_it_stays(truth: Database, line: BlockLine) -> None:
    """Another key with the same words in its value, and another id with the same digits."""
    before = show(truth, line), latest_epoch(truth, "k")
    truth.write(lambda tx: erase_blocks(tx, [DOOR, ("episode", 41), ("turn", 42)]))
    assert (read_turns(truth, "k")[0], latest_epoch(truth, "k")) == before


def test_a_damaged_list_of_lines_goes_with_any_forgetting(truth: Database) -> None:
    """Where nobody can read what was shown it may be anything, and does not keep a forgetting from its end."""
    show(truth, BlockLine("note:tea", ""))
    truth.write(lambda tx: tx.execute("update turns set shown = '[1,'"))
    truth.write(lambda tx: erase_blocks(tx, [DOOR]))
    assert truth.query("select block, shown from turns") == [(None, None)]
