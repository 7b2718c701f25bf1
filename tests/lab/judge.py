"""Let homes live through the hooks of a memory, and judge what stands before the model.

Each home is told at its times, a session each day, through `memory.hooks()` in the reference loop; then each utterance is asked as the newest of a
session of its own, behind the exchanges before it. What memory shows is what the messages of people hold beside their words. An
answer is shown where all of its words stand in one line. Nothing of `edgemem` is used but its public doors, so that an older
tree can be judged by the same file (`make lab TREE=…`).
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

import edgemem
from edgemem.bench.ground import EMBEDDER, report, say
from edgemem.clock import RELEASED, Clock
from edgemem.config import LlamaSettings, Profile
from edgemem.errors import InvalidInputError
from edgemem.loop.loop import AgentLoop
from edgemem.records import Heard, Reply
from lab.bootstrap import gains, interval, read_scores, write_scores
from lab.judge_homes import Asked, Home, Told, paths, read, words

if TYPE_CHECKING:
    from edgemem.llama.protocols import Embedder
    from edgemem.memory import Memory

_IDLE_S = 3600.0
_REPLY = "All right."
_DEPTH = 50
_CUTS = (1, 5, 10)
_SILENT = ("none", "talk", "not_helped")
_OF_ONE = 0.6
"""The share of its words that a line has of a message where it is made of that: it names speaker and day too."""

Outcomes = dict[str, dict[str, float]]
"""Of each utterance, by file and id, its figures."""


class Shown(msgspec.Struct):
    """What memory put before the model for one utterance, and in which order it found what was told."""

    asked: Asked
    block: str
    found: list[str]
    """Texts of what was found, best first."""
    always: list[str] = []
    """The lines that its speaker gets whatever they say, as their own allergy once an epoch; of what must stay silent alone."""


class Model:
    """A model that keeps the prompt, and says what it was told to."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.reply = _REPLY

    def complete(
        self,
        messages: Sequence[dict[str, Any]],
        *,
        tools: Sequence[dict[str, Any]],
        stop: Callable[[], bool],
        on_text: Callable[[str], None],
        now: float | None = None,
    ) -> Reply:
        """Keep the prompt."""
        self.messages = [dict(message) for message in messages]
        on_text(self.reply)
        return Reply(self.reply)

    def cut(self, heard_text: str) -> None:
        """Do nothing: nobody interrupts."""


class Talk:
    """One session of a home; in the reference loop, which an older tree has as well."""

    def __init__(self, memory: Memory, session: str) -> None:
        self.session, self._model = session, Model()
        self._said: list[str] = []
        self._loop = AgentLoop(self._model, hooks=memory.hooks(session_id=session))

    def say(self, text: str, speaker: str, reply: str, **told: Any) -> None:
        """Have a turn."""
        self._model.reply = reply
        self._loop.run(text, speaker=speaker or None, **told)
        self._said.append(text)

    def ask(self, text: str, speaker: str, audience: Sequence[str]) -> str:
        """Ask something, and return all that stands beside what people said in the prompt; the turn is thrown away."""
        self._loop.prepare(text, speaker=speaker or None, audience=list(audience))
        self._loop.abort()
        said = [str(message["content"]) for message in self._model.messages if message["role"] == "user"]
        return "\n".join(
            content.replace(words, "", 1) for content, words in zip(said, [*self._said, text], strict=True)
        )


class SetClock(Clock):
    """A clock that stands where it is set, also years ago: a robot's own never believes that."""

    def __init__(self) -> None:
        self.at = RELEASED
        super().__init__(wall=lambda: self.at, monotonic=lambda: self.at)

    def _estimate(self) -> float:
        return self.at


@contextmanager
def local_time(zone: str) -> Iterator[None]:
    """Let this process be in a time zone: an older tree knows no other."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = zone
    time.tzset()
    try:
        yield
    finally:
        os.environ.pop("TZ")
        if before is not None:
            os.environ["TZ"] = before
        time.tzset()


def judge(home: Home, *, embedder: bool = True, model: str = EMBEDDER) -> Iterator[Shown]:
    """Yield what memory shows for each utterance of a home; without an embedder by words alone."""
    profile = Profile(llama=LlamaSettings(embedder=model if embedder else ""))
    with tempfile.TemporaryDirectory() as folder, lived(home, Path(folder) / "home", profile) as living:
        for asked in living.asked:
            with talked(living, asked) as talk:
                yield _shown(living.memory, talk, asked)


class Living(NamedTuple):
    """A home's memory, its clock, and what is asked in it, in order of time."""

    memory: Memory
    clock: SetClock
    asked: Iterator[Asked]
    """Each comes when the home was told what was said before it, and nothing of later."""


