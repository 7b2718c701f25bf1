"""The judge of what talk teaches: its files keep their form, and it tells what is right from what is wrong."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import edgemem
from edgemem.errors import InvalidInputError
from edgemem.thoughts import EdgeRecord, EdgeType
from lab.judge import SetClock
from lab.talk import run
from lab.talk_homes import FILE, NOTHING, ROBOT, SEALED, read_homes, read_learnt, read_nothing, tell
from lab.talk_verdicts import Label, Learnt, verdict

FILES = (FILE, SEALED)
DENTIST = Label("appointment", ("ines",), ("dentist",), ("Friday at nine",), True, "2026-03-06T09:00")
OLIVES = Label("like", ("ines",), ("olives", "dislike"), ("doesn't eat them", "olives"), True)
PLACE = Label("place", ("household",), ("spare key",), ("sugar tin, top shelf",), True)
FLOUR = Label("list_add", ("household",), ("shopping list",), ("flour",), True)
NAME = Label("name", ("ines",), ("sister",), ("Ada",), True)
ILLNESS = Label("danger", ("ines",), ("allergy",), ("walnuts",), True, optional=True)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_half_of_a_set_of_talk_teaches_something(path: Path) -> None:
    """Every fact says whose it is, what, and which value; what is promised is of a promised kind, and nothing is told by the robot or by what was heard badly."""
    homes = read_homes(path)
    said = [said for home in homes for said in home.said]
    labels = [label for one in said for label in one.facts]
    assert 280 <= len(said) <= 310
    assert 0.4 <= sum(bool(one.facts) for one in said) / len(said) <= 0.6
    assert 0.25 <= sum(len(home.said) for home in homes if home.language == "de") / len(said) <= 0.35
    assert all(label.subject and label.thing and label.value for label in labels)
    assert all(label.promised == (label.kind != "other") for label in labels)
    assert all(not one.facts for one in said if one.speaker == ROBOT or (one.heard or 1) < 0.4)
    assert sum(label.optional for label in labels) < len(labels) / 6


def test_the_halves_are_balanced_and_share_nothing() -> None:
    """A home stands in one of them, with all of its utterances."""
    first, second = map(read_homes, FILES)
    ids = [said.id for home in (*first, *second) for said in home.said]
    kinds = [Counter(label.kind for home in half for said in home.said for label in said.facts) for half in (first, second)]  # fmt: skip
    assert len(ids) == len(set(ids))
    assert not {home.name for home in first} & {home.name for home in second}
    assert kinds[0].keys() == kinds[1].keys()
    assert all(abs(n - kinds[1][kind]) <= 4 for kind, n in kinds[0].items())


def test_2000_lines_teach_nothing_and_differ() -> None:
    """They are none of the utterances of the homes."""
    lines = NOTHING.read_text("utf-8").splitlines()[1:]
    texts = {said.text for path in FILES for home in read_homes(path) for said in home.said}
    assert len(lines) == len(set(lines)) == len(read_nothing()[0].said) == 2000
    assert not texts & set(lines)


def test_the_sealed_half_is_shown_to_a_judge_alone() -> None:
    """Counts are for everybody; its first line says who may read it."""
    assert SEALED.read_text("utf-8").startswith("# Sealed: only who judges")
    with pytest.raises(InvalidInputError, match="sealed"):
        run(extractor="m:E", file=SEALED, show=True)


@pytest.mark.parametrize(
    ("label", "key", "value", "day", "expected"),
    [
        (DENTIST, "ines.dentist", "on Friday at 9", "2026-03-06T09:00", "right"),
        (DENTIST, "ines.dentist", "Friday at nine", "2026-03-06", "right"),
        (DENTIST, "ines.appointment", "dentist", "2026-03-06T09:00", "right"),
        (DENTIST, "ines.dentist", "Friday at nine", "2026-03-13T09:00", "day"),
        (DENTIST, "ines.dentist", "Friday at nine", "", "day"),
        (DENTIST, "dentist", "Friday at nine", "2026-03-06T09:00", "subject"),
        (OLIVES, "ines.olives", "doesn't eat them", "", "right"),
        (OLIVES, "ines.dislikes", "Olives", "", "right"),
        (OLIVES, "ines.likes", "olives", "", "value"),
        (OLIVES, "ines.dislikes", "olives", "2026-04-01", "day"),
        (PLACE, "spare_keys", "in the sugar tin on the top shelf", "", "right"),
        (PLACE, "household.spare_key", "not in the sugar tin, top shelf", "", "value"),
        (PLACE, "household.location", "sugar tin, top shelf", "", "thing"),
        (PLACE, "cat", "on the roof", "", "no label"),
        (NAME, "ines.sister", "Ada", "", "right"),
        (NAME, "ines.name", "Ada", "", "thing"),
        (ILLNESS, "ines.walnuts", "allergic", "", "optional"),
        (ILLNESS, "ines.bike", "red", "", "no label"),
        (FLOUR, "shopping_list", "flour", "", "thing"),
    ],
)  # fmt: skip
def test_a_fact_is_right_in_other_words_and_wrong_by_its_first_fault(
    label: Label, key: str, value: str, day: str, expected: str
) -> None:
    """Synonyms, numbers and a generic key do not matter; denial, day and subject do."""
    assert verdict(Learnt(key, value, day, "", ("t1",)), [label], ["ines"], "2026-03-03T10:00")[0] == expected


def test_learnt_facts_and_items_of_lists_are_read_with_what_they_rest_on(tmp_path: Path) -> None:
    """Every version counts; facts of another source do not, and what rests on the robot's words rests on nobody's."""
    home = tmp_path / "home.toml"
    home.write_text(
        '[[home]]\nname = "h"\nlanguage = "en"\nsaid = [\n'
        '{id = "a", speaker = "ines", at = "2026-03-03T10:00", before = "Flour?", text = "we need flour", facts = []},\n'
        '{id = "b", speaker = "ines", at = "2026-03-03T10:05", text = "got the flour, add soap", facts = []}\n]\n'
    )
    with edgemem.open(tmp_path / "memory", clock=SetClock(), worker=False) as memory:
        clock = memory.diagnostics.clock
        assert isinstance(clock, SetClock)
        told = {id_: turn for turn, id_ in tell(memory, clock, read_homes(home)[0]).items()}
        reply = memory.diagnostics.database.query("select 'turn:' || id from messages order by id")[1][0]

        def learn(key: str, value: object, turn: str, source: str = "talk") -> None:
            memory.store.add_fact(key, value, source=source)
            (fact,) = memory.store.facts(scope="global")[:1]
            clock.at += 1.0
            edge = EdgeRecord(edge_id=f"{key}{turn}{value}", edge_type=EdgeType.DERIVED_FROM, from_thought_id=f"fact:{fact.id}", to_thought_id=turn)  # fmt: skip
            memory.thoughts.create_edge(edge)
            memory.thoughts.update_thought(f"fact:{fact.id}", metadata={"at": "2026-03-03"})

        learn("shopping_list", ["flour"], told["a"])
        learn("shopping_list", ["soap"], told["b"])
        learn("flour", "asked for", reply)
        learn("bike", "red", told["b"], source="llm")
        found = list(read_learnt(memory, {turn: id_ for id_, turn in told.items()}))
    assert found == [
        Learnt("shopping_list", "flour", "2026-03-03", "list_add", ("a",)),
        Learnt("shopping_list", "soap", "2026-03-03", "list_add", ("b",)),
        Learnt("shopping_list", "flour", "2026-03-03", "list_remove", ("b",)),
        Learnt("flour", "asked for", "2026-03-03", "", ()),
    ]
