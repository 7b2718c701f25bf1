"""NOTES.md: bounded, durable, edited by hand."""

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemem.clock import Clock
from edgemem.errors import DiskFullError, InvalidInputError
from edgemem.store.notes import CUT, MARKER, NotesFile, newest_part, read_sections
from support.refusals import refusal


@pytest.fixture
def notes(tmp_path: Path, clock: Clock) -> NotesFile:
    return NotesFile(tmp_path / "NOTES.md", max_size_chars=200, low_water_chars=128, clock=clock)


def test_notes_are_markdown_with_dated_headings(tmp_path: Path, clock: Clock) -> None:
    """A heading opens a section with its date; text follows, one line end behind it."""
    notes = NotesFile(tmp_path / "deep" / "NOTES.md", clock=clock)
    assert notes.read() == notes.tail() == ""
    notes.append("Milk is out.", heading="Kitchen\n ")
    notes.append("So is tea.\n\n")
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(clock.now()))
    assert notes.read() == f"\n## Kitchen ({when})\nMilk is out.\nSo is tea.\n"
    notes.append("   ")
    assert notes.read().endswith("tea.\n")
    assert notes.path.stat().st_mode & 0o777 == 0o600


def test_a_full_file_keeps_its_newest_sections(notes: NotesFile) -> None:
    """Over the bound the oldest sections go, and one line says so, however often that happens."""
    for number in range(40):
        notes.append(f"note {number}", heading="H")
        text = notes.read()
        assert len(text) <= notes.max_size_chars
        assert text.rstrip().endswith(f"note {number}")
        assert text.count(MARKER) == (1 if number > 5 else 0)
        assert text.removeprefix(MARKER).lstrip("\n").startswith("## H (")
    assert {path.name for path in notes.path.parent.iterdir()} == {"NOTES.md"}
    assert notes.sections() == ["H"]
    assert MARKER.strip() not in notes.read_section("H") + notes.read_section("")


def test_a_note_longer_than_the_file_is_cut_and_says_so(notes: NotesFile) -> None:
    """A megabyte of one line keeps its beginning, ends in a remark, and stays whole characters."""
    notes.append("first")
    notes.append("đ" * 1_000_000)
    text = notes.read()
    assert text.startswith("first\nđđđ")
    assert text.endswith(f"đ{CUT}")
    assert len(text) <= 200


def test_one_long_line_keeps_its_newest_part(tmp_path: Path) -> None:
    """A line longer than the file may be is cut between words; all of it stays in a copy, since a person wrote it."""
    path = tmp_path / "NOTES.md"
    path.write_text(written := " ".join(f"wörd{n}" for n in range(10_000)))
    notes = NotesFile(path)
    notes.append("one new note")
    text = notes.read()
    assert text.startswith(f"{MARKER}…wörd")
    assert text.endswith(" wörd9999\none new note\n")
    assert len(text) > notes.max_size_chars // 2
    copy = tmp_path / "NOTES.md.cut-1"
    assert copy.read_text() == written
    assert copy.stat().st_mode & 0o777 == 0o600
    notes.clear()
    assert not copy.exists()


def test_what_is_no_text_is_refused_in_words(tmp_path: Path) -> None:
    """A note, a heading, a number of characters, and a path that no file can have."""
    notes = NotesFile(tmp_path / "NOTES.md")
    for wrong in (
        lambda: notes.append(None),  # type: ignore[arg-type]
        lambda: notes.append("x", heading=5),  # type: ignore[arg-type]
        lambda: notes.tail(None),  # type: ignore[arg-type]
        lambda: notes.read_section(None),  # type: ignore[arg-type]
        lambda: NotesFile("a\0b"),
        lambda: NotesFile(tmp_path / ("x" * 300)),
        lambda: NotesFile("y/" * 3000),
        lambda: NotesFile("\ud800"),
        lambda: NotesFile(None),  # type: ignore[arg-type]
    ):
        refusal(InvalidInputError, wrong)
    assert not notes.path.exists()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.text(max_size=150), min_size=1, max_size=12), st.integers(0, 120))
