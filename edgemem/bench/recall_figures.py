"""The figures of `bench recall`: means by category, intervals, bars, and what is kept for the next run to compare with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from edgemem.bench.bootstrap import interval, paired
from edgemem.bench.recall_asking import Answered
from edgemem.bench.recall_cases import LEFT_OUT, Form
from edgemem.bench.recall_scores import in_order
from edgemem.bench.report import Bar, at_least, at_most, median, percentile
from edgemem.errors import InvalidInputError

WHOLE_ANSWER = 0.85
"""Of the questions of our own corpus whose evidence is among the first five."""
NOISE_BARS = {0.1: 0.05, 0.2: 0.10}
"""What so many misheard words may cost of recall@5, against a saved run without them."""


def figures_of(answered: Sequence[Answered], *, form: Form, least: float) -> dict[str, Any]:
    """Return means by category, intervals, how long it took, and how often nothing was found where nothing answers.

    Args:
        least: the score below which nothing counted as found.
    """
    scored = [one for one in answered if one.scores]
    names = in_order([name for one in scored for name in one.scores])
    categories = sorted({one.asked.category for one in scored})
    groups = {"all": scored} | {
        category: [one for one in scored if one.asked.category == category] for category in categories
    }
    figures: dict[str, Any] = {
        "side_by_side": {
            group: {"n": len(some)} | {name: interval(values_of(some, name)).mean for name in names}
            for group, some in groups.items()
        },
        "intervals": {name: msgspec.structs.asdict(interval(values_of(scored, name))) for name in names},
        "latency_ms": {
            "median": median(one.ms for one in answered),
            "p95": percentile([one.ms for one in answered], 0.95),
            "query_embedding_median": median(one.embed_ms for one in answered),
            "search_median": median(one.ms - one.embed_ms for one in answered),
            "search_p95": percentile([one.ms - one.embed_ms for one in answered], 0.95),
        },
    }
    off = [float(one.empty) for one in answered if one.asked.category in LEFT_OUT]
    if off:
        figures["nothing_found"] = {
            "min_score": least,
            "off_topic_empty": msgspec.structs.asdict(interval(off)),
        }
        if form == "weeks":
            whole, cut = (values_of(scored, name) for name in ("recall@5", "recall@5_min_score"))
            figures["nothing_found"]["cost_recall@5"] = -paired(whole, cut).difference
    return figures


def values_of(answered: Iterable[Answered], name: str) -> list[float]:
    """Return one score of all questions that have it."""
    return [one.scores[name] for one in answered if name in one.scores]


def bars_of(figures: dict[str, Any], *, forms: str, noise: float, block: int) -> dict[str, Bar]:
    """Return the bars that hold for a corpus, which are goals, for LoCoMo's open half and for our own words that nothing was fitted to."""
    mean = figures["side_by_side"]["all"]
    bars: dict[str, Bar] = {}
    if figures["form"] == "locomo":
        for name, least in (("recall@5", 0.70), ("recall@10", 0.78), ("session_recall@5", 0.90)):
            bars[name] = at_least(mean[name], least)
    if noise in NOISE_BARS and "recall@5" in figures.get("against", {}):
        bars["loss_recall@5"] = at_most(-figures["against"]["recall@5"]["difference"], NOISE_BARS[noise])
    if figures["form"] == "weeks" and not noise:
        if forms == "unseen":
            bars["recall@5"] = at_least(mean["recall@5"], 0.90)
        if block:
            bars["block_answer_found"] = at_least(mean["block_answer_found"], WHOLE_ANSWER)
        bars["off_topic_empty"] = at_least(figures["nothing_found"]["off_topic_empty"]["mean"], 0.90)
        bars["cost_recall@5"] = at_most(figures["nothing_found"]["cost_recall@5"], 0.02)
        if "small_talk" in figures:
            bars["false_injections"] = at_most(figures["small_talk"]["false_injections"]["mean"], 0.02)
        if "facts" in figures:
            facts = figures["facts"]
            bars["facts_off_topic_in_block"] = at_most(facts["off_topic"]["in_block"]["mean"], 0.10)
            bars["facts_cost_recall@5"] = at_most(facts["at_the_floor"]["cost_recall@5"], 0.02)
            bars["facts_small_talk_in_block"] = at_most(facts["small_talk"]["in_block"]["mean"], 0.02)
    return bars


def write_scores(path: Path, data: str, answered: Sequence[Answered]) -> None:
    """Keep the scores of each question for `compare`."""
    scores = {one.asked.id: one.scores for one in answered if one.scores}
    path.write_bytes(msgspec.json.encode({"bench": "recall", "data": data, "scores": scores}))


def read_scores(path: Path) -> dict[str, dict[str, float]]:
    """Return what `write_scores` kept."""

    class _Kept(msgspec.Struct):
        bench: str
        scores: dict[str, dict[str, float]]

    try:
        kept = msgspec.json.decode(path.read_bytes(), type=_Kept)
    except (OSError, msgspec.MsgspecError) as error:
        raise InvalidInputError(
            f"{path} holds no saved run ({error}); make one with `edgemem bench recall --save {path}`."
        ) from error
    return kept.scores


def compare(before: dict[str, dict[str, float]], answered: Sequence[Answered]) -> dict[str, Any]:
    """Return how far this run is above another, score by score, on the questions that both have."""
    now = {one.asked.id: one.scores for one in answered if one.scores}
    both = [name for name in now if name in before]
    if not both:
        raise InvalidInputError("The two runs have no question in common; compare runs of the same corpus.")
    out: dict[str, Any] = {}
    for score in in_order([score for name in both for score in now[name]]):
        pairs = [(before[name][score], now[name][score]) for name in both
                 if score in before[name] and score in now[name]]  # fmt: skip
        if pairs:
            out[score] = msgspec.structs.asdict(paired(*zip(*pairs, strict=True)))
    return out
