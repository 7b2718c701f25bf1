"""Compounds: who asks in German for the Tonne is told of the Papiertonne, and the other way round."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support import homes

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.memory import Memory

    Tell = Callable[..., None]

OTHERS = (
    "Oma kommt am Sonntag zu Besuch.",
    "Wann der Gärtner kommt, weiß Ben.",
    "Lena lernt für die Prüfung.",
)
BIN, PAPER_BIN = "Die Tonne wird am Dienstag geleert.", "Die Papiertonne wird am Dienstag geleert."


@pytest.fixture(params=["at once", "indexed"])
def tell(request: pytest.FixtureRequest, memory: Memory) -> Tell:
    """Return a function that says something in a German home, each in a talk of its own."""

    def say(*texts: str) -> None:
        for text in (*texts, *OTHERS):
            homes.tell(memory, text, text, speaker="Ben")
        if request.param == "indexed":
            assert memory.idle(10)

    return say


def hits(memory: Memory, question: str) -> list[str]:
    return [hit.text for hit in memory.recall(question)]


@pytest.mark.parametrize(
    ("spoken", "question"),
    [(PAPER_BIN, "Wo steht die Tonne?"), (BIN, "Wo steht die Papiertonne?"), ("Der Müllplan hängt am Schrank.", "Wo ist der Plan?"), ("Die Stromrechnung ist bezahlt.", "Wo liegt die Rechnung?")],
)  # fmt: skip
def test_a_compound_and_its_end_find_one_another(
    memory: Memory, tell: Tell, spoken: str, question: str
) -> None:
    """Whichever of the two was told and whichever is asked for, before the index knows of it and after."""
    tell(spoken)
    assert hits(memory, question)[:1] == [spoken]


@pytest.mark.parametrize(("asked", "other"), [(BIN, PAPER_BIN), (PAPER_BIN, BIN)])
def test_what_was_asked_for_counts_more(memory: Memory, tell: Tell, asked: str, other: str) -> None:
    """Where both were told, the word of the question comes first, though the other was told later."""
    tell(asked, other)
    assert hits(memory, f"Wo steht die {asked.split()[1]}?")[0] == asked


@pytest.mark.parametrize(
    ("spoken", "question"),
    [("Der Monat war schön.", "Wo ist die Nat?"), ("Das Brot liegt auf dem Brett.", "Wo ist das Rett?"), (PAPER_BIN, "Where is the tonne?")],
)  # fmt: skip
def test_what_only_ends_alike_does_not(memory: Memory, tell: Tell, spoken: str, question: str) -> None:
    """A short end, a short beginning, and the words of an English question say nothing: what was told longest ago comes last."""
    tell(spoken)
    assert hits(memory, question)[-1] == spoken
