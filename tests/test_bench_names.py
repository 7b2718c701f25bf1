"""Misheard names and words are measured by pairs of our own, half of which nobody looks at."""

from __future__ import annotations

from pathlib import Path

import edgemem
from edgemem.bench.ground import quiet
from edgemem.recall.text.analyse import plain_words
from lab.misheard import recall_at
from lab.names import OTHERS, K, fill, finds, grouped, pairs
from lab.noise import noisy
from lab.weeks import Weeks, weeks


def test_the_halves_share_no_name() -> None:
    """There are two hundred pairs in each half; no name stands in both, and none is heard as it is written."""
    tuned, held_out = pairs("tuned"), pairs("held_out")
    assert min(len(tuned), len(held_out)) >= 200
    names = [{tuple(plain_words(name)) for name, _ in half} for half in (tuned, held_out)]
    assert not names[0] & names[1]
    assert all(plain_words(name) != heard.split() for name, heard in tuned + held_out)


def test_each_memory_knows_sixty_others(tmp_path: Path) -> None:
    """Every pair is asked once, in a memory of sixty-one people; by the right name, everybody is found."""
    asked = pairs("tuned")
    groups = grouped(asked)
    assert sorted(pair for group in groups for pair in group) == sorted(asked)
    assert all(
        len({tuple(plain_words(name)) for name, _ in group}) == len(group) <= OTHERS + 1 for group in groups
    )
    with edgemem.open(tmp_path / "home", profile=quiet(), worker=False) as memory:
        people = fill(memory, [name for name, _ in groups[-1]])
        memory.idle(30)
        assert len(people) == OTHERS + 1
        assert {way for _, way in people.values()} == {"fact", "own fact", "turn"}
        assert all(finds(memory, people, name, name.lower())[0] for name in people)
        assert not finds(memory, people, next(iter(people)), "zzyzx")[0] or len(people) <= K


def test_recall_is_measured_on_what_was_heard(tmp_path: Path) -> None:
    """A few sessions are found as they were written, and the same with mistakes, under the same ids."""
    whole = weeks(1, "learnt")
    kept = {turn.session for turn in whole.turns[:200]}
    turns = tuple(turn for turn in whole.turns if turn.session in kept)
    ids = {turn.id for turn in turns}
    few = Weeks(turns, tuple(one for one in whole.questions if one.evidence and ids.issuperset(one.evidence)))
    clean = recall_at(tmp_path / "clean", few, 5, asked=20, meaning=False)
    wrong = recall_at(tmp_path / "wrong", noisy(few, 0.6), 5, asked=20, meaning=False)
    assert clean > 0.4
    assert wrong <= clean
