"""Memory: a home directory opened, wired and closed, and whole turns through all default hooks."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

import edgemem
from edgemem.clock import Clock
from edgemem.config import ContextSettings, Profile, RecallSettings
from edgemem.errors import NewerSchemaError
from edgemem.hooks import HookRegistry
from edgemem.inspect.replay import Line, Player, ScriptedFact, ScriptedModel
from edgemem.loop.loop import AgentLoop
from edgemem.memory import Memory
from edgemem.records import Heard
from edgemem.session.log import log_of
from edgemem.session.tools import Tool
from edgemem.store.db.connection import Migration
from edgemem.store.db.database import Database
from edgemem.store.kinds import TRUTH
from support.embedders import HashEmbedder
from support.homes import BY_WORDS

pytestmark = pytest.mark.usefixtures("patient")


@pytest.fixture
def memory(tmp_path: Path, clock: Clock):
    """Return an open memory with an embedder of hashes and no upkeep thread."""
    # However busy the machine is, what is found by meaning is found.
    profile = Profile(
        recall=RecallSettings(deadline_ms=60_000, query_embed_ms=60_000),
        context=ContextSettings(window_tokens=2048),
    )
    how = {"profile": profile, "clock": clock, "embedder": HashEmbedder(), "worker": False}
    with edgemem.open(tmp_path / "home", **how) as opened:
        yield opened


def say(text: str, reply: str = "ok", **fields: object) -> Line:
    return Line(say=text, reply=reply, at=1_770_000_000.0, session="kitchen", **fields)  # type: ignore[arg-type]


def loop_of(memory: Memory, *, session: str = "kitchen", speaker: str | None = "alice") -> AgentLoop:
    hooks = memory.hooks(session_id=session, speaker=speaker)
    return AgentLoop(ScriptedModel(), hooks=hooks, speaker=speaker)


def test_a_turn_is_kept_with_its_block_apart_from_what_was_said(memory: Memory) -> None:
    """The utterance, the injected text and who said it stand in fields of their own."""
    memory.store.add_fact("allergy", "hazelnuts", scope="user:alice")
    memory.idle(5.0)
    loop = loop_of(memory)
    loop.run("which allergy do I have?", heard=Heard(speaker="alice", room="kitchen", asr_confidence=0.9))
    (turn,) = memory.sessions.journal.read_turns("kitchen")
    assert turn.messages[0].content == "which allergy do I have?"
    assert "hazelnuts" in turn.block
    assert (turn.answer, turn.owner) == ("private", "alice")
    assert turn.heard is not None
    assert (turn.heard.room, turn.heard.asr_confidence) == ("kitchen", 0.9)


def test_a_session_goes_on_after_a_restart(tmp_path: Path, clock: Clock) -> None:
    """The prompt of the next turn is the one that an uninterrupted run would have had."""
    texts = [f"number {i} is my favourite" for i in range(6)]

    def run(home: Path, restart: bool) -> list[object]:
        memory = edgemem.open(home, profile=BY_WORDS, clock=clock, worker=False)
        memory.store.add_fact("tea", "black", scope="household")
        loop = loop_of(memory)
        for i, text in enumerate(texts):
            if restart and i == 3:
                memory.close()
                memory = edgemem.open(home, profile=BY_WORDS, clock=clock, worker=False)
                loop = loop_of(memory)
            result = loop.run(text)
        memory.close()
        return list(result.handed[0])

    assert run(tmp_path / "a", restart=False) == run(tmp_path / "b", restart=True)


def test_private_things_stay_private_in_recall_and_in_the_prompt(memory: Memory) -> None:
    """What alice told in private is shown neither to bob nor to a stranger, nor to her while bob listens."""
    player = Player(memory)
    fact = ScriptedFact("surprise", "Lisbon tickets in the flour tin", "user:alice")
    told = "The tickets to Lisbon are in the flour tin."
    player.turn(say(told, speaker="alice", private=True, remember=(fact,)))
    for speaker, present in (("bob", ()), (None, ()), ("alice", ("bob",))):
        asked = say("What is in the flour tin?", speaker=speaker, present=present, must_not=("Lisbon",))
        played = player.turn(asked)
        assert played.leaked == (), speaker
    found = memory.recall("Lisbon tickets flour tin", speaker="bob")
    assert not any("Lisbon" in item.text for item in found)
    played = player.turn(say("Where did I put the tickets?", speaker="alice", must=("flour tin",)))
    assert played.missing == ()


def test_a_long_conversation_stays_within_the_window(memory: Memory) -> None:
    """New epochs begin rarely, every prompt fits, and the originals are all there."""
    player = Player(memory)
    room = memory.profile.context.window_tokens - memory.profile.context.reply_tokens
    epochs = set()
    for i in range(80):
        planted = f"Today is the {i}th day and I planted {i} tulips in the garden behind the house."
        played = player.turn(say(planted, f"That is {i} more tulips.", speaker="alice"))
        epochs.add(played.epoch)
        assert played.tokens <= room
        if i % 10 == 9:
            memory.idle(5.0)
    assert 1 < len(epochs) < 12
    assert len(memory.sessions.journal.read_turns("kitchen")) == 80
    assert player.failures == []


def test_a_failing_memory_never_stops_a_reply(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    """With the store closed under its feet the loop still answers, and the failures are counted."""
    hooks = HookRegistry(memory.hooks(session_id="kitchen", speaker="alice"))
    model = ScriptedModel()
    loop = AgentLoop(model, hooks=hooks, tools=[Tool("t", "", {}, lambda: 1)])
    memory.diagnostics.database.close()
    model.expect(say("hello", "still here"))
    assert loop.run("hello").reply == "still here"
    assert hooks.failures()


def test_a_failing_recall_shows_nothing_private(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the hook that recalls fails, the listener's own view is sent, not the loop's raw list."""
    player = Player(memory)
    player.turn(say("The tickets are in the flour tin.", speaker="alice", private=True))
    memory.diagnostics.index.close()
    monkeypatch.setattr("edgemem.recall.search.search.Search.run", None)
    played = player.turn(say("What did she say?", speaker="bob", must_not=("flour tin",)))
    assert [failure.hook for failure in player.failures] == ["memory"]
    assert played.leaked == ()
    assert "flour" not in str(played.result.handed)


