"""Questions of a time, in five languages: what was told then answers those that name nothing else, and only those.

They were written before the rule that tells them apart, and no word list was made from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

import edgemem
from edgemem.memory import Memory
from lab.languages import LANGUAGES, household
from lab.recall_home import SetClock
from support.homes import BY_WORDS, tell

NOW = datetime(2026, 11, 20, 15).timestamp()  # noqa: DTZ001 - of this machine
DAYS = ((3, 9, 18), (6, 3, 18), (10, 14, 18), (11, 8, 11), (11, 12, 18), (11, 15, 17), (11, 17, 10), (11, 18, 19),
        (11, 19, 20), (11, 20, 8))  # fmt: skip
"""Month, day and hour of each dozen sentences."""
DOZEN = 12
TOLD = 0.5
"""No message of a time that is asked for alone scores less; see `rank.period`."""
FLOORS = {"en": (16, 25, 11), "de": (6, 8, 4), "es": (5, 8, 4), "vi": (5, 8, 4), "zh": (3, 7, 4)}
"""By language, how many of the questions of a time alone, of those with content and of those of a deed are told apart."""


class Questions(msgspec.Struct):
    """Those of one language."""

    more: str
    alone: str
    content: str
    deeds: str


QUESTIONS = msgspec.toml.decode(
    (Path(__file__).parents[2] / "data" / "time_questions.toml").read_bytes(), type=dict[str, Questions]
)


class Home:
    """A household of one language that was told its sentences on ten days."""

    def __init__(self, language: str, folder: Path) -> None:
        spoken = household(language)
        utterances = [
            (name, who, text, at // DOZEN, at % DOZEN) for at, (name, who, text) in enumerate(spoken.said)
        ]
        more = [line.partition(": ") for line in QUESTIONS[language].more.strip().splitlines()]
        utterances += [(f"more{at}", who, text, 1, DOZEN + at) for at, (who, _, text) in enumerate(more)]
        self.ids: dict[tuple[str | None, int | None], str] = {}
        self.clock = SetClock()
        self.memory: Memory = edgemem.open(folder, profile=BY_WORDS, clock=self.clock, worker=False)
        for name, who, text, day, number in sorted(utterances, key=lambda entry: entry[3:]):
            month, of_month, hour = DAYS[day]
            at = datetime(2026, month, of_month, hour, 3 * number).timestamp()  # noqa: DTZ001
            self.clock.at = at
            tell(self.memory, text, f"day {day}", number, speaker=who, at=at)
            self.ids[f"day {day}", number] = name
        self.clock.at = NOW
        self.memory.idle(120.0)

    def recall(self, question: str) -> list[Any]:
        """Return the first five messages that Ben is told of."""
        return self.memory.recall(question, speaker="Ben", k=5, kinds={"turn"})


def tells_a_day(hits: list[Any], day: str | None = None) -> bool:
    """Tell whether most of what was found was told because it was said on a day; None: on any."""
    shown_text = [item for item in hits if item.why == ("date",) and item.score >= TOLD]
    of_day = [item for item in shown_text if day in (None, (item.session or "").removeprefix("day "))]
    return bool(shown_text) and len(of_day) > len(hits) / 2


@pytest.fixture(params=LANGUAGES)
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Home]]:
    """Return each language with its household."""
    built = Home(request.param, tmp_path)
    yield request.param, built
    built.memory.close()


def test_a_time_alone_is_told_from_a_time_with_content(home: tuple[str, Home]) -> None:
    """A time alone is answered by its day, one with content by what was said of that, and a deed by neither."""
    language, here = home
    questions = QUESTIONS[language]
    alone = [line.partition(" ") for line in questions.alone.strip().splitlines()]
    content = [line.partition(" ") for line in questions.content.strip().splitlines()]
    missed_alone = [text for day, _, text in alone if not tells_a_day(here.recall(text), day)]
    missed_content = []
    for name, _, text in content:
        hits = here.recall(text)
        if tells_a_day(hits) or name not in [here.ids[entry.session, entry.turn] for entry in hits[:3]]:
            missed_content.append(text)
    missed_deeds = [text for text in questions.deeds.strip().splitlines() if tells_a_day(here.recall(text))]
    deeds = questions.deeds.strip().count("\n") + 1 - len(missed_deeds)
    right = (len(alone) - len(missed_alone), len(content) - len(missed_content), deeds)
    assert all(have >= floor for have, floor in zip(right, FLOORS[language], strict=True)), (
        right, missed_alone, missed_content, missed_deeds,
    )  # fmt: skip
