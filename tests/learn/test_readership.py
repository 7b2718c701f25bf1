"""Of all that learning shows, each reader sees what they would if nothing that they may not read had ever been stored."""

from __future__ import annotations

import os
import random
from typing import get_args

import pytest

import edgemem
from edgemem.config import LearnerName, LearnSettings, LlamaSettings, Profile, TimeSettings
from edgemem.records import Reader
from edgemem.store.rights import readable
from lab.judge import SetClock

ALL_LEARN = LearnSettings(get_args(LearnerName))
HOMES = 5_000 if os.environ.get("EDGEMEM_LONG") else 12
PEOPLE = ("ines", "bob", "cleo")
READERS = (*PEOPLE, None)
QUESTION = "What of the ladder, drill, key, suitcase, sister, colour, shopping list, lights, news, peanuts, flour, soap, meeting, dentist?"
"""Words of all that is said: one that shares none finds the newest messages, and what the robot answered may be closed to more."""
_DAY, _BEGUN = 86_400.0, 1_778_500_800.0  # midnight UTC of a Monday
SAID = (
    "the {thing} is {place} now", "i put the {thing} {place}", "Somebody moved the {thing}, it's {place}.",
    "turn off the lights please", "lights off", "play the news", "my sister is called {name}", "i'm allergic to {food}",
    "dentist on friday at nine", "i have a meeting tomorrow at two", "put {food} on the shopping list", "we're out of {food}",
    "i like {food}", "is the {thing} {place}?", "my favourite colour is {name}",
)  # fmt: skip
WORDS = {
    "thing": ("ladder", "drill", "spare key", "suitcase"), "place": ("in the cellar", "behind the shed", "in the hall"),
    "name": ("Marta", "Tess", "blue"), "food": ("peanuts", "flour", "soap"),
}  # fmt: skip


def lines(rng: random.Random) -> list[tuple[float, str, str | None, str, str | None]]:
    """Return what is said in a home: when, by whom, at which level, whose it is, and the words."""
    said = []
    for _ in range(rng.randint(6, 24)):
        at = _BEGUN + rng.randrange(10) * _DAY + rng.choice((28_800.0, 81_000.0)) + rng.randrange(600)
        speaker = rng.choice((*PEOPLE, *PEOPLE, None))
        level = rng.choice(("household", "household", "private")) if speaker else "shared"
        text = rng.choice(SAID).format(**{name: rng.choice(words) for name, words in WORDS.items()})
        said.append((at, text, speaker, level, speaker if level == "private" else None))
    return sorted(said, key=lambda line: line[0])


def shown(folder, said, reader: str | None) -> tuple[list[str], ...]:
    """Return what a home in which this was said shows a reader of what it has learnt."""
    clock, profile = (
        SetClock(),
        Profile(llama=LlamaSettings(embedder=""), learn=ALL_LEARN, time=TimeSettings(zone="UTC")),
    )
    clock.at = _BEGUN
    who = Reader(reader)
    with edgemem.open(folder, profile=profile, clock=clock, worker=False) as memory:
        for at, text, speaker, level, _ in said:
            clock.at = max(clock.at + 1.0, at)
            with memory.session("s").turn(text, speaker=speaker, private=level == "private") as turn:
                turn.reply("Yes.")
        clock.at = _BEGUN + 11 * _DAY
        memory.learning.now()
        learnt = memory.learning.log(reader=who, limit=1000)
        found = memory.recall(QUESTION, speaker=reader, k=50)
        return (
            sorted(thought.content for thought in learnt),
            [upcoming.text for upcoming in memory.upcoming(reader=who)],
            sorted(item.text for item in found if item.kind in ("fact", "thought")),
        )


@pytest.mark.parametrize("seed", range(HOMES))
def test_what_one_may_not_read_leaves_no_trace_in_what_is_learnt(tmp_path, seed: int) -> None:
    """Random homes of three people and strangers."""
    rng = random.Random(seed)
    said = lines(rng)
    reader = READERS[seed % len(READERS)]
    open_to = [line for line in said if readable(Reader(reader), line[3], line[4])]
    assert shown(tmp_path / "all", said, reader) == shown(tmp_path / "open", open_to, reader)
