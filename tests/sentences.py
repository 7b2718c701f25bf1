"""The sentences of `data/sentences.toml`, each with what edgemem is to make of it."""

from __future__ import annotations

from pathlib import Path

import msgspec

_TABLES = msgspec.toml.decode(
    (Path(__file__).parent / "data" / "sentences.toml").read_bytes(), type=dict[str, dict[str, str]]
)


def sentences(table: str) -> dict[str, str]:
    """Return the sentences of a table with their answers."""
    answers = {}
    for answer, listed in _TABLES[table].items():
        for sentence in filter(None, (" ".join(item.split()) for item in listed.split("|"))):
            text, _, own = sentence.partition(" = ")
            answers[text] = own if answer == "each" else answer
    return answers
