"""Days: what day it is, the day that a line's words mean, where days begin, and what is on a day to come."""

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

import edgemem
from edgemem.clock import Clock
from edgemem.config import LlamaSettings, MemorySettings, Profile, TimeSettings
from edgemem.errors import ConfigError
from edgemem.loop.loop import AgentLoop
from edgemem.memory import Memory
from edgemem.records import Heard, Reader, Reply, ToolCall
from edgemem.session.tools import Tool, ToolTurn
from support.loops import block_before, tool_named
from support.models import Model
from support.refusals import refusal

BERLIN = ZoneInfo("Europe/Berlin")
HOUR = 3600.0


def at(text: str) -> float:
    """Return a moment in Berlin, given as 2026-12-01 09:30."""
    return datetime.strptime(text, "%Y-%m-%d %H:%M").replace(tzinfo=BERLIN).timestamp()


class Home:
    """A home by words, in Berlin, whose clock a test moves."""

    def __init__(self, path: Path, *, zone: str = "Europe/Berlin") -> None:
        self.now = at("2026-09-01 18:00")
        profile = Profile(
            llama=LlamaSettings(embedder=""), time=TimeSettings(zone=zone), memory=MemorySettings("shared")
        )
        clock = Clock(wall=lambda: self.now, monotonic=lambda: self.now)
        self.memory: Memory = edgemem.open(path, profile=profile, clock=clock, worker=False)
        self.model = Model(otherwise="Fine.")

    def loop(self, session: str = "kitchen", **more) -> AgentLoop:
        return AgentLoop(self.model, hooks=self.memory.hooks(session_id=session), speaker="ann", **more)

    def tell(self, text: str, when: str, speaker: str = "ann") -> None:
        self.now = at(when)
        AgentLoop(self.model, hooks=self.memory.hooks(session_id=f"told {when}"), speaker=speaker).run(text)

    def before(self, text: str, when: str) -> str:
        """Return the lines before what Ann says then, without what day it is."""
        self.now = at(when)
        self.memory.idle(5)
        lines = (
            block_before(self.memory, text, "ann")
            .replace("<memory>", "")
            .replace("</memory>", "")
            .splitlines()
        )
        return "\n".join(line for line in lines if "now: " not in line)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path / "home")
    yield home
    home.memory.close()


def newest(home: Home) -> str:
    content: str = home.model.handed[-1][-1]["content"]
    return content


def test_what_day_it_is_is_said_when_it_changed(home: Home) -> None:
    """Once, after midnight, after an hour's pause, and never again within talk; what was said stays byte for byte."""
    home.now = at("2026-12-01 18:00")  # a Tuesday
    loop, said = home.loop(), []
    for hours in (0, 0.5, 0.5, 0.6, 1.5, 3, 0.2):
        home.now += hours * HOUR
        loop.run("Well, well.")
        said.append(newest(home).partition("now: ")[2].partition("<")[0].strip())
    assert said == [
        "Tuesday 1 December 2026, 18:00", "", "", "", "Tuesday 1 December 2026, 21:06",
        "Wednesday 2 December 2026, 00:06", "",
    ]  # fmt: skip
    assert newest(home) == "Well, well."
    for before, after in zip(home.model.handed, home.model.handed[1:], strict=False):
        assert after[: len(before)] == before


def test_the_line_of_the_day_is_memorys_and_leaves_no_trace_of_a_turn_thrown_away(home: Home) -> None:
    """It is stored with the block, not as words; hops do not repeat it."""
    home.now = at("2026-12-01 18:00")
    loop = home.loop()
    loop.prepare("Hello there.")
    loop.abort()
    look = Tool("look", "Look.", {"type": "object", "properties": {}}, lambda: "seen")
    home.model.replies = [Reply("", tool_calls=(ToolCall("look", {}, "c1"),)), Reply("Done.")]
    loop = home.loop(tools=[look])
    loop.run("Look around.")
    assert sum(str(message).count("now: ") for message in home.model.handed[-1]) == 1
    (turn,) = home.memory.sessions.journal.read_turns("kitchen")
    assert turn.messages[0].content == "Look around."
    assert "Tuesday 1 December 2026, 18:00" in turn.block


def test_a_clock_that_may_be_wrong_says_no_day(home: Home) -> None:
    """A board that boots in 1970, or is a year behind what is stored, is silent; nothing fails."""
    for now in (0.0, 1e9, home.now + 20 * 365 * 24 * HOUR):
        home.now = now
        loop = home.loop(f"at {now}")
        loop.run("Hello there.")
        assert newest(home) == "Hello there."
        assert loop.hooks.failures() == []


