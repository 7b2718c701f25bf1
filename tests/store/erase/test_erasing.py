"""Erased is gone: also where it was shown, in histories of others, in copies of tools, and an episode by its id everywhere."""

import json
from pathlib import Path
from typing import Any

import pytest

import edgemem
from edgemem.aio import GoalState, ToolEvent
from edgemem.fence import clean
from edgemem.loop.loop import AgentLoop
from edgemem.memory import Memory
from edgemem.records import (
    BlockLine,
    Epoch,
    Heard,
    Procedure,
    ProcedureStep,
    Reader,
    Reply,
    StoredMessage,
    ToolCall,
    Turn,
)
from edgemem.session.tools import ToolTurn
from edgemem.store import fact_queries, turns
from edgemem.store.db.database import Database
from edgemem.store.erase.copies import ERASED, Erased, summary_without, without_copies
from edgemem.store.erase.delete_rows import erase_blocks
from edgemem.store.turns import append_epoch, commit_turn, latest_epoch, read_turns
from support.cli import json_of, refused, run
from support.homes import files_with
from support.loops import Robot, tool_named
from support.models import Listener

ANN, BO = Heard(speaker="Ann"), Heard(speaker="Bo")


def say(memory, text, heard, shown=(), block=""):
    n = turns.last_number(memory.diagnostics.database, "hall") + 1
    turn = Turn("hall", n, (StoredMessage("user", text),), "complete", block, shown, heard=heard)
    memory.diagnostics.database.write(lambda tx: turns.commit_turn(tx, turn))


def test_a_forgotten_person_leaves_no_byte_and_others_stay(memory):
    """What somebody said or owns is erased everywhere; what others said, and when it was true, stays."""
    store = memory.store
    store.add_fact("door", "ochre", valid_from=100.0, heard=BO)
    store.add_fact("door", "vermilion", valid_from=200.0, valid_to=300.0, heard=ANN)
    store.add_fact("cat", "Mistigri", heard=ANN)
    store.add_fact("pin", "4711-zebra", scope="user:Ann")
    store.set_preference("music", "bagpipes", scope="user:Ann")
    store.add_episode("tool_call", {"name": "light", "result": "xylophone"}, "ok", heard=ANN)
    store.add_episode("tool_call", {"name": "light", "result": "trombone"}, "ok", heard=BO)
    say(memory, "the canoe is in the shed", ANN)
    say(memory, "the bicycle is in the hall", BO)
    memory.idle(5)
    assert memory.forget(person="Ann").erased == {"facts": 3, "preferences": 1, "episodes": 1, "turns": 1}
    for word in ("vermilion", "Mistigri", "zebra", "bagpipes", "xylophone", "canoe", "Ann"):
        assert files_with(memory.home, word) == [], word
    assert [f.value for f in fact_queries.facts_as_of(memory.diagnostics.database, 150.0)] == ["ochre"]
    assert fact_queries.facts_as_of(memory.diagnostics.database, 250.0) == []
    assert [f.value for f in fact_queries.facts_as_of(memory.diagnostics.database, 350.0)] == ["ochre"]
    store.add_fact("door", "teal", valid_from=250.0)
    assert [f.value for f in fact_queries.facts_as_of(memory.diagnostics.database, 260.0)] == ["teal"]
    assert [e.payload["result"] for e in store.recent_episodes()] == ["trombone"]
    (turn,) = turns.read_turns(memory.diagnostics.database, "hall")
    assert turn.messages[0].content == "the bicycle is in the hall"
    assert memory.forget(person="Ann").erased == {}
    say(memory, "the bicycle again", BO)
    assert memory.recall("bicycle")


def test_a_forgotten_person_takes_their_last_conversation_along(memory):
    """A conversation in which nobody else spoke is erased as a whole."""
    say(memory, "only me", ANN)
    assert memory.forget(person="Ann").erased == {"turns": 1}
    assert memory.sessions.list_ids() == []