@contextmanager
def lived(home: Home, folder: Path, profile: Profile, embedder: Embedder | None = None) -> Iterator[Living]:
    """Let a home live in its own time zone."""
    clock = SetClock()
    clock.at = home.time(home.told[0].at) - 60 if home.told else home.time(home.asked_at)
    with (
        local_time(home.zone),
        edgemem.open(folder, profile=profile, embedder=embedder, clock=clock, worker=False) as memory,
    ):
        yield Living(memory, clock, _asked(memory, clock, home))


def _asked(memory: Memory, clock: SetClock, home: Home) -> Iterator[Asked]:
    rest = list(home.told)
    for asked in sorted(home.asked, key=lambda each: home.time(each.at or home.asked_at)):
        now = home.time(asked.at or home.asked_at)
        before = [each for each in rest if home.time(each.at) < now]
        for day, told in groupby(before, key=lambda each: each.at[:10]):
            tell(memory, clock, home, day, list(told))
        if before:
            rest, clock.at = rest[len(before) :], now
            memory.idle(_IDLE_S)
        clock.at = now
        yield asked


def tell(memory: Memory, clock: SetClock, home: Home, day: str, told: Sequence[Told]) -> None:
    """Tell a home what was said on a day, in a session of its own."""
    talk = Talk(memory, f"day {day}")
    for each in told:
        clock.at = home.time(each.at)
        heard = Heard(speaker=each.speaker or None, asr_confidence=each.confidence, event_time=clock.at)
        if each.fact is not None:
            scope = f"user:{each.fact.scope}" if each.fact.scope in home.people else each.fact.scope
            memory.store.add_fact(each.fact.key, each.fact.value, scope=scope or "household")
        talk.say(
            each.text,
            each.speaker,
            each.reply or _REPLY,
            private=each.private,
            audience=list(each.audience),
            heard=heard,
        )


@contextmanager
def talked(living: Living, asked: Asked) -> Iterator[Talk]:
    """Have the exchanges before what is asked, and forget them afterwards."""
    talk = Talk(living.memory, f"asked {asked.id}")
    for before in asked.before:
        talk.say(before.text, before.speaker, before.reply)
        living.clock.at += 10
    yield talk
    if asked.before:
        living.memory.forget(session=talk.session)


def _shown(memory: Memory, talk: Talk, asked: Asked) -> Shown:
    block = talk.ask(asked.text, asked.speaker, asked.audience)
    always = (
        Talk(memory, f"anything {asked.id}").ask("Hm.", asked.speaker, asked.audience)
        if asked.row in _SILENT
        else ""
    )
    where: dict[str, Any] = (
        {"session": talk.session} if "session" in signature(memory.recall).parameters else {}
    )
    found = memory.recall(asked.text, speaker=asked.speaker or None, k=_DEPTH, min_score=0.0, **where)
    return Shown(asked, block, [item.text for item in found], lines_of(always))


# What is right


def outcomes(shown: Shown, home: Home) -> dict[str, float]:
    """Return each figure of one utterance, 0 to 1, and how many lines it was shown."""
    lines = lines_of(shown.block)
    useful = sum(_is_useful(line, shown.asked, home) for line in lines)
    share = {"all: useful of the lines": useful / len(lines)} if lines else {}
    return _outcomes(shown, home, lines) | {"all: lines": float(len(lines))} | share


def _is_useful(line: str, asked: Asked, home: Home) -> bool:
    """Tell whether a line holds the answer, or is made of what somebody told who knew it."""
    said = set(words(line))
    told = (set(words(each.text)) for each in home.told if each.id in asked.evidence)
    return any(stands(part, [line]) for part in asked.answer) or any(
        len(said & own) > _OF_ONE * len(said) for own in told
    )