def test_whatever_is_noted_the_file_stays_bounded_text(tmp_path_factory, texts, max_chars):
    """Any text leaves valid UTF-8 within the bound, and the tail is a part of it within its own."""
    path = tmp_path_factory.mktemp("notes") / "NOTES.md"
    notes = NotesFile(path, max_size_chars=150, clock=Clock())
    for text in texts:
        notes.append(text)
        assert len(notes.read()) <= 150
        tail = notes.tail(max_chars)
        assert len(tail) <= max_chars
        assert notes.read().endswith(tail.removeprefix("…"))


def test_the_tail_is_whole_lines(tmp_path: Path) -> None:
    """The tail begins at a line; only a line longer than it is cut, and shows that."""
    notes = NotesFile(tmp_path / "n.md")
    notes.append("first line\nzweite Zeile ß\nthird")
    assert notes.tail(21) == "zweite Zeile ß\nthird\n"
    assert notes.tail(20) == "third\n"
    assert notes.tail(4) == "…rd\n"
    assert notes.tail(0) == ""
    notes.append("味噌" * 500)
    assert notes.tail(9) == "…噌味噌味噌味噌\n"


def test_a_file_edited_into_bad_utf8_is_kept(notes: NotesFile) -> None:
    """Broken bytes are readable around the break, and survive a rewrite in a copy beside the file."""
    broken = b"caf\xe9 list\n" + b"tea\xff\n" * 10
    notes.path.write_bytes(broken)
    assert notes.read().startswith("caf\ufffd list\ntea\ufffd\n")
    notes.append("milk")
    assert notes.path.read_bytes() == broken + b"milk\n"
    for number in range(12):
        notes.append(f"one more note {number}")
    copy = notes.path.with_name("NOTES.md.damaged-1")
    assert copy.read_bytes().startswith(broken)
    assert notes.read().startswith(MARKER)
    notes.path.write_bytes(b"\xff" * 190)
    notes.append("one more note to go over")
    assert notes.path.with_name("NOTES.md.damaged-2").read_bytes().startswith(b"\xff" * 190)
    notes.clear()
    assert [p.name for p in notes.path.parent.iterdir() if not p.name.startswith(".")] == ["NOTES.md"]
    assert notes.read() == ""


def test_an_unfinished_last_line_is_finished(notes: NotesFile) -> None:
    """A file that somebody saved without a last line end does not swallow the next note."""
    notes.path.write_text("by hand", encoding="utf-8")
    notes.append("by robot")
    assert notes.read() == "by hand\nby robot\n"


def test_several_processes_lose_nothing(tmp_path: Path) -> None:
    """Processes that append and rewrite at the same time keep every note whole and the newest of each."""
    path = tmp_path / "NOTES.md"
    program = (
        "import sys; from edgemem.store.notes import NotesFile\n"
        "notes = NotesFile(sys.argv[1], max_size_chars=4000)\n"
        "for i in range(150): notes.append(f'{sys.argv[2]} says {i:05d} and goes on.')\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", program, str(path), name]) for name in ("ann", "bob")]
    assert [process.wait() for process in running] == [0, 0]
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0] + "\n" == MARKER
    assert all(line.endswith("and goes on.") and line[4:8] == "says" for line in lines[1:])
    for name in ("ann", "bob"):
        numbers = [int(line.split()[2]) for line in lines if line.startswith(name)]
        assert numbers == list(range(numbers[0], 150)) if numbers else True
    assert any("00149" in line for line in lines)


def test_a_full_disk_leaves_no_half_note(notes: NotesFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """When space runs out in the middle of a note, the file is as it was before."""
    notes.append("safe")
    write, calls = os.write, []

    def full(fd: int, data: bytes) -> int:
        calls.append(fd)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data[:3])

    monkeypatch.setattr(os, "write", full)
    refusal(DiskFullError, notes.append, "lost", match="No space is left")
    calls.clear()
    refusal(DiskFullError, notes.append, "x" * 199)
    monkeypatch.undo()
    assert notes.read() == "safe\n"
    assert sorted(p.name for p in notes.path.parent.iterdir()) == ["NOTES.md"]


