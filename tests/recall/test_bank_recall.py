"""Files of the bank are found by recall, section by section, by whoever may read them."""

from __future__ import annotations

import pytest

from support.homes import opened

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
        memory.bank.for_person("mara").write("kitchen/recipes.md", RECIPES)
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
            place.write("a.md", f"The pumpkin of {name}")
        for _ in ("unindexed", "indexed"):
            for speaker, readable in (("Mara", 3), ("Bob", 2), (None, 1)):
                items = memory.recall("pumpkin", speaker=speaker, k=9)
                assert {item.text.split()[-1] for item in items} == {*list(banks)[3 - readable :]}, speaker
            memory.idle(seconds=60)


def test_an_edit_by_hand_is_found_at_once(tmp_path):
    """What somebody writes into the folder, changes and removes there is so with the next recall, indexed or not."""
    with opened(tmp_path / "home") as memory:
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


def test_a_name_that_is_spelled_later_keeps_its_files(tmp_path):
    """A folder made by hand belongs to the person of that name in any spelling, before and after they first speak."""
    with opened(tmp_path / "home") as memory:
        path = memory.home / "bank" / "mara" / "plan.md"
        path.parent.mkdir(parents=True)
        path.write_text("The pumpkins.")
        memory.idle(seconds=60)
        assert len(memory.recall("pumpkins", speaker="MARA")) == 1
        memory.store.add_fact("colour", "red", scope="user:Mara")
        memory.idle(seconds=60)
        assert [item.owner for item in memory.recall("pumpkins", speaker="mARa")] == ["Mara"]
        memory.bank.for_person("Mara", "one").write("a.md", "x")
        assert sorted(path.name for path in (memory.home / "bank").iterdir()) == ["mara"]


def test_a_long_section_is_found_by_its_paragraphs(tmp_path):
    """A section of many paragraphs is several items, each under its heading."""
    with opened(tmp_path / "home") as memory:
        paragraphs = [f"Paragraph of {name}. {'words ' * 150}" for name in ("apples", "pears", "quinces")]
        memory.bank.shared.write("long.md", "# Fruit\n" + "\n\n".join(paragraphs))
        items = memory.recall("quinces", kinds={"bank"})
        assert items[0].text.startswith("long.md: Fruit: Paragraph of quinces")
        assert len(items[0].text) < 1300
