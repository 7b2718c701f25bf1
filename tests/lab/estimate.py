"""How far the estimate of tokens is off without a tokenizer: against real vocabularies, on texts it was not set to."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from edgemem.bench.ground import at_least, at_most, report, say
from edgemem.errors import ModelError
from edgemem.inspect.replay import cache_folder
from edgemem.llama.tokens.estimate import EstimateTokenizer
from edgemem.llama.tokens.vocabulary import FileVocabulary

SET_TO = ("qwen2", "llama-bpe", "gemma-4")
"""The vocabularies that the estimate is held against; the others only tell how bad it can get."""

NEAR_MEDIAN = ("Latin", "Vietnamese")
"""Scripts that are within 15 % of the median; the others are never below the dearest."""

_PREFIX = "ggml-vocab-"


class Sample(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    script: str
    language: str
    kind: str
    text: str


class Counted(msgspec.Struct, frozen=True):
    estimated: int
    taken: dict[str, int]

    def of_median(self) -> float:
        """Return the estimate as a multiple of the one in the middle of the three."""
        return self.estimated / statistics.median(self.taken[name] for name in SET_TO)

    def of_dearest(self) -> float:
        """Return the estimate as a multiple of the dearest of the three."""
        return self.estimated / max(self.taken[name] for name in SET_TO)

    def worst(self) -> tuple[str, float]:
        """Return the vocabulary that takes the most of all, and how many times the estimate."""
        name = max(self.taken, key=self.taken.__getitem__)
        return name, round(self.taken[name] / self.estimated, 2)


def run() -> dict[str, Any]:
    """Count texts in ten scripts and languages with the estimate and with 15 real vocabularies.

    The bars are held by each language as a whole (400 to 3,000 characters). `paragraphs` tells the lowest and the
    highest single text, `worst` the most that any of the 15 takes, as a multiple of the estimate.
    """
    texts = samples()
    return told(texts, count(texts))


def samples() -> list[Sample]:
    raw = Path(__file__).with_suffix(".toml").read_bytes()
    return msgspec.toml.decode(raw, type=dict[str, list[Sample]])["texts"]


def told(texts: Sequence[Sample], counted: Sequence[Counted]) -> dict[str, Any]:
    sides: dict[str, dict[str, Any]] = {}
    by_script: dict[str, list[tuple[str, Counted]]] = {}
    for script, language in dict.fromkeys((sample.script, sample.language) for sample in texts):
        some = [one for sample, one in zip(texts, counted, strict=True) if sample.language == language]
        total = _sum(some)
        by_script.setdefault(script, []).append((language, total))
        sides[language] = _row(script, total, some)
    others = [one for script, named in by_script.items() if script not in NEAR_MEDIAN for _, one in named]
    bars = {}
    for script in NEAR_MEDIAN:
        ratios = [one.of_median() for _, one in by_script[script]]
        bars[f"{script.lower()}_lowest_of_median"] = at_least(min(ratios), 0.85)
        bars[f"{script.lower()}_highest_of_median"] = at_most(max(ratios), 1.15)
    bars["others_lowest_of_dearest"] = at_least(min(one.of_dearest() for one in others), 1.0)
    bars["others_highest_of_dearest"] = at_most(max(one.of_dearest() for one in others), 1.45)
    figures = {
        "side_by_side": sides,
        "scripts": {
            script: _row(script, _sum([one for _, one in named]), [])
            | {"characters": sum(len(sample.text) for sample in texts if sample.script == script)}
            for script, named in by_script.items()
        },
        "against": ", ".join(SET_TO),
        "vocabularies": sorted(counted[0].taken),
    }
    return report("estimate", figures, bars)


def _row(script: str, total: Counted, texts: list[Counted]) -> dict[str, Any]:
    name, times = total.worst()
    row: dict[str, Any] = {
        "of_median": round(total.of_median(), 3),
        "of_dearest": round(total.of_dearest(), 3),
        "worst": times,
        "worst_by": name,
    }
    if texts:
        near = script in NEAR_MEDIAN
        each = [one.of_median() if near else one.of_dearest() for one in texts]
        row["paragraphs"] = f"{min(each):.2f} to {max(each):.2f}"
    return row


def count(texts: Sequence[Sample]) -> list[Counted]:
    estimate = EstimateTokenizer()
    taken: list[dict[str, int]] = [{} for _ in texts]
    for name, file in _vocabularies().items():
        say(f"counting with {name} …")
        vocabulary = FileVocabulary.load(file)
        try:
            for sample, counts in zip(texts, taken, strict=True):
                counts[name] = len(vocabulary.tokenize(sample.text, special=False))
        finally:
            vocabulary.close()
    return [
        Counted(len(estimate.encode(sample.text)), counts)
        for sample, counts in zip(texts, taken, strict=True)
    ]


def _sum(some: list[Counted]) -> Counted:
    taken = {name: sum(one.taken[name] for one in some) for name in some[0].taken}
    return Counted(sum(one.estimated for one in some), taken)


def _vocabularies() -> dict[str, Path]:
    """Return the files of the vocabularies that llama.cpp ships with test vectors, by name."""
    for folder in sorted(cache_folder().glob("vocab-*"), reverse=True):
        vectors = sorted(folder.glob(f"{_PREFIX}*.gguf.inp"))
        found = {file.name.removeprefix(_PREFIX).split(".")[0]: file.with_suffix("") for file in vectors}
        if found.keys() >= set(SET_TO):
            return found
    raise ModelError(
        f"There are no vocabularies in {cache_folder()} to count with; run `make`, which takes them out of"
        " llama-cpp-python's source package and keeps them there."
    )
