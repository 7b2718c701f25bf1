"""The converter: published weights in, a GGUF out that llama.cpp computes the same vectors with."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from edgemem.errors import ModelError
from edgemem.llama.models.convert import convert_bert
from support.models import write_tiny_bert


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a folder of published weights."""
    return write_tiny_bert(tmp_path / "source")


def test_the_same_input_gives_the_same_bytes(source: Path, tmp_path: Path) -> None:
    """No time stamp and no order of a set gets in, so a checksum can be pinned."""
    for name in ("a", "b"):
        convert_bert(source, tmp_path / name, name="tiny")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_matrices_are_quantised_and_the_rest_is_kept(source: Path, tmp_path: Path) -> None:
    """Q8_0 for the word table and the layers' matrices, F32 for norms, biases, positions and types."""
    from gguf import GGUFReader

    convert_bert(source, tmp_path / "m.gguf", name="tiny")
    kinds = {tensor.name: tensor.tensor_type.name for tensor in GGUFReader(tmp_path / "m.gguf").tensors}
    quantised = {name for name, kind in kinds.items() if kind == "Q8_0"}
    assert quantised == {"token_embd.weight"} | {
        f"blk.0.{part}.weight" for part in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_down")
    }
    assert {kind for name, kind in kinds.items() if name not in quantised} == {"F32"}
    assert not any("pooler" in name or "position_ids" in name for name in kinds)


def test_without_the_extra_the_error_says_what_to_install(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two packages are an extra that only `models get` needs."""
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(ModelError, match=r"pip install gguf$"):
        convert_bert(source, tmp_path / "m.gguf", name="tiny")
