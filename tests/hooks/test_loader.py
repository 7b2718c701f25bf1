"""Loading attachments by name or path."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgemem.errors import ConfigError
from edgemem.hooks import available, load


def test_shipped_attachments_load_by_name() -> None:
    """Every file in hooks/ defines attach(), and is loaded once: it knows what it is attached to."""
    assert "llama_cpp_loop" in available()
    for name in available():
        assert callable(load(name).attach)
        assert load(name) is load(name)


def test_a_file_of_the_operator_loads_by_path(tmp_path: Path) -> None:
    """A path to a Python file is enough; it is read each time, since its owner edits it."""
    file = tmp_path / "mine.py"
    for answer in ("mine", "mine, edited"):
        file.write_text(f"def attach():\n    return {answer!r}\n")
        assert load(file).attach() == answer


@pytest.mark.parametrize("name", ["no_such_loop", "/does/not/exist.py"])
def test_a_missing_hook_is_named(name: str) -> None:
    """The error says what there is."""
    with pytest.raises(ConfigError, match="llama_cpp_loop"):
        load(name)


def test_a_hook_that_fails_while_loading_is_one_sentence(tmp_path: Path) -> None:
    """The file and the cause are named."""
    file = tmp_path / "broken.py"
    file.write_text("1 / 0\n")
    with pytest.raises(ConfigError, match=r"broken\.py failed while loading: ZeroDivisionError"):
        load(file)
