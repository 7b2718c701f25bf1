"""The projection of an embedder's token vectors to few dimensions: their principal components, in our own homes and weeks.

A model's file names it (`general.name`); recall reads texts a second time where its embedder has a projection.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem.bench.ground import EMBEDDER, report, say
from edgemem.errors import ModelError
from edgemem.llama import embedder as embedders
from edgemem.llama.backend import Interrupt
from edgemem.llama.embedder import Encoder, Projection, shipped_projections
from edgemem.llama.header import read_header
from edgemem.llama.models.catalog import find_entry, path_of
from lab.judged import homes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CONTEXT = 256
_LARGEST = 127


def run(*, model: str = EMBEDDER, dimensions: int = 32, write: bool = False) -> dict[str, Any]:
    """Learn the projection of an embedder's tokens from what people say and ask in our own homes.

    Args:
        model: by its name or file; of its languages all homes are read.
        dimensions: of a token; each is a byte in the index.
        write: put it into `edgemem/llama/projections.toml`, in place of an older one.
    """
    import numpy as np

    path = path_of(model)
    header, interrupt = read_header(path), Interrupt()
    name = str(header.metadata.get("general.name", ""))
    if not name:
        raise ModelError(f"{path} does not name its model, and recall could not find its projection")
    width = header.number("embedding_length")
    bare = Projection(np.zeros(width, np.float16).tobytes(), np.eye(width, dtype=np.int8).tobytes())
    encoder = Encoder(path, header, bare, n_ctx=_CONTEXT, threads=1, interrupt=interrupt)
    entry = find_entry(model)
    rows = []
    try:
        for text in _texts(entry.languages if entry else header.languages):
            encoding = encoder.encode(text)
            if encoding is not None and encoding.tokens is not None:
                rows.append(encoding.tokens)
    finally:
        encoder.forward.close()
    tokens = np.concatenate(rows).astype(np.float32) / _LARGEST
    tokens /= np.sqrt(np.einsum("ij,ij->i", tokens, tokens))[:, None]
    centre = tokens.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(tokens.T))
    basis = vectors[:, ::-1][:, :dimensions]
    matrix = np.rint(basis * (_LARGEST / np.abs(basis).max())).astype(np.int8)
    if write:
        made = Projection(centre.astype(np.float16).tobytes(), matrix.tobytes())
        file = Path(embedders.__file__).with_name(embedders.PROJECTION_FILE)
        file.write_text(_toml({**shipped_projections(), name: made}), "utf-8")
    kept = float(values[::-1][:dimensions].sum() / values.sum())
    return report("projection", {"model": name, "tokens": len(tokens), "variance kept": round(kept, 3)}, {})


def _texts(languages: Sequence[str]) -> Iterator[str]:
    """Yield each thing that is said or asked in a home of some languages; none: of all."""
    said = set()
    for name, spoken in homes().items():
        if languages and name.partition("_")[0] not in languages:
            continue
        say(f"{name} …")
        texts = [text for *_, text in spoken.told] + [asked.text for asked in spoken.answerable]
        texts += [text for pair in spoken.replaced for text in (pair.old_text, pair.new_text, pair.question)]
        for text in texts:
            if text and text not in said:
                said.add(text)
                yield text


def _toml(projections: dict[str, Projection]) -> str:
    lines = ["# Learnt by `make lab ARGS=projection`: see `Projection` in embedder.py."]
    for name, made in projections.items():
        lines += ["", f'["{name}"]']
        lines += [
            f'{field} = "{base64.b64encode(value).decode()}"'
            for field, value in (("centre", made.centre), ("matrix", made.matrix))
        ]
    return "\n".join(lines) + "\n"