@pytest.mark.parametrize("way", ["a person", "a session", "a turn"])
def test_what_was_lived_through_leaves_no_byte(memory, way):
    """Episodes, calls of tools, and what procedures were given go with a person, a session or a turn; the rest with the person."""
    users, store = memory.users, memory.store
    users.save_message("Ann", "hall", "user", "fetch the zebra-1")
    lived = {"session": "hall", "turn": 0, "heard": ANN}
    store.add_episode("task", {"of": "zebra-2"}, "failure", summary="zebra-3", tags=["zebra-4"], **lived)
    users.save_tool_event("Ann", ToolEvent("hall", "drive", {"to": "zebra-5"}, {"error": "zebra-6"}))
    steps = (ProcedureStep("drive", {"to": "zebra-7"}),)
    memory.procedures.store(Procedure("fetch", "Fetch", "", "fetch it", steps, **lived))
    words = {f"zebra-{n}" for n in range(1, 8)}
    if way == "a person":
        users.upsert_fact("Ann", "place", {"street": "zebra-8"}, topic_id="hall")
        users.save_goal("Ann", GoalState("hall", "zebra-9", plan={"next": "zebra-10"}))
        users.save_phase_state("Ann", "zebra-11", "zebra-12")
        users.save_session_state("Ann", "hall", "zebra-13", ["zebra-14"])
        users.save_summary("Ann", "hall", "zebra-15", 1)
        memory.bank.for_person("Ann", "hall").write_file("plan.md", "zebra-16")
        own = {"owner": "Ann", "level": "private"}
        memory.procedures.store(Procedure("own", "zebra-17", "", "zebra-18", steps, **own))
        words |= {f"zebra-{n}" for n in range(8, 19)}
    memory.idle(5)
    assert {word for word in words if files_with(memory.home, word)} == words
    if way == "a turn":
        assert users.delete_messages_before("Ann", "hall", keep_last=0) == 1
    else:
        assert memory.forget(**{"a person": {"person": "Ann"}, "a session": {"session": "hall"}}[way])
    assert {word for word in words if files_with(memory.home, word)} == set()
    assert memory.procedures.get("fetch").steps[0].tool_name == "drive"
    assert memory.procedures.get("own") is None


def test_forgetting_a_person_tells_where_the_name_still_stands(memory):
    """What others said of somebody, and notes, stay and are listed; parts of other words are not the name."""
    memory.store.add_fact("Ann.birthday", "in May", heard=BO)
    memory.store.add_fact("fruit", "bananna", heard=BO)
    memory.notes.append("Ann likes tea")
    say(memory, "did ANN call?", BO)
    say(memory, "I am Ann", ANN)
    forgotten = memory.forget(person="Ann")
    assert forgotten.erased == {"turns": 1}
    told = [(m.kind, m.where, m.by) for m in forgotten.mentions.quoted if m.kind != "note"]
    assert told == [("fact", "global", "Bo"), ("turn", "hall 0", "Bo")]
    (note,) = [m for m in forgotten.mentions.quoted if m.kind == "note"]
    assert "Ann likes tea" in note.text
    assert forgotten.mentions.count == 3
    assert memory.notes.read().count("Ann likes tea") == 1


DOOR = ("hall", "door")


def show(truth: Database, *lines: BlockLine) -> Turn:
    """Write lines as what a turn showed, and as what an epoch carries; return the turn as it is read."""
    entries = tuple(line.entry for line in lines)
    said = (StoredMessage("user", "hello"),)
    truth.write(lambda tx: commit_turn(tx, Turn("k", 0, said, block="<memory>x</memory>", shown=entries)))
    truth.write(lambda tx: append_epoch(tx, Epoch("k", 0, carried=entries)))
    return read_turns(truth, "k")[0]


@pytest.mark.parametrize(
    "line",
    [
        BlockLine("fact:7", "", fact=DOOR, value="oak"),
        BlockLine("changed:fact:7:1", "- door: now oak", "private", "ann", DOOR, "oak"),
        BlockLine("fact:7/past", "", fact=DOOR), BlockLine("doubt:7:0", "", fact=DOOR, value="oats"),
        BlockLine("preference:7", "", preference=DOOR, value="oak"), BlockLine("episode:41", ""),
        BlockLine("episode:41", "", "private", "ann"), BlockLine("turn:42", ""),
        BlockLine("turn:42/part", ""), BlockLine('{"id": "fact:7", "fact": ["hall", "door"', ""),
    ],
    ids=lambda line: line.entry,
)  # fmt: skip
def test_a_block_and_a_head_go_with_what_they_showed(truth: Database, line: BlockLine) -> None:
    """However the line tells of it, and where nobody can read what it tells of; the turn itself stays."""
    other = BlockLine("note:tea", "")
    show(truth, other, line)
    truth.write(lambda tx: erase_blocks(tx, [DOOR, ("episode", 41), ("turn", 42)]))
    (turn,) = read_turns(truth, "k")
    assert (turn.block, turn.shown, turn.messages[0].content) == ("", (), "hello")
    assert latest_epoch(truth, "k") == Epoch("k", 0, id=truth.query("select id from epochs")[0][0])


