"""Erased is gone: a fact also where it was shown, a person also out of the histories of others."""

from __future__ import annotations

import pytest

import edgemem
from edgemem.records import Heard, StoredMessage, Turn
from edgemem.store import beliefs, turns

ANN, BO = Heard(speaker="Ann"), Heard(speaker="Bo")


@pytest.fixture
def memory(tmp_path):
    """Return an open memory."""
    with edgemem.open(tmp_path / "home", worker=False) as opened:
        yield opened


def files_of(memory):
    """Return every byte of the databases and their logs."""
    return b"".join(file.read_bytes() for file in (memory.home / "db").iterdir())


def say(memory, text, heard, shown=(), block=""):
    """Store one turn."""
    n = turns.next_turn(memory.database, "hall")
    turn = Turn("hall", n, (StoredMessage("user", text),), "complete", block, shown, heard=heard)
    memory.database.write(lambda tx: turns.commit_turn(tx, turn))


def test_a_forgotten_fact_is_erased_from_the_blocks_that_showed_it(memory):
    """Neither the block nor the list of what it showed keeps a value; other blocks stay."""
    memory.store.add_fact("pin", "4711-zebra")
    memory.store.add_fact("tea", "green")
    entry = '{"id":"fact:1","line":"","level":"shared","owner":null,"fact":["global","%s"],"value":"%s"}'
    say(memory, "one", ANN, (entry % ("pin", "4711-zebra"),), "<memory>\npin: 4711-zebra\n</memory>\n")
    say(memory, "two", ANN, (entry % ("tea", "green"),), "<memory>\ntea: green\n</memory>\n")
    memory.idle(5)
    assert b"zebra" in files_of(memory)
    assert memory.forget("pin")
    assert b"zebra" not in files_of(memory)
    first, second = turns.read_turns(memory.database, "hall")
    assert (first.block, first.shown) == ("", ())
    assert "green" in second.block


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
    erased = memory.forget_person("Ann")
    assert erased == {"facts": 3, "preferences": 1, "episodes": 1, "turns": 1}
    data = files_of(memory)
    for word in (b"vermilion", b"Mistigri", b"zebra", b"bagpipes", b"xylophone", b"canoe", b"Ann"):
        assert word not in data, word
    assert [f.value for f in beliefs.facts_as_of(memory.database, 150.0)] == ["ochre"]
    assert beliefs.facts_as_of(memory.database, 250.0) == []
    assert [f.value for f in beliefs.facts_as_of(memory.database, 350.0)] == ["ochre"]
    store.add_fact("door", "teal", valid_from=250.0)
    assert [f.value for f in beliefs.facts_as_of(memory.database, 260.0)] == ["teal"]
    assert [e.payload["result"] for e in store.recent_episodes()] == ["trombone"]
    assert [turn.messages[0].content for turn in turns.read_turns(memory.database, "hall")] == [
        "the bicycle is in the hall"
    ]
    assert memory.forget_person("Ann") == {}
    say(memory, "the bicycle again", BO)
    assert memory.recall("bicycle")


def test_a_forgotten_person_takes_their_last_conversation_along(memory):
    """A conversation in which nobody else spoke is erased as a whole."""
    say(memory, "only me", ANN)
    assert memory.forget_person("Ann") == {"turns": 1}
    assert memory.sessions.list_ids() == []
