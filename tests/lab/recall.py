"""How much of what answers a question recall finds: on our own corpus, LoCoMo's file or LongMemEval's.

Our own corpus is also asked for times. Early on the Monday after the ten weeks somebody asks for ten times, some of several
days, in four ways: what happened, what we did, what I said and what somebody else said. The facts that were told then
answer; small talk of that day does not, and little may come of other days. Of four more times nobody has anything to tell.

Figures are means by category with intervals. `--save` keeps the scores of a run, `--against` compares another with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from edgemem.bench.ground import Bar, at_least, at_most, real_embedder, real_tokenizer, report, say, scratch
from edgemem.config import Profile
from edgemem.errors import InvalidInputError
from lab import weeks_days
from lab.bootstrap import gains, interval, paired, read_scores, write_scores
from lab.facts_told import FactsTold, fact_figures
from lab.recall_asking import Answered, Asking, Turns, answer_words, in_order, share_told
from lab.recall_cases import (
    HALVES,
    LEFT_OUT,
    Case,
    Form,
    Said,
    form_set,
    longmemeval_cases,
    phrases,
    read_cases,
    small_talk,
    weeks_case,
)
from lab.recall_cases import longmemeval as in_longmemeval_form
from lab.recall_home import filled
from lab.weeks import Talk, Weeks, weeks
from lab.weeks_world import DAYS, facts, forms_of, world

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from edgemem.llama.protocols import Embedder, Tokenizer
    from lab.recall_home import Filled
    from lab.weeks import Weeks
    from lab.weeks_world import FormSet


CUT = 5
_SIX = 6 * 3600  # before anybody asks the questions of the corpus: a memory's clock never runs backwards
_TIMES = {
    "yesterday": (69, 70), "last weekend": (68, 70), "on Saturday": (68, 69), "three days ago": (67, 68), "on Thursday": (66, 67),
    "last week": (63, 70), "between Tuesday and Thursday": (64, 67), "since Friday": (67, 70), "on the tenth of April": (39, 40),
    "in March": (0, 30),
}  # fmt: skip
"""By its words, the first day and the one after the last, counted from the first of the weeks."""
_NEVER = ("in January", "last summer", "last winter", "on the twentieth of February")
_ANYONE = ("What happened {then}?", "what did we do {then}")
_ASKER = "What did I tell you {then}?"
_OTHER = "what did {name} say {then}"


class TimeAsked(NamedTuple):
    text: str
    asker: str
    evidence: frozenset[str]  # the messages that told a fact then; none where nobody said anything
    begin: float
    end: float
    answers: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """What was told then, as it was worded, each with its messages."""


def time_figures(here: Filled, made: Weeks, *, seed: int, forms: FormSet, block: bool) -> dict[str, Any]:
    """Ask for times in a home that holds the weeks, with the block of a turn if wanted, and return what was found."""
    here.clock.at = float(weeks_days.moment(DAYS, _SIX))
    said = {one.id: Said(one.id, one.session, one.at, one.speaker, one.text, one.role) for one in made.turns}
    turns, least = Turns(here.memory) if block else None, here.memory.profile.injection.floor
    scores: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        scores.setdefault(name, []).append(value)

    for asked in time_questions(made, seed=seed, forms=forms):
        found = here.memory.recall(asked.text, speaker=asked.asker, k=CUT, kinds={"turn"}, min_score=least)
        names = [here.ids[item.id] for item in found]
        lines = turns.block(asked.text, asked.asker).lines() if turns is not None else []
        if not asked.evidence:
            note("none_empty", float(not names and not lines))
            continue
        note(f"told@{CUT}", sum(one in asked.evidence for one in names) / min(CUT, len(asked.evidence)))
        note("then", sum(asked.begin <= said[one].at < asked.end for one in names) / max(1, len(names)))
        if turns is not None:
            note("block_answer", float(any(_stands(lines, asked, *one, said) for one in asked.answers)))
    return {"n": len(scores.get("then", ()))} | {
        name: msgspec.structs.asdict(interval(each)) for name, each in sorted(scores.items())
    }


def _stands(
    lines: Sequence[str], asked: TimeAsked, answer: str, evidence: Sequence[str], said: Mapping[str, Said]
) -> bool:
    messages = [said[one] for one in evidence]
    words = answer_words(answer, messages, asked.text)
    return bool(words) and share_told(lines, words, messages) == 1.0


def time_questions(made: Weeks, *, seed: int, forms: FormSet) -> Iterator[TimeAsked]:
    """Yield each question for which something was told, and those for times of which nobody can tell."""
    tellings = Talk(forms_of(forms), facts(seed), seed).tellings
    names = {name for one in tellings for name in one.ids}
    told = [one for one in made.turns if one.id in names]
    people = [person.name for person in world().people]
    for number, (then, (first, last)) in enumerate(_TIMES.items()):
        begin, end = (weeks_days.moment(day, 0) for day in (first, last))
        of_then = [one for one in told if begin <= one.at < end]
        speakers = sorted({one.speaker for one in of_then if one.speaker}, key=people.index)
        for frame in (*_ANYONE, _ASKER, _OTHER):
            by = speakers[number % len(speakers)] if speakers and frame in (_ASKER, _OTHER) else None
            evidence = frozenset(one.id for one in of_then if by is None or one.speaker == by)
            asker = by if frame == _ASKER and by else next(name for name in people if name != by)
            if evidence and (by or frame in _ANYONE):
                answers = tuple((one.said, one.ids) for one in tellings if evidence.issuperset(one.ids))
                yield TimeAsked(frame.format(then=then, name=by), asker, evidence, begin, end, answers)
    for then, frame in zip(_NEVER, (*_ANYONE, _ASKER, _OTHER), strict=True):
        yield TimeAsked(frame.format(then=then, name=people[1]), people[0], frozenset(), 0.0, 0.0)


def figures_of(answered: Sequence[Answered], *, form: Form, least: float) -> dict[str, Any]:
    """Return means by category with intervals, and how often nothing was found above the least score where nothing answers."""
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
    return [one.scores[name] for one in answered if name in one.scores]


def bars_of(figures: dict[str, Any], *, noise: float) -> dict[str, Bar]:
    """Return the goals of issue 29: of LoCoMo's open half, and of what misheard words cost against a saved run without them."""
    if figures["form"] == "locomo":
        mean = figures["side_by_side"]["all"]
        return {
            name: at_least(mean[name], least) for name, least in (("recall@5", 0.75), ("recall@10", 0.83))
        }
    if noise and "recall@5" in figures.get("against", {}):
        return {"loss_recall@5": at_most(-figures["against"]["recall@5"]["difference"], noise / 2)}
    return {}


