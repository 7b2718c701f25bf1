"""Files of the bank, sessions and preferences are found by recall, by whoever may read them."""

import pytest

import edgemem
from edgemem.config import LlamaSettings, Profile
from support.homes import BY_WORDS, opened, tell

ON = '[bank]\nbackend = "{}"\n'
RECIPES = (
    "Sweet things.\n\n## Pancakes\nTake 200 g flour and three eggs.\n\n## Soup\nBoil a pumpkin for an hour.\n"
)


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("backend", ["files", "database"])
def test_a_section_is_found_with_and_without_the_index(tmp_path, backend, indexed):
    """What stands under a heading is one item, which tells the file, and the file's name helps to find it."""
    with opened(tmp_path / "home", ON.format(backend)) as memory:
        memory.store.add_fact("colour", "red", scope="user:Mara")
        memory.bank.for_person("mara").write_file("kitchen/recipes.md", RECIPES)
        if indexed:
            memory.idle(seconds=60)
        best = memory.recall("how many eggs for pancakes?", speaker="mara", kinds={"bank"})[0]
        assert best.text == "kitchen/recipes.md: Pancakes: Take 200 g flour and three eggs."
        assert best.source == "Mara/default/kitchen/recipes.md"
        assert (best.kind, best.level, best.scope) == ("bank", "private", "user:Mara")
        assert "Sweet things" in memory.recall("kitchen recipes", speaker="MARA", kinds={"bank"})[0].text


@pytest.mark.parametrize("backend", ["files", "database"])
def test_who_may_read_a_file_finds_it(tmp_path, backend):
    """A person's files are theirs, the household's are for who is recognised, and what is shared is anyone's."""
    with opened(tmp_path / "home", ON.format(backend)) as memory:
        bank = memory.bank
        banks = {"mara": bank.for_person("Mara"), "house": bank.household, "any": bank.shared}
        for name, place in banks.items():
            place.write_file("a.md", f"The pumpkin of {name}")
        for _ in ("unindexed", "indexed"):
            for speaker, readable in (("Mara", 3), ("Bob", 2), (None, 1)):
                items = memory.recall("pumpkin", speaker=speaker, k=9)
                assert {item.text.split()[-1] for item in items} == {*list(banks)[3 - readable :]}, speaker
            memory.idle(seconds=60)


def test_an_edit_by_hand_is_found_at_once(memory):
    """What somebody writes into the folder, changes and removes there is so with the next recall, indexed or not."""
    assert memory.recall("pumpkin") == []
    path = memory.home / "bank" / "mara" / "garden" / "plan.md"
    path.parent.mkdir(parents=True)
    path.write_text("# Beds\nPumpkins go behind the shed.")
    assert "shed" in memory.recall("pumpkins", speaker="Mara")[0].text
    memory.idle(seconds=60)
    path.write_text("# Beds\nPumpkins go beside the pond.")
    assert [item.text for item in memory.recall("pumpkins", speaker="Mara")] == [
        "plan.md: Beds: Pumpkins go beside the pond."
    ]
    memory.idle(seconds=60)
    path.unlink()
    assert memory.recall("pumpkins", speaker="Mara") == []


def test_a_name_that_is_spelled_later_keeps_its_files(memory):
    """A folder made by hand belongs to the person of that name in any spelling, before and after they first speak."""
    path = memory.home / "bank" / "mara" / "plan.md"
    path.parent.mkdir(parents=True)
    path.write_text("The pumpkins.")
    memory.idle(seconds=60)
    assert len(memory.recall("pumpkins", speaker="MARA")) == 1
    memory.store.add_fact("colour", "red", scope="user:Mara")
    memory.idle(seconds=60)
    assert [item.owner for item in memory.recall("pumpkins", speaker="mARa")] == ["Mara"]
    memory.bank.for_person("Mara", "one").write_file("a.md", "x")
    assert sorted(path.name for path in (memory.home / "bank").iterdir()) == ["mara"]


def test_a_long_section_is_found_by_its_paragraphs(memory):
    """A section of many paragraphs is several items, each under its heading."""
    paragraphs = [f"Paragraph of {name}. {'words ' * 150}" for name in ("apples", "pears", "quinces")]
    memory.bank.shared.write_file("long.md", "# Fruit\n" + "\n\n".join(paragraphs))
    items = memory.recall("quinces", kinds={"bank"})
    assert items[0].text.startswith("long.md: Fruit: Paragraph of quinces")
    assert len(items[0].text) < 1300


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


def texts(memory, query, speaker):
    return [r.text for r in memory.recall(query, speaker=speaker) if r.kind == "preference"]


def test_a_preference_is_recalled_before_and_after_it_is_indexed(tmp_path):
    """With its newest value only, at once, and by words and meaning later, by whoever may read it."""
    with edgemem.open(tmp_path, worker=False) as memory:
        memory.store.set_preference("wake.time", "half past six", scope="user:alice")
        for value in ("metric", "imperial"):
            memory.store.set_preference("units", value)
            for _ in range(2):
                assert texts(memory, "which units do we use?", "bob") == [f"units: {value}"]
                assert texts(memory, "when is the wake time?", "alice")[0] == "wake time: half past six"
                assert "wake time: half past six" not in texts(memory, "when is the wake time?", "bob")
                memory.idle(seconds=30)
        assert "units: metric" not in texts(memory, "metric", "bob")


def test_a_value_that_took_another_ones_place_scores_the_same_before_and_after_it_is_indexed(tmp_path):
    """To a hundredth: the old value counts for nothing at once, though the index has still to learn that it is over."""
    by_words = Profile(llama=LlamaSettings(embedder=""))
    with edgemem.open(tmp_path, profile=by_words, worker=False) as memory:
        for n in range(20):
            memory.store.add_fact(f"shelf.{n}", f"box {n}", scope="household")
        memory.store.add_fact("alarm.code", "4471", scope="household")
        memory.idle(seconds=30)
        memory.store.add_fact("alarm.code", "9382", scope="household")
        scores = []
        for _ in range(2):
            first = memory.recall("what's the alarm code", speaker="bob", k=1)[0]
            assert first.text == "alarm code: 9382"
            scores.append(first.score)
            memory.idle(seconds=30)
        assert scores[0] == pytest.approx(scores[1], abs=0.01)


def test_changes_that_wait_for_the_index_cost_a_recall_no_further_query(tmp_path, monkeypatch):
    """They are read once, and not with each question."""
    by_words = Profile(llama=LlamaSettings(embedder=""))
    with edgemem.open(tmp_path, profile=by_words, worker=False) as memory:
        for n in range(60):
            memory.store.add_fact(f"shelf.{n}", f"box {n}", scope="household")
        memory.idle(seconds=30)
        database, asked = memory.diagnostics.database, []
        query = database.query
        monkeypatch.setattr(database, "query", lambda sql, *values: asked.append(sql) or query(sql, *values))

        def queries() -> int:
            memory.recall("what is on shelf 7", speaker="bob", k=1)
            asked.clear()
            memory.recall("what is on shelf 7", speaker="bob", k=1)
            return len(asked)

        before = queries()
        for n in range(20, 60):
            memory.store.add_fact(f"shelf.{n}", f"basket {n}", scope="household")
        assert queries() == before
