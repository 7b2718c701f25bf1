"""A chat model of about 100 M random weights: it answers nonsense, and costs what a real one of its size costs.

For every benchmark that must run llama.cpp and not count alone (`bench reboot`, `bench prefill`). It has the vocabulary
of qwen2 and the ChatML template of Qwen2.5, which prints tools, and is written with the package `gguf` in some seconds.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem.bench.ground import cache_folder
from edgemem.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

WIDTH, LAYERS, HEADS, HIDDEN = 512, 8, 8, 1408
"""103 M weights, 78 of them the vocabulary's, and 16 KiB of keys and values a token: what a model of 1 B takes, halved."""

_TEMPLATE = "Qwen-Qwen2.5-7B-Instruct.jinja"
_FORMATS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _ARRAY = 8, 9
_SPREAD = 0.02  # of random weights, as models are initialised


def write_model(
    path: Path, *, width: int = WIDTH, layers: int = LAYERS, hidden: int = HIDDEN, seed: int = 0
) -> Path:
    """Write the model as Q8_0; the same seed gives the same one, and smaller numbers one that is small enough for a test.

    Raises:
        ModelError: the package `gguf` or the vocabulary is missing.
    """
    try:
        import gguf
    except ImportError as error:
        raise ModelError("Writing a model needs the package gguf; type: pip install gguf") from error
    import numpy as np

    vocabulary, template = _sources()
    writer = gguf.GGUFWriter(path, "llama")
    try:
        tokens = _add_vocabulary(writer, gguf, vocabulary)
        writer.add_chat_template(template)
        writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
        writer.add_vocab_size(tokens)
        writer.add_context_length(32768)
        writer.add_embedding_length(width)
        writer.add_block_count(layers)
        writer.add_feed_forward_length(hidden)
        writer.add_head_count(HEADS)
        writer.add_head_count_kv(HEADS)
        writer.add_rope_dimension_count(width // HEADS)
        writer.add_layer_norm_rms_eps(1e-5)
        dice = np.random.default_rng(seed)
        for name, shape in _tensors(tokens, width, layers, hidden).items():
            if len(shape) == 1:
                writer.add_tensor(f"{name}.weight", np.ones(shape, np.float32))
            else:
                kind = gguf.GGMLQuantizationType.Q8_0
                weights = _SPREAD * dice.standard_normal(shape, dtype=np.float32)
                packed: np.ndarray[Any, Any] = gguf.quants.quantize(weights, kind)
                writer.add_tensor(f"{name}.weight", packed, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()
    return path


def _tensors(tokens: int, width: int, layers: int, hidden: int) -> dict[str, tuple[int, ...]]:
    """Return every tensor's shape; the vocabulary's serves for reading and for writing."""
    shapes: dict[str, tuple[int, ...]] = {"token_embd": (tokens, width), "output_norm": (width,)}
    for layer in range(layers):
        block = f"blk.{layer}"
        shapes |= {
            f"{block}.{part}": (width, width) for part in ("attn_q", "attn_k", "attn_v", "attn_output")
        }
        shapes |= {f"{block}.{part}": (hidden, width) for part in ("ffn_gate", "ffn_up")}
        shapes |= {f"{block}.ffn_down": (width, hidden)}
        shapes |= {f"{block}.{part}": (width,) for part in ("attn_norm", "ffn_norm")}
    return shapes


def _add_vocabulary(writer: Any, gguf: Any, file: Path) -> int:
    """Copy the keys of a vocabulary; return how many tokens it has."""
    tokens = 0
    for name, kind, of, value in _keys(file.read_bytes()):
        if name.startswith("tokenizer.") and name != "tokenizer.chat_template":
            sub_type = None if of is None else gguf.GGUFValueType(of)
            writer.add_key_value(name, value, gguf.GGUFValueType(kind), sub_type=sub_type)
        if name == "tokenizer.ggml.tokens":
            tokens = len(value)
    return tokens


def _keys(raw: bytes) -> Iterator[tuple[str, int, int | None, Any]]:
    """Yield name, type, type of items and value of each key; gguf's own reader takes 15 s for 300,000 strings."""
    at = 24
    for _ in range(struct.unpack_from("<Q", raw, 16)[0]):
        name, at = _string(raw, at)
        (kind,), at = struct.unpack_from("<I", raw, at), at + 4
        if kind != _ARRAY:
            value, at = _value(raw, at, kind)
            yield name.decode(), kind, None, value
            continue
        of, count = struct.unpack_from("<IQ", raw, at)
        at += 12
        values = []
        for _ in range(count):
            value, at = _value(raw, at, of)
            values.append(value)
        yield name.decode(), kind, of, values


def _value(raw: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind == _STRING:
        return _string(raw, at)
    return struct.unpack_from(_FORMATS[kind], raw, at)[0], at + struct.calcsize(_FORMATS[kind])


def _string(raw: bytes, at: int) -> tuple[bytes, int]:
    end = at + 8 + struct.unpack_from("<Q", raw, at)[0]
    return raw[at + 8 : end], end


def _sources() -> tuple[Path, str]:
    """Return the vocabulary that the set-up keeps in its cache, and the text of the template."""
    for folder in sorted(cache_folder().glob("vocab-*"), reverse=True):
        vocabulary, template = folder / "ggml-vocab-qwen2.gguf", folder / "templates" / _TEMPLATE
        if vocabulary.is_file() and template.is_file():
            return vocabulary, template.read_text(encoding="utf-8")
    raise ModelError("There is no vocabulary for the model; run `make`, which keeps one in a cache.")
