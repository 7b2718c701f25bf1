"""Texts of `tests/data`, each with its expected answer."""

from pathlib import Path

import msgspec

DATA = Path(__file__).resolve().parents[1] / "data"
_SENTENCES = msgspec.toml.decode((DATA / "sentences.toml").read_bytes(), type=dict[str, dict[str, str]])
_ESTIMATED = msgspec.toml.decode(
    (DATA / "estimated_texts.toml").read_bytes(), type=dict[str, dict[str, list[str]]]
)
LATIN, OTHERS = _ESTIMATED["latin"], _ESTIMATED["others"]
"""Texts to which the constants of the estimate of tokens are set, by language and by script."""


def sentences(table: str) -> dict[str, str]:
    """Return the sentences of a table of `sentences.toml` with their answers."""
    answers = {}
    for answer, listed in _SENTENCES[table].items():
        for sentence in filter(None, (" ".join(item.split()) for item in listed.split("|"))):
            text, _, own = sentence.partition(" = ")
            answers[text] = own if answer == "each" else answer
    return answers
