"""Writes small, real models in milliseconds: random weights, a real vocabulary, a chat template."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

from edgemem.llama.template.chat_template import CHATML

_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_UINT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 4, 6, 7, 8, 9
_ALIGNMENT = 32


def write_llama_gguf(
    path: Path,
    *,
    vocabularies: Path,
    vocabulary: str = "qwen2",
    template: str | None = CHATML,
    layers: int = 2,
    width: int = 64,
    seed: int = 0,
    context: int = 4096,
) -> Path:
    """Write a model of the llama architecture that loads, answers nonsense and counts like the real ones.

    `vocabularies` is the folder of the unpacked ones (the fixture of that name). `template` is Jinja, or the
    name of a file in the folder's `templates/`; None leaves the model without one.
    """
    keys, tokens = _tokenizer_keys(vocabularies / f"ggml-vocab-{vocabulary}.gguf")
    heads, hidden = 4, width * 2
    keys += [_text("general.architecture", "llama"), _number("general.file_type", 1)]
    if template is not None:
        file = vocabularies / "templates" / f"{template}.jinja"
        keys.append(_text("tokenizer.chat_template", template if "{" in template else file.read_text()))
    for key, value in {
        "vocab_size": tokens,
        "context_length": context,
        "embedding_length": width,
        "block_count": layers,
        "feed_forward_length": hidden,
        "attention.head_count": heads,
        "attention.head_count_kv": heads,
        "rope.dimension_count": width // heads,
    }.items():
        keys.append(_number(f"llama.{key}", value))
    keys.append(_named("llama.attention.layer_norm_rms_epsilon", _FLOAT32) + struct.pack("<f", 1e-5))

    random = np.random.default_rng(seed)

    def weights(*shape: int) -> np.ndarray[Any, Any]:
        return (random.standard_normal(shape, dtype=np.float32) / np.sqrt(shape[-1])).astype(np.float16)

    ones = np.ones(width, np.float32)
    tensors = {"token_embd": weights(tokens, width), "output": weights(tokens, width), "output_norm": ones}
    for layer in range(layers):
        block = {part: weights(width, width) for part in ("attn_q", "attn_k", "attn_v", "attn_output")}
        block |= {"ffn_gate": weights(hidden, width), "ffn_up": weights(hidden, width)}
        block |= {"ffn_down": weights(width, hidden), "attn_norm": ones, "ffn_norm": ones}
        tensors |= {f"blk.{layer}.{part}": values for part, values in block.items()}
    _write(path, keys, tensors)
    return path


RERANK_TEMPLATE = (
    "<|im_start|>system\nAnswer yes or no.<|im_end|>\n<|im_start|>user\n<Query>: {query}\n<Document>: {document}"
    "<|im_end|>\n<|im_start|>assistant\n"
)
"""A short one of the kind that llama.cpp's conversion writes for Qwen3-Reranker."""

_RERANKERS = {"bert": "bert-bge", "jina-bert-v2": "bert-bge", "qwen3": "qwen2"}


