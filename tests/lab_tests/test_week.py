"""The judge of a family's week: its set keeps its form, and it tells which questions memory serves."""

from __future__ import annotations

import msgspec
import pytest

from lab.judge import stands
from lab.week import WAYS, Said, conversations, judged, play, read_families

LADDER = Said("2026-04-17T20:02", "rob", "where's the ladder", (), (("pete", "next door"),), (("passage",),))


def test_three_families_have_weeks_of_eighty_turns() -> None:
    """One speaks German, half of the turns have no capitals, and what is asked for was told in an earlier conversation."""
    families = read_families()
    assert [family.language for family in families] == ["en", "en", "de"]
    for family in families:
        assert len(family.said) == 80
        assert list(family.said) == sorted(family.said, key=lambda said: said.at)
        assert len({said.at[:10] for said in family.said}) == 7
        assert 28 <= sum(bool(said.calls) for said in family.said) <= 32
        assert 23 <= sum(bool(said.required) for said in family.said) <= 27
        assert 35 <= sum(said.text[0].islower() for said in family.said) <= 48
        told: list[Said] = []
        for conversation in map(list, conversations(family.said)):
            for said in conversation:
                _check(said, told)
            told += (said for said in conversation if said.calls)


def _check(asked: Said, told: list[Said]) -> None:
    """Check that what is required is both in the words that tell and in the perfect calls, and that stale items were told."""
    words = [said.text for said in told]
    calls = [" ".join(map(str, call.values())) for said in told for call in said.calls]
    for item in asked.required:
        assert any(stands(wording, words) for wording in item), (asked.text, item)
        assert any(stands(wording, calls) for wording in item), (asked.text, item)
    for item in asked.stale:
        assert any(stands(wording, [*words, *calls]) for wording in item), (asked.text, item)


@pytest.mark.parametrize(
    ("block", "served"),
    [
        ("- ladder: lent to Pete", True),
        ("- ladder: lent to Pete (since 16 Apr), before: in the side passage", True),
        ("- Rob 14 Apr: The ladder's in the side passage\n- ladder: lent to Pete", False),
        ("- it rains", False),
    ],
)
def test_a_question_is_served_where_all_of_its_answer_stands_and_nothing_stale(
    block: str, served: bool
) -> None:
    """What is told as before does not stand as if it held."""
    assert judged(LADDER, block).served is served


def test_a_pause_parts_conversations() -> None:
    """Nobody speaks for more than half an hour."""
    said = [Said(f"2026-04-13T{time}", "dee", "hm") for time in ("07:00", "07:30", "08:01", "08:02")]
    assert [len(each) for each in conversations(said)] == [2, 2]


def test_perfect_calls_keep_what_they_are_given() -> None:
    """The value that only the call has stands before the question, and not without the call."""
    call = {"key": "drill", "value": "in the red box"}
    said = (
        Said("2026-04-13T07:00", "dee", "it is where dad had it", calls=(call,)),
        Said("2026-04-14T07:00", "dee", "where is the drill", required=(("red box",),)),
    )
    family = msgspec.structs.replace(read_families()[0], said=said)
    served = {
        name: [asked.served for asked in play(family, way, embedder="").asked] for name, way in WAYS.items()
    }
    assert served == {"learning": [False], "tools": [True], "neither": [False]}
    wrong = msgspec.structs.replace(said[0], calls=({"key": "", "value": "x"},))
    family = msgspec.structs.replace(family, said=(wrong, said[1]))
    assert len(play(family, WAYS["tools"], embedder="").refused) == 1
