"""Writes small, real models in milliseconds: random weights, a real vocabulary, a chat template."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from edgemem.llama.template.chat_template import CHATML
from lab.random_model import key, llama_block, llama_keys, tokenizer_keys, write_gguf


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
    keys, tokens = tokenizer_keys(vocabularies / f"ggml-vocab-{vocabulary}.gguf")
    hidden = width * 2
    keys += llama_keys(tokens, width=width, layers=layers, heads=4, hidden=hidden, context=context)
    keys.append(key("general.file_type", 1))
    if template is not None:
        file = vocabularies / "templates" / f"{template}.jinja"
        keys.append(key("tokenizer.chat_template", template if "{" in template else file.read_text()))
    weights = _weights(np.random.default_rng(seed))
    tensors = {"token_embd": weights(tokens, width), "output": weights(tokens, width)}
    tensors["output_norm"] = np.ones(width, np.float32)
    for layer in range(layers):
        tensors |= llama_block(layer, width, hidden, weights)
    write_gguf(path, keys, tensors)
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
    keys, tokens = tokenizer_keys(vocabularies / f"ggml-vocab-{vocabulary or _RERANKERS[architecture]}.gguf")
    hidden = hidden or 2 * width
    decodes = architecture == "qwen3"
    labels = labels or (("yes", "no") if decodes else ())
    keys += [key("general.architecture", architecture), key("general.file_type", 1)]
    for name, value in {
        "context_length": context,
        "embedding_length": width,
        "block_count": layers,
        "feed_forward_length": hidden,
        "attention.head_count": heads,
        "attention.head_count_kv": heads,
        "pooling_type": 4,
    }.items():
        keys.append(key(f"{architecture}.{name}", value))
    epsilon = "rms_epsilon" if decodes else "epsilon"
    keys.append(key(f"{architecture}.attention.layer_norm_{epsilon}", 1e-6))
    keys.append(key(f"{architecture}.attention.causal", decodes))
    if decodes and template:
        keys.append(key("tokenizer.chat_template.rerank", template))
    if labels:
        keys.append(key(f"{architecture}.classifier.output_labels", labels))
    if languages:
        keys.append(key("general.languages", languages))

    random = np.random.default_rng(seed)
    weights = _weights(random)

    def some(size: int) -> np.ndarray[Any, Any]:
        return random.standard_normal(size, dtype=np.float32) / 8

    ones = np.ones(width, np.float32)
    tensors: dict[str, np.ndarray[Any, Any]] = {"token_embd": weights(tokens, width)}
    blocks = [f"blk.{layer}." for layer in range(layers)]
    square = ("attn_q", "attn_k", "attn_v", "attn_output")
    if decodes:
        keys.append(key("qwen3.attention.key_length", width // heads))
        keys.append(key("qwen3.attention.value_length", width // heads))
        tensors["output_norm"] = ones
        for block in blocks:
            tensors |= {block + part: weights(width, width) for part in square}
            tensors |= {block + part: ones for part in ("attn_norm", "ffn_norm")}
            tensors |= {block + part: ones[: width // heads] for part in ("attn_q_norm", "attn_k_norm")}
            tensors |= {block + part: weights(hidden, width) for part in ("ffn_gate", "ffn_up")}
            tensors[block + "ffn_down"] = weights(width, hidden)
    else:
        keys = [entry for entry in keys if b"tokenizer.ggml.token_type_count" not in entry[:64]]
        keys.append(key("tokenizer.ggml.token_type_count", 2))
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
    write_gguf(path, keys, tensors)
    return path


def _weights(random: np.random.Generator) -> Any:
    """Return what makes random weights of a shape."""
    return lambda *shape: (random.standard_normal(shape, dtype=np.float32) / np.sqrt(shape[-1])).astype(
        np.float16
    )
