"""What `edgemem.open` returns shows what a robot's program needs, and everything else hangs under `diagnostics`."""

from __future__ import annotations

import pytest

import edgemem
from edgemem.errors import ClosedError, InvalidInputError

NAMES = {
    *("home", "profile", "store", "sessions", "notes", "procedures", "bank"),
    *("recall", "recall_sessions", "session", "hooks", "tools", "hints"),
    *("forget", "export", "import_lines"),
    *("idle", "check", "close", "diagnostics"),
}
"""What users see (DESIGN section 3); whoever adds a name here adds it to the contract."""


def public_names(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def test_a_memory_shows_the_names_of_the_contract_and_no_other(memory: edgemem.Memory) -> None:
    """A name more, or one less, is a change of what users see."""
    assert public_names(memory) == NAMES


@pytest.mark.parametrize(
    "given", [{}, {"episode": "1", "session": "hall"}, {"key": "tea", "person": "Ann"}, {"scope": "global"}]
)
def test_forget_wants_to_know_one_thing(memory: edgemem.Memory, given: dict[str, str]) -> None:
    """Nothing is erased where nothing is named, or where two things are."""
    memory.store.add_fact("tea", "black")
    with pytest.raises(InvalidInputError, match="exactly one of key, episode, session and person"):
        memory.forget(**given)  # type: ignore[arg-type]
    assert memory.store.get_fact("tea") == "black"


@pytest.mark.parametrize("kind", ["key", "episode", "session", "person"])
def test_forget_takes_names_that_are_text(memory: edgemem.Memory, kind: str) -> None:
    """A number is refused with a sentence that says what it stands for."""
    with pytest.raises(InvalidInputError, match=f"{kind} must be text"):
        memory.forget(**{kind: 0})  # type: ignore[arg-type]


def test_what_is_asked_of_a_closed_memory_is_refused(memory: edgemem.Memory) -> None:
    """Whatever is called, the error says that the memory is closed; closing it once more does nothing."""
    memory.close()
    for ask in (
        *(memory.hooks, memory.tools, memory.hints, memory.export, memory.idle, memory.check),
        *(lambda: memory.recall("tea?"), lambda: memory.recall_sessions("tea?")),
        *(lambda: memory.forget("tea"), lambda: memory.import_lines([])),
    ):
        with pytest.raises(ClosedError):
            ask()
    memory.close()
