"""How much of what answers a question recall finds: on our own corpus, LoCoMo's file or LongMemEval's."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from edgemem.bench.bootstrap import interval
from edgemem.bench.facts_told import FactsTold
from edgemem.bench.ground import real_embedder, real_tokenizer, scratch
from edgemem.bench.recall_asking import Answered, Asking
from edgemem.bench.recall_cases import Case, Form, form_set, longmemeval_cases, read_cases, weeks_case
from edgemem.bench.recall_facts import fact_figures
from edgemem.bench.recall_figures import bars_of, compare, figures_of, read_scores, write_scores
from edgemem.bench.recall_home import filled
from edgemem.bench.recall_talk import HALVES, phrases, small_talk
from edgemem.bench.recall_times import time_figures
from edgemem.bench.report import report, say
from edgemem.bench.weeks import Weeks, weeks
from edgemem.bench.weeks_longmemeval import longmemeval as in_longmemeval_form
from edgemem.config import Profile
from edgemem.errors import InvalidInputError

if TYPE_CHECKING:
    from edgemem.llama.protocols import Embedder, Tokenizer

SMALL_TALK = 400
"""Turns of small talk that are tried."""


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
    own corpus by who asks. LoCoMo's adversarial questions and those without evidence are left out of all means. Of our own
    corpus, what is told is then stored as facts and preferences too, and asked for: what holds, what held before, and what
    held at a time; and how often one is found or put before the model that nobody asks for.

    Args:
        data: a file of LoCoMo's or LongMemEval's form; default: our own corpus.
        seed: of our own corpus.
        forms: its words: `learnt`, or `unseen` by whatever was fitted.
        noise: share of words that a recogniser got wrong in our own corpus.
        longmemeval: ask our own corpus as LongMemEval would: what users said by sessions, with its official scores.
        block: measure also the block of this many tokens that a turn would have, and small talk.
        min_score: below it nothing counts as found; default: the profile's.
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
    with_facts = form == "weeks" and not noise
    profile = _profile(block)
    least = profile.injection.min_score if min_score is None else min_score
    answered: list[Answered] = []
    talked: list[bool] = []
    everyday: dict[str, float] = {}
    left: dict[str, int] = {}
    known: dict[str, Any] = {}
    times: dict[str, Any] = {}
    real, tokenizer = _real(profile) if embedder else None, real_tokenizer() if block else None
    try:
        with scratch(home) as folder:
            for case in cases:
                with filled(
                    case, folder, embedder=real, profile=profile, tokenizer=tokenizer, cache=cache
                ) as here:
                    if with_facts:
                        say(f"{case.name}: asking for times …")
                        named = form_set(forms)
                        made = weeks(seed, named)
                        times = time_figures(here, made, seed=seed, forms=named, block=bool(block))
                    say(f"{case.name}: asking {len(case.asked)} questions …")
                    asking = Asking(here, case, form=form, least=least, count=_counter(tokenizer))
                    answered += asking.all()
                    left = {kind: left.get(kind, 0) + n for kind, n in here.left.items()}
                    if talk:
                        talked += asking.talk(talk)
                        everyday = {half: _share_with_block(asking, talk[0][0], half) for half in HALVES}
                    if with_facts:
                        say(f"{case.name}: asking for facts …")
                        told = FactsTold(made, seed=seed, forms=form_set(forms))
                        known = fact_figures(here, told, talk)
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
        **figures_of(answered, form=form, least=least),
        "not_indexed": left,
    }
    if talked:
        figures["small_talk"] = {
            "turns": len(talked),
            "false_injections": msgspec.structs.asdict(interval([float(one) for one in talked])),
            "everyday": everyday,
        }
    if known:
        figures |= {"times": times, "facts": known}
    if against is not None:
        figures["against"] = compare(read_scores(against), answered)
    if save is not None:
        write_scores(save, figures["data"], answered)
    return report("recall", figures, bars_of(figures, forms=forms, noise=noise, block=block))


def _cases(
    data: Path | None, *, seed: int, forms: str, noise: float, longmemeval: bool, captions: bool
) -> tuple[Form, list[Case], list[tuple[str, str]]]:
    """Return the form, the cases, and small talk to try."""
    if data is not None:
        if noise or longmemeval:
            raise InvalidInputError("--noise and --longmemeval are for our own corpus; leave out --data.")
        return (*read_cases(data, captions=captions), [])
    named = form_set(forms)
    made: Weeks = weeks(seed, named)
    if noise:
        # Late: what mishears for us reads its tables when it is imported.
        made = import_module("edgemem.bench.noise").noisy(made, noise, seed)
    if longmemeval:
        return "longmemeval", list(longmemeval_cases(in_longmemeval_form(made))), []
    talk = small_talk(seed + 1, named)
    step = max(1, len(talk) // SMALL_TALK)
    return "weeks", [weeks_case(made)], talk[::step][:SMALL_TALK]


def _share_with_block(asking: Asking, speaker: str, half: str) -> float:
    """Return how many of the phrases of everyday life, which need nothing of a memory, have a block."""
    found = list(asking.talk((speaker, phrase) for phrase in phrases("idle", half)))
    return round(sum(found) / len(found), 4) if found else 0.0


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
