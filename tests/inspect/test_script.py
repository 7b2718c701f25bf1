"""The script form: what it fills in, what it refuses, and LoCoMo's form beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from edgemem.errors import InvalidInputError
from edgemem.inspect.replay import read_script

if TYPE_CHECKING:
    from pathlib import Path

AT = '"at": "2026-11-02T08:00:00+01:00"'


def written(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "talk.jsonl"
    path.write_text("\n".join(lines))
    return path


def test_time_and_session_are_taken_from_the_line_before(tmp_path: Path) -> None:
    """A line that says neither follows a minute later in the same session."""
    ear = '"speaker": "Ann", "heard": {"asr_confidence": 0.4, "room": "hall"}'
    path = written(
        tmp_path,
        f'{{{AT}, "say": "hello", "session": "hall", {ear}}}',
        "",
        '{"say": "again"}',
        '{"say": "bye", "session": "attic"}',
    )
    first, second, third = read_script(path)
    assert second.time == first.time + 60
    assert (first.session, second.session, third.session) == ("hall", "hall", "attic")
    assert first.local.utcoffset() is not None
    heard = first.as_heard()
    assert (heard.speaker, heard.asr_confidence, heard.room) == ("Ann", 0.4, "hall")
    assert heard.event_time == first.time


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("not json", "line 2: JSON is malformed"),
        ("[1]", "line 2: Expected 'object'"),
        ('{"speaker": "Ann"}', "missing required field 'say'"),
        ('{"say": 5}', "Expected 'str'"),
        ('{"say": "x", "spaeker": "Ann"}', "unknown field 'spaeker'"),
        ('{"say": "x", "at": "2026-11-02T08:00:00"}', "needs its zone"),
        ('{"say": "x", "at": "Monday"}', "line 2: "),
        ('{"say": "x", "reply": "yes", "interrupted": "no"}', "the beginning of `reply`"),
        ('{"say": "x", "tools": [{"name": "oven"}]}', "either `result` or `error`"),
        (
            '{"say": "x", "remember": [{"key": "a", "value": "b", "valid_from": "2026-11-02T08:00:00"}]}',
            "needs its zone",
        ),
    ],
)
def test_a_broken_line_is_named_by_its_number(tmp_path: Path, line: str, complaint: str) -> None:
    """What is wrong with a line is said in one sentence, with where it stands."""
    path = written(tmp_path, f'{{{AT}, "say": "fine"}}', line)
    with pytest.raises(InvalidInputError) as caught:
        read_script(path)
    assert complaint in str(caught.value)
    assert str(caught.value).startswith("talk.jsonl, line 2: ")
    assert "\n" not in str(caught.value)


def test_binary_empty_and_missing_files_are_refused(tmp_path: Path) -> None:
    """No file, nothing in it, or no text: one sentence each."""
    path = tmp_path / "talk.jsonl"
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_script(path)
    path.write_bytes(b"\n \n")
    with pytest.raises(InvalidInputError, match="holds no lines"):
        read_script(path)
    path.write_bytes(b"\xff\xfe\x00GGUF")
    with pytest.raises(InvalidInputError, match="line 1"):
        read_script(path)
    path.write_text('{"say": "no time"}')
    with pytest.raises(InvalidInputError, match="the first line needs `at`"):
        read_script(path)
