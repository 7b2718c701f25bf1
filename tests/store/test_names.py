"""Names and scopes: what is mistyped is refused, and a person is one however their name is written."""

import json
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import edgemem
from edgemem import JSONMemoryStore, SQLiteMemoryStore, VectorMemoryStore
from edgemem.errors import ConfigError, InvalidInputError
from edgemem.loop.loop import AgentLoop
from edgemem.memory import Memory
from edgemem.records import Heard, Reader
from edgemem.scopes import name_key
from edgemem.store.rights import SPELLED, reading_rule
from support.cli import refused, run
from support.homes import BY_WORDS, home_of
from support.models import Listener, Model
from support.refusals import refusal
from support.selection import LONG

MISTYPED = {
    "User:Mara": "user:Mara",
    "users:Mara": "user:Mara",
    "USER: Mara": "user:Mara",
    "uѕer:Mara": "user:Mara",  # a Cyrillic letter
    "user：Mara": "user:Mara",  # a wide colon
    "user:": "user:NAME",
    " user : ": "user:NAME",
    "Env:kitchen": "env:kitchen",
    "env:": "env:PLACE",
    "Global": "global",
    "HOUSEHOLD": "household",
}
UNKNOWN = {"MARA": "user:MARA", "kitchen": "env:kitchen", "session:7": "user:NAME", "househld": "household"}


def values(facts: Sequence[Any]) -> set[str]:
    return {fact.value for fact in facts}


def stores(folder: Path) -> list[Any]:
    return [
        SQLiteMemoryStore(folder / "truth.db"),
        JSONMemoryStore(folder / "truth.json"),
        VectorMemoryStore(folder / "vectors.db", embed_fn=lambda text: [float(len(text)), 1.0]),
    ]


def test_a_scope_without_a_known_form_is_refused_with_the_right_one(memory: Memory, tmp_path: Path) -> None:
    """Whatever edgemem itself writes has a scope of a known form, or is refused with what was probably meant."""
    (remember,) = (tool for tool in memory.tools(speaker="Mara") if tool.name == "remember_fact")
    for scope, meant in (MISTYPED | UNKNOWN).items():
        for write in (memory.store.add_fact, memory.store.set_preference):
            refusal(InvalidInputError, write, "pin", "4711", match=meant, scope=scope)
        added = run("facts", "add", "pin", "4711", "--scope", scope, "--home", tmp_path / "x")
        assert meant in refused(added)
        with pytest.raises(InvalidInputError, match="There is no scope"):
            remember.run(key="pin", value="4711", scope=scope)
    assert not (tmp_path / "x").exists()
    assert memory.store.facts() == memory.store.preferences() == []


def test_the_seeds_stores_refuse_a_mistyped_scope_and_keep_any_other_for_the_operator(tmp_path: Path) -> None:
    """A store class takes any scope but one that is nearly known; one of an unknown form is closed to all who speak."""
    for store in stores(tmp_path):
        with store:
            for scope, meant in MISTYPED.items():
                for write in (store.add_fact, store.set_preference):
                    refusal(InvalidInputError, write, "pin", "4711", match=meant, scope=scope)
            assert store.facts() == store.preferences() == []
            for scope in (*UNKNOWN, "agent:7", "a scope of two words"):
                store.add_fact("pin", scope, scope=scope)
                store.set_preference("light", "dim", scope=scope)
                assert store.get_fact("pin", scope=scope) == scope
                assert values(store.facts(scope=scope)) == {scope}
                assert values(store.preferences(scope=scope)) == {"dim"}
                for reader in (Reader(), Reader("Mara"), Reader(scope), Reader("")):
                    assert store.facts(reader=reader) == store.preferences(reader=reader) == []


SPELLINGS = ["Zoë", "ZOË", "zoë", unicodedata.normalize("NFD", "Zoë"), " zOë "]


