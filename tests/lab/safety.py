"""What tells that somebody's safety is concerned, learnt: that food, medicine and the like come up, and that a danger is told.

What people say where those come up stands in `safety.toml`, in five languages, beside what only sounds so, and what they tell of
dangers in `dangers.toml`; both are in the homes of the judge that learn, too. Each fifth of a file or of the homes is
read by what was learnt on all else.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.bench.ground import report, say
from edgemem.clock import RELEASED
from edgemem.languages.words import tells_of_safety
from edgemem.recall.index.docs import LEAST, SafetyModel, safety_features
from edgemem.recall.query import parse_query, read_question
from edgemem.recall.text.analyse import language_in
from lab.gate import EMBEDDERS, _wrapped
from lab.judge_homes import paths, read
from lab.judged import open_real
from lab.languages import LANGUAGES
from lab.learning import logistic

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

TOPICS, DANGERS = (Path(__file__).with_name(name) for name in ("safety.toml", "dangers.toml"))
PARTS = 5  # of a file, and of the homes
OFTEN = 2  # texts with a word that is weighed
ONLY_SOUNDS = 4.0  # what an utterance weighs that has words of a topic, and is not about it
ELSE = {"talk": 0.3, "not_helped": 0.3, "none": 0.3}
"""What an utterance of these rows of the homes weighs: nothing that may hurt somebody comes up in nearly all, and there are many."""
LEAST_WEIGHT = 0.05  # of a word
_PENALTY = 0.003
_SPREAD, _OF_VECTORS = 0.5, 0.6
"""What a word's standing there is divided by; and how much of its own spread a vector keeps, beside the words."""


class Sample(NamedTuple):
    part: str
    kind: str
    text: str
    good: bool
    language: str
    features: dict[str, float]
    vectors: dict[str, Vector]
    """By embedder that knows the language; `words`: nothing."""

    @property
    def is_lesson(self) -> bool:
        """What a home tells of dangers is no counterexample, also where nobody asks for it."""
        return self.kind != "told" or not tells_of_safety(self.text)


def run(*, write: Path | None = None) -> dict[str, Any]:
    """Learn both, and print how often that is right on what was left out."""
    found: dict[str, dict[str, SafetyModel]] = {}
    sides: dict[str, dict[str, list[bool]]] = {}
    for task, samples in (("things", _topics()), ("danger", _dangers())):
        lessons = [one for one in samples if one.is_lesson]
        found[task] = learnt(task, lessons)
        for part in dict.fromkeys(one.part for one in samples):
            say(f"{task} without {part} …")
            others = learnt(task, [one for one in lessons if one.part != part])
            for one in samples:
                if one.part == part:
                    row = sides.setdefault(f"{task}, {one.kind}, {one.language}", {})
                    for name, vector in one.vectors.items():
                        told = others[name].odds(one.features, vector) >= LEAST[task]
                        row.setdefault(name, []).append(told or tells_of_safety(one.text))
    if write is not None:
        write.write_text(file_of(found), "utf-8")
    means = {
        row: {name: round(sum(some) / len(some), 3) for name, some in each.items()}
        for row, each in sorted(sides.items())
    }
    return report("safety", {"least": LEAST, "side_by_side": means}, {})


def _topics() -> list[Sample]:
    said = [(f"told {n % PARTS}", kind, text, kind == "comes_up") for kind, n, text in _sentences(TOPICS)]
    for n, path in enumerate(paths("train")):
        rows = [asked for asked in read(path).asked if asked.row in ("safety", "safe", *ELSE)]
        said += [(f"homes {n % PARTS}", asked.row, asked.text, asked.row == "safety") for asked in rows]
    meant = [parse_query(read_question(text, RELEASED)) for _, _, text, _ in said]
    return _samples(said, [one.meaning or one.whole.text for one in meant], asked=True)