def test_a_line_says_the_day_that_its_words_mean(home: Home) -> None:
    """The words stay, and the day stands behind them, where it is certain: not of a habit, a name, or one of two days."""
    sayings = {
        "the boiler man comes on Friday": "on Friday [4 December]",
        "the plumber comes tomorrow": "tomorrow [2 December]",
        "am Freitag kommt der Klempner": "am Freitag [4. Dezember] kommt",
        "football is every Thursday": "every Thursday",
        "donnerstags ist Chor": "donnerstags ist",
        "the Sunday roast needs thyme": "Sunday roast needs",
        "the parcel may come next Friday": "next Friday",
    }
    for n, text in enumerate(sayings):
        home.tell(text, f"2026-12-01 10:{n:02}")
    home.memory.store.add_fact("dentist", "Friday at 9:00", scope="global")
    asked = ("boiler man", "plumber", "Klempner", "football", "Chor", "roast", "parcel")
    for word, said in zip(asked, sayings.values(), strict=True):
        line = home.before(f"What about the {word}?", "2026-12-01 20:00")
        assert said in line
        assert ("[" in line.partition(word)[0] + line) == ("[" in said), line
    assert "dentist: Friday [4 December] at 9:00" in home.before("And the dentist?", "2026-12-01 21:00")


@pytest.mark.parametrize(
    ("day", "text", "said"),
    [
        (17, "I've been given the Tuesday for my knee, the twenty-fourth, half past two, at the physio's.", ""),
        (15, "Rafferty's party for the knee is next weekend but one, the Saturday, two o'clock.", ""),
        (25, "coach messaged the group, they've double booked the knee so sunday's not till half twelve.", ""),
        (17, "the knee is in a fortnight, on Saturday", ""), (17, "the knee was wrapped on Sunday", "Sunday [15 November]"),
        (17, "man hat mir am Freitag einen Platz für das Knie gegeben", ""), (17, "das Knie war am Freitag dran", "Freitag [13. November]"),
        (17, "me han dado el viernes para la rodilla", ""), (17, "la rodilla fue operada el viernes", "viernes [13 de noviembre]"),
        (17, "phòng khám đã xếp cho con thứ sáu", ""), (17, "诊所已经给我的膝盖约了星期五", ""),
    ],
)  # fmt: skip
def test_a_day_that_may_be_past_or_to_come_is_not_said(home: Home, day: int, text: str, said: str) -> None:
    """A perfect, a plan that was made, or another time beside it decides nothing; such a day is found as the coming one too."""
    home.tell(text, f"2026-11-{day} 10:00")
    about = next(word for word in ("knee", "Knie", "rodilla", "phòng khám", "膝盖") if word in text)
    line = home.before(f"What about the {about}?", f"2026-11-{day} 20:00")
    assert (text[:9] in line, said in line, "[" in line) == (True, True, bool(said)), line
    if not said and day == 17 and "Saturday" not in text:
        asked = "the twenty-fourth" if "twenty-fourth" in text else "Friday"
        assert text[:9] in home.before(f"What's on {asked}?", "2026-11-18 20:00")


COMING = {
    "What's on Friday?": "dentist", "Who comes on Tuesday?": "boiler",
    "What do we have on the eighth?": "boiler", "Is anybody coming next Tuesday?": "boiler",
    "What's on tomorrow?": "Laterne", "What do I have on Thursday?": "football", "Any plans for the twentieth?": "Noreen",
    "What's on Sunday week?": "currach", "what happens on the last Saturday of December": "skating",
    "Was ist in zwei Wochen am Mittwoch?": "Elternabend",
}  # fmt: skip


def test_what_is_on_a_day_to_come_is_found_by_it(home: Home) -> None:
    """Facts and what people said, by the day that they are about, said in other words; what comes each week on each such day."""
    home.tell("I play football every Thursday", "2026-10-01 10:00")
    home.tell("Am zweiten Dezember ist das Laternenfest im Hof", "2026-11-20 10:00")
    home.tell("Noreen's birthday is on the 20th of December", "2026-11-21 10:00")
    home.tell("the currach race is on December 13th", "2026-11-22 10:00", "bob")
    home.tell("we go skating on 26 December", "2026-11-23 10:00")
    home.tell("Der Elternabend ist heute in drei Wochen", "2026-11-25 10:00")
    home.tell("the milk is sour again", "2026-11-27 10:00")
    home.now = at("2026-11-30 12:00")
    home.memory.store.add_fact("dentist", "Friday at 9:00", scope="global")
    home.memory.store.add_fact("boiler repair", "8 December in the morning", scope="global")
    found = {asked: home.before(asked, f"2026-12-01 {hour}:00") for hour, asked in enumerate(COMING, 10)}
    assert [question for question, word in COMING.items() if word not in found[question]] == []


