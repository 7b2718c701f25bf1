"""Memory: a home that is opened, shows its names, is closed, and lives whole turns through all default hooks."""

import os
import stat
from pathlib import Path

import pytest

import edgemem
from edgemem.clock import Clock
from edgemem.config import ContextSettings, Profile, RecallSettings
from edgemem.errors import ClosedError, InvalidInputError
from edgemem.hooks import HookRegistry
from edgemem.inspect.replay import Line, Player, ScriptedFact, ScriptedModel
from edgemem.loop.loop import AgentLoop
from edgemem.memory import Memory
from edgemem.session.tools import Tool
from support.embedders import HashEmbedder
from support.homes import BY_WORDS

pytestmark = pytest.mark.usefixtures("patient")


@pytest.fixture
def memory(tmp_path: Path, clock: Clock):
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


def test_a_voice_that_nobody_recognised_is_not_the_operator(memory):
    """`speaker=None`, as a recogniser gives it, reads only what is shared; nothing given reads everything."""
    memory.store.add_fact("pin", "4711", scope="user:alice")
    memory.store.add_fact("fridge.contents", "six eggs", scope="env:kitchen")
    assert [item.key for item in memory.recall("pin")] == ["pin"]
    assert [item.key for item in memory.recall("pin", speaker=None)] == []
    assert [item.key for item in memory.recall("fridge contents", speaker=None)] == ["fridge.contents"]


NAMES = {
    *(
        "home",
        "profile",
        "store",
        "sessions",
        "notes",
        "procedures",
        "thoughts",
        "retention",
        "bank",
        "people",
        "learning",
        "upcoming",
        "on_due",
        "episodes",
        "users",
    ),
    *("messages", "facts", "goals", "summaries", "session_state", "phases", "tool_events"),
    *("recall", "recall_sessions", "session", "hooks", "tools", "hints", "why"),
    *("forget", "export", "import_lines"),
    *("idle", "check", "close", "diagnostics"),
}
"""What users see (DESIGN section 3); whoever adds a name here adds it to the contract."""


def public_names(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def test_a_memory_shows_the_names_of_the_contract_and_no_other(memory: edgemem.Memory) -> None:
    """A name more, or one less, is a change of what users see."""
    assert public_names(memory) == NAMES


@pytest.mark.parametrize(
    "given",
    [
        {}, {"episode": "1", "session": "hall"}, {"key": "tea", "person": "Ann"}, {"scope": "global"},
        {"turn": 1, "message": 2},
    ],
)  # fmt: skip
def test_forget_wants_to_know_one_thing(memory: edgemem.Memory, given: dict[str, object]) -> None:
    """Nothing is erased where nothing is named, or where two things are."""
    memory.store.add_fact("tea", "black")
    with pytest.raises(InvalidInputError, match="exactly one of key, episode, session, turn, message"):
        memory.forget(**given)  # type: ignore[arg-type]
    assert memory.store.get_fact("tea") == "black"


@pytest.mark.parametrize("kind", ["key", "episode", "session", "person"])
def test_forget_takes_names_that_are_text(memory: edgemem.Memory, kind: str) -> None:
    """A number is refused with a sentence that says what it stands for."""
    with pytest.raises(InvalidInputError, match=f"{kind} must be text"):
        memory.forget(**{kind: 0})  # type: ignore[arg-type]


def test_what_is_asked_of_a_closed_memory_is_refused(memory: edgemem.Memory) -> None:
    """Whatever is called, the error says that the memory is closed; closing it once more does nothing."""
    memory.close()
    for ask in (
        *(memory.hooks, memory.tools, memory.hints, memory.export, memory.idle, memory.check),
        *(lambda: memory.recall("tea?"), lambda: memory.recall_sessions("tea?")),
        *(lambda: memory.forget("tea"), lambda: memory.import_lines([])),
    ):
        with pytest.raises(ClosedError):
            ask()
    memory.close()
