"""The two levels of a turn: what was said keeps its own, and all else is as private as the most private of what was told before."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edgemem import AgentLoop, JSONSessionStore
from edgemem.context.prompt import CLOSED
from edgemem.hooks import EpisodeLoggerHook, PersistSessionHook
from edgemem.records import Heard, Reader, Reply, StoredMessage, ToolCall, Turn
from edgemem.session.tools import Tool
from edgemem.store.sessions import SQLiteSessionStore
from edgemem.store.turns import latest_epoch, read_turns
from support.homes import opened
from support.loops import Household
from support.models import Model

pytestmark = pytest.mark.usefixtures("patient")

PIN = "The PIN of my diary is 4711."
WIFI = "The wifi at the cabin is called Kirschbaum, its password is plum17harbour."
MINE, AS_USUAL = ("household", "private"), ("household", "household")
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}
KEEP = ToolCall("remember_fact", {"key": "pin", "value": "mine", "scope": "me"})


class Robot(Household):
    """A robot with all tools, and what is stored of its turns."""

    def __init__(self, home: Path, *, tools: Sequence[Tool] = (), more: str = "") -> None:
        self.own = tools
        super().__init__(home, f'[bank]\nbackend = "files"\n{more}')

    def agent(self, session: str) -> AgentLoop:
        self.tools = [*self.memory.tools(), *self.own]
        return AgentLoop(self.model, hooks=self.memory.hooks(session_id=session), tools=self.tools)

    def levels(self) -> list[tuple[str, str | None]]:
        return [(turn.level, turn.answer) for turn in self.memory.sessions.journal.read_turns("kitchen")]

    def finds(self, word: str, *, speaker: str = "bob") -> bool:
        found = self.memory.recall(f"{word} PIN wifi", speaker=speaker, k=20)
        return any(word in item.text for item in found)


@pytest.fixture
def robot(tmp_path: Path) -> Iterator[Robot]:
    with Robot(tmp_path / "home") as robot:
        yield robot


@pytest.mark.parametrize("reply", ["Okay, noted.", "I'll keep it in mind.", "It is 4711, and plum17harbour."])
def test_what_is_said_aloud_stays_so_whatever_the_robot_answers(robot: Robot, reply: str) -> None:
    """Behind a private turn the answer is the speaker's alone, and the household reads what was said, and one constant line."""
    robot.hear(PIN, "Noted. I'll keep it.", private=True)
    robot.hear(WIFI, reply)
    assert robot.levels() == [("private", "private"), MINE]
    prompt = robot.hear("What's the password at the cabin?", speaker="bob")
    assert [message["content"] for message in prompt[-3:-1]] == [WIFI, CLOSED]
    assert reply not in str(prompt)
    assert "4711" not in str(prompt)
    assert robot.finds("plum17harbour")
    assert not robot.finds(reply.split(maxsplit=1)[0].strip(".,"))
    exported = "\n".join(robot.memory.export(speaker="bob"))
    assert reply not in exported
    assert reply in str(robot.hear("And now?"))


def test_an_answer_is_as_private_as_what_memory_told_before_it(robot: Robot) -> None:
    """A private fact in the block, or that a tool looked up, closes the answer and never the utterance."""
    robot.memory.store.add_fact("diary.pin", "4711", scope="user:alice")
    robot.hear("What is the diary pin?", "It is 4711.")
    robot.loop = robot.agent("kitchen")
    assert robot.levels() == [MINE]
    assert "4711" not in str(robot.hear("What is the diary pin?", speaker="bob"))


@pytest.mark.parametrize("name", ["recall_fact", "list_facts", "search_memory", "forget_fact"])
def test_what_a_tool_was_told_closes_the_answer(robot: Robot, name: str) -> None:
    """Whatever tool of the memory tells something private."""
    robot.memory.store.add_fact("diary", "4711", scope="user:alice")
    given = {"search_memory": {"query": "diary"}, "list_facts": {}}.get(name, {"key": "diary"})
    robot.hear("Go on, then.", ToolCall(name, given), "Done.")
    assert robot.levels() == [MINE]


def test_a_listener_keeps_private_turns_out_and_so_the_answer_open(robot: Robot) -> None:
    """While somebody listens nothing private is told, so nothing is to be closed."""
    robot.hear(PIN, "I'll keep it.", private=True)
    robot.hear("What's for dinner?", "Soup.", audience=("bob",))
    assert robot.levels()[1] == AS_USUAL