def test_bounds_that_cannot_hold_are_refused(tmp_path: Path) -> None:
    """A bound too small for a note, or a low-water mark above it, is an error at once; so is a folder."""
    for largest, low in ((20, None), (200, 200), (200, 30), (-1, None)):
        with pytest.raises(InvalidInputError, match="cannot be kept"):
            NotesFile(tmp_path / "n.md", max_size_chars=largest, low_water_chars=low)
    refusal(InvalidInputError, NotesFile, tmp_path, match="not a file")


def test_sections_are_read_by_their_heading(tmp_path: Path, clock: Clock) -> None:
    """A heading names all that was ever put under it, whatever its date, depth and case; each is listed once."""
    notes = NotesFile(tmp_path / "n.md", clock=clock)
    notes.append("before any heading")
    notes.append("milk", heading="Shopping")
    notes.append("oil the hinge", heading="House")
    notes.append("tea\n\nsugar", heading="Shopping")
    with notes.path.open("a", encoding="utf-8") as file:
        file.write("# By hand #\n- call Mai\n```\n# no heading\n```\n### shopping\nsalt")
    assert notes.sections() == ["Shopping", "House", "By hand", "shopping"]
    assert notes.read_section("Shopping") == "milk\ntea\n\nsugar\nsalt"
    assert notes.read_section("## shopping (2026-01-02 03:04)") == notes.read_section("Shopping")
    assert notes.read_section("by hand") == "- call Mai\n```\n# no heading\n```"
    assert notes.read_section("") == "before any heading"
    assert notes.read_section("Cellar") == ""


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="# a`~\n(2026-01)", max_size=120), st.integers(1, 40))
def test_sections_keep_every_line(text: str, room: int) -> None:
    """Whatever a text holds, its sections are its lines without the headings, and its newest part is an end of it."""
    lines = [line for section in read_sections(text) for line in section.lines]
    left = iter(text.splitlines())
    assert all(line in left for line in lines)
    assert text.endswith(newest_part(text, room).removeprefix("…"))
    assert len(newest_part(text, room)) <= room


def test_what_is_saved_by_hand_meanwhile_is_kept(notes: NotesFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """An editor that saves between the reading and the replacing finds its lines in the new file."""
    notes.append("x" * 99)
    notes.append("w" * 60)
    chmod, saved = os.fchmod, []

    def save_by_hand(fd: int, mode: int) -> None:
        chmod(fd, mode)
        if not saved:
            saved.append(True)
            with notes.path.open("a", encoding="utf-8") as file:
                file.write("by hand, meanwhile\n")

    monkeypatch.setattr(os, "fchmod", save_by_hand)
    notes.append("y" * 60)
    assert notes.read() == f"{MARKER}by hand, meanwhile\n{'y' * 60}\n"


def test_a_link_is_followed(tmp_path: Path) -> None:
    """Notes kept elsewhere through a link stay there after a rewrite."""
    real, link = tmp_path / "real.md", tmp_path / "NOTES.md"
    real.write_text("x\n" * 90, encoding="utf-8")
    link.symlink_to(real)
    NotesFile(link, max_size_chars=200).append("over the bound of it")
    assert link.is_symlink()
    assert real.read_text(encoding="utf-8").startswith(MARKER)


def test_a_rewrite_makes_room_for_many_appends(tmp_path: Path, clock: Clock) -> None:
    """At the bound most notes are appended; only one in many rewrites the file."""
    notes = NotesFile(tmp_path / "NOTES.md", max_size_chars=8000, clock=clock)
    rewrites, file = 0, 0
    for number in range(1000):
        notes.append(f"note {number:06d} xy")
        rewrites += file not in (0, notes.path.stat().st_ino)
        file = notes.path.stat().st_ino
    assert 0 < rewrites <= 8
