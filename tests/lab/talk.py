"""What talk teaches with an extractor: facts learnt from what people said in homes, beside those that two labellers found in it.

`tests/data/talk.toml` is the half for looking; only who judges opens `talk_sealed.toml`. Facts are read by public doors: those whose
source is `talk`, in all versions ever stored, each from the message to which its edge leads. Optional ones count nowhere.
"""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from math import sqrt
from typing import TYPE_CHECKING, Any

from edgemem.bench.ground import at_least, at_most, report
from edgemem.errors import InvalidInputError
from lab.talk_homes import FILE, learnt_in, read_homes, read_nothing
from lab.talk_verdicts import SORTS, verdict

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_WRONG = ("no label", *SORTS)


def run(*, extractor: str, file: Path = FILE, show: bool = False, judge: bool = False) -> dict[str, Any]:
    """Let homes talk, and judge what was learnt from it.

    Args:
        extractor: a class of an importable module that `memory.learning.extractors` takes, as `module:Class`.
        show: tell every learnt fact with its verdict, and every missed one; of the sealed file only with `judge`.
        judge: I judge, and build nothing that this measures.
    """
    if show and not judge and file.read_text("utf-8").startswith("# Sealed"):
        raise InvalidInputError(
            "This file is sealed: who builds sees counts alone; leave out --show, or judge with --judge."
        )
    module, _, name = extractor.partition(":")
    finder = getattr(import_module(module), name)()
    verdicts, shown, found = Counter[str](), [], set()
    homes = read_homes(file)
    labels = {
        (said.id, n): label for home in homes for said in home.said for n, label in enumerate(said.facts)
    }
    for home in homes:
        speakers, by_id = {said.speaker for said in home.said}, {said.id: said for said in home.said}
        for fact in learnt_in(home, finder):
            # Said twice, a fact is right if it is right of either.
            each = [
                (id_, *verdict(fact, by_id[id_].facts, speakers, by_id[id_].at))
                for id_ in fact.said
                if id_ in by_id
            ]
            id_, sort, told = min(
                each, key=lambda one: (one[1] != "right", one[1] != "optional"), default=("", "no label", [])
            )
            verdicts[sort] += 1
            found |= {(id_, n) for n in told}
            shown.append(
                f"{sort}: {fact.key} = {fact.value} {fact.day} {fact.change} ({by_id[id_].text if id_ else ''})"
            )
    wanted = [key for key, label in labels.items() if not label.optional]
    promised = [key for key in wanted if labels[key].promised]
    right, wrong = verdicts["right"], sum(verdicts[sort] for sort in _WRONG)
    kinds = (
        Counter(labels[key].kind for key in wanted),
        Counter(labels[key].kind for key in wanted if key in found),
    )
    nothing = [fact for home in read_nothing() for fact in learnt_in(home, finder)]
    low, high = wilson(right, right + wrong)
    recall = {"promised": share(found, promised), "all": share(found, wanted)}
    figures: dict[str, Any] = {
        "file": file.name, "utterances": sum(len(home.said) for home in homes), "facts": len(wanted), "promised": len(promised),
        "learnt": verdicts.total(), "right": right, "optional": verdicts["optional"],
        "wrong": {sort: verdicts[sort] for sort in _WRONG},
        "precision": right / max(1, right + wrong), "precision_low": low, "precision_high": high, "recall": recall,
        "recall_by_kind": {kind: f"{kinds[1][kind]} of {n}" for kind, n in sorted(kinds[0].items())},
        "nothing": {"lines": len(read_nothing()[0].said), "learnt": len(nothing)},
    }  # fmt: skip
    if show:
        figures["shown"] = [*shown, *(f"nothing: {fact.key} = {fact.value}" for fact in nothing)]
        figures["missed"] = [f"{id_} {labels[id_, n]}" for id_, n in wanted if (id_, n) not in found]
    bars = {
        "precision": at_least(figures["precision"], 0.95), "precision, lower end": at_least(low, 0.90),
        "recall of what is promised": at_least(recall["promised"], 0.50), "recall of all": at_least(recall["all"], 0.35),
        "learnt from nothing": at_most(len(nothing), 0),
    }  # fmt: skip
    return report("talk", figures, bars)


def share(found: set[tuple[str, int]], wanted: Sequence[tuple[str, int]]) -> float:
    return sum(key in found for key in wanted) / max(1, len(wanted))


def wilson(right: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share; of none, 0 and 1."""
    if not n:
        return 0.0, 1.0
    p, w = right / n, z * z / n
    half = z * sqrt(p * (1 - p) / n + w / (4 * n))
    return (p + w / 2 - half) / (1 + w), (p + w / 2 + half) / (1 + w)
