"""The judge of what learning finds: its sets keep their form, and it tells found from false."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import edgemem
from edgemem.errors import InvalidInputError
from edgemem.thoughts import EdgeRecord, EdgeType
from lab.judge import SetClock
from lab.planted import are_days_told, counts, is_newest_first, is_time_told, run, verdicts
from lab.planted_homes import (
    Home,
    Kind,
    Planted,
    Reflection,
    Said,
    path_of,
    read_homes,
    read_reflections,
    tell,
)

KINDS: tuple[Kind, ...] = ("chains", "routines")
LADDER = Planted(("a1", "a2", "a3"), ("cellar",), ("shed",))
BIKE = Planted(("b1", "b2"), ("hall",), ("station",))
NEWS = Planted(("a1", "a2", "a3"), time="07:10", days="weekdays")
SAID = tuple(Said(id_, "2026-03-03T08:00", "ines", id_) for id_ in ("a1", "a2", "a3", "b1", "b2", "n1", "f1"))
HOME = Home("h", "en", ("ines",), frozenset(), SAID, (LADDER, BIKE), {"another's": ("n1",)})


@pytest.mark.parametrize("kind", KINDS)
def test_two_hundred_things_are_planted_among_as_many_decoys(kind: Kind) -> None:
    """A quarter is German or more; what is planted and what is a decoy was said, by somebody of the home, and nothing is both."""
    homes = [home for sealed in (False, True) for home in read_homes(path_of(kind, sealed=sealed))]
    german = sum(len(home.planted) for home in homes if home.language == "de")
    assert len({home.name for home in homes}) == len(homes) == 15
    assert sum(len(home.planted) for home in homes) >= 200
    assert 0.25 <= german / sum(len(home.planted) for home in homes) <= 0.35
    for home in homes:
        said = [said.id for said in home.said]
        members = [id_ for planted in home.planted for id_ in planted.members]
        decoys = [id_ for ids in home.decoys.values() for id_ in ids]
        assert len(said) == len(set(said)) == len(members) + len(decoys) + 30
        assert {*members, *decoys} <= {*said}
        assert home.private <= {*members, *decoys}
        assert len(members) + len(decoys) == len({*members, *decoys})
        assert len(decoys) >= len(home.planted)
        assert list(home.said) == sorted(home.said, key=lambda one: one.at)
        assert all(one.speaker in home.people or one.id in decoys for one in home.said)


def test_the_sealed_half_is_shown_to_a_judge_alone() -> None:
    """Counts are for everybody; its first line says who may read it."""
    for kind in KINDS:
        assert path_of(kind, sealed=True).read_text("utf-8").startswith("# Sealed: only who judges")
    with pytest.raises(InvalidInputError, match="sealed"):
        run(sealed=True, show=True)


@pytest.mark.parametrize(
    ("members", "found", "false", "joined"),
    [
        (("a3", "a2", "a1"), {0}, 0, set()),
        (("a3", "a1"), {0}, 0, set()),
        (("a3", "a1", "f1"), {0}, 0, set()),
        (("b1",), set(), 0, set()),
        (("a3", "a2", "a1", "n1"), set(), 0, {"another's"}),
        (("a3", "a2", "b2"), set(), 0, {"other planted"}),
        (("a3", "b2"), set(), 1, {"other planted"}),
        (("n1", "f1"), set(), 1, {"another's"}),
        (("f1", ""), set(), 1, set()),
        ((), set(), 1, set()),
    ],
)
def test_a_reflection_finds_what_it_holds_most_of_and_nothing_else(
    members: tuple[str, ...], found: set[int], false: int, joined: set[str]
) -> None:
    """Two thirds of its members are enough; a decoy or a member of another spoils it, small talk does not."""
    judged = verdicts(HOME, [Reflection("ladder: in the cellar", members)])
    assert judged.found.keys() == found
    assert (len(judged.false), {*judged.joined}) == (false, joined)


def test_what_is_found_among_others_is_told_apart() -> None:
    """So is what joins a private saying with one that the household may read, which never may be."""
    made = [[Reflection("ladder: in the cellar", (*LADDER.members, "n1"))]]
    figures = counts("chains", [HOME], made)
    assert (figures["found"], figures["found_with_others"], figures["of_two_owners"]) == (0.0, 1 / 2, 0)
    private = msgspec.structs.replace(HOME, private=frozenset({"a2"}))
    assert counts("chains", [private], made)["of_two_owners"] == 1


def test_what_is_found_twice_counts_once() -> None:
    """A false one counts among all that were made."""
    made = [Reflection("ladder: in the cellar", LADDER.members)] * 2 + [Reflection("the film", ("n1", "f1"))]
    figures = counts("chains", [HOME], [made])
    assert (figures["found"], figures["false"], figures["newest_first"]) == (1 / 2, 1 / 3, 1.0)


@pytest.mark.parametrize(
    ("essence", "expected"),
    [
        ("ladder: in the cellar (since 12 May), before: behind the shed", True),
        ("Leiter: Cellar, vorher: shed", True),
        ("ladder: behind the shed, before: in the cellar", False),
        ("ladder: behind the shed, then in the cellar", False),
        ("ladder: three messages", False),
    ],
)
def test_the_newest_value_is_told_first_or_not(essence: str, expected: bool) -> None:
    """It is where a word of it comes before any old one, and before "before"."""
    assert is_newest_first(LADDER, Reflection(essence, ())) is expected


@pytest.mark.parametrize(
    ("essence", "time", "days"),
    [
        ("news at 07:05 on weekdays (5 times, last on 3 June)", True, True),
        ("Nachrichten um 7.20 Uhr werktags", True, True),
        ("news at 07:30 from Monday to Friday", False, True),
        ("news at 19:10 on Mondays", False, False),
        ("news every day", False, False),
    ],
)
def test_time_and_days_of_a_routine_are_told_or_not(essence: str, time: bool, days: bool) -> None:
    """A quarter of an hour is near enough, and other days are wrong."""
    reflection = Reflection(essence, ())
    assert (is_time_told(NEWS, reflection), are_days_told(NEWS, reflection)) == (time, days)


def test_members_are_read_as_what_was_said(tmp_path: Path) -> None:
    """A message, the episode of its tool and a fact that rests on it are one saying; what another learner made does not count."""
    said = (
        Said("a", "2026-03-03T07:10", "ines", "news please", "radio", '{"station":"news"}'),
        Said("b", "2026-03-04T07:12", "ines", "put the news on"),
    )
    home = Home("h", "en", ("ines",), frozenset({"b"}), said, (), {})
    clock = SetClock()
    with edgemem.open(tmp_path / "home", clock=clock, worker=False) as memory:
        told = tell(memory, clock, home)
        ids = {kind: [id_ for id_ in told if id_.startswith(kind)] for kind in ("turn", "episode")}
        memory.store.add_fact("news", "at seven")
        fact = f"fact:{memory.store.facts(scope='global')[0].id}"
        last = next(id_ for id_ in ids["turn"] if told[id_] == "b")
        reflections = [
            memory.thoughts.remember(f"news of the {learner}").thought_id
            for learner in ("routines", "chains")
        ]
        ends = [(fact, last, EdgeType.DERIVED_FROM)]
        ends += [(reflections[0], end, EdgeType.CONSOLIDATED_FROM) for end in (fact, ids["episode"][0], reflections[1])]  # fmt: skip
        for n, (start, end, kind) in enumerate(ends):
            memory.thoughts.create_edge(
                EdgeRecord(edge_id=f"{n}", from_thought_id=start, to_thought_id=end, edge_type=kind)
            )
        for id_, learner in zip(reflections, ("routines", "chains"), strict=True):
            memory.thoughts.update_thought(id_, metadata={"learner": learner})
        memory.diagnostics.database.write(  # no caller makes a reflection
            lambda tx: tx.execute("update stored_thoughts set type = 'REFLECTION'")
        )
        (read,) = read_reflections(memory, "routines", told)
    assert (read.essence, sorted(read.members)) == ("news of the routines", ["", "a", "b"])
