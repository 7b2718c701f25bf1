"""Facts that people tell by the way: what is kept of them, as whose, and how it goes again; found by an extractor of the test's own."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import edgemem
from edgemem.config import LearnSettings, LlamaSettings, Profile
from edgemem.errors import InvalidInputError
from edgemem.learn import statements
from edgemem.learn.extraction import Statement, checked_statements
from edgemem.learn.learning import cursor_of
from edgemem.records import Heard, Reader, StoredMessage, Turn
from edgemem.store import turns
from support.homes import files_with, tell

STATEMENTS = LearnSettings(("statements",))


class Marks:
    """Finds what a test marks: "(place: the drill | in the shed)"."""

    def extract(self, text: str, _language: str) -> list[Statement]:
        if not text.startswith("("):
            return []
        kind, _, rest = text.strip("()").partition(":")
        thing, *owner, value = (part.strip() for part in rest.split("|"))
        return [Statement(kind, value, thing=thing, owner="".join(owner))]  # type: ignore[arg-type]


@pytest.fixture
def memory(tmp_path):
    with opened(tmp_path) as memory:
        yield memory


def opened(folder: Path) -> edgemem.Memory:
    profile = Profile(llama=LlamaSettings(embedder=""), learn=STATEMENTS)
    memory = edgemem.open(folder / "home", profile=profile, worker=False)
    memory.learning.extractors.append(Marks())
    return memory


def said(memory, *texts: str, session: str = "s", **more) -> None:
    begin = len(memory.sessions.journal.read_turns(session))
    for n, text in enumerate(texts, begin):
        tell(memory, text, session, n, **more)
    memory.idle(5)


def known(memory, speaker: str | None = "alice", scope: str = "household") -> dict[str, str]:
    reader = Reader(speaker)
    return {fact.key: fact.value for fact in memory.store.facts(scope=scope, reader=reader)}


def learnt(memory) -> list[str]:
    return [thought.content for thought in memory.learning.log()]


def test_a_statement_is_a_fact_of_its_speaker_with_its_evidence(memory) -> None:
    """Its source is talk, its trust less than what is kept on purpose, and an edge leads to the words."""
    text = "(place: my glasses | on the shelf)"
    said(memory, text)
    (fact,) = memory.store.facts(scope="household")
    assert (fact.key, fact.value, fact.source, fact.trust) == ("alice.glasses", "on the shelf", "talk", 1)
    (edge,) = memory.thoughts.get_edges(f"fact:{fact.id}")
    assert text[edge.metadata["begin"] : edge.metadata["end"]] == "on the shelf"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("(place: the drill | in the shed)", "drill"),
        ("(danger: | walnuts)", "alice.danger"),
        ("(danger: | Marta | walnuts)", "marta.danger"),
        ("(like: tea | my husband | black)", "alice.husband_tea"),
        ("(code: our gate | 4711)", "gate"),
    ],
)
def test_a_fact_is_called_after_whom_it_is_about(memory, text: str, key: str) -> None:
    """Speakers' own things after them, other people's after these, the household's after nobody."""
    said(memory, text)
    assert [*known(memory)] == [key]


def test_a_new_value_supersedes_the_old_one_and_another_liking_does_not(memory) -> None:
    """A thing is in one place, and a person likes many things."""
    said(memory, "(place: the drill | in the shed)", "(place: the drill | in the cellar)")
    said(memory, "(like: | plums)", "(like: | pears)", "(like: | plums)")
    assert known(memory) == {"drill": "in the cellar", "alice.likes": "plums", "alice.likes_2": "pears"}


def test_a_correction_has_the_trust_of_who_said_the_old_value(memory) -> None:
    """What alice kept on purpose is corrected by her, and doubted where bob says otherwise."""
    memory.store.add_fact("drill", "in the shed", scope="household", heard=Heard("alice"))
    said(memory, "(correction: the drill | in the cellar)")
    assert known(memory) == {"drill": "in the cellar"}
    said(memory, "(correction: the drill | at work)", session="b", speaker="bob")
    assert known(memory) == {"drill": "in the cellar"}


def test_a_list_gains_and_loses_items(memory) -> None:
    """It is never overwritten."""
    said(memory, "(list_add: | flour)", "(list_add: | two eggs)", "(list_add: | flour)")
    assert known(memory) == {"shopping_list": "flour, two eggs"}
    said(memory, "(list_remove: | eggs)", "(list_remove: | soap)")
    assert known(memory) == {"shopping_list": "flour"}


def test_private_words_make_private_facts(memory) -> None:
    """Nobody else reads them, and they change no fact of the household."""
    said(memory, "(place: the gift | in the attic)", level="private", owner="alice")
    said(memory, "(place: the gift | at the shop)", session="b", speaker="bob")
    assert known(memory, "bob") == {"gift": "at the shop"}
    assert known(memory, "alice", "user:alice") == {"gift": "in the attic"}
    assert known(memory, "bob", "user:alice") == {}


