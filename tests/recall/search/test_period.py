"""Periods: a question that names a time and little else is answered by what was told then, most telling first."""

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

import edgemem
from edgemem.clock import Clock
from edgemem.loop.loop import AgentLoop
from edgemem.memory import Memory
from edgemem.records import Heard, Reader, StoredMessage, Turn
from edgemem.store import turns
from lab.judge import SetClock
from lab.languages import LANGUAGES, household
from support.data import DATA, sentences
from support.embedders import HashEmbedder
from support.homes import BY_WORDS, Robot, tell
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


def say(robot: Robot, ago: float, hour: float, who: str, text: str, **more) -> None:
    at = MIDNIGHT - ago * DAY + hour * 3600
    said = (StoredMessage("user", text), StoredMessage("assistant", REPLY))
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


def test_a_clause_that_begins_as_a_question_does_tells_of_its_day(tmp_path):
    """A recogniser writes no marks: "when the piano tuner comes on Friday ..." tells what is on, "when do we ..." asks."""
    told = (
        "when the piano tuner comes on Friday let him in by the back door", "what we do on Friday is bake a cake",
        "was ich am Freitag mache ist Kuchen backen", "mấy hôm nay tôi bị ho, thứ sáu tôi đi khám",
    )  # fmt: skip
    asked = "when do we fetch the cake on Friday", "wann holen wir am Freitag den Kuchen ab"
    with closing(Robot(tmp_path, Clock(wall=lambda: NOW, monotonic=lambda: 1.0))) as robot:
        for hour, text in enumerate((*told, *asked)):
            say(robot, 1, hour + 1, "ann", text)
        robot.idle()
        assert set(robot.texts("What's on on Friday?")) == set(told)


def test_nothing_was_told_then(robot):
    """Of a time at which nobody said anything nothing is found, not the newest instead."""
    for query in ("What happened on Sunday?", "what did I say in March", "Was war vor zwei Monaten?"):
        assert robot.recall(query, reader=BEN) == [], query


def test_a_sentence_of_two_words_that_tell_was_told_too(robot):
    """What little somebody said of a day is that day's; a nod is not."""
    say(robot, 5, 9, "ann", "I am going to play the cello")
    say(robot, 5, 10, "ann", "Fine.")
    assert told(robot, "What happened five days ago?") == ["I am going to play the cello"]


def test_what_was_on_a_day_of_that_name_is_not_on_the_next(robot):
    """A question for a coming Friday is not answered by what happened on the last one."""
    say(robot, 1, 15, "ann", "We hung the wallpaper on Friday")
    assert told(robot, "What's on on Friday?") == [PLUMBER]


@pytest.mark.parametrize(
    ("told", "asked"),
    [
        ("the roofer brings the slates on the 27th", "what have I got on next Friday"),
        ("The piano is tuned on the 29th", "Have we anything at the end of the month?"),
        ("A fortnight today the choir sings in the hall", "What's on on the 2nd of December?"),
        ("Der Kaminkehrer kommt am 27.11. um acht", "Was ist am 27.?"),
        ("Mittwoch in einer Woche kommt die Schwester", "Wer kommt heute in acht Tagen?"),
        ("Pasado mañana viene el fontanero", "¿Qué hay el viernes?"),
    ],
)  # fmt: skip
def test_a_plan_is_of_its_day_by_other_words(tmp_path, told, asked):
    """However somebody names a coming day, a question for it by another name finds what is on."""
    with closing(Robot(tmp_path, Clock(wall=lambda: NOW, monotonic=lambda: 1.0))) as robot:
        say(robot, 0, 8, "ann", told)
        say(robot, 0, 9, "ann", "The key of the shed hangs behind the door")
        robot.idle()
        assert robot.texts(asked) == [told]


def test_a_habit_told_at_length_stands_behind_a_plan(robot):
    """What comes each week comes after what is on on that day alone, however many words it has."""
    say(
        robot, 3, 9, "ann",
        "On Fridays Tom from the corner shop carries crates of water, milk, eggs and flour up to the attic",
    )  # fmt: skip
    say(robot, 0, 9, "ann", "The chimney sweep comes on the 20th")
    assert told(robot, "What's on on Friday?")[-1].startswith("On Fridays")


def test_what_is_over_is_not_to_come(robot):
    """What is still on this week is no message about a day of it that has passed."""
    say(robot, 1, 16, "ann", "I sowed the beans yesterday")
    assert told(robot, "What's coming up this week?") == [PLUMBER]


