"""A turn does not wait for a disk that another program holds, and nothing is lost by that."""

from __future__ import annotations

from pathlib import Path

import pytest

import edgemem
from edgemem.config import Profile, StoreSettings, ToolSettings
from edgemem.errors import BusyError, InvalidInputError
from edgemem.hooks import EpisodeLoggerHook, MemoryInjectionHook
from edgemem.loop.loop import AgentLoop
from edgemem.records import Reply, ToolCall
from edgemem.session.tools import Tool
from edgemem.store.json.memory import JSONMemoryStore
from edgemem.store.kinds import open_truth
from edgemem.store.memory_store import SQLiteMemoryStore
from edgemem.store.spool import DeferredWrites
from support.disks import LOCK, SQLITE, held
from support.models import Listener

LONG_S = 20.0  # a turn that waited for the lock would not end before it is let go


def test_an_episode_is_tried_again_after_the_database_gave_up(tmp_path: Path) -> None:
    """A lock that lasts longer than the database waits costs no episode either, also if nothing more happens."""
    with open_truth(tmp_path / "m.db", busy_timeout_s=0.05) as database:
        later = DeferredWrites(store := SQLiteMemoryStore(database))
        with held(SQLITE, tmp_path / "m.db"):
            written = [later.write(lambda n=n: store.add_episode("x", {"n": n}, "ok")) for n in range(3)]
            with pytest.raises(BusyError):
                database.write(lambda tx: tx.execute("select 1"))
        for each in written:
            each.result(timeout=LONG_S)
        assert [episode.payload["n"] for episode in store.recent_episodes()] == [0, 1, 2]


def test_what_is_wrong_is_refused_and_holds_up_nothing(tmp_path: Path) -> None:
    """A write that can never succeed is no reason to keep the others waiting."""
    with SQLiteMemoryStore(tmp_path / "m.db") as store:
        later = DeferredWrites(store)
        wrong = later.write(lambda: store.add_fact("", "x"))
        right = later.write(lambda: store.add_fact("tea", "green"))
        with pytest.raises(InvalidInputError):
            wrong.result(timeout=LONG_S)
        right.result(timeout=LONG_S)
        assert store.get_fact("tea") == "green"


def test_a_json_file_that_is_held_keeps_no_turn_waiting(tmp_path: Path) -> None:
    """The turn's end asks for the file to be written, and does not wait for whoever holds it."""
    path, model = tmp_path / "m.json", Listener()
    with JSONMemoryStore(path, flush_after_s=LONG_S) as store:
        store.add_fact("a", "b")
        store.flush()
        light = Tool("light", "", {"type": "object", "properties": {}}, lambda: "on")
        hooks = [MemoryInjectionHook(store), EpisodeLoggerHook(store)]
        loop = AgentLoop(model, hooks=hooks, tools=[light])
        with held(LOCK, tmp_path / ".m.json.lock"):
            model.replies = [Reply("", (ToolCall("light", {}),))]
            assert loop.run("light, please", speaker="ann").reply
            assert "light" not in path.read_text()
    assert "light" in path.read_text()


def test_a_tool_says_that_it_is_not_kept_yet(tmp_path: Path) -> None:
    """A home that another program holds: each turn ends, no answer promises too much, and all of it is kept in the end."""
    store = StoreSettings(busy_timeout_s=LONG_S, commit_wait_s=0.01)
    profile = Profile(store=store, tools=ToolSettings(write_wait_s=0.01))
    with edgemem.open(tmp_path / "home", profile=profile, worker=False) as memory:
        model = Listener()
        loop = AgentLoop(model, hooks=memory.hooks(session_id="s"), tools=memory.tools())
        memory.store.add_fact("tea", "green", scope="household")
        with held(SQLITE, tmp_path / "home" / "db" / "memory.db"):
            model.replies = [Reply("", (ToolCall("remember_fact", {"key": "pin", "value": "4711"}),))]
            (told,) = loop.run("keep my pin", speaker="ann").tools
            assert told.ok
            assert told.result.startswith("Heard, but not kept yet")
            for say in ("forget my tea", "yes"):
                model.replies = [Reply("", (ToolCall("forget_fact", {"key": "tea"}),))]
                (refused,) = loop.run(say, speaker="ann").tools
            assert "nothing was done" in str(refused.error)
        memory.diagnostics.database.flush()
        assert memory.store.get_fact("pin", scope="household") == "4711"
        assert memory.store.get_fact("tea", scope="household") == "green"
        said = memory.sessions.load("s")
        asked = [m["content"] for m in said.messages if m["role"] == "user"]
        assert asked == ["keep my pin", "forget my tea", "yes"]
