"""Weights as they are published, converted to a GGUF that llama.cpp computes the same vectors with."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from edgemem.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Progress = Callable[[str, int, int], None]
    """Gets the stage, and bytes or parts done and in all."""

_WHOLE = {
    "embeddings.word_embeddings.weight": "token_embd.weight",
    "embeddings.position_embeddings.weight": "position_embd.weight",
    "embeddings.token_type_embeddings.weight": "token_types.weight",
    "embeddings.LayerNorm": "token_embd_norm",
}
_LAYER = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
_UNQUANTISED = ("position_embd.weight", "token_types.weight")
_SPECIAL = {
    "bos": "[CLS]",
    "eos": "[SEP]",
    "seperator": "[SEP]",
    "unknown": "[UNK]",
    "padding": "[PAD]",
    "mask": "[MASK]",
}
_ROWS = 4096  # of a matrix, quantised at a time: the largest would take 150 MB of temporaries at once


def silent(_stage: str, _done: int, _of: int) -> None:
    """Tell nobody."""


def check_converter(name: str) -> None:
    """Raise ModelError where a converter is not installed: better before the download than behind it."""
    missing = [package for package in ("gguf", "safetensors") if find_spec(package) is None]
    if missing:
        raise ModelError(f"Converting {name} needs more packages; type: pip install {' '.join(missing)}")


def convert_bert(source: Path, target: Path, *, name: str, tell: Progress = silent) -> None:
    """Write `target` from the checked `model.safetensors`, `config.json` and `vocab.txt` in folder `source`.

    The same input gives the same bytes on every machine, so a catalogue can pin their checksum.
    """
    check_converter(name)
    import gguf
    import safetensors

    config = json.loads((source / "config.json").read_text("utf-8"))
    # not splitlines(): a vocabulary may hold characters that are line ends for Python
    vocabulary = (source / "vocab.txt").read_text("utf-8").rstrip("\n").split("\n")
    writer = gguf.GGUFWriter(target, "bert")
    try:
        _add_metadata(writer, name, config, vocabulary, gguf.LlamaFileType.MOSTLY_Q8_0)
        with safetensors.safe_open(source / "model.safetensors", "numpy") as weights:
            plan = list(_plan(int(config["num_hidden_layers"])))
            for done, (old, new) in enumerate(plan, 1):
                _add(writer, gguf, new, weights.get_slice(old))
                tell("converting", done, len(plan))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.flush()
    finally:
        writer.close()


def _add_metadata(
    writer: Any, name: str, config: dict[str, Any], vocabulary: list[str], file_type: int
) -> None:
    writer.add_name(name)
    writer.add_file_type(file_type)
    writer.add_quantization_version(2)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_uint32("bert.pooling_type", 1)  # mean, as in the model's 1_Pooling/config.json
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("bert-bge")
    # llama.cpp marks a word's beginning with U+2581 and its continuation not at all; WordPiece does the reverse
    bare = [token[2:] if token.startswith("##") else "\u2581" + token for token in vocabulary]
    types = [1] * len(vocabulary)  # normal
    for token in _SPECIAL.values():
        at = vocabulary.index(token)
        bare[at], types[at] = token, 3  # control
    writer.add_token_list(bare)
    writer.add_token_types(types)
    writer.add_token_type_count(config["type_vocab_size"])  # without it llama.cpp refuses to load
    for role, token in _SPECIAL.items():
        writer.add_uint32(f"tokenizer.ggml.{role}_token_id", vocabulary.index(token))
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(True)


def _plan(layers: int) -> Iterator[tuple[str, str]]:
    """Yield (name in the safetensors, name in the GGUF); the pooler and position ids are not used by llama.cpp."""
    names = dict(_WHOLE)
    for layer in range(layers):
        names |= {f"encoder.layer.{layer}.{old}": f"blk.{layer}.{new}" for old, new in _LAYER.items()}
    for old, new in names.items():
        for end in ("",) if old.endswith(".weight") else (".weight", ".bias"):
            yield old + end, new + end


def _add(writer: Any, gguf: Any, name: str, part: Any) -> None:
    import numpy as np

    rows, *width = part.get_shape()
    if not width or name in _UNQUANTISED or width[0] % 32:  # 32 weights share a scale
        writer.add_tensor(name, np.ascontiguousarray(part[:], dtype=np.float32))
        return
    kind = gguf.GGMLQuantizationType.Q8_0
    blocks = (
        np.ascontiguousarray(part[start : min(start + _ROWS, rows)], dtype=np.float32)
        for start in range(0, rows, _ROWS)
    )
    packed = np.concatenate([gguf.quants.quantize(block, kind) for block in blocks])
    writer.add_tensor(name, packed, raw_dtype=kind)
