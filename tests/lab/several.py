"""What learning adds to questions that several observations answer together: counts, habits, what changed, sets.

`tests/data/several.toml` was written before any learner. Each question is asked of its home twice, with learning and without; what counts is
what stands in the block of memory before its words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

import edgemem
from edgemem.bench.ground import EMBEDDER, at_least, at_most, real_tokenizer, report, say, scratch
from lab.bootstrap import interval, paired
from lab.judge import SetClock, Talk, lines_of, stands
from lab.planted import BEFORE, says_time
from lab.planted_homes import learning_profile, list_reflections, seconds

FILE = Path(__file__).parents[1] / "data" / "several.toml"
_IDLE_S, _LATER_S = 60.0, 86_400.0
_REPLY = {"en": "Okay.", "de": "Ist gut."}
_UNTIL = re.compile(r"\b(until|till|bis) \d", re.IGNORECASE)
_HEAD = 30  # characters of a reflection by which it is known in a line
_LEAST = 1e-4  # above 0

Item = tuple[str, ...]  # its right wordings


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: Literal["count", "habit", "changed", "set"]
    asker: str
    text: str
    required: tuple[Item, ...]
    stale: tuple[Item, ...]


class Home(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    language: str
    said: tuple[tuple[str, str, str], ...]  # when, who, what
    questions: tuple[Question, ...]


class Outcome(NamedTuple):
    """What the block of a question had."""

    required: float  # share of what is required
    stale: float | None
    """How many old values stand there as if they held; None: the question has none."""
    reflects: float  # whether a reflection stands there
    lines: list[str]


def read_homes(path: Path = FILE) -> list[Home]:
    return msgspec.toml.decode(path.read_bytes(), type=dict[str, list[Home]])["home"]


def run(*, words: bool = False, show: bool = False) -> dict[str, Any]:
    """Ask homes what several observations answer, with learning on and off.

    Args:
        words: find by words alone.
        show: tell each question with both of its blocks.
    """
    homes = read_homes()
    asked = [question for home in homes for question in home.questions]
    off, on = ([each for home in homes for each in outcomes(home, on=on, embedder="" if words else EMBEDDER)] for on in (False, True))  # fmt: skip
    gain = paired([each.required for each in off], [each.required for each in on])
    figures: dict[str, Any] = {"embedder": "" if words else EMBEDDER, "questions": len(asked)}
    figures["required"] = {name: msgspec.to_builtins(interval([each.required for each in side])) for name, side in (("off", off), ("on", on))}  # fmt: skip
    figures["gain"] = msgspec.to_builtins(gain)
    figures["required_by_kind"] = {
        kind: " → ".join(
            f"{_mean([each.required for question, each in zip(asked, side, strict=True) if question.kind == kind]):.2f}"
            for side in (off, on)
        )
        for kind in sorted({question.kind for question in asked})
    }
    stale = {name: sum(each.stale or 0.0 for each in side) for name, side in (("off", off), ("on", on))}
    reflects = _mean([each.reflects for each in on])
    figures |= {"stale": stale, "stale_of": sum(len(question.stale) for question in asked), "blocks_with_a_reflection": reflects}  # fmt: skip
    if show:
        figures["shown"] = [
            {"question": question.text, "off": [before.required, *before.lines], "on": [after.required, *after.lines]}
            for question, before, after in zip(asked, off, on, strict=True)
        ]  # fmt: skip
    bars = {
        "gain, lower end": at_least(gain.low, _LEAST),
        "stale, more than without": at_most(stale["on"] - stale["off"], -1.0),
        "blocks with a reflection": at_least(reflects, _LEAST),
    }
    return report("several", figures, bars)


def outcomes(home: Home, *, on: bool, embedder: str) -> list[Outcome]:
    """Return what the block of each question of a home had."""
    say(f"{home.name}, learning {'on' if on else 'off'} …")
    clock, profile = SetClock(), learning_profile(on=on, embedder=embedder)
    with (
        scratch(None) as folder,
        edgemem.open(
            folder / "home", profile=profile, tokenizer=real_tokenizer(), clock=clock, worker=False
        ) as memory,
    ):
        for day, said in groupby(home.said, key=lambda each: each[0][:10]):
            talk = Talk(memory, day)
            for at, speaker, text in said:
                clock.at = seconds(at)
                talk.say(text, speaker, _REPLY[home.language])
            memory.idle(_IDLE_S)
        clock.at += _LATER_S
        memory.idle(_IDLE_S)
        essences = [thought.essence for thought in list_reflections(memory)]
        return [
            outcome(question, Talk(memory, f"asked {n}").ask(question.text, question.asker, ()), essences)
            for n, question in enumerate(home.questions)
        ]


def outcome(question: Question, block: str, essences: Sequence[str]) -> Outcome:
    """Judge a block: what is before stands there as such where the line says so, or until when it held."""
    lines = lines_of(block)
    held = [BEFORE.split(line)[0] for line in lines if not _UNTIL.search(line)]
    required = [any(_tells(wording, lines) for wording in item) for item in question.required]
    stale = [any(_tells(wording, held) for wording in item) for item in question.stale]
    reflects = any(essence[:_HEAD] in line for essence in essences for line in lines)
    return Outcome(_mean(required), float(sum(stale)) if stale else None, float(reflects), lines)


def _tells(wording: str, lines: Sequence[str]) -> bool:
    if wording.startswith("~"):
        return any(says_time(wording[1:], line) for line in lines)
    return stands(wording, lines)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
