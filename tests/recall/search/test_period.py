"""Periods: a question that names a time and little else is answered by what was told in that time, most telling first."""

from __future__ import annotations

from datetime import datetime

import msgspec
import pytest

import edgemem
from edgemem.clock import Clock
from edgemem.config import Profile
from edgemem.loop.loop import AgentLoop
from edgemem.records import Heard, Reader, StoredMessage, Turn
from edgemem.store import turns
from support.data import sentences
from support.embedders import HashEmbedder
from support.homes import Robot
from support.loops import block_before
from support.models import Listener

DAY = 86400.0
MIDNIGHT = datetime(2026, 11, 18).timestamp()  # noqa: DTZ001 - of this machine
NOW = MIDNIGHT + 19 * 3600  # a Wednesday

ANN, BEN = Reader("ann"), Reader("ben")
SCARF = "I lost my red scarf on the tram"
PLUMBER = "The washing machine leaks, the plumber comes on Friday between eight and ten"
DRILL = "Mrs Novak from next door brought back our drill and asks us for dinner"
DENTIST = "My dentist appointment is moved to the ninth of December"
BOILER = "The boiler was repaired by Mr Kowalski for 240 euros"
JAR = "I have put the spare key into the blue jar"
NAMES = ("scarf", "plumber", "drill", "dentist", "boiler", "jar")
REPLY = "I will remember that for you."
TALK = (
    (20, 9, "ann", BOILER), (2, 20, "ben", DENTIST), (1, 7, "ann", "Good morning"),
    (1, 7.5, "ann", "What is the weather like outside?"), (1, 8, "ann", SCARF), (1, 12, "ben", PLUMBER),
    (1, 12.1, "ben", "ok thanks"), (1, 18, "ann", DRILL), (0, 8, "ben", JAR),
)  # fmt: skip
"""How many days ago, at which hour, who, what."""


def say(robot: Robot, ago: float, hour: float, who: str, text: str, reply: str = REPLY, **more) -> None:
    """Store a turn of a day."""
    at = MIDNIGHT - ago * DAY + hour * 3600
    said = (StoredMessage("user", text), StoredMessage("assistant", reply))
    n = robot.truth.query("select count(*) from turns")[0][0]
    turn = Turn("s", n, said, heard=Heard(speaker=who, event_time=at), **more)
    robot.truth.write(lambda tx: turns.commit_turn(tx, turn))


@pytest.fixture(params=["words", "meaning", "at once"])
def robot(request, tmp_path):
    """Return a robot that was talked to for some days; how its index is read makes no difference to any test."""
    embedder = HashEmbedder() if request.param == "meaning" else None
    made = Robot(tmp_path, Clock(wall=lambda: NOW, monotonic=lambda: 1.0), embedder)
    for each in TALK:
        say(made, *each)
    if request.param != "at once":
        made.idle()
    yield made
    made.close()


def told(robot: Robot, query: str, *, reader: Reader | None = BEN, **options) -> list[str]:
    found = robot.recall(query, reader=reader, k=9, **options)
    return [item.text for item in found]


def test_what_was_told_then_is_found(robot):
    """All that tells anything, by whom it is asked for; neither questions, greetings nor the robot's nod."""
    names = dict(zip((SCARF, PLUMBER, DRILL, DENTIST, BOILER, JAR), NAMES, strict=True))
    for query, texts in sentences("told_then").items():
        assert " ".join(sorted(names.get(text, text) for text in told(robot, query))) == texts, query


def test_nothing_was_told_then(robot):
    """Of a time at which nobody said anything nothing is found, not the newest instead."""
    for query in ("What happened on Sunday?", "what did I say in March", "Was war vor zwei Monaten?"):
        assert robot.recall(query, reader=BEN) == [], query


def test_what_the_robot_said(robot):
    """Who asks what the robot said is told that, and nothing that people said."""
    rain = "The forecast speaks of heavy showers until midnight"
    say(robot, 1, 19, "ann", "Will it rain this evening?", rain)
    assert told(robot, "what did you tell me yesterday?") == [rain]


def test_what_others_keep_to_themselves_is_not_told(robot):
    """What Ann said in private is told to Ann alone."""
    secret = "I have bought Ben a telescope for his birthday"
    say(robot, 1, 15, "ann", secret, level="private", owner="ann")
    assert secret not in told(robot, "What happened yesterday?")
    assert secret in told(robot, "What happened yesterday?", reader=ANN)


def test_the_block_of_a_turn_holds_it(tmp_path):
    """A new user with the default profile and no model: yesterday's talk stands before the question within 80 tokens."""
    now = [NOW - 30 * DAY]
    profile = Profile()
    profile = msgspec.structs.replace(profile, llama=msgspec.structs.replace(profile.llama, embedder=""))
    clock = Clock(wall=lambda: now[0], monotonic=lambda: now[0])
    with edgemem.open(tmp_path / "home", profile=profile, clock=clock, worker=False) as memory:
        for number, (ago, hour, who, text) in enumerate(TALK):
            now[0] = MIDNIGHT - ago * DAY + hour * 3600
            AgentLoop(Listener(), hooks=memory.hooks(session_id=f"s{number}")).run(text, speaker=who)
        now[0] = NOW
        block = block_before(memory, "What happened yesterday?", "ben")
        for word in ("scarf", "plumber", "Novak", "17 Nov"):
            assert word in block
        for word in ("boiler", "dentist", "jar", "weather", "morning?", "thanks"):
            assert word not in block
        assert block_before(memory, "I have cleaned the windows today", "ben") == ""


def test_a_word_that_others_keep_to_themselves_does_not_tell(robot):
    """Whether a question asks for a time alone is decided by what whoever asks may read."""
    query = "tell me yesterday's gossip"
    before = robot.recall(query, reader=BEN, k=9)
    gossip = "Such gossip about the mayor"
    say(robot, 1, 15, "ann", gossip, level="private", owner="ann")
    assert before
    assert {item.why for item in before} == {("date",)}
    assert [item.text for item in robot.recall(query, reader=BEN, k=9)] == [item.text for item in before]
    assert "words" in {item.text: item.why for item in robot.recall(query, reader=ANN, k=9)}[gossip]