@pytest.mark.parametrize("spelling", SPELLINGS[3:])
def test_every_store_finds_a_person_however_the_name_is_written(tmp_path: Path, spelling: str) -> None:
    """Facts, preferences and episodes of one person are found, replaced and forgotten under every spelling."""
    for store in stores(tmp_path):
        with store:
            store.add_fact("pin", "1", scope="user:Zoë")
            store.add_fact("pin", "2", scope=f"user:{spelling}")
            store.set_preference("light", "dim", scope="user:Zoë")
            store.set_preference("light", "off", scope=f"user:{spelling}")
            store.add_episode("said", {"text": "psst"}, "ok", level="private", owner=spelling)
            for name in SPELLINGS:
                reader = Reader(name, frozenset({"zoË"}))
                assert values(store.facts(reader=reader)) == {"2"}
                assert values(store.facts(scope=f"user:{name}")) == {"2"}
                assert values(store.preferences(scope=f"user:{name}", reader=reader)) == {"off"}
                assert [episode.owner for episode in store.recent_episodes(reader=reader)] == ["Zoë"]
                assert store.get_fact("pin", scope=f"user:{name}") == "2"
                assert [fact.value for fact in store.fact_history("pin", scope=f"user:{name}")] == ["1", "2"]
                held = store.read_values([(f"user:{name}", "pin")], reader=reader)
                assert held[f"user:{name}", "pin"].value == "2"
            assert {fact.scope for fact in store.facts()} == {"user:Zoë"}
            for stranger in (Reader("Zoe"), Reader("Zoë", frozenset({"Ben"})), Reader("Zoёe")):
                assert store.facts(reader=stranger) == store.recent_episodes(reader=stranger) == []
            assert store.retract_fact("pin", scope=f"user:{spelling}")
            assert store.forget_fact("pin", scope=f"user:{spelling}")
            assert store.forget_preference("light", scope=f"user:{spelling}")
            assert store.facts() == store.preferences() == []


@pytest.mark.long
def test_a_key_of_a_name_has_itself_as_its_key() -> None:
    """Folding twice changes nothing, whatever the letter and its marks."""
    for code in range(0, 0x110000, 1 if LONG else 19):
        if not 0xD800 <= code < 0xE000:
            for name in (chr(code), f"a{chr(code)}\u0345"):
                assert name_key(name_key(name)) == name_key(name)


def test_a_turn_stays_before_its_speaker_however_the_name_is_written(memory: Memory) -> None:
    """Another spelling, or an audience of the same person, takes no private turn out of the prompt."""
    loop = AgentLoop(model := Model(), hooks=memory.hooks(session_id="hall"))
    loop.run("Between us: 4711.", speaker="Zoë", private=True)
    loop.run("And now?", speaker="ZOË", audience=["zoë"])
    loop.run("And I?", speaker="Ben")
    assert ["4711" in str(prompt) for prompt in model.handed] == [True, True, False]


def test_tools_and_hints_know_a_speaker_however_the_name_is_written(memory: Memory) -> None:
    """What one has a tool remember is told, changed and erased under every spelling; a recogniser is told one, the first."""
    tools = {name: {tool.name: tool for tool in memory.tools(speaker=name)} for name in ("Zoë", "ZOË", "Ben")}
    tools["Zoë"]["remember_fact"].run(key="pin", value="Metoprolol", scope="me")
    assert "Metoprolol (me)" in tools["ZOË"]["list_facts"].run()
    told = tools["ZOË"]["remember_fact"].run(key="pin", value="Bukephalos", scope="user: zoë")
    assert "before" in told.lower()
    assert "Bukephalos" in tools["Zoë"]["recall_fact"].run(key="pin")
    assert "Bukephalos" not in tools["Ben"]["list_facts"].run()
    assert "Refused" in tools["Ben"]["recall_fact"].run(key="pin", scope="user:Zoë")
    assert values(memory.store.facts()) == {"Bukephalos"}
    hints = memory.hints(speaker="zoë")
    assert "Bukephalos" in hints
    assert [hint for hint in hints if hint.casefold() == "zoë"] == ["Zoë"]


def test_a_person_is_forgotten_and_exported_under_every_spelling(memory: Memory) -> None:
    """Exporting or forgetting a person takes what they said and own, however the name was written; no spelling stays."""
    loop = AgentLoop(Listener(), hooks=memory.hooks(session_id="hall"))
    for name in ("Zoë", "ZOË"):
        loop.run(f"I am {len(name)} and a half.", speaker=name)
        memory.store.add_fact("pin", name, scope=f"user:{name}", heard=Heard(name))
    memory.store.add_fact("cake", unicodedata.normalize("NFD", "for ZOË"))
    lines = [json.loads(line) for line in memory.export(speaker=" zOË ")]
    assert [line["record"] for line in lines].count("turn") == 2
    forgotten = memory.forget(person="zoë")
    assert forgotten.erased == {"facts": 1, "turns": 2}
    assert [mention.text for mention in forgotten.mentions.quoted] == ["cake: for ZOË"]
    assert [fact.key for fact in memory.store.facts()] == ["cake"]
    assert memory.sessions.journal.read_turns("hall") == []
    assert memory.diagnostics.database.query("select * from names") == []