def test_what_is_kept_for_the_speaker_alone_was_said_for_nobody_else(robot: Robot) -> None:
    """A tool that writes into the speaker's own memory closes the utterance, too."""
    call = ToolCall("remember_fact", {"key": "pin", "value": "4711", "scope": "me"})
    robot.hear(PIN, call, "Done.")
    robot.hear(WIFI, ToolCall("memory_write", {"path": "wifi.md", "content": "plum17harbour"}), "Done.")
    assert robot.levels() == [("private", "private")] * 2
    assert not robot.finds("4711")
    assert not robot.finds("plum17harbour")


@pytest.mark.parametrize(
    "second", [KEEP, ToolCall("recall_fact", {"key": "door.code"})], ids=["kept", "told"]
)
@pytest.mark.parametrize("at_once", [True, False], ids=["one message", "two"])
def test_an_episode_is_as_private_as_its_ended_turn(tmp_path: Path, second: ToolCall, at_once: bool) -> None:
    """A call that ran before the turn became private is found by its speaker alone."""
    given = {"type": "object", "properties": {"code": {"type": "string"}}}
    safe = Tool("safe", "Opens the safe.", given, lambda code: f"opened with {code}")
    with Robot(tmp_path / "home", tools=[safe]) as robot:
        robot.memory.store.add_fact("door.code", "nine nine", scope="user:alice")
        first = ToolCall("safe", {"code": "zqsecret"})
        calls = [(first, second)] if at_once else [(first,), (second,)]
        robot.model.answers = [*(Reply("", each) for each in calls), Reply("Done.")]
        robot.loop.run("Open my safe and keep that.", speaker="alice")
        robot.memory.idle(3)
        whose = {(episode.level, episode.owner) for episode in robot.memory.store.episodes()}
        assert whose == {("private", "alice")}
        assert "zqsecret" not in str(robot.hear("What did the safe open with?", speaker="bob"))
        assert not robot.finds("zqsecret")
        assert robot.finds("zqsecret", speaker="alice")
        assert "zqsecret" not in "\n".join(robot.memory.export(speaker="bob"))


def test_so_is_one_in_a_file_of_its_own(tmp_path: Path) -> None:
    """Where the store does not keep the session, episodes are written when the turn ends."""
    with opened(tmp_path / "one") as sessions, opened(tmp_path / "two") as facts:
        hooks = [PersistSessionHook(sessions.sessions, session_id="k"), EpisodeLoggerHook(facts.store)]
        facts.store.add_fact("door.code", "nine nine", scope="user:alice")
        safe = Tool("safe", "Opens.", NO_ARGUMENTS, lambda: "zqsecret")
        model = Model(Reply("", (ToolCall("safe", {}), ToolCall("recall_fact", {"key": "door.code"}))))
        AgentLoop(model, hooks=hooks, tools=[safe, *facts.tools()]).run("Open it.", speaker="alice")
        facts.diagnostics.database.flush()
        (episode,) = facts.store.episodes()
        assert (episode.level, episode.owner) == ("private", "alice")


def test_an_open_turn_is_its_speakers_alone(robot: Robot) -> None:
    """In every session and for whoever looks; the commit opens it."""
    database, said = robot.memory.diagnostics.database, (StoredMessage("user", WIFI),)
    turn = Turn("hall", 0, said, "open", owner="alice", heard=Heard("alice"))
    journal = robot.memory.sessions.journal
    accepted = journal.accept(turn)
    journal.settle()  # as whoever forgets something does
    assert robot.memory.idle(30)
    assert not robot.finds("plum17harbour")
    assert len(read_turns(database, "hall", reader=Reader("alice"))) == 1
    assert read_turns(database, "hall", reader=Reader("bob")) == []
    assert "plum17harbour" not in robot.memory.hints(speaker="bob")
    journal.commit(msgspec.structs.replace(turn, state="complete"), accepted=accepted).result(30)
    assert robot.finds("plum17harbour")
    assert len(read_turns(database, "hall", reader=Reader("bob"))) == 1


