"""Carried values: what memory told goes on standing in the prompt when the turns that told it leave."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import edgemem
from edgemem import AgentLoop
from edgemem.context.block.delta import carried_by, carrying
from edgemem.records import BlockLine, Heard, ToolCall
from edgemem.store.turns import latest_epoch
from support.cli import run
from support.homes import BY_WORDS
from support.loops import Household

SMALL = """
[context]
window_tokens = 1000
reply_tokens = 100
summary_tokens = 120
block_tokens = 80
"""
CHATTER = (
    "Please tell me a long and friendly story about a tortoise that looks for lettuce in the garden, and meets a snail"
    " there who knows of a better place behind the greenhouse where nobody has looked for lettuce since spring."
)


class Robot(Household):
    """A robot whose window is small."""

    def __init__(self, home: Path, more: str = SMALL) -> None:
        super().__init__(home, more, session="k")

    def tell(self, text: str, *replies: ToolCall, speaker: str = "mara") -> str:
        """Return the whole prompt that an utterance makes at last."""
        self.hear(text, *replies, speaker=speaker)
        return "\n".join(str(message["content"]) for message in self.model.handed[-1])

    def chat(self, *, idle: bool = True) -> None:
        """Talk until what was said first has left the prompt."""
        first = str(self.loop.ctx.session.messages[0]["content"])
        for n in range(60):
            if idle:
                self.memory.idle(5)
            if n and first not in self.tell(f"{CHATTER} {n}"):
                return
        raise AssertionError("nothing was compacted")


@pytest.fixture
def robot(tmp_path: Path) -> Iterator[Robot]:
    """Return a robot that has told a password once, and has talked of other things since."""
    robot = Robot(tmp_path / "home")
    robot.memory.store.add_fact("wifi.password", "tulip99")
    assert "tulip99" in robot.tell("What is the wifi password?")
    yield robot
    robot.memory.close()


def block_of(robot: Robot) -> str:
    return str(robot.query("select coalesce(block, '') from turns order by n desc limit 1")[0][0])


@pytest.mark.parametrize("idle", [True, False])
def test_what_was_told_stays_in_the_prompt(robot: Robot, idle: bool) -> None:
    """It stands in the head of each new epoch, written in idle time or at once, is not told again, and outlasts a restart."""
    robot.chat(idle=idle)
    prompt = robot.tell("What is the wifi password?")
    assert prompt.count("tulip99") == 1
    assert prompt.index("tulip99") < prompt.index(CHATTER)
    assert "tulip99" not in block_of(robot)
    for _ in range(15):
        robot.memory.idle(5)
        robot.tell(CHATTER)
    assert robot.query("select count(*) from epochs")[0][0] >= 3
    assert robot.tell("What is the wifi password?").count("tulip99") == 1
    assert "tulip99" not in block_of(robot)
    before = robot.model.handed[-1]
    robot.restart()
    robot.tell("Good morning.")
    assert robot.model.handed[-1][: len(before)] == before


def test_a_stranger_is_not_shown_it_and_what_is_private_is_not_carried(robot: Robot) -> None:
    """The head is the household's; what is private is told again to whom it belongs."""
    robot.memory.store.add_fact("plant.name", "Berta")
    robot.memory.store.add_fact("diary.place", "cellar77", level="private", owner="mara")
    assert "cellar77" in robot.tell("Where is the diary place?")
    robot.chat()
    assert "cellar77" not in str(robot.query("select carried from epochs"))
    assert "tulip99" not in robot.tell("Hello.", speaker="")
    assert "tulip99" in robot.tell("Hello.")
    assert "cellar77" in robot.tell("Where is the diary place?")


def test_the_value_that_holds_is_carried(robot: Robot) -> None:
    """What changed since it was told stands there as it is now; a change within an epoch is told by the next turn."""
    robot.memory.store.add_fact("wifi.password", "rose42")
    robot.chat()
    prompt = robot.tell("What is the wifi password?")
    assert "wifi.password: rose42" in prompt
    assert "rose42" not in block_of(robot)
    robot.memory.store.add_fact("wifi.password", "lily31")
    assert "now lily31 (before: rose42)" in robot.tell("Hello.")


def test_what_is_forgotten_leaves_the_file(robot: Robot) -> None:
    """At once; the model, which has seen it, is told that it is gone."""
    robot.chat()
    assert "tulip99" in robot.query("select carried from epochs order by id desc")[0][0]
    assert robot.memory.forget("wifi.password")
    assert robot.query("select count(*) from epochs where carried is not null") == [(0,)]
    assert "no longer known" in robot.tell("Hello.")
    robot.restart()
    assert "tulip99" not in robot.tell("Hello.")
    assert not in_file(robot)


