"""What a person would say of recall: is memory shown when it helps, does the newest value win, is it found at once.

`judged_*.toml` holds what three people told a robot at home and ask it then; nothing may be learnt or tuned on it. A piece
of a block comes from a message where at least 80 % of its words do; an answer stands there when one such piece has all of
its words. In `judged_alike_*.toml` they tell of things that are alike. `homes` reads the households that are learnt on.
"""

from __future__ import annotations

import random
import re
import shutil
from collections import Counter
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

import edgemem
from edgemem.bench.ground import (
    NearlyReal,
    Robot,
    at_least,
    at_most,
    quiet,
    real_embedder,
    report,
    say,
    scratch,
    store_turns,
)
from edgemem.clock import RELEASED
from edgemem.config import Profile
from edgemem.errors import InvalidInputError
from edgemem.inspect.replay import Line
from edgemem.recall.text.analyse import plain_words, terms
from lab.bootstrap import gains, read_scores, write_scores
from lab.judge import SetClock
from lab.languages import LANGUAGES
from lab.lent import Tokenless
from lab.recall_asking import Turns
from lab.recall_cases import Asked, Case, Said, ids, tell_case
from lab.recall_home import IDLE_S, KeptVectors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from edgemem.bench.ground import Bar
    from edgemem.llama.protocols import Embedder
    from edgemem.memory import Memory

    Outcomes = dict[str, list["Outcome"]]  # of each figure


OLD_TURNS = 10_000  # turns of an old home
GROUPS, A_GROUP = 5, 6
SILENCE_S = 2.0  # within which a worker, where there is one, has embedded what was told
DAY_S = 86_400.0
BEGUN = RELEASED + DAY_S
NOW = BEGUN + 40 * DAY_S  # when all is asked; nobody told anything 40 days ago
_DEPTH = 20
_REPLY = "All right."
FIRST = "said, found first"
TALKED, DENIED, ALONE = "small talk with memory", "answerable, denied", "unanswerable, left alone"
NEWEST, OLD, OLDER, NEW = "newest above old", "old alone", "old above newest", "newest alone"
APART = "told apart from what is alike"
SHOULD_NOT = (TALKED, DENIED, OLD, f"past: {NEW}")
GOALS = (("answer in the block", at_least, 0.9), (TALKED, at_most, 0.03), (DENIED, at_most, 0.1), (ALONE, at_least, 0.42))  # fmt: skip
_CUT_FROM = 0.8
_FOLDER = Path(__file__).parent
_BETWEEN_PIECES = re.compile(r"\n| / |</?[a-z]+>")


class Question(NamedTuple):
    """A question and the keys of what answers it, with spaces between; no answer: somebody's safety is concerned."""

    asker: str
    text: str
    evidence: str
    answer: str


class Replaced(NamedTuple):
    """A value that was told anew, and what is asked then; `past` may be empty."""

    old: str
    new: str
    old_speaker: str
    old_days: float
    old_text: str
    new_speaker: str
    new_days: float
    new_text: str
    question: str
    past: str
    asker: str


