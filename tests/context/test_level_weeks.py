"""How many turns of ten weeks are closed for nothing, and how many that repeat a private value stay open.

The rule was written and looked at with the forms `learnt`; what is asserted is measured on the forms `unseen`, whose
sentences nobody looked at for it, and with other seeds.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from test_level import Robot

from edgemem.loop.loop import AgentLoop
from edgemem.recall.text.analyse import stop_words
from edgemem.records import ToolCall
from edgemem.session.tools import Tool
from lab.weeks import Talk, Telling, Turn
from lab.weeks_world import FormSet, facts, forms_of
from support.selection import cases

pytestmark = pytest.mark.usefixtures("patient")

FORMS: FormSet = "unseen"
SEED = 11
EMPTY = {"type": "object", "properties": {}}

DIGITS = {
    word: str(digit)
    for digit, word in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    )
}


class Exchange(NamedTuple):
    """What somebody says, what a tool answers, and what the robot says."""

    user: Turn
    tool: str | None
    reply: str
    telling: Telling | None


def exchanges(seed: int) -> Iterator[Exchange]:
    """Yield the talk of one household."""
    talk = Talk(forms_of(FORMS), facts(seed), seed)
    tellings = {telling.ids[-1]: telling for telling in talk.tellings}
    starts = [n for n, turn in enumerate(talk.turns) if turn.role == "user"]
    for start, end in zip(starts, [*starts[1:], len(talk.turns)], strict=True):
        user, *rest = talk.turns[start:end]
        tool = next((turn.text for turn in rest if turn.role == "tool"), None)
        reply = next((turn.text for turn in rest if turn.role == "assistant"), "Mhm.")
        yield Exchange(user, tool, reply, tellings.get(user.id))


def talks(seed: int) -> Iterator[Exchange]:
    """Yield the talk of one household after the other."""
    while True:
        yield from exchanges(seed)
        seed += 1


class Talking(Robot):
    """A robot that goes through the weeks; its only tool answers as it did there."""

    def __init__(self, home: Path) -> None:
        self.answer = ""
        super().__init__(home, tools=[Tool("look_up", "Looks it up.", EMPTY, lambda: self.answer)])

    def enter(self, session: str) -> None:
        """Go on in a session."""
        if session != self.session:
            self.session = session
            hooks = self.memory.hooks(session_id=session)
            self.loop = AgentLoop(self.model, hooks=hooks, tools=list(self.loop.tools.values()))

    def go(self, exchange: Exchange, **how: Any) -> None:
        """Have one exchange."""
        self.answer = exchange.tool or ""
        call = [ToolCall("look_up", {})] if exchange.tool is not None else []
        self.hear(exchange.user.text, *call, exchange.reply, speaker=exchange.user.speaker, **how)

    def newest(self) -> str:
        """Return who may read the newest turn."""
        return str(self.memory.sessions.journal.read_turns(self.session)[-1].level)


@pytest.mark.long
@pytest.mark.parametrize("apart", [False, True], ids=["one session", "two a day"])
def test_few_turns_are_closed_for_nothing(
    tmp_path: Path, apart: bool, record_property: Callable[[str, object], None]
) -> None:
    """Of ordinary turns whose reply repeats nothing private, at most one in twenty is closed."""
    dice, count = random.Random(SEED), cases(2_000)
    ordinary = closed = 0
    with Talking(tmp_path / "home") as robot:
        for _, exchange in zip(range(count), talks(SEED)):  # noqa: B905 - the talk has no end
            robot.enter(exchange.user.session if apart else "kitchen")
            if dice.random() < 0.1:
                robot.go(exchange, private=True)
                continue
            robot.go(exchange)
            ordinary += 1
            closed += robot.newest() == "private"
            if ordinary % 20 == 0:
                robot.memory.idle(0.2)
    record_property("closed", f"{closed} of {ordinary}")
    assert closed <= 0.05 * ordinary + (count < 2_000)


def content(text: str) -> set[str]:
    """Return the words of a text that tell anything, as anybody would cut them."""
    return {word for word in re.findall(r"[^\W_]+", text.lower()) if len(word) > 2} - stop_words("en")


def ways(value: str, fresh: Sequence[str], dice: random.Random) -> str:
    """Return a reply that says a value again: as it was said, in digits, spaced out or spelled."""
    words = value.lower().split()
    if all(word in DIGITS for word in words):
        digits = [DIGITS[word] for word in words]
        said = [
            value,
            "".join(digits),
            " ".join(digits),
            "-".join(digits),
            ", ".join(words),
            ". ".join(digits),
        ]
    else:
        word = dice.choice(fresh)
        said = [value, value.upper(), word, " ".join(word), "-".join(word.upper()), ", ".join(word)]
    frame = dice.choice(["It is {}.", "{}!", "You told me: {}", "I think that it was {}, wasn't it?", "{}"])
    return frame.format(dice.choice(said))


@pytest.mark.long
def test_few_replies_that_repeat_something_private_stay_open(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Of replies that repeat, spell or space out a private value, at most one in fifty stays open."""
    dice, count = random.Random(SEED), cases(200)
    repeated, still_open = 0, []
    heard: set[str] = set()
    with Talking(tmp_path / "home") as robot:
        for exchange in talks(SEED + 100):
            telling, user = exchange.telling, exchange.user
            if telling is None and dice.random() < 0.5:
                continue
            if telling is None or telling.version.date is not None or exchange.tool or dice.random() < 0.2:
                robot.go(exchange)
                heard |= {word[:4] for word in content(f"{user.text} {exchange.tool} {exchange.reply}")}
                continue
            robot.go(exchange, private=True)
            # What somebody has said openly, in another form perhaps, may be said again.
            fresh = sorted(word for word in content(telling.said) if word[:4] not in heard)
            if not fresh:
                continue
            reply = ways(telling.said, fresh, dice)
            robot.hear("What was that again?", reply, speaker=user.speaker)
            repeated += 1
            if repeated % 20 == 0:
                robot.memory.idle(0.2)
            if robot.newest() != "private":
                still_open.append((telling.said, reply))
            if repeated == count:
                break
    record_property("open", f"{still_open} of {repeated}")
    assert len(still_open) <= 0.02 * repeated
