"""Thoughts and edges as records: their limits, times, metadata, and the lifecycle."""

from datetime import datetime, timezone
from typing import Any

import numpy as np
import pytest

from edgemem.errors import InvalidInputError, InvalidTransitionError
from edgemem.thoughts import (
    EdgeRecord,
    LifecycleStatus,
    ThoughtVisibility,
    checked_filters,
    checked_metadata,
    pass_filters,
    traits_of,
    utc,
)
from support.thoughts import an_edge, thought

pytestmark = pytest.mark.quick


def test_a_thought_has_the_defaults_of_the_page() -> None:
    """What the page leaves out is as it says: selective, of experience, of cycle 0, true for all time."""
    stated = thought("a")
    assert (stated.created_cycle, stated.updated_cycle, stated.confidence) == (0, 0, None)
    assert (stated.source_type, stated.visibility) == ("EXPERIENCE", "selective")
    assert (stated.valid_from, stated.valid_until, stated.metadata, stated.pinned) == (None, None, {}, False)
    assert f"{stated.priority} {stated.lifecycle_status}" == "P2 ACTIVE"


@pytest.mark.parametrize(
    "wrong",
    [
        {"essence": ""}, {"essence": "x" * 201}, {"content": " "}, {"content": "x" * (1 << 21)}, {"source": ""},
        {"priority": "P5"}, {"thought_type": "IDEA"}, {"lifecycle_status": "active"}, {"confidence": 1.1},
        {"confidence": True}, {"created_cycle": 2}, {"created_cycle": -1}, {"updated_cycle": 1.0},
        {"valid_from": "2026-02-01", "valid_until": "2026-01-01"}, {"valid_from": "soon"}, {"expires_at": float("nan")},
        {"metadata": {"a": [1]}}, {"metadata": {"a": float("nan")}}, {"metadata": {1: "a"}}, {"metadata": []},
        {"metadata": {"a": "x" * (1 << 20)}}, {"metadata": {"a": 2**70}}, {"metadata": {"a": {1: 2}}},
        {"pinned": "true"}, {"aloud": ""}, {"aloud": None}, {"consolidated_from": "a"}, {"consolidated_from": (1,)},
        {"visibility": "public", "owner": "ines"}, {"visibility": "private", "owner": "ines"},
    ],
)  # fmt: skip
def test_a_wrong_thought_is_refused_in_one_sentence(wrong: dict[str, Any]) -> None:
    """Values out of the page's limits never make a record."""
    with pytest.raises(InvalidInputError) as refused:
        thought("a", **wrong)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 300])
def test_an_id_is_a_name_of_one_line(name: str) -> None:
    """An id that no line can hold makes no record."""
    with pytest.raises(InvalidInputError):
        thought(name)


def test_metadata_may_be_sixteen_dicts_deep() -> None:
    """A dict in a dict is kept, a hundred of them are refused."""

    def nested(depth: int) -> dict[str, Any]:
        return {"a": 1} if depth == 1 else {"a": nested(depth - 1)}

    assert checked_metadata(nested(16)) == nested(16)
    with pytest.raises(InvalidInputError, match="levels"):
        checked_metadata(nested(100))


def test_metadata_has_numbers_of_numpy_as_plain_ones() -> None:
    """What a sensor gives is kept, and found by a filter."""
    given = {"heat": np.float64(1.5), "half \ud800": "a"}
    kept = checked_metadata(given)
    assert [type(value) for value in kept.values()] == [float, str]
    assert pass_filters(traits_of(kept), checked_filters({"heat": np.float64(1.5)}))


@pytest.mark.parametrize(
    "moment",
    ["2026-01-31T09:00:00Z", "2026-01-31T10:00:00+01:00", "2026-01-31T09:00:00", 1769850000.0,
     datetime(2026, 1, 31, 9, tzinfo=timezone.utc)],
)  # fmt: skip
def test_a_time_is_kept_in_utc(moment: Any) -> None:
    """However a moment is written, it is one text."""
    assert utc(moment, "valid_from") == "2026-01-31T09:00:00+00:00"


@pytest.mark.parametrize("kind", [str, LifecycleStatus])
def test_the_lifecycle_holds_for_names_and_strings(kind: Any) -> None:
    """A status that may not follow is refused, given as a string too."""
    allowed = {
        ("CREATED", "ACTIVE"),
        ("ACTIVE", "DONE"),
        ("ACTIVE", "ARCHIVED"),
        ("DONE", "ARCHIVED"),
        ("ARCHIVED", "ACTIVE"),
    }
    for before in LifecycleStatus:
        for after in LifecycleStatus:
            stated = thought("a", lifecycle_status=before)
            if before is after or (before, after) in allowed:
                assert stated.evolve(lifecycle_status=kind(after)).lifecycle_status is after
            else:
                with pytest.raises(InvalidTransitionError):
                    stated.evolve(lifecycle_status=kind(after))


def test_what_is_selective_with_an_owner_is_private_to_them() -> None:
    """Visibility is the level by another name."""
    assert thought("a").level == "household"
    assert thought("a", visibility="public").level == "shared"
    assert thought("a", visibility=ThoughtVisibility.PRIVATE).level == "private"
    assert (thought("a", owner="user:ines").level, thought("a", owner="user:ines").owner) == (
        "private",
        "ines",
    )


def test_evolve_returns_another_record_and_knows_its_fields() -> None:
    """The record stays as it was; a field that it has not is named."""
    stated = thought("a")
    assert (stated.evolve(essence="x").essence, stated.essence) == ("x", "The blue mug is hers")
    for record in (stated, an_edge("e", "a", "b")):
        with pytest.raises(InvalidInputError, match="has no 'colour'"):
            record.evolve(colour="blue")


@pytest.mark.parametrize(
    "wrong",
    [
        {"weight": 2},
        {"weight": None},
        {"edge_type": "LIKES"},
        {"to_thought_id": "a"},
        {"level": "mine"},
        {"owner": 5},
    ],
)
def test_a_wrong_edge_is_refused(wrong: dict[str, Any]) -> None:
    """An edge has two ends, a type of the page and a weight from 0 to 1."""
    with pytest.raises(InvalidInputError):
        EdgeRecord(
            **{"edge_id": "e", "from_thought_id": "a", "to_thought_id": "b", "edge_type": "BRIDGE", **wrong}
        )