def write_reranker_gguf(
    path: Path,
    *,
    vocabularies: Path,
    architecture: str = "bert",
    vocabulary: str | None = None,
    template: str | None = RERANK_TEMPLATE,
    layers: int = 2,
    width: int = 64,
    hidden: int | None = None,
    heads: int = 4,
    seed: int = 0,
    context: int = 512,
    labels: tuple[str, ...] = (),
    head: bool = True,
    says: float | None = None,
    languages: tuple[str, ...] = (),
) -> Path:
    """Write a model that ranks at random, of one of the architectures that rerankers have.

    Args:
        vocabulary: one of the unpacked ones; by default one that such a model may have.
        template: how a decoder is told a pair.
        hidden: of the feed-forward network; by default twice the width.
        labels: what its head tells apart; by default one thing, or yes and no.
        head: False leaves out what ranks.
        says: what an encoder thinks of every text; by default something about each.
        languages: which it says that it knows.
    """
    keys, tokens = _tokenizer_keys(vocabularies / f"ggml-vocab-{vocabulary or _RERANKERS[architecture]}.gguf")
    hidden = hidden or 2 * width
    decodes = architecture == "qwen3"
    labels = labels or (("yes", "no") if decodes else ())
    keys += [_text("general.architecture", architecture), _number("general.file_type", 1)]
    for key, value in {
        "context_length": context,
        "embedding_length": width,
        "block_count": layers,
        "feed_forward_length": hidden,
        "attention.head_count": heads,
        "attention.head_count_kv": heads,
        "pooling_type": 4,
    }.items():
        keys.append(_number(f"{architecture}.{key}", value))
    epsilon = "rms_epsilon" if decodes else "epsilon"
    keys.append(_named(f"{architecture}.attention.layer_norm_{epsilon}", _FLOAT32) + struct.pack("<f", 1e-6))
    keys.append(_named(f"{architecture}.attention.causal", _BOOL) + struct.pack("<?", decodes))
    if decodes and template:
        keys.append(_text("tokenizer.chat_template.rerank", template))
    if labels:
        keys.append(_texts(f"{architecture}.classifier.output_labels", labels))
    if languages:
        keys.append(_texts("general.languages", languages))

    random = np.random.default_rng(seed)

    def weights(*shape: int) -> np.ndarray[Any, Any]:
        return (random.standard_normal(shape, dtype=np.float32) / np.sqrt(shape[-1])).astype(np.float16)

    def some(size: int) -> np.ndarray[Any, Any]:
        return random.standard_normal(size, dtype=np.float32) / 8

    ones = np.ones(width, np.float32)
    tensors: dict[str, np.ndarray[Any, Any]] = {"token_embd": weights(tokens, width)}
    blocks = [f"blk.{layer}." for layer in range(layers)]
    square = ("attn_q", "attn_k", "attn_v", "attn_output")
    if decodes:
        keys.append(_number("qwen3.attention.key_length", width // heads))
        keys.append(_number("qwen3.attention.value_length", width // heads))
        tensors["output_norm"] = ones
        for block in blocks:
            tensors |= {block + part: weights(width, width) for part in square}
            tensors |= {block + part: ones for part in ("attn_norm", "ffn_norm")}
            tensors |= {block + part: ones[: width // heads] for part in ("attn_q_norm", "attn_k_norm")}
            tensors |= {block + part: weights(hidden, width) for part in ("ffn_gate", "ffn_up")}
            tensors[block + "ffn_down"] = weights(width, hidden)
    else:
        keys = [key for key in keys if not key.startswith(_string("tokenizer.ggml.token_type_count"))]
        keys.append(_number("tokenizer.ggml.token_type_count", 2))
        tensors |= {
            "token_types": np.stack([some(width)] * 2),
            "token_embd_norm": ones,
            "token_embd_norm.bias": some(width),
        }
        if architecture == "bert":
            tensors["position_embd"] = weights(context, width)
        for block in blocks:
            for part in square:
                tensors |= {block + part: weights(width, width), f"{block}{part}.bias": some(width)}
            for part in ("attn_output_norm", "layer_output_norm"):
                tensors |= {block + part: ones, f"{block}{part}.bias": some(width)}
            tensors |= {block + "ffn_up": weights(hidden, width), block + "ffn_up.bias": some(hidden)}
            tensors |= {block + "ffn_down": weights(width, hidden), block + "ffn_down.bias": some(width)}
            if architecture == "jina-bert-v2":
                tensors[block + "ffn_gate"] = weights(hidden, width)
    opinion = np.array([0.0 if says is None else says], np.float32)
    factor = np.float16(4 if says is None else 0)
    if head and architecture == "jina-bert-v2":
        tensors |= {"cls": weights(1, width) * factor, "cls.bias": opinion}
    elif head:
        if not decodes:
            tensors |= {"cls": weights(width, width), "cls.bias": some(width)}
        tensors["cls.output"] = weights(max(1, len(labels)), width) * factor
        if says is not None:
            tensors["cls.output.bias"] = opinion
    _write(path, keys, tensors)
    return path


def _write(path: Path, keys: list[bytes], tensors: dict[str, np.ndarray[Any, Any]]) -> None:
    infos, offset = b"", 0
    for name, values in tensors.items():
        kind = 1 if values.dtype == np.float16 else 0
        infos += _string(name if name.endswith(".bias") else f"{name}.weight") + struct.pack(
            "<I", values.ndim
        )
        infos += struct.pack(f"<{values.ndim}Q", *reversed(values.shape)) + struct.pack("<IQ", kind, offset)
        offset += values.nbytes + -values.nbytes % _ALIGNMENT
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys) + infos
    with path.open("wb") as file:
        file.write(head + b"\0" * (-len(head) % _ALIGNMENT))
        for values in tensors.values():
            file.write(values.tobytes() + b"\0" * (-values.nbytes % _ALIGNMENT))


def _tokenizer_keys(path: Path) -> tuple[list[bytes], int]:
    """Copy the keys of a vocabulary byte for byte; return them and the number of tokens."""
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


def _named(key: str, kind: int) -> bytes:
    return _string(key) + struct.pack("<I", kind)


def _text(key: str, value: str) -> bytes:
    return _named(key, _STRING) + _string(value)


def _texts(key: str, values: tuple[str, ...]) -> bytes:
    return _named(key, _ARRAY) + struct.pack("<IQ", _STRING, len(values)) + b"".join(map(_string, values))


def _number(key: str, value: int) -> bytes:
    return _named(key, _UINT32) + struct.pack("<I", value)
