"""Conversion of published BERT weights (safetensors) to a GGUF that llama.cpp embeds with."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from edgemem.errors import ModelError

if TYPE_CHECKING:
    import numpy as np

Precision = Literal["q8_0", "f32"]
"""`q8_0` is what robots use; `f32` is the unquantised original, kept as the yardstick of tests."""

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
_ROWS = 4096  # of a matrix, quantised at a time: the largest one would take 150 MB of temporaries at once


def check_converter(name: str) -> None:
    """Raise ModelError where what converts a model is not installed: better before its download than behind it."""
    missing = [package for package in ("gguf", "safetensors") if find_spec(package) is None]
    if missing:
        raise ModelError(f"Converting {name} needs more packages; type: pip install {' '.join(missing)}")


def convert_bert(
    source: Path,
    target: Path,
    *,
    name: str,
    precision: Precision = "q8_0",
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write `target` from the `model.safetensors`, `config.json` and `vocab.txt` in folder `source`.

    The same input gives the same bytes on every machine, so that a catalogue can pin their checksum.
    `progress` hears tensors written and tensors in all.
    """
    check_converter(name)
    import gguf
    import safetensors

    config, vocabulary = _read_sidecars(source)
    kind = getattr(gguf.GGMLQuantizationType, precision.upper())
    writer = gguf.GGUFWriter(target, "bert")
    try:
        _add_metadata(writer, name, config, vocabulary, getattr(gguf.LlamaFileType, _file_type(precision)))
        with safetensors.safe_open(source / "model.safetensors", "numpy") as weights:
            plan = list(_plan(weights, int(config["num_hidden_layers"]), source))
            for old, new in plan:
                shape = tuple(weights.get_slice(old).get_shape())
                _announce(writer, gguf, new, shape, kind if _is_quantised(new, shape) else None)
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_ti_data_to_file()
            for done, (old, new) in enumerate(plan, 1):
                part = weights.get_slice(old)
                quantised = _is_quantised(new, tuple(part.get_shape()))
                writer.write_tensor_data(_encode(part, gguf, kind if quantised else None))
                if progress is not None:
                    progress(done, len(plan))
        writer.flush()
    except safetensors.SafetensorError as error:
        raise ModelError(
            f"{source / 'model.safetensors'} is damaged ({error}); fetch the model again"
        ) from error
    finally:
        writer.close()


def _read_sidecars(source: Path) -> tuple[dict[str, Any], list[str]]:
    try:
        config = json.loads((source / "config.json").read_text("utf-8"))
        # not splitlines(): a vocabulary may hold characters that Python takes for line ends
        vocabulary = (source / "vocab.txt").read_text("utf-8").rstrip("\n").split("\n")
    except (OSError, ValueError) as error:
        raise ModelError(f"{source} holds no readable config.json and vocab.txt: {error}") from error
    if config.get("model_type") != "bert":
        raise ModelError(f"{source} is a {config.get('model_type')!r} model; only 'bert' can be converted")
    missing = sorted({token for token in _SPECIAL.values() if token not in vocabulary})
    if missing or len(vocabulary) != config.get("vocab_size"):
        raise ModelError(
            f"vocab.txt in {source} does not fit its config.json (of {config.get('vocab_size')} tokens "
            f"{len(vocabulary)} are there, missing: {', '.join(missing) or 'none'}); fetch the model again"
        )
    if len(set(vocabulary)) != len(vocabulary):  # llama.cpp would end the process with an assertion
        raise ModelError(f"vocab.txt in {source} holds a token twice; fetch the model again")
    return config, vocabulary


def _file_type(precision: Precision) -> str:
    return "MOSTLY_Q8_0" if precision == "q8_0" else "ALL_F32"


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
    # llama.cpp writes a word's beginning as U+2581 and its continuation bare; WordPiece does it the other way round
    special = {vocabulary.index(token) for token in _SPECIAL.values()}
    writer.add_token_list([_phantom_space(t) if i not in special else t for i, t in enumerate(vocabulary)])
    writer.add_token_types(
        [3 if i in special else 1 for i in range(len(vocabulary))]
    )  # 3: control, 1: normal
    writer.add_token_type_count(config["type_vocab_size"])  # without it llama.cpp refuses to load
    for role, token in _SPECIAL.items():
        writer.add_uint32(f"tokenizer.ggml.{role}_token_id", vocabulary.index(token))
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(True)


def _phantom_space(token: str) -> str:
    return token[2:] if token.startswith("##") else "\u2581" + token


def _plan(weights: Any, layers: int, source: Path) -> Iterator[tuple[str, str]]:
    """Yield (name in the safetensors, name in the GGUF); the pooler and position ids are not used by llama.cpp."""
    there = set(weights.keys())
    wanted = dict(_WHOLE)
    for layer in range(layers):
        wanted |= {f"encoder.layer.{layer}.{old}": f"blk.{layer}.{new}" for old, new in _LAYER.items()}
    for old, new in wanted.items():
        pairs = (
            [(old, new)]
            if old.endswith(".weight")
            else [(f"{old}.{x}", f"{new}.{x}") for x in ("weight", "bias")]
        )
        for pair in pairs:
            if pair[0] not in there:
                raise ModelError(
                    f"{source / 'model.safetensors'} lacks {pair[0]}; it is no BERT encoder of {layers} layers"
                )
            yield pair


def _is_quantised(name: str, shape: tuple[int, ...]) -> bool:
    return len(shape) == 2 and name not in _UNQUANTISED and shape[1] % 32 == 0  # 32 weights share a scale


def _announce(writer: Any, gguf: Any, name: str, shape: tuple[int, ...], kind: Any) -> None:
    import numpy as np

    if kind is None or kind == gguf.GGMLQuantizationType.F32:
        size = int(np.prod(shape)) * 4
        writer.add_tensor_info(name, shape, np.dtype(np.float32), size)
    else:
        packed = gguf.quants.quant_shape_to_byte_shape(shape, kind)
        writer.add_tensor_info(name, packed, np.dtype(np.uint8), int(np.prod(packed)), raw_dtype=kind)


def _encode(part: Any, gguf: Any, kind: Any) -> np.ndarray[Any, Any]:
    import numpy as np

    if kind is None or kind == gguf.GGMLQuantizationType.F32:
        return np.ascontiguousarray(part[:], dtype=np.float32)
    rows = part.get_shape()[0]
    return np.concatenate(
        [
            gguf.quants.quantize(
                np.ascontiguousarray(part[start : min(start + _ROWS, rows)], dtype=np.float32), kind
            )
            for start in range(0, rows, _ROWS)
        ]
    )