@pytest.mark.parametrize(
    "line",
    [
        BlockLine("fact:7", "", fact=("hall", "doors"), value='["hall","door"]'),
        BlockLine("fact:42", "", fact=("cellar", "door"), value="turn:42"), BlockLine("turn:420", ""),
        BlockLine("turn:4", ""), BlockLine("fact:41", ""), BlockLine("interrupted:42", ""),
    ],
    ids=lambda line: line.entry,
)  # fmt: skip
def test_what_only_reads_like_it_stays(truth: Database, line: BlockLine) -> None:
    """Another key with the same words in its value, and another id with the same digits."""
    before = show(truth, line), latest_epoch(truth, "k")
    truth.write(lambda tx: erase_blocks(tx, [DOOR, ("episode", 41), ("turn", 42)]))
    assert (read_turns(truth, "k")[0], latest_epoch(truth, "k")) == before


def test_a_damaged_list_of_lines_goes_with_any_forgetting(truth: Database) -> None:
    """Where nobody can read what was shown it may be anything, and does not keep a forgetting from its end."""
    show(truth, BlockLine("note:tea", ""))
    truth.write(lambda tx: tx.execute("update turns set shown = '[1,'"))
    truth.write(lambda tx: erase_blocks(tx, [DOOR]))
    assert truth.query("select block, shown from turns") == [(None, None)]


STEM = "quixot"  # what files hold of the word in the episode that is forgotten; the index has its stem
LOST, WON = {"name": "game", "result": "lost to quixotry"}, {"name": "game", "result": "won the marathon"}
BEN = Heard(speaker="Ben")


@pytest.fixture
def lived(memory):
    for payload in (LOST, WON):
        memory.store.add_episode("tool_call", payload, "ok", heard=BEN)
    assert memory.idle(30)
    return memory


def test_it_is_erased_from_the_index_blocks_tool_results_and_backups(lived):
    """What a block or the memory's own tool repeated of it is gone from every file of the home, and it is not recalled."""
    lost = next(each for each in lived.store.recent_episodes() if each.payload == LOST)
    robot = Robot(lived)
    told = robot.answer("Search for the game.", "search_memory", query="game", speaker="Ann")
    assert [part for part in ("quixotry", f"[episode:{lost.id}]") if part not in told] == []
    assert lived.idle(30)
    lived.diagnostics.backups.make()
    assert len(files_with(lived.home, STEM)) > 2
    assert lived.forget(episode=lost.id).erased == {"episodes": 1}
    assert files_with(lived.home, STEM) == []
    assert not any("quixotry" in item.text for item in lived.recall("quixotry game"))
    assert any("marathon" in item.text for item in lived.recall("marathon game"))
    assert not lived.forget(episode=lost.id)


def test_the_tool_forgets_an_episode_by_the_name_that_it_was_found_under(lived):
    """After a yes; what the answers quote is stored nowhere."""
    lost = next(each for each in lived.store.recent_episodes() if each.payload == LOST)
    robot = Robot(lived)
    name = f"episode:{lost.id}"
    assert "Not erased yet" in robot.answer("About the game", "forget_fact", key=name, speaker="Ann")
    assert "the user said no" in robot.answer("No", "forget_fact", key=name, speaker="Ann")
    assert "NOT to forget" in robot.answer("Don't forget the game", "forget_fact", key=name, speaker="Ann")
    assert "Not erased yet" in robot.answer("Forget the game", "forget_fact", key=name, speaker="Ann")
    neither = robot.answer("What time is it?", "forget_fact", key=name, speaker="Ann")
    assert f"`edgemem forget --episode {lost.id}`" in neither
    assert lived.store.get_episode(lost.id) is not None
    assert "Not erased yet" in robot.answer("Forget the game", "forget_fact", key=name, speaker="Ann")
    told = robot.answer("Yes", "forget_fact", key=f"[{name}]", speaker="Ann")
    assert told.startswith("Forgotten; erased from this device within moments.")
    assert "quixotry" in told
    assert lived.store.get_episode(lost.id) is None
    assert lived.idle(30)
    assert files_with(lived.home, STEM) == []