LISTS = {
    "What's on today?": "Pilates lantern", "is there anything tonight": "Pilates lantern", "What's on tomorrow?": "chimney",
    "Who comes the day after tomorrow?": "piano", "anything on Friday morning?": "tyres", "Was steht am Freitag an?": "tyres",
    "What have we got on this weekend?": "regatta", "Ist am 4. was?": "tyres", "who is coming next week": "Pilates glazier",
    "Was ist nächste Woche los?": "Pilates glazier", "What's on Thursday week?": "", "How are you today?": "", "Do I have anything on Sunday?": "",
}  # fmt: skip


def test_a_question_for_a_day_is_answered_by_what_is_about_it(home: Home) -> None:
    """All that is about the day and nothing else, without a word in common; of a day on which nothing is, nothing."""
    told = {
        "every Tuesday I go to Pilates": "ann", "the lantern walk is on the first of December in the evening": "bob",
        "tomorrow in a week the chimney gets swept": "ann", "the glazier measures the windows on December 9th": "bob",
        "Piano tuning is on Thursday week": "ann", "the car gets its tyres changed on Friday week in the morning": "bob",
        "at the weekend I am away, I said so on Monday": "bob", "the regatta is on the 5th of December": "ann",
        "the oven takes ten minutes longer than the book says": "ann", "a week ago on Thursday it snowed": "bob",
    }  # fmt: skip
    for minute, (text, speaker) in enumerate(told.items()):
        home.tell(text, f"2026-11-24 10:{minute:02}", speaker)  # a Tuesday
    things = (
        "Pilates", "lantern", "chimney", "piano", "tyres", "regatta", "glazier", "away", "oven", "snowed",
    )  # fmt: skip
    found = {
        question: home.before(question, f"2026-12-01 {hour}:00").lower()
        for hour, question in enumerate(LISTS, 10)
    }
    assert {
        question: " ".join(thing for thing in things if thing.lower() in block)
        for question, block in found.items()
    } == LISTS


def test_a_name_that_is_a_month_or_a_day_is_searched_as_a_name(home: Home) -> None:
    """What April, August, Mai or Wednesday likes is found, also on a day that is asked for, though no such time is spoken of."""
    told = {
        "April likes liquorice and nothing else": "What does April like?",
        "August collects beer mats in a shoe box": "What does August collect?",
        "Mai züchtet Axolotl im Keller": "Was züchtet Mai?",
        "Wednesday is our hamster and bites": "Who bites, Wednesday?",
        "June comes on Friday and brings a ukulele": "Is June coming on Friday?",
    }
    for minute, text in enumerate(told):
        home.tell(text, f"2026-11-30 10:{minute:02}", "bob")
    for text, question in told.items():
        assert text.split()[-1] in home.before(question, "2026-12-01 19:00"), question


@pytest.mark.parametrize("wrong", ["2027-12-01 10:00", "2038-06-01 10:00", "1970-01-01 10:00"])
def test_what_was_said_by_a_wrong_clock_is_found_when_it_is_right(home: Home, wrong: str) -> None:
    """A board that ran ahead, or woke in 1970: no turn fails, and what was said then is found, also beside a day that is asked for."""
    home.tell("the spare fuse is in the piano stool", "2026-11-30 10:00")
    home.tell("the plumber comes tomorrow, his name is Osgood", wrong)
    home.now = at("2026-12-01 12:00")
    home.memory.store.add_fact("wifi word", "marzipan", scope="global")
    loop = home.loop("after")
    for question, word in {
        "What is the name of the plumber?": "Osgood", "Where is the spare fuse?": "piano",
        "What's on tomorrow?": "", "What did we say yesterday?": "", "What is the wifi word?": "marzipan",
    }.items():  # fmt: skip
        assert word in home.before(question, "2026-12-01 12:05"), question
        loop.run(question)
        assert loop.hooks.failures() == []


