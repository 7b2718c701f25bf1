"""Headers of GGUF files: each that is no model is refused in one sentence, and loads nothing."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from edgemem.errors import ModelError
from edgemem.llama.header import read_header


def test_reads_what_the_default_model_says_about_itself(minilm: Path) -> None:
    """Architecture, sizes and scalar metadata come out; lists only with their length."""
    header = read_header(minilm)
    assert (header.architecture, header.tensors, header.size) == ("bert", 101, minilm.stat().st_size)
    assert (header.number("embedding_length"), header.number("context_length")) == (384, 512)
    assert header.number("no_such_key", 7) == 7


@pytest.mark.parametrize("keep", [23, 24, 100, 5000, 400_000, 700_000, 10_000_000, -1, -20])
def test_a_truncated_file_is_refused(minilm: Path, tmp_path: Path, keep: int) -> None:
    """Wherever the file was cut, in the head, the vocabulary or the weights, the error says so."""
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(minilm.read_bytes()[:keep])
    with pytest.raises(ModelError, match=r"cut short|not a GGUF") as error:
        read_header(cut)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "body",
    [
        struct.pack("<QQ", 1 << 60, 1),  # tensors without end
        struct.pack("<QQ", 1, 1 << 60),  # keys without end
        struct.pack("<QQQ", 0, 1, 1 << 62),  # a key longer than the file
        struct.pack("<QQQ1sI", 0, 1, 1, b"k", 77),  # a value of an unknown kind
        struct.pack("<QQQ1sIIQ", 0, 1, 1, b"k", 9, 8, 1 << 40),  # a list without end
        struct.pack("<QQQ1sIIQQ", 0, 1, 1, b"k", 9, 8, 1000, 1 << 63),  # a string without end inside a list
        struct.pack("<QQQ1sI", 1, 0, 1, b"t", 1000),  # a tensor of a thousand dimensions
        struct.pack("<QQQ1sIQIQ", 1, 0, 1, b"t", 1, 1 << 50, 0, 0),  # weights larger than the file
    ],
)
def test_a_damaged_header_is_refused(tmp_path: Path, body: bytes) -> None:
    """Numbers that cannot be true neither hang nor eat memory."""
    path = tmp_path / "model.gguf"
    path.write_bytes(struct.pack("<II", 0x46554747, 3) + body + b"\0" * 64)
    with pytest.raises(ModelError, match="cut short or damaged"):
        read_header(path)
