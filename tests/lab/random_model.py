"""Models of some 100 M random weights, with the vocabulary and template of Qwen2.5: they answer nonsense, and cost what real ones cost."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem.errors import ModelError
from edgemem.inspect.replay import vocabulary_in_cache

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    Weights = np.ndarray[Any, Any]

WIDTH, LAYERS, HEADS, HIDDEN = 512, 8, 8, 1408
"""103 M weights, 78 of them the vocabulary's, and 16 KiB of keys and values a token: what a model of 1 B takes, halved."""

_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_UINT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 4, 6, 7, 8, 9
_TENSOR_TYPES = {"float32": 0, "float16": 1, "uint8": 8}  # bytes are packed as Q8_0
_ALIGNMENT = 32
_PACKED, _PACKED_BYTES = 32, 34  # weights of a block of Q8_0, and its bytes
_SPREAD = 0.02  # of random weights, as models are initialised


def write_model(
    path: Path, *, width: int = WIDTH, layers: int = LAYERS, hidden: int = HIDDEN, seed: int = 0
) -> Path:
    """Write the model as Q8_0, the same for the same seed; raise ModelError where the vocabulary is missing."""
    import numpy as np

    sources = vocabulary_in_cache()
    if sources is None:
        raise ModelError("There is no vocabulary for the model; run `make`, which keeps one in a cache.")
    vocabulary, template = sources
    keys, tokens = tokenizer_keys(vocabulary)
    keys += llama_keys(tokens, width=width, layers=layers, heads=HEADS, hidden=hidden, context=32768)
    keys += [key("general.file_type", 7), key("tokenizer.chat_template", template)]
    dice = np.random.default_rng(seed)

    def weights(*shape: int) -> Weights:
        return pack(_SPREAD * dice.standard_normal(shape, dtype=np.float32))

    # The vocabulary's weights serve for reading and for writing.
    tensors = {"token_embd": weights(tokens, width), "output_norm": np.ones(width, np.float32)}
    for layer in range(layers):
        tensors |= llama_block(layer, width, hidden, weights)
    write_gguf(path, keys, tensors)
    return path


def llama_keys(tokens: int, *, width: int, layers: int, heads: int, hidden: int, context: int) -> list[bytes]:
    numbers = {
        "vocab_size": tokens,
        "context_length": context,
        "embedding_length": width,
        "block_count": layers,
        "feed_forward_length": hidden,
        "attention.head_count": heads,
        "attention.head_count_kv": heads,
        "rope.dimension_count": width // heads,
        "attention.layer_norm_rms_epsilon": 1e-5,
    }
    return [
        key("general.architecture", "llama"),
        *(key(f"llama.{name}", number) for name, number in numbers.items()),
    ]


def llama_block(layer: int, width: int, hidden: int, weights: Any) -> dict[str, Weights]:
    """Return the tensors of one layer of the llama architecture; `weights` makes one of a shape."""
    import numpy as np

    ones = np.ones(width, np.float32)
    parts = {part: weights(width, width) for part in ("attn_q", "attn_k", "attn_v", "attn_output")}
    parts |= {"ffn_gate": weights(hidden, width), "ffn_up": weights(hidden, width)}
    parts |= {"ffn_down": weights(width, hidden), "attn_norm": ones, "ffn_norm": ones}
    return {f"blk.{layer}.{part}": values for part, values in parts.items()}


def pack(values: Weights) -> Weights:
    """Return the rows of a matrix as Q8_0: of each 32 weights a factor, and 32 whole numbers."""
    import numpy as np

    blocks = values.reshape(-1, _PACKED)
    factors = np.abs(blocks).max(axis=1, keepdims=True) / 127
    packed = np.empty((len(blocks), _PACKED_BYTES), np.uint8)
    packed[:, :2] = factors.astype(np.float16).view(np.uint8)
    packed[:, 2:] = np.rint(blocks / np.where(factors, factors, 1)).astype(np.int8).view(np.uint8)
    return packed.reshape(len(values), -1)


def write_gguf(path: Path, keys: Sequence[bytes], tensors: Mapping[str, Weights]) -> None:
    """Write a GGUF file of keys and tensors, whose names stand without `.weight`."""
    infos, offset = b"", 0
    for name, values in tensors.items():
        shape, kind = values.shape, _TENSOR_TYPES[values.dtype.name]
        if values.dtype.name == "uint8":
            shape = (*shape[:-1], shape[-1] // _PACKED_BYTES * _PACKED)
        infos += _string(name if name.endswith(".bias") else f"{name}.weight")
        infos += struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        infos += struct.pack("<IQ", kind, offset)
        offset += values.nbytes + -values.nbytes % _ALIGNMENT
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys) + infos
    with path.open("wb") as file:
        file.write(head + b"\0" * (-len(head) % _ALIGNMENT))
        for values in tensors.values():
            file.write(values.tobytes() + b"\0" * (-values.nbytes % _ALIGNMENT))


def key(name: str, value: str | bool | float | Sequence[str]) -> bytes:
    start = _string(name)
    if isinstance(value, bool):
        return start + struct.pack("<I?", _BOOL, value)
    if isinstance(value, int):
        return start + struct.pack("<II", _UINT32, value)
    if isinstance(value, float):
        return start + struct.pack("<If", _FLOAT32, value)
    if isinstance(value, str):
        return start + struct.pack("<I", _STRING) + _string(value)
    return start + struct.pack("<IIQ", _ARRAY, _STRING, len(value)) + b"".join(map(_string, value))


def tokenizer_keys(path: Path) -> tuple[list[bytes], int]:
    """Copy the keys of a vocabulary byte for byte (gguf's own reader takes 15 s); return them and the number of tokens."""
    raw = path.read_bytes()
    keys, tokens, at = [], 0, 24
    for _ in range(struct.unpack_from("<Q", raw, 16)[0]):
        begin = at
        length = struct.unpack_from("<Q", raw, at)[0]
        name = raw[at + 8 : at + 8 + length].decode()
        kind = struct.unpack_from("<I", raw, at + 8 + length)[0]
        at = _end(raw, at + 12 + length, kind)
        if name == "tokenizer.ggml.tokens":
            tokens = struct.unpack_from("<Q", raw, begin + 16 + length)[0]
        # llama.cpp knows Phi-3's tokens by the model's name
        if name == "general.name" or (name.startswith("tokenizer.") and name != "tokenizer.chat_template"):
            keys.append(raw[begin:at])
    return keys, tokens


def _end(raw: bytes, at: int, kind: int) -> int:
    if kind == _STRING:
        return at + 8 + int(struct.unpack_from("<Q", raw, at)[0])
    if kind != _ARRAY:
        return at + _SIZES[kind]
    inner, count = struct.unpack_from("<IQ", raw, at)
    at += 12
    if inner != _STRING:
        return at + _SIZES[inner] * int(count)
    for _ in range(count):
        at += 8 + struct.unpack_from("<Q", raw, at)[0]
    return at


def _string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()
