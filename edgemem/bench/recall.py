"""How much of what answers a question recall finds: on our own corpus, LoCoMo's file or LongMemEval's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from edgemem.bench.bootstrap import interval, paired
from edgemem.bench.ground import real_embedder, real_tokenizer, scratch
from edgemem.bench.recall_block import Turns, inside
from edgemem.bench.recall_cases import (
    ABSTENTION,
    ADVERSARIAL,
    OFF_TOPIC,
    Asked,
    Case,
    Form,
    longmemeval_cases,
    read_cases,
    strict_sessions,
    weeks_case,
)
from edgemem.bench.recall_home import Filled, filled
from edgemem.bench.recall_scores import CUTS, in_order, session_scores, turn_scores
from edgemem.bench.recall_talk import small_talk
from edgemem.bench.report import Bar, at_least, at_most, percentile, report, say
from edgemem.bench.report import median as median_of
from edgemem.bench.weeks import FormSet, Weeks, weeks
from edgemem.bench.weeks_longmemeval import longmemeval as in_longmemeval_form
from edgemem.config import Profile
from edgemem.errors import InvalidInputError

if TYPE_CHECKING:
    from edgemem.llama.protocols import Embedder, Tokenizer
    from edgemem.records import Recalled

DEPTH = 100
"""How far down the list is read; what stands behind is not found."""

LEFT_OUT = (ADVERSARIAL, OFF_TOPIC, ABSTENTION)
"""Questions that nothing answers."""

BLOCK_BARS = {80: 0.60, 150: 0.70}
NOISE_BARS = {0.1: 0.05, 0.2: 0.10}
"""What so many misheard words may cost of recall@5, against a saved run without them."""

SMALL_TALK = 400
"""Turns of small talk that are tried."""


class Answered(msgspec.Struct, frozen=True):
    """What became of one question."""

    asked: Asked
    scores: dict[str, float]
    """Empty where nothing answers the question."""
    ms: float
    embed_ms: float
    empty: bool
    """Whether nothing reached the least score."""


def run(
    *,
    data: Path | None = None,
    seed: int = 1,
    forms: str = "unseen",
    noise: float = 0.0,
    longmemeval: bool = False,
    block: int = 0,
    min_score: float | None = None,
    captions: bool = True,
    embedder: bool = True,
    cache: Path | None = None,
    save: Path | None = None,
    against: Path | None = None,
    home: Path | None = None,
) -> dict[str, Any]:
    """Ask the questions of a corpus and count how much of the messages that answer them is found, with 95 % intervals.

    Messages alone are recalled (`kinds={"turn"}`), by the default profile: LoCoMo's and LongMemEval's as the operator, our
    own corpus by who asks. LoCoMo's adversarial questions and those without evidence are left out of all means.

    Args:
        data: a file of LoCoMo's or LongMemEval's form; default: our own corpus.
        seed: of our own corpus.
        forms: its words: `learnt`, or `unseen` by whatever was fitted.
        noise: share of words that a recogniser got wrong in our own corpus.
        longmemeval: ask our own corpus as LongMemEval would: what users said by sessions, with its official scores.
        block: measure also the block of this many tokens that a turn would have, and small talk.
        min_score: below it nothing counts as found; default: what the profile asks of a turn.
        captions: count what pictures show as words of their message (LoCoMo).
        embedder: find by meaning too.
        cache: a folder where filled homes and vectors are kept for the next run.
        save: a file that takes the scores of each question.
        against: such a file of another run, to compare with question by question.
        home: where scratch files go; default: the temporary files.
    """
    form, cases, talk = _cases(
        data, seed=seed, forms=forms, noise=noise, longmemeval=longmemeval, captions=captions
    )
    profile = _profile(block)
    least = profile.injection.min_turn_score if min_score is None else min_score
    answered: list[Answered] = []
    talked: list[bool] = []
    left: dict[str, int] = {}
    real, tokenizer = _real(profile) if embedder else None, real_tokenizer() if block else None
    try:
        with scratch(home) as folder:
            for case in cases:
                with filled(
                    case, folder, embedder=real, profile=profile, tokenizer=tokenizer, cache=cache
                ) as here:
                    say(f"{case.name}: asking {len(case.asked)} questions …")
                    asking = _Asking(here, case, form=form, least=least, count=_counter(tokenizer))
                    answered += asking.all()
                    left = {kind: left.get(kind, 0) + n for kind, n in here.left.items()}
                    if talk:
                        talked += asking.talk(talk)
    finally:
        if real is not None:
            real.close()
        if tokenizer is not None:
            tokenizer.close()
    name = data.stem if data is not None else f"weeks {seed} {forms}"
    figures = {
        "data": name if not noise else f"{name} noise {noise:g}",
        "form": form,
        "embedder": real.fingerprint if real is not None else None,
        **_figures(answered, form=form, least=least),
        "not_indexed": left,
    }
    if talked:
        figures["small_talk"] = {
            "turns": len(talked),
            "false_injections": msgspec.structs.asdict(interval([float(one) for one in talked])),
        }
    if against is not None:
        figures["against"] = compare(read_scores(against), answered)
    if save is not None:
        write_scores(save, figures["data"], answered)
    return report("recall", figures, _bars(figures, forms=forms, noise=noise, block=block))


class _Asking:
    """Asks the questions of one case.

    Args:
        least: the score below which nothing counts as found.
        count: counts the tokens of a block; None: blocks are not looked at.
    """

    def __init__(
        self, here: Filled, case: Case, *, form: Form, least: float, count: Callable[[str], int] | None
    ) -> None:
        self._here = here
        self._form = form
        self._least = least
        self._count = count
        self._said = {one.id: one for one in case.said}
        self._sessions = len({one.session for one in case.said})
        self._turns = Turns(here.memory) if count is not None else None
        self._asked = [one for one in case.asked if one.sessions or one.category in LEFT_OUT]

    def all(self) -> Iterator[Answered]:
        """Yield what became of each question."""
        for asked in self._asked:
            if asked.category != ADVERSARIAL:
                self._here.clock.at = asked.at
                yield self._one(asked)

    def talk(self, utterances: Iterable[tuple[str, str]]) -> Iterator[bool]:
        """Yield of each utterance whether anything stood before it; pairs of speaker and words."""
        if self._turns is not None:
            for speaker, text in utterances:
                yield bool(self._turns.block(text, speaker).lines())

    def _one(self, asked: Asked) -> Answered:
        memory = self._here.memory
        begun = perf_counter()
        good = self._recall(asked, self._least, max(CUTS[0], memory.profile.recall.k))
        ms, embed_ms = (perf_counter() - begun) * 1e3, memory.last_recall().embed_ms
        scores: dict[str, float] = {}
        if asked.category not in LEFT_OUT:
            scores = self._scores(asked, self._recall(asked, 0.0, DEPTH))
            if self._form != "longmemeval":
                first = turn_scores(
                    self._names(good), self._names_of_sessions(good), evidence=asked.evidence, right=asked.sessions
                )  # fmt: skip
                scores["recall@5_min_score"] = first["recall@5"]
            scores |= self._block_scores(asked)
        return Answered(asked, scores, ms, embed_ms, not good)

    def _recall(self, asked: Asked, least: float, k: int) -> list[Recalled]:
        speaker = msgspec.UNSET if asked.asker is None else asked.asker
        return self._here.memory.recall(asked.text, speaker=speaker, k=k, kinds={"turn"}, min_score=least)

    def _scores(self, asked: Asked, found: Sequence[Recalled]) -> dict[str, float]:
        sessions = self._names_of_sessions(found)
        if self._form != "longmemeval":
            return turn_scores(self._names(found), sessions, evidence=asked.evidence, right=asked.sessions)
        scores = session_scores(sessions, asked.sessions, of=self._sessions)
        if asked.strict:
            strict = session_scores(sessions, strict_sessions(asked), of=self._sessions)
            scores |= {f"strict_{name}": value for name, value in strict.items()}
        return scores

    def _block_scores(self, asked: Asked) -> dict[str, float]:
        if self._turns is None or self._count is None or not asked.evidence:
            return {}
        block = self._turns.block(asked.text, asked.asker)
        lines = block.lines()
        there = [float(inside(lines, self._said[one])) for one in asked.evidence]
        return {
            "block_inside": max(there),
            "block_inside_share": sum(there) / len(there),
            "block_tokens": float(self._count(block.text)) if lines else 0.0,
            "block_late": float(block.late),
        }

    def _names(self, found: Sequence[Recalled]) -> list[str]:
        return [self._here.ids[item.id] for item in found]

    def _names_of_sessions(self, found: Sequence[Recalled]) -> list[str]:
        return in_order([str(item.session) for item in found])


def _cases(
    data: Path | None, *, seed: int, forms: str, noise: float, longmemeval: bool, captions: bool
) -> tuple[Form, list[Case], list[tuple[str, str]]]:
    """Return the form, the cases, and small talk to try."""
    if data is not None:
        if noise or longmemeval:
            raise InvalidInputError("--noise and --longmemeval are for our own corpus; leave out --data.")
        return (*read_cases(data, captions=captions), [])
    named = next((form for form in get_args(FormSet) if form == forms), None)
    if named is None:
        raise InvalidInputError(f"There are no forms {forms!r}; say one of: {', '.join(get_args(FormSet))}.")
    made: Weeks = weeks(seed, named)
    if noise:
        # Late: what mishears for us reads its tables when it is imported.
        made = import_module("edgemem.bench.noise").noisy(made, noise, seed)
    if longmemeval:
        return "longmemeval", list(longmemeval_cases(in_longmemeval_form(made))), []
    talk = small_talk(seed + 1, named)
    step = max(1, len(talk) // SMALL_TALK)
    return "weeks", [weeks_case(made)], talk[::step][:SMALL_TALK]


def _profile(block: int) -> Profile:
    profile = Profile()
    if block in (0, profile.context.block_tokens):
        return profile
    context = msgspec.structs.replace(profile.context, block_tokens=block)
    return msgspec.structs.replace(profile, context=context)


def _real(profile: Profile) -> Embedder:
    from edgemem.llama.embedder import LlamaEmbedder

    settings = profile.llama
    return LlamaEmbedder(real_embedder(), n_ctx=settings.embed_context, threads=settings.embed_threads)


def _counter(tokenizer: Tokenizer | None) -> Callable[[str], int] | None:
    return None if tokenizer is None else lambda text: len(tokenizer.encode(text))


def _figures(answered: Sequence[Answered], *, form: Form, least: float) -> dict[str, Any]:
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
            "median": median_of(one.ms for one in answered),
            "p95": percentile([one.ms for one in answered], 0.95),
            "query_embedding_median": median_of(one.embed_ms for one in answered),
            "search_median": median_of(one.ms - one.embed_ms for one in answered),
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


def _bars(figures: dict[str, Any], *, forms: str, noise: float, block: int) -> dict[str, Bar]:
    mean = figures["side_by_side"]["all"]
    bars: dict[str, Bar] = {}
    if figures["form"] == "locomo":
        for name, least in (("recall@5", 0.70), ("recall@10", 0.78), ("session_recall@5", 0.90)):
            bars[name] = at_least(mean[name], least)
        if block in BLOCK_BARS:
            bars["block_inside"] = at_least(mean["block_inside"], BLOCK_BARS[block])
    if noise in NOISE_BARS and "recall@5" in figures.get("against", {}):
        bars["loss_recall@5"] = at_most(-figures["against"]["recall@5"]["difference"], NOISE_BARS[noise])
    if figures["form"] == "weeks" and not noise:
        if forms == "unseen":
            bars["recall@5"] = at_least(mean["recall@5"], 0.90)
        bars["off_topic_empty"] = at_least(figures["nothing_found"]["off_topic_empty"]["mean"], 0.90)
        bars["cost_recall@5"] = at_most(figures["nothing_found"]["cost_recall@5"], 0.02)
        if "small_talk" in figures:
            bars["false_injections"] = at_most(figures["small_talk"]["false_injections"]["mean"], 0.02)
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


__all__ = ["CUTS", "Answered", "compare", "read_scores", "run", "values_of", "write_scores"]
