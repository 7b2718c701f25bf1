"""Sessions found: when something was talked about, for whoever may know."""

from __future__ import annotations

import pytest

import edgemem
from support.homes import BY_WORDS, tell

WORDS = ["apple", "lantern", "meadow", "copper", "violin", "harbour", "pepper", "window"]


@pytest.fixture
def home(tmp_path, clock):
    """Return a memory with words alone, and a function that stores a turn."""
    with edgemem.open(tmp_path, profile=BY_WORDS, clock=clock, worker=False) as memory:
        yield memory, lambda session, n, text, at: tell(memory, text, session, n, at=at)


def test_when_something_was_talked_about(home):
    """The session in which most was said of it comes first, with the time of what answers best."""
    memory, say = home
    say("monday", 0, "We could go to the lighthouse in spring", 1_770_000_000.0)
    say("monday", 1, "The lighthouse has a hundred steps", 1_770_000_060.0)
    say("tuesday", 0, "The cat has been to the vet", 1_770_086_400.0)
    for settled in (False, True):
        if settled:
            memory.idle(60)
        first, *_ = memory.recall_sessions("when did we talk about the lighthouse?")
        assert first.session == "monday"
        assert first.at in {1_770_000_000.0, 1_770_000_060.0}
        assert {item.text for item in first.messages} == {
            "We could go to the lighthouse in spring", "The lighthouse has a hundred steps",
        }  # fmt: skip
        assert len(memory.recall_sessions("lighthouse or cat", k=1)) == 1
        assert {each.session for each in memory.recall_sessions("lighthouse or cat")} == {"monday", "tuesday"}
        assert memory.recall_sessions("lighthouse", min_score=first.score + 0.5) == []
    with pytest.raises(edgemem.EdgememError):
        memory.recall_sessions("lighthouse", known_at=float("nan"))


def test_private_talk_is_no_session_for_others(tmp_path, clock):
    """Whoever may read nothing of a session is not told of it, and what is kept from them changes no score."""
    seen = []
    for n, kept in enumerate(("", "the lighthouse is a secret, and so are its steps!")):
        with edgemem.open(tmp_path / str(n), clock=clock, worker=False) as memory:
            tell(memory, "the lighthouse has steps", "a", at=1e9)
            tell(memory, "steps of stone, as in any old house by the sea", "c", at=1e9)
            tell(memory, "the cat sleeps", "d", at=1e9)
            bob = {"level": "private", "owner": "bob", "speaker": "bob", "at": 1e9 + 60}
            for session, at in (("a", 1), ("b", 0), ("e", 0), ("f", 0)) if kept else ():
                tell(memory, kept, session, at, **bob)
            memory.idle(60)
            found = memory.recall_sessions("steps of the lighthouse", speaker="alice")
            texts = [[item.text for item in each.messages] for each in found]
            seen.append([(s.session, round(s.score, 6), s.at, t) for s, t in zip(found, texts, strict=True)])
            if kept:
                his = memory.recall_sessions("lighthouse", speaker="bob")
                assert {each.session for each in his} >= {"a", "b", "e", "f"}
                memory.forget(session="b")
                assert "b" not in {each.session for each in memory.recall_sessions("lighthouse")}
    assert seen[0] == seen[1]
    assert {each[0] for each in seen[0]} >= {"a", "c"}


def test_a_day_is_looked_through_where_nothing_else_tells(home, clock):
    """Of "what did we do five days ago?" the time alone can be looked for, whatever was said since."""
    memory, say = home
    now = clock.now()
    for days, many in ((9, 60), (5, 3), (2, 60)):
        for n in range(many):
            say(f"{days} days ago", n, f"{WORDS[n % 8]} {WORDS[n // 8]} outside", now - days * 86400 - 60 + n)
    memory.idle(60)
    first, *_ = memory.recall_sessions("what did we do five days ago?")
    assert first.session == "5 days ago"
    assert memory.recall_sessions("what did we do?")[0].session != "5 days ago"
