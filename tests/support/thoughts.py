"""Thoughts and edges of tests."""

from typing import Any

from edgemem.thoughts import EdgeRecord, ThoughtRecord


def thought(thought_id: str, **fields: Any) -> ThoughtRecord:
    """Return an observation about a mug, with other fields as given."""
    stated = {
        "thought_type": "OBSERVATION", "essence": "The blue mug is hers", "priority": "P2", "lifecycle_status": "ACTIVE",
        "content": "The blue mug in the kitchen belongs to Ines.", "source": "test",
    }  # fmt: skip
    return ThoughtRecord(thought_id=thought_id, **{**stated, **fields})


def an_edge(edge_id: str, source: str, target: str, **fields: Any) -> EdgeRecord:
    """Return an edge between two thoughts, with other fields as given."""
    stated = {"edge_type": "ASSOCIATED", **fields}
    return EdgeRecord(edge_id=edge_id, from_thought_id=source, to_thought_id=target, **stated)