def test_the_tool_forgets_nothing_that_the_speaker_may_not_erase(lived):
    """What somebody else owns is not even named, and an unknown voice erases nothing that a known one caused."""
    lived.store.add_episode("note", {"said": "secret"}, "ok", heard=BEN, level="private", owner="Ben")
    lived.store.add_episode("note", {"said": "open"}, "ok", heard=BEN, level="shared")
    secret, open_ = lived.store.recent_episodes(2)
    forget = tool_named(lived.tools(), "forget_fact")

    def asked(speaker: str | None, episode_id: str) -> Any:
        turn = ToolTurn("forget it please", Reader(speaker))
        return forget.run(turn, key=f"episode:{episode_id}")

    assert "there is no episode" in asked("Ann", secret.id)
    assert "there is no episode" in asked("Ann", "7")
    assert "Refused" in asked(None, open_.id)
    assert len(lived.store.recent_episodes(9)) == 4
    assert lived.store.get_episode(secret.id, reader=Reader("Ben")) == secret


def test_the_command_forgets_the_episode_whose_id_recall_tells(lived):
    """The id stands behind what recall found; the episode is quoted, and one that is none is refused with a sentence."""
    home = lived.home
    lost = next(each for each in lived.store.recent_episodes() if each.payload == LOST)
    lived.close()
    assert f"episode {lost.id}" in run("recall", "quixotry", "--home", home).output
    asked = run("forget", "--episode", lost.id, "--home", home, input="n\n")
    assert asked.exit_code == 1
    assert "quixotry" in asked.output
    done = json_of("forget", "--episode", lost.id, "--yes", "--home", home)
    assert done == {"episode": lost.id, "pending": {}}
    assert files_with(lived.home, STEM) == []
    assert "no episode" in refused(run("forget", "--episode", lost.id, "--yes", "--home", home))


SECRET, SAID = "TOOLX77", 'say "hi"\nnow'


class Model(Listener):
    def calls(self, name: str, **arguments: Any) -> None:
        self.replies = [Reply("", (ToolCall(name, arguments),), tokens=(7, 8, 9)), Reply("ok", tokens=(1, 2))]


def _remembered(memory: Memory) -> tuple[AgentLoop, Model]:
    model = Model()
    loop = AgentLoop(model, hooks=memory.hooks(session_id="k"), tools=memory.tools())
    for name, arguments in (
        ("remember_fact", {"key": "pin", "value": "OLDER" + SECRET}),
        ("remember_fact", {"key": "pin", "value": SECRET}),
        ("recall_fact", {"key": "pin"}),
        ("list_facts", {}),
        ("search_memory", {"query": f"pin {SECRET}"}),
    ):
        model.calls(name, **arguments)
        loop.run("my pin, please", speaker="alice")
    return loop, model


@pytest.mark.parametrize("way", ["tool", "command line"])
def test_a_forgotten_value_is_in_no_file(tmp_path: Path, way: str) -> None:
    """What the tools were told and answered is erased, however one forgets, also where the loop goes on talking."""
    home = tmp_path / "home"
    with edgemem.open(home, worker=False) as memory:
        loop, model = _remembered(memory)
        assert "memory.db" in "".join(files_with(home, SECRET))
        if way == "tool":
            for say in ("forget my pin", "yes"):
                model.calls("forget_fact", key="pin")
                result = loop.run(say, speaker="alice")
            assert SECRET in result.tools[0].result  # whoever asked hears it once
            loop.run("thanks", speaker="alice")
            memory.idle(5)
            memory.diagnostics.database.checkpoint()
            assert files_with(home, SECRET) == []
            said = memory.sessions.load("k")
            assert sum(ERASED in json.dumps(message) for message in said.messages) >= 6
            assert "my pin, please" in json.dumps(said.messages)
    if way == "command line":
        ran = run("facts", "forget", "alice.pin", "--yes", "--home", home)
        assert ran.exit_code == 0, ran.output
    assert files_with(home, SECRET) == []