def test_what_was_told_on_another_day_about_a_past_one_is_of_that(robot):
    """A plan for Monday that was told weeks before, and what somebody tells today of yesterday, are of those days."""
    say(robot, 12, 9, "ann", "The chimney sweep comes on Monday in a week")
    say(robot, 0, 9, "ann", "The kettle broke yesterday in the evening")
    assert "The chimney sweep comes on Monday in a week" in told(robot, "What was on on Monday?")
    assert "The kettle broke yesterday in the evening" in told(robot, "What happened yesterday?")


def test_what_others_keep_to_themselves_is_not_told(robot):
    """What Ann said in private is told to Ann alone."""
    secret = "I have bought Ben a telescope for his birthday"
    say(robot, 1, 15, "ann", secret, level="private", owner="ann")
    assert secret not in told(robot, "What happened yesterday?")
    assert secret in told(robot, "What happened yesterday?", reader=ANN)


def test_the_block_of_a_turn_holds_it(tmp_path):
    """A new user with the default profile and no model: yesterday's talk stands before the question within 80 tokens."""
    now = [NOW - 30 * DAY]
    clock = Clock(wall=lambda: now[0], monotonic=lambda: now[0])
    with edgemem.open(tmp_path / "home", profile=BY_WORDS, clock=clock, worker=False) as memory:
        for number, (ago, hour, who, text) in enumerate(TALK):
            now[0] = MIDNIGHT - ago * DAY + hour * 3600
            AgentLoop(Listener(), hooks=memory.hooks(session_id=f"s{number}")).run(text, speaker=who)
        now[0] = NOW
        block = block_before(memory, "What happened yesterday?", "ben")
        for word in ("plumber", "Novak", "17 Nov"):
            assert word in block
        for word in ("boiler", "dentist", "jar", "weather", "morning?", "thanks"):
            assert word not in block
        assert block_before(memory, "I have cleaned the windows today", "ben") == ""


ASKED_AT = datetime(2026, 11, 20, 15).timestamp()  # noqa: DTZ001 - of this machine
DAYS = ((3, 9, 18), (6, 3, 18), (10, 14, 18), (11, 8, 11), (11, 12, 18), (11, 15, 17), (11, 17, 10), (11, 18, 19),
        (11, 19, 20), (11, 20, 8))  # fmt: skip
"""Month, day and hour of each dozen sentences."""
DOZEN = 12
FLOORS = {"en": (14, 25, 8), "de": (5, 8, 3), "es": (4, 8, 3), "vi": (4, 8, 3), "zh": (3, 7, 3)}
"""By language, how many of the questions of a time alone, of those with content and of those of a deed are told apart."""


class Questions(msgspec.Struct):
    """Those of one language, written before the rule that tells them apart; no word list was made from them."""

    more: str
    alone: str
    content: str
    deeds: str


QUESTIONS = msgspec.toml.decode((DATA / "time_questions.toml").read_bytes(), type=dict[str, Questions])


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
        self.clock.at = ASKED_AT
        self.memory.idle(120.0)

    def recall(self, question: str) -> list[Any]:
        return self.memory.recall(question, speaker="Ben", k=5, kinds={"turn"})

    def tells_a_day(self, question: str, day: str | None = None) -> bool:
        """Tell whether a question is answered by all that is of its time, most of it of that day."""
        hits, search = self.recall(question), self.memory.diagnostics.search
        of_day = [item for item in hits if day in (None, (item.session or "").removeprefix("day "))]
        by_period = search.ranking_of(question, reader=BEN, kinds={"turn"}).by_period
        return by_period and len(of_day) > len(hits) / 2


@pytest.fixture(params=LANGUAGES)
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Home]]:
    built = Home(request.param, tmp_path)
    yield request.param, built
    built.memory.close()


def test_a_time_alone_is_told_from_a_time_with_content(home: tuple[str, Home]) -> None:
    """A time alone is answered by its day, one with content by what was said of that, and a deed by neither."""
    language, here = home
    questions = QUESTIONS[language]
    alone = [line.partition(" ") for line in questions.alone.strip().splitlines()]
    content = [line.partition(" ") for line in questions.content.strip().splitlines()]
    missed_alone = [text for day, _, text in alone if not here.tells_a_day(text, day)]
    missed_content = []
    for name, _, text in content:
        hits = here.recall(text)
        if here.tells_a_day(text) or name not in [here.ids[entry.session, entry.turn] for entry in hits[:3]]:
            missed_content.append(text)
    missed_deeds = [text for text in questions.deeds.strip().splitlines() if here.tells_a_day(text)]
    deeds = questions.deeds.strip().count("\n") + 1 - len(missed_deeds)
    right = (len(alone) - len(missed_alone), len(content) - len(missed_content), deeds)
    assert all(have >= floor for have, floor in zip(right, FLOORS[language], strict=True)), (
        right, missed_alone, missed_content, missed_deeds,
    )  # fmt: skip