def test_days_begin_where_the_household_lives(tmp_path: Path) -> None:
    """At ten in the evening in Berlin it is tomorrow in Auckland: the line, a lead and a question all say so."""
    home = Home(tmp_path / "home", zone="Pacific/Auckland")
    with home.memory:
        home.tell("the plumber comes today", "2026-12-01 10:00")
        home.loop().run("Hello there.")
        assert "now: Tuesday 1 December 2026, 22:00" in newest(home)
        home.now = at("2026-12-01 22:00")
        home.loop("hall").run("Hello there.")
        assert "now: Wednesday 2 December 2026, 10:00" in newest(home)
        home.memory.store.add_fact("bins", "go out tomorrow", scope="global")
        assert "tomorrow [3 December]" in home.before("When do the bins go out?", "2026-12-01 22:05")


@pytest.mark.parametrize("zone", ["Europe/Berlín", "../etc/passwd", "Nowhere", "x" * 400])
def test_a_zone_that_is_none_is_refused_at_the_start(tmp_path: Path, zone: str) -> None:
    """In one sentence that names the section and the zone."""
    (tmp_path / "edgemem.toml").write_text(f'[time]\nzone = "{zone}"\n')
    refusal(ConfigError, edgemem.open, tmp_path, match=r"\[time\]: there is no time zone", worker=False)


@pytest.mark.parametrize(
    "question",
    [
        "What is on the 31st of February?", "What's on 1 January 9999?", "Was ist am 99. Dezember 99999?",
        " ".join(f"{n % 31 + 1}.{n % 12 + 1}.2026" for n in range(300)) + " what is the lamp like?" * 400,
    ],
)  # fmt: skip
def test_what_cannot_be_read_as_a_time_blocks_no_turn(home: Home, question: str) -> None:
    """It is searched by its words, however long it is."""
    home.tell("the lamp is red", "2026-11-20 10:00")
    loop: Callable[[str], object] = home.loop("asked").run
    loop(question)
    assert home.loop("asked").hooks.failures() == []


@pytest.mark.parametrize(
    ("told", "asked", "today", "line"),
    [
        ("The plumber is coming on Tuesday.", "When is the plumber coming?", "Sunday 13 December 2026", "ann 11 Dec: The plumber is coming on Tuesday [15 December]."),
        ("Am Dienstag kommt der Klempner.", "Wann kommt der Klempner?", "Sonntag, 13. Dezember 2026", "ann 11. Dezember: Am Dienstag [15. Dezember] kommt der Klempner."),
        ("El fontanero viene el martes.", "¿Cuándo viene el fontanero?", "domingo 13 de diciembre de 2026", "ann 11 de diciembre: El fontanero viene el martes [15 de diciembre]."),
        ("Thợ sửa ống nước đến thứ ba.", "Khi nào thợ sửa ống nước đến?", "chủ nhật, 13 tháng 12 năm 2026", "ann 11 tháng 12: Thợ sửa ống nước đến thứ ba [15 tháng 12]."),
        ("水管工星期二来。", "水管工什么时候来？", "2026年12月13日星期日", "ann 12月11日: 水管工星期二 (12月15日)来。"),
    ],
)  # fmt: skip
def test_days_are_told_in_the_language_that_is_spoken(
    home: Home, told: str, asked: str, today: str, line: str
) -> None:
    """What day it is, the day when something was said, and the day that its words mean."""
    home.tell(told, "2026-12-11 13:30")
    home.now = at("2026-12-13 15:10")
    home.memory.idle(5)
    block = block_before(home.memory, asked, "ann")
    assert f"now: {today}, 15:10" in block
    assert line in block


def test_days_of_facts_and_of_answers_of_tools_are_told_so_too(home: Home) -> None:
    """Of a value that is too short to tell its language, in the one that the conversation is in."""
    home.now = at("2026-12-11 13:30")
    home.memory.store.add_fact("Bohrmaschine", "Garage", heard=Heard("ben"))
    assert "Bohrmaschine: Garage (ben 11. Dezember)" in home.before(
        "Wo ist die Bohrmaschine?", "2026-12-13 15:10"
    )
    recall = tool_named(home.memory.tools(), "recall_fact")
    answer = recall.run(ToolTurn("Wo ist die Bohrmaschine?", Reader("ann")), key="Bohrmaschine")
    assert str(answer).splitlines()[0] == "- Bohrmaschine: Garage [said by ben, 11. Dezember]"
