"""What tells that somebody's safety is concerned, learnt: food, drink, medicine, plants or cleaning agents come up.

What people say then stands in `safety.toml`, in five languages, beside what only sounds so; and in the homes of the judge that
learn. Each home, and each fifth of the file, is read by what was learnt on all others.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.bench.ground import report
from edgemem.clock import RELEASED
from edgemem.recall.query import parse_query, read_question
from edgemem.recall.search.gate import Direction, Utterance
from edgemem.recall.search.models import LinearModel
from edgemem.recall.search.safety import LEAST, Topic, features_of
from lab.gate import _wrapped
from lab.judge_homes import paths, read
from lab.judged import open_real
from lab.learning import logistic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.llama.protocols import Embedder

FILE = Path(__file__).with_suffix(".toml")
PARTS = 5  # of the file
OFTEN = 2  # utterances with a word that is weighed
ONLY_SOUNDS = 4.0  # what an utterance weighs that has such words, and does not concern safety
_PENALTY = 0.04
_SPREAD, _OF_VECTORS = 0.5, 0.6
"""What a word's standing there is divided by; and how much of its own spread a vector keeps, beside the words."""


class Sample(NamedTuple):
    home: str
    text: str
    utterance: Utterance
    concerned: bool

    @property
    def features(self) -> dict[str, float]:
        return features_of(self.text, self.utterance)


def run(*, write: Path | None = None) -> dict[str, Any]:
    """Learn when somebody's safety is concerned, and print how often that is right on what was left out."""
    embedder = open_real()
    try:
        samples = _samples(embedder)
    finally:
        embedder.close()
    if write is not None:
        write.write_text(file_of(learnt(samples)), "utf-8")
    odds: dict[str, list[tuple[Sample, float]]] = {"with the embedder": [], "by words": []}
    for home in dict.fromkeys(one.home for one in samples):
        topic = learnt([one for one in samples if one.home != home])
        for one in samples:
            if one.home == home:
                bare = one.utterance._replace(vector=None)
                odds["with the embedder"].append((one, topic.odds(one.text, one.utterance)))
                odds["by words"].append((one, topic.odds(one.text, bare)))
    sides: dict[str, dict[str, list[bool]]] = {}
    for name, told in odds.items():
        for one, its in told:
            where = "told" if one.home.startswith("told") else "homes"
            row = f"{where}, {'concerned' if one.concerned else 'not'}, {one.utterance.language}"
            sides.setdefault(row, {}).setdefault(name, []).append(its >= LEAST)
    means = {
        row: {name: round(sum(some) / len(some), 3) for name, some in each.items()}
        for row, each in sorted(sides.items())
    }
    return report("safety", {"least": LEAST, "side_by_side": means}, {})


def _samples(embedder: Embedder) -> list[Sample]:
    told = msgspec.toml.decode(FILE.read_bytes(), type=dict[str, dict[str, list[str]]])
    said = [
        (f"told {n % PARTS}", text, kind == "comes_up")
        for kinds in told.values()
        for kind, texts in kinds.items()
        for n, text in enumerate(texts)
    ]
    for path in paths("train"):
        rows = [asked for asked in read(path).asked if asked.row in ("safety", "safe")]
        said += [(path.stem, asked.text, asked.row == "safety") for asked in rows]
    asked = [parse_query(read_question(text, RELEASED)) for _, text, _ in said]
    vectors = embedder.embed_texts([one.meaning or one.whole.text for one in asked])
    samples = []
    for (home, text, concerned), one, vector in zip(said, asked, vectors, strict=True):
        known = None if one.whole.language in ("zh", "other") else vector
        words = frozenset(one.whole.words)
        utterance = Utterance(words, one.whole.language, known, embedder.fingerprint)
        samples.append(Sample(home, text, utterance, concerned))
    return samples


def learnt(samples: Sequence[Sample]) -> Topic:
    """Return what was learnt without a vector and with one."""
    return Topic(*_weighed(samples), *_weighed(samples, vectors=True))


def _weighed(samples: Sequence[Sample], *, vectors: bool = False) -> Any:
    import numpy as np

    rows = [one.features for one in samples]
    often = Counter(name for row in rows for name in row)
    names = sorted(name for name, times in often.items() if times >= OFTEN)
    of = np.array([[row.get(name, 0.0) for name in names] for row in rows])
    spread = np.array(
        [
            _SPREAD if ":" in name else column.std() / 2 + 1e-6
            for name, column in zip(names, of.T, strict=True)
        ]
    )
    size = len(next(one.utterance.vector for one in samples if one.utterance.vector is not None))
    if vectors:
        more = [np.zeros(size) if one.utterance.vector is None else one.utterance.vector for one in samples]
        of, spread = np.hstack([of, more]), np.append(spread, np.full(size, 1 / (_OF_VECTORS * size**0.5)))
    good = np.array([one.concerned for one in samples])
    each = np.array(
        [
            1.0 if one.concerned or not row["any"] else ONLY_SOUNDS
            for one, row in zip(samples, rows, strict=True)
        ]
    )
    middle = of.mean(axis=0)
    bias, found = logistic(
        (of - middle) / spread, good, each / each.mean(), penalty=_PENALTY, prior=0.0, least=-np.inf
    )
    weights = found / spread
    named = {
        name: round(float(weight), 2)
        for name, weight in zip(names, weights, strict=False)
        if abs(weight) >= 0.01
    }
    model = LinearModel(round(bias - float(middle @ weights), 3), named)
    if not vectors:
        return (model,)
    embedder = samples[0].utterance.embedder.partition(":")[0]
    direction = Direction(embedder, 0.0, tuple(weights[len(names) :].round(2).tolist()))
    return LinearModel(model.bias, {**named, "vector_odds": 1.0}), direction


def file_of(topic: Topic) -> str:
    lines = [
        "# Learnt by `make lab ARGS=safety`: how likely food, medicine and the like come up. See recall/search/safety.py."
    ]
    lines += ["", "[words_only]", *_lines_of(topic.words_only)]
    lines += ["", "[with_meaning]", *_lines_of(topic.with_meaning), "", "[direction]"]
    lines += [f'embedder = "{topic.direction.embedder}"', f"bias = {topic.direction.bias}"]
    lines += ["weights = [", *_wrapped(map(str, topic.direction.weights)), "]"]
    return "\n".join(lines) + "\n"


def _lines_of(model: LinearModel) -> list[str]:
    pairs = ", ".join(f'"{name}" = {weight}' for name, weight in model.weights.items())
    return [f"bias = {model.bias}", f"weights = {{ {pairs} }}"]