@pytest.mark.parametrize("speaker", [None, ""])
def test_nothing_is_learnt_of_an_unknown_voice(memory, speaker) -> None:
    """Nor of what was heard badly."""
    said(memory, "(place: the drill | in the shed)", speaker=speaker)
    turn = memory.session("k").turn
    with turn("(place: the saw | in the shed)", speaker="alice", heard=Heard(asr_confidence=0.1)) as bad:
        bad.reply("Okay.")
    memory.idle(5)
    assert learnt(memory) == []


@pytest.mark.parametrize("way", ["session", "person", "turn"])
def test_it_goes_with_the_words_that_it_was_learnt_from(memory, tmp_path, way: str) -> None:
    """In the same transaction, and what others said before holds again; bytes included."""
    said(memory, "(place: the drill | in the shed)", session="b", speaker="bob")
    said(memory, "(place: the drill | zanzibar)")
    assert known(memory) == {"drill": "zanzibar"}
    memory.forget(**{"session": {"session": "s"}, "person": {"person": "alice"}, "turn": {"session": "s", "turn": 0}}[way])  # fmt: skip
    assert "zanzibar" not in str(memory.store.fact_history("drill", scope="household"))
    memory.idle(5)
    memory.close()
    assert files_with(tmp_path, "zanzibar") == []


def test_what_two_said_stays_when_one_is_forgotten(memory) -> None:
    """A fact that stands on other words too is kept."""
    said(memory, "(place: the drill | in the shed)")
    said(memory, "(place: the drill | in the shed)", session="b", speaker="bob")
    memory.forget(session="b")
    assert known(memory) == {"drill": "in the shed"}


def test_what_was_undone_is_not_learnt_again(memory) -> None:
    """The value before holds again, and the same words teach nothing."""
    said(memory, "(place: the drill | in the shed)", "(place: the drill | at work)")
    memory.learning.undo(memory.learning.log()[0].thought_id)
    assert known(memory) == {"drill": "in the shed"}
    said(memory, "(place: the drill | at work)", session="t")
    assert known(memory) == {"drill": "in the shed"}


def test_two_processes_and_a_kill_learn_once(memory, tmp_path) -> None:
    """Each goes on where the cursor is."""
    tell(memory, "(list_add: | flour)")
    with opened(tmp_path) as other:
        other.idle(5)
        memory.idle(5)
        assert known(other) == known(memory) == {"shopping_list": "flour"}
        assert cursor_of(memory.diagnostics.database, "statements") > 0


def test_what_a_model_kept_of_an_utterance_is_enough(memory) -> None:
    """Nothing more is learnt of that."""
    database, heard = memory.diagnostics.database, Heard("alice")
    begun = database.write(lambda tx: tx.tick())
    memory.store.add_fact("drill", "shed", scope="household", source="llm", heard=heard)
    turn = Turn("s", 0, (StoredMessage("user", "(place: the drill | in the shed)"),), heard=heard)
    database.write(lambda tx: turns.commit_turn(tx, turn, recorded=begun))
    memory.idle(5)
    assert known(memory) == {"drill": "shed"}


class Faulty:
    """Raises, hangs, or returns what is no statement."""

    def __init__(self, result: object) -> None:
        self.result, self.asked = result, 0

    def extract(self, _text: str, _language: str) -> object:
        self.asked += 1
        if isinstance(self.result, Exception):
            raise self.result
        if isinstance(self.result, float):
            time.sleep(self.result)
        return self.result


@pytest.mark.parametrize(
    "result",
    [
        ValueError("no"), "The drill is in the shed.", None, [1], [Statement("place", "on the moon", thing="drill")],
        [Statement("gossip", "drill")], [Statement("place", "")], [Statement("place", 3)],
    ],
)  # fmt: skip
def test_an_extractor_that_is_wrong_stores_nothing_and_holds_up_nobody(memory, caplog, result) -> None:
    """A sentence in the log says why, and learning goes on behind it."""
    memory.learning.extractors.insert(0, Faulty(result))
    said(memory, "(place: drill | here)")
    assert known(memory) == {"drill": "here"}
    assert "Faulty" in caplog.text


def test_an_extractor_that_hangs_is_not_asked_again(memory, monkeypatch, caplog) -> None:
    """Learning goes on without it."""
    monkeypatch.setattr(statements, "_DEADLINE_S", 0.05)
    hanging = Faulty(0.5)
    memory.learning.extractors.insert(0, hanging)
    said(memory, "(place: drill | here)", "(place: saw | there)")
    assert (known(memory), hanging.asked) == ({"drill": "here", "saw": "there"}, 1)
    assert "not asked again" in caplog.text


def test_what_an_extractor_finds_must_stand_in_the_text() -> None:
    """Its place is found there."""
    (one,) = checked_statements(
        [Statement("place", "in the shed", thing="drill")], "the drill is in the shed"
    )
    assert (one.begin, one.end) == (13, 24)
    with pytest.raises(InvalidInputError, match="no part"):
        checked_statements([Statement("place", "shed", thing="saw")], "the drill is in the shed")