def _dangers() -> list[Sample]:
    said = [(f"told {n % PARTS}", kind, text, kind != "only_sounds") for kind, n, text in _sentences(DANGERS)]
    for n, path in enumerate(paths("train")):
        home = read(path)
        evidence = {key for asked in home.asked if asked.row == "safety" for key in asked.evidence}
        for told in home.told:
            kind = "evidence" if told.id in evidence else "told"
            said.append((f"homes {n % PARTS}", kind, told.text, told.id in evidence))
    return _samples(said, [text for _, _, text, _ in said], asked=False)


def _sentences(file: Path) -> Iterable[tuple[str, int, str]]:
    for kinds in msgspec.toml.decode(file.read_bytes(), type=dict[str, dict[str, list[str]]]).values():
        for kind, texts in kinds.items():
            yield from ((kind, n, text) for n, text in enumerate(texts))


def _samples(
    said: Sequence[tuple[str, str, str, bool]], meant: Sequence[str], *, asked: bool
) -> list[Sample]:
    import numpy as np

    spoken = list(map(language_in, meant))
    vectors: list[dict[str, Vector]] = [{"words": np.zeros(0, np.float32)} for _ in said]
    for name in EMBEDDERS:
        say(f"{name} …")
        embedder = open_real(name)
        try:
            rows = [embedder.embed_query(text) for text in meant] if asked else embedder.embed_texts(meant)
            languages = embedder.languages or LANGUAGES
        finally:
            embedder.close()
        for its, language, row in zip(vectors, spoken, rows, strict=True):
            if row is not None and language in languages:
                its[name] = row
    return [
        # What the lists tell is a danger without a model; what they tell is not learnt of other words.
        Sample(*one, language, safety_features(one[2]) | {"danger": float(tells_of_safety(one[2]))}, its)
        for one, language, its in zip(said, spoken, vectors, strict=True)
    ]


def learnt(task: str, samples: Sequence[Sample]) -> dict[str, SafetyModel]:
    """Return what was learnt by words alone and with the vectors of each embedder."""
    return {
        name: _weighed(task, [one for one in samples if name in one.vectors], name)
        for name in ("words", *EMBEDDERS)
    }


def _weighed(task: str, samples: Sequence[Sample], embedder: str) -> SafetyModel:
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
    vectors = np.stack([one.vectors[embedder] for one in samples])
    size = vectors.shape[1]
    of = np.hstack([of, vectors])
    spread = np.append(spread, np.full(size, 1 / (_OF_VECTORS * max(size, 1) ** 0.5)))
    good = np.array([one.good for one in samples])
    each = np.array(
        [
            ELSE.get(one.kind, ONLY_SOUNDS if task == "things" and row["any"] and not one.good else 1.0)
            for one, row in zip(samples, rows, strict=True)
        ]
    )
    middle = of.mean(axis=0)
    bias, found = logistic(
        (of - middle) / spread, good, each / each.mean(), penalty=_PENALTY, prior=0.0, least=None
    )
    weights = found / spread
    named = {
        name: round(float(weight), 2)
        for name, weight in zip(names, weights, strict=False)
        if abs(weight) >= LEAST_WEIGHT
    }
    vector = tuple(weights[len(names) :].round(2).tolist())
    languages = tuple(sorted({one.language for one in samples}.intersection(LANGUAGES)))
    return SafetyModel(round(bias - float(middle @ weights), 3), named, vector, languages)


def file_of(found: dict[str, dict[str, SafetyModel]]) -> str:
    lines = ["# Learnt by `make lab ARGS=safety`. See recall/index/docs.py."]
    for task, models in found.items():
        for name, model in models.items():
            # What has a danger by the lists is never asked of a model.
            words = {word: weight for word, weight in model.weights.items() if word != "danger"}
            pairs = ", ".join(f'"{word}" = {weight}' for word, weight in words.items())
            lines += ["", f"[{task}.{name}]", f"bias = {model.bias}", f"weights = {{ {pairs} }}"]
            if model.vector:
                lines.append("languages = [" + ", ".join(f'"{one}"' for one in model.languages) + "]")
                lines += ["vector = [", *_wrapped(map(str, model.vector)), "]"]
    return "\n".join(lines) + "\n"
