"""The sets that judge hops along edges: what they name is there, and each kind of question has its share."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from edgemem.thoughts import EdgeType
from lab.hops import FILE, TABLES, read_homes, run

FILES = (FILE, FILE.with_name("hops_kept.toml"))
SHARES = {"hop": 0.4, "direct": 0.3, "none": 0.15, "rights": 0.15}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_set_has_ten_homes_and_its_share_of_each_kind(path: Path) -> None:
    """A fifth is German, and no home is much smaller than another."""
    homes = read_homes(path)
    kinds = Counter(asked.kind for home in homes for asked in home.questions)
    assert len(homes) == 10
    assert sum(home.language == "de" for home in homes) == 2
    assert all(kinds[kind] >= share * kinds.total() for kind, share in SHARES.items())
    assert all(12 <= len(home.said) + len(home.records) <= 30 for home in homes)
    assert all(8 <= len(home.questions) <= 14 for home in homes)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_edges_and_questions_name_records_of_their_home(path: Path) -> None:
    """A hop's answer hangs by an edge, stored or told by a fact or a reply; nothing is both expected and wrong."""
    for home in read_homes(path):
        names = [row[0] for row in (*home.said, *home.records)]
        replies = {f"{row[0]}.reply" for row in home.said}
        linked = {end for edge in home.edges for end in (edge[0], edge[2])}
        assert len(names) == len({*names, *replies}) - len(replies)
        assert linked <= {*names, *replies}
        assert {edge[1] for edge in home.edges} <= set(EdgeType)
        assert {*home.told.values(), *home.private} <= {row[0] for row in home.said}
        assert all(row[1] in TABLES for row in home.records if row[3])
        for asked in home.questions:
            assert asked.asker in ("", *home.people)
            assert {*asked.expected, *asked.wrong} <= {*names, *replies}
            assert not {*asked.expected} & {*asked.wrong}
            if asked.kind == "hop":
                assert {*asked.expected} <= linked | replies | home.told.keys()


def test_the_two_sets_share_no_home_and_no_question() -> None:
    """Whoever builds on one learns nothing of the other."""
    first, second = (
        {text for home in read_homes(path) for text in (home.name, *(asked.text for asked in home.questions))}
        for path in FILES
    )
    assert not first & second


def test_a_run_is_told_beside_another_question_by_question(tmp_path: Path) -> None:
    """Words alone find what is direct; the same run differs from itself by nothing."""
    home = "\n".join(
        (
            '[[home]]\nname = "hut"\nlanguage = "en"\npeople = ["Mia"]\nedges = [["lake", "ASSOCIATED", "case", 1.0, ""]]',
            'said = [["lake", "s", "Mia", "We drive to the lake on Sunday.", "Noted."]]',
            'records = [["case", "NOTE", "household", "", "The red suitcase has a broken wheel."]]',
            'questions = [["direct", "Mia", "when do we drive to the lake", ["lake"], ["case"]]]',
        )
    )
    (tmp_path / "home.toml").write_text(home, "utf-8")
    options = {"file": tmp_path / "home.toml", "words": True}
    first = run(**options, save=tmp_path / "scores")
    second = run(**options, against=tmp_path / "scores")
    assert first["direct: R@1"]["mean"] == 1
    assert first["ok"]
    assert second["changed"] == {}