def test_an_erased_fact_leaves_no_name(memory: Memory) -> None:
    """With the last thing of a person goes the note of how the name is written; until then it stays."""
    memory.store.add_fact("pin", "1", scope="user:Zoë", heard=Heard("Ben"))
    memory.store.add_fact("key", "2", scope="user:zoë")
    memory.store.add_fact("door", "open", scope="household", heard=Heard("Ann"))
    memory.forget("key", scope="user:ZOË")
    names = memory.diagnostics.database.query("select name from names")
    assert {name for (name,) in names} == {"Zoë", "Ben", "Ann"}
    memory.forget(person="ZOË")  # nor does whoever told only what another owned leave one
    assert memory.diagnostics.database.query("select name from names") == [("Ann",)]
    assert "Zoë".encode() not in memory.diagnostics.database.path.read_bytes()


def test_an_import_takes_names_as_they_are_written_here(tmp_path: Path) -> None:
    """What was exported under another spelling is the same person's here, and a second time adds nothing."""
    with edgemem.open(tmp_path / "there", profile=BY_WORDS, worker=False) as beside:
        beside.store.add_fact("shoe size", "39", scope="user:ZOË", heard=Heard("ZOË"))
        beside.store.set_preference("light", "dim", scope="user:ZOË")
        lines = [line.encode() for line in beside.export()]
    with edgemem.open(tmp_path / "here", profile=BY_WORDS, worker=False) as here:
        here.store.add_fact("pin", "4711", scope="user:Zoë")
        assert here.import_lines(lines).refused == []
        assert values(here.store.facts(reader=Reader("zoë"))) == {"39", "4711"}
        assert {fact.scope for fact in here.store.facts()} == {"user:Zoë"}
        again = here.import_lines(lines)
        assert (again.added, again.refused) == ({}, [])


def test_an_import_keeps_what_has_an_unknown_scope_for_the_operator(memory: Memory) -> None:
    """A scope that edgemem would refuse is no reason to lose what another memory held, and closes it."""
    memory.store.add_fact("pin", "4711", scope="household")
    # As an older edgemem wrote it, which took such a scope for the household's.
    lines = [line.replace('"scope":"household"', '"scope":"Users:Zoë"').encode() for line in memory.export()]
    memory.forget("pin", scope="household")
    memory.import_lines(lines)
    assert {fact.scope for fact in memory.store.facts()} == {"Users:Zoë"}
    assert values(memory.store.facts()) == {"4711"}
    assert memory.store.facts(reader=Reader("Zoë")) == []


def test_people_called_the_same_in_the_profile_are_refused(tmp_path: Path) -> None:
    """Two people of [speakers] whose names are one name cannot be told apart, which is said."""
    home = home_of(tmp_path / "home", '[speakers]\nMara = ["Mum"]\nMARA = []\n')
    with pytest.raises(ConfigError, match=r"speakers\.Mara and speakers\.MARA are one name"):
        edgemem.open(home, worker=False)


def test_a_name_is_looked_up_by_its_key_in_an_index(memory: Memory) -> None:
    """The reading rule, a scope and a new turn find a spelling by one step in an index, and scan no table of names."""
    rule, bound = reading_rule(Reader("Zoë"), "f.")
    for sql in (f"select * from facts f where {rule}", f"select {SPELLED.format(key=':speaker_key')}"):
        plan = [row[3] for row in memory.diagnostics.database.query(f"explain query plan {sql}", bound)]
        assert any(line.startswith("SEARCH names USING") and "key=?" in line for line in plan)
        assert not any(line.startswith("SCAN names") for line in plan)


@pytest.mark.usefixtures("patient")
def test_a_reply_that_repeats_ones_own_fact_stays_ones_own_under_another_spelling(memory: Memory) -> None:
    """A private turn before which memory told something private of the same person is theirs, and not nobody's."""
    memory.store.add_fact("locker number", "4711", scope="user:Zoë")
    loop = AgentLoop(Model(otherwise="Your locker is 4711."), hooks=memory.hooks(session_id="hall"))
    loop.run("What is the number of my locker?", speaker="ZOË", private=True)
    loop.run("And once more, the number of my locker?", speaker="zoë")
    turns = memory.sessions.journal.read_turns("hall", reader=Reader("Zoë"))
    assert [(turn.answer, turn.owner) for turn in turns] == [("private", "Zoë")] * 2
    assert "4711" in turns[0].block