class Household(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file; days are counted back from when the questions are asked."""

    told: tuple[tuple[str, str, float, str], ...]  # key, who said it, days, and the words
    facts: tuple[tuple[str, str, str, str, str], ...]
    """Key, subject, relation, value, and the only one who may read it, or empty."""
    answerable: tuple[Question, ...]
    unanswerable: tuple[tuple[str, str], ...]  # who asks, and what
    small_talk: tuple[tuple[str, str], ...]
    replaced: tuple[Replaced, ...] = ()
    statements: tuple[tuple[str, str], ...] = ()  # who says what, that asks for nothing
    helped: tuple[tuple[str, str, str], ...] = ()
    """Who says what, that does not ask, and keys of what helps with it."""


class Outcome(NamedTuple):
    holds: bool
    text: str
    shown: str


def household(language: str) -> Household:
    if language not in LANGUAGES:
        raise InvalidInputError(f"Nothing is judged in {language!r}; name one of {', '.join(LANGUAGES)}.")
    return read_household(_FOLDER / f"judged_{language}.toml")


def read_household(path: Path) -> Household:
    return msgspec.toml.decode(path.read_bytes(), type=Household)


def run(
    *,
    language: str = "",
    embedder: bool = True,
    tokens: bool = True,
    at_once: bool = True,
    show: int = 0,
    save: Path | None = None,
    against: Path | None = None,
    home: Path | None = None,
) -> dict[str, Any]:
    """Judge what stands before the model when people at home ask, chat and tell anew, in sentences that nobody tuned on.

    Args:
        tokens: compare the best texts with the question word by word, if the embedder gives vectors of tokens.
        at_once: also try what is found before the index caught up and after it, in English, in a young home and an old one.
        show: of each kind of failure, this many at random, with what was shown.
        save: keep what became of each sentence in this file.
        against: what `save` wrote of another run, to compare with sentence by sentence.
    """
    homes = {name: household(name) for name in ([language] if language else LANGUAGES)}
    real = open_real() if embedder else None
    if real is not None and not tokens:
        real = Tokenless(real)
    judged: dict[str, Outcomes] = {}
    found: dict[str, dict[str, int]] = {}
    try:
        for name, spoken in homes.items():
            say(f"{LANGUAGES[name]} …")
            with scratch(home) as folder, opened(folder, real) as (memory, clock):
                tell(memory, clock, spoken)
                judged[name] = judge(memory, spoken)
            for path in _FOLDER.glob(f"judged_alike_{name}.toml"):
                alike = read_household(path)
                with scratch(home) as folder, opened(folder, real) as (memory, clock):
                    tell(memory, clock, alike)
                    judged[name][APART] = [*told_apart(memory, alike)]
        if at_once:
            with scratch(home) as folder:
                found = found_at_once(folder, household("en"), real)
    finally:
        if real is not None:
            real.close()
    sides = {
        figure: {LANGUAGES[name]: _share(each.get(figure, ())) for name, each in judged.items()}
        for figure in dict.fromkeys(chain.from_iterable(judged.values()))
    }
    figures: dict[str, Any] = {"side_by_side": sides, "found_at_once": found}
    if show:
        figures["failures"] = {name: _failures(each, show) for name, each in judged.items()}
    scores = {
        f"{name}/{figure}/{n}": {f"{LANGUAGES[name]}: {figure}": float(one.holds)}
        for name, each in judged.items() for figure, seen in each.items() for n, one in enumerate(seen)
    }  # fmt: skip
    if against is not None:
        figures["against"] = msgspec.to_builtins(gains(read_scores(against), scores))
    if save is not None:
        write_scores(save, scores)
    figures["embedder"] = real.fingerprint if real is not None else None
    return report("judged", figures, _bars(judged, found))


def _bars(judged: Mapping[str, Outcomes], found: Mapping[str, Mapping[str, int]]) -> dict[str, Bar]:
    """Hold English against the goals of issue 29, and what was replaced in all languages."""
    bars = {
        name: bar(_share(judged["en"][name]) or 0.0, limit) for name, bar, limit in GOALS if "en" in judged
    }
    if newest := list(chain.from_iterable(each.get(NEWEST, ()) for each in judged.values())):
        bars[f"{NEWEST}, all languages"] = at_least(_share(newest) or 0.0, 0.8)
    return bars | {
        f"found at once, {name}": at_least(each["before"], each["after"] - GROUPS)
        for name, each in found.items()
    }


def _share(seen: Sequence[Outcome]) -> float | None:
    return round(sum(one.holds for one in seen) / len(seen), 3) if seen else None


def _failures(judged: Outcomes, most: int) -> dict[str, dict[str, str]]:
    dice = random.Random(7)
    bad = {name: [one for one in seen if one.holds is (name in SHOULD_NOT)] for name, seen in judged.items()}
    return {
        name: {one.text: one.shown for one in dice.sample(seen, min(most, len(seen)))}
        for name, seen in bad.items()
    }


def judge(memory: Memory, spoken: Household) -> Outcomes:
    judged: Outcomes = {}

    def note(figure: str, holds: bool, text: str, shown: str) -> None:
        judged.setdefault(figure, []).append(Outcome(holds, text, shown))

    turns = Turns(memory)

    def ask(asker: str, text: str) -> str:
        return turns.block(text, asker).text

    for asker, text in spoken.small_talk:
        block = turns.block(text, asker)
        note(TALKED, bool(block.lines()), text, block.text)
    values = {key: re.split("[,，]", value)[0] for key, _, _, value, _ in spoken.facts}
    texts = {key: text for key, _, _, text in spoken.told}
    texts |= {key: " ".join(parts) for key, *parts, _ in spoken.facts}
    for one in spoken.answerable:
        block, keys = turns.block(one.text, one.asker), one.evidence.split()
        shown = block.text
        there = any(stands(one.answer or values[key], texts[key], shown) for key in keys)
        kinds = (
            "",
            ", of a fact" if keys[0] in values else ", said",
            *([] if one.answer else [", of safety"]),
        )
        note(DENIED, not block.lines(), one.text, shown)
        if keys[0] not in values:
            hits = memory.recall(one.text, speaker=one.asker, k=1, kinds={"turn"}, min_score=0.0)
            best = "".join(hit.text for hit in hits)
            note(FIRST, best in {texts[key] for key in keys}, one.text, best)
        for kind in kinds:
            note(f"answer in the block{kind}", there, one.text, shown)
    for asker, text in spoken.unanswerable:
        block = turns.block(text, asker)
        note(ALONE, not block.lines(), text, block.text)
    for pair in spoken.replaced:
        old, new = (pair.old, pair.old_text), (pair.new, pair.new_text)
        for question, right, wrong, figures in (
            (pair.question, new, old, (NEWEST, OLD)),
            (pair.past, old, new, (f"past: {OLDER}", f"past: {NEW}")),
        ):
            if question:
                shown = ask(pair.asker, question)
                found = [hit.text for hit in memory.recall(question, speaker=pair.asker, k=_DEPTH)]
                first, second = ([*found, text].index(text) for _, text in (right, wrong))
                note(figures[0], first < second, question, "\n".join(found[:5]))
                note(figures[1], stands(*wrong, shown) and not stands(*right, shown), question, shown)
    return judged


def told_apart(memory: Memory, spoken: Household) -> Iterator[Outcome]:
    """Ask for one thing of each pair (its keys are `a_` and `b_` with a name), and yield whether it stands above the other."""
    texts = {key: text for key, _, _, text in spoken.told}
    for one in spoken.answerable:
        found = [hit.text for hit in memory.recall(one.text, speaker=one.asker, k=_DEPTH)]
        other = {"a": "b", "b": "a"}[one.evidence[0]] + one.evidence[1:]
        first, second = ([*found, texts[key]].index(texts[key]) for key in (one.evidence, other))
        yield Outcome(first < second, one.text, "\n".join(found[:5]))


def stands(answer: str, evidence: str, block: str) -> bool:
    """Tell whether all words of an answer stand in one piece of a block, which was cut from the evidence."""
    words = set(plain_words(answer))
    wanted = {word for word in words if terms(word)} or words
    return any(wanted <= piece for piece in _pieces(evidence, block))


def _pieces(evidence: str, block: str) -> Iterator[set[str]]:
    known = set(plain_words(evidence))
    for piece in _BETWEEN_PIECES.split(block):
        head, _, said = piece.partition(": ")  # the speaker or the day, or the key of a fact
        words = set(plain_words(said or head))
        if words and len(words & known) >= _CUT_FROM * len(words):
            yield words


# A home


def case_of(spoken: Household) -> Case:
    """Return what was told, a session each day, with the questions that a message answers."""
    told = [*spoken.told]
    for pair in spoken.replaced:
        told.append((pair.old, pair.old_speaker, pair.old_days, pair.old_text))
        told.append((pair.new, pair.new_speaker, pair.new_days, pair.new_text))
    told.sort(key=lambda row: (row[2], row[1], row[3]), reverse=True)
    said = [Said(key, f"{days:.0f} days ago", NOW - days * DAY_S, who, text) for key, who, days, text in told]
    facts = [
        (relation, value, f"user:{reader}") if reader else (f"{subject}.{relation}", value, "household")
        for _, subject, relation, value, reader in spoken.facts
    ]
    known = {key for key, *_ in spoken.facts}
    asked = [
        Asked(f"{n}", one.text, one.asker, NOW, "said", tuple(sorted({*one.evidence.split()} - known)))
        for n, one in enumerate(spoken.answerable)
    ]
    return Case("judged", tuple(said), tuple(one for one in asked if one.evidence), tuple(facts))


def tell(memory: Memory, clock: SetClock, spoken: Household) -> None:
    """Let everything be told at its time, and index it."""
    tell_case(memory, clock, case_of(spoken))
    clock.at = NOW
    _index(memory)


def _index(memory: Memory) -> None:
    if not memory.idle(IDLE_S):
        raise InvalidInputError("This machine does not get the index done.")


def open_real(name: str = "") -> Embedder:
    from edgemem.llama.embedder import open_embedder

    if not name:
        real_embedder()
    settings = Profile().llama
    return open_embedder(
        name or settings.embedder, n_ctx=settings.embed_context, threads=settings.embed_threads
    )


@contextmanager
def told_home(
    folder: Path, embedder: Embedder | None, spoken: Household
) -> Iterator[tuple[Memory, dict[str, str]]]:
    """Open a memory that was told everything, with the key of each message by its id."""
    with opened(folder, embedder) as (memory, clock):
        tell(memory, clock, spoken)
        yield memory, dict(ids(memory, case_of(spoken).said))


@contextmanager
def opened(
    folder: Path,
    embedder: Embedder | None,
    *,
    worker: bool = False,
    at: float = BEGUN,
    vectors: Path | None = None,
) -> Iterator[tuple[Memory, SetClock]]:
    """Open a memory with the default profile and kept vectors, no recall of which is late; the embedder stays open."""
    clock = SetClock()
    clock.at = at
    kept = KeptVectors(embedder, vectors) if embedder is not None else None
    profile = Profile() if embedder is not None else quiet()
    # A slow machine must not turn the figures of meaning into those of words.
    recall = msgspec.structs.replace(profile.recall, deadline_ms=10_000.0, query_embed_ms=10_000.0)
    profile = msgspec.structs.replace(profile, recall=recall)
    with edgemem.open(
        folder, profile=profile, embedder=kept, clock=clock, worker=worker, watch=False
    ) as memory:
        memory.recall("Is somebody there?")
        yield memory, clock


# Found at once


def found_at_once(folder: Path, spoken: Household, embedder: Embedder | None) -> dict[str, dict[str, int]]:
    """Return how many of what was just told are in a block, before the index caught up and after it."""
    told = {key: (who, text) for key, who, _, text in spoken.told}
    asked = list({one.evidence: one for one in spoken.answerable if one.evidence in told}.values())
    asked = asked[:: len(asked) // (GROUPS * A_GROUP)][: GROUPS * A_GROUP]
    groups = [asked[at : at + A_GROUP] for at in range(0, len(asked), A_GROUP)]
    used = {one.evidence for one in asked}
    older = tuple(row for row in spoken.told if row[0] not in used)[:3]
    few = msgspec.structs.replace(spoken, told=older, facts=(), replaced=())
    say("an old home …")
    old, vectors = folder / "old", folder / "vectors.npz"
    filler = KeptVectors(NearlyReal(), vectors) if embedder is not None else None
    with opened(old, filler) as (memory, _):
        store_turns(memory.diagnostics.database, OLD_TURNS)
        _index(memory)
    if filler is not None:
        filler.save()
    found: dict[str, dict[str, int]] = {}
    for name, worker, upgraded in (
        ("", False, False),
        (", worker", True, False),
        (", upgraded", False, True),
    ):
        say(f"found at once{name} …")
        young: Counter[str] = Counter()
        for n, group in enumerate(groups):
            with opened(home := folder / f"young {n}{name}", embedder) as (memory, clock):
                tell(memory, clock, few)
            with _again(home, embedder, worker=worker, upgraded=upgraded) as memory:
                young.update(_trial(memory, [group], told, silence_s=SILENCE_S * worker))
        found[f"young{name}"] = dict(young)
        shutil.copytree(old, home := folder / f"old{name} copy")
        with _again(home, embedder, worker=worker, upgraded=upgraded, vectors=vectors) as memory:
            found[f"old{name}"] = _trial(memory, groups, told, silence_s=SILENCE_S * worker)
    return found


@contextmanager
def _again(
    home: Path, embedder: Embedder | None, *, worker: bool, upgraded: bool, vectors: Path | None = None
) -> Iterator[Memory]:
    """Open a home weeks later; upgraded: all of its index is still to be made."""
    if upgraded:
        for path in (home / "db").glob("index*"):
            path.unlink()
    with opened(home, embedder, worker=worker, at=NOW, vectors=vectors if upgraded else None) as (memory, _):
        yield memory


def _trial(
    memory: Memory,
    groups: Sequence[Sequence[Question]],
    told: Mapping[str, tuple[str, str]],
    *,
    silence_s: float = 0.0,
) -> dict[str, int]:
    """Tell each group in a session, ask for all after so many silent seconds, let the index catch up, and ask again."""
    for n, group in enumerate(groups):
        robot = Robot(memory.hooks(session_id=f"told {n}"))
        for one in group:
            who, text = told[one.evidence]
            robot.turn(Line(text, speaker=who, reply=_REPLY))
        robot.check()
    asked = list(chain.from_iterable(groups))

    def found() -> int:
        blocks = [Turns(memory).block(one.text, one.asker).text for one in asked]
        return sum(
            any(_pieces(told[one.evidence][1], block)) for one, block in zip(asked, blocks, strict=True)
        )

    sleep(silence_s)
    before = found()
    _index(memory)
    return {"told": len(asked), "before": before, "after": found()}


def homes() -> dict[str, Household]:
    """Return what was written of each home, by its language and name: `en_farm`."""
    paths = sorted(Path(__file__).parent.glob("home_*.toml"))
    return {path.stem.removeprefix("home_"): read_household(path) for path in paths}