def _outcomes(shown: Shown, home: Home, lines: Sequence[str]) -> dict[str, float]:
    asked = shown.asked
    answer = any(stands(part, lines) for part in asked.answer)
    outdated = any(stands(part, lines) for part in asked.outdated)
    row = asked.row
    if row in _SILENT:
        return {f"{row}: silent": float(not set(lines).difference(shown.always))}
    if row == "safe":
        own, others = (
            {
                part
                for one in home.asked
                if one.row == "safety" and (asked.speaker in (one.speaker, *one.audience)) is mine
                for part in one.answer
            }
            for mine in (True, False)
        )
        return {"safe: nobody else's": float(not any(stands(part, lines) for part in others - own))}
    figures = {f"{row}: answer": float(answer), f"{row}: empty": float(not lines)}
    if row == "household":
        figures["household: answer, nothing outdated"] = float(answer and not outdated)
    if row in ("replaced", "former", "series"):
        figures[f"{row}: right above wrong"] = float(_is_above(shown, home))
        figures[f"{row}: wrong alone"] = float(outdated and not answer)
    if row == "follow":
        figures["follow: another's alone"] = float(outdated and not answer)
    if row == "safety" and _is_own(asked, home):
        figures["safety: own missing"] = float(not answer)
    told = {each.id: each.text for each in home.told}
    for cut in _CUTS:
        there = [told[key] for key in asked.evidence if told[key] in shown.found[:cut]]
        figures[f"{row}: evidence among {cut}"] = float(bool(there))
    return figures


def _is_own(asked: Asked, home: Home) -> bool:
    """Tell whether what answers is about the speaker: they told it themselves and nobody else listens, or it is their own fact."""
    told = [each for each in home.told if each.id in asked.evidence]
    facts = {each.fact.scope for each in told if each.fact is not None}
    own = not asked.audience and asked.speaker in {each.speaker for each in told}
    return asked.speaker != "" and (own or asked.speaker in facts)


def _is_above(shown: Shown, home: Home) -> bool:
    """Tell whether what answers stands above all else that would answer wrongly."""

    def place(parts: Sequence[str], *, but: Sequence[str] = ()) -> int:
        places = [
            n
            for n, text in enumerate(shown.found)
            if any(stands(part, [text]) for part in parts) and not any(stands(part, [text]) for part in but)
        ]
        return min(places, default=_DEPTH)

    right = place(shown.asked.answer)
    return right < _DEPTH and right < place(shown.asked.outdated, but=shown.asked.answer)


def lines_of(block: str) -> list[str]:
    """Return the lines of a block that hold a word."""
    lines = re.split(r"\n| / ", re.sub(r"</?[a-z_]+[^>]*>", "\n", block))
    return [line.strip() for line in lines if words(line) and not re.match(r"\W*now: ", line)]


def stands(part: str, lines: Sequence[str]) -> bool:
    """Tell whether all words of a part stand in one line."""
    if not part.isascii() and re.search(r"[\u3400-\u9fff]", part):
        return any(part in line for line in lines)
    wanted = set(words(part))
    return any(wanted <= set(words(line)) for line in lines)


def run(
    *,
    kind: str = "train",
    language: str = "",
    embedder: bool = True,
    model: str = EMBEDDER,
    show: int = 0,
    out: Path | None = None,
    against: Path | None = None,
) -> dict[str, Any]:
    """Judge what stands before the model when people ask, chat and tell, in homes that somebody else wrote (judge/BRIEF.md).

    Args:
        kind: `train`: the sets that learn; `test`: those that judge, at most three times.
        language: default: all.
        embedder: find by meaning too.
        model: the embedder, by its name in the catalogue.
        show: of the sets that learn, this many misses of each figure.
        out: keep what became of each utterance in this file.
        against: a file that another tree has kept; differences are paired, with 95 % intervals.
    """
    if kind != "train" and show:
        raise InvalidInputError("A miss that somebody has read makes its set one that learns.")
    seen: dict[str, dict[str, float]] = {}
    misses: dict[str, list[str]] = defaultdict(list)
    for path in paths(kind):
        home = read(path)
        if language not in ("", home.language):
            continue
        say(f"{path.stem} …")
        for shown in judge(home, embedder=embedder, model=model):
            each = outcomes(shown, home)
            seen[f"{path.stem}/{shown.asked.id}"] = each
            for name, value in each.items():
                if len(misses[name]) < show and not value:
                    misses[name].append(f"{shown.asked.speaker}: {shown.asked.text} -> {shown.block}")
    if out is not None:
        write_scores(out, seen)
    sides = _summary(seen, None if against is None else read_scores(against))
    return report("judge", {"side_by_side": sides} | ({"misses": dict(misses)} if show else {}), {})


def _summary(seen: Outcomes, other: Outcomes | None) -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    above = gains(other, seen) if other is not None else {}
    for name in sorted({name for each in seen.values() for name in each}):
        mean = interval([each[name] for each in seen.values() if name in each])
        rows[name] = {"n": mean.n, "mean": mean.mean, "low": mean.low, "high": mean.high}
        if gain := above.get(name):
            rows[name] |= {"other": gain.difference, "from": gain.low, "to": gain.high}
    return rows
