"""What reading again costs: milliseconds a pair, pairs within the profile's time, and memory."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

from edgemem.bench.ground import EMBEDDER, median, percentile, real_embedder, report, say, scratch, timed_ms
from edgemem.config import Profile
from edgemem.errors import ModelError
from edgemem.llama.embedder import LlamaEmbedder, open_embedder
from edgemem.llama.reranker import LlamaReranker, open_reranker
from edgemem.recall.search.selection import MOST_READ
from lab.languages import household

if TYPE_CHECKING:
    from collections.abc import Sequence

_TOGETHER = {"sentence": 1, "turn": 4, "whole window": 40}  # how many sentences stand together in a text
_RANK = 4
_SEED = 7


def run(*, model: str = "", pairs: int = 16, home: Path | None = None) -> dict[str, Any]:
    """Time a reranker on pairs of a question and what was said, at the profile's threads and tokens.

    Args:
        model: by its name or file; without one, the default embedder with a head of random numbers stands for one of its
            size, such as a MiniLM with six layers: its time is right, and its opinion worthless.
    """
    profile = Profile()
    spoken = household("en")
    asked = [question for _, question in spoken.asked]
    said = [text for _, _, text in spoken.said]
    with scratch(home) as folder:
        named = model or str(write_random(folder / "random-head.gguf"))
        threads, n_ctx = profile.llama.embed_threads, profile.llama.embed_context
        with (
            open_embedder(EMBEDDER, n_ctx=n_ctx, threads=threads) as embedder,
            open_reranker(named, n_ctx=n_ctx, threads=threads) as reranker,
        ):
            embedder.embed_texts([" ".join(said)])  # what it ever takes is not the reranker's
            before = _pss_mb()
            started = perf_counter()
            reranker.score(asked[0], said[:1])
            load_ms = (perf_counter() - started) * 1e3
            sides = {}
            for name, together in _TOGETHER.items():
                say(f"{name}: {pairs} pairs …")
                texts = [" ".join((said * 2)[at : at + together]) for at in range(pairs)]
                sides[name] = _timed(reranker, embedder, asked, texts)
            texts = said[:MOST_READ]
            read = [
                len(reranker.score(question, texts, timeout_s=profile.recall.rerank_ms / 1e3) or ())
                for question in asked[:9]
            ]
            more_mb = _pss_mb() - before
    columns = {figure: {name: sides[name][figure] for name in sides} for figure in next(iter(sides.values()))}
    return report(
        "rerank",
        {
            "side_by_side": columns,
            "model": model or f"{EMBEDDER} with a random head",
            "load_ms": round(load_ms, 1),
            "memory_mb": round(more_mb, 1),
            f"read in {profile.recall.rerank_ms:g} ms, of {MOST_READ}": median(read),
        },
        {},
    )


def write_random(path: Path) -> Path:
    """Write the default embedder again, as a reranker that has its size and vocabulary and a head of random numbers."""
    try:
        import gguf
    except ImportError as error:
        raise ModelError("Making a reranker needs the package gguf; type: pip install gguf") from error
    import numpy as np

    reader = gguf.GGUFReader(real_embedder())
    writer = gguf.GGUFWriter(path, "bert")
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        value = _RANK if field.name.endswith(".pooling_type") else field.contents()
        inner = field.types[-1] if len(field.types) > 1 else None
        writer.add_key_value(field.name, value, field.types[0], sub_type=inner)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    width = int(reader.fields["bert.embedding_length"].contents())
    random = np.random.default_rng(_SEED)
    for name, shape in (("cls", (width, width)), ("cls.output", (1, width))):
        weights = random.standard_normal(shape, dtype=np.float32) / np.float32(width**0.5)
        writer.add_tensor(f"{name}.weight", weights)
        writer.add_tensor(f"{name}.bias", np.zeros(shape[0], np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _timed(
    reranker: LlamaReranker, embedder: LlamaEmbedder, asked: Sequence[str], texts: Sequence[str]
) -> dict[str, float]:
    spent, computed, embedded = [], [], []
    for at, text in enumerate(texts):
        # In turn, so that both see the machine alike.
        embedded.append(timed_ms(partial(embedder.embed_texts, [text])))
        started, busy = perf_counter(), process_time()
        reranker.score(asked[at % len(asked)], [text])
        spent.append((perf_counter() - started) * 1e3)
        computed.append((process_time() - busy) * 1e3)
    return {
        "words": median(len(text.split()) for text in texts),
        "ms a pair": median(spent),
        "p95 ms": percentile(spent, 0.95),
        "of the processor": median(computed),
        "times embedding the text": median(pair / alone for pair, alone in zip(spent, embedded, strict=True)),
    }


def _pss_mb() -> float:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024 / 1e6