@pytest.mark.parametrize("how", ["fact", "person"])
def test_what_is_forgotten_before_the_epoch_begins_is_never_written(robot: Robot, how: str) -> None:
    """An epoch that waits to begin loses its values with any forgetting."""
    robot.memory.store.add_fact("car.key", "hook5", heard=Heard(speaker="mara"))
    robot.tell("Where is the car key?", speaker="tom")
    hook = prepare_an_epoch(robot, speaker="tom")
    assert "hook5" in str(hook.prepared.carried)
    if how == "fact":
        robot.memory.forget("car.key")
    else:
        robot.memory.forget(person="mara")
    robot.tell(CHATTER, speaker="tom")
    assert hook.prepared is None
    written = robot.query("select carried, summary from epochs order by id desc limit 1")
    assert "hook5" not in str(written)
    assert "hook5" not in str(robot.model.handed[-1])


def test_other_instructions_bring_nothing_back(robot: Robot) -> None:
    """They begin an epoch of their own, which is written once more: without what was forgotten since, told anew where it holds."""
    robot.memory.store.add_fact("door.code", "code31")
    robot.tell("What is the door code?")
    robot.chat()
    robot.memory.forget("wifi.password")
    robot.tell("Hello.")
    robot.loop.instructions = "You are Pop."
    robot.tell("Hello.")
    written = robot.query("select reason, summary, carried from epochs order by id desc limit 1")
    assert written[0][0] == "instructions"
    assert "tulip99" not in str(written)
    assert "code31" in robot.tell("What is the door code?")


def test_a_reply_is_as_closed_as_what_is_carried(tmp_path: Path) -> None:
    """Where turns are shared with everybody, one that might repeat a value of the household is the household's."""
    robot = Robot(tmp_path / "home", SMALL + '[memory]\ndefault_level = "shared"\n')
    levels = "select answer from turns order by n desc limit 1"
    robot.memory.store.add_fact("wifi.password", "tulip99", level="household")
    robot.tell("Good morning, robot.")
    assert robot.query(levels) == [(0,)]
    robot.tell("What is the wifi password?")
    assert robot.query(levels) == [(1,)]
    robot.chat()
    robot.tell("Hello.")
    assert robot.query(levels) == [(1,)]
    robot.memory.close()


def test_an_export_carries_them_too(robot: Robot, tmp_path: Path) -> None:
    """The prompt of a conversation that was carried away goes on as it did."""
    robot.chat()
    lines = list(robot.memory.export())
    assert any('"carried"' in line for line in lines)
    with edgemem.open(tmp_path / "other", profile=BY_WORDS, worker=False) as other:
        other.import_lines(line.encode() for line in lines)
        taken, here = (latest_epoch(each.diagnostics.database, "k") for each in (other, robot.memory))
        assert taken is not None is not here
        assert (taken.carried, taken.summary) == (here.carried, here.summary)
        assert list(other.export()) == lines


def fact(key: str, value: str, **more: Any) -> BlockLine:
    return BlockLine(f"fact:{key}", f"- {key}: {value}", fact=("global", key), value=value, **more)


def forget_elsewhere(robot: Robot) -> None:
    with edgemem.open(robot.home, worker=False) as other:
        assert other.forget("wifi.password")


def prepare_an_epoch(robot: Robot, *, speaker: str = "mara") -> Any:
    """Talk until the next epoch is written and waits to begin; return what makes it."""
    (hook,) = robot.memory.diagnostics.in_use.compactions
    while not hook.due():
        robot.tell(CHATTER, speaker=speaker)
    robot.memory.idle(5)
    assert hook.prepared is not None
    return hook


def in_file(robot: Robot) -> bool:
    return b"tulip99" in b"".join(path.read_bytes() for path in (robot.home / "db").glob("memory.db*"))


@pytest.mark.parametrize("elsewhere", [True, False])
def test_an_abort_does_not_save_what_is_forgotten(robot: Robot, elsewhere: bool) -> None:
    """The epoch begins in a turn that is aborted, and is written with the next one: without what was forgotten in between."""
    prepare_an_epoch(robot)
    robot.loop.prepare("Hello there.", speaker="mara")
    robot.loop.abort()
    if elsewhere:
        forget_elsewhere(robot)
    else:
        assert robot.memory.forget("wifi.password")
    assert "no longer known" in robot.tell("Good evening.")
    assert not in_file(robot)
    robot.restart()
    assert "tulip99" not in robot.tell("Hello again.")


def test_two_epochs_in_one_turn_keep_nothing_that_is_forgotten_meanwhile(robot: Robot) -> None:
    """One was prepared, and the instructions change too; another process forgets before the turn is written."""
    prepare_an_epoch(robot)
    robot.loop.instructions = "You are Pop."
    robot.loop.prepare("Hello there.", speaker="mara")
    forget_elsewhere(robot)
    robot.loop.commit()
    robot.memory.diagnostics.database.flush()
    reasons = ["begin", "high water", "instructions"]
    assert [reason for (reason,) in robot.query("select reason from epochs order by id")] == reasons
    assert not in_file(robot)