SMALL_TALK = 400  # turns of small talk that are tried


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
    corpus, what is told is then stored as facts and preferences too, and asked for.

    Args:
        data: a file of LoCoMo's or LongMemEval's form; default: our own corpus.
        noise: share of words that a recogniser got wrong in our own corpus.
        longmemeval: ask our own corpus as LongMemEval would: what users said by sessions, with its official scores.
        block: measure also the block of this many tokens that a turn would have, and small talk.
        min_score: below it nothing counts as found; default: the profile's.
        captions: count what pictures show as words of their message (LoCoMo).
        against: what `save` wrote of another run, to compare with question by question.
    """
    form, cases, talk = _cases(
        data, seed=seed, forms=forms, noise=noise, longmemeval=longmemeval, captions=captions
    )
    with_facts = form == "weeks" and not noise
    profile = _profile(block)
    least = profile.injection.floor if min_score is None else min_score
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
    scores = {one.asked.id: one.scores for one in answered if one.scores}
    if against is not None:
        figures["against"] = msgspec.to_builtins(gains(read_scores(against), scores))
    if save is not None:
        write_scores(save, scores)
    return report("recall", figures, bars_of(figures, noise=noise))


def _cases(
    data: Path | None, *, seed: int, forms: str, noise: float, longmemeval: bool, captions: bool
) -> tuple[Form, list[Case], list[tuple[str, str]]]:
    if data is not None:
        if noise or longmemeval:
            raise InvalidInputError("--noise and --longmemeval are for our own corpus; leave out --data.")
        return (*read_cases(data, captions=captions), [])
    named = form_set(forms)
    made: Weeks = weeks(seed, named)
    if noise:
        # Late: what mishears for us reads its tables when it is imported.
        made = import_module("lab.noise").noisy(made, noise, seed)
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