def test_a_turn_left_open_is_ended_by_the_close(tmp_path: Path, clock: Clock) -> None:
    """A prepared turn has its reply, so it is complete, and the next prompt goes on behind it."""
    with edgemem.open(tmp_path, profile=BY_WORDS, clock=clock, worker=False) as memory:
        loop = loop_of(memory)
        loop.prepare("remember the milk")
        memory.diagnostics.database.flush()
    with edgemem.open(tmp_path, profile=BY_WORDS, clock=clock, worker=False) as memory:
        loop = loop_of(memory)
        result = loop.run("what did I say?")
        first, second = memory.sessions.journal.read_turns("kitchen")
        assert (first.state, second.state) == ("complete", "complete")
        said = next(m["content"] for m in result.handed[0] if m["role"] == "user")
        assert said.endswith("remember the milk")
        assert log_of(loop.ctx).prompt_log.next_n == 2


def test_a_home_that_cannot_be_opened_leaves_nothing_open(tmp_path: Path) -> None:
    """A database from a newer edgemem is refused, and the embedder that was opened before it is closed again."""
    later = TRUTH._replace(steps=(*TRUTH.steps, Migration("v999_later", ("create table later (x)",))))
    (tmp_path / "db").mkdir()
    Database(tmp_path / "db" / "memory.db", schema=later).close()
    embedder = HashEmbedder(64)
    with pytest.raises(NewerSchemaError):
        Memory(tmp_path, embedder=embedder, worker=False)
    assert embedder.closed


def test_no_file_of_the_home_is_world_readable_under_an_open_umask(tmp_path: Path) -> None:
    """Directories are 0700 and files 0600, whatever the caller's umask."""
    before = os.umask(0)
    try:
        with edgemem.open(tmp_path / "home", profile=BY_WORDS, worker=False) as memory:
            memory.store.add_fact("a", "b")
            memory.notes.append("c")
            folders = {stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "home").rglob("*") if p.is_dir()}
            modes = {stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "home").rglob("*") if p.is_file()}
    finally:
        os.umask(before)
    assert (folders, modes) == ({0o700}, {0o600})


def test_a_voice_that_nobody_recognised_is_not_the_operator(tmp_path):
    """`speaker=None`, as a recogniser gives it, reads only what is shared; nothing given reads everything."""
    with edgemem.open(tmp_path, profile=BY_WORDS, worker=False) as memory:
        memory.store.add_fact("pin", "4711", scope="user:alice")
        memory.store.add_fact("fridge.contents", "six eggs", scope="env:kitchen")
        assert [item.key for item in memory.recall("pin")] == ["pin"]
        assert [item.key for item in memory.recall("pin", speaker=None)] == []
        assert [item.key for item in memory.recall("fridge contents", speaker=None)] == ["fridge.contents"]