@pytest.mark.parametrize("when", ["told", "prepared", "instructions", "next epoch"])
def test_a_summary_repeats_no_tool_once_another_process_has_forgotten(tmp_path: Path, when: str) -> None:
    """Nobody here knows what was forgotten, so all that the memory's tools answered goes."""
    robot = Robot(tmp_path / "home")
    robot.memory.store.add_fact("wifi.password", "tulip99")
    tools = robot.memory.tools(include=["recall_fact"])
    robot.loop = AgentLoop(robot.model, hooks=robot.loop.hooks, instructions="You are Pip.", tools=tools)
    assert "tulip99" in robot.tell("Look up.", ToolCall("recall_fact", {"key": "wifi.password"}, "c1"))
    if when == "prepared":
        assert "tulip99" in prepare_an_epoch(robot).prepared.summary
    elif when != "told":
        robot.chat()
        assert "tulip99" in robot.query("select summary from epochs order by id desc")[0][0]
    forget_elsewhere(robot)
    assert not in_file(robot)
    if when == "instructions":
        robot.loop.instructions = "You are Pop."
    elif when in ("told", "next epoch"):
        prepare_an_epoch(robot)
    robot.tell("Hello.")
    assert not in_file(robot)
    robot.memory.close()


def test_a_line_is_as_closed_as_what_holds_now(tmp_path: Path) -> None:
    """A fact that was the household's and is somebody's own by now is told to that person in a private answer."""
    robot = Robot(tmp_path / "home")
    robot.memory.store.add_fact("diary.place", "cellar")
    robot.tell("Where is the diary place?")
    robot.memory.store.add_fact("diary.place", "attic77", level="private", owner="mara")
    assert "attic77" in robot.tell("Where is the diary place?")
    assert robot.query("select answer from turns order by n desc limit 1") == [(2,)]
    assert "attic77" not in robot.tell("Hello.", speaker="tom")
    robot.memory.close()


def test_no_id_holds_a_value(robot: Robot) -> None:
    """What is forgotten is found by the key that a line tells of; an id with a value in it would be written on and on."""
    values = [f"secret{n}" for n in range(5)]
    for value in values:
        robot.memory.store.add_fact("wifi.password", value)
        assert value in robot.tell(f"Hello, {value[-1]}.")
    stored = str(robot.query("select shown from turns where shown is not null"))
    assert not any(f":{value}" in stored for value in values)
    assert stored.count("changed:fact:") == 5
    assert "changed:changed" not in stored


def test_nonsense_in_an_export_does_not_end_a_conversation(robot: Robot, tmp_path: Path) -> None:
    """What cannot be read, is private, or is no fact, is not shown; the talk goes on."""
    robot.chat()
    mine = msgspec.json.encode(fact("diary", "cellar77", level="private", owner="mara")).decode()
    lines = []
    for line in robot.memory.export():
        record = msgspec.json.decode(line)
        if "carried" in record:
            record["carried"] += ["no json", '{"id": "fact:1"}', mine]
        lines.append(msgspec.json.encode(record))
    other = Robot(tmp_path / "other")
    other.memory.import_lines(lines)
    other.restart()
    prompt = other.tell("Hello.", speaker="tom")
    assert "tulip99" in prompt
    assert "cellar77" not in prompt
    other.memory.close()


def test_what_is_forgotten_in_another_file_than_the_session_s_is_not_shown_once_more(robot: Robot) -> None:
    """Where the facts are kept elsewhere, they are asked once more before an epoch begins."""
    hook = prepare_an_epoch(robot)
    hook.prepared = carrying(hook.prepared, [*carried_by(hook.prepared), fact("gone", "tulip77")])
    assert "tulip77" not in robot.tell("Hello.")
    assert "tulip99" in robot.tell("Hello.")


def test_a_look_at_the_prompt_says_where_it_stands(robot: Robot) -> None:
    """`inspect prompt` names the beginning of the prompt, since no turn in it tells the value any more."""
    robot.chat()
    asked = "What is the wifi password?"
    args = ["inspect", "prompt", asked, "--session", "k", "--speaker", "mara", "--home", str(robot.home)]
    args += ["--no-tools", "--instructions", "You are Pip."]
    shown = run(*args, "--json")
    assert shown.exit_code == 0, shown.stderr
    (left,) = [item for item in json.loads(shown.stdout)["left_out"] if "tulip99" in item["text"]]
    assert left["left_out"] == "before the model already, at the head of the prompt"
    assert "at the head of the prompt" in run(*args, "--whole").stdout