def test_the_ids_of_an_erased_call_go_with_it(memory: Memory) -> None:
    """The ids that the model generated for a call would spell the value out."""
    _remembered(memory)
    memory.forget("alice.pin", scope="household")
    calls = "select tokens, extra from messages where extra like '%tool_calls%'"
    rows = memory.diagnostics.database.query(calls)
    assert [tokens for tokens, extra in rows if "remember_fact" in extra] == [None, None]
    assert any(tokens for tokens, extra in rows if "list_facts" in extra)


def test_what_a_person_said_stays(memory: Memory) -> None:
    """A turn in a person's own words is theirs to be forgotten, and no copy of ours; so is another tool's result."""
    loop, model = _remembered(memory)
    model.calls("open_door", pin=SECRET)
    loop.run(f"my pin is {SECRET}", speaker="alice")
    memory.forget("alice.pin", scope="household")
    said = memory.sessions.load("k")
    left = [message for message in said.messages if SECRET in json.dumps(message)]
    assert [message["role"] for message in left] == ["user", "assistant"]


def test_a_summary_does_not_bring_it_back(memory: Memory) -> None:
    """Lines of the memory's tools leave stored summaries, and those that a running conversation still makes."""
    summary = f"Alice: Good morning.\nremember_fact -> Remembered: alice.pin: {SECRET}.\nlights -> on"
    _remembered(memory)
    memory.diagnostics.database.write(lambda tx: append_epoch(tx, Epoch("k", 1, summary)))
    memory.forget("alice.pin", scope="household")
    kept = memory.diagnostics.database.query("select summary from epochs where first_turn = 1")
    assert kept == [("Alice: Good morning.\nlights -> on",)]
    gone = [Erased.with_values("household", "pin", [SECRET])]
    assert summary_without(summary, gone) == "Alice: Good morning.\nlights -> on"


@pytest.mark.parametrize(
    ("value", "arguments", "content"),
    [
        ("milk, eggs", {"key": "list", "value": ["milk", "eggs"]}, "Remembered: list: milk, eggs."),
        ("4711", {"key": "list", "value": 4711}, "- list: 4711 (household)"),
        ("5", {"key": "list", "value": "5"}, "Remembered: list: 5."),
        (SAID, {"key": "list", "value": SAID}, "Remembered: list: " + clean(SAID, max_chars=50)),
        ("word " * 200, {"key": "list", "value": "word " * 200}, f"Remembered: list: {'word ' * 90}wo…"),
    ],
)
def test_values_are_found_as_tools_write_them(value: str, arguments: dict[str, Any], content: str) -> None:
    """Lists, numbers, short, quoted, broken and cut values are found in calls and in results."""
    function = {"name": "remember_fact", "arguments": json.dumps(arguments)}
    calls = {"tool_calls": [{"id": "c", "type": "function", "function": function}]}
    said = [StoredMessage("assistant", None, calls), StoredMessage("tool", content, {"tool_call_id": "c"})]
    call, result = without_copies(said, [Erased.with_values("global", "list", [value])])
    left = json.loads(call.extra["tool_calls"][0]["function"]["arguments"])
    assert left == {"key": "list", "value": ERASED}
    assert value.split(maxsplit=1)[0] not in (result.content or "")
    assert "list" in (result.content or "")


def test_other_results_keep_their_words() -> None:
    """A short value is no reason to touch what is told of something else, nor is a part of a word."""
    gone = [Erased.with_values("global", "sugar", ["no"]), Erased.with_values("global", "tea", ["black"])]
    said = [
        StoredMessage("tool", "- coriander: no", {"name": "recall_fact"}),
        StoredMessage("tool", "- berry: blackberry", {"name": "recall_fact"}),
        StoredMessage("tool", "tea: black", {"name": "kettle"}),
    ]
    assert all(after is before for before, after in zip(said, without_copies(said, gone), strict=True))