@pytest.mark.parametrize("called", [False, True])
def test_a_turn_that_was_left_unfinished_with_a_call_in_it_stays_closed(tmp_path: Path, called: bool) -> None:
    """Nobody knows what its tools would have told; without a call it opens."""
    home = tmp_path / "home"
    with Robot(home, tools=[Tool("look", "Looks.", NO_ARGUMENTS, lambda: "nothing")]) as robot:
        turn = robot.loop.conversation.turn(WIFI, speaker="alice")
        assert turn.messages
        if called:
            turn.call(ToolCall("look", {}))
    with Robot(home) as robot:
        robot.hear("Good morning.", speaker="bob")
        assert robot.levels()[0] == (("private", "private") if called else AS_USUAL)
        assert robot.finds("plum17harbour") is not called


def test_a_block_that_is_not_read_counts_as_not_shown(robot: Robot) -> None:
    """What the household may know is told anew to whoever does not see the answer in which it was told."""
    robot.memory.store.add_fact("dentist", "Friday at nine", scope="household")
    robot.hear(PIN, "I'll keep it.", private=True)
    assert "at nine</memory>" in str(robot.hear("When is the dentist?", "On Friday."))
    assert "at nine</memory>" in str(robot.hear("When is the dentist?", speaker="bob")[-1])


def test_nobody_else_is_told_where_a_private_answer_was_cut_off(robot: Robot) -> None:
    """The line quotes the answer, so it comes with the answer."""
    robot.hear(PIN, "I'll keep it.", private=True)
    robot.hear("What was it?", "It is 4711, as ever.")
    robot.loop.interrupt("It is 4711")
    assert "interrupted" not in str(robot.hear("Hello.", speaker="bob"))
    assert "you were interrupted after: It is 4711" in str(robot.hear("Hello."))


def test_a_summary_is_made_of_what_the_household_sees(tmp_path: Path) -> None:
    """Nothing private is in it, not even the line in its place; the epoch is as private as what it was made of."""
    more = "[context]\nwindow_tokens = 2620\nsummary_tokens = 150\nreply_tokens = 100\n"
    with Robot(tmp_path / "home", more=more) as robot:
        robot.hear(PIN, "Noted, 4711 it is.", private=True)
        robot.hear(WIFI, "Noted, and 4711 too.")
        for n in range(60):
            said = f"The tortoise in the garden found {n} heads of lettuce behind the old greenhouse. "
            robot.hear(said * 4, "I see.")
            robot.memory.idle(2)
        epoch = latest_epoch(robot.memory.diagnostics.database, "kitchen")
        assert epoch is not None
        assert epoch.summary
        assert "4711" not in epoch.summary
        assert CLOSED not in epoch.summary
        assert epoch.level == "household"
        prompt = robot.hear("Who is there?", speaker=None)
        assert "Earlier in this conversation" not in str(prompt)


def test_two_owners_are_nobody(tmp_path: Path) -> None:
    """What replaces what two people keep to themselves is read by neither."""
    with SQLiteSessionStore(tmp_path / "sessions.db") as store:
        whose = (("alice", "private"), ("bob", "household"), ("carol", "household"))
        for n, (owner, level) in enumerate(whose):
            said = (StoredMessage("user", f"{owner}?"), StoredMessage("assistant", f"{owner}!"))
            answer: Any = "private" if n < 2 else "household"
            turn = Turn("a", n, said, level=level, owner=owner, answer=answer)  # type: ignore[arg-type]
            store.journal.commit(turn, [], accepted=None).result()
        session = store.load("a")
        assert session is not None
        session.messages[:4] = [{"role": "assistant", "content": "All that they said."}]
        store.save("a", session)
        (turn,) = store.journal.read_turns("a")
        assert (turn.answer, turn.owner) == ("private", None)


