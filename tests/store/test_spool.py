"""The spool: records that come and go in one file of a process, its room, and who takes it over."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.store.spool import ROOM, Record, Spool, read_foreign_spool, spool_paths
from support.disks import no_file_larger_than


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.db"


@pytest.fixture
def spool(path: Path) -> Iterator[Spool]:
    opened = Spool.create(path)
    yield opened
    opened.close()


orders = st.lists(
    st.one_of(st.binary(min_size=1, max_size=60).map(bytes.hex), st.integers(0, 9)), max_size=30
)


@given(orders)
def test_records_come_and_go_in_any_order(tmp_path_factory: pytest.TempPathFactory, steps: list[Any]) -> None:
    """The file holds what was put and not erased, no record runs into another, and its size stays."""
    spool = Spool.create(tmp_path_factory.getbasetemp() / "records.db")
    records: list[Record] = []
    try:
        for step in steps:
            if isinstance(step, str):
                records.append(spool.put(step.encode()))
            elif records:
                spool.erase(records.pop(step % len(records)))
            expected = sorted(record.text for record in records)
            assert sorted(record.text for record in spool.read()) == expected
            assert sorted(read_foreign_spool(spool.path)[0]) == expected
            assert spool.empty == (not records)
            assert spool.path.stat().st_size == ROOM
        assert not spool.damaged
    finally:
        spool.path.unlink()
        spool.close()


def test_a_file_is_one_process_s_until_it_is_closed(path: Path) -> None:
    """Nobody else takes it over before; afterwards one does, once, with what stands in it."""
    spool = Spool.create(path)
    assert spool.path.stat().st_blocks * 512 >= ROOM, "the room is taken from the disk at once"
    spool.put(b"one")
    assert spool.path.stat().st_mode & 0o777 == 0o600
    assert Spool.abandoned(path) == []
    spool.close()
    spool.close()
    (taken,) = Spool.abandoned(path)
    assert Spool.abandoned(path) == []
    assert [record.text for record in taken.read()] == [b"one"]
    second = Spool.create(path)
    assert spool_paths(path) == [taken.path, second.path]
    for each in (taken, second):
        each.close()


def test_a_file_of_zeros_is_empty(path: Path) -> None:
    """What a pulled plug leaves of a file that was just made is taken over like any other."""
    path.with_name("x.db.spool-1").write_bytes(bytes(ROOM))
    (taken,) = Spool.abandoned(path)
    assert taken.read() == []
    assert not taken.damaged
    taken.put(b"one")
    assert read_foreign_spool(taken.path) == ([b"one"], 0)
    taken.close()


def test_what_does_not_fit_leaves_the_rest_as_it_was(spool: Spool) -> None:
    """A write that a full disk cuts off takes nothing from the records before, nor from the room."""
    spool.put(b"one")
    with no_file_larger_than(ROOM):
        with pytest.raises(OSError, match="too large"):
            spool.put(b"x" * (ROOM + 1))
        spool.put(b"y" * 1000)
    assert read_foreign_spool(spool.path)[0] == [b"one", b"y" * 1000]
    assert spool.path.stat().st_size == ROOM
    assert b"x" not in spool.path.read_bytes()


def test_a_file_that_grew_for_a_very_long_turn_is_cut_once_it_is_empty(spool: Spool) -> None:
    """It does not stay as large as the longest turn that ever was."""
    spool.erase(spool.put(b"x" * 2 * ROOM))
    assert spool.path.stat().st_size == ROOM
    assert b"x" not in spool.path.read_bytes()


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_a_file_that_cannot_be_written_is_left_alone(path: Path, code: int, monkeypatch: Any) -> None:
    """On a disk that is mounted read-only nothing is taken over, and nothing fails; what waits there can be counted."""
    spool = Spool.create(path)
    spool.put(b"one")
    spool.close()
    plain = os.open

    def read_only(name: Any, flags: int, *rest: Any) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY):
            raise OSError(code, os.strerror(code), str(name))
        return plain(name, flags, *rest)

    monkeypatch.setattr(os, "open", read_only)
    assert Spool.abandoned(path) == []
    assert read_foreign_spool(spool.path) == ([b"one"], 0)
    with pytest.raises(OSError, match=os.strerror(code)):
        Spool.create(path)