@pytest.mark.parametrize(
    ("utterance", "key", "value", "scope", "stored"),
    [
        (WIFI, "wifi", "plum17harbour", "household", "household"),
        (WIFI, "wifi password", "Plum17Harbour!", "global", "global"),
        (WIFI, "wifi", "plum17harbour, and 4711", "household", "user:alice"),
        (WIFI, "router", "plum17harbour", "household", "user:alice"),
        (WIFI, "wifi", "it is", "household", "user:alice"),
        ("Remember the wifi code is four seven one one", "wifi code", "4711", "household", "household"),
        ("Remember the wifi", "wifi", "4 7 1 1", "household", "user:alice"),
        ("Remember the wifi", "wifi", "four seven one one", "household", "user:alice"),
        ("Remember P-I-A-N-O for the wifi", "wifi", "piano", "household", "household"),
        ("Remember the wifi", "wifi", "p i a n o", "household", "user:alice"),
        ("Remember the tulips", "tulips", "rotten tulips of bob", "household", "household"),
    ],
)
def test_a_tool_writes_openly_only_what_was_said_or_others_see(
    robot: Robot, utterance: str, key: str, value: str, scope: str, stored: str
) -> None:
    """Behind something private each content word and number has to be known there, and the value has to have one."""
    robot.hear("Bob has rotten tulips.", "Oh no.", speaker="bob")
    robot.hear("My PIN is 4711, and it is in the piano.", "Good.", private=True)
    call = ToolCall("remember_fact", {"key": key, "value": value, "scope": scope})
    robot.hear(utterance, call, "Done.")
    assert [fact.scope for fact in robot.memory.store.facts()] == [stored]
    told = str(robot.model.handed[-1][-1]["content"])
    assert ("for the speaker alone" in told) is (stored == "user:alice")
    assert robot.levels()[-1] == MINE


def test_notes_and_open_files_refuse_what_is_private(robot: Robot) -> None:
    """They have no level of their own for it."""
    robot.hear(PIN, "I'll keep it.", private=True)
    for call in (
        ToolCall("notes", {"action": "write", "text": "the PIN 4711"}),
        ToolCall("memory_write", {"path": "household/a.md", "content": "4711"}),
        ToolCall("memory_append", {"path": "shared/4711.md", "content": "cabin"}),
    ):
        robot.hear("Write it down at the cabin.", call, "Done.")
        assert "Refused" in str(robot.model.handed[-1][-1]["content"])
    written = ToolCall("notes", {"action": "write", "text": "cabin cold"})
    robot.hear("Note: the cabin is cold.", written, "Done.")
    assert "cabin cold" in robot.memory.notes.read()


def test_an_observation_that_a_loop_adds_is_no_utterance(robot: Robot) -> None:
    """Loops that hand results over as a user's message put nothing into anybody's mouth."""
    robot.memory.store.add_fact("diary.pin", "4711", scope="user:alice")
    kitchen = robot.memory.session("kitchen", tools=robot.tools, speaker="alice")
    with kitchen.turn("What is the diary pin?") as turn:
        assert "4711" in str(turn.messages)
        turn.add({"role": "user", "content": "Observation: the pin is 4711."})
        written = turn.call(ToolCall("remember_fact", {"key": "pin", "value": "4711", "scope": "household"}))
        assert "for the speaker alone" in str(written.result)
        turn.reply("Done.")
    (stored,) = robot.memory.sessions.journal.read_turns("kitchen", reader=Reader("bob"))
    assert [message.content for message in stored.messages] == ["What is the diary pin?"]


def test_both_levels_travel(robot: Robot, tmp_path: Path) -> None:
    """An export, read in elsewhere, is read by the same people."""
    robot.hear(PIN, "I'll keep it.", private=True)
    robot.hear(WIFI, "Noted, and 4711.")
    lines = list(robot.memory.export())
    with opened(tmp_path / "other") as other:
        other.import_lines(line.encode() for line in lines)
        assert list(other.export()) == lines
        turns = other.sessions.journal.read_turns("kitchen", reader=Reader("bob"))
        assert [[message.content for message in turn.messages] for turn in turns] == [[WIFI]]


def test_a_store_of_messages_keeps_both_levels(tmp_path: Path) -> None:
    """Also a JSON file, from which a later process takes the session up."""
    for speaker in ("alice", "bob"):
        store = JSONSessionStore(tmp_path / "sessions")
        hooks = [PersistSessionHook(store, session_id="k")]
        loop = AgentLoop(Model("Noted, 4711.", "Noted, 4711."), hooks=hooks)
        if speaker == "alice":
            loop.run(PIN, speaker=speaker, private=True)
        prompt = str(loop.run(WIFI if speaker == "alice" else "Hello?", speaker=speaker).handed[0])
        assert ("4711" in prompt) is (speaker == "alice")
        assert "plum17harbour" in prompt
